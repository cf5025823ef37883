//! Lines of an input that blocks, none of them longer than a limit.

use std::io::{self, BufRead};

use tokio::sync::mpsc;

/// One line of the input.
#[derive(Debug)]
pub(super) enum Line {
    Bytes(Vec<u8>),
    /// It went over the limit and was skipped.
    TooLong,
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
fn read_line(input: &mut impl BufRead, max_line_bytes: usize) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let mut too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            let is_end = bytes.is_empty() && !too_long;
            return Ok(if is_end {
                None
            } else {
                Some(line(bytes, too_long))
            });
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let piece = &available[..newline.unwrap_or(available.len())];
        too_long |= bytes.len() + piece.len() > max_line_bytes;
        if too_long {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(piece);
        }
        let n_read = newline.map_or(available.len(), |at| at + 1);
        input.consume(n_read);
        if newline.is_some() {
            return Ok(Some(line(bytes, too_long)));
        }
    }
}

fn line(bytes: Vec<u8>, too_long: bool) -> Line {
    if too_long {
        Line::TooLong
    } else {
        Line::Bytes(bytes)
    }
}
