//! A note cut into the chunks that the store keeps.

use pkm_embed::Embedder;
use pkm_store::{Chunking, NewChunk, PassageHash};

use crate::chunk;

/// A note's chunks and who cut them.
pub(crate) struct Chunks {
    by: String,
    chunks: Vec<NewChunk>,
}

impl Chunks {
    /// The name under which [`Chunks::by_model`] cuts.
    pub(crate) fn name_of(embedder: &dyn Embedder) -> String {
        format!("{}/{}", chunk::CHUNKER_VERSION, embedder.card().fingerprint)
    }

    pub(crate) fn by_model(embedder: &dyn Embedder, title: &str, content: &str) -> Self {
        let limits = chunk::Limits::for_window(embedder.card().window);
        let count = |text: &str| embedder.count_tokens(text);
        Self::cut(Self::name_of(embedder), title, content, &count, limits)
    }

    pub(crate) fn by_estimate(title: &str, content: &str) -> Self {
        let by = format!("{}/estimate", chunk::CHUNKER_VERSION);
        Self::cut(
            by,
            title,
            content,
            &pkm_embed::estimate_tokens,
            chunk::Limits::default(),
        )
    }

    fn cut(
        by: String,
        title: &str,
        content: &str,
        count: &dyn Fn(&str) -> usize,
        limits: chunk::Limits,
    ) -> Self {
        let chunks = chunk::chunk(title, content, count, limits)
            .into_iter()
            .map(|chunk| {
                let text = &content[chunk.range.clone()];
                let passage = chunk::passage_text(title, &chunk.heading_path, text);
                NewChunk {
                    passage_hash: PassageHash::of(passage.as_bytes()),
                    heading_path: chunk.heading_path,
                    range: chunk.range,
                    first_line: chunk.first_line,
                    n_tokens: chunk.n_tokens,
                }
            })
            .collect();
        Self { by, chunks }
    }

    pub(crate) fn chunking(&self) -> Chunking<'_> {
        Chunking {
            by: &self.by,
            chunks: &self.chunks,
        }
    }
}
