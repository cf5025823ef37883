use super::*;

const PROBLEM: &str = "a problem is reported";

#[track_caller]
fn check_absent(content: &str) {
    let found = split_front_matter(content);
    assert!(found.range.is_empty(), "{found:?}");
    assert_eq!(found.problem, None);
}

fn title_in(content: &str, file_stem: &str) -> String {
    title_of(&split_front_matter(content), content, file_stem)
}

fn at(text: &str) -> Option<Timestamp> {
    Some(text.parse().expect("a timestamp"))
}

#[test]
fn a_file_with_a_mark_crlf_and_a_rule_in_its_body_is_read() {
    let content = "\u{FEFF}---\r\ntitle: 인증 설계\r\ntags:\r\n  - 보안\r\n  - \"#mcp\"\r\ncreated: 2026-11-03\r\nupdated: 2026년 11월 4일\r\n---\r\n# 다른 제목\r\n\r\n앞\r\n\r\n---\r\n\r\n뒤\r\n";
    let found = split_front_matter(content);
    assert_eq!(found.range.start, 3);
    assert!(content[found.range.end..].starts_with("# 다른 제목\r\n"));
    assert_eq!(found.title.as_deref(), Some("인증 설계"));
    assert_eq!(found.tags, ["보안", "mcp"]);
    assert_eq!(found.created, at("2026-11-03T00:00:00Z"));
    assert_eq!(found.updated, at("2026-11-04T00:00:00Z"));
    assert_eq!(found.problem, None);
    assert_eq!(title_in(content, "file"), "인증 설계");
}

#[test]
fn tags_are_read_in_every_form() {
    for (yaml, expected) in [
        ("tags: [rust, \"mcp\"]", vec!["rust", "mcp"]),
        (
            "tags: rust, machine learning",
            vec!["rust", "machine learning"],
        ),
        ("tags: rust mcp", vec!["rust", "mcp"]),
        ("Tags: '#rust #mcp'", vec!["rust", "mcp"]),
        ("tags: #rust #mcp", vec!["rust", "mcp"]),
        (
            "tags:\n- #rust\n- machine learning\nother: #no",
            vec!["rust", "machine learning"],
        ),
        ("tags:\n  - 2026\n  - 회의/주간", vec!["2026", "회의/주간"]),
        ("tag: Rust\ntags: [rust]", vec!["Rust"]),
        ("태그: 요리, 한식", vec!["요리", "한식"]),
        ("tags:", vec![]),
        ("tags: []", vec![]),
        ("tags: ['a, b', c]", vec!["a", "b", "c"]),
    ] {
        let found = split_front_matter(&format!("---\n{yaml}\n---\nbody"));
        assert_eq!(found.tags, expected, "{yaml}");
    }
}

#[test]
fn aliases_keep_their_spaces() {
    let found = split_front_matter("---\naliases: [MCP server, 서버]\n---\n");
    assert_eq!(found.aliases, ["MCP server", "서버"]);
    let found = split_front_matter("---\nalias: one name, another\n---\n");
    assert_eq!(found.aliases, ["one name", "another"]);
}

#[test]
fn a_key_that_says_created_beats_a_bare_date() {
    for yaml in [
        "date: 2020-01-01\ncreated_at: 2026-11-03",
        "Date Created: 2026-11-03\ndate: 2020-01-01",
    ] {
        let found = split_front_matter(&format!(
            "---\n{yaml}\nlastmod: 2026-11-05T01:00:00+09:00\n---\n"
        ));
        assert_eq!(found.created, at("2026-11-03T00:00:00Z"));
        assert_eq!(found.updated, at("2026-11-04T16:00:00Z"));
    }
}

#[test]
fn a_date_that_cannot_be_read_is_reported_and_the_rest_is_kept() {
    let found = split_front_matter("---\ntitle: T\ncreated: next week\n---\nbody");
    assert_eq!(found.title.as_deref(), Some("T"));
    assert_eq!(found.created, None);
    assert!(
        found
            .problem
            .expect(PROBLEM)
            .contains("`created` is not a date")
    );
}

#[test]
fn rules_and_prose_at_the_top_are_no_front_matter() {
    check_absent("");
    check_absent("plain");
    check_absent("---");
    check_absent("---\n\n# Heading\n\n---\n");
    check_absent("---\nSome prose between rules.\n---\nmore");
    check_absent("---\n# Heading\n---\nmore");
    check_absent("---\n- a\n- list\n---\n");
    check_absent("---\n\ntitle: after a blank line\n\n---\n");
    check_absent("\n---\ntitle: not on the first line\n---\n");
    check_absent("----\ntitle: four dashes\n----\n");
    check_absent("***\ntitle: x\n***\n");
}

#[test]
fn an_empty_block_is_stepped_over() {
    let found = split_front_matter("---\n---\nbody");
    assert_eq!(found.range, 0..8);
    assert_eq!(found.problem, None);
}

#[test]
fn invalid_yaml_is_reported_by_line_and_stepped_over() {
    let content = "---\ntitle: \"open\ntags: [a, b\n---\n# Body\n";
    let found = split_front_matter(content);
    assert_eq!(&content[found.range.end..], "# Body\n");
    assert!(found.tags.is_empty());
    assert!(found.problem.expect(PROBLEM).contains("not valid YAML"));
    assert_eq!(title_in(content, "file"), "Body");

    let found = split_front_matter("---\ntitle: a: b\n---\n");
    let problem = found.problem.expect(PROBLEM);
    assert!(problem.contains("line 2"), "{problem}");
}

#[test]
fn hostile_yaml_is_refused_at_once() {
    let bomb: String = (1..20)
        .map(|i| format!("k{i}: &k{i} [{}]\n", format!("*k{},", i - 1).repeat(8)))
        .collect();
    for yaml in [
        format!("a: {}", "[".repeat(60_000)),
        format!("a: {}", "{a: ".repeat(10_000)),
        format!("a: {}", "x".repeat(100_000)),
        format!("k0: &k0 [x, x, x]\n{}", bomb.trim_end()),
    ] {
        let content = format!("---\n{yaml}\n---\nbody");
        let found = split_front_matter(&content);
        assert!(found.problem.is_some());
        assert_eq!(&content[found.range.end..], "body");
    }
}

#[test]
fn prose_behind_a_fence_that_was_never_closed_stays_in_the_body() {
    for content in [
        "---\ntitle: T\n\nA paragraph\n\n---\n\nafter a rule",
        "---\ntitle: T\n\nno second fence",
    ] {
        let found = split_front_matter(content);
        assert!(found.range.is_empty(), "{found:?}");
        assert!(found.problem.is_some());
    }
}

#[test]
fn a_title_comes_from_the_first_top_level_heading_outside_of_fences() {
    for (content, expected) in [
        ("```sh\n# a comment\n```\n\n# Real *title*\n", "Real title"),
        ("    # indented code\n\ntext\n\n# Real\n", "Real"),
        ("> # quoted\n\n# Real\n", "Real"),
        ("- # in a list\n\n# Real\n", "Real"),
        (
            "## second level\n\n# `code` and [[Link|a link]]\n",
            "code and a link",
        ),
        ("Set\nof two lines\n===\n", "Set of two lines"),
        ("#\n\n# Second\n", "Second"),
        ("# 한글 제목 #\n", "한글 제목"),
        ("#not-a-heading\n", "file"),
        ("", "file"),
        ("---\ntags: [a]\n---\r\n# Heading\r\n", "Heading"),
        ("---\ntitle: '  '\n---\n# Heading\n", "Heading"),
        ("---\ntitle: 2026\n---\n", "2026"),
    ] {
        assert_eq!(title_in(content, "file"), expected, "{content}");
    }
}

#[test]
fn a_decomposed_file_name_gives_a_composed_title() {
    let decomposed: String = "회의록".nfd().collect();
    assert_eq!(title_in("", &decomposed), "회의록");
}

proptest::proptest! {
    #[test]
    fn any_text_splits_at_a_character(content in "(\u{FEFF})?(---\r?\n)?([a-z한:#, \\-\\[\\]\"]{0,12}\r?\n){0,6}(---\r?\n)?\\PC{0,20}") {
        let found = split_front_matter(&content);
        proptest::prop_assert!(content.is_char_boundary(found.range.end));
        proptest::prop_assert!(found.range.start <= found.range.end);
        let _ = title_in(&content, "file");
    }
}
