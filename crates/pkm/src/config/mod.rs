//! The settings of a run, and where each came from: flag before environment before file before
//! default.

mod embedder;
mod environment;
mod file;
mod paths;

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;

pub(crate) use embedder::{Embedder, Kind};
pub(crate) use environment::Environment;
use file::File;

use crate::report::Failure;

/// Days that a deleted note can be restored, where nothing else is said.
const TRASH_DAYS: u32 = 30;
/// rmcp warns of each request that it refuses, which is the client's to hear and not the user's.
const DEFAULT_LOG: &str = "warn,rmcp=error";

/// The settings that can be given as flags of every command.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Flags {
    /// Folder that holds the notes [env: PKM_HOME]
    #[arg(long, global = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Who embeds: `local`, or `http` for a server, which gets the texts of all notes
    /// [env: PKM_EMBEDDER]
    #[arg(long, global = true, value_name = "KIND")]
    embedder: Option<String>,
    /// Address of the server that embeds [env: PKM_EMBEDDER_URL]
    #[arg(long, global = true, value_name = "URL")]
    embedder_url: Option<String>,
    /// Model that finds by meaning; `pkm model list` shows them [env: PKM_MODEL]
    #[arg(long, global = true, value_name = "NAME")]
    model: Option<String>,
    /// Folder that holds the models [env: PKM_MODELS]
    #[arg(long, global = true, value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// Where the model runs: `auto`, `cpu`, `cuda`, `cuda:N`, `metal` or `metal:N` [env: PKM_DEVICE]
    #[arg(long, global = true)]
    device: Option<String>,
    /// How exactly the model computes: `auto`, `f32` or `bf16` [env: PKM_PRECISION]
    #[arg(long, global = true)]
    precision: Option<String>,
    /// Cores that embedding may use; all that there are if not given [env: PKM_THREADS]
    #[arg(long, global = true, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// What is logged to stderr: a level, or a filter such as `pkm_engine=debug` [env: PKM_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
}

/// The resolved settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) data: Setting<PathBuf>,
    pub(crate) embedder: Embedder,
    /// `None` leaves the choice to what is installed, or to the server that embeds.
    pub(crate) model: Setting<Option<String>>,
    pub(crate) models: Setting<PathBuf>,
    /// Address that models are fetched from.
    pub(crate) hub: Setting<String>,
    pub(crate) device: Setting<String>,
    pub(crate) precision: Setting<String>,
    /// `None` for all cores.
    pub(crate) threads: Setting<Option<NonZeroUsize>>,
    pub(crate) log: Setting<String>,
    pub(crate) trash_days: Setting<u32>,
    /// Whether `search` and `fetch` are served beside the other tools.
    pub(crate) connector_tools: Setting<bool>,
    /// `$VISUAL`, else `$EDITOR`.
    pub(crate) editor: Option<OsString>,
    pub(crate) file: PathBuf,
    pub(crate) file_exists: bool,
}

/// A value and who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Who set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File,
    Environment(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File => f.write_str("file"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Config {
    /// Settles every setting.
    pub(crate) fn resolve(flags: &Flags, environment: &Environment) -> Result<Self> {
        let file_path = paths::config_file(environment);
        let file = match &file_path {
            Some(path) => File::read(path, environment.home.as_deref())?,
            None => None,
        };
        let file_exists = file.is_some();
        let file = file.unwrap_or_default();
        let embedder = Embedder::resolve(flags, environment, file.clone())?;
        let data_home = paths::data_home(environment);
        let home_is_unknown = |what: &str, setting: &str| {
            Failure::new(format!("there is no home folder to put the {what} in")).hint(setting)
        };
        let data = first(
            (flags.data.clone(), "--data"),
            (environment.pkm_home.clone(), "PKM_HOME"),
            file.data,
            data_home.clone(),
        )
        .ok_or_else(|| home_is_unknown("notes", "name a folder with `--data` or `PKM_HOME`"))?;
        let models = first(
            (flags.models.clone(), "--models"),
            (environment.pkm_models.clone(), "PKM_MODELS"),
            file.models,
            // Beside the default data folder, not in the one in use: models serve all of them.
            data_home.map(|home| home.join("models")),
        )
        .ok_or_else(|| {
            home_is_unknown("models", "name a folder with `--models` or `PKM_MODELS`")
        })?;
        let text = |flag: &Option<String>,
                    flag_name,
                    value: &Option<OsString>,
                    name,
                    file,
                    default: &str| {
            let value = environment::utf8(name, value.as_ref())?;
            let setting = first(
                (flag.clone(), flag_name),
                (value, name),
                file,
                Some(default.to_owned()),
            );
            Ok::<_, Failure>(setting.expect("there is a default"))
        };
        let hub = first(
            (None, ""),
            (
                environment::utf8("HF_ENDPOINT", environment.hf_endpoint.as_ref())?,
                "HF_ENDPOINT",
            ),
            file.hub,
            Some(pkm_embed::PullOptions::new().endpoint),
        )
        .expect("there is a default");
        let device = text(
            &flags.device,
            "--device",
            &environment.pkm_device,
            "PKM_DEVICE",
            file.device,
            "auto",
        )?;
        let precision = text(
            &flags.precision,
            "--precision",
            &environment.pkm_precision,
            "PKM_PRECISION",
            file.precision,
            "auto",
        )?;
        let threads = optional(
            (flags.threads, "--threads"),
            (
                environment::count("PKM_THREADS", environment.pkm_threads.as_ref())?,
                "PKM_THREADS",
            ),
            file.threads,
        );
        let log = text(
            &flags.log,
            "--log",
            &environment.pkm_log,
            "PKM_LOG",
            file.log,
            DEFAULT_LOG,
        )?;
        let model = optional(
            (flags.model.clone(), "--model"),
            (
                environment::utf8("PKM_MODEL", environment.pkm_model.as_ref())?,
                "PKM_MODEL",
            ),
            file.model,
        );
        let connector_tools = first(
            (None, ""),
            (
                environment::switch(
                    "PKM_CONNECTOR_TOOLS",
                    environment.pkm_connector_tools.as_ref(),
                )?,
                "PKM_CONNECTOR_TOOLS",
            ),
            file.connector_tools,
            Some(false),
        )
        .expect("there is a default");
        Ok(Self {
            data,
            embedder,
            connector_tools,
            model,
            models,
            hub: Setting {
                value: hub.value.trim_end_matches('/').to_owned(),
                ..hub
            },
            device,
            precision,
            threads,
            log,
            trash_days: match file.trash_days {
                Some(value) => Setting {
                    value,
                    origin: Origin::File,
                },
                None => Setting {
                    value: TRASH_DAYS,
                    origin: Origin::Default,
                },
            },
            editor: environment
                .visual
                .clone()
                .or_else(|| environment.editor.clone()),
            file: file_path.unwrap_or_default(),
            file_exists,
        })
    }
}

/// The value of the nearest that has one.
fn first<T>(
    (flag, flag_name): (Option<T>, &'static str),
    (environment, variable): (Option<T>, &'static str),
    file: Option<T>,
    default: Option<T>,
) -> Option<Setting<T>> {
    let with = |origin| move |value| Setting { value, origin };
    flag.map(with(Origin::Flag(flag_name)))
        .or(environment.map(with(Origin::Environment(variable))))
        .or(file.map(with(Origin::File)))
        .or(default.map(with(Origin::Default)))
}

/// The same for what may be left open.
fn optional<T>(
    flag: (Option<T>, &'static str),
    environment: (Option<T>, &'static str),
    file: Option<T>,
) -> Setting<Option<T>> {
    match first(flag, environment, file, None) {
        Some(Setting { value, origin }) => Setting {
            value: Some(value),
            origin,
        },
        None => Setting {
            value: None,
            origin: Origin::Default,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home folder with this config file, or none.
    fn home(config: Option<&str>) -> (tempfile::TempDir, Environment) {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment {
            home: Some(home.path().to_owned()),
            xdg_config_home: Some(home.path().join("config")),
            xdg_data_home: Some(home.path().join("share")),
            ..Environment::default()
        };
        if let Some(config) = config {
            std::fs::create_dir_all(home.path().join("config/pkm")).unwrap();
            std::fs::write(home.path().join("config/pkm/config.toml"), config).unwrap();
        }
        (home, environment)
    }

    #[test]
    fn nothing_said_means_the_folders_of_the_desktop_standard() {
        let (home, environment) = home(None);
        let config = Config::resolve(&Flags::default(), &environment).unwrap();
        assert_eq!(config.data.value, home.path().join("share/pkm"));
        assert_eq!(config.models.value, home.path().join("share/pkm/models"));
        assert_eq!(
            config.model,
            Setting {
                value: None,
                origin: Origin::Default
            }
        );
        assert_eq!(config.file, home.path().join("config/pkm/config.toml"));
        assert!(!config.file_exists);
    }

    #[test]
    fn a_flag_beats_the_environment_which_beats_the_file() {
        let (home, mut environment) = home(Some(
            "model = \"from-file\"\nlog = \"info\"\ndata = \"~/n\"\n",
        ));
        let check = |flags: &Flags, environment: &Environment, value: &str, origin| {
            let config = Config::resolve(flags, environment).unwrap();
            assert_eq!(
                config.model,
                Setting {
                    value: Some(value.to_owned()),
                    origin
                }
            );
            assert_eq!(
                config.log,
                Setting {
                    value: "info".to_owned(),
                    origin: Origin::File
                }
            );
            assert_eq!(config.data.value, home.path().join("n"));
        };
        check(&Flags::default(), &environment, "from-file", Origin::File);
        environment.pkm_model = Some("from-environment".into());
        check(
            &Flags::default(),
            &environment,
            "from-environment",
            Origin::Environment("PKM_MODEL"),
        );
        let flags = Flags {
            model: Some("from-flag".to_owned()),
            ..Flags::default()
        };
        check(&flags, &environment, "from-flag", Origin::Flag("--model"));
    }

    #[test]
    fn cores_are_counted_from_one_wherever_they_are_given() {
        let two = NonZeroUsize::new(2);
        let threads = |file: Option<&str>, variable: Option<&str>| {
            let (_home, mut environment) = home(file);
            environment.pkm_threads = variable.map(Into::into);
            Config::resolve(&Flags::default(), &environment).map(|config| config.threads)
        };
        assert_eq!(threads(None, None).unwrap().value, None);
        assert_eq!(threads(Some("threads = 2\n"), None).unwrap().value, two);
        let setting = threads(Some("threads = 4\n"), Some("2")).unwrap();
        assert_eq!(setting.value, two);
        assert_eq!(setting.origin, Origin::Environment("PKM_THREADS"));
        for wrong in ["0", "-1", "many", "1.5"] {
            let error = threads(None, Some(wrong)).unwrap_err().to_string();
            assert!(
                error.contains("`PKM_THREADS`") && error.contains(wrong),
                "{error}"
            );
        }
        assert!(threads(Some("threads = 0\n"), None).is_err());
    }

    #[test]
    fn the_connector_tools_are_off_unless_somebody_wants_them() {
        let check = |file: Option<&str>, variable: Option<&str>, wanted, origin| {
            let (_home, mut environment) = home(file);
            environment.pkm_connector_tools = variable.map(Into::into);
            let config = Config::resolve(&Flags::default(), &environment).unwrap();
            let value = wanted;
            assert_eq!(config.connector_tools, Setting { value, origin });
        };
        let on = Some("connector_tools = true\n");
        let variable = Origin::Environment("PKM_CONNECTOR_TOOLS");
        check(None, None, false, Origin::Default);
        check(on, None, true, Origin::File);
        check(None, Some("1"), true, variable);
        check(on, Some("false"), false, variable);

        let (_home, mut environment) = home(None);
        environment.pkm_connector_tools = Some("perhaps".into());
        let error = Config::resolve(&Flags::default(), &environment).unwrap_err();
        assert!(crate::report::render(&error).contains("`true` or `false`"));
    }

    #[test]
    fn another_data_folder_does_not_move_the_models() {
        let (home, mut environment) = home(None);
        environment.pkm_home = Some("/elsewhere".into());
        let config = Config::resolve(&Flags::default(), &environment).unwrap();
        assert_eq!(config.data.value, PathBuf::from("/elsewhere"));
        assert_eq!(config.models.value, home.path().join("share/pkm/models"));
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line() {
        let check = |config: &str, expected: &str| {
            let (_home, environment) = home(Some(config));
            let error = Config::resolve(&Flags::default(), &environment).unwrap_err();
            let text = crate::report::render(&error);
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("config.toml"), "{text}");
        };
        check(
            "log = \"info\"\nmodle = \"x\"\n",
            "line 2: unknown field `modle`",
        );
        check(
            "trash_days = \"many\"\n",
            "line 1: invalid type: string \"many\"",
        );
        check("log = \n", "line 1: ");
    }

    #[test]
    fn without_any_home_the_error_says_how_to_name_a_folder() {
        let error = Config::resolve(&Flags::default(), &Environment::default()).unwrap_err();
        assert!(crate::report::render(&error).contains("`PKM_HOME`"));
    }
}
