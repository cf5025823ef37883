//! The forward pass in candle's tensor operations, for a GPU: all texts filled up to the longest.
//!
//! Shapes: `b` texts of `l` tokens, width `h`, `n` heads of `d`. A matrix of `[out, in]` in the
//! file is held as `[in, out]`.

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::{layer_norm, softmax_last_dim};

use super::{LayerWeights, NormWeights};
use crate::manifest::Pooling;

/// The layers of a model on a device.
pub(crate) struct Layers {
    device: Device,
    embedding_norm: Norm,
    layers: Vec<Layer>,
    n_heads: usize,
    width: usize,
}

struct Layer {
    query_key_value: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    output_norm: Norm,
}

struct Linear {
    /// `[in, out]`.
    weight: Tensor,
    bias: Tensor,
}

struct Norm {
    scale: Tensor,
    shift: Tensor,
    epsilon: f32,
}

impl Layers {
    pub(crate) fn new(
        device: &Device,
        embedding_norm: NormWeights,
        n_heads: usize,
        width: usize,
    ) -> Result<Layers> {
        Ok(Layers {
            embedding_norm: Norm::upload(embedding_norm, device)?,
            device: device.clone(),
            layers: Vec::new(),
            n_heads,
            width,
        })
    }

    pub(crate) fn push(&mut self, weights: LayerWeights) -> Result<()> {
        let device = &self.device;
        self.layers.push(Layer {
            query_key_value: Linear::upload(weights.query_key_value, device)?,
            attention_output: Linear::upload(weights.attention_output, device)?,
            attention_norm: Norm::upload(weights.attention_norm, device)?,
            up: Linear::upload(weights.up, device)?,
            down: Linear::upload(weights.down, device)?,
            output_norm: Norm::upload(weights.output_norm, device)?,
        });
        Ok(())
    }

    /// Turns `sums`, the word and position vectors `[b * l, h]` of texts with the given `lengths`,
    /// the longest of which is `l`, into one vector a text.
    pub(crate) fn forward(
        &self,
        sums: Vec<f32>,
        lengths: &[usize],
        pooling: Pooling,
    ) -> Result<Vec<Vec<f32>>> {
        let (b, h) = (lengths.len(), self.width);
        let l = lengths.iter().copied().max().unwrap_or(0);
        let mask = self.mask(lengths, l)?;
        let sums = Tensor::from_vec(sums, (b * l, h), &self.device)?;
        let mut x = self.embedding_norm.apply(&sums)?;
        for layer in &self.layers {
            x = self.layer(layer, &x, mask.as_ref(), b, l)?;
        }
        self.pool(lengths, pooling, &x.reshape((b, l, h))?)
    }

    /// What to add to attention scores so that nobody looks at padding, `[b, 1, 1, l]`; none if
    /// there is no padding.
    fn mask(&self, lengths: &[usize], l: usize) -> Result<Option<Tensor>> {
        if lengths.iter().all(|length| *length == l) {
            return Ok(None);
        }
        let mut mask = vec![0.0; lengths.len() * l];
        for (length, mask) in lengths.iter().zip(mask.chunks_exact_mut(l)) {
            mask[*length..].fill(f32::NEG_INFINITY);
        }
        Tensor::from_vec(mask, (lengths.len(), 1, 1, l), &self.device).map(Some)
    }

    fn layer(
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
    fn pool(&self, lengths: &[usize], pooling: Pooling, x: &Tensor) -> Result<Vec<Vec<f32>>> {
        let (b, l, _) = x.dims3()?;
        let mut weights = vec![0.0; b * l];
        for (length, weights) in lengths.iter().zip(weights.chunks_exact_mut(l)) {
            match pooling {
                Pooling::Mean => weights[..*length].fill(1.0 / *length as f32),
                Pooling::Cls => weights[0] = 1.0,
                Pooling::Last => weights[*length - 1] = 1.0,
            }
        }
        Tensor::from_vec(weights, (b, 1, l), &self.device)?
            .matmul(x)?
            .squeeze(1)?
            .to_vec2()
    }
}

impl Linear {
    fn upload((weight, bias): (Vec<f32>, Vec<f32>), device: &Device) -> Result<Linear> {
        let n_out = bias.len();
        let n_in = weight.len() / n_out;
        Ok(Linear {
            weight: Tensor::from_vec(weight, (n_out, n_in), device)?
                .t()?
                .contiguous()?,
            bias: Tensor::from_vec(bias, n_out, device)?,
        })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

impl Norm {
    fn upload(weights: NormWeights, device: &Device) -> Result<Norm> {
        let width = weights.scale.len();
        Ok(Norm {
            scale: Tensor::from_vec(weights.scale, width, device)?,
            shift: Tensor::from_vec(weights.shift, width, device)?,
            epsilon: weights.epsilon,
        })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.scale, &self.shift, self.epsilon)
    }
}
