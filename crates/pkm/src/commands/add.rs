//! `pkm add`

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use pkm_engine::NoteDraft;

use crate::cli::Format;
use crate::config::Config;
use crate::json;
use crate::out::{self, Out};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// The text, Markdown; `-` or nothing is stdin
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The title, if not the first heading or else the file's name
    #[arg(long)]
    title: Option<String>,
    /// A tag; give it again for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The folder, such as `work/meetings`
    #[arg(long, default_value = "", hide_default_value = true)]
    folder: String,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: Add, config: &Config, out: &mut Out) -> Result<()> {
    let content = read_text(args.file.as_deref())?;
    let title = match args.title {
        Some(title) => title,
        None => title_of(&content)
            .or_else(|| {
                Some(
                    named(args.file.as_deref()?)?
                        .file_stem()?
                        .to_str()?
                        .to_owned(),
                )
            })
            .ok_or_else(|| {
                Failure::usage("the text has no heading to take the title from")
                    .hint("give one with `--title`")
            })?,
    };
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let written = engine.add_note(NoteDraft {
        title,
        content,
        tags: args.tags,
        folder: args.folder,
        created_at: None,
        updated_at: None,
    })?;
    if args.format.json {
        out.json(&json::written(&written))?;
    } else {
        out.line(format!("added note {}", written.id))?;
    }
    Ok(())
}

/// The whole of a file, or of stdin for `-` and nothing.
pub(super) fn read_text(file: Option<&Path>) -> Result<String> {
    let (bytes, from) = match file.and_then(named) {
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|error| {
                Failure::new(format!("cannot read `{}`", path.display())).source(error)
            })?;
            (bytes, format!("`{}`", path.display()))
        }
        None => {
            let mut stdin = std::io::stdin();
            if stdin.is_terminal() {
                out::notice("reading the text from the terminal; Ctrl-D on a new line ends it");
            }
            let mut bytes = Vec::new();
            stdin
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::new("cannot read stdin").source(error))?;
            (bytes, "stdin".to_owned())
        }
    };
    String::from_utf8(bytes).map_err(|_| {
        Failure::new(format!("{from} is not UTF-8"))
            .hint("`pkm import` reads other encodings")
            .into()
    })
}

/// `file`, unless it stands for stdin.
fn named(file: &Path) -> Option<&Path> {
    (file.as_os_str() != "-").then_some(file)
}

/// The first heading outside of code blocks, else the first line that is not blank if it is short.
fn title_of(content: &str) -> Option<String> {
    let mut fence: Option<&str> = None;
    let mut first_line = None;
    for line in content.lines() {
        let line = line.trim_start_matches('\u{feff}').trim();
        let opens = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.starts_with(mark));
        match (fence, opens) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let text = line.trim_start_matches('#');
                let level = line.len() - text.len();
                if (1..=6).contains(&level) && text.starts_with(' ') && !text.trim().is_empty() {
                    return Some(text.trim().trim_end_matches('#').trim_end().to_owned());
                }
                if first_line.is_none() && !line.is_empty() {
                    first_line = Some(line);
                }
            }
        }
    }
    first_line
        .filter(|line| line.chars().count() <= 100 && *line != "---")
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::title_of;

    #[test]
    fn the_title_is_the_first_heading_outside_of_code() {
        let check =
            |content: &str, title: Option<&str>| assert_eq!(title_of(content).as_deref(), title);
        check("# 회의록\n본문", Some("회의록"));
        check("\u{feff}## Plan ##\r\nbody", Some("Plan"));
        check("```sh\n# a comment\n```\n\n# Real", Some("Real"));
        check("```\n~~~\n# still code\n```\n# Real", Some("Real"));
        check("#tag is no heading\n\ntext", Some("#tag is no heading"));
        check("Call the dentist", Some("Call the dentist"));
        check("", None);
        check(" \n\n", None);
        check(&"a".repeat(101), None);
    }
}
