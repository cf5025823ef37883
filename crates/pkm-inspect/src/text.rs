//! Text for people: cut, and compared by likeness.

/// `text` without what comes after `max_chars` characters; an ellipsis says that something did.
pub fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Below this share of common letters, two names are not taken for one misspelt.
const MIN_LIKENESS: f64 = 0.7;

/// Longer texts are no names, and comparing them takes time.
const MAX_NAME_BYTES: usize = 128;

/// The known name that `name` was most likely meant to be.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let (plain, sorted) = words(name);
    let likeness = |other: &str| {
        let (other_plain, other_sorted) = words(other);
        let in_order = strsim::normalized_damerau_levenshtein(&plain, &other_plain);
        // `call_tool` is `tools/call`.
        let in_any_order = strsim::normalized_damerau_levenshtein(&sorted, &other_sorted);
        in_order.max(in_any_order)
    };
    let mut best = None;
    for other in known {
        let likeness = likeness(other);
        if likeness >= MIN_LIKENESS && best.is_none_or(|(_, least)| likeness > least) {
            best = Some((other, likeness));
        }
    }
    best.map(|(other, _)| other)
}

/// The letters of `name` in small, without what separates words; and the same with the words sorted
/// and in the singular.
fn words(name: &str) -> (String, String) {
    let mut words: Vec<String> = vec![String::new()];
    let mut last_was_small = false;
    for c in name.chars() {
        let starts = !c.is_alphanumeric() || (c.is_uppercase() && last_was_small);
        if starts && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        last_was_small = c.is_lowercase();
    }
    let plain = words.concat();
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') {
            word.pop();
        }
    }
    words.sort();
    (plain, words.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("백김치", 3), "백김치");
        assert_eq!(cut("백김치 담그기", 3), "백김치…");
        assert_eq!(cut("", 0), "");
    }

    #[test]
    fn a_misspelt_name_finds_the_one_that_was_meant() {
        let known = ["tools/list", "tools/call", "resources/read", "prompts/get"];
        let check = |name: &str, expected| assert_eq!(nearest(name, known), expected, "{name}");
        check("tool/call", Some("tools/call"));
        check("tools.call", Some("tools/call"));
        check("callTool", Some("tools/call"));
        check("list_tools", Some("tools/list"));
        check("resources/raed", Some("resources/read"));
        check("TOOLS/LIST", Some("tools/list"));
        check("weather/today", None);
        check("", None);
        check(&"tools/call".repeat(100), None);
    }
}
