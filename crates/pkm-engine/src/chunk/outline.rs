//! The blocks of a Markdown body and the sections that they stand in.

use std::ops::Range;

use pulldown_cmark::{Event, Tag};

use super::{first_chars, fold};
use crate::markdown::{events, heading_text};

/// A body, cut into blocks without a gap.
pub(super) struct Outline {
    pub(super) blocks: Vec<Block>,
    pub(super) sections: Vec<Section>,
    pub(super) borders: Borders,
}

/// A heading, paragraph, list, fence, table, …: its first byte to the next block's first byte.
pub(super) struct Block {
    pub(super) range: Range<usize>,
    /// Its section's position in [`Outline::sections`].
    pub(super) section: usize,
    /// The level, 1 to 6, of a block that is a heading.
    pub(super) heading_level: Option<u8>,
    /// Whether it announces what follows, as a line that ends in a colon does.
    pub(super) leads_in: bool,
}

/// A heading and what stands beneath it, up to the next heading of any level.
pub(super) struct Section {
    /// Its headings, outermost first.
    pub(super) path: Vec<String>,
    /// The level of its heading, 0 for what stands before the first.
    pub(super) level: u8,
}

/// Where the insides of blocks may be cut.
#[derive(Default)]
pub(super) struct Borders {
    /// Starts of items, rows and blocks within blocks, with their depth from 1, in order.
    pub(super) inner: Vec<(usize, u8)>,
    /// Code, tables and HTML at any depth, in order: within them only lines are borders.
    pub(super) atoms: Vec<Range<usize>>,
}

/// Deeper nesting is text: nobody keeps notes in it, and a hostile file has any number of levels.
const MAX_DEPTH: usize = 8;
/// A heading longer than this is a paragraph that somebody marked as one.
const MAX_HEADING_CHARS: usize = 200;

pub(super) fn outline(content: &str, body: Range<usize>, title: &str) -> Outline {
    let mut builder = Builder {
        content,
        title: fold(title),
        end_of_last: body.start,
        stack: Vec::new(),
        outline: Outline {
            blocks: Vec::new(),
            sections: vec![Section {
                path: Vec::new(),
                level: 0,
            }],
            borders: Borders::default(),
        },
    };
    let mut depth = 0_usize;
    let mut events = events(&content[body.clone()]);
    while let Some((event, range)) = events.next() {
        let range = body.start + range.start..body.start + range.end;
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                let text = heading_text(&mut events);
                builder.heading(range, level as u8, &text);
            }
            Event::Start(tag) => {
                if depth == 0 {
                    builder.block(range.clone(), None);
                } else if depth <= MAX_DEPTH && is_border(&tag) {
                    let start = line_start(content, range.start);
                    // The depth is at most MAX_DEPTH.
                    builder.outline.borders.inner.push((start, depth as u8));
                }
                if is_atom(&tag) {
                    builder.outline.borders.atoms.push(range);
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            // Rules and the like stand alone.
            _ if depth == 0 => builder.block(range, None),
            _ => {}
        }
    }
    builder.finish(body)
}

struct Builder<'a> {
    content: &'a str,
    title: String,
    /// Where the last block's own text ends.
    end_of_last: usize,
    /// The headings in force, with their levels.
    stack: Vec<(u8, String)>,
    outline: Outline,
}

impl Builder<'_> {
    fn heading(&mut self, range: Range<usize>, level: u8, text: &str) {
        while self.stack.last().is_some_and(|(above, _)| *above >= level) {
            self.stack.pop();
        }
        let repeats_title = self.stack.is_empty() && fold(text) == self.title;
        if !text.is_empty() && !repeats_title {
            let text = first_chars(text, MAX_HEADING_CHARS);
            self.stack.push((level, text.to_owned()));
        }
        // What stands between the last block and this heading is of the section before.
        self.fill_gap(range.start);
        self.outline.sections.push(Section {
            path: self.stack.iter().map(|(_, text)| text.clone()).collect(),
            level,
        });
        self.block(range, Some(level));
    }

    fn block(&mut self, range: Range<usize>, heading_level: Option<u8>) {
        self.fill_gap(range.start);
        let own = self.content[range.clone()].trim_end();
        self.push(
            line_start(self.content, range.start),
            heading_level,
            own.ends_with([':', '：']),
        );
        self.end_of_last = self.end_of_last.max(range.start + own.len());
    }

    /// Text that gave no event (definitions of link targets) becomes a block of its own.
    fn fill_gap(&mut self, end: usize) {
        let Some(gap) = self.content.get(self.end_of_last..end) else {
            return;
        };
        // A byte order mark in the middle, a list's or quote's sign before a block: no text.
        if gap.contains(char::is_alphanumeric) {
            let start = self.end_of_last + gap.len() - gap.trim_start().len();
            self.push(line_start(self.content, start), None, false);
            self.end_of_last = end;
        }
    }

    fn push(&mut self, start: usize, heading_level: Option<u8>, leads_in: bool) {
        let blocks = &mut self.outline.blocks;
        if let Some(last) = blocks.last_mut() {
            if start <= last.range.start {
                return;
            }
            last.range.end = start;
        }
        blocks.push(Block {
            range: start..start,
            section: self.outline.sections.len() - 1,
            heading_level,
            leads_in,
        });
    }

    fn finish(mut self, body: Range<usize>) -> Outline {
        self.fill_gap(body.end);
        if self.outline.blocks.is_empty() {
            self.push(body.start, None, false);
        }
        let blocks = &mut self.outline.blocks;
        if let Some(first) = blocks.first_mut() {
            first.range.start = body.start;
        }
        if let Some(last) = blocks.last_mut() {
            last.range.end = body.end;
        }
        // Of two borders at one place, the outer one counts.
        let inner = &mut self.outline.borders.inner;
        inner.sort_unstable();
        inner.dedup_by_key(|(at, _)| *at);
        self.outline
            .borders
            .atoms
            .sort_unstable_by_key(|range| range.start);
        self.outline
    }
}

/// The start of `at`'s line if only blanks and signs (`>`, `-`, `|`) stand between, else `at`.
fn line_start(content: &str, at: usize) -> usize {
    const MAX_SIGNS: usize = 64;
    let before = &content.as_bytes()[..at];
    let n_signs = before
        .iter()
        .rev()
        .take(MAX_SIGNS)
        .take_while(|b| b.is_ascii() && !b.is_ascii_alphanumeric() && **b != b'\n')
        .count();
    let start = at - n_signs;
    if start == 0 || before[start - 1] == b'\n' {
        start
    } else {
        at
    }
}

fn is_border(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::Item
            | Tag::FootnoteDefinition(_)
            | Tag::Table(_)
            | Tag::TableHead
            | Tag::TableRow
    )
}

fn is_atom(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::CodeBlock(_) | Tag::Table(_) | Tag::HtmlBlock)
}
