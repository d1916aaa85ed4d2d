//! The machine that a measurement was made on.

use std::fmt;
use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// What a reader must know of the machine to judge a measurement made on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's name and release, such as `Linux 6.12.4`.
    pub kernel: String,
    /// The processor's model name.
    pub cpu: String,
    /// Logical processors that this process may use.
    pub cores: usize,
}

impl Machine {
    /// Describes the machine that this process runs on, from `/proc`; what cannot be read is `unknown`.
    pub fn detect() -> Machine {
        let system = read_trimmed("/proc/sys/kernel/ostype")
            .unwrap_or_else(|| std::env::consts::OS.to_owned());
        let release = read_trimmed("/proc/sys/kernel/osrelease").unwrap_or_else(unknown);
        let cpu = fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| cpu_model(&text))
            .unwrap_or_else(unknown);
        Machine {
            kernel: format!("{system} {release}"),
            cpu,
            cores: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.cores == 1 { "core" } else { "cores" };
        write!(
            formatter,
            "{}, {}, {} {noun}",
            self.kernel, self.cpu, self.cores
        )
    }
}

/// The model named by the text of `/proc/cpuinfo`, whose keys differ between architectures.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value_of = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value_of("model name")
        .or_else(|| value_of("Model"))
        .or_else(|| value_of("Hardware"))
        .or_else(|| value_of("uarch"))
        .or_else(|| {
            value_of("CPU part").map(|part| format!("{} part {part}", std::env::consts::ARCH))
        })
}

fn read_trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_a_core() {
        let machine = Machine::detect();
        assert!(machine.kernel.contains(' '), "{machine:?}");
        assert!(machine.cores >= 1);
        assert!(!machine.cpu.is_empty());
    }

    #[test]
    fn the_model_is_read_by_architecture() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel\t\t: 85\nmodel name\t: Example CPU @ 2.00GHz\n")
                .as_deref(),
            Some("Example CPU @ 2.00GHz")
        );
        assert_eq!(
            cpu_model("processor\t: 0\nModel\t: Example Board\n").as_deref(),
            Some("Example Board")
        );
        assert!(
            cpu_model("processor : 0\nCPU part : 0xd0c\n")
                .unwrap()
                .ends_with("part 0xd0c")
        );
        assert_eq!(cpu_model("nonsense"), None);
    }

    #[test]
    fn one_line_says_it_all() {
        let machine = Machine {
            kernel: "Linux 6.12".into(),
            cpu: "Example".into(),
            cores: 2,
        };
        assert_eq!(machine.to_string(), "Linux 6.12, Example, 2 cores");
    }
}
