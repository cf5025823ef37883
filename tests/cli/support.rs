//! Runs `pkm` in a home folder of its own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The model of the tests that search by meaning.
pub(crate) const MODEL: &str = "multilingual-e5-small-q4";

/// A home folder that nothing else uses.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    models: PathBuf,
}

/// How a run of `pkm` ended.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    /// Without any model.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let models = folder.path().join("models");
        Self { folder, models }
    }

    /// With the model that `scripts/fetch-model` fetched.
    pub(crate) fn with_model() -> Self {
        let models = workspace().join(".cache/models");
        assert!(
            models.join(MODEL).join("tokenizer.json").is_file(),
            "this test needs the model: run `scripts/fetch-model {MODEL}` first"
        );
        Self {
            models,
            ..Self::new()
        }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Writes a file, and the folders it needs.
    pub(crate) fn write(&self, below: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a child needs the search path of this process"
    )]
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pkm"));
        command
            .env_clear()
            // For editors and shells that tests start.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.path("share"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("PKM_MODELS", &self.models)
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn pkm(&self, arguments: &[&str]) -> Run {
        self.finish(self.command().args(arguments))
    }

    /// With `input` on stdin.
    pub(crate) fn pkm_with(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Run {
        let mut child = self
            .command()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pkm starts");
        // A command that refuses its arguments does not read.
        let _ = child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(input.as_ref());
        self.run(child.wait_with_output().expect("pkm ends"))
    }

    pub(crate) fn finish(&self, command: &mut Command) -> Run {
        self.run(command.output().expect("pkm starts"))
    }

    fn run(&self, output: Output) -> Run {
        let home = self.folder.path().to_str().expect("a UTF-8 path");
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes)
                .expect("output is UTF-8")
                .replace(home, "[HOME]")
        };
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// What a command that succeeds prints.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.pkm(arguments).ok()
    }

    /// The JSON of a command that succeeds; `--json` is added.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.pkm(&[arguments, &["--json"]].concat()).json()
    }

    /// Adds a note and gives its id, as text.
    pub(crate) fn add(&self, title: &str, content: &str) -> String {
        let run = self.pkm_with(&["add", "--title", title, "--json"], content);
        run.json()["id"].to_string()
    }

    /// All notes, without what an import must not keep: ids and revisions.
    pub(crate) fn all_notes(&self) -> Vec<Value> {
        let list = self.json(&["list", "--all", "--sort", "title"]);
        let mut notes: Vec<Value> = list["notes"]
            .as_array()
            .expect("notes")
            .iter()
            .map(|note| {
                let mut note = self.json(&["get", &note["id"].to_string()]);
                let object = note.as_object_mut().expect("a note");
                object.remove("id");
                object.remove("revision");
                note
            })
            .collect();
        notes.sort_by_key(Value::to_string);
        notes
    }
}

impl Run {
    /// Stdout, when all went well.
    pub(crate) fn ok(self) -> String {
        assert_eq!(
            self.code, 0,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self.stdout
    }

    pub(crate) fn json(self) -> Value {
        let stdout = self.ok();
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error} in:\n{stdout}"))
    }

    /// Stderr, when the run failed with `code`; nothing was printed as data then.
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        assert_eq!(self.stdout, "", "a failure prints no data");
        self.stderr
    }
}

pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .and_then(Path::parent)
        .expect("the crate is two folders below the workspace")
}

/// The corpus of notes.
pub(crate) fn corpus() -> PathBuf {
    workspace().join("tests/corpus")
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Every file below `folder`, by its path.
pub(crate) fn files(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(&at).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_owned();
                found.insert(name, std::fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

pub(crate) fn is_markdown(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("md"))
}

/// Ids of the matches of a search, best first.
pub(crate) fn ids(answer: &Value) -> Vec<String> {
    answer["matches"]
        .as_array()
        .expect("matches")
        .iter()
        .map(|hit| hit["id"].to_string())
        .collect()
}
