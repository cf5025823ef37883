//! How a text is made ready for the tokenizer.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Names what [`clean`] and [`break_long_words`] do in a model's fingerprint: change it together
/// with them.
pub(crate) const NORMALISATION: &str = "trim-nfc-break-1";

/// Names what [`clean`] alone does: change it together with the function.
pub(crate) const CLEANING: &str = "trim-nfc-1";

/// Trims `text` and brings it to NFC.
///
/// Decomposed Hangul, as some file systems and exports give it, would otherwise become single
/// letters with other token ids; blanks at the end would become a token of their own.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => Cow::Borrowed(text),
        IsNormalized::No | IsNormalized::Maybe => Cow::Owned(text.nfc().collect()),
    }
}

/// Puts a blank into every run of letters and digits after `longest` of them.
///
/// A WordPiece tokenizer gives every longer run the one unknown token, so that different texts
/// would get the same vector.
pub(crate) fn break_long_words(text: Cow<'_, str>, longest: usize) -> Cow<'_, str> {
    let mut n_run = 0;
    let is_long = text.chars().any(|letter| {
        n_run = if letter.is_alphanumeric() {
            n_run + 1
        } else {
            0
        };
        n_run > longest
    });
    if !is_long {
        return text;
    }
    let mut broken = String::with_capacity(text.len() + text.len() / longest.max(1) + 1);
    let mut n_run = 0;
    for letter in text.chars() {
        n_run = if letter.is_alphanumeric() {
            n_run + 1
        } else {
            0
        };
        if n_run > longest {
            broken.push(' ');
            n_run = 1;
        }
        broken.push(letter);
    }
    Cow::Owned(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decomposed_hangul_becomes_what_a_keyboard_gives() {
        let decomposed = " \u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}\n";
        assert_eq!(clean(decomposed), "한글");
        assert!(matches!(clean("한글"), Cow::Borrowed("한글")));
    }

    #[test]
    fn only_words_over_the_limit_are_broken() {
        assert!(matches!(
            break_long_words("abc-def".into(), 3),
            Cow::Borrowed(_)
        ));
        assert_eq!(break_long_words("abcdefg hi".into(), 3), "abc def g hi");
    }
}
