//! One ranking out of two: by words and by meaning.
//!
//! Ranks alone do not say how sure an arm is: a question in another language than the note that
//! answers it shares a word with some note by chance, and reciprocal rank fusion then puts that
//! note beside the answer. So scores are added. That of the vector arm is a cosine that means the
//! same for every query; that of the keyword arm is brought to 0..1 and counts by the share of the
//! query's terms that the note has.

use std::collections::HashMap;

use crate::NoteId;

/// What the words of a note can add, beside a cosine. Chosen together with [`HALF_SCORE`] on the
/// project's corpus (`pkm eval tests/corpus`): more helps within a language and hurts across.
const KEYWORD_WEIGHT: f64 = 0.15;
/// The keyword score (BM25) that is worth half of what words can add.
const HALF_SCORE: f64 = 10.0;

/// A note as the keyword arm found it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ByWords {
    pub(crate) note: NoteId,
    /// BM25, made positive.
    pub(crate) score: f64,
    /// Share of the query's terms that the note has, in 0..=1.
    pub(crate) share: f64,
}

/// A note as the vector arm found it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ByMeaning {
    pub(crate) note: NoteId,
    /// Cosine.
    pub(crate) score: f64,
}

/// A note and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fused {
    pub(crate) note: NoteId,
    pub(crate) score: f64,
    /// Rank in the keyword arm, from 1.
    pub(crate) keyword: Option<usize>,
    /// Rank in the vector arm, from 1.
    pub(crate) vector: Option<usize>,
}

/// Fuses two rankings, best first; each holds a note at most once.
pub(crate) fn fuse(keyword: &[ByWords], vector: &[ByMeaning]) -> Vec<Fused> {
    let Some(last) = vector.last() else {
        // The keyword arm ranks by more than what is added here, so it stays as it is.
        return keyword
            .iter()
            .enumerate()
            .map(|(i, found)| by_words_alone(i + 1, found))
            .collect();
    };
    // What the vector arm did not reach is no nearer than its last.
    let beyond = last.score;
    let mut by_note: HashMap<NoteId, Fused> = HashMap::new();
    for (i, found) in vector.iter().enumerate() {
        let fused = Fused {
            note: found.note,
            score: found.score,
            keyword: None,
            vector: Some(i + 1),
        };
        by_note.insert(found.note, fused);
    }
    for (i, found) in keyword.iter().enumerate() {
        let fused = by_note.entry(found.note).or_insert(Fused {
            note: found.note,
            score: beyond,
            keyword: None,
            vector: None,
        });
        fused.score += KEYWORD_WEIGHT * found.share * found.score / (found.score + HALF_SCORE);
        fused.keyword = Some(i + 1);
    }
    let mut fused: Vec<Fused> = by_note.into_values().collect();
    // Ties break by place in an arm, then by id: the same notes must rank the same way on every run.
    fused.sort_by(|a, b| {
        let place = |f: &Fused| f.keyword.or(f.vector);
        b.score
            .total_cmp(&a.score)
            .then(place(a).cmp(&place(b)))
            .then(a.note.cmp(&b.note))
    });
    fused
}

fn by_words_alone(rank: usize, found: &ByWords) -> Fused {
    Fused {
        note: found.note,
        score: found.score,
        keyword: Some(rank),
        vector: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: &[(i64, f64, f64)]) -> Vec<ByWords> {
        found
            .iter()
            .map(|&(id, score, share)| ByWords {
                note: NoteId(id),
                score,
                share,
            })
            .collect()
    }

    fn meaning(found: &[(i64, f64)]) -> Vec<ByMeaning> {
        found
            .iter()
            .map(|&(id, score)| ByMeaning {
                note: NoteId(id),
                score,
            })
            .collect()
    }

    fn order(fused: &[Fused]) -> Vec<i64> {
        fused.iter().map(|f| f.note.0).collect()
    }

    #[test]
    fn first_in_both_arms_leads() {
        let fused = fuse(
            &words(&[(3, 9.0, 1.0), (1, 8.0, 1.0)]),
            &meaning(&[(3, 0.4), (2, 0.3)]),
        );
        assert_eq!(order(&fused), [3, 1, 2]);
        assert_eq!((fused[0].keyword, fused[0].vector), (Some(1), Some(1)));
    }

    #[test]
    fn one_empty_arm_leaves_the_other_in_its_order() {
        let same = [(5, 3.0, 0.5), (1, 3.0, 1.0), (7, 2.0, 1.0)];
        assert_eq!(order(&fuse(&words(&same), &[])), [5, 1, 7]);
        assert_eq!(
            order(&fuse(&[], &meaning(&[(5, 0.3), (1, 0.3), (7, -0.1)]))),
            [5, 1, 7]
        );
    }

    #[test]
    fn a_chance_word_does_not_outrank_the_meaning() {
        let fused = fuse(
            &words(&[(1, 4.0, 0.2)]),
            &meaning(&[(2, 0.3), (3, 0.2), (1, 0.1)]),
        );
        assert_eq!(order(&fused), [2, 3, 1]);
    }

    #[test]
    fn every_word_of_the_query_outranks_a_vague_likeness() {
        let fused = fuse(&words(&[(1, 9.0, 1.0)]), &meaning(&[(2, 0.18), (1, 0.15)]));
        assert_eq!(order(&fused), [1, 2]);
    }
}
