//! A query as terms, and every term as the postings that satisfy it.

use std::ops::Range;

use super::posting::{GRAM, STEM, WEAK};
use super::scan::{Blob, Scan, Script};
use super::stop::is_stop_word;
use super::words::{Word, bigrams, words};

/// Terms beyond this number are not looked for.
const MAX_TERMS: usize = 32;

/// What a word found by its stem is worth beside one found as written.
const STEM_WEIGHT: f64 = 0.8;

/// What is sought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Term {
    /// A word in any of its forms.
    Word(Word),
    /// A name with punctuation; the words inside it stand in when it is not found whole.
    Name {
        /// Its spellings, the fullest first.
        identifiers: Vec<String>,
        /// The words in it, in order.
        words: Vec<Word>,
    },
    /// Words next to each other.
    Phrase(Vec<Word>),
}

/// A query, understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Query {
    /// What a note should have.
    pub(crate) terms: Vec<Term>,
    /// Stop words, left out of the terms because there are others.
    pub(crate) stop_words: Vec<Term>,
    /// What it must not have.
    pub(crate) excluded: Vec<Term>,
}

/// A match expression of FTS5, and how much a hit of it is worth beside one of the word as
/// written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    pub(crate) expression: String,
    pub(crate) weight: f64,
}

impl Form {
    /// Whether a hit surely is the term, and no compound or part of it.
    pub(crate) fn is_sure(&self) -> bool {
        self.weight >= STEM_WEIGHT
    }
}

/// How a term is looked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Plan {
    /// Any of these is the term.
    pub(crate) forms: Vec<Form>,
    /// Asked only if none of the forms is found anywhere.
    pub(crate) fallback: Vec<Form>,
    /// Bigrams of a long word; many of them together speak for it.
    pub(crate) grams: Vec<String>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for part in parts(text) {
            let terms = match part.is_phrase {
                true => phrase(part.text),
                false => Scan::new(part.text).blobs.iter().flat_map(terms).collect(),
            };
            let known = if part.is_excluded {
                &mut query.excluded
            } else {
                &mut query.terms
            };
            for term in terms {
                if known.len() < MAX_TERMS && !known.iter().any(|other| other.is_same(&term)) {
                    known.push(term);
                }
            }
        }
        if query.terms.iter().any(|term| !term.is_stop_word()) {
            query.stop_words = query
                .terms
                .extract_if(.., |term| term.is_stop_word())
                .collect();
        }
        query
    }
}

/// What stands between blanks or quotes.
struct Part<'a> {
    text: &'a str,
    is_phrase: bool,
    is_excluded: bool,
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let is_quote = |c: char| matches!(c, '"' | '“' | '”' | '„' | '＂');
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return parts;
        };
        let after_minus = rest
            .strip_prefix('-')
            .filter(|after| after.starts_with(|c: char| c != '-' && !c.is_whitespace()));
        let is_excluded = after_minus.is_some();
        let body = after_minus.unwrap_or(rest);
        if let Some(inside) = body.strip_prefix(is_quote) {
            if let Some(end) = inside.find(is_quote) {
                parts.push(Part {
                    text: &inside[..end],
                    is_phrase: true,
                    is_excluded,
                });
                rest = inside[end..].trim_start_matches(is_quote);
            } else {
                // A quote that nobody closed is a blank.
                rest = inside;
            }
            continue;
        }
        let end = body
            .find(|c: char| c.is_whitespace() || is_quote(c))
            .unwrap_or(body.len());
        let end = end.max(first.len_utf8().min(body.len()));
        parts.push(Part {
            text: &body[..end],
            is_phrase: false,
            is_excluded,
        });
        rest = &body[end..];
    }
}

/// The terms of what the user wrote without a blank.
fn terms(blob: &Blob) -> Vec<Term> {
    let words = words(blob);
    let mut terms = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let script = words[at].script;
        let n = match script {
            Script::Latin | Script::Cjk => words[at..]
                .iter()
                .take_while(|word| word.script == script)
                .count(),
            Script::Hangul | Script::Symbol => 1,
        };
        let mut run = words[at..at + n].to_vec();
        at += n;
        if script == Script::Latin {
            // 3월: a syllable that means something only beside its number.
            if let Some(next) = words.get(at).filter(|next| {
                next.is_glued && next.script == Script::Hangul && next.stem.chars().count() == 1
            }) {
                run.push(next.clone());
                at += 1;
                terms.push(Term::Phrase(run));
                continue;
            }
            terms.push(name_or_word(blob, run));
        } else if run.len() > 1 {
            terms.push(Term::Phrase(run));
        } else {
            terms.extend(run.pop().map(Term::Word));
        }
    }
    terms
}

fn name_or_word(blob: &Blob, mut run: Vec<Word>) -> Term {
    let place = run[0].chars.start..run[run.len() - 1].chars.end;
    let whole = |chars: &Range<usize>| chars.start <= place.start && chars.end >= place.end;
    let identifiers: Vec<String> = blob
        .identifiers
        .iter()
        .filter(|name| whole(&name.chars))
        .map(|name| name.text.clone())
        .collect();
    match run.pop() {
        Some(word) if run.is_empty() && identifiers.is_empty() => Term::Word(word),
        last => {
            run.extend(last);
            Term::Name {
                identifiers,
                words: run,
            }
        }
    }
}

/// The term of what the user put in quotes.
fn phrase(text: &str) -> Vec<Term> {
    let scan = Scan::new(text);
    if let [blob] = scan.blobs.as_slice()
        && let [name @ Term::Name { .. }] = terms(blob).as_slice()
    {
        return vec![name.clone()];
    }
    let words: Vec<Word> = scan.blobs.iter().flat_map(words).collect();
    if words.is_empty() {
        Vec::new()
    } else {
        vec![Term::Phrase(words)]
    }
}

impl Term {
    pub(crate) fn plan(&self) -> Plan {
        match self {
            Self::Word(word) if word.script == Script::Hangul => korean_plan(word),
            Self::Word(word) => word_plan(word),
            Self::Name { identifiers, words } => name_plan(identifiers, words),
            Self::Phrase(words) => Plan {
                forms: vec![exact(words, 1.0), stems(words, STEM_WEIGHT)],
                ..Plan::default()
            },
        }
    }

    fn is_stop_word(&self) -> bool {
        matches!(self, Self::Word(word) if is_stop_word(&word.exact))
    }

    /// Whether `other` asks for the same, wherever it stood in the query.
    fn is_same(&self, other: &Self) -> bool {
        self.plan() == other.plan()
    }
}

fn word_plan(word: &Word) -> Plan {
    let mut plan = Plan::default();
    plan.form(quoted(None, &word.exact), 1.0);
    plan.form(quoted(Some(STEM), &word.stem), STEM_WEIGHT);
    plan.form(quoted(Some(STEM), &word.exact), STEM_WEIGHT);
    if word.script == Script::Latin {
        let pieces = letter_digit_pieces(&word.exact);
        if pieces.len() > 1 {
            plan.form(sequence(None, pieces.iter().map(String::as_str)), 0.7);
        }
        if word.exact.chars().count() >= 3 {
            plan.fall_back(format!("{} *", quoted(None, &word.exact)), 0.5);
        }
    }
    plan
}

fn korean_plan(word: &Word) -> Plan {
    let mut plan = Plan::default();
    let stem = word.stem.as_str();
    let n_syllables = stem.chars().count();
    plan.form(quoted(None, &word.exact), 1.0);
    for form in std::iter::once(&word.stem)
        .chain(&word.between)
        .chain([&word.exact])
    {
        plan.form(quoted(Some(STEM), form), STEM_WEIGHT);
    }
    if n_syllables == 1 {
        plan.form(quoted(Some(WEAK), stem), 0.7);
        plan.form(format!("{} *", quoted(None, stem)), 0.3);
        return plan;
    }
    let grams = bigrams(stem);
    plan.form(sequence(Some(GRAM), grams.iter().map(String::as_str)), 0.5);
    // 얕은복사 is written 얕은 복사 as well.
    for (cut, _) in stem
        .char_indices()
        .skip(2)
        .take(n_syllables.saturating_sub(3))
    {
        let (left, right) = stem.split_at(cut);
        plan.form(sequence(Some(STEM), [left, right]), 0.8);
    }
    if let Some(weak) = &word.weak {
        plan.fall_back(quoted(None, weak), 0.6);
        plan.fall_back(quoted(Some(STEM), weak), 0.6);
        plan.fall_back(quoted(Some(WEAK), weak), 0.5);
    }
    if grams.len() > 1 {
        plan.grams = grams.iter().map(|gram| quoted(Some(GRAM), gram)).collect();
        plan.grams.dedup();
    }
    plan
}

fn name_plan(identifiers: &[String], words: &[Word]) -> Plan {
    let mut plan = Plan::default();
    for (at, name) in identifiers.iter().enumerate() {
        plan.form(quoted(Some(STEM), name), if at == 0 { 1.0 } else { 0.9 });
    }
    match words {
        // C++ is not C; 50% may well be 50.
        [word] if word.exact.chars().count() == 1 => {
            plan.fall_back(quoted(None, &word.exact), 0.3);
        }
        [word] => {
            plan.form(quoted(None, &word.exact), 0.5);
            plan.form(quoted(Some(STEM), &word.stem), 0.5);
        }
        words => {
            plan.forms.push(exact(words, 0.5));
            plan.forms.push(stems(words, 0.45));
            let joined: String = words.iter().map(|word| word.exact.as_str()).collect();
            plan.form(quoted(None, &joined), 0.45);
        }
    }
    plan
}

impl Plan {
    fn form(&mut self, expression: String, weight: f64) {
        if !self.forms.iter().any(|form| form.expression == expression) {
            self.forms.push(Form { expression, weight });
        }
    }

    fn fall_back(&mut self, expression: String, weight: f64) {
        self.fallback.push(Form { expression, weight });
    }
}

fn exact(words: &[Word], weight: f64) -> Form {
    Form {
        expression: sequence(None, words.iter().map(|word| word.exact.as_str())),
        weight,
    }
}

fn stems(words: &[Word], weight: f64) -> Form {
    Form {
        expression: sequence(Some(STEM), words.iter().map(|word| word.stem.as_str())),
        weight,
    }
}

/// Runs of letters and of digits.
fn letter_digit_pieces(word: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut was_digit = None;
    for c in word.chars() {
        let is_digit = c.is_numeric();
        match pieces.last_mut().filter(|_| was_digit == Some(is_digit)) {
            Some(piece) => piece.push(c),
            None => pieces.push(c.into()),
        }
        was_digit = Some(is_digit);
    }
    pieces
}

fn quoted(mark: Option<char>, token: &str) -> String {
    sequence(mark, [token])
}

/// The tokens next to each other, as an FTS5 string, in which only the quote means anything.
fn sequence<'a>(mark: Option<char>, tokens: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("\"");
    for token in tokens {
        if out.len() > 1 {
            out.push(' ');
        }
        out.extend(mark);
        out.push_str(&token.replace('"', "\"\""));
    }
    out.push('"');
    out
}
