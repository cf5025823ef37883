//! Random histories of a store against a plain map, and many threads at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use common::{CHUNKER, Scene, at, chunking, chunks};
use pkm_store::{Edit, Error, Filter, NewNote, NoteId, NoteState, Sort, Store};
use proptest::prelude::*;

const WORDS: &[&str] = &["인증", "회의록", "rust", "server", "데이터", "PR-12"];
const PARTICLES: &[&str] = &["", "을", "에서", "는"];

#[derive(Debug, Clone)]
enum Step {
    Add(Vec<(usize, usize)>),
    Edit(usize, Vec<(usize, usize)>),
    Delete(usize),
    Restore(usize, usize),
    Reopen,
}

#[derive(Debug, Clone, Default)]
struct Kept {
    /// The text of each state, and which of the words it has.
    states: Vec<(String, Vec<usize>)>,
    is_trashed: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let text = || prop::collection::vec((0..WORDS.len(), 0..PARTICLES.len()), 0..4);
    prop_oneof![
        3 => text().prop_map(Step::Add),
        3 => (any::<usize>(), text()).prop_map(|(note, text)| Step::Edit(note, text)),
        2 => any::<usize>().prop_map(Step::Delete),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(note, state)| Step::Restore(note, state)),
        1 => Just(Step::Reopen),
    ]
}

/// The text, and which of the words it has.
fn text(words: &[(usize, usize)], unique: usize) -> (String, Vec<usize>) {
    let text: Vec<String> = words
        .iter()
        .map(|(word, end)| format!("{}{}", WORDS[*word], PARTICLES[*end]))
        .collect();
    let mut has: Vec<usize> = words.iter().map(|(word, _)| *word).collect();
    has.sort_unstable();
    has.dedup();
    (format!("{} nr{unique}", text.join(" ")), has)
}

fn check(scene: &Scene, map: &BTreeMap<NoteId, Kept>) {
    let live: Vec<NoteId> = map
        .iter()
        .filter(|(_, kept)| !kept.is_trashed)
        .map(|(id, _)| *id)
        .collect();
    let page = scene
        .store
        .list_notes(&Filter::default(), Sort::Created, 1_000, None)
        .unwrap();
    let mut listed: Vec<NoteId> = page.notes.iter().map(|note| note.id).collect();
    listed.sort();
    assert_eq!(listed, live);
    for (at, word) in WORDS.iter().enumerate() {
        let mut found = scene.find(word);
        found.sort();
        let has = |id: &&NoteId| {
            map[*id]
                .states
                .last()
                .is_some_and(|(_, words)| words.contains(&at))
        };
        let want: Vec<NoteId> = live.iter().filter(has).copied().collect();
        assert_eq!(found, want, "{word}");
    }
    for (id, kept) in map {
        let got = scene.store.get_note(*id);
        match kept.is_trashed {
            true => assert!(matches!(got, Err(Error::Trashed { .. }))),
            false => assert_eq!(got.unwrap().revision, kept.states.len() as i64),
        }
        assert_eq!(scene.store.history(*id).unwrap().len(), kept.states.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_leaves_what_a_plain_map_says(steps in prop::collection::vec(step(), 1..25)) {
        let mut scene = Scene::new();
        let mut map: BTreeMap<NoteId, Kept> = BTreeMap::new();
        for (n, step) in steps.into_iter().enumerate() {
            let ids: Vec<NoteId> = map.keys().copied().collect();
            let pick = |at: usize| ids.get(at % ids.len().max(1)).copied();
            match step {
                Step::Add(words) => {
                    let (text, has) = text(&words, n);
                    let id = scene.add("t", &text);
                    prop_assert!(ids.iter().all(|known| *known < id));
                    map.insert(id, Kept { states: vec![(text, has)], is_trashed: false });
                }
                Step::Edit(note, words) => {
                    let Some(id) = pick(note) else { continue };
                    let (text, has) = text(&words, n);
                    let kept = map.get_mut(&id).unwrap();
                    let edited = scene.edit(id, Some(kept.states.len() as i64), "t", &text);
                    prop_assert_eq!(edited.is_err(), kept.is_trashed);
                    if edited.is_ok() {
                        kept.states.push((text, has));
                    }
                }
                Step::Delete(note) => {
                    let Some(id) = pick(note) else { continue };
                    let kept = map.get_mut(&id).unwrap();
                    prop_assert_eq!(scene.store.delete_note(id, None, at(2)).is_err(), kept.is_trashed);
                    kept.is_trashed = true;
                }
                Step::Restore(note, state) => {
                    let Some(id) = pick(note) else { continue };
                    let kept = map.get_mut(&id).unwrap();
                    let state = state % kept.states.len();
                    scene.restore(id, state as i64 + 1).unwrap();
                    kept.is_trashed = false;
                    // A state that is like the present one makes no new revision.
                    if kept.states.last() != Some(&kept.states[state]) {
                        kept.states.push(kept.states[state].clone());
                    }
                }
                Step::Reopen => {
                    let Scene { store, dir } = scene;
                    drop(store);
                    scene = Scene { store: Store::open(dir.path()).unwrap(), dir };
                }
            }
            check(&scene, &map);
        }
        prop_assert_eq!(scene.store.check().unwrap(), vec![]);
    }
}

#[test]
fn threads_on_two_handles_lose_no_note_and_no_edit() {
    let scene = Scene::new();
    let second = Store::open(scene.dir.path()).unwrap();
    let stores = [Arc::new(scene.store), Arc::new(second)];
    let shared = stores[0]
        .add_note(&NewNote::default(), chunking(&[]), at(0))
        .unwrap()
        .id;
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let store = Arc::clone(&stores[t % 2]);
            thread::spawn(move || work(&store, shared, t))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let counts = stores[0].counts("f").unwrap();
    assert_eq!((counts.n_notes, counts.n_trashed), (1 + 8 * 5, 8 * 5));
    // Every line that a thread was told is there.
    let note = stores[1].get_note(shared).unwrap();
    assert_eq!(note.content.lines().count(), 8 * 5);
    assert_eq!(note.revision, 1 + 8 * 5);
    assert_eq!(stores[0].check().unwrap(), []);
}

/// Adds ten notes and deletes five of them, and appends five lines to the note that all share.
fn work(store: &Store, shared: NoteId, thread: usize) {
    for n in 0..5 {
        let content = format!("thread{thread} number{n}");
        let note = NewNote {
            content: content.clone(),
            ..NewNote::default()
        };
        let cut = chunks(&content, &[]);
        let keep = store.add_note(&note, chunking(&cut), at(0)).unwrap().id;
        let gone = store.add_note(&note, chunking(&cut), at(0)).unwrap().id;
        store.delete_note(gone, Some(1), at(1)).unwrap();
        let hits = store
            .keyword_search(&format!("\"{content}\""), &Filter::default(), 9)
            .unwrap()
            .hits;
        assert_eq!(
            hits.iter().map(|hit| hit.note_id).collect::<Vec<_>>(),
            [keep]
        );
        append(store, shared, &content);
    }
}

fn append(store: &Store, id: NoteId, line: &str) {
    loop {
        let note = store.get_note(id).unwrap();
        let state = NoteState {
            content: format!("{}{line}\n", note.content),
            ..NoteState::default()
        };
        let cut = chunks(&state.content, &[]);
        let chunking = pkm_store::Chunking {
            by: CHUNKER,
            chunks: &cut,
        };
        let edit = Edit {
            expected: Some(note.revision),
            state: &state,
            chunking,
        };
        match store.update_note(id, edit, at(1)) {
            Ok(_) => return,
            Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
