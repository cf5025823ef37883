//! Where things lie when nobody said where: the XDG folders where they are set or usual, else
//! what macOS and Windows have for this.

use std::path::{Path, PathBuf};

use super::Environment;

/// The folder for notes and models.
pub(super) fn data_home(environment: &Environment) -> Option<PathBuf> {
    let usual = Usual {
        xdg: environment.xdg_data_home.as_deref(),
        windows: environment.local_app_data.as_deref(),
        windows_below_home: "AppData/Local",
        unix_below_home: ".local/share",
    };
    Some(usual.folder(environment)?.join("pkm"))
}

/// The config file, whether or not it exists.
pub(super) fn config_file(environment: &Environment) -> Option<PathBuf> {
    let usual = Usual {
        xdg: environment.xdg_config_home.as_deref(),
        windows: environment.app_data.as_deref(),
        windows_below_home: "AppData/Roaming",
        unix_below_home: ".config",
    };
    Some(usual.folder(environment)?.join("pkm").join("config.toml"))
}

/// Where one kind of file lies.
struct Usual<'a> {
    xdg: Option<&'a Path>,
    windows: Option<&'a Path>,
    windows_below_home: &'a str,
    unix_below_home: &'a str,
}

impl Usual<'_> {
    fn folder(&self, environment: &Environment) -> Option<PathBuf> {
        if let Some(folder) = self.xdg {
            return Some(folder.to_owned());
        }
        let below_home = if cfg!(target_os = "macos") {
            "Library/Application Support"
        } else if cfg!(windows) {
            if let Some(folder) = self.windows {
                return Some(folder.to_owned());
            }
            self.windows_below_home
        } else {
            self.unix_below_home
        };
        Some(environment.home.as_ref()?.join(below_home))
    }
}
