//! Models that are broken in every way we could think of: refused with the file, what is wrong in it
//! and what to do, and never with a panic.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use candle_core::Device;
use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use common::{tiny_folder, tiny_manifest, words};
use pkm_embed::{DeviceChoice, Embedder, Encoder, Error, Manifest, Role};
use serde_json::{Value, json};

const FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
const ALL: [&str; 6] = [
    "tiny-bert",
    "tiny-xlm-roberta",
    "tiny-modernbert",
    "tiny-qwen3",
    "tiny-static",
    "tiny-static-mapped",
];
/// Those with layers, and a tensor of each that is neither the first nor the last in its file.
const LAYERED: [(&str, &str); 4] = [
    ("tiny-bert", "encoder.layer.1.attention.output.dense.weight"),
    (
        "tiny-xlm-roberta",
        "encoder.layer.1.attention.output.dense.weight",
    ),
    ("tiny-modernbert", "layers.1.attn.Wo.weight"),
    ("tiny-qwen3", "layers.1.mlp.down_proj.weight"),
];

/// A copy of a tiny model that a test may break.
struct Copy {
    folder: tempfile::TempDir,
    manifest: Manifest,
}

impl Copy {
    fn of(name: &str) -> Copy {
        let folder = tempfile::tempdir().unwrap();
        for file in FILES {
            fs::copy(tiny_folder(name).join(file), folder.path().join(file)).unwrap();
        }
        let manifest = tiny_manifest(name);
        Copy { folder, manifest }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.path(file)).unwrap()
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(file), bytes).unwrap();
    }

    /// Loads the model and, if that works, embeds with it.
    fn load(&self) -> Result<(), Error> {
        let encoder = Encoder::load(&self.manifest, self.folder.path(), DeviceChoice::Cpu)?;
        let embedded = encoder.embed(&["", "the cat", "김치찌개 🍋"], Role::Query)?;
        assert_eq!(embedded.vectors.len(), 3);
        Ok(())
    }

    /// Fails to load with words that name the `file`, hold all `parts` and say what to do.
    fn check(&self, file: &str, parts: &[&str]) {
        let error = match self.load() {
            Ok(()) => panic!("a broken `{file}` was taken: {parts:?}"),
            Err(error) => words(&error),
        };
        for part in parts.iter().chain([&file, &"hint: "]) {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
        assert!(!error.contains("its reader stopped"), "a panic: {error}");
    }

    fn edit_json(&self, file: &str, edit: impl FnOnce(&mut Value)) {
        let mut value = serde_json::from_slice(&self.read(file)).unwrap();
        edit(&mut value);
        self.write(file, serde_json::to_vec(&value).unwrap());
    }

    fn set(&self, setting: &str, value: Value) {
        self.edit_json("config.json", |config| config[setting] = value);
    }

    /// Changes the header of the weights, and leaves what follows it as it is.
    fn edit_header(&self, edit: impl FnOnce(&mut Value)) {
        let bytes = self.read("model.safetensors");
        let (header, body) = parts(&bytes);
        let mut header: Value = serde_json::from_slice(header).unwrap();
        edit(&mut header);
        let header = serde_json::to_vec(&header).unwrap();
        self.write("model.safetensors", whole(&header, body));
    }

    fn header(&self) -> Value {
        serde_json::from_slice(parts(&self.read("model.safetensors")).0).unwrap()
    }
}

/// The header of a safetensors file, and what follows it.
fn parts(bytes: &[u8]) -> (&[u8], &[u8]) {
    let n_header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8..].split_at(n_header)
}

fn whole(header: &[u8], body: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, body].concat()
}

#[test]
fn the_models_are_sound_before_they_are_broken() {
    for name in ALL {
        Copy::of(name).load().unwrap();
    }
}

#[test]
fn a_file_that_is_empty_or_ends_early_is_refused() {
    for name in ALL {
        let copy = Copy::of(name);
        for file in FILES {
            let bytes = copy.read(file);
            copy.write(file, "");
            copy.check(file, &["is empty"]);
            let places = [1, 7, 8, 9, 100, bytes.len() / 2, bytes.len() - 3];
            for place in places {
                copy.write(file, &bytes[..place]);
                copy.check(file, &["cannot be read as"]);
            }
            copy.write(file, &bytes);
        }
        copy.load().unwrap();
    }
}

#[test]
fn what_is_no_json_is_refused() {
    for name in ALL {
        for file in ["config.json", "tokenizer.json"] {
            let copy = Copy::of(name);
            for text in [
                "<html>not found</html>",
                "null",
                "[]",
                "{}",
                "{\"a\":",
                "\u{0}\u{0}",
            ] {
                // Word vectors have no settings that they could not do without.
                if (file, text) == ("config.json", "{}") && name.starts_with("tiny-static") {
                    continue;
                }
                copy.write(file, text);
                copy.check(file, &["cannot be read as"]);
            }
            copy.write(file, [0xff; 100]);
            copy.check(file, &["cannot be read as"]);
        }
    }
}

#[test]
fn weights_with_a_broken_header_are_refused() {
    let file = "model.safetensors";
    for (name, tensor) in LAYERED {
        let copy = Copy::of(name);
        let bytes = copy.read(file);
        let (header, body) = parts(&bytes);
        for length in [u64::MAX, u64::MAX - 8, 1 << 40, bytes.len() as u64] {
            let mut broken = bytes.clone();
            broken[..8].copy_from_slice(&length.to_le_bytes());
            copy.write(file, broken);
            copy.check(file, &["header would end at byte"]);
        }
        copy.write(file, whole(&[header, b"garbage"].concat(), body));
        copy.check(file, &["cannot be read as safetensors", "trailing"]);
        copy.write(file, whole(b"", body));
        copy.check(file, &["cannot be read as safetensors"]);
        copy.write(file, [&bytes[..], b"more"].concat());
        copy.check(file, &["its last tensor ends at byte"]);
        copy.write(file, &bytes);

        let offsets = |from: u64, to: u64| {
            copy.write(file, &bytes);
            copy.edit_header(|header| header[tensor]["data_offsets"] = json!([from, to]));
        };
        let old = &copy.header()[tensor]["data_offsets"];
        let (from, to) = (old[0].as_u64().unwrap(), old[1].as_u64().unwrap());
        // Over its neighbour, backwards, past the end, too far to be added to anything.
        for (from, to) in [
            (from - 4, to - 4),
            (to, from),
            (from, to - 4),
            (1 << 40, (1 << 40) + to - from),
            (u64::MAX - (to - from), u64::MAX),
        ] {
            offsets(from, to);
            copy.check(file, &["cannot be read as safetensors"]);
        }
        for shape in [
            json!([u64::MAX, u64::MAX]),
            json!([1_u64 << 40]),
            json!([-1]),
            json!("x"),
        ] {
            copy.write(file, &bytes);
            copy.edit_header(|header| header[tensor]["shape"] = shape);
            copy.check(file, &["cannot be read as safetensors"]);
        }
    }
}

#[test]
fn a_tensor_of_another_type_or_shape_or_none_is_refused_by_name() {
    let file = "model.safetensors";
    for (name, tensor) in LAYERED {
        let copy = Copy::of(name);
        let bytes = copy.read(file);
        let n_bytes = |copy: &Copy| {
            let at = &copy.header()[tensor]["data_offsets"];
            at[1].as_u64().unwrap() - at[0].as_u64().unwrap()
        };
        for (dtype, size) in [("I64", 8), ("U8", 1), ("I32", 4), ("BOOL", 1)] {
            copy.write(file, &bytes);
            let n_values = n_bytes(&copy) / size;
            // The bytes stay, so that only the type is wrong.
            copy.edit_header(|header| {
                header[tensor]["dtype"] = json!(dtype);
                header[tensor]["shape"] = json!([32, n_values / 32]);
            });
            let error = words(&copy.load().unwrap_err());
            assert!(
                error.contains(tensor) && error.contains("hint: "),
                "{error}"
            );
            if n_values == 32 * 32 {
                assert!(error.contains(dtype), "{error}");
            }
        }
        copy.write(file, &bytes);
        let n_values: u64 = copy.header()[tensor]["shape"]
            .as_array()
            .unwrap()
            .iter()
            .map(|side| side.as_u64().unwrap())
            .product();
        for shape in [
            json!([n_values]),
            json!([1, n_values]),
            json!([n_values / 16, 16]),
        ] {
            copy.write(file, &bytes);
            copy.edit_header(|header| header[tensor]["shape"] = shape);
            copy.check(file, &[tensor, "of shape ["]);
        }
        copy.write(file, &bytes);
        copy.edit_header(|header| {
            let found = header.as_object_mut().unwrap().remove(tensor).unwrap();
            header["elsewhere"] = found;
        });
        copy.check(file, &["no tensor", tensor]);
    }
}

#[test]
fn a_value_that_is_not_finite_is_found_in_every_tensor() {
    let file = "model.safetensors";
    for name in ALL {
        let copy = Copy::of(name);
        let bytes = copy.read(file);
        let (header, body) = parts(&bytes);
        let start = 8 + header.len();
        for (tensor, found) in copy.header().as_object().unwrap() {
            let Some(offsets) = found.get("data_offsets") else {
                continue;
            };
            let end = start + offsets[1].as_u64().unwrap() as usize;
            // The last value: NaN, infinite, NaN with a sign.
            let broken: &[&[u8]] = match found["dtype"].as_str().unwrap() {
                "F32" => &[
                    &[0, 0, 0xc0, 0x7f],
                    &[0, 0, 0x80, 0x7f],
                    &[1, 0, 0xc0, 0xff],
                ],
                "F16" => &[&[0, 0x7e], &[0, 0x7c], &[1, 0xfe]],
                "BF16" => &[&[0xc0, 0x7f], &[0x80, 0x7f], &[0xc1, 0xff]],
                "F64" => &[
                    &[0, 0, 0, 0, 0, 0, 0xf8, 0x7f],
                    &[0, 0, 0, 0, 0, 0, 0xf0, 0x7f],
                ],
                // Whole numbers are always finite.
                "I64" => &[],
                other => panic!("{other}"),
            };
            for value in broken {
                let mut bytes = bytes.clone();
                bytes[end - value.len()..end].copy_from_slice(value);
                copy.write(file, bytes);
                copy.check(file, &[tensor, "not finite"]);
            }
        }
        assert!(!body.is_empty());
    }
}

#[test]
fn settings_that_no_model_has_are_refused_without_much_memory_or_time() {
    let huge = json!(1_000_000_000_000_u64);
    let most = json!(u64::MAX);
    let check = |name: &str, setting: &str, value: &Value| {
        let copy = Copy::of(name);
        copy.set(setting, value.clone());
        let error = match copy.load() {
            Ok(()) => panic!("{name}: `{setting}` = {value} was taken"),
            Err(error) => words(&error),
        };
        // Where a number is possible, it is the weights or the words that it does not fit.
        let named = FILES.iter().any(|file| error.contains(file));
        assert!(
            named && error.contains("hint: "),
            "`{setting}` = {value}: {error}"
        );
    };
    for (name, _) in LAYERED {
        for setting in [
            "hidden_size",
            "num_attention_heads",
            "num_hidden_layers",
            "intermediate_size",
            "vocab_size",
        ] {
            for value in [
                &json!(0),
                &json!(-1),
                &json!(1.5),
                &json!("4"),
                &huge,
                &most,
            ] {
                check(name, setting, value);
            }
        }
        for value in [&json!(0), &json!(-1)] {
            check(name, "max_position_embeddings", value);
        }
        check(name, "position_embedding_type", &json!("relative_key"));
        check(name, "is_decoder", &json!(true));
        check(name, "model_type", &json!("gpt2"));
        let (epsilon, activation) = match name {
            "tiny-modernbert" => ("norm_eps", "hidden_activation"),
            "tiny-qwen3" => ("rms_norm_eps", "hidden_act"),
            _ => ("layer_norm_eps", "hidden_act"),
        };
        for value in [json!(0.0), json!(-1.0), json!(1e30)] {
            check(name, epsilon, &value);
        }
        for value in ["relu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu"] {
            check(name, activation, &json!(value));
        }
    }
    for name in ["tiny-bert", "tiny-xlm-roberta"] {
        check(name, "num_attention_heads", &json!(5));
        check(name, "max_position_embeddings", &huge);
        for value in [&json!(0), &json!(-1), &huge, &most] {
            check(name, "type_vocab_size", value);
        }
    }
    check("tiny-xlm-roberta", "pad_token_id", &huge);
    check("tiny-xlm-roberta", "pad_token_id", &most);
    let name = "tiny-modernbert";
    for setting in ["attention_bias", "mlp_bias", "norm_bias"] {
        check(name, setting, &json!(true));
    }
    check(name, "num_attention_heads", &json!(32));
    check(name, "global_attn_every_n_layers", &json!(0));
    check(name, "layer_types", &json!(["full_attention"]));
    check(name, "layer_types", &json!(["a", "b", "c", "d"]));
    for theta in [json!(0), json!(-1), json!(1e300), json!("x")] {
        check(name, "global_rope_theta", &theta);
        check(name, "local_rope_theta", &theta);
    }
    check(
        name,
        "rope_scaling",
        &json!({"type": "yarn", "factor": 4.0}),
    );
    let scaled = json!({"full_attention": {"rope_theta": 1e4, "rope_type": "yarn"}});
    check(name, "rope_parameters", &scaled);
    let name = "tiny-qwen3";
    for value in [&json!(0), &json!(3), &huge, &most] {
        check(name, "num_key_value_heads", value);
    }
    for value in [
        &json!(0),
        &json!(15),
        &json!(32),
        &huge,
        &json!(u64::MAX - 1),
    ] {
        check(name, "head_dim", value);
    }
    check(name, "rope_theta", &json!(0));
    check(
        name,
        "rope_scaling",
        &json!({"rope_type": "yarn", "factor": 4.0}),
    );
    check(name, "use_sliding_window", &json!(true));
    check(name, "attention_bias", &json!(true));
    check("tiny-static", "hidden_dim", &json!(64));
    check("tiny-static", "model_type", &json!("bert"));
}

#[test]
fn files_of_another_model_are_refused() {
    let read = |name: &str, file: &str| fs::read(tiny_folder(name).join(file)).unwrap();
    for name in ALL {
        for other in ALL.into_iter().filter(|other| *other != name) {
            let both = [name, other].map(|name| tiny_manifest(name).architecture);
            if both[0] == both[1] {
                continue;
            }
            let copy = Copy::of(name);
            copy.write("config.json", read(other, "config.json"));
            copy.check("config.json", &["`model_type` is"]);
            // The two of the BERT family hold the same tensors, of other shapes.
            let copy = Copy::of(name);
            copy.write("model.safetensors", read(other, "model.safetensors"));
            copy.check("model.safetensors", &["tensor `"]);
        }
    }
}

#[test]
fn a_tokenizer_with_words_that_the_model_lacks_is_refused() {
    let file = "tokenizer.json";
    for (name, _) in LAYERED {
        let copy = Copy::of(name);
        let n_words: Value = serde_json::from_slice(&copy.read("config.json")).unwrap();
        let n_words = n_words["vocab_size"].as_u64().unwrap();
        let added = |id: u64| {
            json!({"id": id, "content": "[EXTRA]", "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": false})
        };
        // One word more, at the end of the vocabulary.
        let sound = copy.read(file);
        copy.edit_json(file, |tokenizer| {
            tokenizer["added_tokens"]
                .as_array_mut()
                .unwrap()
                .push(added(n_words));
        });
        copy.check(file, &["token id", "words"]);
        // As many words, one of them far outside.
        copy.write(file, &sound);
        copy.edit_json(file, |tokenizer| {
            // Otherwise the pairs would be refused that made the word.
            if let Some(merges) = tokenizer["model"]["merges"].as_array_mut() {
                merges.clear();
            }
            if let Some(vocab) = tokenizer["model"]["vocab"].as_object_mut() {
                let (word, _) = vocab.iter().next_back().unwrap();
                let word = word.clone();
                vocab[&word] = json!(1_000_000);
            } else {
                // Words without ids: they count from 0.
                let vocab = tokenizer["model"]["vocab"].as_array_mut().unwrap();
                vocab.push(json!(["▁extra", -1.0]));
            }
        });
        copy.check(file, &["token id", "words"]);
        // The mark around every text.
        copy.write(file, &sound);
        copy.edit_json(file, |tokenizer| {
            let specials = tokenizer["post_processor"]["special_tokens"].as_object_mut();
            for (_, token) in specials.unwrap() {
                token["ids"] = json!([999_999]);
            }
        });
        copy.check(file, &["token id 999999"]);
        // Nothing for a letter that it does not know.
        copy.write(file, &sound);
        copy.edit_json(file, |tokenizer| {
            let model = tokenizer["model"].as_object_mut().unwrap();
            if model.remove("unk_id").is_none() {
                model["unk_token"] = json!("[NONE]");
            }
        });
        if name == "tiny-bert" || name == "tiny-xlm-roberta" {
            copy.check(file, &["cannot be read as a tokenizer"]);
        }
        // No mark at all, so that an empty text would have no token.
        copy.write(file, &sound);
        copy.edit_json(file, |tokenizer| tokenizer["post_processor"] = Value::Null);
        copy.check(file, &["makes 0 tokens of an empty text"]);
        // Marks that leave no room for words.
        copy.write(file, &sound);
        copy.edit_json(file, |tokenizer| {
            let template = tokenizer["post_processor"]["single"]
                .as_array_mut()
                .unwrap();
            let mark = template.last().unwrap().clone();
            template.extend(std::iter::repeat_n(mark, 100));
        });
        copy.check(file, &["tokens of an empty text"]);
    }
}

#[test]
fn a_prefix_that_fills_the_window_is_refused() {
    let mut copy = Copy::of("tiny-bert");
    copy.manifest.prefixes.query = "cat ".repeat(100);
    copy.check("tokenizer.json", &["tokens of an empty text"]);
}

/// A generator of numbers, the same in every run (Numerical Recipes).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

#[test]
fn flipped_bytes_never_make_a_panic() {
    let mut dice = Dice(7);
    for name in ALL {
        for file in FILES {
            let copy = Copy::of(name);
            let sound = copy.read(file);
            let n_bytes = match file {
                "model.safetensors" => 8 + parts(&sound).0.len(),
                _ => sound.len(),
            };
            for _ in 0..150 {
                let mut bytes = sound.clone();
                for _ in 0..=dice.roll(3) {
                    let place = dice.roll(n_bytes);
                    bytes[place] = match dice.roll(3) {
                        0 => dice.roll(256) as u8,
                        1 => bytes[place] ^ (1 << dice.roll(8)),
                        _ => b"0123456789{}[],:\"-e."[dice.roll(20)],
                    };
                }
                copy.write(file, &bytes);
                let loaded = catch_unwind(AssertUnwindSafe(|| copy.load()));
                match loaded {
                    Ok(Ok(()) | Err(_)) => {}
                    Err(_) => {
                        let kept = std::env::temp_dir().join(format!("pkm-broken-{name}-{file}"));
                        fs::write(&kept, &bytes).unwrap();
                        panic!("a panic, by what is in {}", kept.display());
                    }
                }
            }
        }
    }
}

/// The tiny BERT with its weights as GGUF, the word table in 4 bits.
fn gguf() -> (Copy, Vec<u8>) {
    let mut copy = Copy::of("tiny-bert");
    let tensors = candle_core::safetensors::load(copy.path("model.safetensors"), &Device::Cpu);
    let mut tensors: Vec<(String, QTensor)> = tensors
        .unwrap()
        .into_iter()
        .map(|(name, tensor)| {
            let is_table = name == "embeddings.word_embeddings.weight";
            let kind = if is_table {
                GgmlDType::Q4_0
            } else {
                GgmlDType::F32
            };
            (name, QTensor::quantize(&tensor, kind).unwrap())
        })
        .collect();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (&name[..], t)).collect();
    let alignment = gguf_file::Value::U32(32);
    let mut bytes = std::io::Cursor::new(Vec::new());
    gguf_file::write(&mut bytes, &[("general.alignment", &alignment)], &tensors).unwrap();
    fs::remove_file(copy.path("model.safetensors")).unwrap();
    for file in &mut copy.manifest.files {
        file.name = file.name.replace("safetensors", "gguf");
    }
    (copy, bytes.into_inner())
}

fn place_of(bytes: &[u8], text: &str) -> usize {
    let mut windows = bytes.windows(text.len());
    windows
        .position(|window| window == text.as_bytes())
        .unwrap()
}

#[test]
fn weights_in_gguf_that_are_broken_are_refused() {
    let file = "model.gguf";
    let (copy, sound) = gguf();
    copy.write(file, &sound);
    copy.load().unwrap();
    copy.write(file, "");
    copy.check(file, &["is empty"]);
    for place in [3, 10, 30, 500, sound.len() / 2, sound.len() - 40] {
        copy.write(file, &sound[..place]);
        copy.check(file, &["cannot be read as GGUF"]);
    }
    let changed = |place: usize, value: &[u8]| {
        let mut bytes = sound.clone();
        bytes[place..place + value.len()].copy_from_slice(value);
        copy.write(file, bytes);
    };
    let huge = (1_u64 << 60).to_le_bytes();
    let most = u64::MAX.to_le_bytes();
    // The magic, the version, how many tensors and settings.
    for (place, value) in [
        (0, &b"GGML"[..]),
        (4, &[9]),
        (8, &huge),
        (16, &huge),
        (8, &most),
    ] {
        changed(place, value);
        copy.check(file, &["cannot be read as GGUF"]);
    }
    let name = "encoder.layer.0.output.dense.weight";
    let at = place_of(&sound, name);
    // The length of its name, its sides, its type, where it lies.
    let sides = at + name.len() + 4;
    for (place, value) in [
        (at - 8, &huge),
        (at - 8, &most),
        (sides, &huge),
        (sides, &most),
        (sides + 16, &most),
        (sides + 20, &huge),
        (sides + 20, &most),
    ] {
        changed(place, value);
        copy.check(file, &["cannot be read as GGUF"]);
    }
    changed(sides, &47_u64.to_le_bytes());
    copy.check(file, &[name, "of shape [32, 47], expected [32, 48]"]);
    changed(at, b"x");
    copy.check(file, &["no tensor", name]);
    // Where the tensors begin, after the list, whose last entry this is, and what fills it up.
    let last = "encoder.layer.1.output.dense.weight";
    let body = (place_of(&sound, last) + last.len() + 32).next_multiple_of(32);
    let table = "embeddings.word_embeddings.weight";
    // The scale of a block of 4-bit values, and a float.
    for (name, value) in [(table, &[0, 0x7c][..]), (name, &f32::NAN.to_le_bytes())] {
        let offset = place_of(&sound, name) + name.len() + 24;
        let offset = u64::from_le_bytes(sound[offset..offset + 8].try_into().unwrap());
        changed(body + offset as usize, value);
        copy.check(file, &[name, "not finite"]);
    }
    // A division by it in the reader.
    let key = "general.alignment";
    let value = place_of(&sound, key) + key.len() + 4;
    changed(value, &0_u32.to_le_bytes());
    let error = words(&copy.load().unwrap_err());
    assert!(
        error.contains("model.gguf` cannot be read as GGUF"),
        "{error}"
    );
}

#[test]
fn flipped_bytes_in_gguf_never_make_a_panic() {
    let (copy, sound) = gguf();
    let n_header = place_of(&sound, "encoder.layer.1.output.dense.weight") + 80;
    let mut dice = Dice(11);
    for _ in 0..1000 {
        let mut bytes = sound.clone();
        for _ in 0..=dice.roll(3) {
            bytes[dice.roll(n_header)] = dice.roll(256) as u8;
        }
        copy.write("model.gguf", &bytes);
        let loaded = catch_unwind(AssertUnwindSafe(|| copy.load()));
        assert!(loaded.is_ok(), "a panic");
    }
}

#[test]
fn word_vectors_with_a_broken_mapping_are_refused() {
    let file = "model.safetensors";
    let copy = Copy::of("tiny-static-mapped");
    let sound = copy.read(file);
    let (header, _) = parts(&sound);
    let start = 8
        + header.len()
        + copy.header()["mapping"]["data_offsets"][0]
            .as_u64()
            .unwrap() as usize;
    for row in [100_i64, -1, i64::MAX, i64::MIN] {
        let mut bytes = sound.clone();
        bytes[start..start + 8].copy_from_slice(&row.to_le_bytes());
        copy.write(file, bytes);
        copy.check(file, &["`mapping`", "expected 0 to 99"]);
    }
    copy.write(file, &sound);
    copy.edit_header(|header| header["mapping"]["dtype"] = json!("F64"));
    copy.check(file, &["`mapping`", "F64", "whole numbers"]);
    copy.write(file, &sound);
    copy.edit_header(|header| header["weights"]["dtype"] = json!("I64"));
    copy.check(file, &["`weights`", "I64", "floats"]);
}
