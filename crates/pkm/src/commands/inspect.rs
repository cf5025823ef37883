//! `pkm inspect`

mod between;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pkm_inspect::{Direction, Entry, Finding, Inspector, KnownTools, Report, Severity, Splitter};
use serde_json::json;

use self::between::Between;
use crate::out::{self, Out};
use crate::report::Failure;

#[derive(Debug, clap::Args)]
#[command(override_usage = "pkm inspect [OPTIONS] <FILE>\n       \
    pkm inspect [OPTIONS] -- <COMMAND> [ARGS]...")]
pub(crate) struct Inspect {
    /// A log of messages, one a line: bare, or as `--trace` writes them; `-` is stdin
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// A server to start and to stand in front of: stdin and stdout go through unchanged
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Show only messages that something is wrong with
    #[arg(long, conflicts_with = "command")]
    only_findings: bool,
    /// Print JSON, one object a line
    #[arg(long, conflicts_with = "command")]
    json: bool,
    /// Where the messages of COMMAND are written down; a new file in the temporary folder if not
    /// given
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    trace: Option<PathBuf>,
    /// Write texts of notes down, too, and not only their lengths
    #[arg(long, conflicts_with = "file")]
    keep_text: bool,
    /// Do not say on stderr what is wrong with the messages of COMMAND
    #[arg(long, conflicts_with = "file")]
    quiet: bool,
}

pub(crate) fn run(args: &Inspect, out: &mut Out) -> Result<()> {
    match &args.file {
        Some(file) => inspect_file(file, args, out),
        None => Between {
            command: &args.command,
            trace: args.trace.as_deref(),
            keeps_text: args.keep_text,
            is_quiet: args.quiet,
        }
        .run(),
    }
}

/// How many of what there were.
#[derive(Debug, Default)]
struct Tally {
    n_messages: usize,
    n_errors: usize,
    n_warnings: usize,
}

impl Tally {
    fn add(&mut self, report: &Report) {
        self.n_errors += report.count(Severity::Error);
        self.n_warnings += report.count(Severity::Warning);
    }

    /// `12 messages: 1 error, 2 warnings`
    fn summary(&self) -> String {
        let messages = out::count(self.n_messages, "message");
        let mut found = Vec::new();
        for (n, what) in [(self.n_errors, "error"), (self.n_warnings, "warning")] {
            if n > 0 {
                found.push(out::count(n, what));
            }
        }
        if found.is_empty() {
            format!("{messages}, nothing wrong")
        } else {
            format!("{messages}: {}", found.join(", "))
        }
    }
}

fn inspect_file(file: &Path, args: &Inspect, out: &mut Out) -> Result<()> {
    let mut input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| cannot_read(file, error))?)
    };
    let mut inspector = Inspector::new(KnownTools::default());
    let (mut tally, mut n_lines) = (Tally::default(), 0);
    let mut take = |line: pkm_inspect::Line<'_>| {
        n_lines += 1;
        let Some(entry) = Entry::read(n_lines, line) else {
            return Ok(());
        };
        let report = inspector.message(&entry);
        tally.n_messages += 1;
        tally.add(&report);
        show(&report, args, out)
    };
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 64 << 10]);
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(n_read) => splitter.push(&buffer[..n_read], &mut take)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(cannot_read(file, error).into()),
        }
    }
    splitter.finish(&mut take)?;
    for report in inspector.finish() {
        tally.add(&report);
        show(&report, args, out)?;
    }
    if args.json {
        let summary = json!({"summary": {
            "messages": tally.n_messages,
            "errors": tally.n_errors,
            "warnings": tally.n_warnings,
        }});
        out.line(summary.to_string())?;
    } else {
        out.line(tally.summary())?;
    }
    if tally.n_errors > 0 {
        let errors = out::count(tally.n_errors, "error");
        return Err(Failure::new(format!("found {errors}")).into());
    }
    Ok(())
}

fn cannot_read(file: &Path, error: io::Error) -> Failure {
    Failure::new(format!("cannot read `{}`", file.display())).source(error)
}

fn show(report: &Report, args: &Inspect, out: &mut Out) -> io::Result<()> {
    if args.only_findings && report.findings.is_empty() {
        return Ok(());
    }
    if args.json {
        return out.line(serde_json::to_string(report)?);
    }
    let mut line = format!("{:>5} ", report.line);
    if let Some(at) = report.at {
        line.push_str(&time(at));
        line.push(' ');
    }
    out.line(one_line(&format!("{line}{}", headline(report))))?;
    for finding in &report.findings {
        out.line(one_line(&format!("        {}", tell(finding))))?;
        if let Some(hint) = &finding.hint {
            out.line(one_line(&format!("        hint: {hint}")))?;
        }
    }
    Ok(())
}

/// `→ request tools/list id 3`, with the channel where there can be several.
fn headline(report: &Report) -> String {
    let arrow = match report.direction {
        Some(Direction::ToServer) => '→',
        Some(Direction::ToClient) => '←',
        None => '·',
    };
    match report.channel.as_deref() {
        None | Some("" | between::CHANNEL) => format!("{arrow} {}", report.what),
        Some(channel) => format!(
            "{arrow} [{}] {}",
            pkm_inspect::cut(channel, 12),
            report.what
        ),
    }
}

/// `error: params.arguments.limit: must be at most 50 (arguments_schema)`
fn tell(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let (reason, code) = (&finding.reason, finding.code);
    match &finding.field {
        Some(field) => format!("{severity}: {field}: {reason} ({code})"),
        None => format!("{severity}: {reason} ({code})"),
    }
}

/// To the millisecond, in this machine's time zone.
fn time(moment: Timestamp) -> String {
    moment
        .to_zoned_datetime(TimeZone::system())
        .strftime("%H:%M:%S%.3f")
        .to_string()
}

fn one_line(text: &str) -> String {
    out::plain(text).replace('\n', " ")
}
