use super::*;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pkm_engine::{
    DryRun, Error, ExportRequest, ImportReport, ImportRequest, ListRequest, Note, Overwrite, Prune,
    Sort,
};

fn import_with(engine: &Engine, root: &Path, prune: Prune) -> Result<ImportReport, Error> {
    let request = ImportRequest {
        root: root.to_owned(),
        into: String::new(),
        prune,
        dry_run: DryRun::No,
    };
    engine.import_folder(&request, &mut |_| ControlFlow::Continue(()))
}

fn import(engine: &Engine, root: &Path) -> ImportReport {
    import_with(engine, root, Prune::Keep).unwrap()
}

fn export(engine: &Engine, to: &Path, overwrite: Overwrite) -> Result<usize, Error> {
    let request = ExportRequest {
        to: to.to_owned(),
        overwrite,
    };
    engine
        .export_folder(&request, &mut |_| ControlFlow::Continue(()))
        .map(|report| report.n_written)
}

fn counts(report: &ImportReport) -> [usize; 4] {
    [
        report.n_added,
        report.n_updated,
        report.n_unchanged,
        report.n_removed,
    ]
}

fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn notes(engine: &Engine) -> Vec<Note> {
    let request = ListRequest {
        filter: Filter::default(),
        sort: Sort::Title,
        limit: 200,
        cursor: None,
    };
    let page = engine.list_notes(&request).unwrap();
    assert!(page.next_cursor.is_none());
    page.notes
        .iter()
        .map(|note| engine.get_note(note.id).unwrap())
        .collect()
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/notes")
}

#[test]
fn a_second_import_changes_nothing_and_a_changed_file_one_note() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    write(vault.path(), "a.md", "# One\n\nfirst");
    write(vault.path(), "work/b.md", "# Two\n\nsecond");
    assert_eq!(counts(&import(&engine, vault.path())), [2, 0, 0, 0]);
    assert_eq!(counts(&import(&engine, vault.path())), [0, 0, 2, 0]);
    write(vault.path(), "work/b.md", "# Two\n\nchanged");
    assert_eq!(counts(&import(&engine, vault.path())), [0, 1, 1, 0]);
    assert_eq!(
        find(&engine, "changed", SearchMode::Keyword).hits[0].folder,
        "work"
    );
    assert!(find(&engine, "second", SearchMode::Keyword).hits.is_empty());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    write(vault.path(), "a.md", "x");
    let request = ImportRequest {
        root: vault.path().to_owned(),
        into: String::new(),
        prune: Prune::Remove,
        dry_run: DryRun::Yes,
    };
    let report = engine
        .import_folder(&request, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(counts(&report), [1, 0, 0, 0]);
    assert_eq!(engine.status().unwrap().n_notes, 0);
}

#[test]
fn a_note_whose_file_is_gone_stays_unless_asked() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    write(vault.path(), "a.md", "stays");
    write(vault.path(), "b.md", "goes");
    import(&engine, vault.path());
    fs::remove_file(vault.path().join("b.md")).unwrap();
    assert_eq!(counts(&import(&engine, vault.path())), [0, 0, 1, 0]);
    assert_eq!(
        counts(&import_with(&engine, vault.path(), Prune::Remove).unwrap()),
        [0, 0, 1, 1]
    );
    assert_eq!(engine.trash(10).unwrap().len(), 1);
    // The file returns, and so does its note.
    write(vault.path(), "b.md", "goes");
    assert_eq!(counts(&import(&engine, vault.path())), [1, 0, 1, 0]);
}

#[test]
fn a_note_that_a_person_deleted_does_not_come_back_with_its_file() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    write(vault.path(), "a.md", "unwanted");
    import(&engine, vault.path());
    engine.delete_note(notes(&engine)[0].id, None).unwrap();
    let report = import(&engine, vault.path());
    assert_eq!(counts(&report), [0, 0, 1, 0]);
    assert_eq!(report.warnings.len(), 1);
    assert!(
        find(&engine, "unwanted", SearchMode::Keyword)
            .hits
            .is_empty()
    );
    // What is written into the file later is another matter.
    write(vault.path(), "a.md", "wanted after all");
    assert_eq!(counts(&import(&engine, vault.path())), [1, 0, 0, 0]);
}

#[test]
fn a_folder_that_is_gone_or_empty_removes_nothing() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    let root = vault.path().join("vault");
    write(&root, "a.md", "x");
    write(&root, "b.md", "y");
    import(&engine, &root);
    fs::remove_file(root.join("a.md")).unwrap();
    fs::remove_file(root.join("b.md")).unwrap();
    let error = import_with(&engine, &root, Prune::Remove).unwrap_err();
    assert!(
        matches!(error, Error::Invalid { field: "prune", .. }),
        "{error:?}"
    );
    fs::remove_dir(&root).unwrap();
    let error = import_with(&engine, &root, Prune::Remove).unwrap_err();
    assert!(error.to_string().contains("vault"), "{error}");
    assert!(matches!(error, Error::Folder { .. }));
    assert_eq!(engine.status().unwrap().n_notes, 2);
}

#[test]
fn an_edit_made_here_is_kept_as_a_revision_when_the_file_changes_too() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    write(vault.path(), "a.md", "from the file");
    import(&engine, vault.path());
    let id = notes(&engine)[0].id;
    let edit = pkm_engine::NoteEdit {
        content: Some(pkm_engine::ContentEdit::Append("from here".into())),
        ..Default::default()
    };
    engine.update_note(id, &edit).unwrap();
    assert_eq!(
        counts(&import(&engine, vault.path())),
        [0, 0, 1, 0],
        "the file has not changed"
    );
    write(vault.path(), "a.md", "from the file, again");
    let report = import(&engine, vault.path());
    assert_eq!(report.warnings.len(), 1, "{report:?}");
    assert_eq!(engine.get_note(id).unwrap().content, "from the file, again");
    engine.restore_note(id, Some(2)).unwrap();
    assert_eq!(
        engine.get_note(id).unwrap().content,
        "from the file\nfrom here"
    );
}

#[test]
fn files_in_other_encodings_are_read_and_reported_and_noise_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with(dir.path(), Worker::Off, no_model());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/encodings");
    let report = import(&engine, &root);
    let decoded: Vec<&str> = report
        .decoded
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(decoded, ["cp949.md", "utf-16le-bom.md"]);
    let skipped: Vec<&str> = report
        .skipped
        .iter()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(skipped, ["binary-garbage.md"]);
    assert_eq!(report.n_added, 2);
}

#[test]
fn what_is_exported_imports_to_the_same_notes() {
    let (dir, again, out) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let engine = open_with(dir.path(), Worker::Off, no_model());
    let report = import(&engine, &corpus());
    assert_eq!(report.n_added, 70, "{:?}", report.skipped);
    engine
        .add_note(NoteDraft {
            tags: vec!["회의".into(), "two words".into()],
            folder: "새 폴더/a:b".into(),
            ..draft("a/b: 제목?", "no front matter\r\n")
        })
        .unwrap();
    add(&engine, "same title", "one");
    add(&engine, "same title", "two");
    add(&engine, "empty", "");
    assert_eq!(export(&engine, out.path(), Overwrite::Refuse).unwrap(), 74);
    assert!(export(&engine, out.path(), Overwrite::Refuse).is_err());
    assert_eq!(
        export(&engine, out.path(), Overwrite::FormerExport).unwrap(),
        74
    );

    let copy = open_with(again.path(), Worker::Off, no_model());
    assert_eq!(import(&copy, out.path()).n_added, 74);
    let plain = |note: Note| {
        (
            note.title,
            note.content,
            note.tags,
            note.folder,
            note.created_at,
            note.updated_at,
        )
    };
    let sorted = |engine: &Engine| {
        let mut all: Vec<_> = notes(engine).into_iter().map(plain).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&copy), sorted(&engine));
}

#[test]
fn an_import_that_is_stopped_keeps_what_it_did_and_goes_on_later() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    for i in 0..5 {
        write(vault.path(), &format!("{i}.md"), format!("note {i}"));
    }
    let request = ImportRequest {
        root: vault.path().to_owned(),
        into: "in".into(),
        prune: Prune::Keep,
        dry_run: DryRun::No,
    };
    let stopped = engine.import_folder(&request, &mut |at| {
        if at.done == 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(stopped, Err(Error::Cancelled)));
    assert_eq!(engine.status().unwrap().n_notes, 2);
    let report = engine
        .import_folder(&request, &mut |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(counts(&report), [3, 0, 2, 0]);
    assert!(notes(&engine).iter().all(|note| note.folder == "in"));
}

#[test]
fn a_tag_that_cannot_be_is_left_out_and_the_note_is_not() {
    let (dir, vault) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = open_with(dir.path(), Worker::Off, no_model());
    write(
        vault.path(),
        "a.md",
        format!("---\ntags: [good, {}]\n---\nx", "긴".repeat(300)),
    );
    let report = import(&engine, vault.path());
    assert_eq!(
        (report.n_added, report.warnings.len()),
        (1, 1),
        "{report:?}"
    );
    assert_eq!(notes(&engine)[0].tags, ["good"]);
}
