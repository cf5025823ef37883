//! One ranking out of two: by words and by meaning.

use std::collections::HashMap;

use crate::NoteId;

/// How much a rank is worth: `weight / (RANK_OFFSET + rank)`, reciprocal rank fusion
/// (Cormack, Clarke and Büttcher, SIGIR 2009) with a weight for each arm.
const RANK_OFFSET: f64 = 10.0;
/// The weights of the arms; they add up to 1. Chosen with `pkm eval` on the project's corpus and
/// checked on the retrieval sets.
const KEYWORD_WEIGHT: f64 = 0.5;
const VECTOR_WEIGHT: f64 = 1.0 - KEYWORD_WEIGHT;

/// A note as the keyword arm ranks it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ByWords {
    pub(crate) note: NoteId,
    /// Share of the query's terms that the note has, in 0..=1. A question in another language than
    /// the note shares a word or two with it by chance, so a rank counts by this.
    pub(crate) share: f64,
}

/// A note and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fused {
    pub(crate) note: NoteId,
    /// In 0..=1; 1 is first in both arms with every term.
    pub(crate) score: f64,
    /// Rank in the keyword arm, from 1.
    pub(crate) keyword: Option<usize>,
    /// Rank in the vector arm, from 1.
    pub(crate) vector: Option<usize>,
}

/// Fuses two rankings, best first; each holds a note at most once.
pub(crate) fn fuse(keyword: &[ByWords], vector: &[NoteId]) -> Vec<Fused> {
    let mut by_note: HashMap<NoteId, Fused> = HashMap::new();
    let blank = |note| Fused {
        note,
        score: 0.0,
        keyword: None,
        vector: None,
    };
    for (i, found) in keyword.iter().enumerate() {
        let fused = by_note
            .entry(found.note)
            .or_insert_with(|| blank(found.note));
        fused.score += KEYWORD_WEIGHT * found.share * worth(i + 1);
        fused.keyword = Some(i + 1);
    }
    for (i, &note) in vector.iter().enumerate() {
        let fused = by_note.entry(note).or_insert_with(|| blank(note));
        fused.score += VECTOR_WEIGHT * worth(i + 1);
        fused.vector = Some(i + 1);
    }
    let mut fused: Vec<Fused> = by_note.into_values().collect();
    // Ties break by id: the same notes must rank the same way on every run.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.note.cmp(&b.note)));
    fused
}

/// 1 for the first rank.
fn worth(rank: usize) -> f64 {
    (RANK_OFFSET + 1.0) / (RANK_OFFSET + rank as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: &[(i64, f64)]) -> Vec<ByWords> {
        found
            .iter()
            .map(|&(id, share)| ByWords {
                note: NoteId(id),
                share,
            })
            .collect()
    }

    fn notes(ids: &[i64]) -> Vec<NoteId> {
        ids.iter().copied().map(NoteId).collect()
    }

    fn order(fused: &[Fused]) -> Vec<i64> {
        fused.iter().map(|f| f.note.0).collect()
    }

    #[test]
    fn first_in_both_arms_with_every_term_scores_one_and_leads() {
        let fused = fuse(&words(&[(3, 1.0), (1, 1.0)]), &notes(&[3, 2]));
        assert_eq!(fused[0].note, NoteId(3));
        assert!((fused[0].score - 1.0).abs() < 1e-12);
        assert_eq!((fused[0].keyword, fused[0].vector), (Some(1), Some(1)));
    }

    #[test]
    fn equal_scores_rank_by_id() {
        assert_eq!(order(&fuse(&[], &notes(&[9, 4]))), [9, 4]);
        let same = fuse(&words(&[(9, 1.0), (4, 1.0)]), &notes(&[4, 9]));
        assert_eq!(order(&same), [4, 9]);
    }

    #[test]
    fn one_empty_arm_leaves_the_other_in_its_order() {
        assert_eq!(
            order(&fuse(&words(&[(5, 1.0), (1, 1.0), (7, 1.0)]), &[])),
            [5, 1, 7]
        );
        assert_eq!(order(&fuse(&[], &notes(&[5, 1, 7]))), [5, 1, 7]);
    }

    #[test]
    fn a_chance_word_does_not_outrank_the_meaning() {
        let fused = fuse(&words(&[(1, 0.2)]), &notes(&[2, 3]));
        assert_eq!(order(&fused), [2, 3, 1]);
    }
}
