//! The id of a message of which only both ends were kept.

use rmcp::model::RequestId;
use serde_json::Value;

use crate::message::request_id;

/// The id at the top level of a JSON object that begins with `head` and ends with `tail`.
pub(crate) fn id_of(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    id_near_the_beginning(head).or_else(|| id_near_the_end(tail))
}

fn id_near_the_beginning(head: &[u8]) -> Option<RequestId> {
    let mut scan = Scan { rest: head };
    scan.byte(b'{')?;
    loop {
        let key = scan.string()?;
        scan.byte(b':')?;
        if key == br#""id""# {
            return id_from(scan.scalar()?);
        }
        scan.value()?;
        scan.byte(b',')?;
    }
}

/// An `"id"` after which nothing but other simple members and the last brace follows.
fn id_near_the_end(tail: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = br#""id""#;
    let starts = (0..tail.len().saturating_sub(KEY.len()))
        .rev()
        .filter(|at| tail[*at..].starts_with(KEY));
    for start in starts {
        let mut scan = Scan {
            rest: &tail[start + KEY.len()..],
        };
        if let Some(id) = scan.byte(b':').and_then(|()| scan.scalar())
            && scan.only_members_and_the_end()
        {
            return id_from(id);
        }
    }
    None
}

fn id_from(bytes: &[u8]) -> Option<RequestId> {
    request_id(&serde_json::from_slice::<Value>(bytes).ok()?)
}

/// A walk over JSON that may end anywhere.
struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.rest = self.rest.trim_ascii_start();
        self.rest = self.rest.strip_prefix(&[wanted])?;
        Some(())
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.trim_ascii_start();
        if self.rest.first() != Some(&b'"') {
            return None;
        }
        let mut at = 1;
        loop {
            match self.rest.get(at)? {
                b'\\' => at += 2,
                b'"' => break,
                _ => at += 1,
            }
        }
        let (string, rest) = self.rest.split_at(at + 1);
        self.rest = rest;
        Some(string)
    }

    /// A string, or a number or word that is known to be whole.
    fn scalar(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.trim_ascii_start();
        if self.rest.first() == Some(&b'"') {
            return self.string();
        }
        let end = self
            .rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace())?;
        let (scalar, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!scalar.is_empty() && !scalar.contains(&b'{') && !scalar.contains(&b'[')).then_some(scalar)
    }

    /// Any value.
    fn value(&mut self) -> Option<()> {
        self.rest = self.rest.trim_ascii_start();
        if !matches!(self.rest.first()?, b'{' | b'[') {
            return self.scalar().map(drop);
        }
        let mut depth = 0_usize;
        loop {
            match self.rest.first()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.rest = &self.rest[1..];
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn only_members_and_the_end(&mut self) -> bool {
        while self.byte(b',').is_some() {
            let member = self
                .string()
                .and_then(|_| self.byte(b':'))
                .and_then(|()| self.scalar());
            if member.is_none() {
                return false;
            }
        }
        self.byte(b'}').is_some() && self.rest.trim_ascii().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn id(head: &str, tail: &str) -> Option<RequestId> {
        id_of(head.as_bytes(), tail.as_bytes())
    }

    #[test]
    fn an_id_is_read_at_either_end() {
        let three = Some(NumberOrString::Number(3));
        assert_eq!(
            id(r#"{"jsonrpc":"2.0", "id" : 3 ,"method":"x","par"#, "xx"),
            three
        );
        assert_eq!(
            id(r#"{"params":{"a":[{"id":4}],"b":"\"}"},"id":3,"#, ""),
            three
        );
        assert_eq!(
            id(
                r#"{"method":"x","params":{"content":"xx"#,
                r#"xx "}}, "jsonrpc":"2.0" , "id":3}"#
            ),
            three
        );
        assert_eq!(
            id(
                "{\"params\":{\"x\":\"",
                "y\"},\"id\":\"한\",\"jsonrpc\":\"2.0\"}\r"
            ),
            Some(NumberOrString::String("한".into()))
        );
    }

    #[test]
    fn what_is_no_id_of_the_message_is_not_taken_for_one() {
        for (head, tail) in [
            ("", ""),
            ("[", "]"),
            (r#"{"params":{"id":3"#, r#""a"}}"#),
            (r#"{"params":{"x":"#, r#""id":3}}"#),
            (r#"{"params":{"x":"#, r#"{"id":3},"jsonrpc":"2.0"}"#),
            (r#"{"id":3"#, "4}"),
            (r#"{"params":""#, r#"\"id\":3}"#),
            (r#"{"id":1.5,"#, ""),
            (r#"{"params":]"#, ""),
        ] {
            assert_eq!(id(head, tail), None, "{head} … {tail}");
        }
    }
}
