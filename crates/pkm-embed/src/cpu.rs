//! The forward pass on a CPU: texts one after another without padding, products by candle,
//! everything between them by [`crate::kernels`] in place.

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CustomOp1, InplaceOp1, InplaceOp2, Layout, Result, Shape, Tensor, bail,
};

use crate::bert::{Layer, Linear, Norm};
use crate::kernels::{self, Affine};

/// One layer over tokens `[n_tokens, width]` of texts with the given `lengths`.
pub(crate) fn layer(
    layer: &Layer,
    x: &Tensor,
    lengths: &[usize],
    n_heads: usize,
) -> Result<Tensor> {
    let attention = Attention {
        bias: &layer.query_key_value.bias_values,
        lengths,
        n_heads,
    };
    let context = x
        .matmul(&layer.query_key_value.weight)?
        .apply_op1_no_bwd(&attention)?;
    let x = add_norm(&layer.attention_output, &layer.attention_norm, &context, x)?;
    let up = x.matmul(&layer.up.weight)?;
    up.inplace_op1(&BiasGelu {
        bias: &layer.up.bias_values,
    })?;
    add_norm(&layer.down, &layer.output_norm, &up, &x)
}

/// Normalizes the rows of `x` in place.
pub(crate) fn norm(norm: &Norm, x: &Tensor) -> Result<()> {
    let zeros = vec![0.0; norm.scale_values.len()];
    x.inplace_op1(&AddNorm {
        bias: &zeros,
        norm: norm.affine(),
    })
}

fn add_norm(linear: &Linear, norm: &Norm, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
    let sum = x.matmul(&linear.weight)?;
    sum.inplace_op2(
        residual,
        &AddNorm {
            bias: &linear.bias_values,
            norm: norm.affine(),
        },
    )?;
    Ok(sum)
}

struct Attention<'a> {
    bias: &'a [f32],
    lengths: &'a [usize],
    n_heads: usize,
}

impl CustomOp1 for Attention<'_> {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(&self, qkv: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let qkv = floats(qkv, layout)?;
        let width = self.bias.len() / 3;
        let n_tokens = qkv.len() / self.bias.len();
        if self.lengths.iter().sum::<usize>() != n_tokens {
            bail!(
                "{n_tokens} tokens do not belong to texts of {:?}",
                self.lengths
            );
        }
        let mut context = vec![0.0; n_tokens * width];
        let (mut qkv, mut rest) = (qkv, &mut context[..]);
        for length in self.lengths {
            let (text, qkv_left) = qkv.split_at(length * self.bias.len());
            let (found, rest_left) = rest.split_at_mut(length * width);
            kernels::attention(text, self.bias, self.n_heads, found);
            (qkv, rest) = (qkv_left, rest_left);
        }
        Ok((CpuStorage::F32(context), (n_tokens, width).into()))
    }
}

struct BiasGelu<'a> {
    bias: &'a [f32],
}

impl InplaceOp1 for BiasGelu<'_> {
    fn name(&self) -> &'static str {
        "bias-gelu"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, layout: &Layout) -> Result<()> {
        kernels::bias_gelu(floats_mut(x, layout)?, self.bias);
        Ok(())
    }
}

struct AddNorm<'a> {
    bias: &'a [f32],
    norm: Affine<'a>,
}

impl InplaceOp1 for AddNorm<'_> {
    fn name(&self) -> &'static str {
        "norm"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, layout: &Layout) -> Result<()> {
        kernels::add_norm(floats_mut(x, layout)?, self.bias, None, self.norm);
        Ok(())
    }
}

impl InplaceOp2 for AddNorm<'_> {
    fn name(&self) -> &'static str {
        "add-norm"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        x_layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<()> {
        let residual = floats(residual, residual_layout)?;
        kernels::add_norm(
            floats_mut(x, x_layout)?,
            self.bias,
            Some(residual),
            self.norm,
        );
        Ok(())
    }
}

fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        _ => bail!(
            "expected contiguous f32, got {:?} {layout:?}",
            storage.dtype()
        ),
    }
}

fn floats_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    let dtype = storage.dtype();
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&mut values[start..end]),
        _ => bail!("expected contiguous f32, got {dtype:?} {layout:?}"),
    }
}
