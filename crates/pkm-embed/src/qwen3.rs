//! Qwen3 as an embedder: a decoder, each of whose tokens sees itself and those before it, so that the
//! last one, the end mark, stands for the text.

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::{rms_norm, silu};
use serde::Deserialize;

use crate::error::Error;
use crate::manifest::Pooling;
use crate::model::{ConfigFile, Layers, Rope};
use crate::packed::{self, Batch, Loader, Rotary, Sight, attention, split_heads};
use crate::weights::{WeightFile, WordTable};

/// What `config.json` says. Files of transformers 5 have `rope_parameters` in the place of
/// `rope_theta` and `rope_scaling`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    /// Width of a head, which need not be the model's width by the number of heads.
    head_dim: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    pub(crate) vocab_size: usize,
    rms_norm_eps: f64,
    hidden_act: String,
    rope_theta: Option<f64>,
    rope_scaling: Option<serde_json::Value>,
    rope_parameters: Option<Rope>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
}

impl Config {
    pub(crate) fn read(file: &ConfigFile) -> std::result::Result<Config, Error> {
        let config: Config = file.parse()?;
        file.check_layers(&Layers {
            width: config.hidden_size,
            n_layers: config.num_hidden_layers,
            n_positions: config.max_position_embeddings,
            first_position: 0,
            epsilon: ("rms_norm_eps", config.rms_norm_eps),
        })?;
        let (n_heads, n_shared) = (config.num_attention_heads, config.num_key_value_heads);
        file.check(n_heads > 0, "num_attention_heads", &0, "at least 1")?;
        file.check(
            n_shared > 0 && n_heads.is_multiple_of(n_shared),
            "num_key_value_heads",
            &n_shared,
            &format!("a divisor of {n_heads}"),
        )?;
        let d = config.head_dim;
        file.check(
            d > 0 && d.is_multiple_of(2),
            "head_dim",
            &d,
            "an even number",
        )?;
        let act = &config.hidden_act;
        file.check(act == "silu", "hidden_act", &act, "silu")?;
        for (setting, flag) in [
            ("attention_bias", config.attention_bias),
            ("use_sliding_window", config.use_sliding_window),
        ] {
            file.check(!flag, setting, &flag, "false")?;
        }
        if let Some(scaling) = &config.rope_scaling {
            file.check(false, "rope_scaling", scaling, "null")?;
        }
        config.rope().check(file)?;
        Ok(config)
    }

    pub(crate) fn fingerprint(&self) -> Vec<String> {
        vec![
            self.num_attention_heads.to_string(),
            self.num_key_value_heads.to_string(),
            self.rms_norm_eps.to_string(),
            self.rope().rope_theta.to_string(),
        ]
    }

    fn rope(&self) -> Rope {
        // What transformers takes where a file says nothing.
        let plain = Rope::plain(self.rope_theta.unwrap_or(10_000.0));
        self.rope_parameters.clone().unwrap_or(plain)
    }
}

/// A loaded model. Shapes: `t` tokens of all texts, width `h`, `n` heads of width `d`, of which the
/// keys and values have fewer.
pub(crate) struct Qwen3 {
    words: WordTable,
    n_words: usize,
    layers: Vec<Layer>,
    final_norm: Tensor,
    rotary: Rotary,
    n_heads: usize,
    n_shared: usize,
    epsilon: f32,
    pooling: Pooling,
    device: Device,
}

struct Layer {
    attention_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    /// `[d]`, for each head.
    query_norm: Tensor,
    key_norm: Tensor,
    attention_output: Tensor,
    mlp_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Qwen3 {
    pub(crate) fn load(
        file: &mut WeightFile,
        config: &Config,
        window: usize,
        pooling: Pooling,
        device: &Device,
    ) -> std::result::Result<Qwen3, Error> {
        let (h, f, d) = (
            config.hidden_size,
            config.intermediate_size,
            config.head_dim,
        );
        let all = config.num_attention_heads.saturating_mul(d);
        let shared = config.num_key_value_heads.saturating_mul(d);
        let words = file.word_table("embed_tokens.weight", config.vocab_size, h)?;
        let mut loader = Loader { file, device };
        let mut layers = Vec::new();
        for layer in 0..config.num_hidden_layers {
            let name = |part: &str| format!("layers.{layer}.{part}.weight");
            layers.push(Layer {
                attention_norm: loader.vector(&name("input_layernorm"), h)?,
                query: loader.matrix(&name("self_attn.q_proj"), h, all)?,
                key: loader.matrix(&name("self_attn.k_proj"), h, shared)?,
                value: loader.matrix(&name("self_attn.v_proj"), h, shared)?,
                query_norm: loader.vector(&name("self_attn.q_norm"), d)?,
                key_norm: loader.vector(&name("self_attn.k_norm"), d)?,
                attention_output: loader.matrix(&name("self_attn.o_proj"), all, h)?,
                mlp_norm: loader.vector(&name("post_attention_layernorm"), h)?,
                gate: loader.matrix(&name("mlp.gate_proj"), h, f)?,
                up: loader.matrix(&name("mlp.up_proj"), h, f)?,
                down: loader.matrix(&name("mlp.down_proj"), f, h)?,
            });
        }
        let final_norm = loader.vector("norm.weight", h)?;
        let rotary = Rotary::new(config.rope().rope_theta, d, window, device)
            .map_err(|error| packed::failed(device, error))?;
        Ok(Qwen3 {
            words,
            n_words: config.vocab_size,
            layers,
            final_norm,
            rotary,
            n_heads: config.num_attention_heads,
            n_shared: config.num_key_value_heads,
            epsilon: config.rms_norm_eps as f32,
            pooling,
            device: device.clone(),
        })
    }

    /// One vector a text, not normalised. `texts` are token ids, none empty.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let batch = Batch::of(texts);
        let rotary = self.rotary.of(&batch)?;
        let mut x = packed::word_vectors(&self.words, self.n_words, texts, &self.device)?;
        for layer in &self.layers {
            x = self.layer(layer, &x, &batch, &rotary)?;
        }
        batch.pool(&self.norm(&x, &self.final_norm)?, self.pooling)
    }

    fn layer(&self, layer: &Layer, x: &Tensor, batch: &Batch, rotary: &Rotary) -> Result<Tensor> {
        let normed = self.norm(x, &layer.attention_norm)?;
        let heads = |matrix: &Tensor, n: usize| split_heads(&normed.matmul(matrix)?, n);
        let query = self.norm(&heads(&layer.query, self.n_heads)?, &layer.query_norm)?;
        let key = self.norm(&heads(&layer.key, self.n_shared)?, &layer.key_norm)?;
        let value = heads(&layer.value, self.n_shared)?;
        let scale = (query.dim(2)? as f64).sqrt().recip();
        let query = (rotary.turn(&query)? * scale)?;
        let key = rotary.turn(&key)?;
        let context = attention(&query, &key, &value, batch, Sight::Before)?;
        let x = (x + context.matmul(&layer.attention_output)?)?;
        let normed = self.norm(&x, &layer.mlp_norm)?;
        let gated = (silu(&normed.matmul(&layer.gate)?)? * normed.matmul(&layer.up)?)?;
        x + gated.matmul(&layer.down)?
    }

    fn norm(&self, x: &Tensor, scale: &Tensor) -> Result<Tensor> {
        rms_norm(x, scale, self.epsilon)
    }
}
