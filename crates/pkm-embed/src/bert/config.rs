//! Whether the settings in `config.json` are those of a model that the code runs.

use super::Config;
use crate::error::Error;
use crate::model::{ConfigFile, Layers};

impl Config {
    pub(crate) fn read(file: &ConfigFile) -> Result<Config, Error> {
        let config: Config = file.parse()?;
        file.check_layers(&Layers {
            width: config.hidden_size,
            n_layers: config.num_hidden_layers,
            n_positions: config.max_position_embeddings,
            first_position: config.first_position(file.manifest.architecture),
            epsilon: ("layer_norm_eps", config.layer_norm_eps),
        })?;
        let (width, n_heads) = (config.hidden_size, config.num_attention_heads);
        file.check(
            n_heads > 0 && width.is_multiple_of(n_heads),
            "num_attention_heads",
            &n_heads,
            &format!("a divisor of {width}"),
        )?;
        let act = &config.hidden_act;
        file.check(act == "gelu", "hidden_act", &act, "gelu")?;
        file.check(
            config.type_vocab_size > 0,
            "type_vocab_size",
            &0,
            "at least 1",
        )?;
        Ok(config)
    }
}
