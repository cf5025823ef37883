//! Between plain values and what columns hold.

use jiff::Timestamp;
use unicode_normalization::UnicodeNormalization;

/// What titles, tags and folders are compared and sorted by: NFKC, lower case, no blanks at
/// the ends.
pub(crate) fn text_key(text: &str) -> String {
    // Once more at the end: lower case can leave a letter decomposed.
    text.trim()
        .nfkc()
        .flat_map(char::to_lowercase)
        .nfkc()
        .collect()
}

/// Tags as they are kept: trimmed, not blank, each once by its key.
pub(crate) fn clean_tags(tags: &[String]) -> Vec<String> {
    let mut keys = Vec::new();
    let mut kept = Vec::new();
    for tag in tags {
        let key = text_key(tag);
        if !key.is_empty() && !keys.contains(&key) {
            keys.push(key);
            kept.push(tag.trim().to_owned());
        }
    }
    kept
}

/// A folder as it is kept: its parts trimmed and not empty, with `/` between them.
pub(crate) fn clean_folder(folder: &str) -> String {
    let parts: Vec<&str> = folder
        .split('/')
        .map(str::trim)
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    parts.join("/")
}

pub(crate) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

pub(crate) fn from_micros(micros: i64) -> Timestamp {
    // Only a file that something else wrote to holds a time that no clock shows.
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(crate) fn to_json(list: &[String]) -> String {
    serde_json::to_string(list).expect("strings always have a JSON form")
}

/// An unreadable list is an empty one: it only ever decorates a hit.
pub(crate) fn from_json(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_not_tell_case_width_or_unicode_form_apart() {
        let nfd = "한글".nfd().collect::<String>();
        assert_ne!(nfd, "한글");
        assert_eq!(text_key(&nfd), text_key("한글"));
        assert_eq!(text_key(" Ｒｕｓｔ"), text_key("RUST "));
        assert_eq!(text_key("É"), text_key("e\u{301}"));
    }

    #[test]
    fn tags_are_kept_once_and_as_first_written() {
        let tags = ["Rust", " rust ", "", "  ", "한글", "RUST"].map(str::to_owned);
        assert_eq!(clean_tags(&tags), ["Rust", "한글"]);
    }

    #[test]
    fn folders_lose_their_empty_parts() {
        assert_eq!(clean_folder("/a// b /./c/"), "a/b/c");
        assert_eq!(clean_folder(" / "), "");
    }
}
