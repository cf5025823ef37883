//! Lines of an input that blocks, none of them longer than a limit.

use std::io::{self, BufRead};

use tokio::sync::mpsc;

/// How much is kept of each end of a line that is too long.
const END_BYTES: usize = 4 << 10;

/// One line of the input.
#[derive(Debug)]
pub(crate) enum Line {
    Bytes(Vec<u8>),
    /// It went over the limit; both ends are kept.
    TooLong {
        head: Vec<u8>,
        tail: Vec<u8>,
    },
}

/// Sends each line until the input ends or nobody takes lines any more.
pub(super) fn read_lines(
    mut input: impl BufRead,
    max_line_bytes: usize,
    lines: &mpsc::Sender<Line>,
) {
    loop {
        match read_line(&mut input, max_line_bytes) {
            Ok(Some(line)) => {
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the input broke off");
                return;
            }
        }
    }
}

/// One line without keeping more of it than the limit; `None` at the end of the input.
pub(crate) fn read_line(
    input: &mut impl BufRead,
    max_line_bytes: usize,
) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let mut head = None;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            let is_end = bytes.is_empty() && head.is_none();
            return Ok((!is_end).then(|| line(head, bytes)));
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        bytes.extend_from_slice(&available[..newline.unwrap_or(available.len())]);
        if head.is_none() && bytes.len() > max_line_bytes {
            head = Some(bytes[..bytes.len().min(END_BYTES)].to_vec());
        }
        if head.is_some() {
            bytes.drain(..bytes.len().saturating_sub(END_BYTES));
            bytes.shrink_to(2 * END_BYTES);
        }
        let n_read = newline.map_or(available.len(), |at| at + 1);
        input.consume(n_read);
        if newline.is_some() {
            return Ok(Some(line(head, bytes)));
        }
    }
}

fn line(head: Option<Vec<u8>>, bytes: Vec<u8>) -> Line {
    match head {
        None => Line::Bytes(bytes),
        Some(head) => Line::TooLong { head, tail: bytes },
    }
}
