use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Home;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A running server over HTTP.
pub(crate) struct Server {
    child: Child,
    address: String,
    /// Kept open, so that the server can go on writing.
    _stderr: BufReader<ChildStderr>,
}

impl Server {
    pub(crate) fn start(home: &Home, more: &[&str]) -> Self {
        let mut child = home
            .command()
            .args(["serve", "--http", "127.0.0.1:0"])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .expect("pkm starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).expect("a line"), 0, "it ended");
            if let Some(url) = line.trim().strip_prefix("listening on http://") {
                break url.strip_suffix("/mcp").expect("a path").to_owned();
            }
        };
        Self {
            child,
            address,
            _stderr: stderr,
        }
    }

    fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn get(&self, path: &str) -> String {
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        ))
    }

    /// Calls a tool in the revision that needs no handshake.
    pub(crate) fn call(&self, tool: &str, arguments: &Value, token: Option<&str>) -> String {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}}})
        .to_string();
        let token = token.map_or_else(String::new, |token| {
            format!("Authorization: Bearer {token}\r\n")
        });
        self.raw(&format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n{token}\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        ))
    }

    /// Asks it to stop; how it ended.
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(&self.child, "TERM");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn http_serves_the_same_notes_as_the_command_line() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200"));
    let added = server.call(
        "add_note",
        &json!({"title": "회의록", "content": "인증 서버를 옮긴다"}),
        None,
    );
    assert!(added.contains("\"isError\":false"), "{added}");
    assert!(home.ok(&["search", "인증"]).contains("회의록"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn http_with_a_token_answers_nobody_else() {
    let home = Home::new();
    let file = home.write("token", format!("{TOKEN}\n"));
    let server = Server::start(&home, &["--token-file", file.to_str().unwrap()]);
    let list = json!({});
    assert!(
        server
            .call("list_notes", &list, None)
            .starts_with("HTTP/1.1 401")
    );
    let wrong = Some("0123456789abcdef0123456789abcdeX");
    assert!(
        server
            .call("list_notes", &list, wrong)
            .starts_with("HTTP/1.1 401")
    );
    assert!(
        server
            .call("list_notes", &list, Some(TOKEN))
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn an_address_that_others_can_reach_needs_a_token() {
    let home = Home::new();
    let run = home.pkm(&["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("no token is set") && run.stderr.contains("--token-file"),
        "{}",
        run.stderr
    );
    for (text, words) in [("short", "16 visible"), ("", "16 visible")] {
        let file = home.write("token", text);
        let run = home.pkm(&[
            "serve",
            "--http",
            "127.0.0.1:0",
            "--token-file",
            file.to_str().unwrap(),
        ]);
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    let run = home.pkm(&["serve", "--token-file", "x"]);
    assert_eq!(run.code, 2, "a token is for HTTP: {}", run.stderr);
}

#[test]
fn an_address_in_use_is_named() {
    let home = Home::new();
    let server = Server::start(&home, &[]);
    let run = home.pkm(&["serve", "--http", &server.address]);
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains(&server.address) && run.stderr.contains("port 0"),
        "{}",
        run.stderr
    );
}

/// A server over stdin and stdout.
fn on_stdio(home: &Home) -> Child {
    home.command()
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("pkm starts")
}

fn ends_by_itself(child: &mut Child) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    false
}

fn say(child: &mut Child, message: &Value) {
    let input = child.stdin.as_mut().expect("a pipe");
    writeln!(input, "{message}").expect("the server reads");
}

fn handshake(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    say(
        child,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
    );
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("an answer");
    assert!(line.contains("serverInfo"), "{line}");
    say(
        child,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    output
}

#[test]
fn a_client_that_starts_the_server_twice_and_drops_one_leaves_nothing_behind() {
    let home = Home::new();
    // One that is dropped before it has said a word, one after the handshake, in every way.
    let mut dropped = on_stdio(&home);
    let mut kept = on_stdio(&home);
    std::thread::sleep(Duration::from_millis(50));
    drop(dropped.stdin.take());
    let mut output = handshake(&mut kept);
    assert!(ends_by_itself(&mut dropped));

    // A client that dies takes both pipes with it while a call is on its way.
    let mut dying = on_stdio(&home);
    let its_output = handshake(&mut dying);
    say(
        &mut dying,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "reindex_notes", "arguments": {"wait_seconds": 55}}}),
    );
    drop(its_output);
    drop(dying.stdin.take());
    assert!(ends_by_itself(&mut dying));

    // The one that was kept can write: no lock is held by the dead.
    say(
        &mut kept,
        &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "add_note", "arguments": {"title": "t", "content": "c"}}}),
    );
    let mut line = String::new();
    output.read_line(&mut line).expect("an answer");
    assert!(line.contains("\"isError\":false"), "{line}");
    signal(&kept, "TERM");
    assert!(ends_by_itself(&mut kept));
    let lock_files = fs::read_dir(home.path("share/pkm")).map_or(0, Iterator::count);
    assert!(lock_files > 0, "the data folder is where it is expected");
    assert!(home.ok(&["list"]).contains('t'));
}

#[test]
fn a_client_that_does_not_read_does_not_keep_the_server_alive() {
    let home = Home::new();
    for by_signal in [true, false] {
        let mut server = on_stdio(&home);
        let _unread = handshake(&mut server);
        // More than a pipe holds.
        for id in 0..8 {
            say(
                &mut server,
                &json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}),
            );
        }
        if by_signal {
            signal(&server, "TERM");
        } else {
            drop(server.stdin.take());
        }
        assert!(ends_by_itself(&mut server), "by a signal: {by_signal}");
    }
}

#[test]
fn a_subscription_ends_in_due_form_with_the_input_and_with_the_server() {
    let home = Home::new();
    for by_signal in [true, false] {
        let mut server = on_stdio(&home);
        say(
            &mut server,
            &json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
                "notifications": {"resourcesListChanged": true}, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}}}}),
        );
        let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a notification");
        assert!(line.contains("subscriptions/acknowledged"), "{line}");
        if by_signal {
            signal(&server, "TERM");
        } else {
            drop(server.stdin.take());
        }
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("the rest");
        let last: Value = serde_json::from_str(rest.trim()).expect("one message");
        assert_eq!(last["id"], 1, "by a signal: {by_signal}: {last}");
        assert!(last["result"].is_object(), "{last}");
        assert!(ends_by_itself(&mut server));
    }
}
