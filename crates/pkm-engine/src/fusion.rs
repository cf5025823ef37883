//! One ranking out of two: by words and by meaning.

use std::collections::HashMap;

use crate::NoteId;

/// How much a rank is worth: `weight / (RANK_OFFSET + rank)`, reciprocal rank fusion
/// (Cormack, Clarke and Büttcher, SIGIR 2009) with a weight for each arm.
const RANK_OFFSET: f64 = 60.0;

/// The weights of the two arms; they add up to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights {
    pub(crate) keyword: f64,
    pub(crate) vector: f64,
}

/// A note and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fused {
    pub(crate) note: NoteId,
    /// In 0..=1; 1 is first in both arms.
    pub(crate) score: f64,
    /// Rank in the keyword arm, from 1.
    pub(crate) keyword: Option<usize>,
    /// Rank in the vector arm, from 1.
    pub(crate) vector: Option<usize>,
}

/// Fuses two rankings, best first; each holds a note at most once.
pub(crate) fn fuse(keyword: &[NoteId], vector: &[NoteId], weights: Weights) -> Vec<Fused> {
    let mut by_note: HashMap<NoteId, Fused> = HashMap::new();
    let mut credit = |note: NoteId, rank: usize, weight: f64, arm: Arm| {
        let fused = by_note.entry(note).or_insert(Fused {
            note,
            score: 0.0,
            keyword: None,
            vector: None,
        });
        fused.score += weight * (RANK_OFFSET + 1.0) / (RANK_OFFSET + rank as f64);
        match arm {
            Arm::Keyword => fused.keyword = Some(rank),
            Arm::Vector => fused.vector = Some(rank),
        }
    };
    for (i, &note) in keyword.iter().enumerate() {
        credit(note, i + 1, weights.keyword, Arm::Keyword);
    }
    for (i, &note) in vector.iter().enumerate() {
        credit(note, i + 1, weights.vector, Arm::Vector);
    }
    let mut fused: Vec<Fused> = by_note.into_values().collect();
    // Ties break by id: the same notes must rank the same way on every run.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.note.cmp(&b.note)));
    fused
}

#[derive(Clone, Copy)]
enum Arm {
    Keyword,
    Vector,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: Weights = Weights {
        keyword: 0.5,
        vector: 0.5,
    };

    fn notes(ids: &[i64]) -> Vec<NoteId> {
        ids.iter().copied().map(NoteId).collect()
    }

    #[test]
    fn first_in_both_arms_scores_one_and_leads() {
        let fused = fuse(&notes(&[3, 1]), &notes(&[3, 2]), EVEN);
        assert_eq!(fused[0].note, NoteId(3));
        assert!((fused[0].score - 1.0).abs() < 1e-12);
        assert_eq!((fused[0].keyword, fused[0].vector), (Some(1), Some(1)));
    }

    #[test]
    fn equal_scores_rank_by_id() {
        let fused = fuse(&notes(&[9]), &notes(&[4]), EVEN);
        assert_eq!(fused.iter().map(|f| f.note.0).collect::<Vec<_>>(), [4, 9]);
    }

    #[test]
    fn one_empty_arm_leaves_the_other_in_its_order() {
        let fused = fuse(&notes(&[5, 1, 7]), &[], EVEN);
        assert_eq!(
            fused.iter().map(|f| f.note.0).collect::<Vec<_>>(),
            [5, 1, 7]
        );
        assert!(fused.iter().all(|f| f.vector.is_none()));
    }

    #[test]
    fn the_heavier_arm_wins_where_they_disagree() {
        let weights = Weights {
            keyword: 0.7,
            vector: 0.3,
        };
        let fused = fuse(&notes(&[1, 2]), &notes(&[2, 1]), weights);
        assert_eq!(fused[0].note, NoteId(1));
    }
}
