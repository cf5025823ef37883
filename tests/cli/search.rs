//! Search by words, as a user without a model has it.

use crate::support::{Home, ids, text};

#[test]
fn a_hit_shows_where_it_is_and_the_words_that_matched() {
    let home = Home::new();
    let filler = "other words here\n".repeat(40);
    let content = format!("# 회의록\n\n{filler}\n## 결정\n\n인증을 내년으로 미룬다\n\n{filler}");
    home.pkm_with(
        &[
            "add",
            "--title",
            "3월 회의",
            "--folder",
            "일/팀",
            "--tag",
            "회의",
        ],
        content,
    )
    .ok();
    let answer = home.json(&["search", "--keyword", "인증"]);
    let hit = &answer["matches"][0];
    assert_eq!(hit["title"], "3월 회의");
    assert!(
        hit["snippet"]
            .as_str()
            .expect("a snippet")
            .contains("인증을"),
        "{hit}"
    );
    assert_eq!(hit["heading"], serde_json::json!(["회의록", "결정"]));
    let (first, last) = (hit["lines"][0].as_u64(), hit["lines"][1].as_u64());
    assert!(first <= Some(46) && last >= Some(46), "{hit}");
    let printed = home.ok(&["search", "--keyword", "인증"]);
    assert!(
        printed.starts_with(" 1. #1  3월 회의  (일/팀)\n    회의록 > 결정, line"),
        "{printed}"
    );
    assert!(printed.contains("인증을 내년으로"), "{printed}");
}

#[test]
fn without_a_model_words_are_found_and_the_answer_says_that_only_they_are() {
    let home = Home::new();
    home.add("a", "quartz\n");
    let run = home.pkm(&["search", "quartz"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("quartz"), "{}", run.stdout);
    assert!(run.stderr.contains("by words only: "), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("`pkm model pull multilingual-e5-small`"),
        "{}",
        run.stderr
    );
    let answer = home.json(&["search", "quartz"]);
    assert_eq!(answer["index"]["state"], "keyword_only");
    assert_eq!(ids(&answer), ["1"]);
}

#[test]
fn by_meaning_alone_needs_a_model_and_says_so() {
    let home = Home::new();
    home.add("a", "quartz\n");
    let stderr = home.pkm(&["search", "--vector", "quartz"]).fails(1);
    assert!(
        stderr.starts_with("error: search by meaning is not available: "),
        "{stderr}"
    );
    assert!(
        stderr.ends_with("hint: `--keyword` finds words without a model\n"),
        "{stderr}"
    );
    let stderr = home.pkm(&["related", "1"]).fails(1);
    assert!(
        stderr.starts_with("error: search by meaning is not available: "),
        "{stderr}"
    );
    let stderr = home.pkm(&["reindex"]).fails(1);
    assert!(
        stderr.starts_with("error: nothing can be embedded: "),
        "{stderr}"
    );
}

#[test]
fn nothing_found_and_nothing_there_are_told_apart() {
    let home = Home::new();
    let run = home.pkm(&["search", "--keyword", "quartz"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(
        run.stderr.contains("there are no notes yet"),
        "{}",
        run.stderr
    );
    home.add("a", "b");
    let run = home.pkm(&["search", "--keyword", "quartz"]);
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (0, "", "nothing found\n")
    );
}

#[test]
fn filters_narrow_a_search() {
    let home = Home::new();
    for (title, folder, tag) in [("a", "일", "x"), ("b", "일/팀", "y"), ("c", "집", "x")] {
        home.pkm_with(
            &["add", "--title", title, "--folder", folder, "--tag", tag],
            "quartz",
        )
        .ok();
    }
    let found = |arguments: &[&str]| {
        let mut ids = ids(&home.json(&[&["search", "--keyword", "quartz"], arguments].concat()));
        ids.sort();
        ids
    };
    assert_eq!(found(&[]), ["1", "2", "3"]);
    assert_eq!(found(&["--folder", "일"]), ["1", "2"]);
    assert_eq!(found(&["--tag", "x"]), ["1", "3"]);
    assert_eq!(found(&["--tag", "x", "--folder", "일"]), ["1"]);
    assert_eq!(found(&["--after", "2000-01-01"]), ["1", "2", "3"]);
    assert!(found(&["--before", "2000-01-01"]).is_empty());
    assert!(found(&["--after", "2100-01-01T00:00:00Z"]).is_empty());
    assert_eq!(found(&["--limit", "1"]).len(), 1);
}

#[test]
fn words_that_look_like_options_or_operators_can_be_searched() {
    let home = Home::new();
    home.add(
        "a",
        "PR-1234 in src/a_b/c.rs, @scope/pkg, foo::bar, C++, don't, 50%, \"quoted\"\n",
    );
    for query in [
        "PR-1234",
        "src/a_b/c.rs",
        "@scope/pkg",
        "foo::bar",
        "C++",
        "don't",
        "50%",
        "\"quoted\"",
        "AND",
        "((",
        "*",
        "x:y",
    ] {
        // Whatever is found, no query is an error.
        let answer = home.json(&["search", "--keyword", query]);
        let expected = !["AND", "((", "*", "x:y"].contains(&query);
        assert_eq!(
            ids(&answer).contains(&"1".to_owned()),
            expected,
            "{query}: {answer}"
        );
    }
    let without = |word: &str| {
        let arguments = ["search", "--keyword", "--json", "--", "PR-1234", word];
        ids(&home.pkm(&arguments).json())
    };
    assert_eq!(without("-unrelated"), ["1"]);
    assert!(without("-quoted").is_empty());
}

#[test]
fn fifty_long_notes_make_a_bounded_answer() {
    let home = Home::new();
    let folder = home.path("long");
    for i in 0..60 {
        let text = format!(
            "# note {i}\n\n{}\n",
            "quartz and many more words in one long line ".repeat(500)
        );
        home.write(&format!("long/{i}.md"), text);
    }
    home.ok(&["import", folder.to_str().expect("UTF-8"), "--no-embed"]);
    let run = home.pkm(&["search", "--keyword", "quartz", "--limit", "50", "--json"]);
    let size = run.stdout.len();
    let answer = run.json();
    assert_eq!(ids(&answer).len(), 50);
    assert!(answer["next_cursor"].is_string(), "more is marked");
    // 22 kB a note would be over a megabyte.
    assert!(size < 80_000, "{size} bytes");
    for hit in answer["matches"].as_array().expect("matches") {
        assert!(hit["snippet"].as_str().expect("a snippet").chars().count() <= 400);
    }
}

#[test]
fn text_from_notes_cannot_steer_the_terminal() {
    let home = Home::new();
    home.write("in/a\u{1b}[31m.md", "quartz \u{1b}[2J\u{7} gone\n");
    let run = home.pkm(&["import", text(&home.path("in")), "--no-embed"]);
    assert!(
        !format!("{}{}", run.stdout, run.stderr).contains('\u{1b}'),
        "{:?}",
        run.stdout
    );
    home.add("b", "quartz \u{1b}[2J\u{7} gone\n");
    for arguments in [
        &["search", "--keyword", "quartz"][..],
        &["list"],
        &["history", "1"],
    ] {
        let printed = home.ok(arguments);
        assert!(!printed.contains('\u{1b}'), "{arguments:?}: {printed:?}");
    }
}
