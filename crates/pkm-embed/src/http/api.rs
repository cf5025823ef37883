//! The two ways to ask for vectors: bodies out, vectors in.

use serde::{Deserialize, Serialize};

use super::server::not_usable;
use crate::error::ServerFault;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpApi {
    /// The embeddings API of OpenAI, which most servers have: `POST /v1/embeddings`.
    OpenAi,
    /// The API of text-embeddings-inference: `POST /embed`, `GET /info`.
    Tei,
}

/// What a server of text-embeddings-inference says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Info {
    pub(super) model_id: String,
    pub(super) model_sha: Option<String>,
    /// Names the pooling.
    #[serde(default)]
    pub(super) model_type: serde_json::Value,
    /// Tokens.
    pub(super) max_input_length: usize,
    pub(super) max_client_batch_size: usize,
}

/// The vectors of a request, in the order of its texts.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) vectors: Vec<Vec<f32>>,
    /// As the server counts.
    pub(super) n_tokens: Option<usize>,
}

#[derive(Serialize)]
struct OpenAiRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct OpenAiVector {
    index: usize,
    embedding: Numbers,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<usize>,
}

#[derive(Serialize)]
struct TeiRequest<'a> {
    inputs: &'a [&'a str],
    truncate: bool,
    normalize: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

/// What is no number comes as `null`, since JSON has no other word for it.
type Numbers = Vec<Option<f32>>;

impl HttpApi {
    /// As in the settings.
    pub(super) fn name(self) -> &'static str {
        match self {
            HttpApi::OpenAi => "openai",
            HttpApi::Tei => "tei",
        }
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            HttpApi::OpenAi => "/v1/embeddings",
            HttpApi::Tei => "/embed",
        }
    }

    pub(super) fn body(self, model: &str, texts: &[&str], dimensions: Option<usize>) -> Vec<u8> {
        let body = match self {
            HttpApi::OpenAi => serde_json::to_vec(&OpenAiRequest {
                model,
                input: texts,
                encoding_format: "float",
                dimensions,
            }),
            HttpApi::Tei => serde_json::to_vec(&TeiRequest {
                inputs: texts,
                truncate: true,
                normalize: true,
                dimensions,
            }),
        };
        body.expect("texts and numbers make JSON")
    }

    /// Reads the answer to `n_texts` texts.
    pub(super) fn read(self, answer: &[u8], n_texts: usize) -> Result<Answer, ServerFault> {
        match self {
            HttpApi::OpenAi => {
                let OpenAiAnswer { data, usage } = json(answer)?;
                check_count(data.len(), n_texts)?;
                let mut vectors = vec![None; n_texts];
                for OpenAiVector { index, embedding } in data {
                    let place = vectors.get_mut(index).ok_or_else(|| {
                        not_usable(format!("it has a vector {index} for {n_texts} texts"))
                    })?;
                    if place.replace(numbers(&embedding)).is_some() {
                        return Err(not_usable(format!("it has vector {index} twice")));
                    }
                }
                Ok(Answer {
                    // As many as there are places, and none twice.
                    vectors: vectors.into_iter().flatten().collect(),
                    n_tokens: usage.and_then(|usage| usage.prompt_tokens),
                })
            }
            HttpApi::Tei => {
                let vectors: Vec<Numbers> = json(answer)?;
                check_count(vectors.len(), n_texts)?;
                Ok(Answer {
                    vectors: vectors.iter().map(|vector| numbers(vector)).collect(),
                    n_tokens: None,
                })
            }
        }
    }
}

/// Reads JSON; what does not fit is not repeated, it may be anything.
pub(super) fn json<T: serde::de::DeserializeOwned>(answer: &[u8]) -> Result<T, ServerFault> {
    serde_json::from_slice(answer).map_err(|error| {
        let what = match error.classify() {
            serde_json::error::Category::Data => "it is JSON of another shape",
            serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof
            | serde_json::error::Category::Io => "it is not JSON",
        };
        not_usable(format!(
            "{what} (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}

fn check_count(found: usize, expected: usize) -> Result<(), ServerFault> {
    if found == expected {
        return Ok(());
    }
    Err(not_usable(format!(
        "it has {found} vectors for {expected} texts"
    )))
}

fn numbers(vector: &[Option<f32>]) -> Vec<f32> {
    vector.iter().map(|n| n.unwrap_or(f32::NAN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_put_in_the_order_of_their_index() {
        let answer = br#"{"data": [{"index": 1, "embedding": [2, null]}, {"index": 0, "embedding": [1, 1e2]}],
            "usage": {"prompt_tokens": 7, "total_tokens": 7}, "model": "m", "object": "list"}"#;
        let Answer { vectors, n_tokens } = HttpApi::OpenAi.read(answer, 2).unwrap();
        assert_eq!(vectors[0], [1.0, 100.0]);
        assert!(vectors[1][0] == 2.0 && vectors[1][1].is_nan());
        assert_eq!(n_tokens, Some(7));
    }

    #[test]
    fn an_answer_that_is_not_one_vector_a_text_says_how() {
        let check = |api: HttpApi, answer: &str, expected: &str| {
            let error = api.read(answer.as_bytes(), 2).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let of = |indices: &[usize]| {
            let data: Vec<_> = indices
                .iter()
                .map(|index| serde_json::json!({"index": index, "embedding": [0.5]}))
                .collect();
            serde_json::json!({"data": data}).to_string()
        };
        check(HttpApi::OpenAi, &of(&[0]), "1 vectors for 2 texts");
        check(HttpApi::OpenAi, &of(&[0, 1, 2]), "3 vectors for 2 texts");
        check(HttpApi::OpenAi, &of(&[0, 0]), "vector 0 twice");
        check(HttpApi::OpenAi, &of(&[0, 2]), "a vector 2 for 2 texts");
        check(HttpApi::OpenAi, "{\"data\": [{}]}", "another shape");
        check(HttpApi::OpenAi, "<html>secret</html>", "not JSON");
        check(HttpApi::Tei, "[[1.0]]", "1 vectors for 2 texts");
        check(HttpApi::Tei, "[[1.0], [NaN]]", "not JSON");
        check(HttpApi::Tei, "[[1.0], [\"x\"]]", "another shape");
    }

    #[test]
    fn a_length_of_vectors_is_asked_for_only_where_one_is_set() {
        for api in [HttpApi::OpenAi, HttpApi::Tei] {
            let body = |dimensions| String::from_utf8(api.body("m", &["a"], dimensions)).unwrap();
            assert!(!body(None).contains("dimensions"));
            assert!(body(Some(8)).contains("\"dimensions\":8"));
        }
    }
}
