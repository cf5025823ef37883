//! A vector for each word and nothing else, as in model2vec: a text is the mean of its words.

use candle_core::{Result, bail};
use serde::Deserialize;

use crate::error::Error;
use crate::model::ConfigFile;
use crate::weights::{WeightFile, WordTable};

/// What `config.json` says.
#[derive(Debug, Clone, Deserialize)]
struct Config {
    hidden_dim: Option<usize>,
}

/// Checks what little the settings say: everything else is in the weights.
pub(crate) fn check_config(file: &ConfigFile) -> std::result::Result<(), Error> {
    let config: Config = file.parse()?;
    let (width, found) = (file.manifest.dimension, config.hidden_dim);
    let fits = found.is_none_or(|found| found == width);
    file.check(
        fits,
        "hidden_dim",
        &found.unwrap_or(width),
        &width.to_string(),
    )
}

/// A loaded model.
pub(crate) struct StaticVectors {
    rows: WordTable,
    n_words: usize,
    /// The row of each word; none where it is the word's id.
    mapping: Option<Vec<u32>>,
    /// What each word counts; none where all count the same.
    weights: Option<Vec<f32>>,
    /// The mean of all rows, for a text of which no word is known: near to nothing in particular.
    unknown: Vec<f32>,
}

impl StaticVectors {
    /// How many words the file has vectors for.
    pub(crate) fn n_words(file: &WeightFile) -> usize {
        let n_rows = |name| file.shape_of(name).and_then(|shape| shape.first().copied());
        // A file without either is refused when it is loaded, by the tensor's name.
        n_rows("mapping")
            .or_else(|| n_rows(table(file)))
            .unwrap_or(usize::MAX)
    }

    pub(crate) fn load(
        file: &mut WeightFile,
        width: usize,
    ) -> std::result::Result<StaticVectors, Error> {
        let n_words = StaticVectors::n_words(file);
        let table = table(file);
        let has_mapping = file.shape_of("mapping").is_some();
        let n_rows = if has_mapping {
            let shape = file.shape_of(table);
            shape.and_then(|shape| shape.first().copied()).unwrap_or(0)
        } else {
            n_words
        };
        let rows = file.word_table(table, n_rows, width)?;
        let mapping = if has_mapping {
            Some(file.indices("mapping", n_words, n_rows)?)
        } else {
            None
        };
        let weights = if file.shape_of("weights").is_some() {
            Some(file.floats("weights", &[n_words])?)
        } else {
            None
        };
        let mut unknown = vec![0.0; width];
        for row in 0..n_rows {
            rows.add_row(row, &mut unknown);
        }
        Ok(StaticVectors {
            rows,
            n_words,
            mapping,
            weights,
            unknown,
        })
    }

    /// One vector a text, not normalised; the vectors of a text without words are all the same.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        texts.iter().map(|ids| self.mean(ids)).collect()
    }

    /// The mean but for its length, which does not matter.
    fn mean(&self, ids: &[u32]) -> Result<Vec<f32>> {
        if ids.is_empty() {
            return Ok(self.unknown.clone());
        }
        let mut sum = vec![0.0; self.unknown.len()];
        let mut row = sum.clone();
        for id in ids {
            let word = *id as usize;
            if word >= self.n_words {
                bail!(
                    "token id {id} is not among the model's {} words",
                    self.n_words
                );
            }
            let at = self
                .mapping
                .as_ref()
                .map_or(word, |rows| rows[word] as usize);
            let Some(weights) = &self.weights else {
                self.rows.add_row(at, &mut sum);
                continue;
            };
            row.fill(0.0);
            self.rows.add_row(at, &mut row);
            for (sum, value) in sum.iter_mut().zip(&row) {
                *sum += weights[word] * value;
            }
        }
        Ok(sum)
    }
}

/// The name of the table: that of model2vec, or of sentence-transformers.
fn table(file: &WeightFile) -> &'static str {
    let other = "embedding.weight";
    match file.shape_of(other) {
        Some(_) => other,
        None => "embeddings",
    }
}
