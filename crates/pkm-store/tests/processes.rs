//! Several processes on one folder, processes that are killed, and one that may only read.
//!
//! This test has its own `main`, because it starts copies of itself:
//! `child add DIR NAME N` adds notes and says each id once it is acknowledged,
//! `child look DIR` says what a process that may only read can do, and
//! `child fixture FILE` writes the file of `tests/fixtures` for the present schema.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use common::{at, chunking, chunks};
use pkm_store::{Access, Error, Filter, NewNote, NoteId, Store};
use tempfile::TempDir;

const TESTS: &[(&str, fn())] = &[
    (
        "processes_that_open_and_write_at_once_lose_nothing",
        processes_that_write_at_once,
    ),
    (
        "a_killed_process_loses_nothing_that_it_acknowledged",
        a_killed_process,
    ),
    (
        "a_folder_that_may_only_be_read_is_read_and_not_written",
        a_folder_to_read,
    ),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["child", "add", dir, name, n] => add(Path::new(dir), name, n.parse().unwrap()),
        ["child", "look", dir] => look(Path::new(dir)),
        ["child", "fixture", file] => common::fixture::write(Path::new(file)),
        args => return run(args),
    }
    ExitCode::SUCCESS
}

/// What the usual test harness does, as far as `cargo test` asks for it.
fn run(args: &[&str]) -> ExitCode {
    let mut filters = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
    let all = filters.peek().is_none();
    let filters: Vec<_> = filters.collect();
    let mut out = io::stdout().lock();
    for (name, test) in TESTS {
        if !args.contains(&"--list") && (all || filters.iter().any(|part| name.contains(**part))) {
            test();
        }
        writeln!(out, "test {name} ... ok").unwrap();
    }
    ExitCode::SUCCESS
}

fn processes_that_write_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // The folder is new to all of them: they also make the file at once.
    let names = ["가", "나", "다", "라", "마", "바"];
    let children: Vec<Child> = names
        .map(|name| start(dir.path(), name, 20))
        .into_iter()
        .collect();
    let mut ids = Vec::new();
    for mut child in children {
        ids.extend(acknowledged(&mut child));
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(ids.len(), 6 * 20);
    let store = Store::open(dir.path()).unwrap();
    check_all_there(&store, &ids);
    assert_eq!(store.counts("f").unwrap().n_notes, 6 * 20);
}

fn a_killed_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for n_before_death in [0, 1, 7, 20, 33] {
        let mut child = start(dir.path(), "mortal", 100_000);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.by_ref().take(n_before_death) {
            ids.push(NoteId(line.unwrap().parse().unwrap()));
        }
        child.kill().unwrap();
        // What it had said before it died counts, however late it is read. A line may be cut.
        ids.extend(lines.map_while(|line| line.ok()?.parse().ok()).map(NoteId));
        child.wait().unwrap();
        let store = Store::open(dir.path()).unwrap();
        check_all_there(&store, &ids);
    }
}

fn a_folder_to_read() {
    let dir = tempfile::tempdir().unwrap();
    open_to_all(&dir);
    let home = dir.path().join("home");
    let store = Store::open(&home).unwrap();
    let note = NewNote {
        title: "readable".to_owned(),
        ..NewNote::default()
    };
    store
        .add_note(&note, chunking(&chunks("", &[])), at(0))
        .unwrap();
    let said = look_as_another(&dir, &home, 0o755);
    assert_eq!(
        said, "ReadOnly 1 found 1 refused",
        "beside a process that has it open"
    );
    drop(store);
    let said = look_as_another(&dir, &home, 0o755);
    assert_eq!(said, "ReadOnly 1 found 1 refused", "alone");
    let said = look_as_another(&dir, &dir.path().join("nothing/here"), 0o755);
    assert!(said.starts_with("cannot open"), "{said}");
}

/// Starts a copy of this program that may not write to `home`, and returns what it said.
fn look_as_another(dir: &TempDir, home: &Path, mode: u32) -> String {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let program = dir.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command
        .args(["child", "look"])
        .arg(home)
        .current_dir("/")
        .stdout(Stdio::piped());
    let owner = fs::metadata(dir.path()).unwrap().uid();
    if owner == 0 {
        // Nothing is forbidden to root, so the copy is nobody.
        command.uid(65_534);
    } else if home.exists() {
        fs::set_permissions(home, fs::Permissions::from_mode(mode & !0o222)).unwrap();
        for file in fs::read_dir(home).unwrap() {
            fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o444)).unwrap();
        }
    }
    let out = command.output().unwrap();
    if home.exists() {
        fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
        for file in fs::read_dir(home).unwrap() {
            fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
    String::from_utf8(out.stdout).unwrap().trim().to_owned()
}

fn open_to_all(dir: &TempDir) {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

fn check_all_there(store: &Store, ids: &[NoteId]) {
    for id in ids {
        let note = store.get_note(*id).unwrap();
        let hits = store
            .keyword_search(&note.content, &Filter::default(), 10_000)
            .unwrap()
            .hits;
        assert!(
            hits.iter().any(|hit| hit.note_id == *id),
            "note {id} is found by its words"
        );
    }
    assert_eq!(store.check().unwrap(), []);
}

fn start(dir: &Path, name: &str, n: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "add"])
        .arg(dir)
        .args([name, &n.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn acknowledged(child: &mut Child) -> Vec<NoteId> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .map(|line| NoteId(line.unwrap().parse().unwrap()))
        .collect()
}

fn add(dir: &Path, name: &str, n: usize) {
    let store = Store::open(dir).unwrap();
    let mut out = io::stdout().lock();
    for i in 0..n {
        let content = format!("{name} number{i}");
        let note = NewNote {
            title: name.to_owned(),
            content: content.clone(),
            ..NewNote::default()
        };
        let chunks = chunks(&content, &[]);
        let id = store.add_note(&note, chunking(&chunks), at(0)).unwrap().id;
        // Nobody listens any more: the parent was killed.
        if writeln!(out, "{id}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn look(dir: &Path) {
    let mut out = io::stdout().lock();
    let store = match Store::open(dir) {
        Ok(store) => store,
        Err(error) => {
            writeln!(out, "cannot open: {error}").unwrap();
            return;
        }
    };
    let access = match store.access() {
        Access::ReadWrite => "ReadWrite",
        Access::ReadOnly => "ReadOnly",
    };
    let n_notes = store.counts("f").unwrap().n_notes;
    let n_hits = store
        .keyword_search("readable", &Filter::default(), 10)
        .unwrap()
        .hits
        .len();
    let refused = match store.add_note(&NewNote::default(), chunking(&[]), at(0)) {
        Err(Error::ReadOnly { .. }) => "refused".to_owned(),
        other => format!("{other:?}"),
    };
    writeln!(out, "{access} {n_notes} found {n_hits} {refused}").unwrap();
}
