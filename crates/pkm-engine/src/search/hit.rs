//! From the arms' evidence to what a caller is shown.

use pkm_store::{ChunkId, Passage};

use super::{Arms, Evidence, Hit};
use crate::chunk;
use crate::fusion::{ByMeaning, ByWords, fuse};

/// The longest snippet, in characters.
const SNIPPET_CHARS: usize = 300;

/// A note in its final place, with the chunk to show for it.
pub(super) struct Candidate {
    pub(super) chunk: ChunkId,
    score: f64,
    arms: Arms,
    similarity: Option<f32>,
}

pub(super) fn rank(
    keyword: &[Evidence],
    vector: &[Evidence],
    min_score: Option<f64>,
) -> Vec<Candidate> {
    let by_words: Vec<ByWords> = keyword
        .iter()
        .map(|e| ByWords {
            note: e.note,
            score: e.score,
            share: e.share,
        })
        .collect();
    let by_meaning: Vec<ByMeaning> = vector
        .iter()
        .map(|e| ByMeaning {
            note: e.note,
            score: e.score,
        })
        .collect();
    fuse(&by_words, &by_meaning)
        .into_iter()
        .filter_map(|fused| {
            let in_keyword = fused.keyword.map(|rank| &keyword[rank - 1]);
            let in_vector = fused.vector.map(|rank| &vector[rank - 1]);
            Some(Candidate {
                chunk: shown(in_keyword, in_vector)?.chunk,
                score: fused.score,
                arms: Arms {
                    keyword: fused.keyword,
                    vector: fused.vector,
                },
                similarity: in_vector.map(|e| e.similarity),
            })
        })
        .filter(|candidate| min_score.is_none_or(|least| candidate.score >= least))
        .collect()
}

/// The evidence to show: the words that matched, unless they are few and the meaning was found
/// elsewhere.
fn shown<'a>(keyword: Option<&'a Evidence>, vector: Option<&'a Evidence>) -> Option<&'a Evidence> {
    match (keyword, vector) {
        (Some(keyword), Some(vector)) if keyword.share < 0.5 => Some(vector),
        (keyword, vector) => keyword.or(vector),
    }
}

pub(super) fn hit(query: &str, candidate: &Candidate, passage: &Passage) -> Hit {
    let matches = pkm_store::analyze::matches(&passage.text, query);
    let snippet = chunk::snippet(&passage.text, &matches, SNIPPET_CHARS);
    let first = passage.first_line + n_newlines(&passage.text[..snippet.range.start]);
    let last = first + n_newlines(passage.text[snippet.range.clone()].trim_end());
    Hit {
        id: passage.note_id,
        title: passage.title.clone(),
        snippet: snippet.text,
        score: candidate.score,
        folder: passage.folder.clone(),
        tags: passage.tags.clone(),
        heading: passage.heading_path.clone(),
        lines: (first, last),
        updated_at: passage.updated_at,
        arms: candidate.arms,
        similarity: candidate.similarity,
    }
}

fn n_newlines(text: &str) -> usize {
    text.bytes().filter(|&b| b == b'\n').count()
}
