//! The arithmetic of a transformer layer in bf16 on a processor with AMX.
//!
//! Activations that a product reads lie in blocks of 32 rows and 32 columns, `[n_rows / 32]`
//! times `[n_columns / 32]` of them, each 32 [`Row`]s: a block is what a product loads at once,
//! and what the one before it has written at once. Sums, the residual stream and layer norms are
//! f32.
//!
//! While the tile unit multiplies one block, the rest of the core finishes the one before it, a few
//! rows after each step.

#![expect(
    unsafe_code,
    reason = "functions compiled for AVX-512 are called where the tiles prove that there is \
              AVX-512, and read vectors through pointers"
)]

use std::arch::x86_64::*;
use std::ops::Range;
use std::time::{Duration, Instant};

use half::bf16;

use super::Affine;
use super::amx::{BLOCK, Row, TILE, Tiles};

/// Numbers in a vector.
const LANES: usize = 16;
/// Far below any score, and yet a number that [`exp2`] takes.
const NEVER: f32 = -1e30;

/// Coefficients, the constant one first, of a polynomial that is 2 to the power of x from 0 to 1
/// with a relative error of 7.5e-5.
const EXP2: [f32; 4] = [0.999_925_2, 0.695_833_54, 0.226_067_16, 0.078_024_52];

/// Steps from one of the sixteen polynomials of [`gelu`] to the next, for each unit.
const GELU_STEPS: f32 = 3.9;
/// Where the last one ends, at 0.
const GELU_END: f32 = 15.49 / GELU_STEPS;
/// Coefficients, the constant ones first, each of the sixteen polynomials.
#[rustfmt::skip]
#[expect(clippy::unreadable_literal, clippy::excessive_precision, reason = "a table of numbers")]
static GELU: [[f32; LANES]; 3] = [
    [0.0000000e+00, 6.7586500e-04, 1.1496470e-02, 5.0745759e-02, 1.2866115e-01, 2.3480731e-01, 3.4018698e-01, 4.1199549e-01, 4.3007194e-01, 3.9465192e-01, 3.2265326e-01, 2.3727609e-01, 1.5806168e-01, 9.5890266e-02, 5.3198630e-02, 1.7555094e-02],
    [4.9990377e-01, 4.9173221e-01, 4.3720632e-01, 3.1562895e-01, 1.4199183e-01, -4.2621112e-02, -1.9295795e-01, -2.7995600e-01, -2.9933572e-01, -2.6712782e-01, -2.0808516e-01, -1.4460684e-01, -9.0778732e-02, -5.1888934e-02, -2.7152932e-02, -7.5703817e-03],
    [-3.9716807e-01, -3.7264910e-01, -3.0339270e-01, -2.0893636e-01, -1.1203339e-01, -3.1680681e-02, 2.1972801e-02, 4.8333657e-02, 5.3525252e-02, 4.6202053e-02, 3.4094788e-02, 2.2293473e-02, 1.3147691e-02, 7.0652744e-03, 3.4818128e-03, 7.9320360e-04],
];

/// `[n_rows, n_columns]` in blocks, the rows filled up to whole ones.
#[derive(Default)]
pub(crate) struct Blocks {
    rows: Vec<Row>,
    n_columns: usize,
}

impl Blocks {
    /// Makes room; what stands there is some finite number.
    pub(crate) fn resize(&mut self, n_rows: usize, n_columns: usize) {
        assert!(n_columns.is_multiple_of(BLOCK), "columns fill blocks");
        self.n_columns = n_columns;
        let n_panels = n_columns / BLOCK;
        self.rows
            .resize(n_rows.next_multiple_of(BLOCK) * n_panels, Row::ZERO);
    }

    /// The 32 numbers of `row` that begin with column `32 * panel`.
    #[inline(always)]
    fn row_mut(&mut self, row: usize, panel: usize) -> &mut Row {
        let n_panels = self.n_columns / BLOCK;
        &mut self.rows[(row / BLOCK * n_panels + panel) * BLOCK + row % BLOCK]
    }
}

/// Query, key and value of every head, each head's columns filled up to whole panels of 32.
#[derive(Default)]
pub(crate) struct Heads {
    n_panels: usize,
    /// Rows of a panel, some more than there are tokens, so that a block may begin at any token.
    n_rows: usize,
    /// `[n_panels, n_rows]`.
    query: Vec<Row>,
    /// The same.
    key: Vec<Row>,
    /// `[n_panels, 2, n_rows / 2]`: two tokens interleaved, 16 columns.
    value: Vec<Row>,
}

impl Heads {
    /// Makes room for heads that have `width` columns in all.
    pub(crate) fn resize(&mut self, n_rows: usize, width: usize) {
        let n_panels = width / BLOCK;
        self.n_panels = n_panels;
        self.n_rows = n_rows.next_multiple_of(BLOCK) + BLOCK;
        for rows in [&mut self.query, &mut self.key, &mut self.value] {
            rows.resize(self.n_rows * n_panels, Row::ZERO);
        }
    }
}

/// What becomes of a product plus bias.
pub(crate) enum Then<'a> {
    /// It is query, key and value of all heads.
    Heads(&'a mut Heads),
    /// The GELU of it is written.
    Gelu(&'a mut Blocks),
    /// It is added to `[n_rows, n_out]`.
    Add(&'a mut [f32]),
}

/// A linear layer, packed.
pub(crate) struct Linear {
    n_in: usize,
    n_out: usize,
    /// For each panel of 32 outputs and each 32 inputs two tiles of 16 outputs.
    rows: Vec<Row>,
    bias: Vec<f32>,
}

impl Linear {
    /// Packs `weight`, `[n_out, n_in]` as files have it, and `bias`, `[n_out]`; both are filled
    /// up already: `n_in` and `n_out` are multiples of 32.
    pub(crate) fn pack(weight: &[f32], bias: Vec<f32>) -> Linear {
        let n_out = bias.len();
        let n_in = weight.len() / n_out;
        assert!(n_in.is_multiple_of(BLOCK) && n_out.is_multiple_of(BLOCK));
        let mut rows = Vec::with_capacity(n_in * n_out / BLOCK);
        for panel in weight.chunks_exact(BLOCK * n_in) {
            for first_input in (0..n_in).step_by(BLOCK) {
                for tile in panel.chunks_exact(TILE * n_in) {
                    for input in (first_input..first_input + BLOCK).step_by(2) {
                        let mut row = Row::ZERO;
                        for (pair, weights) in
                            row.0.chunks_exact_mut(2).zip(tile.chunks_exact(n_in))
                        {
                            pair[0] = bf16::from_f32(weights[input]);
                            pair[1] = bf16::from_f32(weights[input + 1]);
                        }
                        rows.push(row);
                    }
                }
            }
        }
        Linear {
            n_in,
            n_out,
            rows,
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

    /// Applies the layer to the first `n_rows` of `x`. Rows that fill the last block are written
    /// as well.
    pub(crate) fn apply(&self, tiles: &mut Tiles, x: &Blocks, n_rows: usize, then: Then) {
        assert_eq!(x.n_columns, self.n_in);
        // SAFETY: AMX is available, and with it what the function is compiled for.
        unsafe { product(tiles, self, &x.rows, n_rows, then) }
    }
}

/// What [`super::Kernel::product_flops`] is with these kernels.
pub(super) fn product_flops([n_rows, n_in, n_out]: [usize; 3], time: Duration) -> f64 {
    let linear = Linear::pack(&vec![0.5; n_in * n_out], vec![0.5; n_out]);
    let (mut x, mut y) = (Blocks::default(), Heads::default());
    x.resize(n_rows, n_in);
    y.resize(n_rows, n_out / 3);
    let tiles = &mut Tiles::new();
    let (mut n_rows_done, started) = (0, Instant::now());
    while started.elapsed() < time {
        linear.apply(tiles, &x, n_rows, Then::Heads(&mut y));
        n_rows_done += n_rows;
    }
    (n_rows_done * linear.flops_per_row()) as f64 / started.elapsed().as_secs_f64()
}

/// Normalizes each of the first `n_rows` rows of `x`, scales and shifts it, and writes it to `copy`
/// as well.
pub(crate) fn norm(_: &Tiles, x: &mut [f32], n_rows: usize, affine: Affine, copy: &mut Blocks) {
    let width = affine.scale.len();
    copy.resize(n_rows, width);
    let x = &mut x[..n_rows * width];
    // SAFETY: as in `Linear::apply`.
    unsafe { norm_rows(x, affine, copy) }
}

/// Memory for [`attention`], kept from one text to the next.
#[derive(Default)]
pub(crate) struct AttentionSpace {
    /// The transposed keys of one head: for each 16 keys and 32 columns a tile.
    keys: Vec<Row>,
    /// `[32, l]` and something.
    scores: Vec<f32>,
    /// The same as exponentials, in blocks.
    weights: Vec<Row>,
}

/// Attention of the text in rows `text`, which begin with an even one, over itself. The query is
/// already scaled by `log2(e)` as well. Writes to the same rows of `context`.
pub(crate) fn attention(
    tiles: &mut Tiles,
    heads: &Heads,
    n_heads: usize,
    text: Range<usize>,
    context: &mut Blocks,
    space: &mut AttentionSpace,
) {
    let (first, n_tokens) = (text.start, text.len());
    let l = n_tokens.next_multiple_of(BLOCK);
    assert!(first.is_multiple_of(2) && first + l <= heads.n_rows);
    let n_panels = heads.n_panels / n_heads;
    space.keys.resize(l / TILE * n_panels * TILE, Row::ZERO);
    space.scores.resize(BLOCK * stride(l), 0.0);
    space.weights.resize(l, Row::ZERO);
    for head in 0..n_heads {
        let text = Text {
            heads,
            first,
            n_tokens,
            panels: (head * n_panels, n_panels),
        };
        // SAFETY: as in `Linear::apply`.
        unsafe { attend(tiles, &text, context, space) }
    }
}

/// Numbers from a row of scores to the next: not a power of two, whose multiples would all fall
/// into the same few lines of the cache.
fn stride(l: usize) -> usize {
    l + LANES
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn product(tiles: &mut Tiles, linear: &Linear, x: &[Row], n_rows: usize, then: Then) {
    match then {
        Then::Heads(heads) => {
            multiply(tiles, linear, x, n_rows, |row, panel, values| {
                heads.put(row, panel, values)
            });
        }
        Then::Gelu(blocks) => {
            let table = gelu_table();
            multiply(tiles, linear, x, n_rows, |row, panel, values| {
                for (row, values) in (row..).zip(values) {
                    write(blocks.row_mut(row, panel), values.map(|x| gelu(x, table)));
                }
            });
        }
        Then::Add(x_to) => {
            multiply(tiles, linear, x, n_rows, |row, panel, values| {
                for (row, values) in (row..).zip(values) {
                    let x = &mut x_to[row * linear.n_out + panel * BLOCK..][..BLOCK];
                    let x = x.first_chunk_mut().expect("it is a block wide");
                    let [left, right] = vectors(x);
                    store(
                        x,
                        [
                            _mm512_add_ps(left, values[0]),
                            _mm512_add_ps(right, values[1]),
                        ],
                    );
                }
            });
        }
    }
}

/// Multiplies all rows with one panel of the weights after the other: a panel stays in the
/// first-level cache while it meets every row. `put` gets a row, an even one, a panel, and what
/// this row and the next have there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn multiply(
    tiles: &mut Tiles,
    linear: &Linear,
    x: &[Row],
    n_rows: usize,
    mut put: impl FnMut(usize, usize, [[__m512; 2]; 2]),
) {
    let n_steps = linear.n_in / BLOCK;
    let (x, _) = x.as_chunks::<BLOCK>();
    let (weights, _) = linear.rows.as_chunks::<BLOCK>();
    let (bias, _) = linear.bias.as_chunks::<BLOCK>();
    let n_blocks = n_rows.div_ceil(BLOCK);
    // Lines of the next panel to be fetched at each step; one block alone goes through the weights
    // as fast as they come.
    let lines_per_step = if n_blocks > 1 {
        BLOCK.div_ceil(n_blocks)
    } else {
        0
    };
    // Pairs of rows of a block to be finished after each step of the next one.
    let pairs_per_step = TILE.div_ceil(n_steps);
    let mut sums = [[[0.0_f32; BLOCK]; BLOCK]; 2];
    let [first, second] = &mut sums;
    let (mut current, mut former) = (first, second);
    let mut unfinished = Unfinished::default();
    for panel in 0..bias.len() {
        let (weights, later) = weights[panel * n_steps..].split_at(n_steps);
        let mut next = later.as_flattened().iter().take(n_steps * BLOCK);
        for (block, x) in x.chunks_exact(n_steps).take(n_blocks).enumerate() {
            tiles.zero();
            let half = n_rows - block * BLOCK <= TILE;
            for (x, weights) in x.iter().zip(weights) {
                let (weights, _) = weights.as_chunks::<TILE>();
                let (x, _) = x.as_chunks::<TILE>();
                if half {
                    tiles.multiply_one(&x[0], [&weights[0], &weights[1]]);
                } else {
                    tiles.multiply([&x[0], &x[1]], [&weights[0], &weights[1]]);
                }
                next.by_ref().take(lines_per_step).for_each(prefetch);
                unfinished.finish(pairs_per_step, bias, former, &mut put);
            }
            tiles.store(current.as_flattened_mut(), BLOCK);
            unfinished = Unfinished {
                first_row: block * BLOCK,
                panel,
                pairs: 0..if half { TILE / 2 } else { TILE },
            };
            std::mem::swap(&mut current, &mut former);
        }
    }
    unfinished.finish(TILE, bias, former, &mut put);
}

/// A block of sums that waits for what comes after the product.
#[derive(Default)]
struct Unfinished {
    first_row: usize,
    panel: usize,
    /// Pairs of rows that are left.
    pairs: Range<usize>,
}

impl Unfinished {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn finish(
        &mut self,
        n_pairs: usize,
        bias: &[[f32; BLOCK]],
        sums: &[[f32; BLOCK]; BLOCK],
        put: &mut impl FnMut(usize, usize, [[__m512; 2]; 2]),
    ) {
        let (sums, _) = sums.as_chunks::<2>();
        for pair in self.pairs.by_ref().take(n_pairs) {
            let bias = vectors(&bias[self.panel]);
            let values = sums[pair].map(|row| {
                let [left, right] = vectors(&row);
                [_mm512_add_ps(left, bias[0]), _mm512_add_ps(right, bias[1])]
            });
            put(self.first_row + 2 * pair, self.panel, values);
        }
    }
}

impl Heads {
    /// Writes two rows of a panel, of which the first third are queries, the next keys.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn put(&mut self, row: usize, panel: usize, [upper, lower]: [[__m512; 2]; 2]) {
        let (part, panel) = (panel / self.n_panels, panel % self.n_panels);
        if part == 2 {
            let n_pairs = self.n_rows / 2;
            for (tile, (upper, lower)) in upper.into_iter().zip(lower).enumerate() {
                let to = &mut self.value[(2 * panel + tile) * n_pairs + row / 2];
                interleave(to, upper, lower);
            }
        } else {
            let rows = if part == 0 {
                &mut self.query
            } else {
                &mut self.key
            };
            let [first, second] = &mut rows[panel * self.n_rows + row..][..2] else {
                unreachable!("two rows are asked for")
            };
            write(first, upper);
            write(second, lower);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn norm_rows(x: &mut [f32], affine: Affine, copy: &mut Blocks) {
    let Affine {
        scale,
        shift,
        epsilon,
    } = affine;
    let width = scale.len();
    let (scale, _) = scale.as_chunks::<BLOCK>();
    let (shift, _) = shift.as_chunks::<BLOCK>();
    for (row, x) in x.chunks_exact_mut(width).enumerate() {
        let (x, _) = x.as_chunks_mut::<BLOCK>();
        let mut sums = [_mm512_setzero_ps(); 2];
        for x in &*x {
            let x = vectors(x);
            sums = [_mm512_add_ps(sums[0], x[0]), _mm512_add_ps(sums[1], x[1])];
        }
        let mean = _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])) / width as f32;
        let mean = _mm512_set1_ps(mean);
        let mut sums = [_mm512_setzero_ps(); 2];
        for x in &*x {
            for (sum, x) in sums.iter_mut().zip(vectors(x)) {
                let x = _mm512_sub_ps(x, mean);
                *sum = _mm512_fmadd_ps(x, x, *sum);
            }
        }
        let variance = _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])) / width as f32;
        let inverse = _mm512_set1_ps((variance + epsilon).sqrt().recip());
        for (panel, ((x, scale), shift)) in x.iter_mut().zip(scale).zip(shift).enumerate() {
            let (scale, shift) = (vectors(scale), vectors(shift));
            let mut values = vectors(x);
            for ((x, scale), shift) in values.iter_mut().zip(scale).zip(shift) {
                let normal = _mm512_mul_ps(_mm512_sub_ps(*x, mean), inverse);
                *x = _mm512_fmadd_ps(normal, scale, shift);
            }
            store(x, values);
            write(copy.row_mut(row, panel), values);
        }
    }
}

/// One head of one text.
struct Text<'a> {
    heads: &'a Heads,
    first: usize,
    n_tokens: usize,
    /// The first of the head's panels, and how many it has.
    panels: (usize, usize),
}

impl Text<'_> {
    /// The text's rows of a panel of queries or keys, filled up to whole blocks.
    fn rows<'a>(&self, all: &'a [Row], panel: usize) -> &'a [Row] {
        let first = panel * self.heads.n_rows + self.first;
        &all[first..][..self.n_tokens.next_multiple_of(BLOCK)]
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn attend(tiles: &mut Tiles, text: &Text, context: &mut Blocks, space: &mut AttentionSpace) {
    let Text {
        heads,
        first,
        n_tokens,
        panels: (first_panel, n_panels),
    } = *text;
    let l = n_tokens.next_multiple_of(BLOCK);
    let stride = stride(l);
    let panels = first_panel..first_panel + n_panels;

    // Tile `(keys / 16, panel)`.
    let (key_tiles, _) = space.keys.as_chunks_mut::<TILE>();
    for (idx, panel) in panels.clone().enumerate() {
        let (keys, _) = text.rows(&heads.key, panel).as_chunks::<TILE>();
        for (tile, keys) in key_tiles[idx..].iter_mut().step_by(n_panels).zip(keys) {
            transpose(keys, tile);
        }
    }

    for query in (0..n_tokens).step_by(BLOCK) {
        let n_queries = BLOCK.min(n_tokens - query);
        for (column, keys) in key_tiles.chunks_exact(2 * n_panels).enumerate() {
            tiles.zero();
            for (idx, panel) in panels.clone().enumerate() {
                let queries = &text.rows(&heads.query, panel)[query..][..BLOCK];
                let (queries, _) = queries.as_chunks::<TILE>();
                let keys = [&keys[idx], &keys[n_panels + idx]];
                tiles.multiply([&queries[0], &queries[1]], keys);
            }
            tiles.store(&mut space.scores[column * BLOCK..], stride);
        }

        let (weights, _) = space.weights.as_chunks_mut::<BLOCK>();
        let mut inverses = [0.0; BLOCK];
        let rows = space.scores.chunks_exact_mut(stride).take(n_queries);
        for (idx, (scores, inverse)) in rows.zip(&mut inverses).enumerate() {
            scores[n_tokens..l].fill(NEVER);
            let (scores, _) = scores[..l].as_chunks::<BLOCK>();
            *inverse = softmax(scores, weights.iter_mut().map(|block| &mut block[idx]));
        }

        for (idx, panel) in panels.clone().enumerate() {
            let n_pairs = heads.n_rows / 2;
            let [left, right] = [2 * panel, 2 * panel + 1].map(|tile| {
                let rows = &heads.value[tile * n_pairs + first / 2..][..l / 2];
                rows.as_chunks::<TILE>().0
            });
            tiles.zero();
            for ((weights, left), right) in weights.iter().zip(left).zip(right) {
                let (weights, _) = weights.as_chunks::<TILE>();
                tiles.multiply([&weights[0], &weights[1]], [left, right]);
            }
            let mut mixed = [[0.0_f32; BLOCK]; BLOCK];
            tiles.store(mixed.as_flattened_mut(), BLOCK);
            for (row, (mixed, inverse)) in mixed.iter().zip(inverses).take(n_queries).enumerate() {
                let inverse = _mm512_set1_ps(inverse);
                let values = vectors(mixed).map(|x| _mm512_mul_ps(x, inverse));
                write(
                    context.row_mut(first + query + row, first_panel + idx),
                    values,
                );
            }
        }
    }
}

/// Writes 2 to the power of each score less the highest, and gives the inverse of their sum.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn softmax<'a>(scores: &[[f32; BLOCK]], weights: impl Iterator<Item = &'a mut Row>) -> f32 {
    let mut max = [_mm512_set1_ps(NEVER); 2];
    for scores in scores {
        let scores = vectors(scores);
        max = [
            _mm512_max_ps(max[0], scores[0]),
            _mm512_max_ps(max[1], scores[1]),
        ];
    }
    let max = _mm512_set1_ps(_mm512_reduce_max_ps(_mm512_max_ps(max[0], max[1])));
    let mut sums = [_mm512_setzero_ps(); 2];
    for (scores, weights) in scores.iter().zip(weights) {
        let powers = vectors(scores).map(|score| exp2(_mm512_sub_ps(score, max)));
        sums = [
            _mm512_add_ps(sums[0], powers[0]),
            _mm512_add_ps(sums[1], powers[1]),
        ];
        write(weights, powers);
    }
    _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])).recip()
}

/// 2 to the power of `x`, off by at most 0.01 %, a twentieth of what bf16 rounds away.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn exp2(x: __m512) -> __m512 {
    // What is above the next lower integer, to which `scalef` rounds too.
    const FLOOR: i32 = 0x09;
    let r = _mm512_reduce_ps::<FLOOR>(x);
    let mut polynomial = _mm512_set1_ps(EXP2[3]);
    for coefficient in [EXP2[2], EXP2[1], EXP2[0]] {
        polynomial = _mm512_fmadd_ps(polynomial, r, _mm512_set1_ps(coefficient));
    }
    _mm512_scalef_ps(polynomial, x)
}

/// GELU, off by at most 1.5e-4: `max(x, 0) - h(|x|)` with `h(t) = t * Phi(-t)` from a quadratic
/// polynomial for each step of `1 / GELU_STEPS`, and 0 from [`GELU_END`] on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn gelu(x: __m512, table: [__m512; 3]) -> __m512 {
    // Added to a small number, it leaves that number's nearest integer in the lowest bits.
    const ROUND: f32 = 8_388_608.0;
    let t = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(GELU_END));
    let step = _mm512_fmadd_ps(t, _mm512_set1_ps(GELU_STEPS), _mm512_set1_ps(ROUND));
    let step = _mm512_castps_si512(step);
    let [c0, c1, c2] = table.map(|coefficients| _mm512_permutexvar_ps(step, coefficients));
    let h = _mm512_fmadd_ps(_mm512_fmadd_ps(c2, t, c1), t, c0);
    // In this order, the maximum of NaN is NaN.
    _mm512_sub_ps(_mm512_max_ps(_mm512_setzero_ps(), x), h)
}

#[target_feature(enable = "avx512f")]
fn gelu_table() -> [__m512; 3] {
    GELU.each_ref().map(|coefficients| load(coefficients))
}

/// The transpose of 16 rows of 16 pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn transpose(from: &[Row; TILE], to: &mut [Row; TILE]) {
    let rows = from.each_ref().map(|row| load_pairs(row));
    // Pairs of rows, then quarters of four, then of all.
    let mut pairs = rows;
    for i in (0..TILE).step_by(2) {
        pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    let mut fours = rows;
    for i in (0..TILE).step_by(4) {
        for half in 0..2 {
            let (first, second) = (pairs[i + half], pairs[i + half + 2]);
            fours[i + 2 * half] = _mm512_unpacklo_epi64(first, second);
            fours[i + 2 * half + 1] = _mm512_unpackhi_epi64(first, second);
        }
    }
    for column in 0..4 {
        let [a, b, c, d] = [0, 4, 8, 12].map(|i| fours[i + column]);
        let even = [(a, b), (c, d)].map(|(x, y)| _mm512_shuffle_i32x4::<0b10_00_10_00>(x, y));
        let odd = [(a, b), (c, d)].map(|(x, y)| _mm512_shuffle_i32x4::<0b11_01_11_01>(x, y));
        for (first, [x, y]) in [(0, even), (4, odd)] {
            store_pairs(
                &mut to[first + column],
                _mm512_shuffle_i32x4::<0b10_00_10_00>(x, y),
            );
            store_pairs(
                &mut to[first + column + 8],
                _mm512_shuffle_i32x4::<0b11_01_11_01>(x, y),
            );
        }
    }
}

/// Brings a row into the second-level cache.
#[inline(always)]
fn prefetch(row: &Row) {
    // SAFETY: a hint, for an address that exists.
    unsafe { _mm_prefetch::<_MM_HINT_T1>((&raw const *row).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[f32; LANES]) -> __m512 {
    // SAFETY: the 64 bytes read are those of the array.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn vectors(from: &[f32; BLOCK]) -> [__m512; 2] {
    let (halves, _) = from.as_chunks::<LANES>();
    [load(&halves[0]), load(&halves[1])]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [f32; BLOCK], values: [__m512; 2]) {
    let (halves, _) = to.as_chunks_mut::<LANES>();
    for (half, values) in halves.iter_mut().zip(values) {
        // SAFETY: the 64 bytes written are those of the array.
        unsafe { _mm512_storeu_ps(half.as_mut_ptr(), values) }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_pairs(from: &Row) -> __m512i {
    // SAFETY: the 64 bytes read are those of the row.
    unsafe { _mm512_load_si512((&raw const *from).cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_pairs(to: &mut Row, pairs: __m512i) {
    // SAFETY: the 64 bytes written are those of the row, any bits are numbers.
    unsafe { _mm512_store_si512((&raw mut *to).cast(), pairs) }
}

/// Rounds 32 numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded(first: __m512, second: __m512) -> __m512i {
    // SAFETY: both types are 64 bytes, of which any is a value.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(second, first)) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn write(to: &mut Row, [first, second]: [__m512; 2]) {
    store_pairs(to, rounded(first, second));
}

/// Writes 16 numbers of two rows in turns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn interleave(to: &mut Row, upper: __m512, lower: __m512) {
    static ORDER: [u16; 32] = {
        let mut order = [0; 32];
        let mut i = 0;
        while i < 16 {
            order[2 * i] = i as u16;
            order[2 * i + 1] = i as u16 + 16;
            i += 1;
        }
        order
    };
    // SAFETY: the 64 bytes read are those of the array.
    let order = unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) };
    store_pairs(to, _mm512_permutexvar_epi16(order, rounded(upper, lower)));
}

#[cfg(test)]
mod tests;
