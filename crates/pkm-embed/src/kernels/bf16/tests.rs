//! Where there is no AMX nothing runs here, as with every kernel that a processor does not have;
//! `the kernels of this processor` in the log of [`super::super::linear`]'s tests tells.

use super::super::tests::{assert_near, noise};
use super::super::{Kernel, amx};
use super::*;

fn rounded_values(values: &[f32]) -> Vec<f64> {
    let rounded = values.iter().map(|value| bf16::from_f32(*value).to_f64());
    rounded.collect()
}

fn blocks(values: &[f32], n_columns: usize) -> Blocks {
    let mut blocks = Blocks::default();
    blocks.resize(values.len() / n_columns, n_columns);
    for (row, values) in values.chunks_exact(n_columns).enumerate() {
        for (panel, values) in values.chunks_exact(BLOCK).enumerate() {
            let to = blocks.row_mut(row, panel);
            for (to, value) in to.0.iter_mut().zip(values) {
                *to = bf16::from_f32(*value);
            }
        }
    }
    blocks
}

fn values(blocks: &mut Blocks, n_rows: usize) -> Vec<f32> {
    let n_panels = blocks.n_columns / BLOCK;
    let mut values = Vec::new();
    for row in 0..n_rows {
        for panel in 0..n_panels {
            values.extend(blocks.row_mut(row, panel).0.map(bf16::to_f32));
        }
    }
    values
}

/// `x·wᵀ + b` of what is left of the inputs after rounding, in f64.
fn expected(weight: &[f32], bias: &[f32], x: &[f32]) -> Vec<f64> {
    let n_in = weight.len() / bias.len();
    let (weight, x) = (rounded_values(weight), rounded_values(x));
    let row = |x: &[f64]| {
        let outputs = weight.chunks_exact(n_in).zip(bias).map(|(weight, bias)| {
            let products = weight.iter().zip(x).map(|(weight, x)| weight * x);
            products.sum::<f64>() + f64::from(*bias)
        });
        outputs.collect::<Vec<f64>>()
    };
    x.chunks_exact(n_in).flat_map(row).collect()
}

fn exact_gelu(x: f64) -> f64 {
    f64::from(super::super::gelu(x as f32))
}

#[test]
fn a_layer_gives_what_the_plain_sum_gives_whatever_the_number_of_rows() {
    if !amx::is_available() {
        return;
    }
    let tiles = &mut Tiles::new();
    let shapes = [(32, 32), (32, 96), (64, 160), (384, 64), (1536, 32)];
    for (n_in, n_out) in shapes {
        let (weight, bias) = (noise(n_in * n_out, 1), noise(n_out, 2));
        let linear = Linear::pack(&weight, bias.clone());
        for n_rows in [0, 1, 15, 16, 17, 31, 32, 33, 49, 64, 100] {
            let x = noise(n_rows * n_in, 3);
            let sums = expected(&weight, &bias, &x);
            let blocks = blocks(&x, n_in);
            let tolerance = 1e-5 * (n_in as f64).sqrt();

            let before = noise(n_rows.next_multiple_of(BLOCK) * n_out, 4);
            let mut found = before.clone();
            linear.apply(tiles, &blocks, n_rows, Then::Add(&mut found));
            let added: Vec<f64> = sums
                .iter()
                .zip(&before)
                .map(|(a, b)| a + f64::from(*b))
                .collect();
            assert_near(&found[..n_rows * n_out], &added, tolerance);

            let mut found = Blocks::default();
            found.resize(n_rows, n_out);
            linear.apply(tiles, &blocks, n_rows, Then::Gelu(&mut found));
            let activated: Vec<f64> = sums.iter().map(|sum| exact_gelu(*sum)).collect();
            let largest = activated.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
            assert_near(
                &values(&mut found, n_rows),
                &activated,
                2e-4 + largest / 256.0,
            );
        }
    }
}

#[test]
fn a_row_gets_the_same_numbers_whichever_rows_are_beside_it() {
    if !amx::is_available() {
        return;
    }
    let tiles = &mut Tiles::new();
    let (n_in, n_out, n_rows) = (64, 96, 70);
    let linear = Linear::pack(&noise(n_in * n_out, 1), noise(n_out, 2));
    let x = noise(n_rows * n_in, 3);
    let mut together = vec![0.0; n_rows.next_multiple_of(BLOCK) * n_out];
    linear.apply(tiles, &blocks(&x, n_in), n_rows, Then::Add(&mut together));
    for (x, together) in x.chunks(n_in).zip(together.chunks(n_out)) {
        let mut alone = vec![0.0; BLOCK * n_out];
        linear.apply(tiles, &blocks(x, n_in), 1, Then::Add(&mut alone));
        assert_eq!(alone[..n_out], *together);
    }
}

#[test]
fn attention_is_that_of_the_textbook_for_texts_of_any_length_beside_each_other() {
    if !amx::is_available() {
        return;
    }
    let tiles = &mut Tiles::new();
    // Used again and again, as in a model: what one text leaves must not touch the next.
    let mut heads = Heads::default();
    let (mut context, mut space) = (Blocks::default(), AttentionSpace::default());
    for (lengths, n_heads, width) in [
        (vec![1], 1, 32),
        (vec![3, 40, 1, 32], 3, 32),
        (vec![100, 7], 2, 64),
        (vec![33, 2, 31], 2, 32),
        (vec![512], 1, 32),
    ] {
        let n_columns = n_heads * width;
        let mut texts = Vec::new();
        let mut end = 0_usize;
        for length in lengths {
            let start = end.next_multiple_of(2);
            end = start + length;
            texts.push(start..end);
        }
        // A product with the identity brings the values to their places.
        let identity = identity(3 * n_columns);
        let linear = Linear::pack(&identity, vec![0.0; 3 * n_columns]);
        let x = noise(end * 3 * n_columns, 5);
        heads.resize(end, n_columns);
        let input = blocks(&x, 3 * n_columns);
        linear.apply(tiles, &input, end, Then::Heads(&mut heads));
        context.resize(end, n_columns);
        for text in &texts {
            attention(
                tiles,
                &heads,
                n_heads,
                text.clone(),
                &mut context,
                &mut space,
            );
        }
        let found = values(&mut context, end);
        let x = rounded_values(&x);
        for text in texts {
            let rows = &x[text.start * 3 * n_columns..text.end * 3 * n_columns];
            let expected = textbook(rows, n_heads, width);
            let found = &found[text.start * n_columns..text.end * n_columns];
            assert_near(found, &expected, 0.01);
        }
    }
}

fn identity(n: usize) -> Vec<f32> {
    let mut identity = vec![0.0; n * n];
    identity.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
    identity
}

/// Attention with powers of two over `[l, 3, n_heads, width]`.
fn textbook(qkv: &[f64], n_heads: usize, width: usize) -> Vec<f64> {
    let row = 3 * n_heads * width;
    let l = qkv.len() / row;
    let at = |token: usize, part: usize, head: usize| {
        &qkv[token * row + (part * n_heads + head) * width..][..width]
    };
    let mut context = vec![0.0; l * n_heads * width];
    for query in 0..l {
        for head in 0..n_heads {
            let weight = |key: usize| {
                let products = at(query, 0, head).iter().zip(at(key, 1, head));
                products.map(|(a, b)| a * b).sum::<f64>().exp2()
            };
            let weights: Vec<f64> = (0..l).map(weight).collect();
            let total: f64 = weights.iter().sum();
            let mixed = &mut context[(query * n_heads + head) * width..][..width];
            for (key, weight) in weights.iter().enumerate() {
                for (mixed, value) in mixed.iter_mut().zip(at(key, 2, head)) {
                    *mixed += weight / total * value;
                }
            }
        }
    }
    context
}

#[test]
fn rows_are_normalized_as_by_the_other_kernels() {
    if !amx::is_available() {
        return;
    }
    for width in [32, 96, 384] {
        let (scale, shift) = (noise(width, 3), noise(width, 4));
        let affine = Affine {
            scale: &scale,
            shift: &shift,
            epsilon: 1e-12,
        };
        let mut expected = noise(3 * width, 5);
        let (mut found, mut copy) = (expected.clone(), Blocks::default());
        super::super::norm(Kernel::Gemm, &mut expected, affine);
        norm(&Tiles::new(), &mut found, 3, affine, &mut copy);
        let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
        assert_near(&found, &expected, 1e-5);
        assert_near(&values(&mut copy, 3), &expected, 0.02);
    }
}

#[test]
fn nan_is_not_swallowed() {
    if !amx::is_available() {
        return;
    }
    let linear = Linear::pack(&[f32::NAN; 32 * 32], vec![0.0; 32]);
    let mut activated = Blocks::default();
    activated.resize(1, 32);
    let x = blocks(&noise(32, 1), 32);
    linear.apply(&mut Tiles::new(), &x, 1, Then::Gelu(&mut activated));
    assert!(values(&mut activated, 1).iter().all(|x| x.is_nan()));
}
