//! A model small enough to be made up here.

use std::path::Path;

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

use super::*;
use crate::kernels::Precision;

/// What every kernel can cut up; each of the two heads is half as wide.
const WIDTH: usize = 32;
const N_WORDS: usize = 50;
const N_POSITIONS: usize = 20;
const PAD_ID: usize = 1;
const TEXTS: [&[u32]; 4] = [
    &[2, 7, 3],
    &[2, 40, 41, 42, 43, 9, 3],
    &[2, 3],
    &[2, 7, 8, 3],
];

fn config() -> Config {
    Config {
        hidden_size: WIDTH,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        intermediate_size: 64,
        layer_norm_eps: 1e-6,
        max_position_embeddings: N_POSITIONS,
        vocab_size: N_WORDS,
        type_vocab_size: 2,
        hidden_act: "gelu".to_owned(),
        pad_token_id: PAD_ID,
    }
}

/// Names, shapes and values of all tensors, the same in every run.
fn tensors() -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let f = config().intermediate_size;
    let mut shapes = vec![
        (
            "embeddings.word_embeddings.weight".to_owned(),
            vec![N_WORDS, WIDTH],
        ),
        (
            "embeddings.position_embeddings.weight".to_owned(),
            vec![N_POSITIONS, WIDTH],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_owned(),
            vec![2, WIDTH],
        ),
        ("embeddings.LayerNorm.weight".to_owned(), vec![WIDTH]),
        ("embeddings.LayerNorm.bias".to_owned(), vec![WIDTH]),
    ];
    for layer in 0..config().num_hidden_layers {
        for (name, n_out, n_in) in [
            ("attention.self.query", WIDTH, Some(WIDTH)),
            ("attention.self.key", WIDTH, Some(WIDTH)),
            ("attention.self.value", WIDTH, Some(WIDTH)),
            ("attention.output.dense", WIDTH, Some(WIDTH)),
            ("attention.output.LayerNorm", WIDTH, None),
            ("intermediate.dense", f, Some(WIDTH)),
            ("output.dense", WIDTH, Some(f)),
            ("output.LayerNorm", WIDTH, None),
        ] {
            let name = format!("encoder.layer.{layer}.{name}");
            let weight = n_in.map_or_else(|| vec![n_out], |n_in| vec![n_out, n_in]);
            shapes.push((format!("{name}.weight"), weight));
            shapes.push((format!("{name}.bias"), vec![n_out]));
        }
    }
    let mut state = 1_u32;
    shapes
        .into_iter()
        .map(|(name, shape)| {
            let values = (0..shape.iter().product())
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    ((state >> 8) as f32 / 8_388_608.0 - 1.0) * 0.5
                })
                .collect();
            (name, shape, values)
        })
        .collect()
}

fn write(path: &Path, tensors: &[(String, Vec<usize>, Vec<f32>)], dtype: Dtype) {
    let bytes = |value: &f32| match dtype {
        Dtype::F16 => f16::from_f32(*value).to_le_bytes().to_vec(),
        Dtype::BF16 => bf16::from_f32(*value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    };
    let data: Vec<(&String, &Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, shape, values)| (name, shape, values.iter().flat_map(bytes).collect()))
        .collect();
    let views = data
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(dtype, shape.to_vec(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

fn load(
    tensors: &[(String, Vec<usize>, Vec<f32>)],
    dtype: Dtype,
    architecture: Architecture,
    pooling: Pooling,
) -> Bert {
    load_for(
        tensors,
        dtype,
        architecture,
        pooling,
        &Runner::Cpu(Kernel::best(Precision::F32).unwrap()),
    )
}

fn load_for(
    tensors: &[(String, Vec<usize>, Vec<f32>)],
    dtype: Dtype,
    architecture: Architecture,
    pooling: Pooling,
    runner: &Runner,
) -> Bert {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, tensors, dtype);
    let mut file = WeightFile::open(&path, String::new()).unwrap();
    Bert::load(&mut file, &config(), architecture, pooling, runner).unwrap()
}

fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        for (a, b) in found.iter().zip(expected) {
            assert!(
                (a - b).abs() < tolerance,
                "{found:?}, expected {expected:?}"
            );
        }
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn the_pass_for_a_gpu_gives_what_the_pass_for_a_cpu_gives_with_every_kernel() {
    for architecture in [Architecture::Bert, Architecture::XlmRoberta] {
        for pooling in [Pooling::Mean, Pooling::Cls, Pooling::Last] {
            let load = |runner| load_for(&tensors(), Dtype::F32, architecture, pooling, &runner);
            let padded = load(Runner::Device(&Device::Cpu));
            let expected = padded.forward(&TEXTS).unwrap();
            for kernel in Kernel::usable() {
                let bert = load(Runner::Cpu(kernel));
                let tolerance = match kernel.precision() {
                    Precision::Bf16 => 0.05,
                    _ => 1e-4,
                };
                let together = bert.forward(&TEXTS).unwrap();
                assert_near(&together, &expected, tolerance);
                for (text, expected) in TEXTS.iter().zip(&expected) {
                    for (bert, tolerance) in [(&bert, tolerance), (&padded, 1e-4)] {
                        let alone = bert.forward(&[text]).unwrap();
                        assert_near(&alone, std::slice::from_ref(expected), tolerance);
                    }
                }
            }
        }
    }
}

#[test]
fn positions_of_xlm_roberta_begin_after_the_padding_id() {
    let plain = load(&tensors(), Dtype::F32, Architecture::Bert, Pooling::Mean);
    let shifted_positions = |by: usize| {
        let mut tensors = tensors();
        tensors[1].2.rotate_right(by * WIDTH);
        load(
            &tensors,
            Dtype::F32,
            Architecture::XlmRoberta,
            Pooling::Mean,
        )
    };
    let expected = plain.forward(&TEXTS).unwrap();
    assert_near(
        &shifted_positions(PAD_ID + 1).forward(&TEXTS).unwrap(),
        &expected,
        1e-6,
    );
    let unshifted = shifted_positions(0).forward(&TEXTS).unwrap();
    assert!(distance(&unshifted[0], &expected[0]) > 0.01);
}

#[test]
fn the_mean_of_all_tokens_is_not_the_first_one() {
    let mean = load(&tensors(), Dtype::F32, Architecture::Bert, Pooling::Mean);
    let cls = load(&tensors(), Dtype::F32, Architecture::Bert, Pooling::Cls);
    let (mean, cls) = (mean.forward(&TEXTS).unwrap(), cls.forward(&TEXTS).unwrap());
    for (mean, cls) in mean.iter().zip(&cls) {
        let distance = distance(mean, cls);
        assert!(distance > 0.001, "{distance}: {mean:?} and {cls:?}");
    }
}

#[test]
fn half_precision_files_are_read_as_what_they_hold() {
    let full = load(&tensors(), Dtype::F32, Architecture::Bert, Pooling::Mean);
    let expected = full.forward(&TEXTS).unwrap();
    for (dtype, tolerance) in [(Dtype::F16, 0.01), (Dtype::BF16, 0.1)] {
        let half = load(&tensors(), dtype, Architecture::Bert, Pooling::Mean);
        assert_near(&half.forward(&TEXTS).unwrap(), &expected, tolerance);
    }
}

#[test]
fn names_with_the_family_before_them_are_found() {
    let mut named = tensors();
    for (name, _, _) in &mut named {
        name.insert_str(0, "roberta.");
    }
    let found = load(&named, Dtype::F32, Architecture::Bert, Pooling::Mean);
    let expected = load(&tensors(), Dtype::F32, Architecture::Bert, Pooling::Mean);
    assert_near(
        &found.forward(&TEXTS).unwrap(),
        &expected.forward(&TEXTS).unwrap(),
        1e-6,
    );
}

#[test]
fn an_id_that_is_no_word_is_refused() {
    let bert = load(&tensors(), Dtype::F32, Architecture::Bert, Pooling::Mean);
    let error = bert.forward(&[&[2, N_WORDS as u32, 3]]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("token id 50 is not among the model's 50 words"),
        "{error}"
    );
}
