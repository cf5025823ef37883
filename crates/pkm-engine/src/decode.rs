//! Turns a file's bytes into text, never lossy in silence.
//!
//! What is valid UTF-8 stays as written, a byte order mark included: the text is a note's content,
//! and an export must give back the same bytes. Whoever reads the Markdown (front matter, titles,
//! chunks) steps over the mark. Every other encoding becomes UTF-8 and is named.

use std::ops::Range;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use thiserror::Error;

/// A file's text and how it was got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The text. A UTF-8 byte order mark is its first character; that of UTF-16 is left out.
    pub(crate) text: String,
    /// The encoding's WHATWG name: `UTF-8`, `UTF-16LE`, `EUC-KR` (which includes CP949), …
    pub(crate) encoding: &'static str,
    /// Whether the bytes began with a byte order mark.
    pub(crate) had_bom: bool,
    /// Whether some bytes meant nothing in `encoding` and became U+FFFD.
    pub(crate) lossy: bool,
}

/// Why bytes are not text.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotText {
    /// A NUL byte outside UTF-16.
    #[error("not text: a NUL byte at offset {offset}")]
    Nul {
        /// Where the first one is.
        offset: usize,
    },
    /// Too many control characters for anything that a person wrote.
    #[error("not text: {n_controls} control characters among {n_chars}")]
    Controls {
        /// How many control characters there are, tabs and line ends not counted.
        n_controls: usize,
        /// How many characters there are.
        n_chars: usize,
    },
    /// An encoding that is recognised and not read.
    #[error("text in `{encoding}`, which is not read; save it as UTF-8")]
    Encoding {
        /// Its name.
        encoding: &'static str,
    },
}

const UTF8_BOM: &[u8] = &[0xEF, 0xBB, 0xBF];

/// Decodes `bytes`: by byte order mark, as UTF-8, as UTF-16 without a mark, and at last by what
/// the bytes look like, with Korean preferred among equals.
///
/// # Errors
///
/// [`NotText`] for binary content.
pub(crate) fn decode(bytes: &[u8]) -> Result<Decoded, NotText> {
    if bytes.starts_with(&[0xFF, 0xFE, 0, 0]) || bytes.starts_with(&[0, 0, 0xFE, 0xFF]) {
        return Err(NotText::Encoding { encoding: "UTF-32" });
    }
    for (bom, encoding) in [([0xFF, 0xFE], UTF_16LE), ([0xFE, 0xFF], UTF_16BE)] {
        if let Some(rest) = bytes.strip_prefix(&bom) {
            return readable(decode_as(rest, encoding, true));
        }
    }
    let had_bom = bytes.starts_with(UTF8_BOM);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => readable(Decoded {
            text: text.to_owned(),
            encoding: UTF_8.name(),
            had_bom,
            lossy: false,
        }),
        _ if bytes.contains(&0) => utf16_without_mark(bytes),
        // Some bytes are damaged, the rest is plainly UTF-8: any other reading would turn all of
        // it into nonsense.
        Err(_) if had_bom || is_damaged_utf8(bytes) => readable(Decoded {
            text: String::from_utf8_lossy(bytes).into_owned(),
            encoding: UTF_8.name(),
            had_bom,
            lossy: true,
        }),
        _ => readable(decode_as(bytes, guess(bytes), false)),
    }
}

fn decode_as(bytes: &[u8], encoding: &'static Encoding, had_bom: bool) -> Decoded {
    let (text, lossy) = encoding.decode_without_bom_handling(bytes);
    Decoded {
        text: text.into_owned(),
        encoding: encoding.name(),
        had_bom,
        lossy,
    }
}

/// Refuses what decodes and is still not text: programs and images decode in many an encoding.
fn readable(decoded: Decoded) -> Result<Decoded, NotText> {
    if let Some(offset) = decoded.text.find('\0') {
        return Err(NotText::Nul { offset });
    }
    let (n_controls, n_chars) = count_controls(&decoded.text);
    // Stray escape codes in a pasted log are a few per cent; compressed data has above ten.
    if n_controls * 20 > n_chars {
        return Err(NotText::Controls {
            n_controls,
            n_chars,
        });
    }
    Ok(decoded)
}

fn count_controls(text: &str) -> (usize, usize) {
    let mut n_chars = 0;
    let n_controls = text
        .chars()
        .inspect(|_| n_chars += 1)
        .filter(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{C}'))
        .count();
    (n_controls, n_chars)
}

/// UTF-16 without a byte order mark, told from binary data by what it decodes to: text has
/// Latin or Korean letters, spaces and line ends nearly everywhere.
fn utf16_without_mark(bytes: &[u8]) -> Result<Decoded, NotText> {
    let not_text = NotText::Nul {
        offset: bytes.iter().position(|&b| b == 0).unwrap_or_default(),
    };
    if !bytes.len().is_multiple_of(2) {
        return Err(not_text);
    }
    [UTF_16LE, UTF_16BE]
        .into_iter()
        .map(|encoding| decode_as(bytes, encoding, false))
        .filter(|decoded| !decoded.lossy && !decoded.text.contains('\0'))
        .find(|decoded| {
            let n_chars = decoded.text.chars().count();
            let n_common = decoded.text.chars().filter(|&c| is_common(c)).count();
            n_common * 20 >= n_chars * 19
        })
        .ok_or(not_text)
}

fn is_common(c: char) -> bool {
    const COMMON: [Range<u32>; 5] = [
        0x20..0x7F,
        0xA0..0x180,
        0x2010..0x2040,
        0x3000..0x3100,
        0xAC00..0xD7A4,
    ];
    matches!(c, '\t' | '\n' | '\r') || COMMON.iter().any(|range| range.contains(&u32::from(c)))
}

/// Whether `bytes`, which are not valid UTF-8, are UTF-8 with a few damaged places: characters of
/// several bytes, which no other encoding produces by chance, outnumber the damage by ten to one.
fn is_damaged_utf8(bytes: &[u8]) -> bool {
    let mut n_long = 0;
    let mut n_damaged = 0;
    for chunk in bytes.utf8_chunks() {
        n_long += chunk.valid().chars().filter(|c| c.len_utf8() > 1).count();
        n_damaged += usize::from(!chunk.invalid().is_empty());
    }
    n_long >= n_damaged * 10
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    // The country code only decides between readings that the bytes leave open.
    detector.guess(Some(b"kr"), Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KOREAN: &str = "회의록: 인증을 다시 설계했다. 다음 주에 뷁뷁한 펲시를 산다.\r\n";

    fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to_bytes).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], text: &str, encoding: &str, had_bom: bool) {
        let decoded = decode(bytes).expect("is text");
        assert_eq!(decoded.text, text);
        assert_eq!(decoded.encoding, encoding);
        assert_eq!(decoded.had_bom, had_bom);
        assert!(!decoded.lossy);
    }

    #[test]
    fn utf8_stays_as_written() {
        check("".as_bytes(), "", "UTF-8", false);
        check(KOREAN.as_bytes(), KOREAN, "UTF-8", false);
        let with_mark = format!("\u{FEFF}{KOREAN}");
        check(with_mark.as_bytes(), &with_mark, "UTF-8", true);
    }

    #[test]
    fn utf16_is_read_with_and_without_a_mark() {
        for text in [KOREAN, "# Plain English\n\nwith a list\n"] {
            check(
                &utf16(&format!("\u{FEFF}{text}"), u16::to_le_bytes),
                text,
                "UTF-16LE",
                true,
            );
            check(
                &utf16(&format!("\u{FEFF}{text}"), u16::to_be_bytes),
                text,
                "UTF-16BE",
                true,
            );
            check(&utf16(text, u16::to_le_bytes), text, "UTF-16LE", false);
            check(&utf16(text, u16::to_be_bytes), text, "UTF-16BE", false);
        }
    }

    #[test]
    fn cp949_is_read_with_syllables_that_euc_kr_lacks() {
        let (bytes, _, unmappable) = encoding_rs::EUC_KR.encode(KOREAN);
        assert!(!unmappable && std::str::from_utf8(&bytes).is_err());
        check(&bytes, KOREAN, "EUC-KR", false);
        // Short, as a note of one line is.
        let (bytes, _, _) = encoding_rs::EUC_KR.encode("장보기\n");
        check(&bytes, "장보기\n", "EUC-KR", false);
    }

    #[test]
    fn other_old_encodings_are_told_apart() {
        let german = "Grüße aus München: die Straße ist schön, über Ölmühlen später.\n";
        let (bytes, _, _) = encoding_rs::WINDOWS_1252.encode(german);
        check(&bytes, german, "windows-1252", false);
        let japanese = "これは日本語のメモです。明日の会議について。\n";
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode(japanese);
        check(&bytes, japanese, "Shift_JIS", false);
    }

    #[test]
    fn damage_is_flagged_and_never_silent() {
        let mut bytes = KOREAN.as_bytes().to_vec();
        bytes.truncate(bytes.len() - 4);
        bytes.push(0xFF);
        let decoded = decode(&bytes).expect("is text");
        assert!(decoded.lossy && decoded.encoding == "UTF-8");
        assert!(decoded.text.starts_with("회의록: 인증을") && decoded.text.contains('\u{FFFD}'));

        let mut bytes = utf16(&format!("\u{FEFF}{KOREAN}"), u16::to_le_bytes);
        bytes.pop();
        assert!(decode(&bytes).expect("is text").lossy);
    }

    #[test]
    fn binary_content_is_refused() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
        assert!(matches!(decode(png), Err(NotText::Nul { .. })));
        assert_eq!(decode(b"a note\0"), Err(NotText::Nul { offset: 6 }));
        let controls: Vec<u8> = (1..=200).map(|i| (i % 8) + 1).collect();
        assert!(matches!(decode(&controls), Err(NotText::Controls { .. })));
        assert!(matches!(
            decode(b"\xFF\xFE\0\0a\0\0\0"),
            Err(NotText::Encoding { encoding: "UTF-32" })
        ));
    }

    #[test]
    fn a_few_escape_codes_in_a_pasted_log_are_text() {
        let log = "a line of a log\nand another, then \u{1B}[31mred\u{1B}[0m text as the terminal wrote it, and more of it\n";
        check(log.as_bytes(), log, "UTF-8", false);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(decoded) = decode(&bytes)
                && decoded.encoding == "UTF-8"
                && !decoded.lossy
            {
                prop_assert_eq!(decoded.text.as_bytes(), &bytes);
            }
        }

        #[test]
        fn valid_text_comes_back_byte_for_byte(text in "[^\\p{Cc}]{0,200}") {
            prop_assert_eq!(decode(text.as_bytes()).expect("is text").text, text);
        }
    }
}
