//! Between a client and its server: what comes goes on as it came, and is looked at aside.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use pkm_inspect::{
    Direction, Entry, Inspector, KnownTools, Line, Redaction, Report, Splitter, TraceLog,
};

use super::{Tally, headline, one_line, tell};
use crate::interrupt::Interrupt;
use crate::out;
use crate::report::{Exit, Failure};

/// How the log names the one connection there is.
pub(super) const CHANNEL: &str = "stdio";

const PIECE_BYTES: usize = 64 << 10;

/// Pieces that may wait for a slow disk, 64 MiB at most; then the wire waits with them, so that
/// neither a message nor the memory is lost.
const MAX_WAITING: usize = 1024;

/// How often is asked whether the server still runs, or the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

/// How long a server that was asked to end may take.
const GRACE: Duration = Duration::from_secs(5);

/// How long is waited for the last output of a server that has ended: a process that it started may
/// keep the pipe open for ever.
const DRAIN: Duration = Duration::from_secs(2);

/// A server to start, and how to watch it.
pub(super) struct Between<'a> {
    pub(super) command: &'a [OsString],
    pub(super) trace: Option<&'a Path>,
    pub(super) keeps_text: bool,
    pub(super) is_quiet: bool,
}

/// What the watcher is told.
enum Event {
    Piece {
        at: Timestamp,
        direction: Direction,
        bytes: Vec<u8>,
    },
    End,
}

impl Between<'_> {
    /// Runs until the server ends, and ends with its exit code.
    pub(super) fn run(&self) -> Result<()> {
        let interrupt = Interrupt::install()?;
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| Failure::usage("a command is needed behind `--`"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::new(format!("cannot start `{}`", program.display())).source(error)
            })?;
        let (events, seen) = mpsc::sync_channel(MAX_WAITING);
        let watcher = self.watch(seen)?;
        if let Some(stdin) = child.stdin.take() {
            let events = events.clone();
            start("to-server", move || {
                pump(io::stdin().lock(), stdin, Direction::ToServer, &events);
            })?;
        }
        let (drained, ended) = mpsc::channel::<()>();
        if let Some(stdout) = child.stdout.take() {
            let events = events.clone();
            start("to-client", move || {
                pump(stdout, io::stdout().lock(), Direction::ToClient, &events);
                drop(drained);
            })?;
        }
        let status = wait(&mut child, &interrupt, &ended)?;
        // The one that watches may have died, which must not change how the server ended.
        let _ = events.send(Event::End);
        let _ = watcher.join();
        match exit_code(status) {
            0 => Ok(()),
            code => Err(Exit(code).into()),
        }
    }

    fn watch(&self, seen: Receiver<Event>) -> Result<JoinHandle<()>> {
        let log = self.open_log().unwrap_or_else(|error| {
            out::notice(&format!(
                "pkm inspect: the messages are not written down: {error}"
            ));
            None
        });
        let watcher = Watcher {
            log,
            is_quiet: self.is_quiet,
            inspector: Inspector::new(KnownTools::default()),
            tally: Tally::default(),
        };
        start("watch", move || watcher.run(&seen))
    }

    fn open_log(&self) -> io::Result<Option<TraceLog>> {
        let redaction = if self.keeps_text {
            Redaction::None
        } else {
            Redaction::NoteText
        };
        if let Some(path) = self.trace {
            return TraceLog::create(path, redaction).map(Some);
        }
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let (file, path): (File, _) = tempfile::Builder::new()
            .prefix(&format!("pkm-inspect-{now}-"))
            .suffix(".jsonl")
            .tempfile()?
            .keep()
            .map_err(|error| error.error)?;
        out::notice(&format!("pkm inspect: writing to {}", path.display()));
        Ok(Some(TraceLog::new(file, redaction)))
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Ok(thread::Builder::new().name(name.to_owned()).spawn(run)?)
}

/// Hands everything on as it comes, until one of the two ends.
fn pump(mut from: impl Read, mut to: impl Write, direction: Direction, events: &SyncSender<Event>) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let bytes = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(n_read) => &buffer[..n_read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        // Before it goes on, or an answer could be seen before what it answers. Nobody watches any
        // more at the very end.
        let _ = events.send(Event::Piece {
            at: Timestamp::now(),
            direction,
            bytes: bytes.to_vec(),
        });
        if to.write_all(bytes).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Waits until the server has ended and said everything. `drained` is closed when its output ends.
fn wait(child: &mut Child, interrupt: &Interrupt, drained: &Receiver<()>) -> Result<ExitStatus> {
    let mut kill_at = None;
    let mut is_drained = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        match kill_at {
            None if interrupt.is_set() => {
                terminate(child)?;
                kill_at = Some(Instant::now() + GRACE);
            }
            Some(at) if Instant::now() >= at => child.kill()?,
            _ => {}
        }
        if is_drained {
            thread::sleep(TICK);
        } else {
            is_drained = has_ended(drained, TICK);
        }
    };
    if !is_drained {
        has_ended(drained, DRAIN);
    }
    Ok(status)
}

fn has_ended(drained: &Receiver<()>, timeout: Duration) -> bool {
    drained.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
}

/// Asks the server to end.
#[cfg(unix)]
fn terminate(child: &mut Child) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    // It was not waited for yet, so the number is still its own.
    Ok(kill_process(Pid::from_child(child), Signal::TERM)?)
}

#[cfg(not(unix))]
fn terminate(child: &mut Child) -> io::Result<()> {
    child.kill()
}

/// As a shell tells it: 128 and the signal for a process that a signal ended.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status
        .code()
        .map_or(1, |code| u8::try_from(code).unwrap_or(1))
}

/// Looks at the messages, aside.
struct Watcher {
    log: Option<TraceLog>,
    is_quiet: bool,
    inspector: Inspector,
    tally: Tally,
}

impl Watcher {
    fn run(mut self, seen: &Receiver<Event>) {
        let (mut to_server, mut to_client) = (Splitter::default(), Splitter::default());
        while let Ok(Event::Piece {
            at,
            direction,
            bytes,
        }) = seen.recv()
        {
            let splitter = match direction {
                Direction::ToServer => &mut to_server,
                Direction::ToClient => &mut to_client,
            };
            let Ok(()) = splitter.push(&bytes, |line| self.take(at, direction, line));
        }
        let now = Timestamp::now();
        let Ok(()) = to_server.finish(|line| self.take(now, Direction::ToServer, line));
        let Ok(()) = to_client.finish(|line| self.take(now, Direction::ToClient, line));
        for report in std::mem::take(&mut self.inspector).finish() {
            self.tell(&report);
        }
        if !self.is_quiet {
            out::notice(&format!("pkm inspect: {}", self.tally.summary()));
        }
    }

    fn take(
        &mut self,
        at: Timestamp,
        direction: Direction,
        line: Line<'_>,
    ) -> Result<(), std::convert::Infallible> {
        let Some(mut entry) = Entry::read(self.tally.n_messages as u64 + 1, line) else {
            return Ok(());
        };
        self.write(at, direction, line);
        self.tally.n_messages += 1;
        entry.at = Some(at);
        entry.direction = Some(direction);
        entry.channel = Some(CHANNEL.to_owned());
        let report = self.inspector.message(&entry);
        self.tell(&report);
        Ok(())
    }

    fn write(&mut self, at: Timestamp, direction: Direction, line: Line<'_>) {
        let Some(log) = &self.log else { return };
        let written = match line {
            Line::Bytes(bytes) => log.record(at, direction, CHANNEL, bytes),
            Line::TooLong { n_bytes } => log.record_too_long(at, direction, CHANNEL, n_bytes),
        };
        if let Err(error) = written {
            out::notice(&format!(
                "pkm inspect: the messages are not written down any more: {error}"
            ));
            self.log = None;
        }
    }

    fn tell(&mut self, report: &Report) {
        self.tally.add(report);
        if self.is_quiet {
            return;
        }
        for finding in &report.findings {
            let headline = headline(report);
            let mut text = format!("pkm inspect: {headline}: {}", tell(finding));
            if let Some(hint) = &finding.hint {
                text.push_str(&format!("; hint: {hint}"));
            }
            out::notice(&one_line(&text));
        }
    }
}
