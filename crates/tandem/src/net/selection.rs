//! Which packets a rule is for, in words.

use testbed::RuleWords;

/// Which packets a rule is for.
pub(super) fn selection(rule: &RuleWords) -> String {
    let any = |text: &Option<String>| text.clone().unwrap_or_else(|| "any".to_owned());
    let mut text = format!("{} to {}", any(&rule.source), any(&rule.destination));
    let mut push = |name: &str, value: &Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!(", {name}{value}"));
        }
    };
    push("", &rule.protocol);
    push("source port ", &rule.source_port);
    push("port ", &rule.destination_port);
    push("on link ", &rule.link);
    text
}
