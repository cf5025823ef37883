//! The log: one JSON object a line, written by [`TraceLog`] and read by [`Entry`].
//!
//! ```text
//! {"at":"2026-11-30T09:00:00.123Z","dir":"in","channel":"stdio","message":{"jsonrpc":"2.0",…}}
//! {"at":…,"dir":"out","channel":"stdio","redacted":true,"message":{…"text":"[120 chars]"…}}
//! {"at":…,"dir":"in","channel":"stdio","raw":"{\"jsonrpc\":","error":"EOF while parsing a value …"}
//! {"at":…,"dir":"in","channel":"stdio","n_bytes":70000000}
//! ```
//!
//! `dir` is seen from the server: `in` goes from the client to the server, `out` from the server to
//! the client. `message` is the message as it was sent; `raw` is what was sent and is no JSON;
//! `n_bytes` is the length of what was too long to keep.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::lines::Line;
use crate::names::Direction;
use crate::redact::{self, Redaction};

/// A line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its number, from 1.
    pub line: u64,
    /// When it went over the wire, where the log says it.
    pub at: Option<Timestamp>,
    /// Which way it went, where the log says it.
    pub direction: Option<Direction>,
    /// On which connection or session, where the log says it. Ids belong to a channel.
    pub channel: Option<String>,
    /// Texts of the user were replaced, so nothing can be said about them.
    pub is_redacted: bool,
    /// What it was.
    pub body: Body,
}

/// What went over the wire.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// JSON; not necessarily a message.
    Json(Value),
    /// Something else.
    Text {
        /// What it was, as far as it is UTF-8.
        text: String,
        /// Why it is no JSON.
        problem: String,
    },
    /// Too much to look at.
    TooLong {
        /// How much.
        n_bytes: usize,
    },
}

impl Body {
    /// Reads one message, or what came in the place of one.
    pub fn read(bytes: &[u8]) -> Self {
        let bytes = bare(bytes);
        match parse(bytes) {
            Ok(value) => Self::Json(value),
            Err(problem) => Self::Text {
                text: String::from_utf8_lossy(bytes).into_owned(),
                problem,
            },
        }
    }
}

impl Entry {
    /// Reads line number `line`: a record of a [`TraceLog`], or a bare message; `None` for a blank
    /// line.
    pub fn read(line: u64, bytes: Line<'_>) -> Option<Self> {
        let bare_message = |body| Self {
            line,
            at: None,
            direction: None,
            channel: None,
            is_redacted: false,
            body,
        };
        let bytes = match bytes {
            Line::Bytes(bytes) => bytes,
            Line::TooLong { n_bytes } => return Some(bare_message(Body::TooLong { n_bytes })),
        };
        if bare(bytes).is_empty() {
            return None;
        }
        let mut body = Body::read(bytes);
        if let Body::Json(Value::Object(object)) = &mut body
            && let Some(entry) = record(line, object)
        {
            return Some(entry);
        }
        Some(bare_message(body))
    }
}

/// Reads a record, if it is one.
fn record(line: u64, object: &mut Map<String, Value>) -> Option<Entry> {
    if object.contains_key("jsonrpc") {
        return None;
    }
    let direction = match object.get("dir")?.as_str()? {
        "in" => Direction::ToServer,
        "out" => Direction::ToClient,
        _ => return None,
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let at = text("at").and_then(|at| at.parse().ok());
    let channel = text("channel");
    let is_redacted = object.get("redacted").is_some_and(|flag| flag == true);
    let n_bytes = object.get("n_bytes").and_then(Value::as_u64);
    let (raw, problem) = (text("raw"), text("error"));
    let body = if let Some(message) = object.get_mut("message") {
        Body::Json(message.take())
    } else if let Some(raw) = raw {
        Body::Text {
            text: raw,
            problem: problem.unwrap_or_default(),
        }
    } else {
        Body::TooLong {
            n_bytes: usize::try_from(n_bytes?).ok()?,
        }
    };
    Some(Entry {
        line,
        at,
        direction: Some(direction),
        channel,
        is_redacted,
        body,
    })
}

/// Without a byte order mark and blanks around.
fn bare(bytes: &[u8]) -> &[u8] {
    bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii()
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text).map_err(|error| error.to_string()),
        Err(error) => Err(format!(
            "it is not UTF-8 from byte {} on",
            error.valid_up_to() + 1
        )),
    }
}

/// Appends messages to a file, each at once and as one write, so that several threads, and several
/// processes with channels of their own, can share it.
#[derive(Debug)]
pub struct TraceLog {
    redaction: Redaction,
    target: Mutex<Target>,
}

#[derive(Debug)]
struct Target {
    file: File,
    /// The last record was not written to its end.
    is_torn: bool,
}

/// A record, all but its message.
#[derive(Serialize)]
struct Record<'a> {
    at: String,
    dir: Direction,
    channel: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_bytes: Option<usize>,
}

impl<'a> Record<'a> {
    fn new(at: Timestamp, dir: Direction, channel: &'a str) -> Self {
        Self {
            at: format!("{at:.3}"),
            dir,
            channel,
            redacted: false,
            raw: None,
            error: None,
            n_bytes: None,
        }
    }
}

impl TraceLog {
    /// Opens `path` for appending. A new file can be read by its owner only.
    ///
    /// # Errors
    ///
    /// Those of the operating system.
    pub fn create(path: &Path, redaction: Redaction) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self::new(options.open(path)?, redaction))
    }

    /// Writes to `file`, from where it stands.
    pub fn new(file: File, redaction: Redaction) -> Self {
        let target = Mutex::new(Target {
            file,
            is_torn: false,
        });
        Self { redaction, target }
    }

    /// Writes one message down. `bytes`: the message as it was sent; a blank one is left out.
    ///
    /// # Errors
    ///
    /// Those of the operating system. The record is lost then, the next one need not be.
    pub fn record(
        &self,
        at: Timestamp,
        direction: Direction,
        channel: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        let bytes = bare(bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        let mut record = Record::new(at, direction, channel);
        match Body::read(bytes) {
            Body::Json(mut message) => {
                record.redacted = redact::message(&mut message, self.redaction);
                let message = if record.redacted {
                    serde_json::to_vec(&message)?
                } else {
                    on_one_line(bytes)
                };
                self.write(&record, Some(&message))
            }
            Body::Text { text, problem } => {
                record.error = Some(problem);
                record.raw = Some(match self.redaction {
                    Redaction::None => text,
                    // What is no JSON cannot be told apart into what is the user's and what not.
                    Redaction::NoteText => {
                        record.redacted = true;
                        redact::mask(&text)
                    }
                });
                self.write(&record, None)
            }
            Body::TooLong { n_bytes } => self.record_too_long(at, direction, channel, n_bytes),
        }
    }

    /// Writes down that a message of `n_bytes` was too long to keep.
    ///
    /// # Errors
    ///
    /// As for [`TraceLog::record`].
    pub fn record_too_long(
        &self,
        at: Timestamp,
        direction: Direction,
        channel: &str,
        n_bytes: usize,
    ) -> io::Result<()> {
        let mut record = Record::new(at, direction, channel);
        record.n_bytes = Some(n_bytes);
        self.write(&record, None)
    }

    fn write(&self, record: &Record<'_>, message: Option<&[u8]>) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        if let Some(message) = message {
            // The object is opened again, so that the message stays as it was written.
            line.pop();
            line.extend_from_slice(b",\"message\":");
            line.extend_from_slice(message);
            line.push(b'}');
        }
        line.push(b'\n');
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if target.is_torn {
            line.insert(0, b'\n');
        }
        let written = target.file.write_all(&line);
        target.is_torn = written.is_err();
        written
    }
}

/// JSON on one line: within strings there are no line ends, and elsewhere a blank is as good.
fn on_one_line(json: &[u8]) -> Vec<u8> {
    json.iter()
        .map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            byte => *byte,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(name: &str, redaction: Redaction) -> (std::path::PathBuf, TraceLog) {
        let path = std::env::temp_dir().join(format!("pkm-inspect-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let log = TraceLog::create(&path, redaction).unwrap();
        (path, log)
    }

    fn entries(path: &Path) -> (String, Vec<Entry>) {
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        let read = |(i, line): (usize, &str)| {
            Entry::read(i as u64 + 1, Line::Bytes(line.as_bytes())).unwrap()
        };
        let entries = text.lines().enumerate().map(read).collect();
        (text, entries)
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (path, log) = log("back", Redaction::None);
        let at: Timestamp = "2026-11-30T09:00:00.1239Z".parse().unwrap();
        let message = "{\"jsonrpc\": \"2.0\",\r\n \"id\": 12345678901234567890123, \"id\": 1.0, \"x\": \"김\\n\"}";
        let record = |direction, bytes: &[u8]| log.record(at, direction, "stdio", bytes).unwrap();
        record(Direction::ToServer, message.as_bytes());
        record(Direction::ToClient, b"  \r\n");
        record(Direction::ToClient, b"starting\xff up");
        log.record_too_long(at, Direction::ToClient, "stdio", 70_000_000)
            .unwrap();
        let (text, entries) = entries(&path);
        assert_eq!(
            text.lines().next().unwrap(),
            format!(
                "{{\"at\":\"2026-11-30T09:00:00.123Z\",\"dir\":\"in\",\"channel\":\"stdio\",\"message\":{}}}",
                message.replace("\r\n", "  ")
            )
        );
        assert_eq!(entries.len(), 3);
        let entry = |line, direction, body| Entry {
            line,
            at: "2026-11-30T09:00:00.123Z".parse().ok(),
            direction: Some(direction),
            channel: Some("stdio".to_owned()),
            is_redacted: false,
            body,
        };
        let value = json!({"jsonrpc": "2.0", "id": 1.0, "x": "김\n"});
        assert_eq!(entries[0], entry(1, Direction::ToServer, Body::Json(value)));
        let text = Body::Text {
            text: "starting\u{fffd} up".to_owned(),
            problem: "it is not UTF-8 from byte 9 on".to_owned(),
        };
        assert_eq!(entries[1], entry(2, Direction::ToClient, text));
        let too_long = Body::TooLong {
            n_bytes: 70_000_000,
        };
        assert_eq!(entries[2], entry(3, Direction::ToClient, too_long));
    }

    #[test]
    fn a_log_hides_texts_unless_it_is_told_not_to() {
        let (path, log) = log("hides", Redaction::default());
        let record = |bytes: &str| {
            log.record(
                Timestamp::UNIX_EPOCH,
                Direction::ToServer,
                "1",
                bytes.as_bytes(),
            )
            .unwrap();
        };
        record(r#"{"method":"tools/call","params":{"name":"t","arguments":{"q":"월급"}}}"#);
        record(r#"{"method":"tools/call","params":{"arguments":{"q":"월급"}}"#);
        record(r#"{"method":"tools/list","id":1}"#);
        let (text, entries) = entries(&path);
        assert!(!text.contains("월급"), "{text}");
        let redacted: Vec<bool> = entries.iter().map(|entry| entry.is_redacted).collect();
        assert_eq!(redacted, [true, true, false]);
    }

    #[cfg(unix)]
    #[test]
    fn a_new_log_is_its_owners_and_an_old_one_is_continued() {
        use std::os::unix::fs::PermissionsExt;
        let (path, first) = log("owner", Redaction::None);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = TraceLog::create(&path, Redaction::None).unwrap();
        for log in [&first, &second, &first] {
            log.record(Timestamp::UNIX_EPOCH, Direction::ToServer, "c", b"{}")
                .unwrap();
        }
        assert_eq!(entries(&path).1.len(), 3);
    }

    #[test]
    fn only_a_record_is_read_as_one() {
        let check = |line: &str| {
            let entry = Entry::read(1, Line::Bytes(line.as_bytes())).unwrap();
            assert_eq!(entry.direction, None, "{line}");
            assert_eq!(entry.body, Body::Json(serde_json::from_str(line).unwrap()));
        };
        check(r#"{"jsonrpc":"2.0","dir":"in","message":{}}"#);
        check(r#"{"dir":"up","message":{}}"#);
        check(r#"{"dir":"in"}"#);
        check("[]");
        assert_eq!(Entry::read(1, Line::Bytes(b" \r")), None);
    }
}
