//! Who embeds: the engine of this program, or a server that the user names.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pkm_embed::{ApiKey, Error, HttpApi, HttpOptions};

use super::file::File;
use super::{Environment, Flags, Origin, Setting, environment, first};
use crate::report::Failure;

/// The settings of the engine that embeds.
#[derive(Debug, Clone)]
pub(crate) struct Embedder {
    pub(crate) kind: Setting<Kind>,
    /// The server, without its key and without what depends on the data folder.
    pub(crate) http: HttpOptions,
    pub(crate) key: Key,
    /// What is set of the server, to be shown: name, value, who set it.
    pub(crate) rows: Vec<(String, String, Origin)>,
}

/// Who embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A model in this process.
    Local,
    /// A server, which gets the texts.
    Http,
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Http => "http",
        }
    }
}

/// Where the server's key is.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    None,
    Variable(ApiKey),
    File(PathBuf),
}

impl Key {
    /// Reads the key, if there is one: a file each time anew, so that a new key needs no restart.
    pub(crate) fn read(&self) -> Result<Option<ApiKey>, Error> {
        match self {
            Self::None => Ok(None),
            Self::Variable(key) => Ok(Some(key.clone())),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(Some(ApiKey::new(&text))),
                Err(source) => Err(Error::Io {
                    doing: "read the key in",
                    path: path.clone(),
                    source,
                }),
            },
        }
    }
}

impl Embedder {
    /// Settles the settings; those of the server are checked only where it is used.
    pub(super) fn resolve(
        flags: &Flags,
        environment: &Environment,
        file: File,
    ) -> Result<Self, Failure> {
        let mut settle = Settle {
            environment,
            rows: Vec::new(),
        };
        let usual = HttpOptions::new("");
        let kind = settle.setting(
            "PKM_EMBEDDER",
            Said {
                flag: flags.embedder.clone().map(|kind| (kind, "--embedder")),
                file: file.embedder,
                default: Kind::Local.name().to_owned(),
            },
            text,
            String::clone,
        )?;
        let kind = Setting {
            value: match kind.value.as_str() {
                "local" => Kind::Local,
                "http" => Kind::Http,
                other => {
                    return Err(Failure::usage(format!("there is no embedder `{other}`"))
                        .hint("use `local`, or `http` for a server that embeds"));
                }
            },
            origin: kind.origin,
        };
        // Shown by itself, whatever its value.
        settle.rows.clear();
        let url = settle.setting(
            "PKM_EMBEDDER_URL",
            Said {
                flag: flags
                    .embedder_url
                    .clone()
                    .map(|url| (url, "--embedder-url")),
                file: file.embedder_url,
                default: String::new(),
            },
            text,
            String::clone,
        )?;
        let api = settle.setting(
            "PKM_EMBEDDER_API",
            Said::new(file.embedder_api, "auto".to_owned()),
            text,
            String::clone,
        )?;
        let api = match api.value.as_str() {
            "auto" => None,
            "openai" => Some(HttpApi::OpenAi),
            "tei" => Some(HttpApi::Tei),
            other => {
                return Err(
                    Failure::usage(format!("there is no embedder API `{other}`"))
                        .hint("use `openai`, `tei` or `auto`"),
                );
            }
        };
        let key_file = settle.setting(
            "PKM_EMBEDDER_KEY_FILE",
            Said::new(file.embedder_key_file.map(Some), None),
            |text| Ok(Some(PathBuf::from(text))),
            |path| shown(path.as_ref().map(|path| path.display().to_string())),
        )?;
        let key = match (&environment.pkm_embedder_key, key_file.value) {
            (Some(key), _) => {
                let origin = Origin::Environment("PKM_EMBEDDER_KEY");
                let row = (
                    "embedder_key".to_owned(),
                    "set, not shown".to_owned(),
                    origin,
                );
                settle.rows.push(row);
                Key::Variable(key.clone())
            }
            (None, Some(path)) => Key::File(path),
            (None, None) => Key::None,
        };
        let query = settle.setting(
            "PKM_EMBEDDER_QUERY_PREFIX",
            Said::new(file.embedder_query_prefix, String::new()),
            text,
            String::clone,
        )?;
        let passage = settle.setting(
            "PKM_EMBEDDER_PASSAGE_PREFIX",
            Said::new(file.embedder_passage_prefix, String::new()),
            text,
            String::clone,
        )?;
        let dim = settle.setting(
            "PKM_EMBEDDER_DIMENSION",
            Said::new(file.embedder_dimension.map(Some), None),
            |text| number(text).map(Some),
            |dim| shown(dim.map(|dim| dim.to_string())),
        )?;
        let window = settle.number("PKM_EMBEDDER_WINDOW", file.embedder_window, usual.window)?;
        let languages = settle.setting(
            "PKM_EMBEDDER_LANGUAGES",
            Said::new(file.embedder_languages, usual.languages.clone()),
            |text| {
                let languages = text.split(',').map(|language| language.trim().to_owned());
                Ok(languages.filter(|language| !language.is_empty()).collect())
            },
            |languages| languages.join(", "),
        )?;
        let batch = settle.number("PKM_EMBEDDER_BATCH", file.embedder_batch, usual.batch)?;
        let n_requests = settle.number(
            "PKM_EMBEDDER_REQUESTS",
            file.embedder_requests,
            usual.n_requests,
        )?;
        let timeout = settle.setting(
            "PKM_EMBEDDER_TIMEOUT",
            Said::new(file.embedder_timeout, usual.timeout.as_secs()),
            number,
            u64::to_string,
        )?;
        let n_retries = settle.number(
            "PKM_EMBEDDER_RETRIES",
            file.embedder_retries,
            usual.n_retries,
        )?;
        let tokenizer = settle.setting(
            "PKM_EMBEDDER_TOKENIZER",
            Said::new(file.embedder_tokenizer.map(Some), None),
            |text| Ok(Some(PathBuf::from(text))),
            |path| shown(path.as_ref().map(|path| path.display().to_string())),
        )?;
        let mut http = HttpOptions {
            url: url.value,
            api,
            dim: dim.value,
            window,
            languages: languages.value,
            batch,
            n_requests,
            timeout: Duration::from_secs(timeout.value),
            n_retries,
            tokenizer: tokenizer.value,
            ..usual
        };
        http.prefixes.query = query.value;
        http.prefixes.passage = passage.value;
        if kind.value == Kind::Http {
            http.check()
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(Self {
            kind,
            http,
            key,
            rows: settle.rows,
        })
    }
}

/// Who may have set a value, besides the environment.
struct Said<T> {
    flag: Option<(T, &'static str)>,
    file: Option<T>,
    default: T,
}

impl<T> Said<T> {
    fn new(file: Option<T>, default: T) -> Self {
        Self {
            flag: None,
            file,
            default,
        }
    }
}

/// Settles one setting after the other, and notes how each is shown.
struct Settle<'a> {
    environment: &'a Environment,
    rows: Vec<(String, String, Origin)>,
}

impl Settle<'_> {
    /// The setting that the environment has as `variable`.
    fn setting<T>(
        &mut self,
        variable: &'static str,
        said: Said<T>,
        parse: impl Fn(&str) -> Result<T, &'static str>,
        show: impl Fn(&T) -> String,
    ) -> Result<Setting<T>, Failure> {
        let set: Option<&OsString> = self.environment.embedder.get(variable);
        let set = match environment::utf8(variable, set)? {
            Some(text) => Some(parse(&text).map_err(|wanted| {
                Failure::usage(format!(
                    "the environment variable `{variable}` is `{text}`; it must be {wanted}"
                ))
            })?),
            None => None,
        };
        let (flag, flag_name) = said
            .flag
            .map_or((None, ""), |(value, name)| (Some(value), name));
        let setting = first(
            (flag, flag_name),
            (set, variable),
            said.file,
            Some(said.default),
        )
        .expect("there is a default");
        let name = variable.trim_start_matches("PKM_").to_lowercase();
        self.rows.push((name, show(&setting.value), setting.origin));
        Ok(setting)
    }

    fn number(
        &mut self,
        variable: &'static str,
        file: Option<usize>,
        default: usize,
    ) -> Result<usize, Failure> {
        let said = Said::new(file, default);
        Ok(self
            .setting(variable, said, number, usize::to_string)?
            .value)
    }
}

fn text(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.trim().parse().map_err(|_| "a whole number")
}

fn shown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "none".to_owned())
}
