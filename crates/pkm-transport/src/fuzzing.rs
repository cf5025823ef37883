//! What must hold for any bytes. `fuzz/` looks for bytes for which it does not, and a test runs
//! over those that `fuzz/corpus` keeps.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::{
    message::{Parsed, Refusal, classify, classify_member, parse, request_id},
    stdio::{cut, lines},
};

/// Lines within and over a limit.
pub fn stdio_line(bytes: &[u8]) {
    let (max, bytes) = match bytes.split_first() {
        Some((max, rest)) => (usize::from(*max) * 8, rest),
        None => return,
    };
    let mut input = std::io::BufReader::with_capacity(16, bytes);
    let mut n_bytes = 0;
    while let Some(line) = lines::read_line(&mut input, max).expect("memory can be read") {
        match line {
            lines::Line::Bytes(line) => {
                assert!(line.len() <= max);
                n_bytes += line.len() + 1;
                message(&line);
            }
            lines::Line::TooLong { head, tail } => {
                n_bytes += max + 1;
                let _ = cut::id_of(&head, &tail);
            }
        }
    }
    assert!(n_bytes <= bytes.len() + 1);
    cut_anywhere(max, bytes);
}

/// A whole body.
pub fn http_body(bytes: &[u8]) {
    message(bytes);
}

fn message(bytes: &[u8]) {
    match parse(bytes) {
        Ok(Parsed::Blank) => {}
        Ok(Parsed::One(message)) => {
            let id = message.get("id").and_then(request_id);
            let outcome = classify(message.clone());
            if let Err(refusal) = &outcome {
                assert_eq!(refusal.id, id, "an id that can be read is given back");
                is_sound(refusal);
            }
            let is_notification = id.is_none() && message.contains_key("method");
            let is_answer = !message.contains_key("method");
            assert!(
                is_notification || is_answer || !matches!(outcome, Ok(None)),
                "a request is passed on or refused"
            );
        }
        Ok(Parsed::Batch(members)) => {
            for member in members {
                if let Err(refusal) = classify_member(member) {
                    is_sound(&refusal);
                }
            }
        }
        Err(refusal) => is_sound(&refusal),
    }
}

fn is_sound(refusal: &Refusal) {
    let json = refusal.to_json();
    assert!(json["error"]["code"].is_i64() && json["error"]["message"].is_string());
    assert_eq!(
        serde_json::from_str::<Value>(&json.to_string()).ok(),
        Some(json)
    );
}

/// From both ends of a message no other id is read than from the whole.
fn cut_anywhere(at: usize, bytes: &[u8]) {
    if bytes.contains(&b'\n') {
        return;
    }
    let (Ok(IdKeys(0 | 1)), Ok(whole)) = (
        serde_json::from_slice(bytes),
        serde_json::from_slice::<Map<String, Value>>(bytes),
    ) else {
        return;
    };
    let id = whole.get("id").and_then(request_id);
    let (head, tail) = bytes.split_at(at.min(bytes.len()));
    for (head, tail) in [(head, tail), (head, bytes), (bytes, tail)] {
        if let Some(found) = cut::id_of(head, tail) {
            assert_eq!(Some(found), id);
        }
    }
}

/// How often `id` is a key at the top level.
struct IdKeys(usize);

impl<'de> Deserialize<'de> for IdKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = IdKeys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IdKeys, A::Error> {
                let mut n_ids = 0;
                while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                    n_ids += usize::from(key == "id");
                }
                Ok(IdKeys(n_ids))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn the_corpus_holds_nothing_that_breaks() {
        for (target, check) in [
            ("stdio_line", super::stdio_line as fn(&[u8])),
            ("http_body", super::http_body),
        ] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
            let files: Vec<_> = fs::read_dir(folder.join(target)).unwrap().collect();
            assert!(files.len() >= 10, "the corpus of {target} is there");
            for file in files {
                check(&fs::read(file.unwrap().path()).unwrap());
            }
        }
    }
}
