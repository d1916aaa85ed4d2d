//! Files that a scenario names: they lie beside it.

use std::path::{Path, PathBuf};

/// The longest file that a scenario may name, in octets.
const LONGEST: u64 = 16 << 20;

/// Where a scenario's files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// The folder of the scenario. Without one no files are read.
    folder: Option<PathBuf>,
}

impl Companions {
    /// Those beside a file.
    pub fn beside(file: &Path) -> Companions {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        Companions {
            folder: Some(folder.unwrap_or(Path::new(".")).to_owned()),
        }
    }

    /// Reads a file by its name, in the scenario's folder or, as with SIPp, in that where the program was started. It has to lie in
    /// one of these or below: a scenario from elsewhere must not send whatever it likes from this host.
    ///
    /// # Errors
    /// Why it cannot be read, with its name.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let failed = |reason: &dyn std::fmt::Display| format!("the file {name:?}: {reason}");
        let Some(folder) = &self.folder else {
            return Err(failed(&"no files are read for this scenario"));
        };
        let roots = [folder.as_path(), Path::new(".")];
        let found = roots
            .iter()
            .map(|root| root.join(name))
            .find(|path| path.exists());
        let path = found.ok_or_else(|| {
            failed(&format_args!(
                "it is neither in {} nor in the current folder",
                folder.display()
            ))
        })?;
        let path = path.canonicalize().map_err(|error| failed(&error))?;
        let is_below = |root: &&Path| root.canonicalize().is_ok_and(|root| path.starts_with(root));
        if !roots.iter().any(is_below) {
            return Err(failed(
                &"it is outside of the scenario's folder and of the current one, so it is not read",
            ));
        }
        let metadata = path.metadata().map_err(|error| failed(&error))?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return Err(failed(&"it is no file, or longer than 16 MiB"));
        }
        std::fs::read(path).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_beside_a_scenario_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("scenarios")).unwrap();
        let scenario = folder.path().join("scenarios/a.xml");
        std::fs::write(folder.path().join("scenarios/b.csv"), "b").unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        let companions = Companions::beside(&scenario);
        assert_eq!(companions.read("b.csv"), Ok(b"b".to_vec()));
        for (name, reason) in [
            ("../secret", "outside"),
            ("/dev/zero", "outside"),
            ("none", "neither in"),
            (".", "it is no file"),
        ] {
            let error = companions.read(name).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Companions::default().read("b.csv").is_err());
    }
}
