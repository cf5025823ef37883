//! The command line.

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use pkm_engine::Filter;

use crate::commands::{
    add, bench, completions, delete, doctor, edit, eval, export, get, history, import, inspect,
    jobs, list, model, reindex, related, restore, search, serve, settings, status, trash,
};
use crate::{config, when};

/// Keeps Markdown notes on this machine and finds them by words and by meaning, for people and,
/// through MCP, for language models.
#[derive(Debug, Parser)]
#[command(name = "pkm", version, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) settings: config::Flags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the notes to MCP clients over stdin and stdout, or over HTTP
    Serve(serve::Serve),
    /// Bring a folder of Markdown files in; a second time, only what changed
    Import(import::Import),
    /// Write the notes as Markdown files that `import` reads back
    Export(export::Export),
    /// Add a note from a file or from stdin
    Add(add::Add),
    /// Print a note
    Get(get::Get),
    /// List notes
    List(list::List),
    /// Change a note; without options, in your editor
    Edit(edit::Edit),
    /// Put a note into the trash
    Delete(delete::Delete),
    /// Take a note out of the trash, or back to an earlier revision
    Restore(restore::Restore),
    /// Show the revisions of a note
    History(history::History),
    /// Show what is in the trash, or empty it
    Trash(trash::Trash),
    /// Find notes by words and by meaning
    Search(search::Search),
    /// Find notes near to a note in meaning
    Related(related::Related),
    /// Embed what is not embedded yet, so that it can be found by meaning
    Reindex(reindex::Reindex),
    /// Show long work, or stop it
    Jobs(jobs::Jobs),
    /// Show what there is, and how much of it can be found by meaning
    Status(status::Status),
    /// List, fetch and check models
    Model(model::Model),
    /// Show the settings and where each came from
    Config(settings::Settings),
    /// Check the data folder and the model, and repair what can be repaired
    Doctor(doctor::Doctor),
    /// Find what is wrong in a log of MCP messages, or between a client and a server
    Inspect(inspect::Inspect),
    /// Measure search on a set of questions with known answers
    Eval(eval::Eval),
    /// Measure speed on this machine
    Bench(bench::Bench),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

/// Data for programs instead of people.
#[derive(Debug, Args)]
pub(crate) struct Format {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which notes are meant.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only notes with this tag; give it again for notes that have all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only notes in this folder and below it
    #[arg(long)]
    folder: Option<String>,
    /// Only notes changed then or later: a day such as `2026-11-30`, or RFC 3339
    #[arg(long, value_name = "DATE", value_parser = when::parse)]
    after: Option<Timestamp>,
    /// Only notes changed before then
    #[arg(long, value_name = "DATE", value_parser = when::parse)]
    before: Option<Timestamp>,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            tags: self.tags.clone(),
            folder: self.folder.clone(),
            updated_after: self.after,
            updated_before: self.before,
        }
    }
}
