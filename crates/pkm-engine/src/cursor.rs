//! Cursors: opaque to callers, checked when they come back.

use std::fmt;

use pkm_store::{Filter, ListPosition, Sort};

use crate::Error;

/// A place in the answer to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// How many items came before.
    pub(crate) offset: usize,
    /// [`Cursor::request_hash`] of the request that it belongs to.
    pub(crate) request: u64,
}

impl Cursor {
    /// A number that names a request by its parts.
    pub(crate) fn request_hash(parts: &[&str]) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        let mut first = [0; 8];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_le_bytes(first)
    }

    /// Reads a cursor that [`fmt::Display`] wrote for the same request.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when it is no cursor, or one of another request.
    pub(crate) fn parse(text: &str, request: u64) -> Result<Self, Error> {
        let (offset, named) = text.split_once('-').ok_or_else(foreign)?;
        let offset = usize::from_str_radix(offset, 16).map_err(|_| foreign())?;
        let named = u64::from_str_radix(named, 16).map_err(|_| foreign())?;
        let cursor = Self {
            offset,
            request: named,
        };
        // A second spelling of the same numbers is not ours either.
        if named != request || cursor.to_string() != text {
            return Err(foreign());
        }
        Ok(cursor)
    }
}

/// A place in a list, by the last note given: notes added meanwhile move nothing.
pub(crate) struct ListCursor;

impl ListCursor {
    pub(crate) fn request_hash(filter: &Filter, sort: Sort) -> u64 {
        Cursor::request_hash(&[&format!("{filter:?} {sort:?}")])
    }

    pub(crate) fn write(position: &ListPosition, request: u64) -> String {
        let json = serde_json::to_vec(position).expect("a list position is plain data");
        let hex: String = json.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}-{request:016x}")
    }

    /// # Errors
    ///
    /// [`Error::Invalid`] when it is no cursor, or one of another request.
    pub(crate) fn parse(text: &str, request: u64) -> Result<ListPosition, Error> {
        let (hex, named) = text.split_once('-').ok_or_else(foreign)?;
        if named != format!("{request:016x}") || !hex.is_ascii() || hex.len() % 2 != 0 {
            return Err(foreign());
        }
        let json = (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16))
            .collect::<Result<Vec<u8>, _>>()
            .map_err(|_| foreign())?;
        serde_json::from_slice(&json).map_err(|_| foreign())
    }
}

fn foreign() -> Error {
    Error::invalid(
        "cursor",
        "is not one that this request gave; repeat the request without it",
    )
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.offset, self.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_went_out() {
        let cursor = Cursor {
            offset: 30,
            request: Cursor::request_hash(&["회의", "all"]),
        };
        assert_eq!(
            Cursor::parse(&cursor.to_string(), cursor.request).unwrap(),
            cursor
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let cursor = Cursor {
            offset: 30,
            request: 7,
        };
        assert!(Cursor::parse(&cursor.to_string(), 8).is_err());
        for bad in [
            "",
            "-",
            "1e",
            "+1e-0000000000000007",
            "1E-0000000000000007",
            "1e-7",
            "한글",
        ] {
            assert!(Cursor::parse(bad, 7).is_err(), "{bad}");
        }
    }
}
