//! Tensors in a file, safetensors or GGUF, read one at a time.
//!
//! Nothing is mapped or held twice: a model needs the memory of its tensors and no more. Matrices
//! become f32. The word table, by far the largest tensor of a multilingual model, stays 4-bit if
//! it is so in the file; [`WordTable::add_row`] unpacks the few rows that a batch needs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_core::quantized::{GgmlDType, gguf_file};
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::error::{Damage, Error};

/// Weights in a block of Q4_0, and its bytes: an f16 scale, then 16 bytes of nibbles of which the
/// low ones are the first half (GGML's `block_q4_0`).
const BLOCK_WEIGHTS: usize = 32;
const BLOCK_BYTES: usize = 18;
const HINT: &str = "delete the model's folder and fetch the model again";

/// The file with a model's weights.
pub(crate) struct WeightFile {
    path: PathBuf,
    file: File,
    format: Format,
}

enum Format {
    Safetensors(HashMap<String, Span>),
    Gguf(gguf_file::Content),
}

struct Span {
    dtype: Dtype,
    shape: Vec<usize>,
    start: u64,
    n_bytes: usize,
}

impl WeightFile {
    pub(crate) fn open(path: &Path) -> Result<WeightFile, Error> {
        let mut file = File::open(path).map_err(|source| Error::Io {
            doing: "open",
            path: path.to_owned(),
            source,
        })?;
        let format = if path
            .extension()
            .is_some_and(|extension| extension == "gguf")
        {
            let content = gguf_file::Content::read(&mut file);
            Format::Gguf(content.map_err(|error| unreadable(path, "GGUF", error))?)
        } else {
            Format::Safetensors(spans(path, &mut file)?)
        };
        Ok(WeightFile {
            path: path.to_owned(),
            file,
            format,
        })
    }

    /// Reads tensor `name`, which must have `shape`, as f32.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let name = self.find(name, shape)?;
        match &self.format {
            Format::Gguf(content) => content
                .tensor(&mut self.file, &name, &Device::Cpu)
                .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1())
                .map_err(|error| unreadable(&self.path, "GGUF", error)),
            Format::Safetensors(spans) => {
                let span = &spans[&name];
                let mut bytes = vec![0; span.n_bytes];
                read_at(&mut self.file, span.start, &mut bytes)
                    .map_err(|error| unreadable(&self.path, "safetensors", error))?;
                widen(span.dtype, &bytes)
                    .filter(|values| values.len() == shape.iter().product::<usize>())
                    .ok_or_else(|| {
                        let reason = format!("tensor `{name}` of type {:?}", span.dtype);
                        unreadable(&self.path, "safetensors with floats", reason)
                    })
            }
        }
    }

    /// Reads the word table, of shape `[n_words, width]`, as it is in the file if it is 4-bit.
    pub(crate) fn word_table(
        &mut self,
        name: &str,
        n_words: usize,
        width: usize,
    ) -> Result<WordTable, Error> {
        let found = self.find(name, &[n_words, width])?;
        if let Format::Gguf(content) = &self.format {
            let span = &content.tensor_infos[&found];
            if span.ggml_dtype == GgmlDType::Q4_0 && width.is_multiple_of(BLOCK_WEIGHTS) {
                let mut blocks = vec![0; n_words * width / BLOCK_WEIGHTS * BLOCK_BYTES];
                read_at(
                    &mut self.file,
                    content.tensor_data_offset + span.offset,
                    &mut blocks,
                )
                .map_err(|error| unreadable(&self.path, "GGUF", error))?;
                return Ok(WordTable {
                    width,
                    rows: Rows::Q4(blocks),
                });
            }
        }
        let rows = Rows::F32(self.floats(name, &[n_words, width])?);
        Ok(WordTable { width, rows })
    }

    /// The name under which the file has tensor `name`: some models put their family before it.
    fn find(&self, name: &str, expected: &[usize]) -> Result<String, Error> {
        for candidate in [
            name.to_owned(),
            format!("bert.{name}"),
            format!("roberta.{name}"),
        ] {
            let found = match &self.format {
                Format::Safetensors(spans) => spans.get(&candidate).map(|span| &span.shape[..]),
                Format::Gguf(content) => content
                    .tensor_infos
                    .get(&candidate)
                    .map(|span| span.shape.dims()),
            };
            match found {
                Some(shape) if shape == expected => return Ok(candidate),
                Some(shape) => {
                    return Err(self.damaged(Damage::Shape {
                        name: candidate,
                        found: shape.to_vec(),
                        expected: expected.to_vec(),
                    }));
                }
                None => {}
            }
        }
        Err(self.damaged(Damage::NoTensor {
            name: name.to_owned(),
        }))
    }

    fn damaged(&self, damage: Damage) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            damage,
            hint: HINT.to_owned(),
        }
    }
}

/// The vectors of all words.
pub(crate) struct WordTable {
    width: usize,
    rows: Rows,
}

enum Rows {
    F32(Vec<f32>),
    Q4(Vec<u8>),
}

impl WordTable {
    /// Adds the vector of `word`, which must be in the table, to `sums`.
    pub(crate) fn add_row(&self, word: usize, sums: &mut [f32]) {
        match &self.rows {
            Rows::F32(values) => {
                let row = &values[word * self.width..][..self.width];
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += value;
                }
            }
            Rows::Q4(blocks) => {
                let row_bytes = self.width / BLOCK_WEIGHTS * BLOCK_BYTES;
                let row = &blocks[word * row_bytes..][..row_bytes];
                let blocks = row.chunks_exact(BLOCK_BYTES);
                for (block, sums) in blocks.zip(sums.chunks_exact_mut(BLOCK_WEIGHTS)) {
                    let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
                    let (low, high) = sums.split_at_mut(BLOCK_WEIGHTS / 2);
                    for ((byte, low), high) in block[2..].iter().zip(low).zip(high) {
                        *low += scale * (f32::from(byte & 15) - 8.0);
                        *high += scale * (f32::from(byte >> 4) - 8.0);
                    }
                }
            }
        }
    }
}

/// Where each tensor of a safetensors file lies.
fn spans(path: &Path, file: &mut File) -> Result<HashMap<String, Span>, Error> {
    let fail = |error: Box<dyn std::error::Error + Send + Sync>| Error::Unreadable {
        path: path.to_owned(),
        format: "safetensors",
        source: error,
    };
    let n_bytes = file.metadata().map_err(|error| fail(error.into()))?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|error| fail(error.into()))?;
    let n_header = u64::from_le_bytes(length);
    let start = n_header.saturating_add(8);
    if start > n_bytes {
        return Err(fail(
            format!("its header would end at byte {start} of {n_bytes}").into(),
        ));
    }
    let mut header = Vec::new();
    file.take(n_header)
        .read_to_end(&mut header)
        .map_err(|error| fail(error.into()))?;
    let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| fail(error.into()))?;
    let mut spans = HashMap::new();
    for (name, tensor) in metadata.tensors() {
        let (from, to) = tensor.data_offsets;
        let end = start.saturating_add(to as u64);
        if end > n_bytes || from > to {
            return Err(fail(
                format!("`{name}` would end at byte {end} of {n_bytes}").into(),
            ));
        }
        spans.insert(
            name,
            Span {
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                start: start + from as u64,
                n_bytes: to - from,
            },
        );
    }
    Ok(spans)
}

fn widen(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    let pairs = || bytes.as_chunks::<2>().0.iter().copied();
    match dtype {
        Dtype::F32 => Some(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .copied()
                .map(f32::from_le_bytes)
                .collect(),
        ),
        Dtype::F16 => Some(
            pairs()
                .map(|pair| f16::from_le_bytes(pair).to_f32())
                .collect(),
        ),
        Dtype::BF16 => Some(
            pairs()
                .map(|pair| bf16::from_le_bytes(pair).to_f32())
                .collect(),
        ),
        _ => None,
    }
}

fn read_at(file: &mut File, start: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}

fn unreadable(
    path: &Path,
    format: &'static str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Unreadable {
        path: path.to_owned(),
        format,
        source: error.into(),
    }
}
