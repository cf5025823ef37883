use proptest::prelude::*;
use tempfile::TempDir;

use super::super::{FileNote, FolderEntry, read_folder};
use super::*;

/// A note as a test has it.
#[derive(Debug, Clone)]
struct Given {
    title: String,
    content: String,
    tags: Vec<String>,
    folder: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    preferred_path: Option<String>,
}

fn given(title: &str, content: &str, tags: &[&str], folder: &str) -> Given {
    Given {
        title: title.to_owned(),
        content: content.to_owned(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        folder: folder.to_owned(),
        created_at: at("2026-11-03T01:02:03.123456789Z"),
        updated_at: at("2026-11-05T10:00:00Z"),
        preferred_path: None,
    }
}

fn at(time: &str) -> Timestamp {
    time.parse().expect("is a timestamp")
}

fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

fn export(root: &Path, destination: Destination, notes: &[Given]) -> (Vec<String>, Exported) {
    let mut exporter = Exporter::create(root, destination).expect("begins");
    let paths = notes
        .iter()
        .map(|note| {
            let file = NoteFile {
                title: &note.title,
                content: &note.content,
                tags: &note.tags,
                folder: &note.folder,
                created_at: note.created_at,
                updated_at: note.updated_at,
                preferred_path: note.preferred_path.as_deref(),
            };
            exporter.write(&file).expect("writes")
        })
        .collect();
    (paths, exporter.finish().expect("finishes"))
}

fn import(root: &Path) -> Vec<FolderEntry> {
    read_folder(root).expect("reads the folder").collect()
}

#[track_caller]
fn note<'a>(entries: &'a [FolderEntry], path: &str) -> &'a FileNote {
    let entry = entries.iter().find(|entry| entry.path == path);
    entry
        .unwrap_or_else(|| panic!("no {path} among {entries:?}"))
        .result
        .as_ref()
        .expect("is a note")
}

/// Exports `notes` to an empty folder, imports that, and compares.
#[track_caller]
fn check(notes: &[Given]) -> (TempDir, Vec<String>) {
    let root = folder();
    let (paths, exported) = export(root.path(), Destination::Empty, notes);
    assert_eq!(exported.n_written, notes.len());
    assert_same(root.path(), notes, &paths);
    (root, paths)
}

#[track_caller]
fn assert_same(root: &Path, notes: &[Given], paths: &[String]) {
    let entries = import(root);
    assert_eq!(entries.len(), notes.len(), "{entries:?}");
    for (note_given, path) in notes.iter().zip(paths) {
        let found = note(&entries, path);
        assert_eq!(found.title, note_given.title);
        assert_eq!(found.content, note_given.content);
        assert_eq!(found.tags, note_given.tags);
        assert_eq!(found.folder, note_given.folder);
        assert_eq!(found.created_at, note_given.created_at);
        assert_eq!(found.updated_at, note_given.updated_at);
    }
}

fn text(root: &TempDir, path: &str) -> String {
    fs::read_to_string(root.path().join(path)).expect("reads the file")
}

#[test]
fn a_note_with_its_own_front_matter_is_written_as_it_is() {
    let content = "\u{FEFF}---\r\ntitle: 다른 제목\r\nstatus: done\r\n---\r\n본문\r\n";
    let (root, paths) = check(&[given("제목", content, &["a"], "")]);
    assert_eq!(text(&root, &paths[0]), content);
    let broken = "---\ntitle: a: b\n---\nbody";
    let (root, paths) = check(&[given("제목", broken, &["a"], "")]);
    assert_eq!(text(&root, &paths[0]), broken);
}

#[test]
fn a_note_whose_file_says_everything_is_written_as_it_is() {
    let notes = [
        given("제목", "# 제목\n\n본문\n", &[], "일/회의"),
        given("stem", "no heading", &[], ""),
    ];
    let (root, paths) = check(&notes);
    assert_eq!(paths, ["일/회의/제목.md", "stem.md"]);
    assert_eq!(text(&root, &paths[0]), notes[0].content);
    assert_eq!(text(&root, &paths[1]), notes[1].content);
    // A tool that knows nothing of the sidecar still sees when the note was changed.
    fs::remove_file(root.path().join(FILE_NAME)).expect("removes");
    assert_eq!(
        note(&import(root.path()), "stem.md").updated_at,
        notes[1].updated_at
    );
}

#[test]
fn other_metadata_goes_into_a_generated_block_that_import_takes_off() {
    let notes = [
        given("회의: \"주간\" #1", "본문\n", &["보안", "c++"], "a"),
        given("rule", "---\n\nnot front matter\n\n---\n", &["x"], "a"),
        given("mark", "\u{FEFF}text", &["x"], ""),
        given("empty", "", &["x"], ""),
        given("nul", "a\0b", &["x"], ""),
        given(" ", "# A\n", &[], ""),
    ];
    let (root, paths) = check(&notes);
    let file = text(&root, &paths[0]);
    assert!(
        file.starts_with("---\ntitle: \"회의: \\\"주간\\\" #1\"\ntags:\n  - \"보안\"\n"),
        "{file}"
    );
    assert!(file.ends_with("---\n\n본문\n"));
    let block = split_front_matter(&file);
    assert_eq!(block.tags, notes[0].tags);
    assert_eq!(block.created, Some(notes[0].created_at));
}

#[test]
fn titles_that_no_file_can_have_and_equal_ones_stay_apart() {
    let notes: Vec<_> = [
        "my file", "my_file", "my-file", "a/b", "a:b", "NUL", "nul", "CON", "", "..", "같은",
        "같은",
    ]
    .iter()
    .enumerate()
    .map(|(i, title)| given(title, &format!("text {i}"), &[], ""))
    .filter(|note| !note.title.is_empty())
    .collect();
    let (_, paths) = check(&notes);
    assert_eq!(
        paths[..5],
        [
            "my file.md",
            "my_file.md",
            "my-file.md",
            "a-b.md",
            "a-b (2).md"
        ]
    );
    let long = given(
        "아주 긴 제목 ".repeat(100).trim_end(),
        "x",
        &[],
        &"긴 폴더".repeat(60),
    );
    check(&[long.clone(), long]);
}

#[test]
fn folders_that_a_file_system_confuses_stay_apart() {
    check(&[
        given("x", "1", &[], "Work"),
        given("x", "2", &[], "work"),
        given("x", "3", &[], ".hidden/con"),
        given("a", "4", &[], ""),
        given("x", "5", &[], "a.md"),
    ]);
}

#[test]
fn an_imported_note_keeps_its_file_name_in_the_folder_it_is_in_now() {
    let mut moved = given("Title", "# Title\n", &[], "new");
    moved.preferred_path = Some("old/메모 1.markdown".to_owned());
    let mut odd = given("Odd", "# Odd\n", &[], "");
    odd.preferred_path = Some("../../etc/passwd".to_owned());
    let (_, paths) = check(&[moved, odd]);
    assert_eq!(paths, ["new/메모 1.markdown", "Odd.md"]);
}

#[test]
fn an_edited_file_gives_its_new_text_and_what_the_edit_left() {
    let notes = [given("제목", "본문\n", &["a", "b"], "일:감")];
    let (root, paths) = check(&notes);
    let file = text(&root, &paths[0]);
    let path = root.path().join(&paths[0]);

    fs::write(&path, format!("{file}더한 줄\n")).expect("edits");
    let entries = import(root.path());
    let found = note(&entries, &paths[0]);
    assert_eq!(found.content, "본문\n더한 줄\n");
    assert_eq!(
        (found.title.as_str(), &found.tags),
        ("제목", &notes[0].tags)
    );
    assert_eq!(found.folder, "일:감");
    assert_eq!(found.created_at, notes[0].created_at);
    assert!(found.updated_at > notes[0].updated_at);

    fs::write(
        &path,
        file.replace("\"제목\"", "새 제목")
            .replace("  - \"b\"\n", ""),
    )
    .expect("edits");
    let entries = import(root.path());
    let found = note(&entries, &paths[0]);
    assert_eq!(
        (found.title.as_str(), found.content.as_str()),
        ("새 제목", "본문\n")
    );
    assert_eq!(found.tags, ["a"]);

    // With a key of the user's the block is the user's.
    let own = file.replace("tags:", "status: done\ntags:");
    fs::write(&path, &own).expect("edits");
    assert_eq!(note(&import(root.path()), &paths[0]).content, own);

    // The block is gone: so are the tags.
    fs::write(&path, "본문\n").expect("edits");
    let entries = import(root.path());
    assert_eq!(note(&entries, &paths[0]).content, "본문\n");
    assert!(note(&entries, &paths[0]).tags.is_empty());
}

#[test]
fn an_edit_elsewhere_keeps_a_title_that_the_file_does_not_say() {
    let content = "---\ntitle: File title\ntags: [x]\n---\nbody\n";
    let (root, paths) = check(&[given("Store title", content, &["y"], "")]);
    let path = root.path().join(&paths[0]);
    fs::write(&path, format!("{content}more\n")).expect("edits");
    let entries = import(root.path());
    assert_eq!(note(&entries, &paths[0]).title, "Store title");
    assert_eq!(note(&entries, &paths[0]).tags, ["y"]);
    fs::write(&path, content.replace("File title", "Third title")).expect("edits");
    assert_eq!(note(&import(root.path()), &paths[0]).title, "Third title");
}

#[test]
fn a_moved_file_is_still_the_note_that_it_was() {
    let notes = [given("제목", "본문\n", &["a"], "")];
    let (root, paths) = check(&notes);
    fs::create_dir(root.path().join("다른 곳")).expect("makes");
    fs::rename(
        root.path().join(&paths[0]),
        root.path().join("다른 곳/이름.md"),
    )
    .expect("moves");
    let entries = import(root.path());
    let found = note(&entries, "다른 곳/이름.md");
    assert_eq!(
        (found.title.as_str(), found.content.as_str()),
        ("제목", "본문\n")
    );
    assert_eq!(found.folder, "다른 곳");
}

#[test]
fn a_folder_with_other_files_is_refused_unless_told() {
    let root = folder();
    fs::write(root.path().join("mine.md"), "mine").expect("writes");
    for destination in [Destination::Empty, Destination::FormerExport] {
        let error = Exporter::create(root.path(), destination).expect_err("refuses");
        assert_eq!(error.source.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert!(!root.path().join(FILE_NAME).exists());
    }
    let (paths, _) = export(
        root.path(),
        Destination::Any,
        &[given("mine", "other", &[], "")],
    );
    assert_eq!(paths, ["mine (2).md"]);
    assert_eq!(text(&root, "mine.md"), "mine");
    Exporter::create(root.path(), Destination::Empty).expect_err("holds a former export");
}

#[test]
fn a_second_export_brings_the_folder_up_to_date_and_leaves_what_was_edited() {
    let root = folder();
    let notes = [
        given("stays", "1", &[], ""),
        given("goes", "2", &["t"], "deep/er"),
        given("edited", "3", &[], ""),
        given("also edited", "4", &[], ""),
    ];
    export(root.path(), Destination::Empty, &notes);
    fs::write(root.path().join("edited.md"), "by hand").expect("edits");
    fs::write(root.path().join("also edited.md"), "by hand too").expect("edits");
    let again = [given("stays", "1 changed", &[], ""), notes[2].clone()];
    let (paths, exported) = export(root.path(), Destination::FormerExport, &again);
    assert_eq!(paths, ["stays.md", "edited (2).md"]);
    assert_eq!((exported.n_written, exported.n_removed), (2, 1));
    assert_eq!(exported.kept, ["also edited.md", "edited.md"]);
    assert_eq!(text(&root, "stays.md"), "1 changed");
    assert_eq!(text(&root, "edited.md"), "by hand");
    assert!(!root.path().join("deep").exists());
    assert_eq!(import(root.path()).len(), 4);
}

#[test]
fn an_export_that_was_killed_is_taken_up() {
    let root = folder();
    let notes = [given("하나", "1", &["t"], ""), given("둘", "2", &["t"], "")];
    let mut exporter = Exporter::create(root.path(), Destination::Empty).expect("begins");
    let first = NoteFile {
        title: &notes[0].title,
        content: &notes[0].content,
        tags: &notes[0].tags,
        folder: "",
        created_at: notes[0].created_at,
        updated_at: notes[0].updated_at,
        preferred_path: None,
    };
    exporter.write(&first).expect("writes");
    drop(exporter);
    // Cut in the middle of a line, as a kill does.
    let mut list = OpenOptions::new()
        .append(true)
        .open(root.path().join(FILE_NAME))
        .expect("opens");
    list.write_all(b"{\"path\":\"x").expect("writes");
    assert_eq!(note(&import(root.path()), "하나.md").content, "1");
    let (paths, _) = export(root.path(), Destination::FormerExport, &notes);
    assert_eq!(paths, ["하나.md", "둘.md"]);
    assert_same(root.path(), &notes, &paths);
}

#[test]
fn a_list_that_names_files_outside_removes_nothing_there() {
    let outer = folder();
    let root = outer.path().join("export");
    let victim = outer.path().join("victim.md");
    fs::write(&victim, "x").expect("writes");
    export(&root, Destination::Empty, &[given("a", "1", &[], "")]);
    let hash = blake3::hash(b"x").to_hex();
    let line = format!(
        "{{\"path\":\"../victim.md\",\"title\":\"t\",\"created_at\":\"2026-01-01T00:00:00Z\",\"updated_at\":\"2026-01-01T00:00:00Z\",\"blake3\":\"{hash}\"}}\n"
    );
    let mut list = OpenOptions::new()
        .append(true)
        .open(root.join(FILE_NAME))
        .expect("opens");
    list.write_all(line.as_bytes()).expect("writes");
    export(&root, Destination::FormerExport, &[]);
    assert!(victim.exists());
    assert!(!root.join("a.md").exists());
}

#[cfg(unix)]
#[test]
fn a_link_in_the_folder_is_not_written_through() {
    let outside = folder();
    let root = folder();
    std::os::unix::fs::symlink(outside.path(), root.path().join("work")).expect("links");
    let (paths, _) = export(
        root.path(),
        Destination::Any,
        &[given("a", "1", &[], "work")],
    );
    assert_eq!(paths, ["work (2)/a.md"]);
    assert_eq!(note(&import(root.path()), "work (2)/a.md").folder, "work");
    assert!(outside.path().read_dir().expect("reads").next().is_none());
}

fn any_note() -> impl Strategy<Value = Given> {
    let content = prop_oneof![
        "\\PC{0,40}",
        "(\u{FEFF})?---\r?\n[a-z]{1,6}: [\\PC\"\\[:]{0,12}\r?\n---\r?\n\\PC{0,20}",
        "# \\PC{1,12}\r?\n(---|\r?\n|[\u{0}-\u{7F}]|가){0,20}",
    ];
    let folder = prop_oneof![Just(String::new()), "[a-cA-C가.: ]{1,4}(/[a-c.가]{1,3})?"];
    (
        "[^\\p{Cc}]{1,30}",
        content,
        proptest::collection::vec("[^\\p{Cc}]{1,8}", 0..3),
        folder,
        0_i64..2_000_000_000_000,
    )
        .prop_map(|(title, content, tags, folder, millis)| Given {
            title,
            content,
            tags,
            folder,
            created_at: Timestamp::from_millisecond(millis).expect("is in range"),
            updated_at: Timestamp::from_millisecond(millis * 2).expect("is in range"),
            preferred_path: None,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_notes_come_back_as_they_were(notes in proptest::collection::vec(any_note(), 0..8)) {
        check(&notes);
    }

    #[test]
    fn a_generated_block_says_what_the_note_says(title in "[^\\p{Cc}]{1,40}", tag in "[^\\p{Cc}#,]{1,12}") {
        let note = given(&title, "", &[&tag], "");
        let file = NoteFile {
            title: &note.title, content: "", tags: &note.tags, folder: "",
            created_at: note.created_at, updated_at: note.updated_at, preferred_path: None,
        };
        let block = split_front_matter(&generate(&file));
        prop_assert_eq!(block.problem, None);
        let one_line = crate::markdown::one_line;
        prop_assert_eq!(block.title.unwrap_or_default(), one_line(&title));
        prop_assert_eq!(block.tags.concat(), one_line(&tag));
        prop_assert_eq!(block.created, Some(note.created_at));
    }
}
