//! Where things lie when nobody said where: the XDG folders where they are set or usual, else
//! what macOS and Windows have for this.

use std::path::PathBuf;

use super::Environment;

/// The folder for notes and models.
pub(super) fn data_home(environment: &Environment) -> Option<PathBuf> {
    let home = |below: &str| environment.home.as_ref().map(|home| home.join(below));
    environment
        .xdg_data_home
        .clone()
        .or_else(|| {
            if cfg!(target_os = "macos") {
                home("Library/Application Support")
            } else if cfg!(windows) {
                environment
                    .local_app_data
                    .clone()
                    .or_else(|| home("AppData/Local"))
            } else {
                home(".local/share")
            }
        })
        .map(|folder| folder.join("pkm"))
}

/// The config file, whether or not it exists.
pub(super) fn config_file(environment: &Environment) -> Option<PathBuf> {
    let home = |below: &str| environment.home.as_ref().map(|home| home.join(below));
    environment
        .xdg_config_home
        .clone()
        .or_else(|| {
            if cfg!(target_os = "macos") {
                home("Library/Application Support")
            } else if cfg!(windows) {
                environment
                    .app_data
                    .clone()
                    .or_else(|| home("AppData/Roaming"))
            } else {
                home(".config")
            }
        })
        .map(|folder| folder.join("pkm").join("config.toml"))
}
