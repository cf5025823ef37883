//! `pkm inspect` on logs, and between a client and a server.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Home, Run, text};

const SESSION: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

fn json_lines(stdout: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    stdout.lines().map(read).collect()
}

/// A line that was written on stderr, without where it was written to.
fn notices(run: &Run) -> Vec<&str> {
    let is_ours = |line: &&str| !line.starts_with("pkm inspect: writing to ");
    run.stderr.lines().filter(is_ours).collect()
}

#[test]
fn a_clean_log_ends_with_0_and_one_with_errors_with_1() {
    let home = Home::new();
    let clean = home.write("clean.jsonl", SESSION);
    insta::assert_snapshot!("inspect-clean", home.ok(&["inspect", text(&clean)]));
    let log = home.write(
        "log.jsonl",
        format!(
            "{SESSION}{}\n{}\nServer started\n{LIST}\n",
            r#"{"jsonrpc":"2.0","id":7,"method":"tool/call","params":{"name":"찾기"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"없는 메서드\u001b[31m"}}"#,
        ),
    );
    let run = home.pkm(&["inspect", text(&log)]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (1, "error: found 3 errors\n")
    );
    insta::assert_snapshot!("inspect-errors", run.stdout);
    let run = home.pkm(&["inspect", text(&log), "--only-findings"]);
    assert!(!run.stdout.contains("initialize"), "{}", run.stdout);
    assert!(
        run.stdout.ends_with("7 messages: 3 errors, 1 warning\n"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_warning_alone_is_no_failure() {
    let home = Home::new();
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}"#;
    let run = home.pkm_with(&["inspect", "-"], format!("{SESSION}{LIST}\n{answer}"));
    assert!(
        run.stdout.ends_with("5 messages: 1 warning\n"),
        "{}",
        run.stdout
    );
    assert_eq!(run.code, 0);
}

#[test]
fn json_is_an_object_for_each_line_and_a_summary() {
    let home = Home::new();
    let run = home.pkm_with(&["inspect", "-", "--json"], format!("{SESSION}\n{LIST}\n"));
    assert_eq!(run.code, 1, "{}", run.stderr);
    let lines = json_lines(&run.stdout);
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0]["what"], "request initialize id 0");
    assert_eq!(
        (&lines[1]["line"], &lines[1]["direction"]),
        (&2.into(), &"out".into())
    );
    assert_eq!(
        (&lines[3]["line"], &lines[3]["id"], &lines[3]["method"]),
        (&5.into(), &1.into(), &"tools/list".into())
    );
    assert_eq!(lines[3]["findings"], serde_json::json!([]));
    assert_eq!(lines[4]["line"], 5);
    assert_eq!(lines[4]["findings"][0]["code"], "never_answered");
    assert_eq!(lines[4]["findings"][0]["severity"], "error");
    assert_eq!(
        lines[5],
        serde_json::json!({"summary": {"messages": 4, "errors": 1, "warnings": 0}})
    );
}

#[test]
fn wrong_usage_ends_with_2() {
    let home = Home::new();
    for arguments in [
        &["inspect"] as &[&str],
        &["inspect", "a", "--trace", "b"],
        &["inspect", "a", "--", "cat"],
        &["inspect", "--json", "--", "cat"],
    ] {
        home.pkm(arguments).fails(2);
    }
    let stderr = home.pkm(&["inspect", "missing"]).fails(1);
    assert_eq!(
        stderr,
        "error: cannot read `missing`: No such file or directory (os error 2)\n"
    );
    let stderr = home.pkm(&["inspect", "--", "no-such-program"]).fails(1);
    assert!(
        stderr.starts_with("error: cannot start `no-such-program`: "),
        "{stderr}"
    );
}

/// `pkm inspect` before `command`, with its pipes.
fn between(home: &Home, arguments: &[&str], command: &[&str]) -> Child {
    home.command()
        .args(["inspect"])
        .args(arguments)
        .arg("--")
        .args(command)
        .env("TMPDIR", home.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pkm starts")
}

#[test]
fn every_byte_goes_through_as_it_is() {
    let home = Home::new();
    // All bytes, long lines, no line end at the end; more than any pipe holds.
    let bytes: Vec<u8> = (0..3_000_001_u32)
        .map(|i| (i % 251 + i / 70_000) as u8)
        .collect();
    let mut child = between(&home, &["--quiet"], &["cat"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("pkm ends");
    writer.join().expect("no panic").expect("all is taken");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stdout == bytes,
        "{} of {} bytes",
        output.stdout.len(),
        bytes.len()
    );
}

#[test]
fn a_part_of_a_line_goes_on_at_once() {
    let home = Home::new();
    let mut child = between(&home, &["--quiet"], &["cat"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    for part in ["{\"half\":", "1}"] {
        stdin.write_all(part.as_bytes()).expect("it is taken");
        // Blocks for ever if the part is held back until its line ends.
        let mut got = vec![0; part.len()];
        stdout.read_exact(&mut got).expect("the part");
        assert_eq!(got, part.as_bytes());
    }
    drop(stdin);
    assert_eq!(child.wait().expect("pkm ends").code(), Some(0));
}

#[test]
fn the_servers_end_is_ours() {
    let home = Home::new();
    let check = |script: &str, code: i32| {
        let run = home.pkm(&["inspect", "--", "sh", "-c", script]);
        assert_eq!(run.code, code, "{script}: {}", run.stderr);
        assert_eq!(
            notices(&run).last(),
            Some(&"pkm inspect: 0 messages, nothing wrong")
        );
    };
    check("exit 0", 0);
    check("exec >&-; exit 7", 7);
    check("kill -9 $$", 137);
    // Findings change nothing of it.
    let run = home.pkm(&["inspect", "--", "sh", "-c", "echo oops; exit 3"]);
    assert_eq!((run.code, run.stdout.as_str()), (3, "oops\n"));
    assert_eq!(
        notices(&run),
        [
            "pkm inspect: ← text: oops: error: it is no JSON: expected value at line 1 column 1 (not_json); hint: stdout is for messages only; logs go to stderr",
            "pkm inspect: 1 message: 1 error",
        ]
    );
    let run = home.pkm(&[
        "inspect",
        "--quiet",
        "--",
        "sh",
        "-c",
        "echo oops; echo mine >&2",
    ]);
    assert_eq!((run.code, notices(&run)), (0, vec!["mine"]));
}

#[cfg(unix)]
#[test]
fn a_signal_to_us_ends_the_server_too() {
    let home = Home::new();
    for (signal, script, code) in [
        (
            "-TERM",
            "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done",
            5,
        ),
        ("-INT", "echo ready; exec sleep 1000", 143),
    ] {
        let mut child = between(&home, &["--quiet"], &["sh", "-c", script]);
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let killed = std::process::Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(killed.success());
        assert_eq!(
            child.wait().expect("pkm ends").code(),
            Some(code),
            "{signal}"
        );
    }
}

/// Asks our own server, through `pkm inspect`.
fn ask_our_server(home: &Home, arguments: &[&str], lines: &[&str]) -> Run {
    let pkm = env!("CARGO_BIN_EXE_pkm");
    let mut child = between(home, arguments, &[pkm, "serve"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut answers = String::new();
    for line in lines {
        writeln!(stdin, "{line}").expect("it is taken");
        if line.contains("\"id\"") {
            stdout.read_line(&mut answers).expect("an answer");
        }
    }
    drop(stdin);
    stdout.read_to_string(&mut answers).expect("the rest");
    let output = child.wait_with_output().expect("pkm ends");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: answers,
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
fn our_own_server_is_watched_and_the_log_hides_the_notes() {
    let home = Home::new();
    let trace = home.path("trace.jsonl");
    let session: Vec<&str> = SESSION.lines().collect();
    let add = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_note","arguments":{"title":"연봉 협상","content":"비밀 이야기"}}}"#;
    let bad = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search_notes","arguments":{"query":"비밀","limit":500}}}"#;
    let lines = [session[0], session[2], LIST, add, bad];
    let run = ask_our_server(&home, &["--trace", text(&trace)], &lines);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let told = notices(&run);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0]
            .contains("request tools/call search_notes id 3: error: params.arguments.limit: 500"),
        "{told:?}"
    );
    assert_eq!(told[1], "pkm inspect: 9 messages: 1 error");

    let log = std::fs::read_to_string(&trace).expect("the log");
    for word in ["연봉", "비밀", "이야기"] {
        assert!(!log.contains(word), "{log}");
    }
    let records = json_lines(&log);
    assert_eq!(records.len(), 9);
    assert_eq!(
        records[5]["message"]["params"]["arguments"]["title"],
        "[5 chars]"
    );
    // Read back, the log tells the same.
    let again = home.pkm(&["inspect", text(&trace), "--only-findings"]);
    assert_eq!(again.code, 1);
    assert!(
        again.stdout.ends_with("9 messages: 1 error\n"),
        "{}",
        again.stdout
    );
    assert!(
        again
            .stdout
            .contains("request tools/call search_notes id 3"),
        "{}",
        again.stdout
    );

    let whole = home.path("whole.jsonl");
    ask_our_server(
        &home,
        &["--keep-text", "--trace", text(&whole)],
        &[session[0], session[2], add],
    );
    assert!(
        std::fs::read_to_string(&whole)
            .expect("the log")
            .contains("비밀 이야기")
    );
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let home = Home::new();
    let run = home.pkm(&[
        "inspect",
        "--trace",
        text(&home.path("no/folder")),
        "--",
        "echo",
        "{}",
    ]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "{}\n"));
    let told = notices(&run);
    assert!(
        told[0].starts_with("pkm inspect: the messages are not written down: "),
        "{told:?}"
    );
    #[cfg(target_os = "linux")]
    {
        let run = home.pkm(&[
            "inspect",
            "--quiet",
            "--trace",
            "/dev/full",
            "--",
            "sh",
            "-c",
            "echo a; echo b; cat",
        ]);
        assert_eq!((run.code, run.stdout.as_str()), (0, "a\nb\n"));
        assert_eq!(
            notices(&run),
            [
                "pkm inspect: the messages are not written down any more: No space left on device (os error 28)"
            ]
        );
    }
}

#[test]
fn without_a_place_for_it_the_log_is_a_new_file_in_the_temporary_folder() {
    let home = Home::new();
    let run = home.finish(
        home.command()
            .args(["inspect", "--quiet", "--", "echo", "{}"])
            .env("TMPDIR", home.path("")),
    );
    let path = run
        .stderr
        .trim_end()
        .strip_prefix("pkm inspect: writing to [HOME]/")
        .expect("a path");
    let log = std::fs::read_to_string(home.path(path)).expect("the log");
    assert_eq!(json_lines(&log)[0]["dir"], "out");
}
