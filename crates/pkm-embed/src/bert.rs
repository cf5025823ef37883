//! BERT and XLM-R on candle: loading, and the forward pass in tensor operations for a GPU; the
//! CPU has its own in [`crate::cpu`].
//!
//! Shapes: `b` texts of `l` tokens, width `h`, `n` heads of `d`. A matrix of `[out, in]` in the
//! file is held as `[in, out]`. Query, key and value are one matrix, and the query's part is
//! scaled by `1/sqrt(d)` when it is loaded.

use candle_core::{Device, Result, Tensor, bail};
use candle_nn::ops::{layer_norm, softmax_last_dim};
use serde::Deserialize;

use crate::cpu;
use crate::error::Error;
use crate::kernels::Affine;
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
        match architecture {
            Architecture::Bert => 0,
            Architecture::XlmRoberta => self.pad_token_id + 1,
        }
    }
}

/// A loaded model.
pub(crate) struct Bert {
    words: WordTable,
    n_words: usize,
    /// Position vectors plus the vector of token type 0, the only one there is in single texts.
    positions: Vec<f32>,
    embedding_norm: Norm,
    layers: Vec<Layer>,
    n_heads: usize,
    width: usize,
    pooling: Pooling,
    device: Device,
}

pub(crate) struct Layer {
    pub(crate) query_key_value: Linear,
    pub(crate) attention_output: Linear,
    pub(crate) attention_norm: Norm,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) output_norm: Norm,
}

pub(crate) struct Linear {
    /// `[in, out]`.
    pub(crate) weight: Tensor,
    bias: Tensor,
    /// The same as plain numbers, for the CPU.
    pub(crate) bias_values: Vec<f32>,
}

pub(crate) struct Norm {
    scale: Tensor,
    shift: Tensor,
    /// The same as plain numbers, for the CPU.
    pub(crate) scale_values: Vec<f32>,
    shift_values: Vec<f32>,
    epsilon: f32,
}

impl Bert {
    pub(crate) fn load(
        file: &mut WeightFile,
        config: &Config,
        architecture: Architecture,
        pooling: Pooling,
        device: &Device,
    ) -> std::result::Result<Bert, Error> {
        let h = config.hidden_size;
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
        let mut reader = Reader {
            file,
            config,
            device,
        };
        Ok(Bert {
            embedding_norm: reader.norm("embeddings.LayerNorm")?,
            layers: (0..config.num_hidden_layers)
                .map(|layer| reader.layer(&format!("encoder.layer.{layer}")))
                .collect::<std::result::Result<_, Error>>()?,
            words,
            n_words: config.vocab_size,
            positions,
            n_heads: config.num_attention_heads,
            width: h,
            pooling,
            device: device.clone(),
        })
    }

    /// One vector a text, not normalised. `texts` are token ids, none empty.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        if self.device.is_cpu() {
            self.forward_cpu(texts)
        } else {
            self.forward_padded(texts)
        }
    }

    /// Texts one after another: `[n_tokens, h]`.
    fn forward_cpu(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = texts.iter().map(|ids| ids.len()).collect();
        let n_tokens = lengths.iter().sum::<usize>();
        let mut sums = vec![0.0; n_tokens * self.width];
        let mut rest = &mut sums[..];
        for ids in texts {
            let (text, left) = rest.split_at_mut(ids.len() * self.width);
            self.embed(ids, text)?;
            rest = left;
        }
        let mut x = Tensor::from_vec(sums, (n_tokens, self.width), &self.device)?;
        cpu::norm(&self.embedding_norm, &x)?;
        for layer in &self.layers {
            x = cpu::layer(layer, &x, &lengths, self.n_heads)?;
        }
        let values = x.flatten_all()?.to_vec1()?;
        let mut rest = &values[..];
        let pooled = lengths.iter().map(|length| {
            let (text, left) = rest.split_at(length * self.width);
            rest = left;
            self.pool(text)
        });
        Ok(pooled.collect())
    }

    /// All texts filled up to the longest: `[b * l, h]`. What a GPU wants.
    fn forward_padded(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let (b, h) = (texts.len(), self.width);
        let l = texts.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let mask = self.mask(texts, l)?;
        let mut sums = vec![0.0; b * l * h];
        for (ids, text) in texts.iter().zip(sums.chunks_exact_mut(l * h)) {
            self.embed(ids, text)?;
        }
        let sums = Tensor::from_vec(sums, (b * l, h), &self.device)?;
        let mut x = self.embedding_norm.apply(&sums)?;
        for layer in &self.layers {
            x = self.layer_padded(layer, &x, mask.as_ref(), b, l)?;
        }
        self.pool_padded(texts, &x.reshape((b, l, h))?)
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

    /// What to add to attention scores so that nobody looks at padding, `[b, 1, 1, l]`; none if
    /// there is no padding.
    fn mask(&self, texts: &[&[u32]], l: usize) -> Result<Option<Tensor>> {
        if texts.iter().all(|ids| ids.len() == l) {
            return Ok(None);
        }
        let mut mask = vec![0.0; texts.len() * l];
        for (ids, mask) in texts.iter().zip(mask.chunks_exact_mut(l)) {
            mask[ids.len()..].fill(f32::NEG_INFINITY);
        }
        Tensor::from_vec(mask, (texts.len(), 1, 1, l), &self.device).map(Some)
    }

    fn layer_padded(
        &self,
        layer: &Layer,
        x: &Tensor,
        mask: Option<&Tensor>,
        b: usize,
        l: usize,
    ) -> Result<Tensor> {
        let (n, d) = (self.n_heads, self.width / self.n_heads);
        let qkv = layer.query_key_value.apply(x)?.reshape((b, l, 3, n, d))?;
        let head = |part| {
            qkv.narrow(2, part, 1)?
                .squeeze(2)?
                .transpose(1, 2)?
                .contiguous()
        };
        let (query, key, value) = (head(0)?, head(1)?, head(2)?);
        let mut scores = query.matmul(&key.t()?)?;
        if let Some(mask) = mask {
            scores = scores.broadcast_add(mask)?;
        }
        let context = softmax_last_dim(&scores)?.matmul(&value)?;
        let context = context.transpose(1, 2)?.reshape((b * l, self.width))?;
        let x = layer
            .attention_norm
            .apply(&(layer.attention_output.apply(&context)? + x)?)?;
        let up = layer.up.apply(&x)?.gelu_erf()?;
        layer.output_norm.apply(&(layer.down.apply(&up)? + x)?)
    }

    /// Pooling is a weighted sum over the tokens: `[b, 1, l]` times `[b, l, h]`.
    fn pool_padded(&self, texts: &[&[u32]], x: &Tensor) -> Result<Vec<Vec<f32>>> {
        let (b, l, _) = x.dims3()?;
        let mut weights = vec![0.0; b * l];
        for (ids, weights) in texts.iter().zip(weights.chunks_exact_mut(l)) {
            match self.pooling {
                Pooling::Mean => weights[..ids.len()].fill(1.0 / ids.len() as f32),
                Pooling::Cls => weights[0] = 1.0,
            }
        }
        Tensor::from_vec(weights, (b, 1, l), &self.device)?
            .matmul(x)?
            .squeeze(1)?
            .to_vec2()
    }
}

impl Linear {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

impl Norm {
    pub(crate) fn affine(&self) -> Affine<'_> {
        Affine {
            scale: &self.scale_values,
            shift: &self.shift_values,
            epsilon: self.epsilon,
        }
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.scale, &self.shift, self.epsilon)
    }
}

/// Reads the parts of a layer.
struct Reader<'a> {
    file: &'a mut WeightFile,
    config: &'a Config,
    device: &'a Device,
}

impl Reader<'_> {
    fn layer(&mut self, name: &str) -> std::result::Result<Layer, Error> {
        let (h, f) = (self.config.hidden_size, self.config.intermediate_size);
        Ok(Layer {
            query_key_value: self.query_key_value(&format!("{name}.attention.self"))?,
            attention_output: self.linear(&format!("{name}.attention.output.dense"), h, h)?,
            attention_norm: self.norm(&format!("{name}.attention.output.LayerNorm"))?,
            up: self.linear(&format!("{name}.intermediate.dense"), h, f)?,
            down: self.linear(&format!("{name}.output.dense"), f, h)?,
            output_norm: self.norm(&format!("{name}.output.LayerNorm"))?,
        })
    }

    fn query_key_value(&mut self, name: &str) -> std::result::Result<Linear, Error> {
        let h = self.config.hidden_size;
        let scale = ((h / self.config.num_attention_heads) as f32)
            .sqrt()
            .recip();
        let (mut weight, mut bias) = (vec![0.0; h * 3 * h], Vec::with_capacity(3 * h));
        for (part, short) in ["query", "key", "value"].into_iter().enumerate() {
            let scale = if short == "query" { scale } else { 1.0 };
            let rows = self
                .file
                .floats(&format!("{name}.{short}.weight"), &[h, h])?;
            for (output, row) in rows.chunks_exact(h).enumerate() {
                for (input, value) in row.iter().enumerate() {
                    weight[input * 3 * h + part * h + output] = value * scale;
                }
            }
            let values = self.file.floats(&format!("{name}.{short}.bias"), &[h])?;
            bias.extend(values.iter().map(|value| value * scale));
        }
        Ok(Linear {
            weight: self.upload(weight, &[h, 3 * h])?,
            bias: self.upload(bias.clone(), &[3 * h])?,
            bias_values: bias,
        })
    }

    fn linear(
        &mut self,
        name: &str,
        n_in: usize,
        n_out: usize,
    ) -> std::result::Result<Linear, Error> {
        let rows = self
            .file
            .floats(&format!("{name}.weight"), &[n_out, n_in])?;
        let mut weight = vec![0.0; rows.len()];
        for (output, row) in rows.chunks_exact(n_in).enumerate() {
            for (input, value) in row.iter().enumerate() {
                weight[input * n_out + output] = *value;
            }
        }
        let bias = self.file.floats(&format!("{name}.bias"), &[n_out])?;
        Ok(Linear {
            weight: self.upload(weight, &[n_in, n_out])?,
            bias: self.upload(bias.clone(), &[n_out])?,
            bias_values: bias,
        })
    }

    fn norm(&mut self, name: &str) -> std::result::Result<Norm, Error> {
        let h = self.config.hidden_size;
        let scale = self.file.floats(&format!("{name}.weight"), &[h])?;
        let shift = self.file.floats(&format!("{name}.bias"), &[h])?;
        Ok(Norm {
            scale: self.upload(scale.clone(), &[h])?,
            shift: self.upload(shift.clone(), &[h])?,
            scale_values: scale,
            shift_values: shift,
            epsilon: self.config.layer_norm_eps as f32,
        })
    }

    fn upload(&self, values: Vec<f32>, shape: &[usize]) -> std::result::Result<Tensor, Error> {
        Tensor::from_vec(values, shape, self.device).map_err(|error| Error::Device {
            device: crate::device::name(self.device),
            source: error.into(),
        })
    }
}

#[cfg(test)]
mod tests;
