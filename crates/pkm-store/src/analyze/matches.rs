//! Where in a text a query's terms are.

use std::ops::Range;

use super::query::{Query, Term};
use super::scan::{Scan, Script};
use super::stop::is_stop_word;
use super::words::{Word, bigrams, words};

/// The byte ranges of `text` that match a term of `query`, ascending, not overlapping, on
/// character boundaries.
pub fn matches(text: &str, query: &str) -> Vec<Range<usize>> {
    let terms = Query::parse(query).terms;
    if terms.is_empty() {
        return Vec::new();
    }
    let text = Text::new(text);
    let mut found: Vec<Range<usize>> = terms
        .iter()
        .flat_map(|term| text.find(term))
        .map(|chars| text.scan.bytes(&chars))
        .collect();
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by(|next, kept| {
        let overlaps = next.start < kept.end;
        if overlaps {
            kept.end = kept.end.max(next.end);
        }
        overlaps
    });
    found
}

impl Query {
    /// How much `title` and the query are the same, from 0 to 1: the harmonic mean of the part
    /// of the title's words that the terms cover and the part of the terms that it has.
    pub(crate) fn overlap(&self, title: &str) -> f64 {
        let title = Text::new(title);
        let mut covered = vec![false; title.words.len()];
        let mut n_found = 0;
        for term in &self.terms {
            let found = title.find(term);
            n_found += usize::from(!found.is_empty());
            for (word, covered) in title.words.iter().zip(&mut covered) {
                let touches = |chars: &Range<usize>| {
                    chars.start < word.chars.end && word.chars.start < chars.end
                };
                *covered |= found.iter().any(touches);
            }
        }
        let n_covered = covered.iter().filter(|covered| **covered).count();
        let n_words = title
            .words
            .iter()
            .filter(|word| !is_stop_word(&word.exact))
            .count();
        if n_covered == 0 || n_found == 0 {
            return 0.0;
        }
        let of_title = (n_covered as f64 / n_words.max(1) as f64).min(1.0);
        let of_terms = n_found as f64 / self.terms.len() as f64;
        2.0 * of_title * of_terms / (of_title + of_terms)
    }
}

struct Text {
    scan: Scan,
    words: Vec<Word>,
}

impl Text {
    fn new(text: &str) -> Self {
        let scan = Scan::new(text);
        let words = scan.blobs.iter().flat_map(words).collect();
        Self { scan, words }
    }

    fn find(&self, term: &Term) -> Vec<Range<usize>> {
        match term {
            Term::Word(word) if word.script == Script::Hangul => self.find_korean(word),
            Term::Word(word) => self.find_word(word),
            Term::Name { identifiers, words } => {
                let mut found = self.find_names(identifiers);
                found.extend(self.find_sequence(words));
                if found.is_empty() && words.len() == 1 {
                    found = self.find_word(&words[0]);
                }
                found
            }
            Term::Phrase(words) => self.find_sequence(words),
        }
    }

    fn find_word(&self, wanted: &Word) -> Vec<Range<usize>> {
        let is_it = |word: &&Word| {
            word.script == wanted.script && (word.exact == wanted.exact || word.stem == wanted.stem)
        };
        let mut found: Vec<_> = self
            .words
            .iter()
            .filter(is_it)
            .map(|word| word.chars.clone())
            .collect();
        found.extend(self.find_pieces(&wanted.exact));
        if found.is_empty() && wanted.exact.chars().count() >= 3 {
            let begins = |word: &&Word| word.exact.starts_with(&wanted.exact);
            found.extend(
                self.words
                    .iter()
                    .filter(begins)
                    .map(|word| word.chars.clone()),
            );
        }
        found
    }

    fn find_pieces(&self, wanted: &str) -> Vec<Range<usize>> {
        let pieces = self.scan.blobs.iter().flat_map(|blob| &blob.pieces);
        pieces
            .filter(|piece| piece.text == wanted)
            .map(|piece| piece.chars.clone())
            .collect()
    }

    fn find_names(&self, wanted: &[String]) -> Vec<Range<usize>> {
        let names = self.scan.blobs.iter().flat_map(|blob| &blob.identifiers);
        names
            .filter(|name| wanted.contains(&name.text))
            .map(|name| name.chars.clone())
            .collect()
    }

    fn find_sequence(&self, wanted: &[Word]) -> Vec<Range<usize>> {
        let is_it = |run: &&[Word]| {
            let same = |by: fn(&Word) -> &str| run.iter().map(by).eq(wanted.iter().map(by));
            same(|word| &word.exact) || same(|word| &word.stem)
        };
        self.words
            .windows(wanted.len().max(1))
            .filter(is_it)
            .map(|run| run[0].chars.start..run[run.len() - 1].chars.end)
            .collect()
    }

    /// A Korean word is marked without its particle, and inside a compound.
    fn find_korean(&self, wanted: &Word) -> Vec<Range<usize>> {
        let stem = wanted.stem.as_str();
        let n_syllables = stem.chars().count();
        let mut found = self.inside_words(stem, n_syllables == 1);
        if n_syllables >= 4 {
            for (cut, _) in stem.char_indices().skip(2).take(n_syllables - 3) {
                let (left, right) = stem.split_at(cut);
                for two in self.words.windows(2) {
                    if two[0].stem == left && two[1].stem == right {
                        found.push(two[0].chars.start..two[1].chars.end);
                    }
                }
            }
        }
        if found.is_empty() {
            let weak = wanted
                .weak
                .iter()
                .flat_map(|weak| self.inside_words(weak, true));
            found.extend(weak);
        }
        if found.is_empty() && n_syllables > 2 {
            found.extend(
                bigrams(stem)
                    .iter()
                    .flat_map(|gram| self.inside_words(gram, false)),
            );
        }
        found
    }

    /// Every place where `wanted` stands in a Hangul word, or only at its beginning.
    fn inside_words(&self, wanted: &str, only_first: bool) -> Vec<Range<usize>> {
        let n = wanted.chars().count();
        let mut found = Vec::new();
        for word in self
            .words
            .iter()
            .filter(|word| word.script == Script::Hangul)
        {
            let places = word.exact.match_indices(wanted).map(|(at, _)| at);
            for at in places.filter(|at| *at == 0 || !only_first) {
                let start = word.chars.start + word.exact[..at].chars().count();
                found.push(start..(start + n).min(word.chars.end));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, query: &str, want: &[&str]) {
        let found = matches(text, query);
        let cut: Vec<&str> = found.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(cut, want, "{query:?} in {text:?}");
    }

    #[test]
    fn words_are_marked_in_every_form() {
        check(
            "Servers were running.",
            "run server",
            &["Servers", "running"],
        );
        check("사용자 인증을 했다", "인증", &["인증"]);
        check("동물병원에", "병원", &["병원"]);
        check("MCP를 쓴다", "mcp를", &["MCP"]);
        check("책을 읽는 책장", "책", &["책", "책"]);
        check("데이터 베이스", "데이터베이스", &["데이터 베이스"]);
        check("see PR-1234 and C++", "c++ PR-1234", &["PR-1234", "C++"]);
        check("a new deal for all", "\"new deal\"", &["new deal"]);
        check("an old new thing, a deal", "\"new deal\"", &[]);
        check("fooBar", "bar", &["Bar"]);
        check("世界の歴史", "歴史", &["歴史"]);
        check("3월에", "3월", &["3월에"]);
        check("text", "-text other", &[]);
        check("text", "", &[]);
    }

    #[test]
    fn decomposed_text_is_marked_whole() {
        let nfd: String = unicode_normalization::UnicodeNormalization::nfd("회의록을").collect();
        let found = matches(&nfd, "회의록");
        let cut: String =
            unicode_normalization::UnicodeNormalization::nfc(&nfd[found[0].clone()]).collect();
        assert_eq!(cut, "회의록");
    }
}
