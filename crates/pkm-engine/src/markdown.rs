//! Front matter and titles of Markdown notes.
//!
//! A file's metadata is read, never rewritten: what stands between the fences stays part of the
//! note's content, and only search steps over it.

mod dates;

use std::ops::Range;

use jiff::Timestamp;
use pulldown_cmark::{Event, HeadingLevel, OffsetIter, Options, Parser, Tag, TagEnd};
use serde_norway::Value;
use unicode_normalization::UnicodeNormalization;

/// What a note says of itself before its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    /// The block in the content, both fences and the last line's end included. Empty when there is
    /// none. Its end is where the body begins, its start where a byte order mark ends.
    pub(crate) range: Range<usize>,
    /// The title, on one line.
    pub(crate) title: Option<String>,
    /// Other names of the note.
    pub(crate) aliases: Vec<String>,
    /// Tags without `#`, in order, each once.
    pub(crate) tags: Vec<String>,
    /// When the note was made. A date alone is its midnight in UTC, a time without an offset is UTC.
    pub(crate) created: Option<Timestamp>,
    /// When the note was last changed, by the same rule.
    pub(crate) updated: Option<Timestamp>,
    /// What is wrong with the block ("it"), in a sentence. The rest of the note is not touched by it.
    pub(crate) problem: Option<String>,
    /// The keys of the block, as written, in order.
    pub(crate) keys: Vec<String>,
}

/// Reads the YAML block that `content` opens with, if it is one.
///
/// A block begins on the very first line (after a byte order mark) and no blank line follows the
/// fence: a note that opens with a horizontal rule, or with prose between two, has none. A fenced
/// block that is meant as metadata and is not valid YAML is still stepped over, unless it has
/// blank lines, for then the second fence may be a rule far below, and prose must stay searchable.
pub(crate) fn split_front_matter(content: &str) -> FrontMatter {
    let bom = if content.starts_with('\u{FEFF}') {
        3
    } else {
        0
    };
    let absent = FrontMatter {
        range: bom..bom,
        ..FrontMatter::default()
    };
    let Some(block) = find_block(content, bom) else {
        return absent;
    };
    let first = content[block.yaml.start..].lines().next().unwrap_or("");
    let Some(end) = block.end else {
        let problem =
            looks_like_key(first).then(|| "it is opened by `---` and never closed".to_owned());
        return FrontMatter { problem, ..absent };
    };
    let yaml = &content[block.yaml];
    match parse(yaml) {
        Ok(Value::Mapping(mapping)) => {
            let mut front_matter = FrontMatter {
                range: bom..end,
                ..FrontMatter::default()
            };
            for (key, value) in &mapping {
                if let Some(key) = scalar(key) {
                    front_matter.take(&key, value, yaml);
                    front_matter.keys.push(key);
                }
            }
            front_matter
        }
        Ok(Value::Null) if yaml.is_empty() => FrontMatter {
            range: bom..end,
            ..absent
        },
        Err(problem) if looks_like_key(first) => FrontMatter {
            range: if yaml.lines().any(|line| line.trim().is_empty()) {
                bom..bom
            } else {
                bom..end
            },
            problem: Some(problem),
            ..absent
        },
        // A scalar, a list or comments: text between two horizontal rules.
        _ => absent,
    }
}

/// The title of a note whose `front_matter` this is: the one given there, else the first heading of
/// the first level, else `file_stem`.
pub(crate) fn title_of(front_matter: &FrontMatter, content: &str, file_stem: &str) -> String {
    front_matter
        .title
        .clone()
        .or_else(|| first_heading(&content[front_matter.range.end..]))
        .unwrap_or_else(|| one_line(&file_stem.nfc().collect::<String>()))
}

/// Events of Markdown `body` with their byte ranges, with the extensions that notes use.
pub(crate) fn events(body: &str) -> OffsetIter<'_> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_WIKILINKS;
    Parser::new_ext(body, options).into_offset_iter()
}

/// The plain text of a heading whose start `events` has just given; reads to the heading's end.
pub(crate) fn heading_text<'a>(
    events: &mut impl Iterator<Item = (Event<'a>, Range<usize>)>,
) -> String {
    let mut text = String::new();
    for (event, _) in events {
        match event {
            Event::End(TagEnd::Heading(_)) => break,
            Event::Text(piece) | Event::Code(piece) => text.push_str(&piece),
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            _ => {}
        }
    }
    one_line(&text)
}

/// `text` with every run of blanks, line ends and control characters as one space, trimmed.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    line
}

fn first_heading(body: &str) -> Option<String> {
    let mut events = events(body);
    let mut depth = 0_usize;
    while let Some((event, _)) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                let text = heading_text(&mut events);
                if level == HeadingLevel::H1 && !text.is_empty() {
                    return Some(text);
                }
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    None
}

struct Block {
    yaml: Range<usize>,
    /// Behind the closing fence's line; `None` when there is no closing fence.
    end: Option<usize>,
}

fn find_block(content: &str, start: usize) -> Option<Block> {
    let mut lines = content[start..].split_inclusive('\n');
    let opening = lines.next()?;
    if opening.trim_end() != "---" || !opening.ends_with('\n') {
        return None;
    }
    let yaml_start = start + opening.len();
    let mut at = yaml_start;
    for line in lines {
        let text = line.trim_end();
        if text.is_empty() && at == yaml_start {
            return None;
        }
        if text == "---" || text == "..." {
            return Some(Block {
                yaml: yaml_start..at,
                end: Some(at + line.len()),
            });
        }
        at += line.len();
    }
    Some(Block {
        yaml: yaml_start..at,
        end: None,
    })
}

/// Whether a line begins as `key:` does.
fn looks_like_key(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, rest)| {
        key.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && key
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.'))
            && (rest.is_empty() || rest.starts_with(char::is_whitespace))
    })
}

/// Parses YAML, or says in a sentence what is wrong with it.
fn parse(yaml: &str) -> Result<Value, String> {
    // The parser takes quadratic time for lists within lists, a minute for 60 kB of brackets.
    const MAX_BYTES: usize = 64 << 10;
    const MAX_DEPTH: usize = 128;
    if yaml.len() > MAX_BYTES {
        return Err(format!(
            "it has {} bytes; the most that is read is {MAX_BYTES}",
            yaml.len()
        ));
    }
    let mut depth = 0_usize;
    for byte in yaml.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("it nests more than {MAX_DEPTH} lists"));
        }
    }
    serde_norway::from_str(yaml).map_err(|error| {
        // An empty line stands for the fence, so that line numbers are those of the file.
        let error = serde_norway::from_str::<Value>(&format!("\n{yaml}"))
            .err()
            .unwrap_or(error);
        format!("it is not valid YAML: {error}")
    })
}

impl FrontMatter {
    fn take(&mut self, key: &str, value: &Value, yaml: &str) {
        let name: String = key
            .nfc()
            .filter(|c| !matches!(c, '_' | '-' | ' '))
            .flat_map(char::to_lowercase)
            .collect();
        match name.as_str() {
            "title" | "제목" => {
                self.title = scalar(value)
                    .map(|title| one_line(&title))
                    .filter(|t| !t.is_empty());
            }
            "aliases" | "alias" => extend_unique(&mut self.aliases, list(value, &[','])),
            "tags" | "tag" | "태그" => {
                let found = if has_hash_comment(value) {
                    tags_after_hash(yaml, key)
                } else {
                    tags_in(value)
                };
                let found = found
                    .iter()
                    .map(|tag| one_line(tag.trim_start_matches('#')))
                    .filter(|tag| !tag.is_empty());
                extend_unique(&mut self.tags, found);
            }
            "created" | "createdat" | "createdtime" | "datecreated" | "작성일" | "생성일" => {
                self.created = self.date(key, value).or(self.created);
            }
            // Weaker than a key that says what the date is of.
            "date" | "날짜" => self.created = self.created.or_else(|| self.date(key, value)),
            "updated" | "updatedat" | "modified" | "modifiedat" | "lastmod" | "lastmodified"
            | "dateupdated" | "datemodified" | "updatedtime" | "수정일" => {
                self.updated = self.date(key, value).or(self.updated);
            }
            _ => {}
        }
    }

    fn date(&mut self, key: &str, value: &Value) -> Option<Timestamp> {
        let text = scalar(value).filter(|text| !text.trim().is_empty())?;
        let date = dates::parse(text.trim());
        if date.is_none() && self.problem.is_none() {
            self.problem = Some(format!("`{key}` is not a date: `{}`", one_line(&text)));
        }
        date
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Tagged(tagged) => scalar(&tagged.value),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) => None,
    }
}

/// A YAML list's scalars, or a string cut at any of `separators`.
fn list(value: &Value, separators: &[char]) -> Vec<String> {
    let pieces = match value {
        Value::Sequence(values) => values.iter().filter_map(scalar).collect(),
        _ => match scalar(value) {
            Some(text) => text.split(separators).map(str::to_owned).collect(),
            None => Vec::new(),
        },
    };
    pieces
        .iter()
        .map(|piece| one_line(piece))
        .filter(|piece| !piece.is_empty())
        .collect()
}

/// As [`list`], but a string without a comma is cut at blanks, and no tag has a comma in it.
fn tags_in(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if !text.contains(',') => {
            text.split_whitespace().map(str::to_owned).collect()
        }
        _ => list(value, &[','])
            .iter()
            .flat_map(|tag| tag.split(','))
            .map(|tag| tag.trim().to_owned())
            .collect(),
    }
}

/// Whether a list of tags lost some to YAML's comments: `tags: #rust` and `- #rust` are null.
fn has_hash_comment(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Sequence(values) => values.contains(&Value::Null),
        _ => false,
    }
}

/// Reads the lines of `key` by hand, for tags that were written with `#` and without quotes.
fn tags_after_hash(yaml: &str, key: &str) -> Vec<String> {
    let mut lines = yaml
        .lines()
        .skip_while(|line| !line.trim_start().starts_with(key));
    let first = lines
        .next()
        .and_then(|line| line.split_once(':'))
        .map_or("", |(_, rest)| rest);
    let items = lines.map_while(|line| line.trim_start().strip_prefix('-'));
    first
        .split([' ', '\t', ','])
        .chain(items)
        .map(|tag| tag.trim().trim_matches(['"', '\'']).to_owned())
        .collect()
}

fn extend_unique(names: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    let folded = |name: &str| name.nfc().collect::<String>().to_lowercase();
    for name in more {
        if !names.iter().any(|known| folded(known) == folded(&name)) {
            names.push(name);
        }
    }
}

#[cfg(test)]
mod tests;
