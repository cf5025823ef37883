//! What can go wrong between a model on disk and a vector.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a model could not be described, fetched, loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder of the model, or a file in it, is not there.
    #[error("model `{model}` is not complete: `{path}` is missing; hint: {hint}")]
    Missing {
        /// Name of the model.
        model: String,
        /// The first file that is missing.
        path: PathBuf,
        /// What to do about it.
        hint: String,
    },
    /// A file of a model is not what the manifest says.
    #[error("model file `{path}` {damage}; hint: {hint}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
        /// What to do about it.
        hint: String,
    },
    /// A file of a model cannot be read as what it should be.
    #[error("model file `{path}` cannot be read as {format}; hint: {hint}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What it should be.
        format: &'static str,
        /// What to do about it.
        hint: String,
        /// What the reader said.
        #[source]
        source: Cause,
    },
    /// A manifest is not usable.
    #[error("manifest of `{name}`: {fault}")]
    Manifest {
        /// Name of the model, as far as it is known.
        name: String,
        /// What is wrong with it.
        fault: ManifestFault,
    },
    /// The manifest that a user wrote is not usable.
    #[error("`{path}` describes no usable model: {fault}")]
    UserManifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: ManifestFault,
    },
    /// A device was asked for that this build cannot drive.
    #[error(
        "this build cannot run on `{device}`; hint: build with `cargo build --features {feature}`"
    )]
    DeviceNotBuilt {
        /// The device asked for.
        device: String,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// A kernel was asked for that this processor does not have, or that cannot cut up this model.
    #[error("the `{kernel}` kernel cannot run this model on this processor")]
    Kernel {
        /// The kernel asked for.
        kernel: crate::Kernel,
    },
    /// No kernel runs the model with the precision asked for.
    #[error("`{precision}` cannot be had here: {reason}; hint: use `auto` or `f32`")]
    Precision {
        /// The precision asked for.
        precision: crate::Precision,
        /// What is missing.
        reason: &'static str,
    },
    /// A device that this build could drive does not start.
    #[error("device `{device}` cannot be used")]
    Device {
        /// The device asked for.
        device: String,
        /// What the driver said.
        #[source]
        source: Cause,
    },
    /// The model could not run.
    #[error("model `{model}` failed on {n_texts} texts")]
    Inference {
        /// Name of the model.
        model: String,
        /// How many texts were in the call.
        n_texts: usize,
        /// What the backend said.
        #[source]
        source: Cause,
    },
    /// The model ran and gave something that must not be stored.
    #[error("model `{model}` gave a vector that {fault}")]
    BadVector {
        /// Name of the model.
        model: String,
        /// What is wrong with the vector.
        fault: VectorFault,
    },
    /// The model cannot be fetched by this program, only by other means.
    #[error("model `{model}` is not on the hub; hint: {hint}")]
    NotOnHub {
        /// Name of the model.
        model: String,
        /// What to do about it.
        hint: String,
    },
    /// The hub cannot be reached, or a download broke off.
    #[error("cannot download `{file}` of model `{model}` from {endpoint}; hint: {hint}")]
    Download {
        /// Name of the model.
        model: String,
        /// The file that was being fetched.
        file: String,
        /// The hub's address.
        endpoint: String,
        /// What to do about it.
        hint: String,
        /// What the connection said.
        #[source]
        source: Cause,
    },
    /// A setting of the embedding server is not usable.
    #[error("`{setting}` {reason}")]
    Setting {
        /// The setting, as users write it.
        setting: &'static str,
        /// What is wrong with it and what would be right, to be read after the name.
        reason: String,
    },
    /// The embedding server cannot be used as it is now, whatever the texts.
    #[error("the embedding server at {url} {fault}; hint: {hint}")]
    Server {
        /// Its address.
        url: String,
        /// What is wrong.
        fault: ServerFault,
        /// What to do about it.
        hint: &'static str,
    },
    /// The file system refused something.
    #[error("cannot {doing} `{path}`")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Whether it is neither the texts' fault nor this program's: the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Server { .. })
    }

    /// How long to wait before the next try, where the server said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Server {
                fault: ServerFault::Status { retry_after, .. },
                ..
            } => *retry_after,
            _ => None,
        }
    }
}

/// What is wrong with an embedding server or its answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerFault {
    /// There is no connection, or it broke.
    #[error("cannot be reached: {reason}")]
    Unreachable {
        /// What the connection said.
        reason: String,
    },
    /// No answer came in time.
    #[error("gave no answer within {} s", after.as_secs_f32())]
    NoAnswer {
        /// How long it was waited for.
        after: Duration,
    },
    /// It answered with a status other than success.
    #[error("answered {status}{message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The first words of the answer after `: `, or nothing.
        message: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// It answered with something else than one vector for each text.
    #[error("gave an answer that cannot be used: {reason}")]
    NotUsable {
        /// What is wrong with the answer.
        reason: String,
    },
    /// The text that goes along with every request got another vector than at the start.
    #[error("runs another model than at the start (likeness {likeness:.3})")]
    OtherModel {
        /// Cosine of the two vectors.
        likeness: f32,
    },
}

/// What is wrong with a model file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// It is too short or too long.
    #[error("has {found} bytes, the manifest says {expected}")]
    Size {
        /// Bytes on disk.
        found: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// Its bytes are others than those that were pinned or announced.
    #[error("has {algorithm} {found}, expected {expected}")]
    Checksum {
        /// Which digest was compared.
        algorithm: &'static str,
        /// The digest of what is on disk.
        found: String,
        /// The digest it should have.
        expected: String,
    },
    /// It lacks a tensor that the architecture needs.
    #[error("has no tensor `{name}`")]
    NoTensor {
        /// The tensor.
        name: String,
    },
    /// A tensor has another shape than the architecture needs.
    #[error("has a tensor `{name}` of shape {found:?}, expected {expected:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape in the file.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// A tensor has another type than the architecture needs.
    #[error("has a tensor `{name}` of type {found}, expected {expected}")]
    Type {
        /// The tensor.
        name: String,
        /// Its type in the file.
        found: String,
        /// The types it may have.
        expected: &'static str,
    },
    /// A tensor holds what no training leaves behind.
    #[error("has a value in tensor `{name}` that is not finite")]
    NotFinite {
        /// The tensor.
        name: String,
    },
    /// A tensor points to something that is not there.
    #[error("has {found} in tensor `{name}`, expected 0 to {}", end.saturating_sub(1))]
    Index {
        /// The tensor.
        name: String,
        /// What is in it.
        found: i64,
        /// One past the largest that there may be.
        end: usize,
    },
    /// The tokenizer belongs to another model: it gives a token that this one has no vector for.
    #[error("gives the token id {id}, but the model has only {n_words} words")]
    TokenId {
        /// The largest id.
        id: usize,
        /// Words of the model.
        n_words: usize,
    },
    /// A text could not get through the tokenizer as the model needs it.
    #[error("makes {found} tokens of an empty text, expected {expected}")]
    EmptyText {
        /// Tokens, prefix included.
        found: usize,
        /// How many there may be.
        expected: String,
    },
    /// Its settings and the manifest's disagree.
    #[error("says `{setting}` is {found}, expected {expected}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The file's value.
        found: String,
        /// The value that would fit.
        expected: String,
    },
}

/// What is wrong with a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestFault {
    /// It is no TOML, or a field is missing, unknown or of the wrong type.
    #[error("{message}")]
    Syntax {
        /// The parser's words.
        message: String,
    },
    /// The name would not make a folder of its own.
    #[error("the name may only hold a-z, 0-9, `-`, `_` and `.`, and not begin with `.`")]
    Name,
    /// A file name leads out of the model's folder.
    #[error("file name `{file}` leads out of the model's folder")]
    FileEscapes {
        /// The file name.
        file: String,
    },
    /// A needed file is not listed.
    #[error("no `{file}` among the files")]
    FileMissing {
        /// The file name.
        file: &'static str,
    },
    /// A checksum is not 64 lower-case hex digits.
    #[error("sha256 of `{file}` is not 64 lower-case hex digits")]
    Checksum {
        /// The file whose checksum it is.
        file: String,
    },
    /// It describes a model under a name that the program already knows.
    #[error(
        "`{name}` is the name of a built-in model; hint: rename the folder, and the model in it"
    )]
    Taken {
        /// The name.
        name: String,
    },
    /// The folder is the model's name, so that a model is found by it.
    #[error("its model is called `{name}`, the folder `{folder}`; hint: give both one name")]
    Folder {
        /// The name in the manifest.
        name: String,
        /// The folder it is in.
        folder: String,
    },
    /// Word vectors have no first and no last token that has seen the others.
    #[error("`pooling` of word vectors can only be `mean`")]
    Pooling,
    /// A number is out of range.
    #[error("`{field}` is {value}, which no model has")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        value: usize,
    },
}

/// What is wrong with a vector.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorFault {
    /// A component is infinite or not a number.
    #[error("holds a value that is not finite")]
    NotFinite,
    /// Its length is not 1.
    #[error("has length {norm}, expected 1")]
    NotUnit {
        /// Its length.
        norm: f32,
    },
    /// All components are the same.
    #[error("has the same value in every component")]
    Constant,
    /// It has another number of components than the model.
    #[error("has {found} components, expected {expected}")]
    Dimension {
        /// Its components.
        found: usize,
        /// The model's.
        expected: usize,
    },
}

/// Runs a reader of another crate on a file that may hold anything: a panic in it is an error.
pub(crate) fn without_panic<T, E: Into<Cause>>(
    read: impl FnOnce() -> Result<T, E>,
) -> Result<T, Cause> {
    // Whatever the reader has left half done is dropped with it.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err("its reader stopped at what it found there".into()),
    }
}
