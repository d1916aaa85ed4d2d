//! The plugins that are shipped: their own tests, what is said of them, and the manual.

use std::fs;
use std::path::{Path, PathBuf};

use proxy::core::PluginScript;
use proxy::plugin::{lint, run_tests};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins")
}

/// The shipped scripts: names and texts.
fn shipped() -> Vec<(String, String)> {
    let files = fs::read_dir(directory()).expect("plugins are shipped");
    let mut scripts: Vec<_> = files
        .filter_map(|file| {
            let path = file.expect("a file").path();
            let name = path.file_stem()?.to_str()?.to_owned();
            let is_script = path.extension().is_some_and(|extension| extension == "lua");
            let is_meant = is_script && !name.ends_with("_test");
            let text = || fs::read_to_string(&path).expect("it can be read");
            is_meant.then(|| (name, text()))
        })
        .collect();
    scripts.sort();
    scripts
}

#[test]
fn each_passes_its_tests() {
    let scripts = shipped();
    assert_eq!(scripts.len(), 7);
    for (name, text) in scripts {
        let file = format!("{name}_test.lua");
        let tests = fs::read(directory().join(&file)).expect("each has tests");
        let script = PluginScript::new(&name, &text);
        let results = run_tests(&script, &file, &tests).expect("the tests can be loaded");
        assert!(results.len() >= 3, "{name}");
        for result in results {
            assert_eq!(result.error, None, "{name}: {}", result.name);
        }
    }
}

#[test]
fn nothing_is_doubtful_about_them() {
    for (name, text) in shipped() {
        assert_eq!(lint(&text), [], "{name}");
    }
}

#[test]
fn a_test_that_fails_says_where() {
    let script = PluginScript::new("x", "function on_request(request) request:reply(480) end");
    let tests = b"function test_it()\n  assert(simulate():send('OPTIONS sip:bob@example.com')[1].status == 200, 'no 200')\nend
        function test_text() simulate():send('nothing') end
        function test_script() error('line') end";
    let results = run_tests(&script, "x_test.lua", tests).expect("they can be loaded");
    let errors: Vec<_> = results
        .iter()
        .map(|result| result.error.as_deref())
        .collect();
    assert_eq!(errors[0], Some("x_test.lua:2: no 200"));
    assert_eq!(errors[1], Some("x_test.lua:5: line"));
    assert!(errors[2].is_some());
    assert!(run_tests(&script, "x_test.lua", b"function other() end").is_err());
    assert!(run_tests(&script, "x_test.lua", b"function").is_err());
}

#[test]
fn the_manual_names_every_function_that_a_script_finds() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md");
    let manual = fs::read_to_string(manual).expect("there is a manual");
    let types = fs::read_to_string(directory().join("types/tandem.lua")).expect("there are types");
    let script = PluginScript::new(
        "script",
        "function on_request(request)
          local names = {}
          local function add(prefix, values)
            for name, value in pairs(values) do
              if type(value) == 'table' then add(prefix .. name .. '.', value)
              else names[#names + 1] = prefix .. name end
            end
          end
          add('tandem.', tandem)
          table.sort(names)
          tandem.log('info', table.concat(names, ' '))
        end",
    );
    let mut scene = super::Scene::with(script);
    scene.call();
    let logged = scene.logged().remove(0);
    let methods = [
        "header",
        "headers",
        "response_header",
        "set_header",
        "add_header",
        "remove_header",
        "reply",
        "redirect",
        "forward",
        "fork",
        "route",
        "drop",
        "tag",
    ];
    let fields = [
        "method",
        "uri",
        "call_id",
        "in_dialog",
        "body",
        "source",
        "port",
        "transport",
        "user",
        "target",
        "status",
        "reason",
    ];
    let hooks = [
        "on_request",
        "on_register",
        "on_route",
        "on_branch",
        "on_reply",
        "on_failure",
        "on_dialog_end",
    ];
    let names = logged.split(' ').chain(methods).chain(fields).chain(hooks);
    for name in names {
        let last = name.rsplit('.').next().unwrap_or(name);
        assert!(
            manual.contains(&format!("`{name}")) || manual.contains(&format!(":{name}(")),
            "{name} is not in the manual"
        );
        assert!(types.contains(last), "{name} is not among the types");
    }
}
