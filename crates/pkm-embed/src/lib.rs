//! Text in, unit vectors out: models, tokenizers and the encoder.
