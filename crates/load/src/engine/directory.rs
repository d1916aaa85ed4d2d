//! Names and passwords of users, by number.

use super::identity::write_decimal;

/// Names and passwords of users, by number; shared by all engines of a run.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Users of a list come first: user n is row n-1.
    pub listed: Vec<Listed>,
    /// The names of users beyond the list: this, and the number.
    pub prefix: String,
    /// What follows the number.
    pub suffix: String,
    /// The name under which users beyond the list authenticate; their own where there is none.
    pub username: Option<String>,
    /// The password of users beyond the list. Without, they answer no challenge.
    pub password: Option<String>,
}

impl Default for Directory {
    /// `user1`, `user2` and so on, without passwords.
    fn default() -> Directory {
        Directory {
            listed: Vec::new(),
            prefix: "user".to_owned(),
            suffix: String::new(),
            username: None,
            password: None,
        }
    }
}

/// A user of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The user part of the address of record.
    pub name: String,
    /// The name for authentication; the same where there is none.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// Further columns, for scenarios: [`Slot::Field`](crate::script::Slot::Field).
    pub fields: Vec<String>,
}

impl Directory {
    /// The row of a user of the list.
    pub(super) fn listed(&self, number: u32) -> Option<&Listed> {
        self.listed.get((number as usize).checked_sub(1)?)
    }

    /// Writes the name of a user.
    pub(super) fn write_name(&self, number: u32, out: &mut Vec<u8>) {
        match self.listed(number) {
            Some(listed) => out.extend_from_slice(listed.name.as_bytes()),
            None => {
                out.extend_from_slice(self.prefix.as_bytes());
                write_decimal(number.into(), out);
                out.extend_from_slice(self.suffix.as_bytes());
            }
        }
    }

    /// The name of a user.
    pub fn name(&self, number: u32) -> String {
        let mut name = Vec::new();
        self.write_name(number, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The number of the user of a name, beyond the list: names of the list are not looked for.
    pub(super) fn number(&self, name: &[u8]) -> Option<u32> {
        let digits = name
            .strip_prefix(self.prefix.as_bytes())?
            .strip_suffix(self.suffix.as_bytes())?;
        if digits.is_empty() || digits.len() > 10 || digits.first() == Some(&b'0') {
            return None;
        }
        digits.iter().try_fold(0_u32, |number, digit| {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number.checked_mul(10)?.checked_add(digit.into())
        })
    }

    /// The name and the password with which a user authenticates.
    pub(super) fn login(&self, number: u32) -> Option<(String, String)> {
        match self.listed(number) {
            Some(listed) => {
                let username = listed.username.as_ref().unwrap_or(&listed.name);
                Some((username.clone(), listed.password.clone()?))
            }
            None => {
                let username = self.username.clone();
                let password = self.password.clone()?;
                Some((username.unwrap_or_else(|| self.name(number)), password))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        let mut directory = Directory {
            suffix: "x".to_owned(),
            password: Some("{}".to_owned()),
            ..Directory::default()
        };
        assert_eq!(directory.name(17), "user17x");
        assert_eq!(directory.number(b"user17x"), Some(17));
        for name in [
            "user17",
            "userx",
            "user017x",
            "user99999999999x",
            "user1ax",
            "",
        ] {
            assert_eq!(directory.number(name.as_bytes()), None, "{name}");
        }
        let login = |username: &str, password: &str| (username.to_owned(), password.to_owned());
        assert_eq!(directory.login(2), Some(login("user2x", "{}")));
        directory.listed.push(Listed {
            name: "alice".to_owned(),
            ..Listed::default()
        });
        assert_eq!(
            (directory.name(1), directory.login(1)),
            ("alice".to_owned(), None)
        );
    }
}
