//! Vectors, what is pending, and how an index keeps up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Scene, at};
use pkm_store::{Changes, ChunkId, Counts, Error, NoteId, PassageHash, Problem};

const F: &str = "fingerprint-f";
const G: &str = "fingerprint-g";

/// A unit vector that `seed` tells from others.
fn unit(seed: u8) -> Vec<f32> {
    let angle = f32::from(seed) / 40.0;
    vec![angle.cos(), angle.sin(), 0.0]
}

fn hash(text: &str) -> PassageHash {
    PassageHash::of(text.as_bytes())
}

fn put(scene: &Scene, fingerprint: &str, text: &str, seed: u8) -> usize {
    scene
        .store
        .put_vectors(fingerprint, 3, &[(hash(text), unit(seed))])
        .unwrap()
}

fn load(scene: &Scene, fingerprint: &str) -> (Vec<(ChunkId, Vec<f32>)>, i64) {
    let mut all = Vec::new();
    let seq = scene
        .store
        .load_vectors(fingerprint, &mut |id, vector| {
            all.push((id, vector.to_vec()))
        })
        .unwrap();
    (all, seq)
}

fn chunk(scene: &Scene, id: NoteId) -> ChunkId {
    scene.store.chunks_of(id).unwrap()[0].id
}

fn pending(scene: &Scene, fingerprint: &str) -> Vec<String> {
    let passages = scene
        .store
        .pending_passages(fingerprint, ChunkId::default(), 100)
        .unwrap();
    passages.into_iter().map(|passage| passage.text).collect()
}

#[test]
fn equal_passages_are_pending_once_and_share_one_vector() {
    let scene = Scene::new();
    let a = scene.add("a", "same");
    let b = scene.add("b", "same");
    scene.add("c", "other");
    assert_eq!(pending(&scene, F), ["same", "other"]);
    assert_eq!(put(&scene, F, "same", 1), 1);
    assert_eq!(pending(&scene, F), ["other"]);
    assert_eq!(pending(&scene, G), ["same", "other"]);
    let (vectors, _) = load(&scene, F);
    assert_eq!(
        vectors,
        [(chunk(&scene, a), unit(1)), (chunk(&scene, b), unit(1))]
    );
    assert_eq!(
        scene.store.vectors_of(b, F).unwrap(),
        [(chunk(&scene, b), unit(1))]
    );
    assert_eq!(load(&scene, G).0, []);
}

#[test]
fn pending_passages_come_in_batches_without_repetition() {
    let scene = Scene::new();
    for n in 0..10 {
        scene.add("n", &format!("text {n}"));
    }
    let (mut after, mut seen) = (ChunkId::default(), Vec::new());
    loop {
        let batch = scene.store.pending_passages(F, after, 3).unwrap();
        let Some(last) = batch.last() else { break };
        after = last.chunk_id;
        seen.extend(batch.into_iter().map(|passage| passage.text));
    }
    let want: Vec<String> = (0..10).map(|n| format!("text {n}")).collect();
    assert_eq!(seen, want);
}

#[test]
fn a_passage_that_was_given_up_is_not_pending_until_it_is_taken_up_again() {
    let scene = Scene::new();
    scene.add("a", "bad");
    scene
        .store
        .mark_failed(F, hash("bad"), "too strange")
        .unwrap();
    assert!(pending(&scene, F).is_empty());
    assert_eq!(
        scene.store.failed_passages(F, 10).unwrap()[0].reason,
        "too strange"
    );
    assert_eq!(scene.store.counts(F).unwrap().n_failed, 1);
    assert_eq!(scene.store.clear_failed(F).unwrap(), 1);
    assert_eq!(pending(&scene, F), ["bad"]);
    scene.store.mark_failed(F, hash("bad"), "again").unwrap();
    put(&scene, F, "bad", 1);
    assert!(scene.store.failed_passages(F, 10).unwrap().is_empty());
}

#[test]
fn counts_follow_every_write_of_every_process() {
    let scene = Scene::new();
    let other = pkm_store::Store::open(scene.dir.path()).unwrap();
    assert_eq!(other.counts(F).unwrap(), Counts::default());
    let id = scene.add("a", "one");
    scene.add("b", "two");
    put(&scene, F, "one", 1);
    let want = Counts {
        n_notes: 2,
        n_chunks: 2,
        n_indexed: 1,
        n_pending: 1,
        ..Counts::default()
    };
    assert_eq!(other.counts(F).unwrap(), want);
    assert_eq!(scene.store.counts(F).unwrap(), want);
    assert_eq!(other.counts(G).unwrap().n_pending, 2);
    scene.store.delete_note(id, None, at(1)).unwrap();
    let want = Counts {
        n_notes: 1,
        n_chunks: 1,
        n_pending: 1,
        n_trashed: 1,
        ..Counts::default()
    };
    assert_eq!(other.counts(F).unwrap(), want);
    assert_eq!(scene.store.counts(F).unwrap(), want);
}

#[test]
fn a_vector_that_must_not_be_stored_refuses_its_whole_batch() {
    let scene = Scene::new();
    scene.add("a", "one");
    scene.add("b", "two");
    let bad: [Vec<f32>; 5] = [
        vec![f32::NAN, 0.0, 1.0],
        vec![0.0, 0.0, 0.0],
        vec![0.5, 0.5, 0.0],
        vec![1.0, 0.0],
        vec![1.0 / 3f32.sqrt(); 3],
    ];
    for vector in bad {
        let batch = [(hash("one"), unit(1)), (hash("two"), vector.clone())];
        let refused = scene.store.put_vectors(F, 3, &batch);
        assert!(
            matches!(&refused, Err(Error::InvalidVector { hash: of, .. }) if *of == hash("two")),
            "{vector:?}: {refused:?}"
        );
    }
    assert_eq!(pending(&scene, F), ["one", "two"]);
    put(&scene, F, "one", 1);
    let refused = scene
        .store
        .put_vectors(F, 2, &[(hash("two"), vec![1.0, 0.0])]);
    assert!(matches!(
        refused,
        Err(Error::Dimension {
            expected: 3,
            found: 2,
            ..
        })
    ));
}

#[test]
fn an_index_learns_of_added_edited_and_deleted_notes() {
    let scene = Scene::new();
    let a = scene.add("a", "one");
    let b = scene.add("b", "two");
    put(&scene, F, "one", 1);
    let (_, seq) = load(&scene, F);
    assert_eq!(
        scene.store.vector_changes(F, seq).unwrap(),
        Changes::UpToDate
    );
    assert_eq!(scene.store.change_seq().unwrap(), seq);

    put(&scene, F, "two", 2);
    let old = chunk(&scene, a);
    // A new title: other chunks, the same passage, whose vector is there already.
    scene.edit(a, None, "renamed", "one").unwrap();
    let gone = chunk(&scene, b);
    scene.store.delete_note(b, None, at(1)).unwrap();
    let copy = scene.add("c", "one");
    let Changes::Apply {
        mut added,
        removed,
        seq,
    } = scene.store.vector_changes(F, seq).unwrap()
    else {
        panic!("there are changes to apply");
    };
    added.sort_by_key(|(id, _)| *id);
    assert_eq!(
        added,
        [(chunk(&scene, a), unit(1)), (chunk(&scene, copy), unit(1))]
    );
    assert_eq!(removed, [old, gone]);
    assert_eq!(
        scene.store.vector_changes(F, seq).unwrap(),
        Changes::UpToDate
    );
}

#[test]
fn restoring_from_the_trash_embeds_nothing_anew() {
    let scene = Scene::new();
    let id = scene.add("a", "one");
    put(&scene, F, "one", 1);
    scene.store.delete_note(id, None, at(1)).unwrap();
    assert_eq!(load(&scene, F).0, []);
    // Not even when the trash was swept, as long as the note is still in it.
    assert_eq!(
        scene
            .store
            .empty_trash(Some(at(1)), None)
            .unwrap()
            .n_vectors,
        0
    );
    scene.restore(id, 1).unwrap();
    assert_eq!(load(&scene, F).0, [(chunk(&scene, id), unit(1))]);
    assert!(pending(&scene, F).is_empty());
}

#[test]
fn a_purge_drops_vectors_that_nothing_needs() {
    let scene = Scene::new();
    let id = scene.add("a", "one");
    scene.add("b", "two");
    put(&scene, F, "one", 1);
    put(&scene, F, "two", 2);
    assert_eq!(put(&scene, F, "of no note", 3), 0);
    scene.store.delete_note(id, None, at(1)).unwrap();
    let purged = scene.store.empty_trash(Some(at(2)), None).unwrap();
    assert_eq!((purged.n_notes, purged.n_vectors), (1, 1));
    assert_eq!(scene.store.fingerprints().unwrap()[0].n_vectors, 1);
}

#[test]
fn dropping_a_fingerprint_tells_its_index_to_reload() {
    let scene = Scene::new();
    scene.add("a", "one");
    put(&scene, F, "one", 1);
    put(&scene, G, "one", 2);
    let (_, seq) = load(&scene, F);
    assert_eq!(scene.store.drop_vectors_except(&[G]).unwrap(), 1);
    assert_eq!(scene.store.vector_changes(F, seq).unwrap(), Changes::Reload);
    assert_eq!(load(&scene, F).0, []);
    let names: Vec<String> = scene
        .store
        .fingerprints()
        .unwrap()
        .into_iter()
        .map(|count| count.fingerprint)
        .collect();
    assert_eq!(names, [G]);
    // Made again: the index that missed it starts from the beginning.
    put(&scene, F, "one", 3);
    assert_eq!(scene.store.vector_changes(F, seq).unwrap(), Changes::Reload);
}

#[test]
fn an_index_from_another_file_is_told_to_reload() {
    let scene = Scene::new();
    scene.add("a", "one");
    put(&scene, F, "one", 1);
    assert_eq!(
        scene.store.vector_changes(F, 1_000).unwrap(),
        Changes::Reload
    );
}

#[test]
fn an_index_too_far_behind_is_told_to_reload() {
    let scene = Scene::new();
    scene.add("a", "one");
    put(&scene, F, "one", 1);
    let (_, seq) = load(&scene, F);
    // Writing the same vectors many times is a change each time.
    let batch: Vec<_> = (0..120).map(|n| (hash("one"), unit(n))).collect();
    let many: Vec<_> = (0..1_000).flat_map(|_| batch.clone()).collect();
    scene.store.put_vectors(F, 3, &many).unwrap();
    assert_eq!(scene.store.vector_changes(F, seq).unwrap(), Changes::Reload);
    let (_, seq) = load(&scene, F);
    assert_eq!(
        scene.store.vector_changes(F, seq).unwrap(),
        Changes::UpToDate
    );
    put(&scene, F, "one", 5);
    assert!(matches!(
        scene.store.vector_changes(F, seq).unwrap(),
        Changes::Apply { .. }
    ));
}

#[test]
fn a_note_without_text_is_never_pending() {
    let scene = Scene::new();
    let note = pkm_store::NewNote {
        title: "만 있는 제목".to_owned(),
        ..Default::default()
    };
    let none = pkm_store::Chunking {
        by: "test",
        chunks: &[],
    };
    let id = scene.store.add_note(&note, none, at(0)).unwrap().id;
    assert_eq!(scene.find("제목"), [id]);
    assert!(pending(&scene, F).is_empty());
    assert!(scene.store.chunks_of(id).unwrap().is_empty());
    assert_eq!(scene.store.counts(F).unwrap().n_chunks, 0);
}

#[test]
fn damage_is_found_and_mended_without_touching_a_note() {
    let scene = Scene::new();
    let id = scene.add("a", "one two");
    scene.add("b", "three");
    put(&scene, F, "one two", 1);
    assert_eq!(scene.store.check().unwrap(), []);

    let conn = rusqlite::Connection::open(scene.store.path()).unwrap();
    let broken = chunk(&scene, id);
    conn.execute("DELETE FROM posting WHERE rowid = ?1", [broken.0])
        .unwrap();
    conn.execute(
        "INSERT INTO posting (rowid, body) VALUES (999, 'ghost')",
        [],
    )
    .unwrap();
    conn.execute("UPDATE vector SET vector = zeroblob(12)", [])
        .unwrap();
    conn.execute(
        "UPDATE chunk SET end_byte = 100 WHERE note_id = ?1",
        [id.0 + 1],
    )
    .unwrap();
    drop(conn);
    let problems = scene.store.check().unwrap();
    let has = |is_it: fn(&Problem) -> bool| problems.iter().any(is_it);
    assert!(
        has(|p| matches!(p, Problem::ChunkWithoutPosting { .. })),
        "{problems:?}"
    );
    assert!(
        has(|p| matches!(p, Problem::PostingWithoutChunk { .. })),
        "{problems:?}"
    );
    assert!(
        has(|p| matches!(p, Problem::BadVector { .. })),
        "{problems:?}"
    );
    assert!(
        has(|p| matches!(p, Problem::BadRange { .. })),
        "{problems:?}"
    );

    let repaired = scene.store.repair().unwrap();
    assert_eq!(
        (
            repaired.n_postings,
            repaired.n_vectors,
            repaired.n_notes_to_rechunk
        ),
        (2, 1, 1)
    );
    assert_eq!(scene.find("two"), [id]);
    assert_eq!(pending(&scene, F)[0], "one two");
    let todo = scene
        .store
        .notes_not_chunked_by(common::CHUNKER, NoteId(0), 10)
        .unwrap();
    assert_eq!(todo.len(), 1);
    assert!(scene.rechunk(todo[0].id, 1, common::CHUNKER).unwrap());
    assert_eq!(scene.store.check().unwrap(), []);
}
