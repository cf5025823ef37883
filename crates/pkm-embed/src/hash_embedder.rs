//! An embedder without a model, for tests of other crates.

use sha2::{Digest, Sha256};

use crate::checksum::hex;
use crate::{Embedded, Embedder, Error, ModelCard, Role, text, vector};

const DIM: usize = 64;
const WINDOW: usize = 512;
/// Tokens that a real model spends on specials and the prefix.
const N_OVERHEAD: usize = 4;
/// Letters to a token, about what a subword tokenizer needs.
const LETTERS_PER_TOKEN: usize = 3;

/// A deterministic stand-in for a model: texts that share words or pairs of letters come out
/// near each other, and that is all it knows of meaning.
///
/// Only compiled under the feature `hash-embedder`, and no manifest leads to it, so that no
/// user can end up with it.
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    card: ModelCard,
}

impl HashEmbedder {
    /// An embedder with vectors of length 64.
    pub fn new() -> HashEmbedder {
        HashEmbedder::with_dim(DIM)
    }

    /// An embedder with vectors of length `dim`, at least 2; each length is a model of its own,
    /// with another name and fingerprint.
    pub fn with_dim(dim: usize) -> HashEmbedder {
        assert!(dim >= 2, "a vector of {dim} components is constant");
        let name = format!("hash-embedder-{dim}");
        HashEmbedder {
            card: ModelCard {
                fingerprint: hex(&Sha256::digest(name.as_bytes()))[..32].to_owned(),
                name,
                dim,
                window: WINDOW,
                device: "cpu".to_owned(),
                precision: None,
                languages: vec!["multilingual".to_owned()],
            },
        }
    }

    fn vector(&self, words: &[String]) -> Vec<f32> {
        let mut sums = vec![0.0; self.card.dim];
        // Present in every text, so that a blank one has a vector, too.
        self.add(&mut sums, "\u{1}blank", 0.05);
        for word in words {
            self.add(&mut sums, word, 1.0);
            let letters: Vec<char> = word.chars().collect();
            for pair in letters.windows(2) {
                self.add(&mut sums, &pair.iter().collect::<String>(), 0.5);
            }
        }
        vector::normalize(&mut sums);
        sums
    }

    /// Adds a direction that depends on `feature` alone.
    fn add(&self, sums: &mut [f32], feature: &str, weight: f32) {
        let mut seed = Sha256::digest(feature.as_bytes());
        for chunk in sums.chunks_mut(seed.len()) {
            for (sum, byte) in chunk.iter_mut().zip(seed.iter()) {
                *sum += weight * (f32::from(*byte) - 127.5) / 127.5;
            }
            seed = Sha256::digest(seed);
        }
    }
}

impl Default for HashEmbedder {
    fn default() -> HashEmbedder {
        HashEmbedder::new()
    }
}

impl Embedder for HashEmbedder {
    fn card(&self) -> &ModelCard {
        &self.card
    }

    fn count_tokens(&self, text: &str) -> usize {
        N_OVERHEAD + words(text).iter().map(|word| n_tokens(word)).sum::<usize>()
    }

    fn embed(&self, texts: &[&str], _role: Role) -> Result<Embedded, Error> {
        let mut embedded = Embedded {
            vectors: Vec::with_capacity(texts.len()),
            n_cut: 0,
            n_tokens: 0,
        };
        for text in texts {
            let mut words = words(text);
            let mut n_used = N_OVERHEAD;
            let fits = words.iter().take_while(|word| {
                n_used += n_tokens(word);
                n_used <= WINDOW
            });
            let n_kept = fits.count();
            embedded.n_cut += usize::from(n_kept < words.len());
            words.truncate(n_kept);
            embedded.n_tokens += n_used.min(WINDOW);
            embedded.vectors.push(self.vector(&words));
        }
        Ok(embedded)
    }
}

fn words(text: &str) -> Vec<String> {
    text::clean(text)
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn n_tokens(word: &str) -> usize {
    word.chars().count().div_ceil(LETTERS_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn vectors_are_usable_and_the_same_in_every_run() {
        let embedder = HashEmbedder::with_dim(100);
        let texts = [
            "",
            "  \n",
            "한국어 메모",
            "a note",
            "🙂🙂",
            &"x".repeat(100_000),
        ];
        let first = embedder.embed(&texts, Role::Passage).unwrap();
        for vector in &first.vectors {
            vector::check(vector, 100).unwrap();
        }
        assert_eq!(first, embedder.embed(&texts, Role::Query).unwrap());
        assert_eq!(first.n_cut, 1);
    }

    #[test]
    fn texts_that_share_words_are_nearer_than_texts_that_do_not() {
        let texts = ["벡터 검색을 위한 색인", "벡터 색인", "apple pie recipe"];
        let vectors = HashEmbedder::new()
            .embed(&texts, Role::Passage)
            .unwrap()
            .vectors;
        assert!(dot(&vectors[0], &vectors[1]) > dot(&vectors[0], &vectors[2]) + 0.2);
    }

    #[test]
    fn another_dimension_is_another_model() {
        let (a, b) = (HashEmbedder::new(), HashEmbedder::with_dim(768));
        assert_ne!(a.card().fingerprint, b.card().fingerprint);
        assert_ne!(a.card().name, b.card().name);
    }
}
