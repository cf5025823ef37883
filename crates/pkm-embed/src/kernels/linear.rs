//! `y = x·Wᵀ + b` with the weights packed once and what follows the product done on each tile of
//! it while the tile is in the cache.
//!
//! A tile is a few rows of `x` times one panel of the weights: as many outputs as fill a few
//! vectors. Its sums stay in registers over the whole width of the input, which is read once a
//! tile; each value of the input is used for the whole panel, each weight for all rows.

use pulp::bytemuck::{self, Zeroable};
use pulp::{Simd, WithSimd};

use super::prefetch::prefetch;
use super::{Aligned, Kernel, gelu, gemm};

/// Inputs whose weights are asked for ahead of their use: a single query goes through all weights
/// as fast as they come from memory.
const AHEAD: usize = 16;

/// What becomes of a product plus bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is written to `y`.
    Store,
    /// The exact GELU of it is written to `y`.
    Gelu,
    /// It is added to what stands in `y`.
    Add,
}

/// A linear layer, packed for one kernel.
pub(crate) struct Linear {
    kernel: Kernel,
    n_in: usize,
    n_out: usize,
    /// One after another, each `[n_in, panel]`; outputs past the last are zeros.
    panels: Aligned,
    /// `[n_out]`, filled up with zeros to whole panels.
    bias: Vec<f32>,
}

impl Linear {
    /// Packs `weight`, `[n_out, n_in]` as files have it, and `bias`, `[n_out]`.
    pub(crate) fn pack(kernel: Kernel, weight: &[f32], mut bias: Vec<f32>) -> Linear {
        let n_out = bias.len();
        let n_in = weight.len().checked_div(n_out).unwrap_or(0);
        let panel = kernel.panel().unwrap_or(n_out).max(1);
        bias.resize(n_out.next_multiple_of(panel), 0.0);
        let mut panels = Aligned::new(bias.len() * n_in);
        for (output, row) in weight.chunks_exact(n_in.max(1)).enumerate() {
            let first = output / panel * panel * n_in + output % panel;
            let column = panels[first..].iter_mut().step_by(panel);
            for (packed, value) in column.zip(row) {
                *packed = *value;
            }
        }
        Linear {
            kernel,
            n_in,
            n_out,
            panels,
            bias,
        }
    }

    pub(crate) fn n_out(&self) -> usize {
        self.n_out
    }

    /// Floating-point operations for one row: a multiplication and an addition a weight.
    pub(crate) fn flops_per_row(&self) -> usize {
        2 * self.n_in * self.n_out
    }

    /// Applies the layer to `x`, `[n, n_in]`; `y` is `[n, n_out]`.
    pub(crate) fn apply(&self, x: &[f32], then: Then, y: &mut [f32]) {
        let n_rows = y.len().checked_div(self.n_out).unwrap_or(0);
        assert_eq!(
            (x.len(), y.len()),
            (n_rows * self.n_in, n_rows * self.n_out)
        );
        if n_rows == 0 {
            return;
        }
        let product = Product {
            linear: self,
            x,
            then,
            y,
        };
        if self.kernel == Kernel::Gemm {
            product.by_gemm();
        } else {
            self.kernel.dispatch(product);
        }
    }
}

struct Product<'a> {
    linear: &'a Linear,
    x: &'a [f32],
    then: Then,
    y: &'a mut [f32],
}

impl Product<'_> {
    fn by_gemm(self) {
        let Linear { n_out, bias, .. } = self.linear;
        gemm::multiply(
            self.x,
            &self.linear.panels,
            *n_out,
            self.then == Then::Add,
            self.y,
        );
        self.linear.kernel.dispatch(Bias {
            bias,
            then: self.then,
            y: self.y,
        });
    }
}

/// What is left to do after a product by the `gemm` crate.
struct Bias<'a> {
    bias: &'a [f32],
    then: Then,
    y: &'a mut [f32],
}

impl WithSimd for Bias<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.y.chunks_exact_mut(self.bias.len()) {
            let outputs = row.iter_mut().zip(self.bias);
            match self.then {
                Then::Store | Then::Add => outputs.for_each(|(y, bias)| *y += bias),
                Then::Gelu => outputs.for_each(|(y, bias)| *y = gelu(*y + bias)),
            }
        }
    }
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Sums, the panel's vectors and one value of the input must fit into the registers: 32 of
        // AVX-512 and NEON, 16 of AVX2.
        if S::F32_LANES == 8 {
            self.by_panels::<S, 6, 2>(simd);
        } else {
            self.by_panels::<S, 8, 3>(simd);
        }
    }
}

impl Product<'_> {
    /// Each panel comes from memory once and meets all rows, which stay in the cache.
    #[inline(always)]
    fn by_panels<S: Simd, const ROWS: usize, const VECTORS: usize>(mut self, simd: S) {
        let n_out = self.linear.n_out;
        let n_rows = self.y.len() / n_out;
        // Blocks as even as they can be: nine rows are five and four, not eight and one.
        let block = n_rows.div_ceil(n_rows.div_ceil(ROWS));
        let panel = VECTORS * S::F32_LANES;
        debug_assert_eq!(self.linear.kernel.panel(), Some(panel));
        for column in (0..n_out).step_by(panel) {
            for row in (0..n_rows).step_by(block) {
                let at = (row, column);
                match block.min(n_rows - row) {
                    1 => self.tile::<S, 1, VECTORS>(simd, at),
                    2 => self.tile::<S, 2, VECTORS>(simd, at),
                    3 => self.tile::<S, 3, VECTORS>(simd, at),
                    4 => self.tile::<S, 4, VECTORS>(simd, at),
                    5 => self.tile::<S, 5, VECTORS>(simd, at),
                    6 => self.tile::<S, 6, VECTORS>(simd, at),
                    7 => self.tile::<S, 7, VECTORS>(simd, at),
                    _ => self.tile::<S, 8, VECTORS>(simd, at),
                }
            }
        }
    }

    /// The outputs of `ROWS` rows and one panel, from row and column `at` on.
    #[inline(always)]
    fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        (first_row, first_column): (usize, usize),
    ) {
        let Linear { n_in, n_out, .. } = *self.linear;
        let panel = VECTORS * S::F32_LANES;
        let rows: [&[f32]; ROWS] =
            std::array::from_fn(|row| &self.x[(first_row + row) * n_in..][..n_in]);
        let weights = &self.linear.panels[first_column * n_in..][..panel * n_in];
        let (weights, _) = S::as_simd_f32s(weights);
        let (weights, _) = weights.as_chunks::<VECTORS>();
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        for (i, weights) in weights.iter().enumerate().take(n_in) {
            prefetch(bytemuck::cast_slice(weights), AHEAD * panel);
            for (row, sums) in rows.iter().zip(&mut sums) {
                let value = simd.splat_f32s(row[i]);
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = simd.mul_add_e_f32s(value, *weight, *sum);
                }
            }
        }
        let width = panel.min(n_out - first_column);
        let bias = &self.linear.bias[first_column..][..width];
        for (row, sums) in sums.into_iter().enumerate() {
            // A copy, so that the sums above need no place in memory.
            let mut copy = [S::f32s::zeroed(); VECTORS];
            copy.copy_from_slice(&sums);
            let sums: &[f32] = bytemuck::cast_slice(&copy);
            let y = &mut self.y[(first_row + row) * n_out + first_column..][..width];
            let outputs = y.iter_mut().zip(sums).zip(bias);
            match self.then {
                Then::Store => outputs.for_each(|((y, sum), bias)| *y = sum + bias),
                Then::Gelu => outputs.for_each(|((y, sum), bias)| *y = gelu(sum + bias)),
                Then::Add => outputs.for_each(|((y, sum), bias)| *y += sum + bias),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_near, noise};
    use super::*;

    /// What a layer gives, one output after another.
    fn expected(linear: (&[f32], &[f32]), x: &[f32], then: Then, y: &[f32]) -> Vec<f64> {
        let (weight, bias) = linear;
        let n_in = weight.len() / bias.len();
        let outputs = y.iter().enumerate().map(|(idx, y)| {
            let (row, output) = (idx / bias.len(), idx % bias.len());
            let inputs = &x[row * n_in..][..n_in];
            let weights = &weight[output * n_in..][..n_in];
            let products = inputs.iter().zip(weights);
            let sum = products
                .map(|(x, w)| f64::from(*x) * f64::from(*w))
                .sum::<f64>()
                + f64::from(bias[output]);
            match then {
                Then::Store => sum,
                Then::Gelu => f64::from(gelu(sum as f32)),
                Then::Add => f64::from(*y) + sum,
            }
        });
        outputs.collect()
    }

    #[test]
    fn every_kernel_gives_what_the_plain_sum_gives_whatever_the_shape() {
        let mut shapes = vec![
            (0, 16, 16),
            (1, 1, 1),
            (1, 384, 1),
            (3, 5, 7),
            (17, 384, 96),
        ];
        // Every count of rows that a block can have, and panels filled in part.
        shapes.extend((1..=26).map(|n| (n, 3 * n + 1, 5 * n + 40)));
        let mut names = Vec::new();
        for kernel in Kernel::usable() {
            names.push(kernel.to_string());
            // It has layers of its own.
            if kernel == Kernel::Amx {
                continue;
            }
            for (n_rows, n_in, n_out) in shapes.iter().copied() {
                let (weight, bias) = (noise(n_in * n_out, 1), noise(n_out, 2));
                let linear = Linear::pack(kernel, &weight, bias.clone());
                let x = noise(n_rows * n_in, 3);
                for then in [Then::Store, Then::Gelu, Then::Add] {
                    let before = noise(n_rows * n_out, 4);
                    let mut found = before.clone();
                    linear.apply(&x, then, &mut found);
                    let expected = expected((&weight, &bias), &x, then, &before);
                    assert_near(&found, &expected, 1e-5 * (n_in as f64).sqrt());
                }
            }
        }
        #[expect(
            clippy::print_stdout,
            reason = "a log of the tests tells which kernels ran"
        )]
        {
            println!("kernels of this processor: {}", names.join(", "));
        }
        assert_eq!(names.last().map(String::as_str), Some("gemm"));
    }

    #[test]
    fn a_row_gets_the_same_numbers_whichever_rows_are_beside_it() {
        let (n_in, n_out, n_rows) = (40, 100, 19);
        for kernel in Kernel::usable().filter(|kernel| kernel.panel().is_some()) {
            let linear = Linear::pack(kernel, &noise(n_in * n_out, 1), noise(n_out, 2));
            let x = noise(n_rows * n_in, 3);
            let mut together = vec![0.0; n_rows * n_out];
            linear.apply(&x, Then::Gelu, &mut together);
            for (x, together) in x.chunks(n_in).zip(together.chunks(n_out)) {
                let mut alone = vec![0.0; n_out];
                linear.apply(x, Then::Gelu, &mut alone);
                assert_eq!(alone, together);
            }
        }
    }
}
