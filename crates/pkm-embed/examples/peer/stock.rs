//! candle-transformers' own BERT, used as its examples do: sorted by length, filled up to the
//! longest of a batch, mean over the tokens.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config, HiddenAct};
use pkm_embed::{Architecture, Manifest, Pooling, Prefixes, Role};
use serde_json::Value;
use tokenizers::{Tokenizer, TruncationParams};

use crate::Result;

pub(crate) struct Stock {
    model: BertModel,
    tokenizer: Tokenizer,
    prefixes: Prefixes,
}

impl Stock {
    pub(crate) fn load(manifest: &Manifest, folder: &Path, weights: &Path) -> Result<Stock> {
        if manifest.architecture != Architecture::Bert || manifest.pooling != Pooling::Mean {
            return Err("only a BERT with mean pooling runs on this engine".into());
        }
        if weights.extension().is_none_or(|e| e != "safetensors") {
            return Err("its BERT reads safetensors only".into());
        }
        let settings = std::fs::read_to_string(folder.join("config.json"))?;
        let settings: Value = serde_json::from_str(&settings)?;
        let number = |key: &str| {
            let number = settings[key].as_u64();
            number.ok_or_else(|| format!("config.json has no `{key}`"))
        };
        let config = Config {
            vocab_size: number("vocab_size")? as usize,
            hidden_size: number("hidden_size")? as usize,
            num_hidden_layers: number("num_hidden_layers")? as usize,
            num_attention_heads: number("num_attention_heads")? as usize,
            intermediate_size: number("intermediate_size")? as usize,
            max_position_embeddings: number("max_position_embeddings")? as usize,
            type_vocab_size: number("type_vocab_size")? as usize,
            layer_norm_eps: settings["layer_norm_eps"]
                .as_f64()
                .ok_or("config.json has no `layer_norm_eps`")?,
            hidden_act: HiddenAct::Gelu,
            ..Config::default()
        };
        let tensors = std::fs::read(weights)?;
        let tensors = VarBuilder::from_buffered_safetensors(tensors, DType::F32, &Device::Cpu)?;
        let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(Some(TruncationParams {
            max_length: manifest.window,
            ..TruncationParams::default()
        }))?;
        Ok(Stock {
            model: BertModel::load(tensors, &config)?,
            tokenizer,
            prefixes: manifest.prefixes.clone(),
        })
    }

    pub(crate) fn embed(
        &self,
        texts: &[&str],
        role: Role,
        batch: usize,
    ) -> Result<(Vec<Vec<f32>>, usize)> {
        let prefix = match role {
            Role::Query => &self.prefixes.query,
            Role::Passage => &self.prefixes.passage,
        };
        let texts: Vec<String> = texts
            .iter()
            .map(|text| format!("{prefix}{}", text.trim()))
            .collect();
        let tokens = self.tokenizer.encode_batch(texts, true)?;
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|text| tokens[*text].len());
        let mut vectors = vec![Vec::new(); tokens.len()];
        for batch in order.chunks(batch.max(1)) {
            let ids: Vec<&[u32]> = batch.iter().map(|text| tokens[*text].get_ids()).collect();
            for (text, vector) in batch.iter().zip(self.forward(&ids)?) {
                vectors[*text] = vector;
            }
        }
        Ok((vectors, tokens.iter().map(|tokens| tokens.len()).sum()))
    }

    fn forward(&self, texts: &[&[u32]]) -> candle_core::Result<Vec<Vec<f32>>> {
        let longest = texts.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let shape = (texts.len(), longest);
        let (mut ids, mut mask) = (Vec::new(), Vec::new());
        for text in texts {
            ids.extend_from_slice(text);
            ids.resize(ids.len() + longest - text.len(), 0);
            mask.resize(mask.len() + text.len(), 1_u32);
            mask.resize(ids.len(), 0);
        }
        let ids = Tensor::from_vec(ids, shape, &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
        let x = self.model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
        let weights = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
        let sums = x.broadcast_mul(&weights)?.sum(1)?;
        let means = sums.broadcast_div(&weights.sum(1)?)?;
        let lengths = means.sqr()?.sum_keepdim(1)?.sqrt()?;
        means.broadcast_div(&lengths)?.to_vec2()
    }
}
