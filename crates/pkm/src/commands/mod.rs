//! One module a command: its arguments, what it does, what it prints.

pub(crate) mod add;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod embedding;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod model;
pub(crate) mod reindex;
pub(crate) mod related;
pub(crate) mod restore;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod trash;

use anyhow::Result;

use crate::cli::Command;
use crate::config::Config;
use crate::out::Out;

/// Does what was asked for.
pub(crate) fn run(command: Command, config: &Config, out: &mut Out) -> Result<()> {
    match command {
        Command::Serve(args) => serve::run(&args, config),
        Command::Import(args) => import::run(args, config, out),
        Command::Export(args) => export::run(args, config, out),
        Command::Add(args) => add::run(args, config, out),
        Command::Get(args) => get::run(&args, config, out),
        Command::List(args) => list::run(args, config, out),
        Command::Edit(args) => edit::run(args, config, out),
        Command::Delete(args) => delete::run(&args, config, out),
        Command::Restore(args) => restore::run(&args, config, out),
        Command::History(args) => history::run(&args, config, out),
        Command::Trash(args) => trash::run(&args, config, out),
        Command::Search(args) => search::run(&args, config, out),
        Command::Related(args) => related::run(&args, config, out),
        Command::Reindex(args) => reindex::run(&args, config, out),
        Command::Jobs(args) => jobs::run(&args, config, out),
        Command::Status(args) => status::run(&args, config, out),
        Command::Model(args) => model::run(args, config, out),
        Command::Config(args) => settings::run(&args, config, out),
        Command::Doctor(args) => doctor::run(&args, config, out),
        Command::Inspect(args) => inspect::run(&args, out),
        Command::Bench(args) => bench::run(&args, config, out),
        Command::Eval(args) => eval::run(&args, config, out),
        Command::Completions(args) => completions::run(&args, out),
    }
}
