//! What the models that run in candle's operations have in common, on a CPU or a GPU.
//!
//! Texts lie end to end without padding: linear layers take all tokens of a batch at once, attention
//! takes one text after another, so that no text can see another.

use std::ops::Range;

use candle_core::{D, Device, Result, Tensor, bail};
use candle_nn::ops::softmax_last_dim;
use candle_nn::rotary_emb::rope;

use crate::device;
use crate::error::Error;
use crate::manifest::Pooling;
use crate::weights::{WeightFile, WordTable};

/// Most attention scores that are in memory at once; a long text's are computed row by row.
const MAX_SCORES: usize = 1 << 24;

/// Reads tensors of a file onto a device.
pub(crate) struct Loader<'a> {
    pub(crate) file: &'a mut WeightFile,
    pub(crate) device: &'a Device,
}

impl Loader<'_> {
    /// Matrix `name`, `[n_out, n_in]` in the file, as `[n_in, n_out]`.
    pub(crate) fn matrix(
        &mut self,
        name: &str,
        n_in: usize,
        n_out: usize,
    ) -> std::result::Result<Tensor, Error> {
        let values = self.file.floats(name, &[n_out, n_in])?;
        Tensor::from_vec(values, (n_out, n_in), self.device)
            .and_then(|matrix| matrix.t()?.contiguous())
            .map_err(|error| failed(self.device, error))
    }

    pub(crate) fn vector(&mut self, name: &str, n: usize) -> std::result::Result<Tensor, Error> {
        let values = self.file.floats(name, &[n])?;
        Tensor::from_vec(values, n, self.device).map_err(|error| failed(self.device, error))
    }
}

/// A device that cannot hold or make a tensor while a model is loaded.
pub(crate) fn failed(device: &Device, error: candle_core::Error) -> Error {
    Error::Device {
        device: device::name(device),
        source: error.into(),
    }
}

/// Where the texts of a batch lie among its tokens.
pub(crate) struct Batch {
    texts: Vec<Range<usize>>,
}

impl Batch {
    pub(crate) fn of(texts: &[&[u32]]) -> Batch {
        let mut n_tokens = 0;
        let texts = texts
            .iter()
            .map(|ids| {
                let start = n_tokens;
                n_tokens += ids.len();
                start..n_tokens
            })
            .collect();
        Batch { texts }
    }

    /// One vector a text of `x`, `[n_tokens, width]`.
    pub(crate) fn pool(&self, x: &Tensor, pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let pool = |text: &Range<usize>| match pooling {
            Pooling::Mean => x.narrow(0, text.start, text.len())?.mean(0)?.to_vec1(),
            Pooling::Cls => x.get(text.start)?.to_vec1(),
            Pooling::Last => x.get(text.end - 1)?.to_vec1(),
        };
        self.texts.iter().map(pool).collect()
    }
}

/// The vectors of the words of all `texts`, `[n_tokens, width]`.
pub(crate) fn word_vectors(
    words: &WordTable,
    n_words: usize,
    texts: &[&[u32]],
    device: &Device,
) -> Result<Tensor> {
    let width = words.width();
    let ids: Vec<u32> = texts.concat();
    let mut vectors = vec![0.0; ids.len() * width];
    for (id, vector) in ids.iter().zip(vectors.chunks_exact_mut(width)) {
        if *id as usize >= n_words {
            bail!("token id {id} is not among the model's {n_words} words");
        }
        words.add_row(*id as usize, vector);
    }
    Tensor::from_vec(vectors, (ids.len(), width), device)
}

/// Rotary positions (Su et al., RoFormer, 2021) in the form of GPT-NeoX: the first half of a head is
/// turned against the second.
pub(crate) struct Rotary {
    /// `[n_positions, d / 2]`, `d` a head's width.
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    pub(crate) fn new(theta: f64, d: usize, n_positions: usize, device: &Device) -> Result<Rotary> {
        let speeds: Vec<f32> = (0..d / 2)
            .map(|i| (theta as f32).powf(2.0 * i as f32 / d as f32).recip())
            .collect();
        let angles: Vec<f32> = (0..n_positions)
            .flat_map(|position| speeds.iter().map(move |speed| position as f32 * speed))
            .collect();
        let angles = Tensor::from_vec(angles, (n_positions, d / 2), device)?;
        Ok(Rotary {
            cos: angles.cos()?,
            sin: angles.sin()?,
        })
    }

    /// The turns of all tokens of `batch`, whose texts each begin at position 0.
    pub(crate) fn of(&self, batch: &Batch) -> Result<Rotary> {
        let gather = |table: &Tensor| {
            let parts: Result<Vec<Tensor>> = batch
                .texts
                .iter()
                .map(|text| table.narrow(0, 0, text.len()))
                .collect();
            Tensor::cat(&parts?, 0)
        };
        Ok(Rotary {
            cos: gather(&self.cos)?,
            sin: gather(&self.sin)?,
        })
    }

    /// Turns `x`, `[heads, n_tokens, d]`, as [`Rotary::of`] the batch says.
    pub(crate) fn turn(&self, x: &Tensor) -> Result<Tensor> {
        rope(&x.unsqueeze(0)?.contiguous()?, &self.cos, &self.sin)?.squeeze(0)
    }
}

/// `[n_tokens, heads * d]` as `[heads, n_tokens, d]`.
pub(crate) fn split_heads(x: &Tensor, n_heads: usize) -> Result<Tensor> {
    let (n_tokens, width) = x.dims2()?;
    x.reshape((n_tokens, n_heads, width / n_heads))?
        .transpose(0, 1)?
        .contiguous()
}

/// Which tokens of its text a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    All,
    /// Those at most so far away.
    Near(usize),
    /// Itself and those before it.
    Before,
}

impl Sight {
    /// The tokens, of a text of `l`, that those in `rows` can see among them.
    fn reach(self, rows: &Range<usize>, l: usize) -> Range<usize> {
        match self {
            Sight::All => 0..l,
            Sight::Near(distance) => {
                rows.start.saturating_sub(distance)..rows.end.saturating_add(distance).min(l)
            }
            Sight::Before => 0..rows.end,
        }
    }

    /// What to add to the scores of `rows` for `columns`.
    fn mask(self, rows: &Range<usize>, columns: &Range<usize>) -> Option<Vec<f32>> {
        let sees = |row: usize, column: usize| match self {
            Sight::All => true,
            Sight::Near(distance) => row.abs_diff(column) <= distance,
            Sight::Before => column <= row,
        };
        let add = |row, column| {
            if sees(row, column) {
                0.0
            } else {
                f32::NEG_INFINITY
            }
        };
        (self != Sight::All).then(|| {
            rows.clone()
                .flat_map(|row| columns.clone().map(move |column| add(row, column)))
                .collect()
        })
    }
}

/// Attention within each text of `batch`. `query` is `[heads, n_tokens, d]` and scaled, `key` and
/// `value` may have fewer heads, each for as many of the query's; the result is `[n_tokens, heads * d]`.
pub(crate) fn attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    batch: &Batch,
    sight: Sight,
) -> Result<Tensor> {
    let (n_heads, n_tokens, d) = query.dims3()?;
    let n_shared = key.dim(0)?;
    let n_each = n_heads / n_shared;
    let mut parts = Vec::new();
    for text in &batch.texts {
        let l = text.len();
        let n_rows = (MAX_SCORES / (n_heads * l)).clamp(1, l);
        for start in (0..l).step_by(n_rows) {
            let rows = start..(start + n_rows).min(l);
            let columns = sight.reach(&rows, l);
            let (m, n) = (rows.len(), columns.len());
            let of = |x: &Tensor, part: &Range<usize>| {
                x.narrow(1, text.start + part.start, part.len())?
                    .contiguous()
            };
            let (key, value) = (of(key, &columns)?, of(value, &columns)?);
            let query = of(query, &rows)?.reshape((n_shared, n_each * m, d))?;
            let mut scores = query.matmul(&key.t()?)?.reshape((n_heads, m, n))?;
            if let Some(mask) = sight.mask(&rows, &columns) {
                let mask = Tensor::from_vec(mask, (1, m, n), scores.device())?;
                scores = scores.broadcast_add(&mask)?;
            }
            let scores = softmax_last_dim(&scores)?.reshape((n_shared, n_each * m, n))?;
            parts.push(scores.matmul(&value)?.reshape((n_heads, m, d))?);
        }
    }
    Tensor::cat(&parts, D::Minus2)?
        .transpose(0, 1)?
        .reshape((n_tokens, n_heads * d))
}
