use super::*;
use pkm_engine::{Completeness, ContentEdit, Error, NoteEdit};

const MODES: [SearchMode; 3] = [SearchMode::Keyword, SearchMode::Vector, SearchMode::Hybrid];

#[test]
fn a_bad_request_is_refused_with_field_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let check = |request: SearchRequest, wanted: &str| match engine.search(&request) {
        Err(Error::Invalid { field, .. }) => assert_eq!(field, wanted),
        other => panic!("{wanted}: {other:?}"),
    };
    for mode in MODES {
        check(request("", mode), "query");
        check(request(" \n\u{3000}", mode), "query");
        check(request(&"긴 ".repeat(3_000), mode), "query");
        check(
            SearchRequest {
                limit: 0,
                ..request("x", mode)
            },
            "limit",
        );
        check(
            SearchRequest {
                limit: 51,
                ..request("x", mode)
            },
            "limit",
        );
        check(
            SearchRequest {
                cursor: Some("abc".into()),
                ..request("x", mode)
            },
            "cursor",
        );
    }
}

#[test]
fn an_empty_store_says_that_it_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    for mode in MODES {
        let answer = find(&engine, "anything", mode);
        assert_eq!(answer.index.state, Completeness::Empty);
        assert!(answer.hits.is_empty());
    }
}

#[test]
fn an_edit_is_found_by_its_new_words_and_not_by_its_old() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let id = add(&engine, "pet", "the zebra");
    let edit = NoteEdit {
        content: Some(ContentEdit::Set("the giraffe".into())),
        ..NoteEdit::default()
    };
    engine.update_note(id, &edit).unwrap();
    assert_eq!(ids(&find(&engine, "zebra", SearchMode::Keyword).hits), []);
    for mode in MODES {
        let hits = find(&engine, "giraffe", mode).hits;
        assert_eq!(ids(&hits), [id]);
        assert!(hits[0].snippet.contains("giraffe"), "{}", hits[0].snippet);
    }
}

#[test]
fn a_small_folder_gives_its_hits_beside_a_large_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    for i in 0..300 {
        engine
            .add_note(NoteDraft {
                folder: "large".into(),
                ..draft("coffee", &format!("coffee beans number {i}"))
            })
            .unwrap();
    }
    for i in 0..5 {
        engine
            .add_note(NoteDraft {
                folder: "small/inner".into(),
                ..draft("tea", &format!("tea leaves and a little coffee {i}"))
            })
            .unwrap();
    }
    for mode in MODES {
        let filter = Filter {
            folder: Some("small".into()),
            ..Filter::default()
        };
        let answer = engine
            .search(&SearchRequest {
                filter,
                limit: 3,
                ..request("coffee beans", mode)
            })
            .unwrap();
        assert_eq!(answer.hits.len(), 3, "{mode:?}");
        assert!(answer.hits.iter().all(|hit| hit.folder == "small/inner"));
    }
}

#[test]
fn a_long_note_does_not_crowd_out_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Background);
    let sections: String = (0..200)
        .map(|i| format!("## Part {i}\n\n{}\n\n", "harbor lights ".repeat(60)))
        .collect();
    let long = add(&engine, "harbor", &sections);
    let others: Vec<NoteId> = (0..9)
        .map(|i| add(&engine, "other", &format!("a harbor, once, in year {i}")))
        .collect();
    assert_eq!(engine.settle(PATIENCE).unwrap(), 0);
    let hits = ids(&find(&engine, "harbor lights", SearchMode::Vector).hits);
    assert_eq!(hits.len(), 10);
    assert!(hits.contains(&long));
    assert!(others.iter().all(|id| hits.contains(id)));
}

#[test]
fn pages_follow_each_other_without_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    for i in 0..23 {
        add(&engine, &format!("note {i}"), "the same words everywhere");
    }
    for mode in MODES {
        let mut request = SearchRequest {
            limit: 10,
            ..request("same words", mode)
        };
        let mut seen = Vec::new();
        loop {
            let answer = engine.search(&request).unwrap();
            seen.extend(ids(&answer.hits));
            match answer.next_cursor {
                Some(cursor) => request.cursor = Some(cursor),
                None => break,
            }
        }
        assert_eq!(seen.len(), 23, "{mode:?}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 23, "{mode:?}");
        // A cursor of another request is no place in this one.
        let other = SearchRequest {
            query: "other".into(),
            ..request
        };
        assert!(other.cursor.is_some());
        assert!(matches!(
            engine.search(&other),
            Err(Error::Invalid {
                field: "cursor",
                ..
            })
        ));
    }
}

#[test]
fn without_a_model_words_still_find_and_the_answer_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open_with(dir.path(), Worker::Background, no_model());
    let id = add(&engine, "인증", "인증을 켠다");
    let answer = find(&engine, "인증", SearchMode::Hybrid);
    assert_eq!(ids(&answer.hits), [id]);
    assert_eq!(answer.index.state, Completeness::KeywordOnly);
    assert!(answer.index.reason.unwrap().contains("pkm model pull"));
    let error = engine
        .search(&request("인증", SearchMode::Vector))
        .unwrap_err();
    assert!(matches!(error, Error::NoModel { .. }), "{error:?}");
    assert_eq!(
        find(&engine, "인증", SearchMode::Keyword).index.state,
        Completeness::Complete
    );
}

#[test]
fn what_waits_to_be_embedded_is_said() {
    let dir = tempfile::tempdir().unwrap();
    add(
        &open_with(dir.path(), Worker::Off, no_model()),
        "later",
        "not embedded yet",
    );
    let engine = open(dir.path(), Worker::Off);
    let answer = find(&engine, "nothing like it", SearchMode::Hybrid);
    assert_eq!(answer.index.state, Completeness::Partial);
    assert!(answer.index.pending > 0);
    assert!(answer.index.reason.is_some());
}

#[test]
fn vectors_of_another_model_are_not_searched_and_both_models_are_named() {
    let dir = tempfile::tempdir().unwrap();
    add(
        &open(dir.path(), Worker::Off),
        "old",
        "made by the first model",
    );
    let other = HashEmbedder::with_dim(32);
    let engine = open_with(dir.path(), Worker::Off, ModelSource::Ready(Arc::new(other)));
    let error = engine
        .search(&request("first", SearchMode::Vector))
        .unwrap_err();
    assert!(matches!(error, Error::StaleIndex { .. }), "{error:?}");
    let words = error.to_string();
    assert!(
        words.contains("64 dimensions") && words.contains("32 dimensions"),
        "{words}"
    );
    let answer = find(&engine, "first", SearchMode::Hybrid);
    assert_eq!(answer.hits.len(), 1);
    assert_eq!(answer.index.state, Completeness::KeywordOnly);
    // Writes go on, and what is new is found by meaning.
    let new = add(&engine, "new", "made by the second");
    assert_eq!(
        ids(&find(&engine, "second", SearchMode::Vector).hits),
        [new]
    );
}

#[test]
fn related_notes_are_near_and_leave_the_note_itself_out() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    let kimchi = add(&engine, "kimchi", "cabbage salt garlic chili");
    let radish = add(&engine, "radish kimchi", "radish salt garlic chili");
    add(&engine, "taxes", "income form deadline office");
    let answer = engine.related_notes(kimchi, 2, &Filter::default()).unwrap();
    assert_eq!(answer.hits[0].id, radish);
    assert!(answer.hits.iter().all(|hit| hit.id != kimchi));
    assert!(matches!(
        engine.related_notes(NoteId(99), 2, &Filter::default()),
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn a_score_below_the_floor_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), Worker::Off);
    add(&engine, "a", "one thing");
    let floor = SearchRequest {
        min_score: Some(1.1),
        ..request("one thing", SearchMode::Vector)
    };
    assert!(engine.search(&floor).unwrap().hits.is_empty());
}
