//! Tokens as the postings hold them.
//!
//! A field is written as blank-separated tokens, one kind after the other, told apart by the
//! first character, which no word begins with:
//!
//! | kind | mark | what | order |
//! |---|---|---|---|
//! | word | none | every word as written | as in the text, so that phrases can be found |
//! | stem | `|` | the stem of every word, then further stems, identifiers and their pieces | the stems as in the text, then a gap |
//! | weak | `&` | stems that may be wrong | any |
//! | gram | `^` | bigrams of Hangul, word after word | as in the word, a gap between words |

use super::scan::{Scan, Script};
use super::words::{Word, words};

pub(crate) const STEM: char = '|';
pub(crate) const WEAK: char = '&';
pub(crate) const GRAM: char = '^';

/// The tokens of `text`, with blanks between them.
pub(crate) fn posting(text: &str) -> String {
    let scan = Scan::new(text);
    let blobs: Vec<(&_, Vec<Word>)> = scan.blobs.iter().map(|blob| (blob, words(blob))).collect();
    let all = || blobs.iter().flat_map(|(_, words)| words);
    let mut out = String::with_capacity(text.len() * 3);
    let mut push = |mark: Option<char>, token: &str| {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(mark);
        out.push_str(token);
    };
    for word in all() {
        push(None, &word.exact);
    }
    for word in all() {
        push(Some(STEM), &word.stem);
    }
    push(Some(STEM), "");
    for (blob, words) in &blobs {
        for name in blob.identifiers.iter().chain(&blob.pieces) {
            push(Some(STEM), &name.text);
        }
        // e-mail is written email as well.
        for name in &blob.identifiers {
            let joined = name.text.replace('-', "");
            if joined != name.text && joined.chars().all(char::is_alphanumeric) {
                push(Some(STEM), &joined);
            }
        }
        for word in words {
            for stem in &word.between {
                push(Some(STEM), stem);
            }
            if let Some(stem) = &word.weak {
                push(Some(WEAK), stem);
            }
            // A query of one Han character, and bigrams of one word at a time.
            if word.script == Script::Cjk && word.exact.chars().count() > 1 {
                word.exact
                    .chars()
                    .for_each(|c| push(Some(STEM), c.encode_utf8(&mut [0; 4])));
            }
            for gram in &word.grams {
                push(Some(GRAM), gram);
            }
            if !word.grams.is_empty() {
                push(Some(GRAM), "");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        assert_eq!(posting(text), want, "{text}");
    }

    #[test]
    fn a_field_holds_words_then_stems_then_the_rest() {
        check("Running servers", "running servers |run |server |");
        check("인증을", "인증을 |인증 | ^인증 ^증을 ^");
        check("책을", "책을 |책을 | &책 ^책을 ^");
        check("MCP를", "mcp |mcp |");
        check("PR-1234", "pr 1234 |pr |1234 | |pr-1234 |pr1234");
        check("世界", "世界 |世界 | |世 |界");
        check("", "|");
    }

    #[test]
    fn composed_and_decomposed_text_give_the_same_tokens() {
        let nfd = "회의록에 café";
        let nfc: String = unicode_normalization::UnicodeNormalization::nfc(nfd).collect();
        let nfd: String = unicode_normalization::UnicodeNormalization::nfd(nfd).collect();
        assert_eq!(posting(&nfd), posting(&nfc));
    }
}
