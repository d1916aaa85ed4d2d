//! Who the emulated users are: named by a pattern, or listed in a file.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use load::engine::{Directory, Listed};

/// Users that PRINTF makes at most; far more than one process emulates.
const MOST_USERS: usize = 10_000_000;

/// A text with the number of a user in it: `user%d`, or `user%06d` with leading zeros, as SIPp's PRINTF has
/// it. `%%` is a percent sign. A text without a number is the same for all users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<PatternPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    Text(String),
    /// The number, with leading zeros up to so many digits.
    Number(usize),
}

impl Pattern {
    /// The text for this user.
    pub(super) fn of(&self, number: u32) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                PatternPart::Text(part) => text.push_str(part),
                PatternPart::Number(digits) => text.push_str(&format!("{number:0digits$}")),
            }
        }
        text
    }

    /// Whether users differ by it.
    pub(super) fn has_number(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, PatternPart::Number(_)))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        const MOST_DIGITS: usize = 20;
        let wrong = || {
            format!(
                "\"{text}\" has a % that begins no number: write %d or %06d for the user's number, %% for a \
                 percent sign"
            )
        };
        let mut parts: Vec<PatternPart> = Vec::new();
        let push_text = |parts: &mut Vec<PatternPart>, more: &str| match parts.last_mut() {
            Some(PatternPart::Text(text)) => text.push_str(more),
            _ if more.is_empty() => {}
            _ => parts.push(PatternPart::Text(more.to_owned())),
        };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            push_text(&mut parts, before);
            if let Some(after) = after.strip_prefix('%') {
                push_text(&mut parts, "%");
                rest = after;
                continue;
            }
            let (digits, after) = after.split_once('d').ok_or_else(wrong)?;
            let digits = match digits.strip_prefix('0') {
                None if digits.is_empty() => 0,
                None => return Err(wrong()),
                Some(digits) => digits
                    .parse()
                    .ok()
                    .filter(|digits| (1..=MOST_DIGITS).contains(digits))
                    .ok_or_else(wrong)?,
            };
            parts.push(PatternPart::Number(digits));
            rest = after;
        }
        push_text(&mut parts, rest);
        Ok(Pattern { parts })
    }
}

/// What `--auth` says: names of users and their passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: Pattern,
    pub(super) password: Pattern,
}

impl FromStr for Credentials {
    type Err = String;

    /// Reads `USER-PATTERN:PASS`; the password begins after the first colon.
    fn from_str(text: &str) -> Result<Credentials, String> {
        let (user, password) = text.split_once(':').ok_or_else(|| {
            format!("\"{text}\" has no colon: USER-PATTERN:PASS is expected, such as user%d:secret")
        })?;
        if user.is_empty() {
            return Err("the user is missing before the colon".to_owned());
        }
        Ok(Credentials {
            user: user.parse()?,
            password: password.parse()?,
        })
    }
}

impl Credentials {
    /// The users of these names and passwords, `count` of them. Where only the number tells them apart
    /// nothing is kept for each.
    pub(super) fn directory(&self, count: u32) -> Directory {
        let password = (!self.password.has_number()).then(|| self.password.of(0));
        match (self.user.around_number(), password) {
            (Some((prefix, suffix)), Some(password)) => Directory {
                prefix,
                suffix,
                password: Some(password),
                ..Directory::default()
            },
            _ => Directory {
                listed: (1..=count)
                    .map(|number| Listed {
                        name: self.user.of(number),
                        password: Some(self.password.of(number)),
                        ..Listed::default()
                    })
                    .collect(),
                ..Directory::default()
            },
        }
    }
}

impl Pattern {
    /// The users of these names, without passwords.
    pub(super) fn directory(&self, count: u32) -> Directory {
        match self.around_number() {
            Some((prefix, suffix)) => Directory {
                prefix,
                suffix,
                ..Directory::default()
            },
            None => Directory {
                listed: (1..=count)
                    .map(|number| Listed {
                        name: self.of(number),
                        ..Listed::default()
                    })
                    .collect(),
                ..Directory::default()
            },
        }
    }

    /// What stands before and behind the number, where it has no leading zeros.
    fn around_number(&self) -> Option<(String, String)> {
        let text = |parts: &[PatternPart]| match parts {
            [] => Some(String::new()),
            [PatternPart::Text(text)] => Some(text.clone()),
            _ => None,
        };
        let is_plain = |part: &PatternPart| *part == PatternPart::Number(0);
        let at = self.parts.iter().position(is_plain)?;
        Some((text(&self.parts[..at])?, text(&self.parts[at + 1..])?))
    }
}

/// Reads the users of a file. There are two kinds:
///
/// - A table whose first line names its columns, separated by commas or semicolons: `user`, `password`, and
///   `username` where that is another one for authentication. Other columns are left alone.
/// - An injection file of SIPp: the first line says SEQUENTIAL, RANDOM or USER (the order is that of the
///   lines here in any case), `,PRINTF=N` behind it makes N users of the lines; fields are separated by
///   semicolons. The first is the user; one that is `[authentication username=… password=…]` says how it
///   authenticates.
///
/// Fields are kept for a scenario that has use for them.
pub(super) fn read(path: &Path, keeps_fields: bool) -> anyhow::Result<Vec<Listed>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut users = parse(&text).with_context(|| path.display().to_string())?;
    if !keeps_fields {
        for user in &mut users {
            user.fields = Vec::new();
        }
    }
    Ok(users)
}

fn parse(text: &str) -> anyhow::Result<Vec<Listed>> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((number, first)) = lines.next() else {
        bail!("the file has no lines: begin with user,password and write a user a line");
    };
    let first = first.trim_start_matches('\u{feff}');
    let mut words = first.split(',').map(str::trim);
    let accounts = match words.next() {
        Some("SEQUENTIAL" | "RANDOM" | "USER") => {
            let options: Vec<&str> = words.collect();
            sipp_accounts(lines, &options).with_context(|| format!("line {number}"))?
        }
        _ => table_accounts(number, first, lines)?,
    };
    ensure!(!accounts.is_empty(), "the file names no user");
    Ok(accounts)
}

fn table_accounts<'a>(
    number: usize,
    header: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> anyhow::Result<Vec<Listed>> {
    let separator = if header.contains(';') { ';' } else { ',' };
    let columns = fields(header, separator).with_context(|| format!("line {number}"))?;
    let column = |name: &str| {
        columns
            .iter()
            .position(|column| column.eq_ignore_ascii_case(name))
    };
    let Some(user) = column("user") else {
        bail!(
            "line {number}: the first line has to name the columns, and user among them, such as \
             user,password (or be SEQUENTIAL as in an injection file of SIPp)"
        );
    };
    let (username, password) = (column("username"), column("password"));
    lines
        .map(|(number, line)| {
            let fields = fields(line, separator).with_context(|| format!("line {number}"))?;
            let value = |column: Option<usize>| {
                column
                    .and_then(|column| fields.get(column))
                    .filter(|value| !value.is_empty())
                    .cloned()
            };
            let user = value(Some(user)).with_context(|| format!("line {number}: no user"))?;
            check_user(&user).with_context(|| format!("line {number}"))?;
            Ok(Listed {
                name: user,
                username: value(username),
                password: value(password),
                fields,
            })
        })
        .collect()
}

fn sipp_accounts<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    options: &[&str],
) -> anyhow::Result<Vec<Listed>> {
    let mut copies = None;
    for option in options {
        copies = match option.split_once('=') {
            Some(("PRINTF", count)) => Some(
                count
                    .parse::<u32>()
                    .ok()
                    .filter(|count| (1..=MOST_USERS as u32).contains(count))
                    .with_context(|| format!("PRINTF={count} is not a number of users"))?,
            ),
            _ => bail!("{option} is not understood; PRINTF=N is"),
        };
    }
    let rows = lines
        .map(|(number, line)| sipp_account(line).with_context(|| format!("line {number}")))
        .collect::<anyhow::Result<Vec<Listed>>>()?;
    let Some(copies) = copies else {
        return Ok(rows);
    };
    ensure!(!rows.is_empty(), "PRINTF has no line to make users of");
    // Each copy is the next line once more, with its number in place of %d.
    let numbered = |text: &str, number| {
        let pattern: Pattern = text.parse().map_err(anyhow::Error::msg)?;
        anyhow::Ok(pattern.of(number))
    };
    (0..copies)
        .zip(rows.iter().cycle())
        .map(|(number, row)| {
            let also = |text: &Option<String>| {
                text.as_deref()
                    .map(|text| numbered(text, number))
                    .transpose()
            };
            let fields = row.fields.iter().map(|field| numbered(field, number));
            Ok(Listed {
                name: numbered(&row.name, number)?,
                username: also(&row.username)?,
                password: also(&row.password)?,
                fields: fields.collect::<anyhow::Result<_>>()?,
            })
        })
        .collect()
}

fn sipp_account(line: &str) -> anyhow::Result<Listed> {
    let fields: Vec<String> = line
        .split(';')
        .map(|field| field.trim().to_owned())
        .collect();
    let user = fields.first().cloned().unwrap_or_default();
    check_user(&user)?;
    let (mut username, mut password) = (None, None);
    for field in &fields {
        let inside = field
            .strip_prefix("[authentication")
            .and_then(|rest| rest.strip_suffix(']'));
        for word in inside.into_iter().flat_map(str::split_whitespace) {
            match word.split_once('=') {
                Some(("username", value)) => username = Some(value.to_owned()),
                Some(("password", value)) => password = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    Ok(Listed {
        name: user,
        username,
        password,
        fields,
    })
}

/// What can stand before the @ of an address without an escape (RFC 3261 section 25.1: user).
fn check_user(user: &str) -> anyhow::Result<()> {
    let fits = |character: char| {
        character.is_ascii_alphanumeric() || "-_.!~*'()&=+$,;?/%".contains(character)
    };
    match user.chars().find(|character| !fits(*character)) {
        _ if user.is_empty() => bail!("no user"),
        Some(character) => bail!(
            "{user:?} cannot be the user of a SIP address: {character:?} has to be escaped as %XX"
        ),
        None => Ok(()),
    }
}

/// The fields of a line of a table; one in quotes may have the separator in it, and two quotes for one
/// (RFC 4180 section 2).
fn fields(line: &str, separator: char) -> anyhow::Result<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let rest_of_field = rest.trim_start();
        let (field, after) = match rest_of_field.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.trim_start().strip_prefix(separator) {
            Some(next) => rest = next,
            None if after.trim().is_empty() => return Ok(fields),
            None => bail!("behind a field in quotes stands {:?}", after.trim()),
        }
    }
}

fn quoted_field(quoted: &str) -> anyhow::Result<(String, &str)> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let (text, after) = rest.split_once('"').context("a quote is not closed")?;
        field.push_str(text);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    type Login<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

    fn logins(users: &[Listed]) -> Vec<Login<'_>> {
        users
            .iter()
            .map(|user| {
                (
                    user.name.as_str(),
                    user.username.as_deref(),
                    user.password.as_deref(),
                )
            })
            .collect()
    }

    #[test]
    fn users_who_differ_by_their_number_are_not_listed() {
        let directory = "user%d:secret".parse::<Credentials>().unwrap().directory(9);
        assert!(directory.listed.is_empty());
        assert_eq!(
            (directory.prefix.as_str(), directory.suffix.as_str()),
            ("user", "")
        );
        assert_eq!(directory.password.as_deref(), Some("secret"));
        let directory = "u%03d:p%d".parse::<Credentials>().unwrap().directory(2);
        assert_eq!(
            logins(&directory.listed),
            [("u001", None, Some("p1")), ("u002", None, Some("p2"))]
        );
        assert_eq!(pattern("%dx").directory(5).suffix, "x");
        assert_eq!(pattern("alice").directory(2).listed[1].name, "alice");
    }

    #[test]
    fn patterns_have_the_number_of_the_user() {
        assert_eq!(pattern("user%d").of(7), "user7");
        assert_eq!(pattern("%06d").of(7), "000007");
        assert_eq!(pattern("a%db%02dc").of(5), "a5b05c");
        assert_eq!(pattern("100%%").of(5), "100%");
        assert!(!pattern("alice").has_number());
        for wrong in ["%", "%s", "%6d", "a%", "%0d", "%099d"] {
            assert!(wrong.parse::<Pattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_may_have_colons() {
        let credentials: Credentials = "user%d:a:b".parse().unwrap();
        assert_eq!(credentials.user.of(3), "user3");
        assert_eq!(credentials.password.of(3), "a:b");
        for wrong in ["user%d", ":secret", "u%:x"] {
            assert!(wrong.parse::<Credentials>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_table_names_its_columns() {
        let text = "# users\nuser,city,password\nalice,Wien,\"a,\"\"b\"\nbob,,\n";
        let users = parse(text).unwrap();
        assert_eq!(
            logins(&users),
            [("alice", None, Some("a,\"b")), ("bob", None, None)]
        );
        assert_eq!(users[0].fields, ["alice", "Wien", "a,\"b"]);
        let text = "\u{feff}user;username;password\r\nalice;a1;x\r\n";
        assert_eq!(
            logins(&parse(text).unwrap()),
            [("alice", Some("a1"), Some("x"))]
        );
    }

    #[test]
    fn an_injection_file_of_sipp_is_read() {
        let text = "SEQUENTIAL\nalice;[authentication username=a1 password=x];9\nbob;1\n";
        let users = parse(text).unwrap();
        assert_eq!(
            logins(&users),
            [("alice", Some("a1"), Some("x")), ("bob", None, None)]
        );
        assert_eq!(users[1].fields, ["bob", "1"]);
        let text =
            "SEQUENTIAL,PRINTF=3\nuser%03d;[authentication username=user%03d password=p%d]\n";
        let users = parse(text).unwrap();
        assert_eq!(users.len(), 3);
        assert_eq!(logins(&users)[2], ("user002", Some("user002"), Some("p2")));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, said) in [
            ("", "no lines"),
            ("alice,secret\n", "line 1"),
            ("user,password\n", "names no user"),
            ("user,password\nalice,x\n,y\n", "line 3: no user"),
            ("user,password\na b,x\n", "line 2"),
            ("user,password\n\"a,x\n", "line 2"),
            ("user,password\n\"a\"b,x\n", "line 2"),
            ("SEQUENTIAL,PRINTF=x\nu;\n", "PRINTF"),
            ("SEQUENTIAL,PRINTF=5\n", "PRINTF"),
            ("SEQUENTIAL,LOOP\nu;\n", "LOOP"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
