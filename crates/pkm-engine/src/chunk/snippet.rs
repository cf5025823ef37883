//! The part of a text that shows why it was found.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// A part of a text on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snippet {
    /// The part, every run of blanks, line ends and control characters as one space, with `…`
    /// where it is cut.
    pub(crate) text: String,
    /// Where in the text it stands, in bytes.
    pub(crate) range: Range<usize>,
    /// Whether something stands before it.
    pub(crate) cut_before: bool,
    /// Whether something stands after it.
    pub(crate) cut_after: bool,
}

/// At most `max_chars` characters of `text` (`…` included) around the place where most of
/// `matches` (byte ranges of `text`, in any order) lie together; its beginning if there are none.
///
/// Cut between graphemes, between words where one is near.
pub(crate) fn snippet(text: &str, matches: &[Range<usize>], max_chars: usize) -> Snippet {
    let focus = densest(text, matches, max_chars);
    // Both ends may need their mark.
    let budget = max_chars.saturating_sub(2);
    let n_focus = text[focus.clone()].chars().count();
    let n_lead = budget.saturating_sub(n_focus) / 3;

    let mut window = focus.start..focus.start;
    let mut n_left = budget;
    window.start -= take_back(&text[..focus.start], n_lead, &mut n_left);
    window.end += take(&text[focus.start..], &mut n_left);
    // Near the end of the text what is left over goes to the front.
    window.start -= take_back(&text[..window.start], n_left, &mut n_left.clone());

    if !text[..window.start].trim().is_empty() {
        window.start += to_word_start(&text[window.clone()], focus.start - window.start);
    }
    if !text[window.end..].trim().is_empty() {
        let n_focus_end = focus.end.clamp(window.start, window.end) - window.start;
        window.end = window.start + to_word_end(text, &window, n_focus_end);
    }
    let window = trim(text, window);
    let cut_before = !text[..window.start].trim().is_empty();
    let cut_after = !text[window.end..].trim().is_empty();
    let mut line = String::new();
    if cut_before {
        line.push('…');
    }
    line.push_str(&crate::markdown::one_line(&text[window.clone()]));
    if cut_after {
        line.push('…');
    }
    Snippet {
        text: line,
        range: window,
        cut_before,
        cut_after,
    }
}

/// The stretch from the first to the last match of the group with the most matches that fits.
fn densest(text: &str, matches: &[Range<usize>], max_chars: usize) -> Range<usize> {
    let mut sorted: Vec<Range<usize>> = matches
        .iter()
        .filter(|m| m.start < m.end && text.get((*m).clone()).is_some())
        .cloned()
        .collect();
    sorted.sort_unstable_by_key(|m| (m.start, m.end));
    // Where each match stands in characters, counted once from left to right.
    let mut at = 0;
    let mut n_chars = 0;
    let starts: Vec<usize> = sorted
        .iter()
        .map(|m| {
            n_chars += text[at..m.start].chars().count();
            at = m.start;
            n_chars
        })
        .collect();
    let max_span = max_chars * 2 / 3;
    let mut best: Option<(usize, Range<usize>)> = None;
    let mut end = 0;
    for first in 0..sorted.len() {
        end = end.max(first);
        while end + 1 < sorted.len() && starts[end + 1] - starts[first] <= max_span {
            end += 1;
        }
        let n_inside = end + 1 - first;
        if best.as_ref().is_none_or(|(most, _)| n_inside > *most) {
            best = Some((n_inside, sorted[first].start..sorted[end].end));
        }
    }
    best.map_or(0..0, |(_, focus)| focus)
}

/// The bytes of the graphemes at the start of `text` that `n_left` characters have room for, a run
/// of blanks counted as one.
fn take(text: &str, n_left: &mut usize) -> usize {
    let mut was_blank = false;
    for (at, grapheme) in text.grapheme_indices(true) {
        let n_chars = width(grapheme, &mut was_blank);
        if n_chars > *n_left {
            return at;
        }
        *n_left -= n_chars;
    }
    text.len()
}

/// [`take`] from the end of `text`, at most `limit` characters, which come off `n_left`.
fn take_back(text: &str, limit: usize, n_left: &mut usize) -> usize {
    let mut was_blank = false;
    let mut n_used = 0;
    let mut start = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        let n_chars = width(grapheme, &mut was_blank);
        if n_used + n_chars > limit {
            break;
        }
        n_used += n_chars;
        start = at;
    }
    *n_left -= n_used;
    text.len() - start
}

fn width(grapheme: &str, was_blank: &mut bool) -> usize {
    let is_blank = grapheme.chars().all(is_blank);
    let n_chars = if is_blank {
        usize::from(!*was_blank)
    } else {
        grapheme.chars().count()
    };
    *was_blank = is_blank;
    n_chars
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// A cut is moved to a word's border if one is within this many bytes.
const MAX_MOVE: usize = 48;

/// How far to move into `window`, at most to `focus`, so that it begins with a word.
fn to_word_start(window: &str, focus: usize) -> usize {
    window[..focus]
        .char_indices()
        .take_while(|(at, _)| *at < MAX_MOVE)
        .find(|(_, c)| is_blank(*c))
        .map_or(0, |(at, c)| at + c.len_utf8())
}

/// The length of `window` when it ends with a word, at least `focus`.
fn to_word_end(text: &str, window: &Range<usize>, focus: usize) -> usize {
    if text[window.end..].starts_with(is_blank) {
        return window.len();
    }
    text[window.start + focus..window.end]
        .char_indices()
        .rev()
        .map(|(at, c)| (focus + at, c))
        .take_while(|(at, _)| window.len() - at < MAX_MOVE)
        .find(|(_, c)| is_blank(*c))
        .map_or(window.len(), |(at, _)| at)
}

fn trim(text: &str, window: Range<usize>) -> Range<usize> {
    let part = &text[window.clone()];
    let start = window.start + part.len() - part.trim_start_matches(is_blank).len();
    let end = start
        + text[start..window.end.max(start)]
            .trim_end_matches(is_blank)
            .len();
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(text: &str, word: &str) -> Vec<Range<usize>> {
        text.match_indices(word)
            .map(|(at, _)| at..at + word.len())
            .collect()
    }

    #[test]
    fn a_short_text_is_whole_and_on_one_line() {
        let text = "  첫 줄\r\n\r\n- 둘째\t줄  \u{1B}[0m\n";
        let found = snippet(text, &find(text, "둘째"), 80);
        assert_eq!(found.text, "첫 줄 - 둘째 줄 [0m");
        assert_eq!(
            (found.range.start, found.cut_before, found.cut_after),
            (2, false, false)
        );
    }

    #[test]
    fn the_match_is_shown_between_whole_words() {
        let text = format!(
            "{}the needle here {}",
            "before it ".repeat(50),
            "after it ".repeat(50)
        );
        let found = snippet(&text, &find(&text, "needle"), 60);
        assert!(
            found.text.contains("the needle here after it"),
            "{}",
            found.text
        );
        assert!(found.text.chars().count() <= 60);
        assert!(found.cut_before && found.cut_after);
        let inner = found.text.trim_matches('…');
        assert!(
            inner
                .split(' ')
                .all(|w| ["before", "it", "the", "needle", "here", "after"].contains(&w)),
            "{inner}"
        );
        assert_eq!(&text[found.range], inner);
    }

    #[test]
    fn the_window_goes_where_most_matches_are() {
        let text = format!(
            "인증 하나 {} 인증 토큰과 인증 서버의 인증 {}",
            "다른 말 ".repeat(60),
            "끝 ".repeat(60)
        );
        let found = snippet(&text, &find(&text, "인증"), 50);
        assert_eq!(found.text.matches("인증").count(), 3, "{}", found.text);
    }

    #[test]
    fn without_matches_it_is_the_beginning() {
        let text = "하나 둘 셋 ".repeat(40);
        let found = snippet(&text, &[], 20);
        assert!(found.text.starts_with("하나 둘 셋") && found.text.ends_with('…'));
        assert_eq!((found.range.start, found.cut_before), (0, false));
    }

    #[test]
    fn a_match_at_the_very_end_keeps_its_context() {
        let text = format!("{}마지막 표시", "앞의 말 ".repeat(60));
        let found = snippet(&text, &find(&text, "표시"), 40);
        assert!(found.text.ends_with("마지막 표시"));
        assert!(found.text.chars().count() > 30, "{}", found.text);
    }

    #[test]
    fn a_text_without_blanks_is_cut_between_graphemes() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(100);
        let middle = family.len() * 50..family.len() * 51;
        let found = snippet(&text, std::slice::from_ref(&middle), 40);
        assert_eq!(found.text.trim_matches('…').replace(family, ""), "");
        assert!(found.text.contains(family));
    }

    proptest! {
        #[test]
        fn no_input_breaks_it_and_the_budget_is_kept(
            text in "([a-z가-힣\u{1100}-\u{11FF}é👨‍👩‍👧🇰🇷\u{301} \r\n\t]|\\PC){0,200}",
            marks in proptest::collection::vec((0_usize..300, 0_usize..20), 0..6),
            max_chars in 0_usize..90,
        ) {
            let matches: Vec<_> = marks.iter().map(|(at, len)| *at..at + len).collect();
            let found = snippet(&text, &matches, max_chars);
            prop_assert!(found.text.chars().count() <= max_chars.max(2));
            let inner = found.text.strip_prefix('…').filter(|_| found.cut_before).unwrap_or(&found.text);
            let inner = inner.strip_suffix('…').filter(|_| found.cut_after).unwrap_or(inner);
            prop_assert_eq!(crate::markdown::one_line(&text[found.range]), inner);
        }
    }
}
