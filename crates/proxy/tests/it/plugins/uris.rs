//! What `tandem.uri` makes of URIs and of fields that hold one.

use proxy::core::PluginScript;

use super::{Scene, invite};

/// The fields of the table, in the order of their names, as a script sees them.
const SCRIPT: &str = "
  local function text(value)
    if type(value) ~= 'table' then return tostring(value) end
    local words = {}
    for name, it in pairs(value) do words[#words + 1] = name .. '=' .. text(it) end
    table.sort(words)
    return '{' .. table.concat(words, ' ') .. '}'
  end
  function on_request(request) request:reply(480, text(tandem.uri(TEXT))) end";

#[test]
fn the_parts_of_uris_and_fields_are_told() {
    for (text, expected) in [
        (
            "sip:+4930@example.com",
            "{host=example.com parameters={} scheme=sip uri=sip:+4930@example.com user=+4930}",
        ),
        (
            "SIPS:[2001:DB8::1]:5061",
            "{host=[2001:db8::1] parameters={} port=5061 scheme=sips uri=SIPS:[2001:DB8::1]:5061}",
        ),
        // Parameters of a URI alone are its own.
        (
            " sip:bob@192.0.2.1;Transport=tcp;lr ",
            "{host=192.0.2.1 parameters={lr= transport=tcp} scheme=sip uri=sip:bob@192.0.2.1;Transport=tcp;lr user=bob}",
        ),
        (
            "\"Bob B.\" <sip:bob@example.com;user=phone>;tag=7;x=y",
            "{host=example.com name=Bob B. parameters={user=phone} scheme=sip tag=7 uri=sip:bob@example.com;user=phone user=bob}",
        ),
        (
            "<sip:example.com>",
            "{host=example.com parameters={} scheme=sip uri=sip:example.com}",
        ),
        // Without brackets they are the field's (RFC 3261 section 20.10), which its tag tells.
        (
            "sip:bob@example.com;tag=7",
            "{host=example.com parameters={} scheme=sip tag=7 uri=sip:bob@example.com user=bob}",
        ),
        (
            "tel:+49-30;phone-context=x",
            "{parameters={phone-context=x} scheme=tel uri=tel:+49-30;phone-context=x user=+49-30}",
        ),
        (
            "urn:service:sos",
            "{parameters={} scheme=urn uri=urn:service:sos}",
        ),
        ("nobody", "nil"),
        ("", "nil"),
        ("sip:", "nil"),
    ] {
        let script = SCRIPT.replace("TEXT", &format!("{text:?}"));
        let mut scene = Scene::with(PluginScript::new("script", &script));
        let sent = scene.request(invite("uri")).remove(0);
        assert_eq!(sent.message.status(), Some(480), "{:?}", scene.errors());
        assert_eq!(sent.message.reason(), Some(expected), "{text}");
    }
}

/// Each is a table of the script's own.
#[test]
fn a_table_of_parts_can_be_changed() {
    let mut scene = Scene::with(PluginScript::new(
        "script",
        "function on_request(request)
           local one, other = tandem.uri('sip:a@b'), tandem.uri('sip:a@b')
           one.user, one.parameters.lr = 'x', ''
           request:reply(480, one.user .. other.user .. tostring(other.parameters.lr))
         end",
    ));
    let sent = scene.request(invite("uri")).remove(0);
    assert_eq!(sent.message.reason(), Some("xanil"));
}
