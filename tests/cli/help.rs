//! Help, usage errors, exit codes, pipes.

use std::io::Read;
use std::process::Stdio;

use crate::support::Home;

const COMMANDS: &[&str] = &[
    "serve",
    "import",
    "export",
    "add",
    "get",
    "list",
    "edit",
    "delete",
    "restore",
    "history",
    "trash",
    "search",
    "related",
    "reindex",
    "jobs",
    "status",
    "model",
    "config",
    "doctor",
    "inspect",
    "eval",
    "bench",
    "completions",
];

#[test]
fn help_lists_the_commands_and_the_settings() {
    insta::assert_snapshot!("help", Home::new().ok(&["--help"]));
}

#[test]
fn every_command_explains_itself() {
    let home = Home::new();
    for command in COMMANDS {
        let help = home.ok(&[command, "-h"]);
        insta::assert_snapshot!(format!("help-{command}"), help);
    }
    insta::assert_snapshot!("help-bench-embed", home.ok(&["bench", "embed", "-h"]));
    for what in ["list", "pull", "path", "verify"] {
        insta::assert_snapshot!(
            format!("help-model-{what}"),
            home.ok(&["model", what, "-h"])
        );
    }
}

#[test]
fn the_version_is_that_of_the_build() {
    assert_eq!(
        Home::new().ok(&["--version"]),
        format!("pkm {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_was_wrong() {
    let home = Home::new();
    let check = |arguments: &[&str], expected: &str| {
        let stderr = home.pkm(arguments).fails(2);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    };
    check(&[], "Usage: pkm");
    check(&["ad"], "unrecognized subcommand 'ad'");
    check(&["get", "twelve"], "invalid value 'twelve'");
    check(
        &["search", "x", "--keyword", "--vector"],
        "cannot be used with",
    );
    check(&["search", "x", "--after", "yesterday"], "`2026-11-30`");
    check(
        &["edit", "1", "--append", "x", "--replace", "a", "b"],
        "cannot be used with",
    );
    check(&["list", "--limit", "0"], "`limit`");
    check(&["search", "  "], "`query` is blank");
    check(&["search", "x", "--limit", "0"], "`limit` is 0");
    check(&["search", "x", "--limit", "51"], "`limit` is 51");
    check(&["--device", "gpu", "status"], "there is no device `gpu`");
    check(&["--model", "gpt", "status"], "there is no model `gpt`");
    check(&["--log", "a=b=c", "status"], "`a=b=c` is not a log filter");
}

#[test]
fn an_error_is_one_line_with_a_way_out() {
    let home = Home::new();
    let check = |arguments: &[&str], stderr: &str| {
        assert_eq!(home.pkm(arguments).fails(1), stderr);
    };
    check(
        &["get", "12"],
        "error: there is no note 12\nhint: `pkm list` and `pkm search` show the ids\n",
    );
    check(
        &["jobs", "--cancel", "3"],
        "error: there is no job 3\nhint: `pkm jobs` shows the jobs there are\n",
    );
    check(
        &["add", "missing.md"],
        "error: cannot read `missing.md`: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let home = Home::new();
    // More than a pipe holds, so that the writer must notice.
    let note = home.add("long", &"a line of the note\n".repeat(20_000));
    let mut child = home
        .command()
        .args(["get", &note])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pkm starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0; 6]).expect("the first bytes");
    drop(stdout);
    let output = child.wait_with_output().expect("pkm ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = home.ok(&["completions", shell]);
        assert!(
            script.contains("pkm") && script.contains("reindex"),
            "{shell}"
        );
    }
}
