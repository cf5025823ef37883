//! Pages of an answer.

use super::{MAX_DEPTH, MAX_LIMIT, SearchRequest};
use crate::Error;
use crate::cursor::Cursor;

/// Which stretch of a ranking a call shows.
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
    /// Names the request, so that a cursor is refused by another one.
    request: u64,
}

impl Page {
    pub(super) fn new(
        limit: usize,
        cursor: Option<&str>,
        request: &SearchRequest,
    ) -> Result<Self, Error> {
        let named = Cursor::request_hash(&[
            &request.query,
            &format!("{:?} {:?}", request.mode, request.filter),
        ]);
        let mut page = Self {
            request: named,
            ..Self::first(limit)?
        };
        if let Some(cursor) = cursor {
            page.offset = Cursor::parse(cursor, named)?.offset;
            if page.offset >= MAX_DEPTH {
                return Err(Error::invalid("cursor", "goes past the last page"));
            }
        }
        Ok(page)
    }

    pub(super) fn first(limit: usize) -> Result<Self, Error> {
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Error::invalid(
                "limit",
                format!("is {limit}; it must be 1 to {MAX_LIMIT}"),
            ));
        }
        Ok(Self {
            offset: 0,
            limit,
            request: 0,
        })
    }

    /// How many notes of the ranking are needed: one more than shown, to know of a next page.
    pub(super) fn depth(&self) -> usize {
        self.offset + self.limit + 1
    }

    pub(super) fn cursor_at(&self, offset: usize) -> String {
        Cursor {
            offset,
            request: self.request,
        }
        .to_string()
    }
}
