//! The only way to stdout (data) and to stderr (notices).

use std::io::{self, BufWriter, Stdout, Write};

/// Buffered stdout. The lock is taken for each write of the buffer only, so that `serve` can have
/// stdout for the protocol.
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    closed: bool,
}

impl Out {
    pub(crate) fn stdout() -> Self {
        Self {
            stdout: BufWriter::new(io::stdout()),
            closed: false,
        }
    }

    /// Whether the reader at the other end has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.write_all(text.as_ref().as_bytes())?;
        self.write_all(b"\n")
    }

    /// One JSON document, indented, with a line end.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.line(text)
    }

    fn note(&mut self, result: io::Result<usize>) -> io::Result<usize> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            self.closed = true;
        }
        result
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush().map(|()| 0);
        self.note(flushed).map(|_| ())
    }
}

/// Says `text` on stderr, as one write. A stderr that is gone stops nothing.
pub(crate) fn notice(text: &str) {
    let _ = io::stderr()
        .lock()
        .write_all(format!("{text}\n").as_bytes());
}

/// Asks on stderr for a yes or no; anything but a yes is a no.
pub(crate) fn ask(question: &str) -> io::Result<bool> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(format!("{question} [y/N] ").as_bytes())?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// `text` for a terminal: control characters, which could move the cursor or change colours, are
/// shown as a blank; line ends are kept.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .collect()
}

/// `n` with its noun: `1 note`, `3 notes`.
pub(crate) fn count(n: usize, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// A size for people: `512 B`, `84.1 MB` (powers of 1000, as disks are sold).
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\r\nc\u{7}한"), "a [31mb \nc 한");
    }

    #[test]
    fn sizes_read_in_the_nearest_unit() {
        let check = |bytes, text: &str| assert_eq!(size(bytes), text);
        check(0, "0 B");
        check(999, "999 B");
        check(1_000, "1.0 kB");
        check(999_949, "999.9 kB");
        check(999_950, "1.0 MB");
        check(84_123_456, "84.1 MB");
    }
}
