//! Lines out of a stream of bytes, none of them kept longer than a limit.

/// The longest line that is looked at: a message of 64 MiB, and what our own log puts around it.
pub const MAX_LINE_BYTES: usize = (64 << 20) + 4096;

/// One line, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// The bytes of the line.
    Bytes(&'a [u8]),
    /// It went over the limit and was not kept.
    TooLong {
        /// How long it was.
        n_bytes: usize,
    },
}

/// Cuts a stream into lines, however its bytes arrive.
#[derive(Debug)]
pub struct Splitter {
    max_line_bytes: usize,
    /// The line begun, unless it is too long.
    kept: Vec<u8>,
    /// How long the line begun is.
    n_bytes: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new(MAX_LINE_BYTES)
    }
}

impl Splitter {
    /// Keeps no more than `max_line_bytes` of a line.
    pub fn new(max_line_bytes: usize) -> Self {
        Self {
            max_line_bytes,
            kept: Vec::new(),
            n_bytes: 0,
        }
    }

    /// Takes the next bytes and hands every line that they complete to `line`.
    ///
    /// # Errors
    ///
    /// The first of `line`; the lines after it are lost.
    pub fn push<E>(
        &mut self,
        mut bytes: &[u8],
        mut line: impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let piece = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.n_bytes == 0 && piece.len() <= self.max_line_bytes {
                line(Line::Bytes(piece))?;
            } else {
                self.keep(piece);
                self.end(&mut line)?;
            }
        }
        self.keep(bytes);
        Ok(())
    }

    /// Hands over what came after the last line end, if anything did.
    ///
    /// # Errors
    ///
    /// That of `line`.
    pub fn finish<E>(&mut self, mut line: impl FnMut(Line<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.n_bytes == 0 {
            return Ok(());
        }
        self.end(&mut line)
    }

    fn keep(&mut self, piece: &[u8]) {
        self.n_bytes = self.n_bytes.saturating_add(piece.len());
        if self.n_bytes > self.max_line_bytes {
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(piece);
        }
    }

    fn end<E>(&mut self, line: &mut impl FnMut(Line<'_>) -> Result<(), E>) -> Result<(), E> {
        let kept = std::mem::take(&mut self.kept);
        let n_bytes = std::mem::take(&mut self.n_bytes);
        if n_bytes > self.max_line_bytes {
            line(Line::TooLong { n_bytes })
        } else {
            line(Line::Bytes(&kept))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn lines(pieces: &[&str], max_line_bytes: usize) -> Vec<String> {
        let mut splitter = Splitter::new(max_line_bytes);
        let mut found = Vec::new();
        let mut take = |line: Line<'_>| {
            found.push(match line {
                Line::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Line::TooLong { n_bytes } => format!("<{n_bytes}>"),
            });
            Ok::<(), Infallible>(())
        };
        for piece in pieces {
            splitter.push(piece.as_bytes(), &mut take).unwrap();
        }
        splitter.finish(&mut take).unwrap();
        found
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let expected = ["ab", "", "cde", "f"];
        assert_eq!(lines(&["ab\n\ncde\nf"], 3), expected);
        assert_eq!(lines(&["a", "b", "\n", "\nc", "de", "\nf"], 3), expected);
        assert_eq!(lines(&["ab\n\ncde\nf\n"], 3), expected);
        assert_eq!(lines(&[], 3), Vec::<String>::new());
    }

    #[test]
    fn a_line_over_the_limit_is_counted_and_the_next_one_is_whole() {
        let expected = ["<4>", "abc", "<5>"];
        assert_eq!(lines(&["wxyz\nabc\nvwxyz"], 3), expected);
        assert_eq!(lines(&["wx", "yz", "\nab", "c\nvw", "xyz"], 3), expected);
    }
}
