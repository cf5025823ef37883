//! ModernBERT (Warner et al., 2024): rotary positions, layers that see the whole text and layers that
//! see a window of it, gated linear units, norms before the layers and no biases.

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::layer_norm;
use serde::Deserialize;

use crate::error::Error;
use crate::manifest::Pooling;
use crate::model::{ConfigFile, Layers, Rope};
use crate::packed::{self, Batch, Loader, Rotary, Sight, attention, split_heads};
use crate::weights::{WeightFile, WordTable};

/// What `config.json` says. Files of transformers 5 have `layer_types` and `rope_parameters` in the
/// place of `global_attn_every_n_layers` and the two thetas.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    pub(crate) vocab_size: usize,
    #[serde(default = "default_epsilon")]
    norm_eps: f64,
    #[serde(default = "default_activation")]
    hidden_activation: String,
    /// Tokens that a local layer sees, half of them on each side.
    #[serde(default = "default_window")]
    local_attention: usize,
    #[serde(default = "default_period")]
    global_attn_every_n_layers: usize,
    layer_types: Option<Vec<String>>,
    #[serde(default = "default_global_theta")]
    global_rope_theta: f64,
    #[serde(default = "default_local_theta")]
    local_rope_theta: Option<f64>,
    rope_parameters: Option<RopeParameters>,
    rope_scaling: Option<serde_json::Value>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    norm_bias: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct RopeParameters {
    full_attention: Option<Rope>,
    sliding_attention: Option<Rope>,
}

fn default_epsilon() -> f64 {
    1e-5
}

fn default_activation() -> String {
    "gelu".to_owned()
}

fn default_window() -> usize {
    128
}

fn default_period() -> usize {
    3
}

fn default_global_theta() -> f64 {
    160_000.0
}

fn default_local_theta() -> Option<f64> {
    Some(10_000.0)
}

impl Config {
    pub(crate) fn read(file: &ConfigFile) -> std::result::Result<Config, Error> {
        let config: Config = file.parse()?;
        file.check_layers(&Layers {
            width: config.hidden_size,
            n_layers: config.num_hidden_layers,
            n_positions: config.max_position_embeddings,
            first_position: 0,
            epsilon: ("norm_eps", config.norm_eps),
        })?;
        let (width, n_heads) = (config.hidden_size, config.num_attention_heads);
        file.check(
            // Half of a head is turned against the other half.
            n_heads > 0 && width.is_multiple_of(n_heads) && (width / n_heads).is_multiple_of(2),
            "num_attention_heads",
            &n_heads,
            &format!("a divisor of {width} that leaves an even width"),
        )?;
        let act = &config.hidden_activation;
        file.check(act == "gelu", "hidden_activation", &act, "gelu")?;
        let period = config.global_attn_every_n_layers;
        file.check(period > 0, "global_attn_every_n_layers", &0, "at least 1")?;
        if let Some(types) = &config.layer_types {
            let known = |name: &String| name == "full_attention" || name == "sliding_attention";
            file.check(
                types.len() == config.num_hidden_layers && types.iter().all(known),
                "layer_types",
                &format!("{types:?}"),
                "`full_attention` or `sliding_attention` for each layer",
            )?;
        }
        for (setting, bias) in [
            ("attention_bias", config.attention_bias),
            ("mlp_bias", config.mlp_bias),
            ("norm_bias", config.norm_bias),
        ] {
            file.check(!bias, setting, &bias, "false")?;
        }
        if let Some(scaling) = &config.rope_scaling {
            file.check(false, "rope_scaling", scaling, "null")?;
        }
        for rope in config.ropes() {
            rope.check(file)?;
        }
        Ok(config)
    }

    pub(crate) fn fingerprint(&self) -> Vec<String> {
        let pattern = |layer| if self.is_global(layer) { 'g' } else { 'l' };
        let [global, local] = self.ropes();
        vec![
            self.num_attention_heads.to_string(),
            self.norm_eps.to_string(),
            (self.local_attention / 2).to_string(),
            (0..self.num_hidden_layers).map(pattern).collect(),
            global.rope_theta.to_string(),
            local.rope_theta.to_string(),
        ]
    }

    fn is_global(&self, layer: usize) -> bool {
        match &self.layer_types {
            Some(types) => types[layer] == "full_attention",
            None => layer.is_multiple_of(self.global_attn_every_n_layers),
        }
    }

    /// Of the layers that see everything, and of those that do not.
    fn ropes(&self) -> [Rope; 2] {
        let global = Rope::plain(self.global_rope_theta);
        let local = self.local_rope_theta.map_or(global.clone(), Rope::plain);
        match &self.rope_parameters {
            Some(RopeParameters {
                full_attention,
                sliding_attention,
            }) => [
                full_attention.clone().unwrap_or(global),
                sliding_attention.clone().unwrap_or(local),
            ],
            None => [global, local],
        }
    }
}

/// A loaded model. Shapes: `t` tokens of all texts, width `h`, `n` heads.
pub(crate) struct ModernBert {
    words: WordTable,
    n_words: usize,
    word_norm: Norm,
    layers: Vec<Layer>,
    final_norm: Norm,
    global: Rotary,
    local: Rotary,
    n_heads: usize,
    pooling: Pooling,
    device: Device,
}

struct Layer {
    sight: Sight,
    /// None in the first layer, whose input has been normalised already.
    attention_norm: Option<Norm>,
    /// `[h, 3h]`.
    query_key_value: Tensor,
    attention_output: Tensor,
    mlp_norm: Norm,
    /// What passes, then the gate: `[h, 2f]`.
    up: Tensor,
    down: Tensor,
}

struct Norm {
    scale: Tensor,
    shift: Tensor,
    epsilon: f32,
}

impl Norm {
    fn load(loader: &mut Loader, name: &str, config: &Config) -> std::result::Result<Norm, Error> {
        let scale = loader.vector(&format!("{name}.weight"), config.hidden_size)?;
        let shift = scale
            .zeros_like()
            .map_err(|error| packed::failed(loader.device, error))?;
        Ok(Norm {
            scale,
            shift,
            epsilon: config.norm_eps as f32,
        })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.scale, &self.shift, self.epsilon)
    }
}

impl ModernBert {
    pub(crate) fn load(
        file: &mut WeightFile,
        config: &Config,
        window: usize,
        pooling: Pooling,
        device: &Device,
    ) -> std::result::Result<ModernBert, Error> {
        let (h, f) = (config.hidden_size, config.intermediate_size);
        let words = file.word_table("embeddings.tok_embeddings.weight", config.vocab_size, h)?;
        let mut loader = Loader { file, device };
        let word_norm = Norm::load(&mut loader, "embeddings.norm", config)?;
        let mut layers = Vec::new();
        for layer in 0..config.num_hidden_layers {
            let name = |part: &str| format!("layers.{layer}.{part}");
            layers.push(Layer {
                sight: if config.is_global(layer) {
                    Sight::All
                } else {
                    Sight::Near(config.local_attention / 2)
                },
                attention_norm: match layer {
                    0 => None,
                    _ => Some(Norm::load(&mut loader, &name("attn_norm"), config)?),
                },
                query_key_value: loader.matrix(&name("attn.Wqkv.weight"), h, h * 3)?,
                attention_output: loader.matrix(&name("attn.Wo.weight"), h, h)?,
                mlp_norm: Norm::load(&mut loader, &name("mlp_norm"), config)?,
                up: loader.matrix(&name("mlp.Wi.weight"), h, f.saturating_mul(2))?,
                down: loader.matrix(&name("mlp.Wo.weight"), f, h)?,
            });
        }
        let final_norm = Norm::load(&mut loader, "final_norm", config)?;
        let d = h / config.num_attention_heads;
        let [global, local] = config.ropes().map(|rope| {
            Rotary::new(rope.rope_theta, d, window, device)
                .map_err(|error| packed::failed(device, error))
        });
        Ok(ModernBert {
            words,
            n_words: config.vocab_size,
            word_norm,
            layers,
            final_norm,
            global: global?,
            local: local?,
            n_heads: config.num_attention_heads,
            pooling,
            device: device.clone(),
        })
    }

    /// One vector a text, not normalised. `texts` are token ids, none empty.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let batch = Batch::of(texts);
        let [global, local] = [self.global.of(&batch)?, self.local.of(&batch)?];
        let words = packed::word_vectors(&self.words, self.n_words, texts, &self.device)?;
        let mut x = self.word_norm.apply(&words)?;
        for layer in &self.layers {
            let rotary = if layer.sight == Sight::All {
                &global
            } else {
                &local
            };
            x = self.layer(layer, &x, &batch, rotary)?;
        }
        batch.pool(&self.final_norm.apply(&x)?, self.pooling)
    }

    fn layer(&self, layer: &Layer, x: &Tensor, batch: &Batch, rotary: &Rotary) -> Result<Tensor> {
        let (t, h) = x.dims2()?;
        let normed = layer.attention_norm.as_ref().map(|norm| norm.apply(x));
        let normed = normed.unwrap_or_else(|| Ok(x.clone()))?;
        let qkv = normed.matmul(&layer.query_key_value)?;
        let part = |nth: usize| split_heads(&qkv.narrow(1, nth * h, h)?, self.n_heads);
        let scale = ((h / self.n_heads) as f64).sqrt().recip();
        let query = (rotary.turn(&part(0)?)? * scale)?;
        let key = rotary.turn(&part(1)?)?;
        let context = attention(&query, &key, &part(2)?, batch, layer.sight)?;
        let x = (x + context.matmul(&layer.attention_output)?)?;
        let up = layer.mlp_norm.apply(&x)?.matmul(&layer.up)?;
        let f = up.dim(1)? / 2;
        let passes = up.narrow(1, 0, f)?.contiguous()?.gelu_erf()?;
        let gated = (passes * up.narrow(1, f, f)?)?;
        debug_assert_eq!(gated.dims2()?, (t, f));
        x + gated.matmul(&layer.down)?
    }
}
