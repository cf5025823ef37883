//! One note at a time: add, get, list, edit, delete, restore, history, trash.

use crate::support::Home;

#[test]
fn a_note_from_stdin_is_given_back_byte_for_byte() {
    let home = Home::new();
    let content = "\u{feff}# 회의록\r\n\r\n본문 👨‍👩‍👧 e\u{301}\t끝";
    let run = home.pkm_with(
        &["add", "--tag", "회의", "--tag", "work", "--folder", "일/팀"],
        content,
    );
    assert_eq!(run.ok(), "added note 1\n");
    assert_eq!(home.ok(&["get", "1"]), content);
    let note = home.json(&["get", "1"]);
    assert_eq!(note["title"], "회의록");
    assert_eq!(note["content"], content);
    assert_eq!(note["tags"], serde_json::json!(["회의", "work"]));
    assert_eq!(note["folder"], "일/팀");
    assert_eq!(note["revision"], 1);
}

#[test]
fn a_title_comes_from_the_heading_or_the_file_or_the_flag() {
    let home = Home::new();
    let check = |file: &str, content: &str, extra: &[&str], title: &str| {
        let path = home.write(file, content);
        let path = path.to_str().expect("UTF-8");
        let added = home.json(&[&["add", path], extra].concat());
        let note = home.json(&["get", &added["id"].to_string()]);
        assert_eq!(note["title"], title);
    };
    check("a.md", "# Heading\n", &[], "Heading");
    check("장보기.md", "", &[], "장보기");
    check("b.md", "# Heading\n", &["--title", "Flag"], "Flag");
}

#[test]
fn text_without_a_title_asks_for_one() {
    let home = Home::new();
    let stderr = home.pkm_with(&["add"], " \n").fails(2);
    assert_eq!(
        stderr,
        "error: the text has no heading to take the title from\nhint: give one with `--title`\n"
    );
}

#[test]
fn a_file_that_is_not_utf_8_is_refused_with_the_command_that_reads_it() {
    let home = Home::new();
    // 한글 in EUC-KR.
    let path = home.write("old.md", [0xc7, 0xd1, 0xb1, 0xdb]);
    let stderr = home.pkm(&["add", path.to_str().expect("UTF-8")]).fails(1);
    assert_eq!(
        stderr,
        "error: `[HOME]/old.md` is not UTF-8\nhint: `pkm import` reads other encodings\n"
    );
}

#[test]
fn a_list_is_filtered_sorted_and_says_when_there_is_more() {
    let home = Home::new();
    for (title, folder, tag) in [
        ("나", "일", "a"),
        ("가", "일/팀", "b"),
        ("다", "", "a"),
        ("apple", "집", "A"),
    ] {
        home.pkm_with(
            &["add", "--title", title, "--folder", folder, "--tag", tag],
            "x",
        )
        .ok();
    }
    let titles = |arguments: &[&str]| -> Vec<String> {
        let list = home.json(&[&["list", "--sort", "title"], arguments].concat());
        let notes = list["notes"].as_array().expect("notes").clone();
        notes
            .iter()
            .map(|note| note["title"].as_str().expect("a title").to_owned())
            .collect()
    };
    assert_eq!(titles(&[]), ["apple", "가", "나", "다"]);
    assert_eq!(titles(&["--folder", "일"]), ["가", "나"]);
    assert_eq!(titles(&["--tag", "a"]), ["apple", "나", "다"]);
    assert_eq!(titles(&["--limit", "2"]), ["apple", "가"]);
    let run = home.pkm(&["list", "--limit", "2"]);
    assert_eq!(run.stdout.lines().count(), 2);
    assert_eq!(run.stderr, "2 of 4 notes; `--all` shows the rest\n");
}

#[test]
fn more_notes_than_a_page_are_all_listed() {
    let home = Home::new();
    let folder = home.path("many");
    for i in 0..450 {
        home.write(&format!("many/{i}.md"), format!("# note {i}\n"));
    }
    home.ok(&["import", folder.to_str().expect("UTF-8"), "--no-embed"]);
    let check = |arguments: &[&str], n: usize| {
        let list = home.json(arguments);
        let notes = list["notes"].as_array().expect("notes");
        let ids: std::collections::HashSet<String> =
            notes.iter().map(|note| note["id"].to_string()).collect();
        assert_eq!((notes.len(), ids.len()), (n, n));
        assert_eq!(list["total"], 450);
    };
    check(&["list", "--all"], 450);
    check(&["list", "--limit", "250"], 250);
    check(&["list", "--limit", "200"], 200);
    check(&["list"], 50);
}

#[test]
fn each_kind_of_edit_changes_what_it_names_and_nothing_else() {
    let home = Home::new();
    let id = home.add("title", "one two three\n");
    let check = |arguments: &[&str], field: &str, expected: serde_json::Value| {
        home.ok(&[&["edit", &id], arguments].concat());
        assert_eq!(home.json(&["get", &id])[field], expected, "{arguments:?}");
    };
    check(
        &["--replace", "two", "둘"],
        "content",
        "one 둘 three\n".into(),
    );
    check(
        &["--append", "- four"],
        "content",
        "one 둘 three\n- four".into(),
    );
    check(&["--title", "new title"], "title", "new title".into());
    check(
        &["--tag", "x", "--tag", "y"],
        "tags",
        serde_json::json!(["x", "y"]),
    );
    check(&["--no-tags"], "tags", serde_json::json!([]));
    check(&["--folder", "a/b"], "folder", "a/b".into());
    check(&["--folder", "/"], "folder", "".into());
    check(&["--expect", "8", "--title", "last"], "revision", 9.into());
    let content = home.write("new.md", "whole\n");
    check(
        &["--content", content.to_str().expect("UTF-8")],
        "content",
        "whole\n".into(),
    );
    home.pkm_with(&["edit", &id, "--append", "-"], "piped\n")
        .ok();
    assert_eq!(home.ok(&["get", &id]), "whole\npiped\n");
}

#[test]
fn an_edit_that_cannot_be_meant_is_refused_and_changes_nothing() {
    let home = Home::new();
    let id = home.add("t", "one one\n");
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let stderr = home.pkm(&[&["edit", &id], arguments].concat()).fails(code);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(home.json(&["get", &id])["revision"], 1);
    };
    check(&["--replace", "one", "x"], 2, "`replace`");
    check(&["--replace", "absent", "x"], 2, "`replace`");
    check(&["--replace", "", "x"], 2, "`replace`");
    check(&["--title", " "], 2, "`title`");
    check(&["--folder", "../up"], 2, "`folder`");
    check(
        &["--expect", "7", "--title", "x"],
        1,
        &format!("hint: `pkm get {id} --json` shows the note and its revision"),
    );
}

#[cfg(unix)]
#[test]
fn without_options_the_editor_is_started_on_the_note() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    let id = home.add("t", "before\n");
    let editor = home.write(
        "my editor",
        "#!/bin/sh\n[ \"$1\" = --wait ] || exit 3\nsed -i.old s/before/after/ \"$2\"\n",
    );
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).expect("a script");
    let edit = |editor: &str| home.finish(home.command().env("EDITOR", editor).args(["edit", &id]));
    let ours = format!("'{}' --wait", editor.display());
    assert_eq!(
        edit(&ours).ok(),
        format!("note {id} is now at revision 2\n")
    );
    assert_eq!(home.ok(&["get", &id]), "after\n");

    let unchanged = edit("true");
    assert_eq!(
        (unchanged.code, unchanged.stderr.as_str()),
        (0, "nothing was changed\n")
    );
    let failed = edit("false").fails(1);
    assert!(failed.contains("the editor `false` failed"), "{failed}");
    let none = home.pkm(&["edit", &id]).fails(1);
    assert!(
        none.contains("no editor is set\nhint: set `VISUAL` or `EDITOR`"),
        "{none}"
    );
}

#[cfg(unix)]
#[test]
fn text_from_the_editor_is_kept_when_the_note_has_moved_on() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    let id = home.add("t", "before\n");
    // While this editor is open, the note is changed from elsewhere.
    let script = format!(
        "#!/bin/sh\necho mine > \"$1\"\n'{}' edit {id} --title elsewhere > /dev/null\n",
        env!("CARGO_BIN_EXE_pkm")
    );
    let editor = home.write("editor", script);
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).expect("a script");
    let stderr = home
        .finish(
            home.command()
                .env("EDITOR", &editor)
                .env("TMPDIR", home.path(""))
                .args(["edit", &id]),
        )
        .fails(1);
    let kept = stderr
        .split('`')
        .nth(1)
        .expect("the file is named")
        .replace("[HOME]", home.path("").to_str().expect("UTF-8"));
    assert_eq!(std::fs::read_to_string(kept).expect("it is kept"), "mine\n");
    assert!(
        stderr.contains(&format!("error: note {id} is at revision 2, not at 1")),
        "{stderr}"
    );
}

#[test]
fn a_deleted_note_is_out_of_sight_until_it_is_restored() {
    let home = Home::new();
    let id = home.add("going", "wanderung\n");
    let printed = home.ok(&["delete", &id]);
    assert!(
        printed.starts_with(&format!("note {id} is in the trash; `pkm restore {id}`")),
        "{printed}"
    );
    assert_eq!(home.json(&["list"])["total"], 0);
    assert_eq!(
        home.json(&["search", "wanderung", "--keyword"])["matches"],
        serde_json::json!([])
    );
    let stderr = home.pkm(&["get", &id]).fails(1);
    assert_eq!(
        stderr,
        format!(
            "error: note {id} is in the trash; restore it to use it again\nhint: `pkm restore {id}` takes it out of the trash\n"
        )
    );
    let trash = home.json(&["trash"]);
    assert_eq!(trash["notes"][0]["title"], "going");
    home.ok(&["restore", &id]);
    assert_eq!(home.ok(&["get", &id]), "wanderung\n");
    assert_eq!(
        home.json(&["search", "wanderung", "--keyword"])["matches"][0]["title"],
        "going"
    );
    assert_eq!(home.json(&["trash"])["notes"], serde_json::json!([]));
}

#[test]
fn the_trash_is_emptied_for_good_by_who_says_so() {
    let home = Home::new();
    let gone = home.add("going", "wanderung\n");
    let kept = home.add("staying", "wanderung\n");
    assert_eq!(
        home.pkm(&["trash", "--empty"]).stderr,
        "the trash is empty\n"
    );
    home.ok(&["delete", &gone]);
    // Nobody can answer here, and nothing is taken for a yes.
    let stderr = home.pkm_with(&["trash", "--empty"], "y\n").fails(1);
    assert_eq!(
        stderr,
        "error: 1 note would be gone for good, and there is nobody to ask\n\
         hint: `pkm trash --empty --yes` deletes without asking\n"
    );
    assert_eq!(home.json(&["trash"])["notes"][0]["title"], "going");
    assert_eq!(
        home.ok(&["trash", "--empty", "--yes"]),
        "deleted 1 note for good\n"
    );
    let stderr = home.pkm(&["restore", &gone]).fails(1);
    assert!(
        stderr.contains(&format!("there is no note {gone}")),
        "{stderr}"
    );
    assert_eq!(home.ok(&["get", &kept]), "wanderung\n");
    let emptied = home.json(&["trash", "--empty", "--yes"]);
    assert_eq!(emptied, serde_json::json!({"deleted": 0, "revisions": 0}));
    home.pkm(&["trash", "--yes"]).fails(2);
}

#[test]
fn a_stale_delete_is_refused() {
    let home = Home::new();
    let id = home.add("t", "x");
    home.ok(&["edit", &id, "--title", "u"]);
    let stderr = home.pkm(&["delete", &id, "--expect", "1"]).fails(1);
    assert!(stderr.contains("is at revision 2, not at 1"), "{stderr}");
    home.ok(&["delete", &id, "--expect", "2"]);
}

#[test]
fn every_revision_is_kept_and_can_be_gone_back_to() {
    let home = Home::new();
    let id = home.add("first", "eins\n");
    home.ok(&["edit", &id, "--title", "second"]);
    home.ok(&["edit", &id, "--replace", "eins", "zwei"]);
    let history = home.json(&["history", &id]);
    let revisions: Vec<(i64, &str)> = history["revisions"]
        .as_array()
        .expect("revisions")
        .iter()
        .map(|r| {
            (
                r["revision"].as_i64().expect("a number"),
                r["title"].as_str().expect("a title"),
            )
        })
        .collect();
    assert_eq!(revisions, [(3, "second"), (2, "second"), (1, "first")]);
    assert_eq!(home.ok(&["get", &id, "--revision", "1"]), "eins\n");
    assert_eq!(
        home.json(&["get", &id, "--revision", "2"])["title"],
        "second"
    );
    home.ok(&["restore", &id, "--revision", "1"]);
    let note = home.json(&["get", &id]);
    assert_eq!(
        (note["title"].as_str(), note["content"].as_str()),
        (Some("first"), Some("eins\n"))
    );
    let stderr = home.pkm(&["restore", &id, "--revision", "99"]).fails(1);
    assert!(
        stderr.contains(&format!("hint: `pkm history {id}` shows the revisions")),
        "{stderr}"
    );
}
