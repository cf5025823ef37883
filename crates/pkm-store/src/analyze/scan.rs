//! Text cut into words and identifiers, with the characters that each stands on.

use std::ops::Range;

use super::normalize::{Char, fold, normalize};

/// Longer words are cut: nobody types them, and an index must not swallow a file's worth of
/// base64 as one key.
const MAX_WORD_CHARS: usize = 64;

/// A name has no more parts than this: what has is data, such as a picture in base64.
const MAX_PARTS: usize = 32;

/// What a character is to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Letters of alphabets that put blanks between words, and digits.
    Latin,
    Hangul,
    /// Han and Kana, which do not.
    Cjk,
    /// Emoji and the like, each a word.
    Symbol,
}

/// A run of one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Atom {
    pub(super) script: Script,
    /// Folded.
    pub(super) text: String,
    /// Positions in [`Scan::chars`].
    pub(super) chars: Range<usize>,
    /// Follows a Latin word or a number without anything but connectors between.
    pub(super) is_glued: bool,
}

/// A name that holds punctuation (`src/a_b/c.rs`, `C++`, `@scope`) or capitals inside, or a part
/// of one that does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identifier {
    /// Folded.
    pub(super) text: String,
    /// Positions in [`Scan::chars`].
    pub(super) chars: Range<usize>,
}

/// What stands between two blanks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Blob {
    pub(super) atoms: Vec<Atom>,
    /// Those with punctuation: the longest first.
    pub(super) identifiers: Vec<Identifier>,
    /// Pieces of a Latin atom: `http`, `server` of HTTPServer; `utf`, `8` of utf8.
    pub(super) pieces: Vec<Identifier>,
}

/// A text, cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) chars: Vec<Char>,
    pub(super) blobs: Vec<Blob>,
}

impl Scan {
    pub(super) fn new(text: &str) -> Self {
        let chars = normalize(text);
        let mut blobs = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            let end = at + chars[at..].iter().take_while(|c| is_part(c.c)).count();
            // A comma belongs to a number only.
            let end = (at..end)
                .find(|i| is_loose_comma(&chars, *i))
                .unwrap_or(end);
            if end > at {
                let blob = blob(&chars, at..end);
                if !blob.atoms.is_empty() {
                    blobs.push(blob);
                }
            }
            at = end.max(at + 1);
        }
        Self { chars, blobs }
    }

    /// The bytes of the original that `chars` stand on.
    pub(super) fn bytes(&self, chars: &Range<usize>) -> Range<usize> {
        match (self.chars.get(chars.start), self.chars[..chars.end].last()) {
            (Some(first), Some(last)) if !chars.is_empty() => first.bytes.start..last.bytes.end,
            _ => 0..0,
        }
    }
}

fn blob(chars: &[Char], range: Range<usize>) -> Blob {
    let mut blob = Blob::default();
    let mut at = range.start;
    while at < range.end {
        let Some(script) = script(chars[at].c) else {
            at += 1;
            continue;
        };
        let end = match script {
            Script::Symbol => at + 1,
            _ => at + n_same_script(&chars[at..range.end], script),
        };
        let is_glued = script != Script::Latin
            && blob.atoms.last().is_some_and(|last| {
                last.script == Script::Latin && is_glue(&chars[last.chars.end..at])
            });
        let atom = Atom {
            script,
            text: folded(chars, &(at..end)),
            chars: at..end,
            is_glued,
        };
        if script == Script::Latin {
            blob.pieces.extend(pieces(chars, at..end));
        }
        blob.atoms.push(atom);
        at = end;
    }
    blob.identifiers = identifiers(chars, &range, &blob.atoms);
    blob
}

/// How many characters of `chars` belong to one word of `script`: an apostrophe between
/// letters does too.
fn n_same_script(chars: &[Char], script: Script) -> usize {
    let is_in = |at: usize| {
        chars
            .get(at)
            .is_some_and(|c| self::script(c.c) == Some(script))
    };
    let mut n = 1;
    while is_in(n) || is_mark(chars, n) || (is_apostrophe(chars, n) && is_in(n + 1)) {
        n += 1;
    }
    n
}

fn is_mark(chars: &[Char], at: usize) -> bool {
    chars
        .get(at)
        .is_some_and(|c| unicode_normalization::char::canonical_combining_class(c.c) != 0)
}

fn is_apostrophe(chars: &[Char], at: usize) -> bool {
    script_is_latin_letter(chars, at.wrapping_sub(1))
        && chars.get(at).is_some_and(|c| c.c == '\'')
        && script_is_latin_letter(chars, at + 1)
}

fn script_is_latin_letter(chars: &[Char], at: usize) -> bool {
    chars
        .get(at)
        .is_some_and(|c| script(c.c) == Some(Script::Latin) && !c.c.is_numeric())
}

/// Every run of Latin atoms with what connects them, if that is more than a word; and its parts
/// between path separators.
fn identifiers(chars: &[Char], blob: &Range<usize>, atoms: &[Atom]) -> Vec<Identifier> {
    let mut found = Vec::new();
    let mut rest = atoms;
    while let Some(first) = rest.iter().position(|atom| atom.script == Script::Latin) {
        let n = rest[first..]
            .iter()
            .take_while(|atom| atom.script == Script::Latin)
            .count();
        let run = &rest[first..first + n];
        rest = &rest[first + n..];
        let core = run[0].chars.start..run[n - 1].chars.end;
        let before = n_prefix(&chars[blob.start..core.start]);
        let after = n_suffix(&chars[core.end..blob.end]);
        let mut push = |range: Range<usize>| {
            let text = folded(chars, &range);
            if !found.iter().any(|known: &Identifier| known.text == text) {
                found.push(Identifier { text, chars: range });
            }
        };
        for (before, after) in [(before, after), (0, after), (before, 0)] {
            if before + after > 0 {
                push(core.start - before..core.end + after);
            }
        }
        if n > 1 {
            push(core.clone());
            for part in path_parts(chars, core).into_iter().take(MAX_PARTS) {
                push(part);
            }
        }
    }
    found
}

/// The parts of `core` between path separators that are themselves more than a word.
fn path_parts(chars: &[Char], core: Range<usize>) -> Vec<Range<usize>> {
    let is_separator =
        |at: &usize| matches!(chars[*at].c, '/' | '\\' | ':' | '@' | ',' | '&' | '~');
    let mut parts = Vec::new();
    let mut start = core.start;
    for end in core.clone().filter(is_separator).chain([core.end]) {
        let part = trimmed(chars, start..end);
        if part != core && part.clone().any(|at| script(chars[at].c).is_none()) {
            parts.push(part);
        }
        start = end + 1;
    }
    parts
}

fn trimmed(chars: &[Char], mut range: Range<usize>) -> Range<usize> {
    let is_connector = |at: usize| script(chars[at].c).is_none();
    while !range.is_empty() && is_connector(range.start) {
        range.start += 1;
    }
    while !range.is_empty() && is_connector(range.end - 1) {
        range.end -= 1;
    }
    range
}

/// `@scope`, `#tag`, `$HOME`, `.gitignore`: the mark before a name.
fn n_prefix(before: &[Char]) -> usize {
    usize::from(
        before
            .last()
            .is_some_and(|c| matches!(c.c, '@' | '#' | '$' | '.' | '~')),
    )
}

/// `C++`, `C#`, `50%`: the mark after a name.
fn n_suffix(after: &[Char]) -> usize {
    let is = |at: usize, c: char| after.get(at).is_some_and(|found| found.c == c);
    match () {
        () if is(0, '+') && is(1, '+') => 2,
        () if is(0, '+') || is(0, '#') || is(0, '%') => 1,
        () => 0,
    }
}

/// Parts of a Latin word: at a capital after a small letter, before the last capital of several,
/// between letters and digits, and on both sides of an apostrophe.
fn pieces(chars: &[Char], atom: Range<usize>) -> Vec<Identifier> {
    let kind = |at: usize| match chars[at].c {
        c if c.is_numeric() => 0,
        c if c.is_uppercase() => 1,
        '\'' => 3,
        _ => 2,
    };
    let is_cut = |at: &usize| match (kind(*at - 1), kind(*at)) {
        (1, 1) => *at + 1 < atom.end && kind(*at + 1) == 2,
        (1, 2) => false,
        (before, after) => before != after,
    };
    let cuts: Vec<usize> = (atom.start + 1..atom.end).filter(is_cut).collect();
    if cuts.is_empty() || atom.len() > MAX_WORD_CHARS {
        return Vec::new();
    }
    let starts = std::iter::once(atom.start).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([atom.end]);
    starts
        .zip(ends)
        .filter(|(start, end)| end - start > 1 || chars[*start].c.is_numeric())
        .map(|(start, end)| Identifier {
            text: folded(chars, &(start..end)),
            chars: start..end,
        })
        .collect()
}

/// The folded text of `range`, cut to the longest word. The apostrophe is the typographic one:
/// the postings cannot hold the other.
fn folded(chars: &[Char], range: &Range<usize>) -> String {
    let kept = &chars[range.clone()][..range.len().min(MAX_WORD_CHARS)];
    kept.iter()
        .flat_map(|c| fold(c.c))
        .map(|c| if c == '\'' { '’' } else { c })
        .collect()
}

/// Whether only punctuation that a name can end with stands between a name and Hangul.
fn is_glue(between: &[Char]) -> bool {
    between.iter().all(|c| matches!(c.c, '+' | '#' | '%'))
}

fn is_loose_comma(chars: &[Char], at: usize) -> bool {
    let is_digit = |at: usize| chars.get(at).is_some_and(|c| c.c.is_numeric());
    chars[at].c == ',' && !(at > 0 && is_digit(at - 1) && is_digit(at + 1))
}

/// Whether `c` can stand inside a blob.
fn is_part(c: char) -> bool {
    script(c).is_some()
        || unicode_normalization::char::canonical_combining_class(c) != 0
        || matches!(
            c,
            '-' | '_'
                | '.'
                | '/'
                | '\\'
                | ':'
                | '@'
                | '+'
                | '#'
                | '\''
                | '&'
                | '%'
                | '$'
                | '~'
                | ','
        )
}

/// `None` for punctuation and blanks.
fn script(c: char) -> Option<Script> {
    match u32::from(c) {
        0..0x80 => c.is_ascii_alphanumeric().then_some(Script::Latin),
        0x1100..=0x11ff | 0xa960..=0xa97f | 0xac00..=0xd7ff => Some(Script::Hangul),
        0x3005
        | 0x3040..=0x30fa
        | 0x30fc..=0x30ff
        | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xf900..=0xfaff
        | 0x2_0000..=0x3_ffff => Some(Script::Cjk),
        0x2600..=0x27bf | 0x1_f000..=0x1_faff => Some(Script::Symbol),
        _ if c.is_alphanumeric() => Some(Script::Latin),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, atoms: &str, identifiers: &str) {
        let scan = Scan::new(text);
        let found: Vec<&str> = scan
            .blobs
            .iter()
            .flat_map(|blob| blob.atoms.iter().map(|atom| atom.text.as_str()))
            .collect();
        assert_eq!(found.join(" "), atoms, "{text}");
        let found: Vec<&str> = scan
            .blobs
            .iter()
            .flat_map(|blob| blob.identifiers.iter().map(|name| name.text.as_str()))
            .collect();
        assert_eq!(found.join(" "), identifiers, "{text}");
    }

    #[test]
    fn identifiers_are_kept_whole_and_in_parts() {
        check("PR-1234,", "pr 1234", "pr-1234");
        check("(2026.11.30)", "2026 11 30", "2026.11.30");
        check("v1.2.3-rc.4.", "v1 2 3 rc 4", "v1.2.3-rc.4");
        check("src/a_b/c.rs", "src a b c rs", "src/a_b/c.rs a_b c.rs");
        check("@scope/pkg", "scope pkg", "@scope/pkg scope/pkg");
        check("foo::bar", "foo bar", "foo::bar");
        check("C++ and C#", "c and c", "c++ c#");
        check("50%를", "50 를", "50%");
        check("don't", "don’t", "");
        check("1,000 a,b", "1 000 a b", "1,000");
        check("R&D", "r d", "r&d");
    }

    #[test]
    fn scripts_split_where_they_touch() {
        check("MCP를 Rust로 3월", "mcp 를 rust 로 3 월", "");
        check("世界ひと안녕hi", "世界ひと 안녕 hi", "");
        check("a👍b", "a 👍 b", "");
        let scan = Scan::new("MCP를 서버");
        assert!(scan.blobs[0].atoms[1].is_glued);
        assert!(!scan.blobs[1].atoms[0].is_glued);
    }

    #[test]
    fn punctuation_alone_is_nothing() {
        check("-- ... !? \"' ( ) * _ @ # ++", "", "");
    }

    #[test]
    fn capitals_and_digits_part_a_word() {
        let check = |text: &str, want: &str| {
            let pieces = Scan::new(text).blobs.remove(0).pieces;
            let pieces: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
            assert_eq!(pieces.join(" "), want, "{text}");
        };
        check("fooBarBaz", "foo bar baz");
        check("HTTPServer", "http server");
        check("utf8", "utf 8");
        check("l'été", "été");
        check("Word", "");
        check("plain", "");
    }

    #[test]
    fn ranges_are_slices_of_the_original() {
        let text = "ＭＣＰ를 \u{1112}\u{1161}\u{11ab}글 é👍";
        let scan = Scan::new(text);
        let cut: Vec<&str> = scan
            .blobs
            .iter()
            .flat_map(|blob| blob.atoms.iter().map(|atom| &text[scan.bytes(&atom.chars)]))
            .collect();
        assert_eq!(
            cut,
            ["ＭＣＰ", "를", "\u{1112}\u{1161}\u{11ab}글", "é", "👍"]
        );
    }
}
