//! `pkm edit`

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::Result;
use pkm_engine::{ContentEdit, Engine, Error as EngineError, Note, NoteEdit, NoteId, Written};

use super::add::read_text;
use crate::cli::Format;
use crate::config::Config;
use crate::json;
use crate::out::{self, Out};
use crate::report::Failure;
use crate::wiring::{self, ModelUse, Turn};

#[derive(Debug, clap::Args)]
pub(crate) struct Edit {
    /// The note
    id: i64,
    /// A new title
    #[arg(long)]
    title: Option<String>,
    /// The new tags, in place of those it has; give it again for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Take all tags off
    #[arg(long, conflicts_with = "tags")]
    no_tags: bool,
    /// Move it to this folder; `/` is the root
    #[arg(long)]
    folder: Option<String>,
    /// Add this text at the end; `-` reads it from stdin
    #[arg(
        long,
        value_name = "TEXT",
        group = "change",
        allow_hyphen_values = true
    )]
    append: Option<String>,
    /// Replace a text that occurs exactly once
    #[arg(long, num_args = 2, value_names = ["FIND", "WITH"], group = "change", allow_hyphen_values = true)]
    replace: Vec<String>,
    /// Replace the whole content by that of a file; `-` is stdin
    #[arg(long, value_name = "FILE", group = "change")]
    content: Option<PathBuf>,
    /// Only if the note is at this revision
    #[arg(long, value_name = "REVISION")]
    expect: Option<i64>,
    #[command(flatten)]
    format: Format,
}

pub(crate) fn run(args: Edit, config: &Config, out: &mut Out) -> Result<()> {
    let id = NoteId(args.id);
    let edit = NoteEdit {
        expected_revision: args.expect,
        title: args.title,
        content: content_edit(args.append, args.replace, args.content.as_deref())?,
        tags: (args.no_tags || !args.tags.is_empty()).then_some(args.tags),
        folder: args.folder,
    };
    let says_what = edit.title.is_some()
        || edit.content.is_some()
        || edit.tags.is_some()
        || edit.folder.is_some();
    let engine = wiring::open(config, Turn::Never, ModelUse::None)?;
    let written = if says_what {
        engine.update_note(id, &edit)?
    } else {
        match edit_by_hand(&engine, id, &edit, config)? {
            Some(written) => written,
            None => {
                out::notice("nothing was changed");
                return Ok(());
            }
        }
    };
    if args.format.json {
        out.json(&json::written(&written))?;
    } else {
        out.line(format!(
            "note {} is now at revision {}",
            written.id, written.revision
        ))?;
    }
    Ok(())
}

fn content_edit(
    append: Option<String>,
    replace: Vec<String>,
    content: Option<&Path>,
) -> Result<Option<ContentEdit>> {
    if let Some(text) = append {
        let text = if text == "-" { read_text(None)? } else { text };
        return Ok(Some(ContentEdit::Append(text)));
    }
    if let Ok([find, with]) = <[String; 2]>::try_from(replace) {
        return Ok(Some(ContentEdit::Replace { find, with }));
    }
    match content {
        Some(file) => Ok(Some(ContentEdit::Set(read_text(Some(file))?))),
        None => Ok(None),
    }
}

/// Lets the user edit the content. `None` when it was left as it was. What the user wrote is never
/// lost: where it cannot be stored, it stays in its file and the error says where.
fn edit_by_hand(
    engine: &Engine,
    id: NoteId,
    edit: &NoteEdit,
    config: &Config,
) -> Result<Option<Written>> {
    let editor = config.editor.as_deref().ok_or_else(|| {
        Failure::new("no editor is set").hint(
            "set `VISUAL` or `EDITOR`, or say what to change with `--append`, `--replace`, `--content`, `--title`",
        )
    })?;
    let note = engine.get_note(id)?;
    if let Some(expected) = edit.expected_revision
        && expected != note.revision
    {
        return Err(EngineError::Conflict {
            id,
            expected,
            found: note.revision,
        }
        .into());
    }
    let mut file = tempfile::Builder::new()
        .prefix(&format!("pkm-{id}-"))
        .suffix(".md")
        .tempfile()
        .map_err(|error| Failure::new("cannot make a file for the editor").source(error))?;
    file.write_all(note.content.as_bytes())?;
    // Closed, because some editors replace the file instead of writing to it.
    let path = file.into_temp_path();
    let status = start(editor, &path).map_err(|error| {
        Failure::new(format!("cannot start the editor `{}`", editor.display())).source(error)
    })?;
    if !status.success() {
        return Err(Failure::new(format!(
            "the editor `{}` failed: {status}",
            editor.display()
        ))
        .hint("the note is as it was")
        .into());
    }
    let stored = store(engine, &note, &path);
    if stored.is_err()
        && let Ok(kept) = path.keep()
    {
        out::notice(&format!("your text is kept in `{}`", kept.display()));
    }
    stored
}

fn store(engine: &Engine, note: &Note, path: &Path) -> Result<Option<Written>> {
    let content = read_text(Some(path))?;
    if content == note.content {
        return Ok(None);
    }
    let edit = NoteEdit {
        // The one that the user saw.
        expected_revision: Some(note.revision),
        content: Some(ContentEdit::Set(content)),
        ..NoteEdit::default()
    };
    Ok(Some(engine.update_note(note.id, &edit)?))
}

/// Runs `editor`, which may have arguments of its own, as a shell would read it.
#[cfg(unix)]
fn start(editor: &OsStr, path: &Path) -> std::io::Result<ExitStatus> {
    let mut line = editor.to_owned();
    line.push(" \"$1\"");
    Command::new("sh")
        .arg("-c")
        .arg(line)
        .arg("pkm")
        .arg(path)
        .status()
}

/// Runs `editor`, whose arguments are taken to be what follows its first blank.
#[cfg(not(unix))]
fn start(editor: &OsStr, path: &Path) -> std::io::Result<ExitStatus> {
    let editor = editor.to_string_lossy();
    let mut words = editor.split_whitespace();
    Command::new(words.next().unwrap_or_default())
        .args(words)
        .arg(path)
        .status()
}
