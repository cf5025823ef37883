//! BERT and XLM-R: loading, the word vectors at the start and the pooling at the end. What lies
//! between has a form for a CPU, [`crate::cpu`], and one for a GPU, [`tensors`].
//!
//! Query, key and value are one matrix, and the query's part is scaled by `1/sqrt(d)`, `d` a
//! head's width, when it is loaded.

mod config;
mod tensors;

use std::ops::Range;

use candle_core::{Device, Result, bail};
use serde::Deserialize;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::bf16;
use crate::cpu::{self, Pass};
use crate::error::Error;
use crate::kernels::Kernel;
use crate::manifest::{Architecture, Pooling};
use crate::weights::{WeightFile, WordTable};

/// What `config.json` says, as far as the forward pass needs it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) layer_norm_eps: f64,
    pub(crate) max_position_embeddings: usize,
    pub(crate) vocab_size: usize,
    pub(crate) type_vocab_size: usize,
    pub(crate) hidden_act: String,
    #[serde(default)]
    pub(crate) pad_token_id: usize,
}

impl Config {
    /// Position of the first token.
    pub(crate) fn first_position(&self, architecture: Architecture) -> usize {
        if architecture == Architecture::XlmRoberta {
            self.pad_token_id.saturating_add(1)
        } else {
            0
        }
    }
}

/// A loaded model.
pub(crate) struct Bert {
    words: WordTable,
    n_words: usize,
    /// Position vectors plus the vector of token type 0, the only one there is in single texts.
    positions: Vec<f32>,
    layers: Layers,
    width: usize,
    pooling: Pooling,
}

enum Layers {
    Cpu(Box<dyn Pass>),
    Device(tensors::Layers),
}

/// What runs the layers of a model.
pub(crate) enum Runner<'a> {
    Cpu(Kernel),
    Device(&'a Device),
}

/// A layer as it is in the file; each matrix, `[out, in]`, with its bias.
pub(crate) struct LayerWeights {
    pub(crate) query_key_value: (Vec<f32>, Vec<f32>),
    pub(crate) attention_output: (Vec<f32>, Vec<f32>),
    pub(crate) attention_norm: NormWeights,
    pub(crate) up: (Vec<f32>, Vec<f32>),
    pub(crate) down: (Vec<f32>, Vec<f32>),
    pub(crate) output_norm: NormWeights,
}

pub(crate) struct NormWeights {
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
    pub(crate) epsilon: f32,
}

impl Bert {
    pub(crate) fn load(
        file: &mut WeightFile,
        config: &Config,
        architecture: Architecture,
        pooling: Pooling,
        runner: &Runner,
    ) -> std::result::Result<Bert, Error> {
        let (h, n_heads) = (config.hidden_size, config.num_attention_heads);
        let first_position = config.first_position(architecture);
        let words = file.word_table("embeddings.word_embeddings.weight", config.vocab_size, h)?;
        let mut positions = file
            .floats(
                "embeddings.position_embeddings.weight",
                &[config.max_position_embeddings, h],
            )?
            .split_off(first_position * h);
        let types = file.floats(
            "embeddings.token_type_embeddings.weight",
            &[config.type_vocab_size, h],
        )?;
        for position in positions.chunks_exact_mut(h) {
            for (sum, value) in position.iter_mut().zip(&types[..h]) {
                *sum += value;
            }
        }
        let mut reader = Reader { file, config };
        let norm = reader.norm("embeddings.LayerNorm")?;
        let names = (0..config.num_hidden_layers).map(|layer| format!("encoder.layer.{layer}"));
        let layers = match runner {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Runner::Cpu(Kernel::Amx) => {
                let mut layers = bf16::Layers::new(norm, n_heads, h);
                for name in names {
                    layers.push(reader.layer(&name)?);
                }
                Layers::Cpu(Box::new(layers))
            }
            Runner::Cpu(kernel) => {
                let mut layers = cpu::Layers::new(*kernel, norm, n_heads, h);
                for name in names {
                    layers.push(reader.layer(&name)?);
                }
                Layers::Cpu(Box::new(layers))
            }
            Runner::Device(device) => {
                let failed = |error: candle_core::Error| Error::Device {
                    device: crate::device::name(device),
                    source: error.into(),
                };
                let mut layers = tensors::Layers::new(device, norm, n_heads, h).map_err(failed)?;
                for name in names {
                    layers.push(reader.layer(&name)?).map_err(failed)?;
                }
                Layers::Device(layers)
            }
        };
        Ok(Bert {
            words,
            n_words: config.vocab_size,
            positions,
            layers,
            width: h,
            pooling,
        })
    }

    /// The kernel that runs the layers, and what one token costs its matrix products in
    /// floating-point operations; none on a GPU.
    pub(crate) fn kernel(&self) -> Option<(Kernel, usize)> {
        match &self.layers {
            Layers::Cpu(layers) => Some((layers.kernel(), layers.flops_per_token())),
            Layers::Device(_) => None,
        }
    }

    /// One vector a text, not normalised. `texts` are token ids, none empty.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = texts.iter().map(|ids| ids.len()).collect();
        match &self.layers {
            Layers::Cpu(layers) => {
                let h = self.width;
                let mut end = 0;
                let rows = lengths.iter().map(|length| {
                    let start = layers.first_row(end);
                    end = start + length;
                    start..end
                });
                let rows: Vec<Range<usize>> = rows.collect();
                let mut x = vec![0.0; layers.n_rows(end) * h];
                for (ids, rows) in texts.iter().zip(&rows) {
                    self.embed(ids, &mut x[rows.start * h..rows.end * h])?;
                }
                layers.forward(&mut x, &rows);
                let pooled = rows
                    .iter()
                    .map(|rows| self.pool(&x[rows.start * h..rows.end * h]));
                Ok(pooled.collect())
            }
            Layers::Device(layers) => {
                let row = lengths.iter().copied().max().unwrap_or(0) * self.width;
                let mut sums = vec![0.0; texts.len() * row];
                for (ids, text) in texts.iter().zip(sums.chunks_exact_mut(row)) {
                    self.embed(ids, text)?;
                }
                layers.forward(sums, &lengths, self.pooling)
            }
        }
    }

    /// Writes the sums of word, position and type vectors of `ids` to the start of `sums`.
    fn embed(&self, ids: &[u32], sums: &mut [f32]) -> Result<()> {
        let h = self.width;
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.n_words) {
            bail!(
                "token id {id} is not among the model's {} words",
                self.n_words
            );
        }
        let places = self.positions.chunks_exact(h).zip(sums.chunks_exact_mut(h));
        for (id, (position, sum)) in ids.iter().zip(places) {
            sum.copy_from_slice(position);
            self.words.add_row(*id as usize, sum);
        }
        Ok(())
    }

    fn pool(&self, tokens: &[f32]) -> Vec<f32> {
        let mut pooled = tokens[..self.width].to_vec();
        match self.pooling {
            Pooling::Cls => {}
            Pooling::Last => pooled.copy_from_slice(&tokens[tokens.len() - self.width..]),
            Pooling::Mean => {
                for token in tokens.chunks_exact(self.width).skip(1) {
                    for (sum, value) in pooled.iter_mut().zip(token) {
                        *sum += value;
                    }
                }
                let n_tokens = (tokens.len() / self.width) as f32;
                pooled.iter_mut().for_each(|sum| *sum /= n_tokens);
            }
        }
        pooled
    }
}

/// Reads the parts of a layer.
struct Reader<'a> {
    file: &'a mut WeightFile,
    config: &'a Config,
}

impl Reader<'_> {
    fn layer(&mut self, name: &str) -> std::result::Result<LayerWeights, Error> {
        let (h, f) = (self.config.hidden_size, self.config.intermediate_size);
        Ok(LayerWeights {
            query_key_value: self.query_key_value(&format!("{name}.attention.self"))?,
            attention_output: self.linear(&format!("{name}.attention.output.dense"), h, h)?,
            attention_norm: self.norm(&format!("{name}.attention.output.LayerNorm"))?,
            up: self.linear(&format!("{name}.intermediate.dense"), h, f)?,
            down: self.linear(&format!("{name}.output.dense"), f, h)?,
            output_norm: self.norm(&format!("{name}.output.LayerNorm"))?,
        })
    }

    fn query_key_value(&mut self, name: &str) -> std::result::Result<(Vec<f32>, Vec<f32>), Error> {
        let h = self.config.hidden_size;
        let scale = ((h / self.config.num_attention_heads) as f32)
            .sqrt()
            .recip();
        let (mut weight, mut bias) = self.linear(&format!("{name}.query"), h, h)?;
        for value in weight.iter_mut().chain(&mut bias) {
            *value *= scale;
        }
        for part in ["key", "value"] {
            let (more_weight, more_bias) = self.linear(&format!("{name}.{part}"), h, h)?;
            weight.extend(more_weight);
            bias.extend(more_bias);
        }
        Ok((weight, bias))
    }

    fn linear(
        &mut self,
        name: &str,
        n_in: usize,
        n_out: usize,
    ) -> std::result::Result<(Vec<f32>, Vec<f32>), Error> {
        let weight = self
            .file
            .floats(&format!("{name}.weight"), &[n_out, n_in])?;
        let bias = self.file.floats(&format!("{name}.bias"), &[n_out])?;
        Ok((weight, bias))
    }

    fn norm(&mut self, name: &str) -> std::result::Result<NormWeights, Error> {
        let h = self.config.hidden_size;
        Ok(NormWeights {
            scale: self.file.floats(&format!("{name}.weight"), &[h])?,
            shift: self.file.floats(&format!("{name}.bias"), &[h])?,
            epsilon: self.config.layer_norm_eps as f32,
        })
    }
}

#[cfg(test)]
mod tests;
