//! Words with the forms under which they are found.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use super::scan::{Atom, Blob, Script};
use super::{english, hangul};

/// A word at its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written, folded.
    pub(super) exact: String,
    /// What phrases compare: the shortest strong stem, or the word itself.
    pub(super) stem: String,
    /// The stems between the two.
    pub(super) between: Vec<String>,
    /// A stem that may well be wrong.
    pub(super) weak: Option<String>,
    /// Bigrams, of Hangul of two syllables and more.
    pub(super) grams: Vec<String>,
    pub(super) script: Script,
    /// Positions in the scan.
    pub(super) chars: Range<usize>,
    /// Follows a Latin word or a number immediately.
    pub(super) is_glued: bool,
}

/// The words of a blob. Particles that hang on a Latin word are left out.
pub(super) fn words(blob: &Blob) -> Vec<Word> {
    let mut words = Vec::with_capacity(blob.atoms.len());
    for atom in &blob.atoms {
        match atom.script {
            Script::Latin => words.push(latin(atom)),
            Script::Hangul if atom.is_glued && hangul::is_particle(&atom.text) => {}
            Script::Hangul => words.push(korean(atom)),
            Script::Cjk => words.extend(bigrams_of(atom)),
            Script::Symbol => words.push(plain(atom, atom.text.clone(), atom.chars.clone())),
        }
    }
    words
}

fn plain(atom: &Atom, text: String, chars: Range<usize>) -> Word {
    Word {
        stem: text.clone(),
        exact: text,
        between: Vec::new(),
        weak: None,
        grams: Vec::new(),
        script: atom.script,
        chars,
        is_glued: atom.is_glued,
    }
}

fn latin(atom: &Atom) -> Word {
    let mut word = plain(atom, atom.text.clone(), atom.chars.clone());
    let bare = match word.exact.split_once('’') {
        Some((owner, "s")) => owner.to_owned(),
        _ => word.exact.replace('’', ""),
    };
    word.stem = english::stem(&without_accents(&bare));
    word
}

fn korean(atom: &Atom) -> Word {
    let mut word = plain(atom, atom.text.clone(), atom.chars.clone());
    let mut stems = match atom.is_glued {
        true => hangul::glued_stems(&atom.text),
        false => hangul::stems(&atom.text),
    };
    if let Some(stem) = stems.strong.pop() {
        word.stem = stem;
    }
    word.between = stems.strong;
    word.weak = stems.weak;
    word.grams = bigrams(&atom.text);
    word
}

/// Each pair of neighbours of a run of Han and Kana is a word; so is a character alone.
fn bigrams_of(atom: &Atom) -> Vec<Word> {
    let texts = bigrams(&atom.text);
    if texts.is_empty() {
        return vec![plain(atom, atom.text.clone(), atom.chars.clone())];
    }
    let start = atom.chars.start;
    let place = |(at, text): (usize, String)| {
        plain(atom, text, start + at..(start + at + 2).min(atom.chars.end))
    };
    texts.into_iter().enumerate().map(place).collect()
}

/// Every two neighbours of `text`; none of a single character.
pub(super) fn bigrams(text: &str) -> Vec<String> {
    text.chars()
        .zip(text.chars().skip(1))
        .map(|(a, b)| String::from_iter([a, b]))
        .collect()
}

fn without_accents(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    text.nfd()
        .filter(|c| canonical_combining_class(*c) == 0)
        .nfc()
        .collect()
}
