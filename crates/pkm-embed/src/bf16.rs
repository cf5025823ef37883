//! The forward pass in bf16 on a CPU with AMX: as [`crate::cpu`], with activations in the blocks
//! that the tile unit reads.

use std::ops::Range;
use std::sync::Mutex;

use crate::bert::{LayerWeights, NormWeights};
use crate::cpu::Pass;
use crate::kernels::Kernel;
use crate::kernels::bf16::{self, AttentionSpace, Blocks, Heads, Linear, Then};
use crate::kernels::{BLOCK, Tiles};

/// The layers of a model, packed.
pub(crate) struct Layers {
    embedding_norm: NormWeights,
    layers: Vec<Layer>,
    n_heads: usize,
    width: usize,
    /// Those that no thread is using.
    workspaces: Mutex<Vec<Workspace>>,
}

struct Layer {
    query_key_value: Linear,
    attention_output: Linear,
    attention_norm: NormWeights,
    up: Linear,
    down: Linear,
    output_norm: NormWeights,
}

/// Memory for what is computed on the way, kept from one batch to the next.
#[derive(Default)]
struct Workspace {
    /// What a product reads: the residual stream, rounded.
    input: Blocks,
    heads: Heads,
    context: Blocks,
    up: Blocks,
    attention: AttentionSpace,
}

impl Layers {
    pub(crate) fn new(embedding_norm: NormWeights, n_heads: usize, width: usize) -> Layers {
        Layers {
            embedding_norm,
            layers: Vec::new(),
            n_heads,
            width,
            workspaces: Mutex::default(),
        }
    }

    pub(crate) fn push(&mut self, weights: LayerWeights) {
        let (n_heads, h) = (self.n_heads, self.width);
        let (mut weight, mut bias) = weights.query_key_value;
        // Softmax is taken with powers of two.
        for value in weight[..h * h].iter_mut().chain(&mut bias[..h]) {
            *value *= std::f32::consts::LOG2_E;
        }
        let d = h / n_heads;
        let query_key_value = Linear::pack(&fill_up(&weight, d, h), fill_up(&bias, d, 1));
        let (weight, bias) = weights.attention_output;
        self.layers.push(Layer {
            query_key_value,
            attention_output: Linear::pack(&fill_up(&weight, d, 1), bias),
            attention_norm: weights.attention_norm,
            up: Linear::pack(&weights.up.0, weights.up.1),
            down: Linear::pack(&weights.down.0, weights.down.1),
            output_norm: weights.output_norm,
        });
    }

    fn layer(
        &self,
        layer: &Layer,
        tiles: &mut Tiles,
        x: &mut [f32],
        texts: &[Range<usize>],
        workspace: &mut Workspace,
    ) {
        let n_rows = texts.last().map_or(0, |text| text.end);
        let Workspace {
            input,
            heads,
            context,
            up,
            attention,
        } = workspace;
        let context_width = layer.query_key_value.n_out() / 3;
        heads.resize(n_rows, context_width);
        let query_key_value = &layer.query_key_value;
        query_key_value.apply(tiles, input, n_rows, Then::Heads(heads));
        context.resize(n_rows, context_width);
        for text in texts {
            bf16::attention(tiles, heads, self.n_heads, text.clone(), context, attention);
        }
        let attention_output = &layer.attention_output;
        attention_output.apply(tiles, context, n_rows, Then::Add(x));
        bf16::norm(tiles, x, n_rows, layer.attention_norm.affine(), input);
        up.resize(n_rows, layer.up.n_out());
        layer.up.apply(tiles, input, n_rows, Then::Gelu(up));
        layer.down.apply(tiles, up, n_rows, Then::Add(x));
        bf16::norm(tiles, x, n_rows, layer.output_norm.affine(), input);
    }
}

impl Pass for Layers {
    fn kernel(&self) -> Kernel {
        Kernel::Amx
    }

    fn flops_per_token(&self) -> usize {
        let linear = |layer: &Layer| {
            [
                &layer.query_key_value,
                &layer.attention_output,
                &layer.up,
                &layer.down,
            ]
            .map(Linear::flops_per_row)
            .iter()
            .sum::<usize>()
        };
        self.layers.iter().map(linear).sum()
    }

    /// Values lie in pairs of tokens.
    fn first_row(&self, after: usize) -> usize {
        after.next_multiple_of(2)
    }

    fn n_rows(&self, used: usize) -> usize {
        used.next_multiple_of(BLOCK)
    }

    fn forward(&self, x: &mut [f32], texts: &[Range<usize>]) {
        let workspace = self.workspaces.lock().map(|mut free| free.pop());
        let mut workspace = workspace.ok().flatten().unwrap_or_default();
        let tiles = &mut Tiles::new();
        let norm = self.embedding_norm.affine();
        let n_rows = texts.last().map_or(0, |text| text.end);
        bf16::norm(tiles, x, n_rows, norm, &mut workspace.input);
        for layer in &self.layers {
            self.layer(layer, tiles, x, texts, &mut workspace);
        }
        if let Ok(mut free) = self.workspaces.lock() {
            free.push(workspace);
        }
    }
}

/// Fills what each head has, `d` times `size` values, up with zeros to what a head would have
/// whose width is the next multiple of 32.
fn fill_up(values: &[f32], d: usize, size: usize) -> Vec<f32> {
    let filled = d.next_multiple_of(BLOCK) * size;
    let mut all = Vec::with_capacity(values.len() / (d * size) * filled);
    for head in values.chunks_exact(d * size) {
        all.extend_from_slice(head);
        all.resize(all.len() + filled - head.len(), 0.0);
    }
    all
}
