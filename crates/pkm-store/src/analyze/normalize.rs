//! Text as it is compared: composed, one width, with the way back to the original bytes.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// A normalised character, its case kept, and the bytes of the original it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Char {
    pub(super) c: char,
    pub(super) bytes: Range<usize>,
}

/// `text` in NFKC without invisible characters. Characters that were composed or taken apart
/// together share their bytes, so that a range never cuts one.
pub(super) fn normalize(text: &str) -> Vec<Char> {
    let mut chars = Vec::with_capacity(text.len());
    let mut rest = text.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        let mut end = start + first.len_utf8();
        while let Some((at, next)) = rest.next_if(|(_, next)| joins_the_one_before(*next)) {
            end = at + next.len_utf8();
        }
        let bytes = start..end;
        if first.is_ascii() && bytes.len() == 1 {
            chars.push(Char { c: first, bytes });
            continue;
        }
        let composed = text[bytes.clone()]
            .nfkc()
            .filter(|c| !is_invisible(*c))
            .map(plain);
        chars.extend(composed.map(|c| Char {
            c,
            bytes: bytes.clone(),
        }));
    }
    chars
}

/// Lower case, for comparing.
pub(super) fn fold(c: char) -> impl Iterator<Item = char> {
    let (c, twice) = match c {
        'ς' => ('σ', false),
        'ß' | 'ẞ' => ('s', true),
        c => (c, false),
    };
    // The dot that the Turkish capital leaves behind is no letter of its own.
    c.to_lowercase()
        .filter(|c| *c != '\u{307}')
        .chain(twice.then_some(c))
}

/// Whether normalisation may melt `c` into the character before it.
fn joins_the_one_before(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    // Vowels and finals of decomposed Hangul, and the sound marks of half-width Katakana.
    matches!(c, '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}' | '\u{ff9e}' | '\u{ff9f}')
        || canonical_combining_class(c) != 0
        || unicode_normalization::is_nfc_quick(std::iter::once(c))
            == unicode_normalization::IsNormalized::Maybe
}

/// Characters that nobody sees and that would split a word in two: soft hyphen, zero-width
/// blanks and joiners, marks of direction, byte order mark, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
}

/// One spelling of what keyboards and word processors spell in several ways.
fn plain(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{2bc}' | '\u{201b}' | '`' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' => '"',
        '\u{2010}' | '\u{2011}' | '\u{2212}' => '-',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        let chars = normalize(text);
        assert_eq!(
            chars.iter().map(|c| c.c).collect::<String>(),
            want,
            "{text:?}"
        );
        for Char { bytes, .. } in chars {
            assert!(
                text.get(bytes.clone()).is_some_and(|cut| !cut.is_empty()),
                "{text:?} {bytes:?}"
            );
        }
    }

    #[test]
    fn spellings_of_one_character_become_one() {
        check("\u{1112}\u{1161}\u{11ab}글", "한글");
        check("e\u{301}té", "été");
        check("ＭＣＰ１２", "MCP12");
        check("ｶﾞ", "ガ");
        check("co\u{ad}op\u{200b}x", "coopx");
        check("don’t", "don't");
        check("㎏", "kg");
    }

    #[test]
    fn decomposed_characters_keep_all_their_bytes() {
        let text = "a\u{1112}\u{1161}\u{11ab}b";
        let chars = normalize(text);
        assert_eq!(
            chars[1],
            Char {
                c: '한',
                bytes: 1..10
            }
        );
        assert_eq!(chars[2].bytes, 10..11);
    }
}
