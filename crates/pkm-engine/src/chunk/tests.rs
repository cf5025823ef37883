use pkm_embed::estimate_tokens;
use proptest::prelude::*;
use unicode_segmentation::GraphemeCursor;

use super::*;

/// Cuts and checks what holds for every note.
#[track_caller]
fn check(title: &str, content: &str, limits: Limits) -> Vec<Chunk> {
    let body = split_front_matter(content).range.end;
    let chunks = chunk(title, content, &estimate_tokens, limits);
    assert!(!chunks.is_empty());
    let mut at = body;
    for chunk in &chunks {
        let text = &content[chunk.range.clone()];
        assert!(chunk.range.start >= at, "in order, no overlap");
        assert!(
            content[at..chunk.range.start].trim().is_empty(),
            "lost: {:?}",
            &content[at..chunk.range.start]
        );
        assert_eq!(text, text.trim_end());
        assert_eq!(chunk.first_line, line_of(content, chunk.range.start));
        assert_eq!(
            chunk.n_tokens,
            estimate_tokens(&passage_text(title, &chunk.heading_path, text))
        );
        at = chunk.range.end;
    }
    assert!(
        content[at..].trim().is_empty(),
        "lost: {:?}",
        &content[at..]
    );
    chunks
}

/// As [`check`], and none is larger than allowed.
#[track_caller]
fn check_sizes(title: &str, content: &str, limits: Limits) -> Vec<Chunk> {
    let chunks = check(title, content, limits);
    for chunk in &chunks {
        assert!(
            chunk.n_tokens <= limits.max_tokens,
            "{} tokens: {:?}",
            chunk.n_tokens,
            &content[chunk.range.clone()]
        );
    }
    chunks
}

fn texts<'a>(content: &'a str, chunks: &[Chunk]) -> Vec<&'a str> {
    chunks
        .iter()
        .map(|chunk| &content[chunk.range.clone()])
        .collect()
}

fn prose(n_sentences: usize) -> String {
    "사용자가 다시 인증을 요청하면 서버는 토큰을 새로 발급한다. The old token is revoked at once. "
        .repeat(n_sentences)
}

#[test]
fn a_small_note_is_one_chunk() {
    let content = "# 장보기\n\n우유, 달걀\n\n## 시장\n\n- 사과\n\n## 마트\n\n- 커피\n";
    let chunks = check_sizes("장보기", content, Limits::default());
    assert_eq!(texts(content, &chunks), [content.trim_end()]);
    assert_eq!(chunks[0].heading_path, Vec::<String>::new());
}

#[test]
fn a_note_without_a_body_is_found_by_its_title() {
    for content in [
        "",
        "  \r\n\n",
        "---\ntitle: 제목\n---\n",
        "\u{FEFF}",
        "---\ntags: [a]\n---\n\n \n",
    ] {
        let chunks = check_sizes("제목", content, Limits::default());
        assert_eq!(chunks.len(), 1);
        assert!(chunks[0].range.is_empty());
        assert_eq!(passage_text("제목", &chunks[0].heading_path, ""), "제목\n");
    }
}

#[test]
fn large_sections_are_apart_and_small_ones_together() {
    let content = format!(
        "# Design\n\nShort.\n\n## Login\n\n{}\n\n## Tokens\n\n{}\n\n## Open\n\n{}\n\n## Done\n\n{}\n- two\n",
        prose(7),
        prose(7),
        prose(2),
        prose(2)
    );
    let chunks = check_sizes("Design", &content, Limits::default());
    let paths: Vec<_> = chunks
        .iter()
        .map(|chunk| chunk.heading_path.join("/"))
        .collect();
    let texts = texts(&content, &chunks);
    assert_eq!(chunks.len(), 3, "{texts:#?}");
    assert!(texts[0].starts_with("# Design\n\nShort.\n\n## Login"));
    assert!(texts[1].starts_with("## Tokens"));
    assert!(texts[2].starts_with("## Open") && texts[2].ends_with("- two"));
    assert_eq!(paths, ["", "Tokens", ""]);
}

#[test]
fn sections_under_different_parents_stay_apart() {
    let content = format!(
        "# A\n\n{}\n\n### last of A\n\nA few words only here.\n\n# B\n\nSome words of B.\n\n{}\n",
        prose(8),
        prose(5)
    );
    let chunks = check_sizes("note", &content, Limits::default());
    for text in texts(&content, &chunks) {
        assert!(
            !(text.contains("last of A") && text.contains("# B")),
            "{text}"
        );
    }
}

#[test]
fn a_comment_in_a_fence_is_no_heading_and_the_fence_stays_whole() {
    let fence = "```python\n# 설정을 읽는다\nconfig = load()\n\n# not a heading\nrun(config)\n```";
    let content = format!(
        "# Guide\n\n## Setup\n\nBefore:\n\n{fence}\n\n{}\n",
        prose(12)
    );
    let chunks = check_sizes("Guide", &content, Limits::default());
    let with_fence: Vec<_> = chunks
        .iter()
        .filter(|chunk| content[chunk.range.clone()].contains("```"))
        .collect();
    assert_eq!(with_fence.len(), 1);
    assert!(content[with_fence[0].range.clone()].contains(fence));
    assert_eq!(with_fence[0].heading_path, ["Setup"]);
    assert!(chunks.iter().all(|chunk| chunk.heading_path.len() <= 1));
}

#[test]
fn a_mark_crlf_front_matter_and_a_rule_in_the_body_are_cut_right() {
    let content = "\u{FEFF}---\r\ntitle: 설계\r\ntags:\r\n  - 하나\r\n---\r\n\r\n# 설계\r\n\r\n앞 문단\r\n\r\n---\r\n\r\n## 둘째\r\n\r\n```sh\r\n# 주석\r\n```\r\n";
    let chunks = check_sizes("설계", content, Limits::default());
    assert_eq!(chunks.len(), 1);
    let text = &content[chunks[0].range.clone()];
    assert!(text.starts_with("# 설계\r\n\r\n앞 문단\r\n\r\n---") && text.ends_with("```"));
    assert_eq!(chunks[0].first_line, 7);
    assert!(!text.contains("tags:"));
}

#[test]
fn fences_tables_and_lists_that_fit_are_never_cut() {
    let code: String = (0..24)
        .map(|i| format!("let value_{i} = compute({i});\n"))
        .collect();
    let table: String = (0..40)
        .map(|i| format!("| 이름 {i} | 값 {i} |\n"))
        .collect();
    let list: String = (0..50).map(|i| format!("- 항목 {i} 확인\n")).collect();
    let blocks = [
        format!("```rust\n{code}```"),
        format!("| a | b |\n|---|---|\n{}", table.trim_end()),
        list.trim_end().to_owned(),
    ];
    let limits = Limits::default();
    for block in &blocks {
        assert!(
            (limits.target_tokens..450).contains(&estimate_tokens(block)),
            "{}",
            estimate_tokens(block)
        );
        let content = format!("{}\n\n{block}\n\n{}", prose(7), prose(7));
        let chunks = check_sizes("t", &content, limits);
        assert!(
            texts(&content, &chunks)
                .iter()
                .any(|text| text.contains(block.as_str())),
            "{block}"
        );
    }
}

#[test]
fn a_large_list_is_cut_between_items_and_a_fence_in_it_stays_whole() {
    let fence = format!("  ```sh\n{}  ```\n", "  cargo test --locked\n".repeat(20));
    let items: String = (0..50)
        .map(|i| {
            let fence = if i == 12 { fence.as_str() } else { "" };
            format!("- 항목 {i}: 서버가 토큰을 확인하고 기록을 남긴다\n{fence}")
        })
        .collect();
    let chunks = check_sizes("list", &items, Limits::default());
    assert!(chunks.len() > 2);
    for text in texts(&items, &chunks) {
        assert!(
            text.starts_with("- 항목") || text.starts_with("  ```sh"),
            "{text}"
        );
        assert_eq!(text.matches("```").count() % 2, 0, "{text}");
    }
}

#[test]
fn large_code_and_tables_are_cut_between_lines() {
    let code: String = (0..300)
        .map(|i| format!("    let value_{i} = compute({i});\n"))
        .collect();
    let table: String = (0..200)
        .map(|i| format!("| 이름 {i} | 값 {i} |\n"))
        .collect();
    for content in [
        format!("```rust\n{code}```\n"),
        format!("| a | b |\n|---|---|\n{table}"),
    ] {
        let chunks = check_sizes("code", &content, Limits::default());
        assert!(chunks.len() > 3);
        for chunk in &chunks {
            let before = &content[..chunk.range.start];
            assert!(
                before.is_empty() || before.ends_with('\n'),
                "{:?}",
                &content[chunk.range.clone()]
            );
            assert!(
                content[chunk.range.end..].starts_with('\n') || chunk.range.end == content.len()
            );
        }
    }
}

#[test]
fn prose_is_cut_between_sentences_in_both_languages() {
    let korean = "그는 3.14를 파이라고 불렀다. 정말 그럴까요? 네, 그렇습니다! 다음 날 다시 만나기로 했어요. ".repeat(30);
    let english = "He called 3.14 by its name. Is that so? Mr. J. Kim said \"Yes.\" They met again the next day. ".repeat(40);
    for content in [korean, english] {
        let chunks = check_sizes("prose", content.trim_end(), Limits::default());
        assert!(chunks.len() > 2);
        for text in texts(&content, &chunks) {
            assert!(text.ends_with(['.', '?', '!', '"']), "{text}");
            assert!(!text.ends_with("3.") && !text.ends_with("J."), "{text}");
        }
    }
}

#[test]
fn japanese_is_cut_after_its_full_stop() {
    let content = "これは長い日本語の文章です。次の文もあります。".repeat(60);
    let chunks = check_sizes("日本語", &content, Limits::default());
    assert!(
        texts(&content, &chunks)
            .iter()
            .all(|text| text.ends_with('。'))
    );
}

#[test]
fn text_without_any_blank_is_cut_between_graphemes() {
    let family = "👨‍👩‍👧‍👦";
    let long = "한".repeat(100_000);
    for (content, grapheme) in [
        (family.repeat(1_000), family),
        (long, "한"),
        ("e\u{301}".repeat(5_000), "e\u{301}"),
        ("🇰🇷".repeat(2_000), "🇰🇷"),
        (
            "\u{1112}\u{1161}\u{11AB}".repeat(3_000),
            "\u{1112}\u{1161}\u{11AB}",
        ),
    ] {
        let chunks = check_sizes("t", &content, Limits::default());
        assert!(chunks.len() > 2);
        for text in texts(&content, &chunks) {
            assert_eq!(text.replace(grapheme, ""), "");
        }
    }
}

#[test]
fn one_grapheme_of_any_length_is_one_chunk() {
    let content = format!("a{}", "\u{301}".repeat(5_000));
    let chunks = check("t", &content, Limits::default());
    assert_eq!(chunks.len(), 1);
}

#[test]
fn markers_of_a_long_note_are_each_in_one_chunk_with_the_right_line() {
    let mut content = String::from("# 긴 글\n\n");
    let mut markers = Vec::new();
    let mut n_sections = 0;
    while content.chars().count() < 20_000 {
        for (at, name) in [
            (1_000, '가'),
            (4_000, '나'),
            (6_000, '다'),
            (10_000, '라'),
            (19_000, '마'),
        ] {
            let marker = format!("마커 {name}");
            if content.chars().count() >= at && !markers.contains(&marker) {
                content.push_str(&format!("{marker}\n\n"));
                markers.push(marker);
            }
        }
        content.push_str(&format!("{}\n\n", prose(2).trim_end()));
        if content.chars().count() / 3_000 > n_sections {
            n_sections += 1;
            content.push_str(&format!("## 절 {n_sections}\n\n"));
        }
    }
    let chunks = check_sizes("긴 글", &content, Limits::default());
    assert_eq!(markers.len(), 5);
    for marker in &markers {
        let found: Vec<_> = chunks
            .iter()
            .filter(|c| content[c.range.clone()].contains(marker))
            .collect();
        assert_eq!(found.len(), 1);
        let in_chunk = content[found[0].range.clone()]
            .find(marker)
            .expect("is there");
        let line = found[0].first_line + line_of(&content[found[0].range.clone()], in_chunk) - 1;
        assert_eq!(content.lines().nth(line - 1), Some(marker.as_str()));
    }
    let sizes: Vec<_> = chunks.iter().map(|chunk| chunk.n_tokens).collect();
    let n_good = sizes.iter().filter(|n| (150..=400).contains(*n)).count();
    assert!(n_good * 10 >= sizes.len() * 8, "{sizes:?}");
}

#[test]
fn the_long_note_of_the_corpus_shows_its_facts_on_their_lines() {
    let content = include_str!("../../../../tests/corpus/notes/projects/베란다 온실 일지.md");
    let chunks = check_sizes("베란다 온실 일지", content, Limits::default());
    for (marker, line) in [
        ("KP-217", 41),
        ("23 days", 115),
        ("18만 원", 160),
        ("470 µF", 254),
        ("88장", 477),
    ] {
        let at = content.find(marker).expect("is there");
        let found = chunks
            .iter()
            .find(|chunk| chunk.range.contains(&at))
            .expect("is in a chunk");
        let in_chunk = &content[found.range.start..at];
        assert_eq!(
            found.first_line + line_of(in_chunk, in_chunk.len()) - 1,
            line,
            "{marker}"
        );
    }
}

#[test]
fn a_note_from_windows_has_no_heading_but_its_title() {
    let content = include_str!("../../../../tests/corpus/notes/til/윈도우에서 쓴 메모.md");
    let limits = Limits {
        max_tokens: 120,
        target_tokens: 70,
    };
    let chunks = check_sizes("윈도우에서 쓴 메모", content, limits);
    assert!(chunks.len() > 2);
    assert!(chunks.iter().all(|chunk| chunk.heading_path.is_empty()));
    let fence = "```ini\r\n# 이 줄은 제목이 아니라 주석\r\n[wsl2]\r\nmemory=6GB\r\n```";
    let texts = texts(content, &chunks);
    assert!(texts.iter().any(|text| text.contains(fence)), "{texts:#?}");
    assert!(!texts.iter().any(|text| text.contains("tags:")));
}

#[test]
fn many_small_blocks_do_not_become_many_small_chunks() {
    let content: String = (0..200)
        .map(|i| format!("## 항목 {i}\n\n짧은 글 {i}\n\n"))
        .collect();
    let chunks = check_sizes("목록", &content, Limits::default());
    let mean = chunks.iter().map(|c| c.n_tokens).sum::<usize>() / chunks.len();
    assert!((200..=400).contains(&mean), "{mean}");
}

#[test]
fn a_heading_stays_with_its_text_and_gives_its_path() {
    let content = format!(
        "## Outer\n\n### Inner\n\n{}\n\n### Next\n\nIntro:\n\n```\n{}```\n",
        prose(8),
        "some code here\n".repeat(60)
    );
    let chunks = check_sizes("note", &content, Limits::default());
    assert!(texts(&content, &chunks)[0].starts_with("## Outer\n\n### Inner\n\n사용자"));
    assert_eq!(chunks[0].heading_path, ["Outer", "Inner"]);
    for text in texts(&content, &chunks) {
        let last = text.lines().last().expect("has a line");
        assert!(!last.starts_with('#') && !last.ends_with(':'), "{text}");
    }
}

#[test]
fn definitions_of_link_targets_are_not_lost() {
    let content = "[one]: https://example.com/1\n[two]: https://example.com/2\n";
    assert_eq!(check_sizes("t", content, Limits::default()).len(), 1);
    let content = format!(
        "{}\n\n[one]: https://example.com/1\n\n# Next\n\n[^1]: foot\n",
        prose(9)
    );
    check_sizes("t", &content, Limits::default());
}

#[test]
fn a_title_or_path_of_any_length_leaves_room_for_text() {
    let long = "긴 제목 ".repeat(500);
    let content = format!("# {long}\n\n## {long}\n\n{}", prose(20));
    let chunks = check_sizes(long.trim(), &content, Limits::default());
    assert!(chunks.len() < 40);
    let content = format!("# A\n\n## {}\n\n{}", long.trim(), prose(20));
    check_sizes("title", &content, Limits::for_window(256));
}

#[test]
fn a_passage_says_each_heading_once() {
    let path = ["Design".to_owned(), "Login".to_owned()];
    assert_eq!(
        passage_text("Note", &path, "text"),
        "Note\nDesign > Login\n\ntext"
    );
    assert_eq!(
        passage_text("Note", &path, "## Login\n\ntext"),
        "Note\nDesign\n\n## Login\n\ntext"
    );
    assert_eq!(
        passage_text("Note", &[], "# note\n\ntext"),
        "# note\n\ntext"
    );
    assert_eq!(
        passage_text("Note", &path, "Login\n---\ntext"),
        "Note\nDesign\n\nLogin\n---\ntext"
    );
    assert_eq!(passage_text("", &[], "text"), "text");
}

#[test]
fn a_long_path_keeps_its_last_headings() {
    let path: Vec<String> = (0..30).map(|i| format!("heading number {i}")).collect();
    let passage = passage_text("t", &path, "text");
    assert!(passage.contains("heading number 29\n") && !passage.contains("number 3 "));
    assert!(passage.chars().count() < 260);
}

#[test]
fn the_counter_is_called_on_a_few_times_the_length_of_the_note() {
    use std::cell::Cell;
    for content in [
        prose(2_000),
        format!("{}\n\n", prose(3)).repeat(500),
        "## h\n\n- a\n- b\n\n".repeat(2_000),
        "가".repeat(100_000),
        format!("```\n{}```\n", "let a = 1;\n".repeat(10_000)),
        "- a\n".repeat(20_000),
    ] {
        let n_bytes = Cell::new(0);
        let count = |text: &str| {
            n_bytes.set(n_bytes.get() + text.len());
            estimate_tokens(text)
        };
        let n_chunks = chunk("title", &content, &count, Limits::default()).len();
        assert!(
            n_bytes.get() <= content.len() * 8,
            "{} for {} bytes, {n_chunks} chunks",
            n_bytes.get(),
            content.len()
        );
    }
}

#[test]
fn a_counter_that_counts_a_whole_above_its_parts_is_obeyed() {
    let content = format!("# A\n\n{}\n\n## B\n\n{}\n\n- x\n- y\n", prose(9), prose(30));
    let count = |text: &str| (text.chars().count() as f32).powf(1.15) as usize;
    let limits = Limits::default();
    let chunks = chunk("A", &content, &count, limits);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.n_tokens <= limits.max_tokens),
        "{chunks:?}"
    );
    assert!(chunks.iter().all(|chunk| chunk.n_tokens > 40), "{chunks:?}");
}

#[test]
fn hostile_nesting_is_cut_too() {
    for content in [
        "> ".repeat(5_000) + "deep",
        "- ".repeat(2_000) + "deep",
        "[".repeat(20_000),
        "* a **b ".repeat(5_000),
        "\u{0}\u{FEFF}\u{FEFF}".repeat(1_000),
    ] {
        check("t", &content, Limits::default());
    }
}

#[test]
fn the_estimate_counts_a_composed_and_a_decomposed_text_alike() {
    let text = "회의록을 정리했다.";
    let decomposed: String = text.nfd().collect();
    assert_eq!(estimate_tokens(text), estimate_tokens(&decomposed));
    assert!(estimate_tokens("") < 10);
}

/// Pieces of Markdown, well and badly formed.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z가-힣0-9 .?!,:]{0,60}",
        2 => "\\PC{0,20}",
        1 => "(👨‍👩‍👧|🇰🇷|e\u{301}|\u{1112}\u{1161}\u{11AB}|\u{200D}|\u{FEFF}|\u{0}|\r){1,6}",
        2 => "#{1,6} [가-힣a-z*`]{0,12}",
        1 => "(```|~~~)(rust)?",
        1 => "(> |- |1\\. |\\* |    |\t|\\| ){1,4}[a-z|]{0,8}",
        1 => "(\\|---\\|---\\||---|===|<div>|\\[a\\]: http://x|\\[\\^1\\]: f|<!--)",
    ];
    let line = (
        piece,
        prop_oneof![3 => Just("\n"), 1 => Just("\r\n"), 2 => Just("\n\n"), 1 => Just("")],
    );
    proptest::collection::vec(line, 0..60).prop_map(|lines| {
        lines
            .into_iter()
            .flat_map(|(text, end)| [text, end.to_owned()])
            .collect()
    })
}

proptest! {
    #[test]
    fn every_note_is_covered_in_order_at_character_borders(
        title in "[a-z가-힣 ]{0,20}",
        front in prop_oneof![3 => Just(""), 1 => Just("---\ntags: [a]\n---\n"), 1 => Just("\u{FEFF}---\r\ntitle: x\r\n---\r\n")],
        body in markdown(),
        window in 24_usize..200,
    ) {
        let content = format!("{front}{body}");
        let limits = Limits::for_window(window);
        for chunk in check(&title, &content, limits) {
            for at in [chunk.range.start, chunk.range.end] {
                prop_assert!(content.is_char_boundary(at));
            }
        }
    }

    #[test]
    fn text_is_cut_at_grapheme_borders_within_the_limit(
        text in "([가-힣a-z]|👨‍👩‍👧|🇰🇷|e\u{301}|\u{1112}\u{1161}\u{11AB}|é| |\\. |\n){20,400}",
    ) {
        let limits = Limits { max_tokens: 60, target_tokens: 40 };
        for chunk in check_sizes("t", &text, limits) {
            let mut cursor = GraphemeCursor::new(chunk.range.start, text.len(), true);
            prop_assert_eq!(cursor.is_boundary(&text, 0), Ok(true));
        }
    }
}
