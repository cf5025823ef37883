//! Words and times on their way in and out: bounded, on one line, as RFC 3339.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::wire::Fault;

/// An instant as RFC 3339; a bare date means its first moment in UTC.
pub(crate) fn parse_time(field: &'static str, text: &str) -> Result<Timestamp, Fault> {
    let text = text.trim();
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    text.parse::<jiff::civil::Date>()
        .ok()
        .and_then(|date| date.to_zoned_datetime(jiff::tz::TimeZone::UTC).ok())
        .map(|midnight| midnight.timestamp())
        .ok_or_else(|| {
            Fault::argument(
                field,
                format!("is `{}`; it must be a date such as `2026-11-30` or a time such as `2026-11-30T09:00:00Z`", cut(text, 60).0),
            )
        })
}

/// The first bytes of `text`, at most `max_bytes`, ending at a character and marked with `…`;
/// and whether something was left out.
pub(crate) fn cut(text: &str, max_bytes: usize) -> (Cow<'_, str>, bool) {
    if text.len() <= max_bytes {
        return (Cow::Borrowed(text), false);
    }
    let mut end = max_bytes.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (Cow::Owned(format!("{}…", text[..end].trim_end())), true)
}

/// The first line's worth of `text`: every run of white space is one blank.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `1 note`, `2 notes`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character() {
        for max_bytes in 3..12 {
            let (short, was_cut) = cut("한글 메모", max_bytes);
            assert!(
                was_cut && short.len() <= max_bytes && short.ends_with('…'),
                "{short}"
            );
        }
        assert_eq!(cut("한글", 6), (Cow::Borrowed("한글"), false));
    }

    #[test]
    fn a_date_is_its_first_moment() {
        assert_eq!(
            parse_time("since", "2026-11-30").unwrap(),
            "2026-11-30T00:00:00Z".parse().unwrap()
        );
        assert_eq!(
            parse_time("since", "2026-11-30T09:00:00+09:00").unwrap(),
            "2026-11-30T00:00:00Z".parse().unwrap()
        );
        assert!(parse_time("since", "yesterday").is_err());
    }
}
