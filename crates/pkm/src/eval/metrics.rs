//! Scores of a ranking, as the literature on retrieval defines them.

use std::time::Duration;

use serde::Serialize;

/// How many hits are looked at.
pub(crate) const DEPTH: usize = 10;

/// Scores of one question, or their mean over several; each 0..=1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Scores {
    /// Discounted cumulative gain over the best possible one; gain is linear in the judgement
    /// (Järvelin and Kekäläinen 2002).
    pub(crate) ndcg_at_10: f64,
    /// Share of the answers that are among the hits.
    pub(crate) recall_at_10: f64,
    /// 1 over the rank of the first answer; 0 without one.
    pub(crate) mrr_at_10: f64,
    pub(crate) hit_at_1: f64,
    pub(crate) hit_at_3: f64,
    pub(crate) hit_at_5: f64,
}

/// Scores a ranking by the judgement of each hit, best hit first; `judged` are the judgements of
/// all answers there are, hit or not. A judgement above 0 is an answer.
pub(crate) fn score(hits: &[f64], judged: &[f64]) -> Scores {
    let hits = &hits[..hits.len().min(DEPTH)];
    let mut ideal: Vec<f64> = judged.to_vec();
    ideal.sort_by(|a, b| b.total_cmp(a));
    ideal.truncate(DEPTH);
    let n_answers = judged.iter().filter(|&&gain| gain > 0.0).count();
    let n_found = hits.iter().filter(|&&gain| gain > 0.0).count();
    let first = hits.iter().position(|&gain| gain > 0.0);
    let hit_at = |k: usize| {
        if first.is_some_and(|first| first < k) {
            1.0
        } else {
            0.0
        }
    };
    Scores {
        ndcg_at_10: ratio(gain(hits), gain(&ideal)),
        recall_at_10: ratio(n_found as f64, n_answers as f64),
        mrr_at_10: first.map_or(0.0, |first| 1.0 / (first + 1) as f64),
        hit_at_1: hit_at(1),
        hit_at_3: hit_at(3),
        hit_at_5: hit_at(5),
    }
}

fn gain(gains: &[f64]) -> f64 {
    gains
        .iter()
        .enumerate()
        .map(|(rank, gain)| gain / ((rank + 2) as f64).log2())
        // The sum of nothing would be -0.
        .fold(0.0, |total, gain| total + gain)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The mean of each score; all 0 without any.
pub(crate) fn mean(scores: &[Scores]) -> Scores {
    let mean = |of: fn(&Scores) -> f64| ratio(scores.iter().map(of).sum(), scores.len() as f64);
    Scores {
        ndcg_at_10: mean(|s| s.ndcg_at_10),
        recall_at_10: mean(|s| s.recall_at_10),
        mrr_at_10: mean(|s| s.mrr_at_10),
        hit_at_1: mean(|s| s.hit_at_1),
        hit_at_3: mean(|s| s.hit_at_3),
        hit_at_5: mean(|s| s.hit_at_5),
    }
}

/// The smallest of `times` that at least `percent` % of them do not exceed.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_perfect_ranking_scores_one() {
        let scores = score(&[2.0, 1.0, 0.0], &[1.0, 2.0]);
        assert!(close(scores.ndcg_at_10, 1.0));
        assert!(close(scores.recall_at_10, 1.0));
        assert_eq!((scores.mrr_at_10, scores.hit_at_1), (1.0, 1.0));
    }

    #[test]
    fn a_partial_answer_in_front_of_the_answer_costs() {
        let scores = score(&[1.0, 2.0], &[2.0, 1.0]);
        let (log2, log3) = (2f64.log2(), 3f64.log2());
        assert!(close(
            scores.ndcg_at_10,
            (1.0 / log2 + 2.0 / log3) / (2.0 / log2 + 1.0 / log3)
        ));
        assert_eq!(scores.hit_at_1, 1.0);
    }

    #[test]
    fn the_rank_of_the_first_answer_decides_the_rest() {
        let scores = score(&[0.0, 0.0, 0.0, 1.0], &[1.0, 1.0]);
        assert_eq!(
            (scores.hit_at_1, scores.hit_at_3, scores.hit_at_5),
            (0.0, 0.0, 1.0)
        );
        assert!(close(scores.mrr_at_10, 0.25));
        assert!(close(scores.recall_at_10, 0.5));
    }

    #[test]
    fn what_comes_after_ten_does_not_count() {
        let mut hits = vec![0.0; 10];
        hits.push(1.0);
        assert_eq!(score(&hits, &[1.0]), Scores::default());
        assert_eq!(score(&[], &[1.0]), Scores::default());
        assert_eq!(format!("{:.1}", score(&[], &[1.0]).ndcg_at_10), "0.0");
    }

    #[test]
    fn more_answers_than_places_can_still_be_perfect_by_gain() {
        let scores = score(&[1.0; 10], &[1.0; 20]);
        assert!(close(scores.ndcg_at_10, 1.0));
        assert!(close(scores.recall_at_10, 0.5));
    }

    #[test]
    fn percentiles_are_taken_from_what_was_measured() {
        let times: Vec<Duration> = (1..=20).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Duration::from_millis(10));
        assert_eq!(percentile(&times, 95), Duration::from_millis(19));
        assert_eq!(percentile(&times, 100), Duration::from_millis(20));
        assert_eq!(percentile(&times[..1], 5), Duration::from_millis(20));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn a_mean_is_taken_over_questions() {
        let half = mean(&[score(&[1.0], &[1.0]), score(&[0.0], &[1.0])]);
        assert!(close(half.hit_at_1, 0.5) && close(half.ndcg_at_10, 0.5));
        assert_eq!(mean(&[]), Scores::default());
    }
}
