//! What one can ask of notes, in plain data.

mod chunk;
mod decode;
mod folder;
mod markdown;
