//! Import from a folder of files and export to one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use crate::support::{Home, corpus, files, ids, is_markdown, text};

fn import(home: &Home, folder: &str, arguments: &[&str]) -> serde_json::Value {
    let folder = home.path(folder);
    home.json(&[&["import", text(&folder), "--no-embed"], arguments].concat())
}

#[test]
fn the_corpus_comes_in_once_and_is_unchanged_the_second_time() {
    let home = Home::new();
    let notes = corpus().join("notes");
    let n_files = files(&notes)
        .keys()
        .filter(|path| is_markdown(path))
        .count();
    let first = home.json(&["import", text(&notes), "--no-embed"]);
    assert_eq!(first["added"], n_files);
    assert_eq!(first["skipped"], json!([]));
    assert_eq!(home.json(&["list"])["total"], n_files);
    let second = home.json(&["import", text(&notes), "--no-embed"]);
    assert_eq!(
        (&second["added"], &second["updated"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(second["unchanged"], n_files);
}

#[test]
fn what_is_exported_imports_to_the_same_notes() {
    let (home, other) = (Home::new(), Home::new());
    home.ok(&["import", text(&corpus().join("notes")), "--no-embed"]);
    home.add("새 노트/슬래시", "가운데 --- 줄\n\n---\n");
    home.pkm_with(
        &[
            "add", "--title", "tags", "--tag", "a b", "--tag", "키: 값", "--folder", "x/y",
        ],
        "body",
    )
    .ok();
    let exported = home.path("out");
    home.ok(&["export", text(&exported)]);
    other.ok(&["import", text(&exported), "--no-embed"]);
    let (ours, theirs) = (home.all_notes(), other.all_notes());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    // Out of the other one again: the same files.
    let again = other.path("out");
    other.ok(&["export", text(&again)]);
    let names = |files: BTreeMap<PathBuf, Vec<u8>>| {
        files
            .into_iter()
            .filter(|(path, _)| is_markdown(path))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(names(files(&exported)), names(files(&again)));
}

#[test]
fn an_export_writes_over_an_export_only_when_asked_and_over_nothing_else() {
    let home = Home::new();
    home.add("a", "one\n");
    let to = home.path("out");
    home.ok(&["export", text(&to)]);
    home.ok(&["edit", "1", "--replace", "one", "two"]);
    let before = files(&to);
    home.pkm(&["export", text(&to)]).fails(1);
    assert_eq!(files(&to), before);
    home.ok(&["export", text(&to), "--overwrite"]);
    assert!(
        files(&to)
            .values()
            .any(|bytes| String::from_utf8_lossy(bytes).contains("two"))
    );
    home.write("mine/letter.md", "dear");
    let mine = home.path("mine");
    home.pkm(&["export", text(&mine)]).fails(1);
    home.pkm(&["export", text(&mine), "--overwrite"]).fails(1);
    assert_eq!(
        files(&mine),
        BTreeMap::from([("letter.md".into(), b"dear".to_vec())])
    );
}

#[test]
fn a_changed_file_is_updated_and_its_note_keeps_its_id_and_history() {
    let home = Home::new();
    home.write("in/a.md", "# A\nquartz\n");
    home.write("in/b.md", "# B\n");
    import(&home, "in", &[]);
    let id = ids(&home.json(&["search", "--keyword", "quartz"])).remove(0);
    home.write("in/a.md", "# A\nbasalt\n");
    let report = import(&home, "in", &[]);
    assert_eq!(
        (&report["updated"], &report["unchanged"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        ids(&home.json(&["search", "--keyword", "basalt"])),
        [id.as_str()]
    );
    assert!(ids(&home.json(&["search", "--keyword", "quartz"])).is_empty());
    assert_eq!(
        home.json(&["history", &id])["revisions"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn a_file_that_is_gone_leaves_its_note_unless_pruning_is_asked_for() {
    let home = Home::new();
    let gone = home.write("in/gone.md", "# gone\n");
    home.write("in/stays.md", "# stays\n");
    import(&home, "in", &[]);
    home.add("mine", "never in a file\n");
    std::fs::remove_file(gone).expect("removed");
    assert_eq!(import(&home, "in", &[])["removed"], 0);
    assert_eq!(home.json(&["list"])["total"], 3);
    assert_eq!(import(&home, "in", &["--prune", "--dry-run"])["removed"], 1);
    assert_eq!(home.json(&["list"])["total"], 3);
    assert_eq!(import(&home, "in", &["--prune"])["removed"], 1);
    assert_eq!(home.json(&["list"])["total"], 2);
    assert_eq!(home.json(&["trash"])["notes"][0]["title"], "gone");
}

#[test]
fn an_unreadable_or_missing_folder_removes_nothing() {
    let home = Home::new();
    home.write("in/a.md", "# a\n");
    import(&home, "in", &[]);
    std::fs::remove_dir_all(home.path("in")).expect("removed");
    let stderr = home
        .pkm(&["import", text(&home.path("in")), "--prune", "--no-embed"])
        .fails(1);
    assert!(
        stderr.starts_with("error: ") && stderr.contains("[HOME]/in"),
        "{stderr}"
    );
    assert_eq!(home.json(&["list"])["total"], 1);
    let file = home.write("file.md", "# f\n");
    let stderr = home.pkm(&["import", text(&file), "--no-embed"]).fails(1);
    assert!(stderr.contains("[HOME]/file.md"), "{stderr}");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let home = Home::new();
    home.write("in/a.md", "# a\n");
    let printed = home.ok(&["import", text(&home.path("in")), "--dry-run"]);
    assert_eq!(
        printed,
        "would be: added 1, updated 0, unchanged 0, removed 0, skipped 0\n"
    );
    assert_eq!(home.json(&["list"])["total"], 0);
}

#[test]
fn other_encodings_are_read_and_reported_and_binary_is_skipped() {
    let home = Home::new();
    // "한글 문서입니다. 오늘은 회의가 있습니다." in CP949.
    let cp949: &[u8] = &[
        0xc7, 0xd1, 0xb1, 0xdb, 0x20, 0xb9, 0xae, 0xbc, 0xad, 0xc0, 0xd4, 0xb4, 0xcf, 0xb4, 0xd9,
        0x2e, 0x20, 0xbf, 0xc0, 0xb4, 0xc3, 0xc0, 0xba, 0x20, 0xc8, 0xb8, 0xc0, 0xc7, 0xb0, 0xa1,
        0x20, 0xc0, 0xd6, 0xbd, 0xc0, 0xb4, 0xcf, 0xb4, 0xd9, 0x2e, 0x0a,
    ];
    let utf16: Vec<u8> = "\u{feff}# 바다\n파도가 높다\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    home.write("in/옛글.md", cp949);
    home.write("in/메모장.md", utf16);
    home.write(
        "in/photo.md",
        [0x89, b'P', b'N', b'G', 0, 0, 0, 1, 0xff, 0xfe, 0, 0],
    );
    home.write("in/picture.png", [0x89, b'P', b'N', b'G']);
    home.write("in/plain.md", "# plain\n");
    let report = import(&home, "in", &[]);
    assert_eq!(report["added"], 3);
    let decoded: BTreeMap<&str, &str> = report["decoded"]
        .as_array()
        .expect("decoded")
        .iter()
        .map(|d| {
            (
                d["path"].as_str().expect("a path"),
                d["encoding"].as_str().expect("a name"),
            )
        })
        .collect();
    assert_eq!(
        decoded,
        BTreeMap::from([("메모장.md", "UTF-16LE"), ("옛글.md", "EUC-KR")])
    );
    let skipped = report["skipped"].as_array().expect("skipped");
    assert_eq!(skipped.len(), 1, "{report}");
    assert_eq!(skipped[0]["path"], "photo.md");
    assert_eq!(ids(&home.json(&["search", "--keyword", "회의"])).len(), 1);
    assert_eq!(ids(&home.json(&["search", "--keyword", "파도"])).len(), 1);
    let printed = home.ok(&["import", text(&home.path("in")), "--no-embed"]);
    assert!(printed.contains("skipped `photo.md`: "), "{printed}");
    assert!(
        printed.ends_with("added 0, updated 0, unchanged 3, removed 0, skipped 1\n"),
        "{printed}"
    );
}

#[test]
fn the_corpus_in_other_encodings_comes_in_as_text() {
    let home = Home::new();
    let report = home.json(&["import", text(&corpus().join("encodings")), "--no-embed"]);
    assert_eq!(report["added"], 2, "{report}");
    assert_eq!(
        report["decoded"].as_array().map(Vec::len),
        Some(2),
        "{report}"
    );
    assert_eq!(
        report["skipped"][0]["path"], "binary-garbage.md",
        "{report}"
    );
    for note in home.all_notes() {
        let content = note["content"].as_str().expect("text");
        assert!(
            content.contains(|c| ('가'..='힣').contains(&c)),
            "{content}"
        );
        assert!(!content.contains('\u{fffd}'), "{content}");
    }
}

#[test]
fn front_matter_rules_fences_and_line_ends_are_read_for_what_they_are() {
    let home = Home::new();
    let content = "\u{feff}---\r\ntitle: 여행 계획\r\ntags:\r\n  - 여행\r\n  - 2026\r\n---\r\n# 준비\r\n\r\n여권을 챙긴다\r\n\r\n---\r\n\r\n```sh\r\n# not a heading\r\necho zirkon\r\n```\r\n";
    home.write("in/trip.md", content);
    import(&home, "in", &[]);
    let note = home.json(&["get", "1"]);
    assert_eq!(note["title"], "여행 계획");
    assert_eq!(note["tags"], json!(["여행", "2026"]));
    assert_eq!(note["content"], content);
    let hit = &home.json(&["search", "--keyword", "zirkon"])["matches"][0];
    assert_eq!(hit["heading"], json!(["준비"]));
    assert!(
        hit["snippet"]
            .as_str()
            .expect("a snippet")
            .contains("zirkon"),
        "{hit}"
    );
    assert_eq!(ids(&home.json(&["search", "--keyword", "여권"])), ["1"]);
}

#[test]
fn without_a_model_an_import_says_that_meaning_will_follow() {
    let home = Home::new();
    home.write("in/a.md", "# a\n");
    let run = home.pkm(&["import", text(&home.path("in"))]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "added 1, updated 0, unchanged 0, removed 0, skipped 0\n"
    );
    assert!(
        run.stderr.contains("by meaning not yet: "),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("then run `pkm reindex`"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_folder_can_be_put_below_a_folder_of_the_notes() {
    let home = Home::new();
    home.write("in/sub/a.md", "# a\n");
    import(&home, "in", &["--into", "vault/old"]);
    assert_eq!(home.json(&["get", "1"])["folder"], "vault/old/sub");
}
