//! Notes found by their words: Korean, English, names with punctuation, and whatever people
//! paste into a search box.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Scene, at};
use pkm_store::{Filter, NewNote, NoteId};
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

/// That the query finds the note, and as the first of all.
fn check_first(scene: &Scene, query: &str, want: NoteId) {
    assert_eq!(scene.find(query).first(), Some(&want), "{query:?}");
}

fn nfd(text: &str) -> String {
    text.nfd().collect()
}

fn fillers(scene: &Scene) {
    for n in 0..20 {
        scene.add(
            &format!("장보기 {n}"),
            "우유와 달걀, 빵을 산다. Buy milk, eggs and bread.",
        );
    }
}

#[test]
fn a_korean_noun_is_found_with_any_particle_and_in_any_unicode_form() {
    let scene = Scene::new();
    fillers(&scene);
    let cases = [
        ("알림", "새 알림을 끄는 법을 적는다"),
        ("회의록", "지난주 회의록에 빠진 내용"),
        ("파이썬", "파이썬으로 스크립트를 짠다"),
        ("데이터베이스", "데이터베이스를 옮긴다"),
        ("인증", "인증이 풀리는 까닭"),
        ("MCP", "MCP를 붙인다"),
        ("Rust", "Rust로 다시 쓴다"),
        ("런타임", "비동기 런타임을 고른다"),
        ("서버", "서버에서는 돌아가지 않는다"),
        ("사용자", "사용자들에게만 보인다"),
        ("설정", "설정했던 값이 사라졌다"),
        ("책", "책을 빌렸다"),
    ];
    let mut notes = Vec::new();
    for (query, content) in cases {
        notes.push((
            query,
            scene.add("메모", content),
            scene.add("메모", &nfd(content)),
        ));
    }
    for (query, composed, decomposed) in notes {
        let found = scene.find(query);
        assert!(found.contains(&composed), "{query}");
        assert!(found.contains(&decomposed), "{query}, decomposed note");
        assert_eq!(scene.find(&nfd(query)), found, "{query}, decomposed query");
        assert_eq!(
            scene.find(&query.to_uppercase()),
            found,
            "{query}, other case"
        );
    }
}

#[test]
fn a_particle_in_the_query_does_not_hide_the_bare_noun() {
    let scene = Scene::new();
    fillers(&scene);
    let id = scene.add("메모", "포인터, JVM 그리고 Redis 정리");
    for query in [
        "포인터가",
        "포인터를",
        "JVM에서",
        "Redis를",
        "포인터란 무엇인가요?",
    ] {
        check_first(&scene, query, id);
    }
}

#[test]
fn one_two_and_three_syllables_of_a_word_find_it() {
    let scene = Scene::new();
    fillers(&scene);
    let id = scene.add("투자", "오늘 삼성전자주식을 열 주 샀다");
    for query in ["삼성", "삼성전", "전자", "주식", "삼성전자"] {
        check_first(&scene, query, id);
    }
    for _ in 0..60 {
        scene.add("삼", "삼국지와 삼겹살");
    }
    // One syllable begins a great many words: an answer of the size asked for, and no error.
    let answer = scene
        .store
        .keyword_search("삼", &Filter::default(), 10)
        .unwrap();
    assert_eq!(answer.hits.len(), 10);
}

#[test]
fn a_compound_is_found_by_its_parts_and_ranks_below_the_word_itself() {
    let scene = Scene::new();
    fillers(&scene);
    let compound = scene.add("메모", "동물병원에 다녀왔다");
    let word = scene.add("메모", "병원에 다녀왔다");
    assert_eq!(scene.find("병원"), [word, compound]);
    let spaced = scene.add("메모", "얕은 복사와 깊은 복사");
    check_first(&scene, "얕은복사", spaced);
}

#[test]
fn names_with_punctuation_are_found_bare_quoted_and_inside_a_sentence() {
    let scene = Scene::new();
    fillers(&scene);
    let decoys = "PR 1234개, 2026년 11월, v1, src, c, scope, foo, bar, C, don, 50";
    for n in 0..3 {
        scene.add(&format!("{n}"), decoys);
    }
    let id = scene.add(
        "메모",
        "See PR-1234 of 2026.11.30, v1.2.3-rc.4: src/a_b/c.rs, @scope/pkg and foo::bar in C++ \
         don't reach 50%.",
    );
    let names = [
        "PR-1234",
        "2026.11.30",
        "v1.2.3-rc.4",
        "src/a_b/c.rs",
        "@scope/pkg",
        "foo::bar",
        "C++",
        "don't",
        "50%",
        "a_b",
        "c.rs",
        "scope/pkg",
        "pr-1234",
        "don’t",
    ];
    for name in names {
        check_first(&scene, name, id);
        check_first(&scene, &format!("\"{name}\""), id);
        check_first(&scene, &format!("where did I see {name}, again?"), id);
        check_first(&scene, &format!("{name}를 어디서 봤더라"), id);
        assert!(
            !scene.find(&format!("see -{name}")).contains(&id),
            "-{name}"
        );
    }
}

#[test]
fn a_minus_excludes_and_a_phrase_keeps_its_order() {
    let scene = Scene::new();
    let both = scene.add("a", "rust async runtime");
    let one = scene.add("b", "rust borrow checker");
    let turned = scene.add("c", "runtime async rust");
    assert_eq!(scene.find("rust -async"), [one]);
    assert_eq!(scene.find("\"async runtime\""), [both]);
    assert_eq!(scene.find("rust -\"async runtime\""), [one, turned]);
    assert_eq!(scene.find("-rust"), []);
    assert_eq!(scene.find("AND OR NOT NEAR"), []);
    let words = scene.add("d", "this AND that, NOT those");
    assert_eq!(scene.find("\"that, NOT those\""), [words]);
    assert_eq!(scene.find("인증 -인증"), []);
}

#[test]
fn english_is_found_in_any_inflection_and_the_exact_word_comes_first() {
    let scene = Scene::new();
    fillers(&scene);
    let inflected = scene.add("a", "the servers were indexing their policies");
    let exact = scene.add("b", "a server to index the policy of notes");
    assert_eq!(scene.find("server index policy"), [exact, inflected]);
    let camel = scene.add("c", "class HttpClientFactory uses utf8");
    check_first(&scene, "factory", camel);
    check_first(&scene, "utf 8", camel);
    let cafe = scene.add("d", "Café Müller");
    check_first(&scene, "cafe muller", cafe);
    check_first(&scene, "CAFÉ", cafe);
    let mail = scene.add("e", "send an e-mail");
    check_first(&scene, "email", mail);
}

#[test]
fn a_question_finds_what_it_asks_about() {
    let scene = Scene::new();
    fillers(&scene);
    let korean = scene.add(
        "배포",
        "배포는 금요일에 하지 않는다. 되돌리기는 deploy.sh 로 한다.",
    );
    let english = scene.add(
        "Backup",
        "The backup of the database runs every night at two.",
    );
    for n in 0..5 {
        scene.add(
            "noise",
            &format!("how is what the when {n}, 어떻게 언제 무엇"),
        );
    }
    check_first(&scene, "배포는 언제 하면 안 되나요?", korean);
    check_first(&scene, "when does the database backup run?", english);
    // Nothing else was asked, so the words count after all.
    assert_eq!(scene.find("어떻게 언제").len(), 5);
}

#[test]
fn a_title_that_is_the_query_beats_a_text_that_repeats_it() {
    let scene = Scene::new();
    fillers(&scene);
    let title = scene.add("Properties", "Key and value pairs at the top of a note.");
    scene.add(
        "Changelog",
        "properties, properties and more properties of properties",
    );
    check_first(&scene, "properties", title);
}

#[test]
fn tags_and_headings_are_searched_too() {
    let scene = Scene::new();
    fillers(&scene);
    let tagged = scene
        .add_full(&NewNote {
            tags: vec!["독서-모임".to_owned()],
            ..NewNote::default()
        })
        .id;
    check_first(&scene, "독서", tagged);
    check_first(&scene, "#독서-모임", tagged);
}

#[test]
fn han_and_kana_are_found_without_blanks_between_words() {
    let scene = Scene::new();
    fillers(&scene);
    let id = scene.add("a", "東京都の歴史を調べるカタカナ");
    for query in ["東京", "歴史", "京都の", "史", "カタカナ", "ｶﾀｶﾅ"] {
        check_first(&scene, query, id);
    }
    assert_eq!(scene.find("史歴"), []);
}

#[test]
fn edits_and_deletions_are_seen_at_once() {
    let scene = Scene::new();
    let other = pkm_store::Store::open(scene.dir.path()).unwrap();
    let id = scene.add("old title", "old text");
    scene.edit(id, None, "new title", "new text").unwrap();
    for store in [&scene.store, &other] {
        let find = |query| {
            store
                .keyword_search(query, &Filter::default(), 10)
                .unwrap()
                .hits
                .len()
        };
        assert_eq!((find("old"), find("new")), (0, 1));
    }
    scene.store.delete_note(id, None, at(3)).unwrap();
    for store in [&scene.store, &other] {
        assert!(
            store
                .keyword_search("new", &Filter::default(), 10)
                .unwrap()
                .hits
                .is_empty()
        );
    }
    scene.restore(id, 2).unwrap();
    assert_eq!(scene.find("new"), [id]);
    assert!(scene.store.check().unwrap().is_empty());
}

#[test]
fn a_filter_is_applied_before_the_limit() {
    let scene = Scene::new();
    let add = |folder: &str| {
        scene
            .add_full(&NewNote {
                title: "same".to_owned(),
                content: "words".to_owned(),
                folder: folder.to_owned(),
                ..NewNote::default()
            })
            .id
    };
    for _ in 0..200 {
        add("large");
    }
    let small: Vec<NoteId> = (0..3).map(|_| add("small")).collect();
    let filter = Filter {
        folder: Some("small".to_owned()),
        ..Filter::default()
    };
    let answer = scene.store.keyword_search("words", &filter, 3).unwrap();
    let found: Vec<NoteId> = answer.hits.iter().map(|hit| hit.note_id).collect();
    assert_eq!(found, small, "equal scores go by id");
}

#[test]
fn the_best_chunk_stands_for_its_note_and_terms_may_be_spread() {
    let scene = Scene::new();
    fillers(&scene);
    let text = "alpha one.beta two.";
    let id = scene.add_chunked("t", text, &[0..10, 10..19]).unwrap().id;
    let chunks = scene.store.chunks_of(id).unwrap();
    let answer = scene
        .store
        .keyword_search("alpha beta", &Filter::default(), 10)
        .unwrap();
    assert_eq!(answer.hits.len(), 1);
    assert_eq!(answer.hits[0].n_terms_matched, 2);
    assert!(answer.hits[0].all_terms);
    let answer = scene
        .store
        .keyword_search("beta", &Filter::default(), 10)
        .unwrap();
    assert_eq!(answer.hits[0].chunk_id, chunks[1].id);
}

#[test]
fn a_query_without_a_word_finds_nothing() {
    let scene = Scene::new();
    scene.add("a", "some text");
    for query in [
        "", " \n\t", "...", "\"\"", "\"", "-", "--", "*", "( ) [ ]", "\0", "\u{200b}",
    ] {
        let answer = scene
            .store
            .keyword_search(query, &Filter::default(), 10)
            .unwrap();
        assert_eq!((answer.n_terms, answer.hits.len()), (0, 0), "{query:?}");
    }
}

#[test]
fn a_very_long_query_and_a_word_without_end_are_bounded() {
    let scene = Scene::new();
    let endless = "x".repeat(100_000);
    let id = scene.add("a", &endless);
    check_first(&scene, &endless, id);
    let hangul = "가나다라".repeat(20_000);
    let id = scene.add("b", &hangul);
    check_first(&scene, "가나다라", id);
    let base64 = "Ab9/cD+eF0-gH_".repeat(20_000);
    let id = scene.add("c", &format!("{base64} picture"));
    check_first(&scene, "picture", id);
    assert!(scene.store.size_bytes() < 20_000_000);
    let many: String = (0..5_000).map(|n| format!("word{n} ")).collect();
    let answer = scene
        .store
        .keyword_search(&many, &Filter::default(), 10)
        .unwrap();
    assert_eq!(answer.n_terms, 32);
}

/// Text as it may be pasted: any characters, and all that means something to a query language.
fn any_query() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        "[가-힣]{1,6}[을를이가은는에]?",
        prop::sample::select(vec![
            "\"",
            "-",
            "*",
            "(",
            ")",
            "^",
            ":",
            "AND",
            "OR",
            "NOT",
            "NEAR(",
            "col:x",
            "{",
            "}",
            "+",
            "'",
            ";",
            "--",
            "C++",
            "\0",
            "\u{301}",
            "\u{1100}",
            "👨‍👩‍👧",
            "%",
            "_",
            "\\",
            "“",
            "”",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_query_is_an_error(query in any_query(), joined in any::<bool>()) {
        let query = if joined { query.replace(' ', "") } else { query };
        thread_local! {
            static SCENE: Scene = {
                let scene = Scene::new();
                scene.add("메모 a", "some text AND 인증을 \"quoted\" C++ -x 50%");
                scene
            };
        }
        SCENE.with(|scene| scene.store.keyword_search(&query, &Filter::default(), 10).unwrap());
    }

    #[test]
    fn marked_ranges_are_slices_in_order(text in any_query(), query in any_query()) {
        let mut end = 0;
        for range in pkm_store::analyze::matches(&text, &query) {
            prop_assert!(range.start >= end && !text[range.clone()].is_empty());
            end = range.end;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_note_is_found_by_any_of_its_words(text in any_query()) {
        let scene = Scene::new();
        let id = scene.add("t", &text);
        let is_plain = |word: &&str| word.len() < 60 && word.chars().all(|c| c.is_ascii_alphanumeric());
        for word in text.split_whitespace().filter(is_plain) {
            prop_assert_eq!(scene.find(word), [id], "{} in {:?}", word, text);
        }
    }
}
