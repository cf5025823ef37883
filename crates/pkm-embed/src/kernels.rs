//! The arithmetic of a transformer layer on a CPU, on slices.
//!
//! The matrix products are in [`linear`]; the rest is one pass over memory each where a chain of
//! tensor operations would be four to eight. The loops are written so that the compiler can turn
//! them into vector instructions, and run through `pulp`, which compiles them for several
//! instruction sets of which a [`Kernel`] is chosen when the program runs.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod bf16;
mod gemm;
mod linear;
mod prefetch;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use amx::{BLOCK, Tiles};
pub(crate) use linear::{Linear, Then};

/// Rows are filled up to a multiple of this: [`VECTORS`] of the widest vectors, AVX-512's.
const PADDING: usize = 32;
/// Vectors and query rows that [`attention`] works on at once: their sums and what is added to
/// them fill the sixteen registers of AVX2, and each value loaded is used for every row.
const VECTORS: usize = 2;
const ROWS: usize = 4;
/// Numbers in a line of the cache, and in a vector of AVX-512.
const LINE: usize = 16;

/// How exactly a model computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// The fastest whose vectors are as good: bf16 where the processor multiplies matrices of it,
    /// else f32.
    #[default]
    Auto,
    /// 32-bit floating-point numbers throughout.
    F32,
    /// Matrix products of 16-bit numbers with 8 bits of precision, summed in f32. Vectors differ
    /// from those in f32 by a cosine of about 0.9999.
    Bf16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::Auto => "auto",
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
        })
    }
}

/// Instructions that a model runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// AMX with bf16, and AVX-512, on Linux.
    Amx,
    /// AVX-512 of x86-64-v4.
    Avx512,
    /// AVX2 and FMA of x86-64-v3.
    Avx2,
    /// NEON of 64-bit ARM.
    Neon,
    /// Matrix products by the `gemm` crate: on every processor.
    Gemm,
}

impl Kernel {
    /// All there are, the fastest first.
    pub const ALL: [Kernel; 5] = [
        Kernel::Amx,
        Kernel::Avx512,
        Kernel::Avx2,
        Kernel::Neon,
        Kernel::Gemm,
    ];

    /// Those that this processor can run, the fastest first.
    pub fn usable() -> impl Iterator<Item = Kernel> {
        Kernel::ALL.into_iter().filter(|kernel| kernel.is_usable())
    }

    /// The fastest that this processor can run with a precision, if there is one.
    pub fn best(precision: Precision) -> Option<Kernel> {
        Kernel::usable().find(|kernel| [Precision::Auto, kernel.precision()].contains(&precision))
    }

    /// What it computes in, never `Auto`.
    pub fn precision(self) -> Precision {
        match self {
            Kernel::Amx => Precision::Bf16,
            Kernel::Avx512 | Kernel::Avx2 | Kernel::Neon | Kernel::Gemm => Precision::F32,
        }
    }

    /// Whether this processor can run it.
    pub fn is_usable(self) -> bool {
        match self {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Kernel::Amx => amx::is_available(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => pulp::x86::V4::is_available(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => pulp::x86::V3::is_available(),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => pulp::aarch64::Neon::is_available(),
            Kernel::Gemm => true,
            #[allow(unreachable_patterns, reason = "which are left depends on the target")]
            Kernel::Amx | Kernel::Avx512 | Kernel::Avx2 | Kernel::Neon => false,
        }
    }

    /// Floating-point operations a second that this kernel reaches on one core in a matrix
    /// product of a middling shape: what a model's layers can be measured against.
    ///
    /// # Panics
    ///
    /// Where the processor cannot run it.
    pub fn product_flops(self, time: Duration) -> f64 {
        let (n_rows, n_in, n_out) = (256, 384, 1536);
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if self == Kernel::Amx {
            return bf16::product_flops([n_rows, n_in, n_out], time);
        }
        let linear = Linear::pack(self, &vec![0.5; n_in * n_out], vec![0.5; n_out]);
        let (x, mut y) = (vec![0.5; n_rows * n_in], vec![0.0; n_rows * n_out]);
        linear.apply(&x, Then::Store, &mut y);
        let (mut n_rows_done, started) = (0, Instant::now());
        while started.elapsed() < time {
            linear.apply(&x, Then::Store, &mut y);
            n_rows_done += n_rows;
        }
        (n_rows_done * linear.flops_per_row()) as f64 / started.elapsed().as_secs_f64()
    }

    /// Outputs in a panel of packed weights; none where a matrix stays in one piece.
    fn panel(self) -> Option<usize> {
        match self {
            Kernel::Avx512 => Some(48),
            Kernel::Avx2 => Some(16),
            Kernel::Neon => Some(12),
            Kernel::Amx | Kernel::Gemm => None,
        }
    }

    fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        const CHOSEN: &str = "a kernel is chosen among the usable ones";
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Amx | Kernel::Avx512 => {
                Simd::vectorize(pulp::x86::V4::try_new().expect(CHOSEN), op)
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => Simd::vectorize(pulp::x86::V3::try_new().expect(CHOSEN), op),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => Simd::vectorize(pulp::aarch64::Neon::try_new().expect(CHOSEN), op),
            Kernel::Gemm => Arch::new().dispatch(op),
            #[allow(unreachable_patterns, reason = "which are left depends on the target")]
            Kernel::Amx | Kernel::Avx512 | Kernel::Avx2 | Kernel::Neon => unreachable!("{CHOSEN}"),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kernel::Amx => "amx",
            Kernel::Avx512 => "avx512",
            Kernel::Avx2 => "avx2",
            Kernel::Neon => "neon",
            Kernel::Gemm => "gemm",
        })
    }
}

/// Numbers that begin at the start of a cache line, so that no vector lies across two.
#[derive(Default)]
pub(crate) struct Aligned {
    values: Vec<f32>,
    start: usize,
}

impl Aligned {
    /// `len` zeros.
    pub(crate) fn new(len: usize) -> Aligned {
        let mut values = vec![0.0_f32; len + LINE - 1];
        let start = values.as_ptr().align_offset(LINE * 4).min(LINE - 1);
        values.truncate(start + len);
        Aligned { values, start }
    }

    /// The first `len` numbers, whatever they are; there will be as many.
    pub(crate) fn first(&mut self, len: usize) -> &mut [f32] {
        if self.len() < len {
            *self = Aligned::new(len);
        }
        &mut self[..len]
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.start..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..]
    }
}

/// What [`norm`] does after it has normalized.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
    pub(crate) epsilon: f32,
}

/// Normalizes each row of `x` to mean 0 and variance 1, then scales and shifts it.
pub(crate) fn norm(kernel: Kernel, x: &mut [f32], affine: Affine) {
    kernel.dispatch(Norm { x, affine });
}

/// Memory for [`attention`], kept from one text to the next.
#[derive(Default)]
pub(crate) struct AttentionSpace {
    query: Aligned,
    key: Aligned,
    value: Aligned,
    scores: Aligned,
    mixed: Aligned,
}

/// Attention of one text over itself.
///
/// `qkv` holds for each token the query, key and value of all heads, `[l, 3, n_heads, d]`; the
/// query is already scaled. Writes `[l, width]`, `n_heads` of `d` each, to `context`.
pub(crate) fn attention(
    kernel: Kernel,
    qkv: &[f32],
    [width, n_heads]: [usize; 2],
    context: &mut [f32],
    space: &mut AttentionSpace,
) {
    kernel.dispatch(Attention {
        qkv,
        width,
        n_heads,
        context,
        space,
    });
}

struct Norm<'a> {
    x: &'a mut [f32],
    affine: Affine<'a>,
}

// Structs and not closures: what `dispatch` calls must be inlined into a function compiled for
// the instruction set, and of a closure only a shim is.
impl WithSimd for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Affine {
            scale,
            shift,
            epsilon,
        } = self.affine;
        let width = scale.len();
        for row in self.x.chunks_exact_mut(width) {
            let mean = sum(row, |x| x) / width as f32;
            let variance = sum(row, |x| (x - mean) * (x - mean)) / width as f32;
            let inverse = (variance + epsilon).sqrt().recip();
            for ((x, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
                *x = (*x - mean) * inverse * scale + shift;
            }
        }
    }
}

struct Attention<'a> {
    qkv: &'a [f32],
    width: usize,
    n_heads: usize,
    context: &'a mut [f32],
    space: &'a mut AttentionSpace,
}

impl WithSimd for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Attention {
            qkv,
            width,
            n_heads,
            context,
            space,
        } = self;
        let (l, d) = (context.len() / width, width / n_heads);
        // Whole lanes and rows, so that the loops need no tails; what the filling holds is not
        // looked at.
        let (l_padded, d_padded) = (l.next_multiple_of(PADDING), d.next_multiple_of(PADDING));
        let query = space.query.first(l.next_multiple_of(ROWS) * d);
        let key = space.key.first(d * l_padded);
        let value = space.value.first(l * d_padded);
        let scores = space.scores.first(ROWS * l_padded);
        let mixed = space.mixed.first(ROWS * d_padded);
        for head in 0..n_heads {
            for (token, row) in qkv.chunks_exact(3 * width).enumerate() {
                let part = |part: usize| &row[part * width + head * d..][..d];
                query[token * d..][..d].copy_from_slice(part(0));
                let column = key[token..].iter_mut().step_by(l_padded);
                column.zip(part(1)).for_each(|(to, x)| *to = *x);
                value[token * d_padded..][..d].copy_from_slice(part(2));
            }
            for first in (0..l).step_by(ROWS) {
                score(simd, &query[first * d..][..ROWS * d], key, l_padded, scores);
                for row in scores.chunks_exact_mut(l_padded) {
                    softmax(simd, &mut row[..l]);
                }
                mix(simd, scores, value, d_padded, mixed);
                for (row, mixed) in (first..l).zip(mixed.chunks_exact(d_padded)) {
                    context[row * width + head * d..][..d].copy_from_slice(&mixed[..d]);
                }
            }
        }
    }
}

/// Dot products of [`ROWS`] queries with all keys; `key` is `[d, l_padded]`.
#[inline(always)]
fn score<S: Simd>(simd: S, query: &[f32], key: &[f32], l_padded: usize, scores: &mut [f32]) {
    let d = query.len() / ROWS;
    let (key, _) = S::as_simd_f32s(key);
    let n_vectors = l_padded / S::F32_LANES;
    for start in (0..n_vectors).step_by(VECTORS) {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        for (i, key) in key.chunks_exact(n_vectors).enumerate() {
            let key: &[_; VECTORS] = key[start..].first_chunk().expect("it is padded");
            for (row, sums) in sums.iter_mut().enumerate() {
                let query = simd.splat_f32s(query[row * d + i]);
                for (sum, key) in sums.iter_mut().zip(key) {
                    *sum = simd.mul_add_e_f32s(query, *key, *sum);
                }
            }
        }
        for (row, sums) in scores.chunks_exact_mut(l_padded).zip(sums) {
            let (row, _) = S::as_mut_simd_f32s(row);
            row[start..][..VECTORS].copy_from_slice(&sums);
        }
    }
}

/// The sums of all values, `[l, d_padded]`, weighted with each of [`ROWS`] rows of `weights`.
#[inline(always)]
fn mix<S: Simd>(simd: S, weights: &[f32], value: &[f32], d_padded: usize, mixed: &mut [f32]) {
    let l_padded = weights.len() / ROWS;
    let (value, _) = S::as_simd_f32s(value);
    let n_vectors = d_padded / S::F32_LANES;
    for start in (0..n_vectors).step_by(VECTORS) {
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
        for (token, value) in value.chunks_exact(n_vectors).enumerate() {
            let value: &[_; VECTORS] = value[start..].first_chunk().expect("it is padded");
            for (row, sums) in sums.iter_mut().enumerate() {
                let weight = simd.splat_f32s(weights[row * l_padded + token]);
                for (sum, value) in sums.iter_mut().zip(value) {
                    *sum = simd.mul_add_e_f32s(weight, *value, *sum);
                }
            }
        }
        for (row, sums) in mixed.chunks_exact_mut(d_padded).zip(sums) {
            let (row, _) = S::as_mut_simd_f32s(row);
            row[start..][..VECTORS].copy_from_slice(&sums);
        }
    }
}

#[inline(always)]
fn softmax<S: Simd>(simd: S, row: &mut [f32]) {
    let (vectors, rest) = S::as_simd_f32s(row);
    let mut lanes = simd.splat_f32s(f32::NEG_INFINITY);
    for vector in vectors {
        lanes = simd.max_f32s(lanes, *vector);
    }
    let max = rest
        .iter()
        .fold(simd.reduce_max_f32s(lanes), |max, x| max.max(*x));
    for x in row.iter_mut() {
        *x = exp(*x - max);
    }
    let (vectors, rest) = S::as_simd_f32s(row);
    let mut lanes = simd.splat_f32s(0.0);
    for vector in vectors {
        lanes = simd.add_f32s(lanes, *vector);
    }
    let inverse = (simd.reduce_sum_f32s(lanes) + rest.iter().sum::<f32>()).recip();
    for x in row {
        *x *= inverse;
    }
}

/// The sum of `of` over a row, spread over lanes so that the compiler may add many at once.
#[inline(always)]
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; PADDING];
    let (whole, rest) = row.as_chunks::<PADDING>();
    for chunk in whole {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += of(*x);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|x| of(*x)).sum::<f32>()
}

/// Error function by formula 7.1.26 of Abramowitz and Stegun, Handbook of Mathematical Functions:
/// off by less than 1.5e-7.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let polynomial = ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_8) * t - 0.284_496_74) * t
        + 0.254_829_6)
        * t;
    let erf = 1.0 - polynomial * exp(-z * z);
    0.5 * (x + x.abs() * erf)
}

/// `e^x` with a relative error below 1e-6 for x from -87 to 88; clamped outside.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`: a Taylor polynomial for `e^r`, and `n` added to the
/// exponent's bits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first with so few bits that its product with n is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Not `clamp`, whose panic on NaN bounds keeps the loop scalar.
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let polynomial = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0))))));
    polynomial * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random and are the same in every run.
    pub(super) fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 8_388_608.0 - 1.0
            })
            .collect()
    }

    pub(super) fn assert_near(found: &[f32], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (idx, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            assert!(error <= tolerance, "at {idx}: {found}, expected {expected}");
        }
    }

    #[test]
    fn exponentials_are_close_over_the_whole_range() {
        for step in -8700..=8800 {
            let x = step as f32 / 100.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs() / expected;
            assert!(error < 1e-6, "exp({x}) is off by {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn gelu_is_the_exact_one_and_not_the_tanh_approximation() {
        // Values of x/2 * erfc(-x/√2).
        for (x, expected) in [
            (-5.0, -1.433_257_6e-6),
            (-1.5, -0.100_210_8),
            (-0.1, -0.046_017_22),
            (0.0, 0.0),
            (0.5, 0.345_731_23),
            (2.0, 1.954_499_7),
            (6.0, 6.0),
        ] {
            assert_near(&[gelu(x)], &[expected], 1e-6);
        }
    }

    #[test]
    fn rows_are_normalized_with_every_kernel() {
        for width in [5, 32, 100] {
            let (scale, shift) = (noise(width, 3), noise(width, 4));
            let affine = Affine {
                scale: &scale,
                shift: &shift,
                epsilon: 1e-12,
            };
            let x = noise(3 * width, 5);
            let mut expected = Vec::new();
            for row in 0..3 {
                let row = &x[row * width..][..width];
                let sums: Vec<f64> = row.iter().copied().map(f64::from).collect();
                let mean = sums.iter().sum::<f64>() / width as f64;
                let variance = sums.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                expected.extend((0..width).map(|i| {
                    (sums[i] - mean) / variance.sqrt() * f64::from(scale[i]) + f64::from(shift[i])
                }));
            }
            for kernel in Kernel::usable() {
                let mut found = x.clone();
                norm(kernel, &mut found, affine);
                assert_near(&found, &expected, 1e-5);
            }
        }
    }

    #[test]
    fn attention_is_that_of_the_textbook_for_any_length_and_head_width_with_every_kernel() {
        // Used again and again, as in a model: what one text leaves must not touch the next.
        let mut space = AttentionSpace::default();
        for (l, n_heads, d) in [
            (1, 1, 4),
            (2, 3, 32),
            (100, 1, 64),
            (31, 2, 32),
            (33, 2, 40),
            (100, 1, 64),
        ] {
            let width = n_heads * d;
            let qkv = noise(l * 3 * width, 6);
            let at = |token: usize, part: usize, head: usize, i: usize| {
                let column = part * width + head * d + i;
                f64::from(qkv[token * 3 * width + column])
            };
            let mut expected = vec![0.0; l * width];
            for head in 0..n_heads {
                for query in 0..l {
                    let weights: Vec<f64> = (0..l)
                        .map(|key| {
                            (0..d)
                                .map(|i| at(query, 0, head, i) * at(key, 1, head, i))
                                .sum::<f64>()
                        })
                        .map(f64::exp)
                        .collect();
                    let total: f64 = weights.iter().sum();
                    for i in 0..d {
                        expected[query * width + head * d + i] =
                            (0..l).map(|v| weights[v] / total * at(v, 2, head, i)).sum();
                    }
                }
            }
            for kernel in Kernel::usable() {
                let mut found = vec![f32::NAN; l * width];
                attention(kernel, &qkv, [width, n_heads], &mut found, &mut space);
                assert_near(&found, &expected, 2e-5);
            }
        }
    }
}
