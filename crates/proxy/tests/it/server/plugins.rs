//! Plugins in the running server: HTTP and Redis on sockets, several workers, metrics, scripts that are exchanged, and
//! scripts that do not end.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proxy::core::{PluginScript, Policy};
use proxy::metrics::Observed;
use proxy::{ProxyConfig, Server};
use sip::{Method, Name, Transport};
use test_support::{Peer, free_udp_port, require_command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::phone::{Phone, address, serve_with};

/// A server with scripts, whose questions are given up after two seconds.
async fn serve(scripts: Vec<PluginScript>) -> Server {
    serve_with(&["tcp:127.0.0.1:0", "tls:127.0.0.1:0"], |config| {
        set_scripts(config, scripts);
        config.queries.timeout = Duration::from_secs(2);
    })
    .await
}

fn set_scripts(config: &mut ProxyConfig, scripts: Vec<PluginScript>) {
    config.policy = Arc::new(Policy {
        plugins: scripts.into(),
        ..Policy::clone(&config.policy)
    });
}

fn script(text: &str) -> PluginScript {
    PluginScript::new("script", text)
}

/// A request that a script answers: the reason of the answer. `words` is what the script reads.
async fn ask(alice: &mut Phone, call: &str, words: &str) -> (u16, String) {
    let uri = alice.uri();
    let request = alice
        .request(Method::Message, &uri, &uri, call)
        .with(Name::Other("X-Words"), words);
    alice.send(request);
    let response = alice.response("MESSAGE").await;
    let status = response.status().expect("a response");
    (status, response.reason().unwrap_or_default().to_owned())
}

/// Fetches what a request names.
const FETCH: &str = r#"
    function on_request(request)
      local url = request:header("X-Words")
      if not url then return end
      local response, why
      if url:find("post", 1, true) then
        response, why = tandem.post(url, { number = 5, list = { 1, 2 } })
      else
        response, why = tandem.http { url = url, headers = { ["X-Key"] = "secret" } }
      end
      if not response then return request:reply(200, why) end
      local found = response.json and response.json.found or "no JSON"
      request:reply(200, response.status .. " " .. #response.body .. " " .. tostring(found))
    end
"#;

/// A server for HTTP, and how many connections it has had.
async fn http_server() -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let connections = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(serve_http(stream));
        }
    });
    (address, connections)
}

/// Answers by the path of each request.
async fn serve_http(mut stream: TcpStream) {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(length @ 1..) => read.extend_from_slice(&buffer[..length]),
                _ => return,
            }
        };
        let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
        let length = text
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
        let end = head + length.unwrap_or(0);
        while read.len() < end {
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(length @ 1..) => read.extend_from_slice(&buffer[..length]),
                _ => return,
            }
        }
        let body = String::from_utf8_lossy(&read[head..end]).into_owned();
        let path = text.split(' ').nth(1).unwrap_or_default();
        let (status, body) = match path {
            "/get" if text.contains("x-key: secret") => (200, r#"{"found": "it"}"#.to_owned()),
            "/post" if text.contains("content-type: application/json") => {
                let found = body == r#"{"list":[1,2],"number":5}"#;
                (201, format!(r#"{{"found": {found}}}"#))
            }
            "/text" => (404, "nothing here".to_owned()),
            "/long" => (200, "x".repeat(2 << 20)),
            "/silent" => std::future::pending().await,
            "/rubbish" => {
                let _ = stream.write_all(b"\x00\xffHTTP? no\r\n\r\n").await;
                return;
            }
            _ => return,
        };
        read.drain(..end);
        let response = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn http_is_asked_and_whatever_goes_wrong_is_no_answer() {
    let (http, connections) = http_server().await;
    let server = serve(vec![script(FETCH)]).await;
    let mut alice = Phone::open(&server, "alice", Transport::Tcp)
        .await
        .expect("a flow");
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let refused = nobody.local_addr().expect("an address");
    drop(nobody);
    // Its certificate is one of its own making, which no authority has signed.
    let unverified = address(&server, Transport::Tls);
    for (call, url, expected) in [
        ("get", format!("http://{http}/get"), "200 15 it"),
        ("post", format!("http://{http}/post"), "201 15 true"),
        ("text", format!("http://{http}/text"), "404 12 no JSON"),
        ("long", format!("http://{http}/long"), "no answer"),
        ("silent", format!("http://{http}/silent"), "no answer"),
        ("rubbish", format!("http://{http}/rubbish"), "no answer"),
        ("closed", format!("http://{http}/closed"), "no answer"),
        ("refused", format!("http://{refused}/"), "no answer"),
        ("tls", format!("https://{unverified}/"), "no answer"),
        ("scheme", "gopher://127.0.0.1/".to_owned(), "no answer"),
        ("url", "no url".to_owned(), "no answer"),
    ] {
        let answer = ask(&mut alice, call, &url).await;
        assert_eq!(answer, (200, expected.to_owned()), "{url}");
    }
    // A connection is kept for the next request: each worker has one.
    let before = connections.load(Ordering::Relaxed);
    for number in 0..20 {
        let url = format!("http://{http}/get");
        let (_, said) = ask(&mut alice, &format!("again{number}"), &url).await;
        assert_eq!(said, "200 15 it");
    }
    assert!(connections.load(Ordering::Relaxed) <= before + 2);
    server.shutdown().await;
}

#[tokio::test]
async fn redis_is_asked_and_found_again_after_it_was_away() {
    let Some(program) = require_command("redis-server", "redis-server") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let port = free_udp_port();
    let start = || {
        Peer::spawn(
            Command::new(&program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--requirepass", "open"])
                .arg("--dir")
                .arg(directory.path()),
        )
    };
    let mut redis = start();
    redis.wait_for_output("Ready to accept connections", Duration::from_secs(20));
    let text = format!(
        r#"
        local url = "redis://:open@127.0.0.1:{port}/1"
        function on_request(request)
          local words = {{}}
          for word in (request:header("X-Words") or ""):gmatch("%S+") do words[#words + 1] = word end
          if #words == 0 then return end
          local place = words[1]:find("://", 1, true) and table.remove(words, 1) or url
          local value, why = tandem.redis(place, table.unpack(words))
          if type(value) == "table" then value = "[" .. table.concat(value, " ") .. "]" end
          request:reply(200, (math.type(value) or "") .. tostring(value) .. (why and " " .. why or ""))
        end
        "#
    );
    let server = serve(vec![script(&text)]).await;
    let mut alice = Phone::open(&server, "alice", Transport::Tcp)
        .await
        .expect("a flow");
    for (number, (words, expected)) in [
        ("SET user:bob sip:bob@192.0.2.20", "OK"),
        ("GET user:bob", "sip:bob@192.0.2.20"),
        ("GET user:nobody", "false"),
        ("INCR calls", "integer1"),
        ("INCRBY calls 5", "integer6"),
        ("RPUSH list a b c", "integer3"),
        ("LRANGE list 0 -1", "[a b c]"),
        ("HSET rates 49 0.01", "integer1"),
        ("HGET rates 49", "0.01"),
        ("EVAL return{1,'x'} 0", "[1 x]"),
        // What the server refuses is told in its words.
        (
            "GET list",
            "nil WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "BLPOP none 0",
            "nil the command waits, or changes the connection",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = ask(&mut alice, &format!("redis{number}"), words).await;
        assert_eq!(answer, (200, expected.to_owned()), "{words}");
    }
    let (_, said) = ask(&mut alice, "unknown", "NONSENSE x").await;
    assert!(said.starts_with("nil ERR unknown command"), "{said}");
    // More places than connections are kept: the one that was asked least recently gives way, and is found again.
    for round in ["integer1", "integer2"] {
        for number in 0..=20 {
            let place = format!("redis://:open@127.0.0.1:{port}/{}?{number}", number % 16);
            let words = format!("{place} INCR place{number}");
            let call = format!("{round}-{number}");
            let (_, said) = ask(&mut alice, &call, &words).await;
            assert_eq!(said, round, "{place}");
        }
    }
    // A server that is away is no answer, and found when it is there again.
    drop(redis);
    let begun = Instant::now();
    let (_, said) = ask(&mut alice, "away", "GET calls").await;
    assert_eq!(said, "nil no answer");
    let mut redis = start();
    redis.wait_for_output("Ready to accept connections", Duration::from_secs(20));
    let mut number = 0;
    let said = loop {
        number += 1;
        let (_, said) = ask(&mut alice, &format!("back{number}"), "INCR calls").await;
        if said != "nil no answer" || begun.elapsed() > Duration::from_secs(30) {
            break said;
        }
    };
    assert_eq!(said, "integer1");
    let wrong = [
        "redis://127.0.0.1:1/ x",
        "http://127.0.0.1/ x",
        "redis://:wrong@127.0.0.1/ x",
    ];
    for (number, url) in wrong.into_iter().enumerate() {
        let (status, said) = ask(&mut alice, &format!("wrong{number}"), url).await;
        assert_eq!((status, &*said), (200, "nil no answer"), "{url}");
    }
    server.shutdown().await;
}

/// Counters of all workers, and what the scripts count.
#[tokio::test]
async fn metrics_count_calls_errors_and_what_scripts_count() {
    let text = r#"
        function on_request(request)
          if request.method ~= "MESSAGE" then return end
          tandem.count("options", 2)
          tandem.shared.set("key", "value")
          if request:header("X-Words") == "fail" then error("broken") end
          request:reply(200, tandem.shared.get("key"))
        end
    "#;
    let server = serve(vec![script(text)]).await;
    let mut alice = Phone::open(&server, "alice", Transport::Tcp)
        .await
        .expect("a flow");
    // Calls go to both workers.
    for number in 0..10 {
        let words = if number == 0 { "fail" } else { "go on" };
        let (status, said) = ask(&mut alice, &format!("call{number}"), words).await;
        let expected = [(200, "value"), (500, "Plugin Error")][usize::from(number == 0)];
        assert_eq!((status, &*said), expected);
    }
    let metrics = server.observer().metrics().await;
    for line in [
        r#"tandem_plugin_calls_total{plugin="script",hook="on_request"} 10"#,
        r#"tandem_plugin_errors_total{plugin="script",hook="on_request"} 1"#,
        r#"tandem_plugin_count_total{plugin="script",name="options"} 20"#,
        "tandem_plugin_shared_entries 1",
    ] {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        let found = metrics.lines().find(|found| {
            let is_it = found.starts_with(name.trim_end_matches('}'));
            is_it && !found.starts_with('#')
        });
        let found = found.unwrap_or_else(|| panic!("no {name}: {metrics}"));
        let found = found
            .rsplit(' ')
            .next()
            .and_then(|value| value.parse().ok());
        assert_eq!(found, value.parse::<f64>().ok(), "{line}");
    }
    server.shutdown().await;
}

/// A call that waits for an answer ends with the script that it has begun with; the next one has the new script.
#[tokio::test]
async fn scripts_are_exchanged_while_calls_wait() {
    let (http, _) = http_server().await;
    let text = |said: &str| {
        format!(
            r#"
            function on_request(request)
              if request.method ~= "MESSAGE" then return end
              if request:header("X-Words") == "wait" then tandem.get("http://{http}/silent") end
              request:reply(200, "{said}")
            end
            "#
        )
    };
    let server = serve(vec![script(&text("old"))]).await;
    let mut alice = Phone::open(&server, "alice", Transport::Tcp)
        .await
        .expect("a flow");
    let mut bob = Phone::open(&server, "bob", Transport::Tcp)
        .await
        .expect("a flow");
    let uri = alice.uri();
    let waiting = alice
        .request(Method::Message, &uri, &uri, "waits")
        .with(Name::Other("X-Words"), "wait");
    alice.send(waiting);
    assert_eq!(ask(&mut bob, "before", "go").await.1, "old");
    let mut policy = Policy {
        plugins: Arc::from([script(&text("new"))]),
        ..Policy::default()
    };
    server.set_policy(Arc::new(policy.clone())).await;
    // Each worker does what it is told in turn: now all have taken it over.
    server.statistics().await;
    assert_eq!(ask(&mut bob, "after", "go").await.1, "new");
    let response = alice.response("MESSAGE").await;
    assert_eq!(response.reason(), Some("old"));
    // Under way without an end: each transaction is answered, by one or the other.
    for round in 0..20 {
        let said = ["one", "two"][round % 2];
        policy.plugins = Arc::from([script(&text(said))]);
        let call = format!("round{round}");
        let ((), (status, _)) = tokio::join!(
            server.set_policy(Arc::new(policy.clone())),
            ask(&mut bob, &call, "go")
        );
        assert_eq!(status, 200);
    }
    server.shutdown().await;
}

/// While scripts are cut off, requests that they do not concern are answered as fast as else.
#[tokio::test]
async fn a_loop_is_cut_off_and_holds_up_nobody() {
    let text = r#"
        function on_request(request)
          if request:header("X-Words") == "loop" then while true do end end
          if request:header("X-Words") == "go" then request:reply(200, "gone") end
        end
    "#;
    let server = serve(vec![script(text)]).await;
    let mut alice = Phone::open(&server, "alice", Transport::Tcp)
        .await
        .expect("a flow");
    let mut bob = Phone::open(&server, "bob", Transport::Tcp)
        .await
        .expect("a flow");
    for round in 0..20 {
        let looping = async {
            let begun = Instant::now();
            let answer = ask(&mut alice, &format!("loop{round}"), "loop").await;
            (answer, begun.elapsed())
        };
        let others = async {
            for number in 0..10 {
                let call = format!("other{round}-{number}");
                assert_eq!(ask(&mut bob, &call, "go").await.1, "gone");
            }
        };
        let (((status, _), elapsed), ()) = tokio::join!(looping, others);
        assert_eq!(status, 500);
        // The limit is 5 ms. This machine may have much else to do.
        assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    }
    server.shutdown().await;
}
