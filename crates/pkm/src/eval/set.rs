//! A set of questions and the notes that answer them, read from a folder:
//!
//! - `queries.jsonl`: `{"id", "text", "class"?}` a line;
//! - `qrels.tsv`: question, note and judgement a line, under a line of headings; 2 answers, 1 answers
//!   in part. A question without a judgement is one that nothing answers;
//! - the notes: a folder `notes`, whose files are named by their path, or `corpus.jsonl` with
//!   `{"id", "title", "text"}` a line.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use unicode_normalization::UnicodeNormalization;

use crate::report::Failure;

#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) queries: Vec<Query>,
    pub(crate) notes: Notes,
    /// Judgement by question and by note.
    judgements: HashMap<String, HashMap<String, f64>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Query {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) class: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Notes {
    /// Markdown files to be imported.
    Folder(PathBuf),
    /// Notes to be added one by one.
    Documents(Vec<Document>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: String,
    pub(crate) text: String,
}

/// A note's name in judgements: without `.md`, and the same for every Unicode spelling of a path.
pub(crate) fn note_name(id: &str) -> String {
    id.strip_suffix(".md").unwrap_or(id).nfc().collect()
}

impl Set {
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let queries: Vec<Query> = read_lines(&folder.join("queries.jsonl"))?;
        let mut seen = HashSet::new();
        if let Some(twice) = queries.iter().find(|query| !seen.insert(&query.id)) {
            return Err(Failure::new(format!(
                "two questions have the id `{}`",
                twice.id
            )));
        }
        let judgements = read_judgements(&folder.join("qrels.tsv"))?;
        if let Some(unknown) = judgements.keys().find(|id| !seen.contains(id)) {
            return Err(Failure::new(format!(
                "`qrels.tsv` judges the question `{unknown}`, which `queries.jsonl` does not have"
            )));
        }
        let (corpus, notes) = (folder.join("corpus.jsonl"), folder.join("notes"));
        let notes = if corpus.is_file() {
            Notes::Documents(read_lines(&corpus)?)
        } else if notes.is_dir() {
            Notes::Folder(notes)
        } else {
            return Err(Failure::new(format!(
                "`{}` has neither `corpus.jsonl` nor a folder `notes`",
                folder.display()
            )));
        };
        Ok(Self {
            queries,
            notes,
            judgements,
        })
    }

    /// The judgement of the note called `note`; 0 where there is none.
    pub(crate) fn judgement(&self, query: &Query, note: &str) -> f64 {
        self.judgements
            .get(&query.id)
            .and_then(|notes| notes.get(note))
            .copied()
            .unwrap_or(0.0)
    }

    /// All judgements of a question; empty when nothing answers it.
    pub(crate) fn judged(&self, query: &Query) -> Vec<f64> {
        self.judgements
            .get(&query.id)
            .into_iter()
            .flat_map(HashMap::values)
            .copied()
            .collect()
    }

    /// The first note that is judged and not among `names`.
    pub(crate) fn unknown_note(&self, names: &HashSet<&str>) -> Option<&str> {
        self.judgements
            .values()
            .flat_map(HashMap::keys)
            .map(String::as_str)
            .filter(|name| !names.contains(name))
            .min()
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read `{}`", path.display())).source(error))
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    let text = read(path)?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(i, line)| {
            serde_json::from_str(line).map_err(|error| {
                Failure::new(format!(
                    "line {} of `{}` is not usable",
                    i + 1,
                    path.display()
                ))
                .source(error)
            })
        })
        .collect()
}

fn read_judgements(path: &Path) -> Result<HashMap<String, HashMap<String, f64>>, Failure> {
    let text = read(path)?;
    let mut judgements: HashMap<String, HashMap<String, f64>> = HashMap::new();
    for (i, line) in text.lines().enumerate() {
        if i == 0 && line.starts_with("query-id\t") || line.trim().is_empty() {
            continue;
        }
        let unusable = || {
            Failure::new(format!(
                "line {} of `{}` is not usable",
                i + 1,
                path.display()
            ))
            .hint("three columns are needed, with a tab between: question, note, judgement")
        };
        let columns: Vec<&str> = line.split('\t').collect();
        let &[query, note, judgement] = columns.as_slice() else {
            return Err(unusable());
        };
        let judgement: f64 = judgement.trim().parse().map_err(|_| unusable())?;
        if judgement > 0.0 {
            judgements
                .entry(query.to_owned())
                .or_default()
                .insert(note_name(note), judgement);
        }
    }
    Ok(judgements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    const QUERIES: &str = "{\"id\": \"q1\", \"text\": \"김치\", \"class\": \"ko\"}\n\n{\"id\": \"q2\", \"text\": \"zzz\"}\n";
    const CORPUS: &str = "{\"id\": \"한글.md\", \"title\": \"t\", \"text\": \"x\"}\n";

    #[test]
    fn a_note_has_one_name_however_its_path_is_spelled() {
        let decomposed: String = "한글.md".nfd().collect();
        let qrels = format!("query-id\tcorpus-id\tscore\nq1\t{decomposed}\t2\n");
        let folder = folder(&[
            ("queries.jsonl", QUERIES),
            ("corpus.jsonl", CORPUS),
            ("qrels.tsv", &qrels),
        ]);
        let set = Set::read(folder.path()).unwrap();
        let [judged, nonsense] = set.queries.as_slice() else {
            panic!("{:?}", set.queries)
        };
        assert_eq!(set.judgement(judged, &note_name("한글")), 2.0);
        assert_eq!(set.judgement(judged, "other"), 0.0);
        assert_eq!(set.judged(judged), [2.0]);
        assert!(set.judged(nonsense).is_empty());
        assert_eq!(set.unknown_note(&HashSet::from(["한글"])), None);
        assert_eq!(set.unknown_note(&HashSet::new()), Some("한글"));
    }

    #[test]
    fn a_mistake_in_a_set_is_named() {
        let check = |files: &[(&str, &str)], expected: &str| {
            let folder = folder(files);
            let error = Set::read(folder.path()).unwrap_err();
            let text = crate::report::render(&error.into());
            assert!(text.contains(expected), "{text}");
        };
        check(&[], "queries.jsonl");
        check(&[("queries.jsonl", QUERIES)], "qrels.tsv");
        check(&[("queries.jsonl", QUERIES), ("qrels.tsv", "")], "neither");
        check(
            &[
                ("queries.jsonl", QUERIES),
                ("qrels.tsv", "q1 a 2\n"),
                ("corpus.jsonl", CORPUS),
            ],
            "line 1",
        );
        check(
            &[
                ("queries.jsonl", QUERIES),
                ("qrels.tsv", "q9\ta\t2\n"),
                ("corpus.jsonl", CORPUS),
            ],
            "`q9`",
        );
        check(
            &[("queries.jsonl", "{}\n"), ("qrels.tsv", "")],
            "missing field `id`",
        );
    }
}
