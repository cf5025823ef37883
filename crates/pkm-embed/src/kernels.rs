//! The parts of a transformer layer that are not matrix products, on slices.
//!
//! Each is one pass over memory where a chain of tensor operations would be four to eight. The
//! loops are written so that the compiler can turn them into vector instructions, and run through
//! `pulp`, which picks the instruction set when the program runs. No fused multiply-add: results
//! are the same on every processor, and one without it would call a library function instead.

use pulp::Arch;

/// Lanes that sums are spread over: wide enough for two AVX-512 registers.
const LANES: usize = 32;
/// Query rows that [`attention`] works on at once, to use each key it loads more than once.
const ROWS: usize = 2;

/// Adds `bias` to each row of `x` and applies the exact GELU, `x/2 * (1 + erf(x/√2))`.
pub(crate) fn bias_gelu(x: &mut [f32], bias: &[f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in x.chunks_exact_mut(bias.len()) {
                for (x, bias) in row.iter_mut().zip(bias) {
                    *x = gelu(*x + bias);
                }
            }
        },
    );
}

/// What [`add_norm`] does after the sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
    pub(crate) epsilon: f32,
}

/// Adds `bias` and `residual`, if there is one, to each row of `x` and normalizes the row to mean
/// 0 and variance 1, then scales and shifts it.
pub(crate) fn add_norm(x: &mut [f32], bias: &[f32], residual: Option<&[f32]>, norm: Affine) {
    let width = bias.len();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (idx, row) in x.chunks_exact_mut(width).enumerate() {
                let residual = residual.map(|residual| &residual[idx * width..][..width]);
                for (x, bias) in row.iter_mut().zip(bias) {
                    *x += bias;
                }
                for (x, residual) in row.iter_mut().zip(residual.unwrap_or_default()) {
                    *x += residual;
                }
                let mean = sum(row, |x| x) / width as f32;
                let variance = sum(row, |x| (x - mean) * (x - mean)) / width as f32;
                let inverse = (variance + norm.epsilon).sqrt().recip();
                for ((x, scale), shift) in row.iter_mut().zip(norm.scale).zip(norm.shift) {
                    *x = (*x - mean) * inverse * scale + shift;
                }
            }
        },
    );
}

/// Attention of one text over itself.
///
/// `qkv` holds for each token the query, key and value of all heads, `[l, 3, n_heads, d]`, before
/// their `bias` is added; the query is already scaled. Writes `[l, n_heads, d]` to `context`.
pub(crate) fn attention(qkv: &[f32], bias: &[f32], n_heads: usize, context: &mut [f32]) {
    let width = bias.len() / 3;
    let (l, d) = (qkv.len() / bias.len(), width / n_heads);
    // Zeros up to whole lanes and rows: they add nothing, and the loops need no tails.
    let (l_padded, d_padded) = (l.next_multiple_of(LANES), d.next_multiple_of(LANES));
    let n_rows = l.next_multiple_of(ROWS);
    let mut query = vec![0.0; n_rows * d];
    let mut key = vec![0.0; d * l_padded];
    let mut value = vec![0.0; l * d_padded];
    let mut scores = vec![0.0; ROWS * l_padded];
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for head in 0..n_heads {
                let at = head * d;
                for (token, row) in qkv.chunks_exact(3 * width).enumerate() {
                    for i in 0..d {
                        query[token * d + i] = row[at + i] + bias[at + i];
                        let (k, v) = (width + at + i, 2 * width + at + i);
                        key[i * l_padded + token] = row[k] + bias[k];
                        value[token * d_padded + i] = row[v] + bias[v];
                    }
                }
                for first in (0..l).step_by(ROWS) {
                    score(&query[first * d..][..ROWS * d], &key, l_padded, &mut scores);
                    for row in scores.chunks_exact_mut(l_padded) {
                        softmax(&mut row[..l]);
                    }
                    let n = ROWS.min(l - first);
                    for (lanes, i) in (0..d).step_by(LANES).enumerate() {
                        let found = mix(&scores, &value[lanes * LANES..], l, d_padded);
                        for (row, found) in found.iter().enumerate().take(n) {
                            let n_kept = LANES.min(d - i);
                            let to = (first + row) * width + at + i;
                            context[to..][..n_kept].copy_from_slice(&found[..n_kept]);
                        }
                    }
                }
            }
        },
    );
}

/// Dot products of [`ROWS`] queries with all keys; `key` is `[d, l_padded]`.
#[inline(always)]
fn score(query: &[f32], key: &[f32], l_padded: usize, scores: &mut [f32]) {
    let d = query.len() / ROWS;
    for start in (0..l_padded).step_by(LANES) {
        let mut sums = [[0.0_f32; LANES]; ROWS];
        for (i, key) in key.chunks_exact(l_padded).enumerate() {
            let key: &[f32; LANES] = key[start..][..LANES].try_into().expect("it has LANES");
            for (row, sums) in sums.iter_mut().enumerate() {
                let query = query[row * d + i];
                for (sum, key) in sums.iter_mut().zip(key) {
                    *sum += query * key;
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            scores[row * l_padded + start..][..LANES].copy_from_slice(sums);
        }
    }
}

/// The sums of the first `l` values, weighted with each of [`ROWS`] rows of `weights`.
#[inline(always)]
fn mix(weights: &[f32], value: &[f32], l: usize, d_padded: usize) -> [[f32; LANES]; ROWS] {
    let l_padded = weights.len() / ROWS;
    let mut sums = [[0.0_f32; LANES]; ROWS];
    for token in 0..l {
        let value: &[f32; LANES] = value[token * d_padded..][..LANES]
            .try_into()
            .expect("it has LANES");
        for (row, sums) in sums.iter_mut().enumerate() {
            let weight = weights[row * l_padded + token];
            for (sum, value) in sums.iter_mut().zip(value) {
                *sum += weight * value;
            }
        }
    }
    sums
}

#[inline(always)]
fn softmax(row: &mut [f32]) {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = if *x > *lane { *x } else { *lane };
        }
    }
    let max = lanes
        .iter()
        .chain(rest)
        .fold(f32::NEG_INFINITY, |max, x| max.max(*x));
    for x in row.iter_mut() {
        *x = exp(*x - max);
    }
    let inverse = sum(row, |x| x).recip();
    for x in row {
        *x *= inverse;
    }
}

#[inline(always)]
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
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
    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 8_388_608.0 - 1.0
            })
            .collect()
    }

    fn assert_near(found: &[f32], expected: &[f64], tolerance: f64) {
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
            let mut found = [x - 1.0];
            bias_gelu(&mut found, &[1.0]);
            assert_near(&found, &[expected], 1e-6);
        }
    }

    #[test]
    fn rows_are_normalized_after_the_sum() {
        for width in [5, 32, 100] {
            let (bias, residual) = (noise(width, 1), noise(3 * width, 2));
            let (scale, shift) = (noise(width, 3), noise(width, 4));
            let norm = Affine {
                scale: &scale,
                shift: &shift,
                epsilon: 1e-12,
            };
            let x = noise(3 * width, 5);
            let mut expected = Vec::new();
            for row in 0..3 {
                let sums: Vec<f64> = (0..width)
                    .map(|i| f64::from(x[row * width + i] + bias[i] + residual[row * width + i]))
                    .collect();
                let mean = sums.iter().sum::<f64>() / width as f64;
                let variance = sums.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                expected.extend((0..width).map(|i| {
                    (sums[i] - mean) / variance.sqrt() * f64::from(scale[i]) + f64::from(shift[i])
                }));
            }
            let mut found = x.clone();
            add_norm(&mut found, &bias, Some(&residual), norm);
            assert_near(&found, &expected, 1e-5);
        }
    }

    #[test]
    fn attention_is_that_of_the_textbook_for_any_length_and_head_width() {
        for (l, n_heads, d) in [
            (1, 1, 4),
            (2, 3, 32),
            (31, 2, 32),
            (33, 2, 40),
            (100, 1, 64),
        ] {
            let width = n_heads * d;
            let (qkv, bias) = (noise(l * 3 * width, 6), noise(3 * width, 7));
            let at = |token: usize, part: usize, head: usize, i: usize| {
                let column = part * width + head * d + i;
                f64::from(qkv[token * 3 * width + column] + bias[column])
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
            let mut found = vec![f32::NAN; l * width];
            attention(&qkv, &bias, n_heads, &mut found);
            assert_near(&found, &expected, 2e-5);
        }
    }
}
