//! The house rules that a compiler does not check: who depends on whom, who knows what, file sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our crates each may use, and which outside thing it alone may know.
const HOUSE: &[(&str, &[&str], &[&str])] = &[
    (
        "pkm-embed",
        &[],
        &[
            "candle-core",
            "candle-nn",
            "candle-transformers",
            "tokenizers",
            "hf-hub",
            "safetensors",
            "ureq",
        ],
    ),
    ("pkm-index", &[], &["hnsw_rs"]),
    ("pkm-store", &[], &["rusqlite"]),
    (
        "pkm-engine",
        &["pkm-embed", "pkm-index", "pkm-store"],
        &["pulldown-cmark", "encoding_rs"],
    ),
    ("pkm-inspect", &[], &["jsonschema"]),
    ("pkm-transport", &[], &["axum", "hyper", "tower"]),
    ("pkm-mcp", &["pkm-engine", "pkm-transport"], &["schemars"]),
    (
        "pkm",
        &[
            "pkm-embed",
            "pkm-engine",
            "pkm-inspect",
            "pkm-mcp",
            "pkm-transport",
        ],
        &["clap", "indicatif", "tracing-subscriber"],
    ),
];

/// Crates that only the asynchronous part of the house may use.
const ASYNC: &[&str] = &["tokio", "futures", "tokio-util"];
const MAY_BE_ASYNC: &[&str] = &["pkm-transport", "pkm-mcp", "pkm"];

const MAX_LINES: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

fn dependencies(krate: &str) -> BTreeSet<String> {
    let path = root().join("crates").join(krate).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let manifest: toml::Table = text.parse().expect("a Cargo.toml");
    let mut names = BTreeSet::new();
    let mut take = |table: Option<&toml::Value>| {
        if let Some(table) = table.and_then(toml::Value::as_table) {
            names.extend(table.keys().cloned());
        }
    };
    take(manifest.get("dependencies"));
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        for target in targets.values() {
            take(target.get("dependencies"));
        }
    }
    names
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![
        root().join("crates"),
        root().join("tests"),
        root().join("benches"),
    ];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                if path
                    .file_name()
                    .is_some_and(|name| name != "target" && name != "node_modules")
                {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("UTF-8 source");
                files.push((path, text));
            }
        }
    }
    files
}

#[test]
fn the_crates_depend_on_each_other_as_drawn() {
    for (krate, ours, _) in HOUSE {
        let expected: BTreeSet<String> = ours.iter().map(|name| (*name).to_owned()).collect();
        let found: BTreeSet<String> = dependencies(krate)
            .into_iter()
            .filter(|name| name.starts_with("pkm"))
            .collect();
        assert_eq!(found, expected, "dependencies of `{krate}`");
    }
    let drawn: BTreeSet<&str> = HOUSE.iter().map(|(krate, ..)| *krate).collect();
    for entry in fs::read_dir(root().join("crates")).expect("crates/") {
        let name = entry.expect("an entry").file_name();
        assert!(
            drawn.contains(name.to_str().expect("UTF-8")),
            "`{name:?}` is not in the drawing"
        );
    }
}

#[test]
fn each_outside_thing_is_known_to_one_crate() {
    let mut owner: BTreeMap<&str, &str> = BTreeMap::new();
    for (krate, _, outside) in HOUSE {
        owner.extend(outside.iter().map(|thing| (*thing, *krate)));
    }
    for (krate, ..) in HOUSE {
        for dependency in dependencies(krate) {
            if let Some(owner) = owner.get(dependency.as_str()) {
                assert_eq!(krate, owner, "`{krate}` uses `{dependency}`");
            }
            if ASYNC.contains(&dependency.as_str()) {
                assert!(
                    MAY_BE_ASYNC.contains(krate),
                    "`{krate}` is synchronous: no `{dependency}`"
                );
            }
        }
    }
}

#[test]
fn no_file_grows_past_its_subject() {
    for (path, text) in sources() {
        let n_lines = text.lines().count();
        assert!(
            n_lines <= MAX_LINES,
            "{} has {n_lines} lines",
            path.display()
        );
    }
}

#[test]
fn no_test_is_skipped_and_nothing_waits_to_be_written() {
    // Spelt in two pieces, so that this file does not find itself.
    let words = [
        ["#[ig", "nore"],
        ["to", "do!("],
        ["unimpl", "emented!("],
        ["FIX", "ME"],
    ]
    .map(|p| p.concat());
    for (path, text) in sources() {
        for word in &words {
            assert!(
                !text.contains(word.as_str()),
                "{} holds `{word}`",
                path.display()
            );
        }
    }
}
