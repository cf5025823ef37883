//! The forward pass on a CPU, on plain slices: texts one after another without padding, every
//! matrix packed once, and what is not a matrix product one pass each, in place.

use std::ops::Range;
use std::sync::Mutex;

use crate::bert::{LayerWeights, NormWeights};
use crate::kernels::{self, Affine, Aligned, Kernel, Linear, Then};

/// The layers of a model on a CPU.
pub(crate) trait Pass: Send + Sync {
    /// The instructions that run it.
    fn kernel(&self) -> Kernel;

    /// Floating-point operations of the linear layers for one token.
    fn flops_per_token(&self) -> usize;

    /// Where a text may begin that comes after so many rows.
    fn first_row(&self, after: usize) -> usize {
        after
    }

    /// How many rows there must be for so many that are used.
    fn n_rows(&self, used: usize) -> usize {
        used
    }

    /// Turns `x`, `[n_rows, width]`, which holds the sums of word and position vectors in the
    /// rows of each text and zeros in all others, into what the last layer gives.
    fn forward(&self, x: &mut [f32], texts: &[Range<usize>]);
}

/// The layers of a model, packed for one kernel.
pub(crate) struct Layers {
    kernel: Kernel,
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
    /// `[n_tokens, 3 * width]`.
    query_key_value: Aligned,
    /// `[n_tokens, width]`.
    context: Aligned,
    /// `[n_tokens, intermediate]`.
    up: Aligned,
    attention: kernels::AttentionSpace,
}

impl Layers {
    pub(crate) fn new(
        kernel: Kernel,
        embedding_norm: NormWeights,
        n_heads: usize,
        width: usize,
    ) -> Layers {
        Layers {
            kernel,
            embedding_norm,
            layers: Vec::new(),
            n_heads,
            width,
            workspaces: Mutex::default(),
        }
    }

    pub(crate) fn push(&mut self, weights: LayerWeights) {
        let pack = |(weight, bias): (Vec<f32>, Vec<f32>)| Linear::pack(self.kernel, &weight, bias);
        self.layers.push(Layer {
            query_key_value: pack(weights.query_key_value),
            attention_output: pack(weights.attention_output),
            attention_norm: weights.attention_norm,
            up: pack(weights.up),
            down: pack(weights.down),
            output_norm: weights.output_norm,
        });
    }

    fn layer(
        &self,
        layer: &Layer,
        x: &mut [f32],
        texts: &[Range<usize>],
        workspace: &mut Workspace,
    ) {
        let h = self.width;
        let n_tokens = x.len() / h;
        let qkv = workspace.query_key_value.first(n_tokens * 3 * h);
        let context = workspace.context.first(n_tokens * h);
        layer.query_key_value.apply(x, Then::Store, qkv);
        for text in texts {
            kernels::attention(
                self.kernel,
                &qkv[text.start * 3 * h..text.end * 3 * h],
                [h, self.n_heads],
                &mut context[text.start * h..text.end * h],
                &mut workspace.attention,
            );
        }
        layer.attention_output.apply(context, Then::Add, x);
        kernels::norm(self.kernel, x, layer.attention_norm.affine());
        let up = workspace.up.first(n_tokens * layer.up.n_out());
        layer.up.apply(x, Then::Gelu, up);
        layer.down.apply(up, Then::Add, x);
        kernels::norm(self.kernel, x, layer.output_norm.affine());
    }
}

impl Pass for Layers {
    fn kernel(&self) -> Kernel {
        self.kernel
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

    fn forward(&self, x: &mut [f32], texts: &[Range<usize>]) {
        let workspace = self.workspaces.lock().map(|mut free| free.pop());
        let mut workspace = workspace.ok().flatten().unwrap_or_default();
        kernels::norm(self.kernel, x, self.embedding_norm.affine());
        for layer in &self.layers {
            self.layer(layer, x, texts, &mut workspace);
        }
        if let Ok(mut free) = self.workspaces.lock() {
            free.push(workspace);
        }
    }
}

impl NormWeights {
    pub(crate) fn affine(&self) -> Affine<'_> {
        Affine {
            scale: &self.scale,
            shift: &self.shift,
            epsilon: self.epsilon,
        }
    }
}
