//! `get_note`.

use pkm_engine::{Note, NoteId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, NoteTool, Turn};
use crate::wire::Fault;

/// The most of one note that is given at once, both as characters and as bytes: what fits a
/// model's context, whichever script it is in.
const CONTENT_MAX_CHARS: usize = 40_000;
const CONTENT_MAX_BYTES: usize = 60_000;

#[derive(Debug)]
pub(super) struct GetNote;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetArguments {
    /// The note's id.
    #[schemars(range(min = 1))]
    id: i64,
    /// The first line to give, counted from 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    from_line: usize,
    /// How many lines to give at most; all that fit, if left out.
    #[schemars(range(min = 1))]
    max_lines: Option<usize>,
}

fn one() -> usize {
    1
}

/// A note, or a part of a long one.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NoteContent {
    id: i64,
    title: String,
    /// Markdown, as it was written.
    content: String,
    tags: Vec<String>,
    /// Empty for the root.
    folder: String,
    created_at: String,
    updated_at: String,
    /// Give it as `expected_revision` when you edit the note.
    revision: i64,
    /// There is more after `content`: ask again with `from_line`.
    truncated: bool,
    /// How many lines the whole note has.
    n_lines: usize,
    /// First and last line given; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<[usize; 2]>,
}

impl NoteTool for GetNote {
    const NAME: &'static str = "get_note";
    const TITLE: &'static str = "Read a note";
    const DESCRIPTION: &'static str = "Gives one note with its text, tags, folder, times and revision. A long note \
        comes in parts: while `truncated` is true, ask again with `from_line` one after the last line that you got. \
        Read a note before you edit it, and give its `revision` as `expected_revision`.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = GetArguments;
    type Answer = NoteContent;

    fn call(turn: &Turn, arguments: GetArguments) -> Result<NoteContent, Fault> {
        let note = turn.engine.get_note(NoteId(arguments.id))?;
        page(note, arguments.from_line, arguments.max_lines)
    }

    fn text(note: &NoteContent) -> String {
        let mut text = format!(
            "# {}\n[id {}, revision {}",
            note.title, note.id, note.revision
        );
        if !note.folder.is_empty() {
            text.push_str(&format!(", in {}", note.folder));
        }
        if !note.tags.is_empty() {
            text.push_str(&format!(", tags {}", note.tags.join(", ")));
        }
        text.push_str(&format!(
            ", changed {}]\n\n{}",
            note.updated_at, note.content
        ));
        if let Some([first, last]) = note.lines
            && (note.truncated || first > 1)
        {
            text.push_str(&format!("\n\n[lines {first} to {last} of {}", note.n_lines));
            if note.truncated && last < note.n_lines {
                text.push_str(&format!("; ask again with from_line {} for more", last + 1));
            } else if note.truncated {
                text.push_str("; the last line was cut, the resource `note://");
                text.push_str(&format!("{}` has it whole", note.id));
            }
            text.push(']');
        }
        text
    }
}

/// The part of `note` from a line on that fits an answer.
fn page(note: Note, from_line: usize, max_lines: Option<usize>) -> Result<NoteContent, Fault> {
    let n_lines = note.content.split_inclusive('\n').count();
    if from_line > n_lines.max(1) {
        return Err(Fault::argument(
            "from_line",
            format!("is {from_line}, but the note has {n_lines} lines"),
        ));
    }
    let mut content = String::new();
    let mut n_chars = 0;
    let mut n_given = 0;
    let mut line_cut = false;
    let wanted = note
        .content
        .split_inclusive('\n')
        .skip(from_line - 1)
        .take(max_lines.unwrap_or(usize::MAX));
    for line in wanted {
        let n_line_chars = line.chars().count();
        let fits = n_chars + n_line_chars <= CONTENT_MAX_CHARS
            && content.len() + line.len() <= CONTENT_MAX_BYTES;
        if fits {
            content.push_str(line);
            n_chars += n_line_chars;
            n_given += 1;
            continue;
        }
        // A line that alone is too long is given in part; else there would be no way past it.
        if n_given == 0 {
            content.push_str(head(line));
            n_given = 1;
            line_cut = true;
        }
        break;
    }
    let last = from_line + n_given - usize::from(n_given > 0);
    Ok(NoteContent {
        id: note.id.0,
        title: note.title,
        content,
        tags: note.tags,
        folder: note.folder,
        created_at: note.created_at.to_string(),
        updated_at: note.updated_at.to_string(),
        revision: note.revision,
        truncated: line_cut || last < n_lines,
        n_lines,
        lines: (n_given > 0).then_some([from_line, last]),
    })
}

/// As much of one line as fits.
fn head(line: &str) -> &str {
    let end = line
        .char_indices()
        .take(CONTENT_MAX_CHARS)
        .map(|(at, character)| at + character.len_utf8())
        .take_while(|end| *end <= CONTENT_MAX_BYTES)
        .last()
        .unwrap_or(0);
    &line[..end]
}

#[cfg(test)]
mod tests {
    use pkm_engine::Timestamp;

    use super::*;

    #[track_caller]
    fn check(content: &str, from_line: usize, max_lines: Option<usize>) -> NoteContent {
        let note = Note {
            id: NoteId(1),
            title: "t".into(),
            content: content.into(),
            tags: Vec::new(),
            folder: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            revision: 1,
            source: None,
            chunked_by: String::new(),
        };
        page(note, from_line, max_lines).expect("the line is there")
    }

    #[test]
    fn pages_of_a_note_make_the_note() {
        let content: String = (0..5_000)
            .map(|line| format!("{line} 줄의 글\r\n"))
            .collect();
        let (mut whole, mut from_line) = (String::new(), 1);
        loop {
            let part = check(&content, from_line, Some(1_700));
            whole.push_str(&part.content);
            assert_eq!(part.n_lines, 5_000);
            if !part.truncated {
                break;
            }
            from_line = part.lines.unwrap()[1] + 1;
        }
        assert_eq!(whole, content);
    }

    #[test]
    fn a_long_note_is_cut_at_a_line_and_says_so() {
        let content = "가나다라마바사\n".repeat(20_000);
        let part = check(&content, 1, None);
        assert!(
            part.truncated
                && part.content.len() <= CONTENT_MAX_BYTES
                && part.content.ends_with('\n')
        );
        let ascii = "x".repeat(99) + "\n";
        let part = check(&ascii.repeat(1_000), 1, None);
        assert_eq!((part.content.len(), part.lines), (40_000, Some([1, 400])));
    }

    #[test]
    fn a_line_longer_than_an_answer_is_given_in_part() {
        let part = check(&"한".repeat(30_000), 1, None);
        assert!(part.truncated);
        assert_eq!((part.content.len(), part.lines), (60_000, Some([1, 1])));
    }

    #[test]
    fn an_empty_note_has_no_lines() {
        let part = check("", 1, None);
        assert_eq!((part.n_lines, part.lines, part.truncated), (0, None, false));
    }
}
