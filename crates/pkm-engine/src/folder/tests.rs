use std::fs;

use tempfile::TempDir;
use unicode_normalization::UnicodeNormalization;

use super::*;

fn folder_with(files: &[(&str, &[u8])]) -> TempDir {
    let root = TempDir::new().expect("a temporary folder");
    for (path, bytes) in files {
        put(root.path(), path, bytes);
    }
    root
}

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().expect("has a parent")).expect("makes a folder");
    fs::write(file, bytes).expect("writes a file");
}

fn read(root: &Path) -> Vec<FolderEntry> {
    read_folder(root).expect("reads the folder").collect()
}

fn paths(entries: &[FolderEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

#[track_caller]
fn note<'a>(entries: &'a [FolderEntry], path: &str) -> &'a FileNote {
    let entry = entries
        .iter()
        .find(|entry| entry.path == path)
        .unwrap_or_else(|| panic!("no {path} among {entries:?}"));
    entry.result.as_ref().expect("is a note")
}

#[track_caller]
fn reason(entries: &[FolderEntry], path: &str) -> String {
    let entry = entries
        .iter()
        .find(|entry| entry.path == path)
        .expect("is listed");
    entry.result.as_ref().expect_err("is a problem").to_string()
}

#[test]
fn notes_come_in_the_order_of_their_paths_and_what_is_hidden_or_ignored_does_not() {
    let root = folder_with(&[
        ("b.md", b"b"),
        ("a/z.markdown", b"z"),
        ("a/A.TXT", b"text"),
        ("회의/주간/첫째.md", "첫".as_bytes()),
        ("image.png", b"\x89PNG"),
        (".hidden.md", b"no"),
        (".obsidian/plugin.md", b"no"),
        ("drafts/x.md", b"no"),
        ("a/skip.md", b"no"),
        (".gitignore", b"drafts/\n"),
        ("a/.gitignore", b"skip.md\n"),
    ]);
    let listed = read_folder(root.path()).expect("reads");
    assert_eq!(listed.n_files(), 4);
    let entries: Vec<_> = listed.collect();
    assert_eq!(
        paths(&entries),
        ["a/A.TXT", "a/z.markdown", "b.md", "회의/주간/첫째.md"]
    );
    assert_eq!(note(&entries, "회의/주간/첫째.md").folder, "회의/주간");
    assert_eq!(note(&entries, "b.md").folder, "");
    assert_eq!(note(&entries, "a/A.TXT").title, "A");
}

#[test]
fn a_folder_that_is_not_there_or_not_a_folder_is_an_error_that_names_it() {
    let root = folder_with(&[("file.md", b"x")]);
    for path in ["gone", "file.md"] {
        let path = root.path().join(path);
        let error = read_folder(&path).expect_err("cannot be read");
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
    assert_eq!(
        read_folder(folder_with(&[]).path())
            .expect("reads")
            .n_files(),
        0
    );
}

#[test]
fn front_matter_gives_title_tags_and_dates_and_stays_in_the_content() {
    let text = "\u{FEFF}---\r\ntitle: 인증\r\ntags: [보안, mcp]\r\ncreated: 2026-11-03\r\nupdated: 2026-11-04T01:02:03Z\r\n---\r\n# H\r\n";
    let root = folder_with(&[("a.md", text.as_bytes())]);
    let entries = read(root.path());
    let found = note(&entries, "a.md");
    assert_eq!(found.title, "인증");
    assert_eq!(found.content, text);
    assert_eq!(found.tags, ["보안", "mcp"]);
    assert_eq!(found.created_at.to_string(), "2026-11-03T00:00:00Z");
    assert_eq!(found.updated_at.to_string(), "2026-11-04T01:02:03Z");
    assert_eq!(found.hash, <[u8; 32]>::from(blake3::hash(text.as_bytes())));
    assert_eq!(
        (found.encoding, found.lossy, &found.problem),
        ("UTF-8", false, &None)
    );
}

#[test]
fn without_dates_the_files_time_counts() {
    let root = folder_with(&[("a.md", b"x"), ("b.md", b"---\ndate: 2020-05-01\n---\n")]);
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for name in ["a.md", "b.md"] {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(root.path().join(name))
            .expect("opens");
        file.set_modified(time).expect("sets the time");
    }
    let entries = read(root.path());
    let expected = Timestamp::from_second(1_700_000_000).expect("is in range");
    assert_eq!(note(&entries, "a.md").updated_at, expected);
    assert_eq!(note(&entries, "a.md").created_at, expected);
    assert_eq!(note(&entries, "b.md").updated_at, expected);
    assert_eq!(
        note(&entries, "b.md").created_at.to_string(),
        "2020-05-01T00:00:00Z"
    );
}

#[test]
fn one_bad_file_is_reported_and_the_others_are_read() {
    let (cp949, _, _) = encoding_rs::EUC_KR.encode("# 장보기\n\n우유와 달걀을 산다\n");
    let utf16: Vec<u8> = "\u{FEFF}# 제목\n\n글\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let root = folder_with(&[
        ("a binary.md", b"\x7FELF\x02\x01\0\0\0\0"),
        ("b yaml.md", b"---\ntitle: a: b\n---\n# Body\n"),
        ("c cp949.md", &cp949),
        ("d utf16.md", &utf16),
        ("e good.md", b"fine"),
    ]);
    let entries = read(root.path());
    assert!(reason(&entries, "a binary.md").contains("not text"));
    let yaml = note(&entries, "b yaml.md");
    assert_eq!(yaml.title, "Body");
    assert!(yaml.problem.as_ref().is_some_and(|p| p.contains("YAML")));
    assert_eq!(note(&entries, "c cp949.md").title, "장보기");
    assert_eq!(note(&entries, "c cp949.md").encoding, "EUC-KR");
    assert_eq!(note(&entries, "d utf16.md").content, "# 제목\n\n글\n");
    assert_eq!(note(&entries, "e good.md").content, "fine");
}

#[test]
fn a_file_too_large_is_reported_with_its_size() {
    let root = folder_with(&[]);
    let file = File::create(root.path().join("big.md")).expect("makes a file");
    file.set_len(MAX_FILE_BYTES + 1).expect("makes it large");
    assert!(reason(&read(root.path()), "big.md").contains("16777217 bytes"));
}

#[test]
fn a_file_that_vanishes_while_the_folder_is_read_is_reported() {
    let root = folder_with(&[("a.md", b"a"), ("b.md", b"b")]);
    let mut listed = read_folder(root.path()).expect("reads");
    assert!(listed.next().expect("has one").result.is_ok());
    fs::remove_file(root.path().join("b.md")).expect("removes");
    let problem = listed
        .next()
        .expect("is listed")
        .result
        .expect_err("is gone");
    assert_eq!(problem.scope, ProblemScope::File);
    assert!(problem.reason.contains("cannot be read"));
}

#[test]
fn files_whose_names_differ_in_signs_or_composition_stay_apart() {
    let decomposed: String = "회의록.md".nfd().collect();
    let alone: String = "혼자.md".nfd().collect();
    let root = folder_with(&[
        ("my file.md", b"1"),
        ("my_file.md", b"2"),
        ("my-file.md", b"3"),
        ("회의록.md", b"composed"),
        (&decomposed, b"decomposed"),
        (&alone, b"alone"),
        ("!!!.md", b"signs"),
    ]);
    let entries = read(root.path());
    assert_eq!(entries.len(), 7);
    assert_eq!(note(&entries, "my_file.md").content, "2");
    assert_eq!(note(&entries, "my_file.md").title, "my_file");
    assert_eq!(note(&entries, "회의록.md").content, "composed");
    assert_eq!(note(&entries, &decomposed).content, "decomposed");
    assert_eq!(note(&entries, "혼자.md").content, "alone");
    assert_eq!(note(&entries, "!!!.md").title, "!!!");
}

#[cfg(unix)]
#[test]
fn links_and_what_is_no_regular_file_are_reported_and_not_followed() {
    use std::os::unix::fs::symlink;
    let outside = folder_with(&[("secret.md", b"secret")]);
    let root = folder_with(&[("a.md", b"a")]);
    symlink(
        outside.path().join("secret.md"),
        root.path().join("link.md"),
    )
    .expect("links");
    symlink(outside.path(), root.path().join("folder")).expect("links");
    let _socket =
        std::os::unix::net::UnixListener::bind(root.path().join("socket.md")).expect("binds");
    let entries = read(root.path());
    assert_eq!(paths(&entries), ["a.md", "link.md", "socket.md"]);
    assert!(reason(&entries, "link.md").contains("link"));
    assert!(reason(&entries, "socket.md").contains("regular"));
}

#[cfg(unix)]
#[test]
fn a_name_in_an_old_korean_encoding_is_readable() {
    use std::os::unix::ffi::OsStrExt;
    let root = folder_with(&[]);
    let (name, _, _) = encoding_rs::EUC_KR.encode("회의록 정리.md");
    // Some file systems take only Unicode names; there is nothing to test there.
    if fs::write(root.path().join(OsStr::from_bytes(&name)), "글").is_ok() {
        let entries = read(root.path());
        assert_eq!(note(&entries, "회의록 정리.md").title, "회의록 정리");
    }
}

#[test]
fn the_corpus_is_read_whole_and_its_encodings_are_told() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus"));
    let entries = read(root);
    let notes = entries
        .iter()
        .filter(|entry| entry.path.starts_with("notes/"));
    for entry in notes.clone() {
        let found = entry.result.as_ref().expect("is a note");
        assert_eq!(
            (found.encoding, found.lossy, &found.problem),
            ("UTF-8", false, &None),
            "{}",
            entry.path
        );
    }
    assert_eq!(notes.count(), 70);

    let cp949 = note(&entries, "encodings/cp949.md");
    assert_eq!((cp949.encoding, cp949.lossy), ("EUC-KR", false));
    assert!(cp949.content.contains('햏') && cp949.content.contains('쀍'));
    assert!(!cp949.tags.is_empty());
    let utf16 = note(&entries, "encodings/utf-16le-bom.md");
    assert_eq!((utf16.encoding, utf16.lossy), ("UTF-16LE", false));
    assert!(reason(&entries, "encodings/binary-garbage.md").contains("not text"));

    let windows = note(&entries, "notes/til/윈도우에서 쓴 메모.md");
    assert!(windows.content.starts_with('\u{FEFF}') && windows.content.contains("\r\n---\r\n"));
    assert!(!windows.tags.is_empty());
}
