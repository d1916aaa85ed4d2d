//! Names in a script that nobody has defined: most of them are slips.

use std::collections::BTreeSet;

use super::HookName;

/// The globals that a script finds.
const KNOWN: &[&str] = &[
    "_G",
    "_VERSION",
    "assert",
    "collectgarbage",
    "coroutine",
    "error",
    "files",
    "getmetatable",
    "ipairs",
    "load",
    "math",
    "next",
    "os",
    "pairs",
    "pcall",
    "print",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "settings",
    "string",
    "table",
    "tandem",
    "tonumber",
    "tostring",
    "type",
    "utf8",
    "xpcall",
    "io",
    "dofile",
    "loadfile",
    "package",
    "require",
    "self",
    "arg",
    "_ENV",
    "warn",
];

/// Words that are no names.
const KEYWORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// A part of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Symbol(u8),
}

/// What is doubtful about a script: the line, from 1, and what it is. The order is that of the lines.
pub fn lint(text: &str) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let name_at = |at: usize| match tokens.get(at) {
        Some((_, Token::Name(name))) => Some(*name),
        _ => None,
    };
    let is_symbol = |at: Option<usize>, symbol: u8| {
        let token = at.and_then(|at| tokens.get(at));
        matches!(token, Some((_, Token::Symbol(found))) if *found == symbol)
    };
    let is_member = |at: usize| {
        let before = at.checked_sub(1);
        // Two dots join texts.
        let is_dotted = is_symbol(before, b'.') && !is_symbol(at.checked_sub(2), b'.');
        is_dotted || is_symbol(before, b':') && !is_symbol(at.checked_sub(2), b':')
    };
    // Whatever is assigned or declared anywhere is defined.
    let mut defined = BTreeSet::new();
    let mut doubts = Vec::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        match *name {
            "local" | "for" => {
                let mut next = at + 1;
                while let Some(name) = name_at(next) {
                    if matches!(name, "function" | "in") {
                        break;
                    }
                    defined.insert(name);
                    next += 1;
                    // An attribute in angle brackets, then a comma.
                    while is_symbol(Some(next), b'<') {
                        defined.extend(name_at(next + 1));
                        next += 3;
                    }
                    if !is_symbol(Some(next), b',') {
                        break;
                    }
                    next += 1;
                }
            }
            "function" => {
                let mut next = at + 1;
                if let Some(name) = name_at(next) {
                    let is_plain = is_symbol(Some(next + 1), b'(');
                    let is_local = at.checked_sub(1).and_then(name_at) == Some("local");
                    defined.insert(name);
                    if is_plain && !is_local && is_slip(name) {
                        doubts.push((*line, format!("{name} is the name of no hook")));
                    }
                }
                while next < tokens.len() && !is_symbol(Some(next), b'(') {
                    next += 1;
                }
                while next < tokens.len() && !is_symbol(Some(next), b')') {
                    defined.extend(name_at(next));
                    next += 1;
                }
            }
            "goto" => defined.extend(name_at(at + 1)),
            name if !is_member(at) => {
                let is_assigned = is_symbol(Some(at + 1), b'=') && !is_symbol(Some(at + 2), b'=')
                    || is_symbol(Some(at + 1), b',');
                if is_assigned {
                    defined.insert(name);
                }
            }
            _ => {}
        }
    }
    let mut told = BTreeSet::new();
    for (at, (line, token)) in tokens.iter().enumerate() {
        let Token::Name(name) = token else { continue };
        let is_known = KEYWORDS.contains(name) || KNOWN.contains(name) || defined.contains(name);
        if !is_known && !is_member(at) && told.insert(*name) {
            doubts.push((*line, format!("{name} is not defined")));
        }
    }
    doubts.sort();
    doubts
}

/// Whether a function looks like a hook, and is none.
fn is_slip(name: &str) -> bool {
    name.starts_with("on_") && !HookName::ALL.iter().any(|hook| hook.as_str() == name)
}

/// The names and symbols of a script, with their lines; texts, numbers and comments are left out.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let octets = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&octet) = octets.get(at) {
        let start = at;
        let rest = octets.get(at..).unwrap_or_default();
        match octet {
            b'-' if rest.starts_with(b"--") => {
                at += 2;
                let after = octets.get(at..).unwrap_or_default();
                at += match long_bracket(after) {
                    Some(length) => length,
                    None => after.iter().take_while(|octet| **octet != b'\n').count(),
                };
            }
            b'"' | b'\'' => {
                at += 1;
                while let Some(&inner) = octets.get(at) {
                    at += 1;
                    match inner {
                        b'\\' => at += 1,
                        b'\n' => break,
                        _ if inner == octet => break,
                        _ => {}
                    }
                }
            }
            b'[' if long_bracket(rest).is_some() => at += long_bracket(rest).unwrap_or(1),
            b'0'..=b'9' => {
                let is_number = |octet: &&u8| octet.is_ascii_alphanumeric() || **octet == b'.';
                at += rest.iter().take_while(is_number).count();
            }
            _ if octet.is_ascii_alphabetic() || octet == b'_' => {
                let is_name = |octet: &&u8| octet.is_ascii_alphanumeric() || **octet == b'_';
                at += rest.iter().take_while(is_name).count();
                let name = text.get(start..at).unwrap_or_default();
                tokens.push((line, Token::Name(name)));
            }
            _ => {
                at += 1;
                if !octet.is_ascii_whitespace() {
                    tokens.push((line, Token::Symbol(octet)));
                }
            }
        }
        let passed = octets.get(start..at.min(octets.len())).unwrap_or_default();
        line += passed.iter().filter(|octet| **octet == b'\n').count();
    }
    tokens
}

/// The length of a text in long brackets that begins here.
fn long_bracket(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"[")?;
    let level = rest.iter().take_while(|octet| **octet == b'=').count();
    if rest.get(level) != Some(&b'[') {
        return None;
    }
    let mut end = vec![b'='; level + 2];
    for edge in [0, level + 1] {
        if let Some(octet) = end.get_mut(edge) {
            *octet = b']';
        }
    }
    let inner = rest.get(level + 1..)?;
    let close = memchr::memmem::find(inner, &end).unwrap_or(inner.len());
    Some((1 + level + 1 + close + end.len()).min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_what_is_right_is_not() {
        let text = r#"
            local prefixes, count <const> = settings.prefixes, 1
            --[==[ nothing here is_looked at
            ]==]
            limit = 5 -- unknown words here
            local function helper(request, ...) return request:header("Some-Header") .. limit end
            function on_request(request)
              for index, prefix in ipairs(prefixes) do
                if helper(request) == prefix then request:reply(403, 'no') end
              end
              tandem.log("info", requst.method)
              goto done
              ::done::
            end
            function on_reqest(request) return sttings end
        "#;
        let doubts = lint(text);
        let doubts: Vec<_> = doubts
            .iter()
            .map(|(line, doubt)| (*line, doubt.as_str()))
            .collect();
        assert_eq!(
            doubts,
            [
                (11, "requst is not defined"),
                (15, "on_reqest is the name of no hook"),
                (15, "sttings is not defined")
            ]
        );
    }

    #[test]
    fn any_text_is_read() {
        for text in [
            "", "--", "--[[", "[[", "[=", "\"", "'\\", "0x", "..", "::", "\u{e4}", "local",
            "function",
        ] {
            lint(text);
        }
    }
}
