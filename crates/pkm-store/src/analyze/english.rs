//! Stems of English words: M. F. Porter, "An algorithm for suffix stripping", Program 14(3),
//! 1980, with the usual guard that words of up to two letters stay as they are.

/// The stem of a word of lower-case ASCII letters; any other word is its own stem.
pub(super) fn stem(word: &str) -> String {
    let mut w = word.to_owned();
    if w.len() <= 2 || !w.bytes().all(|b| b.is_ascii_lowercase()) {
        return w;
    }
    plurals(&mut w);
    past_and_progressive(&mut w);
    if w.ends_with('y') && has_vowel(&w[..w.len() - 1]) {
        replace(&mut w, 1, "i");
    }
    longest(&mut w, DOUBLE_SUFFIXES, |stem| measure(stem) > 0);
    longest(&mut w, ADJECTIVES, |stem| measure(stem) > 0);
    residual(&mut w);
    if let Some(stem) = w.strip_suffix('e') {
        let m = measure(stem);
        if m > 1 || (m == 1 && !is_short(stem)) {
            w.pop();
        }
    }
    if w.ends_with("ll") && measure(&w) > 1 {
        w.pop();
    }
    w
}

/// Step 2.
const DOUBLE_SUFFIXES: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

/// Step 3.
const ADJECTIVES: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Step 4.
const RESIDUAL: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

fn plurals(w: &mut String) {
    if w.ends_with("sses") || w.ends_with("ies") {
        replace(w, 2, "");
    } else if w.ends_with('s') && !w.ends_with("ss") {
        replace(w, 1, "");
    }
}

fn past_and_progressive(w: &mut String) {
    if let Some(stem) = w.strip_suffix("eed") {
        if measure(stem) > 0 {
            w.pop();
        }
        return;
    }
    let n_suffix = match w.as_str() {
        w if w.strip_suffix("ed").is_some_and(has_vowel) => 2,
        w if w.strip_suffix("ing").is_some_and(has_vowel) => 3,
        _ => return,
    };
    replace(w, n_suffix, "");
    if w.ends_with("at") || w.ends_with("bl") || w.ends_with("iz") {
        w.push('e');
    } else if ends_in_double_consonant(w) && !w.ends_with(['l', 's', 'z']) {
        w.pop();
    } else if measure(w) == 1 && is_short(w) {
        w.push('e');
    }
}

fn residual(w: &mut String) {
    let suffix = RESIDUAL
        .iter()
        .filter(|suffix| w.ends_with(**suffix))
        .max_by_key(|s| s.len());
    let Some(suffix) = suffix else {
        return;
    };
    let stem = &w[..w.len() - suffix.len()];
    if measure(stem) > 1 && (*suffix != "ion" || stem.ends_with(['s', 't'])) {
        replace(w, suffix.len(), "");
    }
}

/// Applies the rule with the longest suffix that fits, if its condition holds.
fn longest(w: &mut String, rules: &[(&str, &str)], condition: fn(&str) -> bool) {
    let rule = rules
        .iter()
        .filter(|(suffix, _)| w.ends_with(suffix))
        .max_by_key(|rule| rule.0.len());
    if let Some((suffix, by)) = rule
        && condition(&w[..w.len() - suffix.len()])
    {
        replace(w, suffix.len(), by);
    }
}

fn replace(w: &mut String, n_last: usize, by: &str) {
    w.truncate(w.len() - n_last);
    w.push_str(by);
}

fn is_consonant(w: &[u8], at: usize) -> bool {
    match w[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => at == 0 || !is_consonant(w, at - 1),
        _ => true,
    }
}

/// How often a vowel is followed by a consonant: Porter's *m*.
fn measure(w: &str) -> usize {
    let w = w.as_bytes();
    (1..w.len())
        .filter(|at| is_consonant(w, *at) && !is_consonant(w, at - 1))
        .count()
}

fn has_vowel(w: &str) -> bool {
    let w = w.as_bytes();
    (0..w.len()).any(|at| !is_consonant(w, at))
}

fn ends_in_double_consonant(w: &str) -> bool {
    let w = w.as_bytes();
    let n = w.len();
    n >= 2 && w[n - 1] == w[n - 2] && is_consonant(w, n - 1)
}

/// Porter's *o*: ends consonant, vowel, consonant, the last not w, x or y.
fn is_short(w: &str) -> bool {
    let b = w.as_bytes();
    let n = b.len();
    n >= 3
        && is_consonant(b, n - 3)
        && !is_consonant(b, n - 2)
        && is_consonant(b, n - 1)
        && !w.ends_with(['w', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflections_of_a_word_share_a_stem() {
        for words in [
            &["run", "runs", "running"][..],
            &["index", "indexes", "indexing", "indexed"],
            &["note", "notes", "noted", "noting"],
            &["server", "servers"],
            &["relate", "related", "relating"],
            &["policy", "policies"],
            &["connect", "connected", "connection", "connections"],
            &["hop", "hopping", "hopped"],
            &["organize", "organizer", "organization"],
        ] {
            let stems: Vec<String> = words.iter().map(|word| stem(word)).collect();
            assert!(
                stems.windows(2).all(|two| two[0] == two[1]),
                "{words:?}: {stems:?}"
            );
        }
    }

    #[test]
    fn short_and_foreign_words_stay_as_they_are() {
        for word in ["", "a", "is", "as", "utf8", "é", "서버"] {
            assert_eq!(stem(word), word);
        }
    }
}
