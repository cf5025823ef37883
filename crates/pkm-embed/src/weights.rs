//! Tensors in a file, safetensors or GGUF, read one at a time.
//!
//! Nothing is mapped or held twice: a model needs the memory of its tensors and no more. Matrices
//! become f32 and must be finite, so that a broken one is found when the model is loaded and not by
//! the first text that has the word. The word table, by far the largest tensor of a multilingual model, stays 4-bit if
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

use crate::error::{Cause, Damage, Error, without_panic};

/// Weights in a block of Q4_0, and its bytes: an f16 scale, then 16 bytes of nibbles of which the
/// low ones are the first half (GGML's `block_q4_0`).
const BLOCK_WEIGHTS: usize = 32;
const BLOCK_BYTES: usize = 18;

/// The file with a model's weights.
pub(crate) struct WeightFile {
    path: PathBuf,
    /// What to do if it is broken.
    hint: String,
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
    /// Reads the file's list of tensors; `hint` is what to do if it is broken.
    pub(crate) fn open(path: &Path, hint: String) -> Result<WeightFile, Error> {
        let mut file = File::open(path).map_err(|source| Error::Io {
            doing: "open",
            path: path.to_owned(),
            source,
        })?;
        let is_gguf = path
            .extension()
            .is_some_and(|extension| extension == "gguf");
        let format = if is_gguf {
            gguf_content(&mut file).map(Format::Gguf)
        } else {
            spans(&mut file).map(Format::Safetensors)
        };
        match format {
            Ok(format) => Ok(WeightFile {
                path: path.to_owned(),
                hint,
                file,
                format,
            }),
            Err(source) => Err(Error::Unreadable {
                path: path.to_owned(),
                format: if is_gguf { "GGUF" } else { "safetensors" },
                hint,
                source,
            }),
        }
    }

    /// The shape of tensor `name`, if the file has it.
    pub(crate) fn shape_of(&self, name: &str) -> Option<&[usize]> {
        self.candidates(name)
            .find_map(|candidate| self.shape(&candidate))
    }

    /// Reads tensor `name`, which must have `shape`, as f32.
    pub(crate) fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let name = self.find(name, shape)?;
        let values = match &self.format {
            Format::Gguf(content) => without_panic(|| {
                content
                    .tensor(&mut self.file, &name, &Device::Cpu)
                    .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1())
            })
            .map_err(|error| self.unreadable(error))?,
            Format::Safetensors(spans) => {
                let dtype = spans[&name].dtype;
                let bytes = self.bytes(&name)?;
                widen(dtype, &bytes)
                    .ok_or_else(|| self.wrong_type(&name, format!("{dtype:?}"), "floats"))?
            }
        };
        // Block by block, so that the comparison of a block is one of many values at once.
        let is_finite = |block: &[f32]| block.iter().fold(true, |all, x| all & x.is_finite());
        if !values.chunks(1024).all(is_finite) {
            return Err(self.damaged(Damage::NotFinite { name }));
        }
        Ok(values)
    }

    /// Reads tensor `name`, `n` whole numbers, each below `end`.
    pub(crate) fn indices(&mut self, name: &str, n: usize, end: usize) -> Result<Vec<u32>, Error> {
        let name = self.find(name, &[n])?;
        let (numbers, dtype) = match &self.format {
            Format::Safetensors(spans) => {
                let dtype = spans[&name].dtype;
                let bytes = self.bytes(&name)?;
                (whole_numbers(dtype, &bytes), format!("{dtype:?}"))
            }
            Format::Gguf(content) => (
                None,
                format!("{:?}", content.tensor_infos[&name].ggml_dtype),
            ),
        };
        let Some(numbers) = numbers else {
            return Err(self.wrong_type(&name, dtype, "whole numbers"));
        };
        let below = |number: &i64| u32::try_from(*number).ok().filter(|n| (*n as usize) < end);
        match numbers.iter().find(|number| below(number).is_none()) {
            None => Ok(numbers.iter().filter_map(below).collect()),
            Some(number) => Err(self.damaged(Damage::Index {
                name,
                found: *number,
                end,
            })),
        }
    }

    /// Bytes of a tensor of a safetensors file.
    fn bytes(&mut self, name: &str) -> Result<Vec<u8>, Error> {
        let Format::Safetensors(spans) = &self.format else {
            unreachable!("only called for safetensors");
        };
        let span = &spans[name];
        let mut bytes = vec![0; span.n_bytes];
        read_at(&mut self.file, span.start, &mut bytes).map_err(|error| self.unreadable(error))?;
        Ok(bytes)
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
                .map_err(|error| self.unreadable(error))?;
                // An f16 whose exponent has all bits is infinite or not a number.
                if blocks
                    .chunks_exact(BLOCK_BYTES)
                    .any(|block| block[1] & 0x7c == 0x7c)
                {
                    return Err(self.damaged(Damage::NotFinite { name: found }));
                }
                return Ok(WordTable {
                    width,
                    rows: Rows::Q4(blocks),
                });
            }
        }
        let rows = Rows::F32(self.floats(name, &[n_words, width])?);
        Ok(WordTable { width, rows })
    }

    /// The name under which the file has tensor `name`.
    fn find(&self, name: &str, expected: &[usize]) -> Result<String, Error> {
        for candidate in self.candidates(name) {
            match self.shape(&candidate) {
                Some(shape) if shape == expected => return Ok(candidate),
                Some(shape) => {
                    return Err(self.damaged(Damage::Shape {
                        found: shape.to_vec(),
                        expected: expected.to_vec(),
                        name: candidate,
                    }));
                }
                None => {}
            }
        }
        Err(self.damaged(Damage::NoTensor {
            name: name.to_owned(),
        }))
    }

    /// Some models put their family before a tensor's name.
    fn candidates(&self, name: &str) -> impl Iterator<Item = String> {
        ["", "bert.", "roberta.", "model."]
            .map(|family| format!("{family}{name}"))
            .into_iter()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        match &self.format {
            Format::Safetensors(spans) => spans.get(name).map(|span| &span.shape[..]),
            Format::Gguf(content) => content.tensor_infos.get(name).map(|span| span.shape.dims()),
        }
    }

    fn damaged(&self, damage: Damage) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            damage,
            hint: self.hint.clone(),
        }
    }

    fn wrong_type(&self, name: &str, found: String, expected: &'static str) -> Error {
        self.damaged(Damage::Type {
            name: name.to_owned(),
            found,
            expected,
        })
    }

    fn unreadable(&self, error: impl Into<Cause>) -> Error {
        Error::Unreadable {
            path: self.path.clone(),
            format: match self.format {
                Format::Safetensors(_) => "safetensors",
                Format::Gguf(_) => "GGUF",
            },
            hint: self.hint.clone(),
            source: error.into(),
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
    /// Length of a word's vector.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

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
fn spans(file: &mut File) -> Result<HashMap<String, Span>, Cause> {
    let n_bytes = file.metadata()?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let n_header = u64::from_le_bytes(length);
    let start = n_header.saturating_add(8);
    if start > n_bytes {
        return Err(format!("its header would end at byte {start} of {n_bytes}").into());
    }
    let mut header = Vec::new();
    file.take(n_header).read_to_end(&mut header)?;
    // Refuses tensors that overlap, leave gaps, or do not have the bytes of their shape.
    let metadata: Metadata = serde_json::from_slice(&header)?;
    let mut spans = HashMap::new();
    let mut last = start;
    for (name, tensor) in metadata.tensors() {
        let (from, to) = tensor.data_offsets;
        let end = start.saturating_add(to as u64);
        if end > n_bytes {
            return Err(format!("`{name}` would end at byte {end} of {n_bytes}").into());
        }
        last = last.max(end);
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
    if last < n_bytes {
        return Err(format!("its last tensor ends at byte {last} of {n_bytes}").into());
    }
    Ok(spans)
}

/// The list of tensors of a GGUF file, each of which lies inside the file.
fn gguf_content(file: &mut File) -> Result<gguf_file::Content, Cause> {
    let n_bytes = file.metadata()?.len();
    let content = without_panic(|| gguf_file::Content::read(file))?;
    for (name, span) in &content.tensor_infos {
        let (shape, kind) = (span.shape.dims(), span.ggml_dtype);
        let size = shape
            .iter()
            .try_fold(1_usize, |product, side| product.checked_mul(*side))
            .filter(|n_weights| n_weights.is_multiple_of(kind.block_size()))
            .and_then(|n_weights| (n_weights / kind.block_size()).checked_mul(kind.type_size()));
        let Some(size) = size else {
            return Err(format!("`{name}` cannot have shape {shape:?}").into());
        };
        let end = content
            .tensor_data_offset
            .saturating_add(span.offset)
            .saturating_add(size as u64);
        if end > n_bytes {
            return Err(format!("`{name}` would end at byte {end} of {n_bytes}").into());
        }
    }
    Ok(content)
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
        Dtype::F64 => Some(
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|bytes| f64::from_le_bytes(*bytes) as f32)
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

fn whole_numbers(dtype: Dtype, bytes: &[u8]) -> Option<Vec<i64>> {
    match dtype {
        Dtype::I64 => Some(
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .copied()
                .map(i64::from_le_bytes)
                .collect(),
        ),
        Dtype::I32 => Some(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| i64::from(i32::from_le_bytes(*bytes)))
                .collect(),
        ),
        _ => None,
    }
}

fn read_at(file: &mut File, start: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(bytes)
}
