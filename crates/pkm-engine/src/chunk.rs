//! Cuts a note into passages along its Markdown structure.
//!
//! A chunk is a byte range of the note's content with the headings above it. Chunks follow each
//! other in order, do not overlap, and hold every byte of the body that is not blank. They do not
//! overlap because each is embedded with its title and heading path, which give the context that
//! an overlap would, and because a sentence in two chunks is counted twice by keyword search.

mod outline;
mod pack;
mod snippet;
mod split;

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::markdown::{one_line, split_front_matter};

pub(crate) use snippet::snippet;

use outline::{Block, Section};
use pack::Piece;

/// Changes whenever the same note would be cut otherwise, or its passages be worded otherwise.
pub(crate) const CHUNKER_VERSION: u32 = 1;

/// A piece of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The headings above the piece, outermost first, without one that repeats the title.
    pub(crate) heading_path: Vec<String>,
    /// Where the piece stands in the content, in bytes, at character borders.
    pub(crate) range: Range<usize>,
    /// The line of the content on which it begins, from 1.
    pub(crate) first_line: usize,
    /// Tokens of its whole passage text, as counted by the caller's counter.
    pub(crate) n_tokens: usize,
}

/// How large a passage may be, title, heading path, the model's prefix and specials included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// What no passage exceeds, unless its title and headings alone take half of it, or a single
    /// grapheme does.
    pub(crate) max_tokens: usize,
    /// The size that is aimed at.
    pub(crate) target_tokens: usize,
}

impl Limits {
    /// Limits for a model that reads `window` tokens.
    ///
    /// A margin of a sixteenth is for tokenizers that count a whole otherwise than its parts (480
    /// of 512). The target is five eighths of that (300): a passage about one thing, long enough
    /// to say what it is about, since one vector for several subjects is near to none of them.
    pub(crate) fn for_window(window: usize) -> Limits {
        let max_tokens = (window - window / 16).max(16);
        Limits {
            max_tokens,
            target_tokens: max_tokens * 5 / 8,
        }
    }
}

impl Default for Limits {
    /// Limits for a window of 512 tokens, which most small models have.
    fn default() -> Limits {
        Limits::for_window(512)
    }
}

/// Cuts `content`, a note called `title`, into passages of at most `limits.max_tokens`.
///
/// `count` gives the tokens of a text as a passage, prefix and specials included. It is called a
/// few times for each byte, whatever the length of the note. Front matter is in no chunk. A
/// note without a body gets one chunk with an empty range, so that its title can be found.
pub(crate) fn chunk(
    title: &str,
    content: &str,
    count: &dyn Fn(&str) -> usize,
    limits: Limits,
) -> Vec<Chunk> {
    let body = split_front_matter(content).range.end..content.len();
    if content[body.clone()].trim().is_empty() {
        return vec![Chunk {
            heading_path: Vec::new(),
            first_line: line_of(content, body.start),
            n_tokens: count(&passage_text(title, &[], "")),
            range: body.start..body.start,
        }];
    }
    let outline = outline::outline(content, body, title);
    let chunker = Chunker {
        title,
        content,
        count,
        limits,
        n_overhead: count(""),
        sections: &outline.sections,
        n_prefix: outline
            .sections
            .iter()
            .map(|section| count(&passage_text(title, &section.path, "")))
            .collect(),
    };
    let pieces = chunker.pieces(&outline.blocks, &outline.borders);
    let mut chunks = Vec::new();
    for group in pack::pack(&pieces, &chunker.n_prefix, &outline.sections, limits) {
        chunker.finish(&pieces[group], &outline.borders, &mut chunks);
    }
    number_lines(content, &mut chunks);
    chunks
}

/// The text that stands for a chunk wherever it is hashed, counted, indexed or embedded: title,
/// heading path, and the chunk's `text`.
///
/// A heading with which `text` begins is not said twice. Title and path are cut, so that no
/// heading can crowd out the text; of a long path the last headings stay, which say most.
pub(crate) fn passage_text(title: &str, heading_path: &[String], text: &str) -> String {
    const MAX_TITLE_CHARS: usize = 120;
    const MAX_PATH_CHARS: usize = 160;
    let said: Vec<String> = leading_headings(text).map(fold).collect();
    let mut passage = String::with_capacity(text.len() + 2 * MAX_TITLE_CHARS);

    let title = first_chars(title.trim(), MAX_TITLE_CHARS);
    if !title.is_empty() && !said.contains(&fold(title)) {
        passage.push_str(title);
        passage.push('\n');
    }
    let mut path = Vec::new();
    let mut n_left = MAX_PATH_CHARS;
    for heading in heading_path
        .iter()
        .rev()
        .filter(|h| !said.contains(&fold(h)))
    {
        let heading = first_chars(heading, n_left);
        n_left -= heading.chars().count();
        path.push(heading);
        if n_left == 0 {
            break;
        }
    }
    if !path.is_empty() {
        path.reverse();
        passage.push_str(&path.join(" > "));
        passage.push('\n');
    }
    if !passage.is_empty() && !text.is_empty() {
        passage.push('\n');
    }
    passage.push_str(text);
    passage
}

/// The line of `content` on which byte `at` stands, from 1.
pub(crate) fn line_of(content: &str, at: usize) -> usize {
    1 + content.as_bytes()[..at]
        .iter()
        .filter(|&&b| b == b'\n')
        .count()
}

struct Chunker<'a> {
    title: &'a str,
    content: &'a str,
    count: &'a dyn Fn(&str) -> usize,
    limits: Limits,
    /// What the counter adds to every text: prefix and specials.
    n_overhead: usize,
    sections: &'a [Section],
    /// For each section, the tokens of a passage without text.
    n_prefix: Vec<usize>,
}

impl Chunker<'_> {
    /// The blocks, each with its tokens; those that do not fit are cut.
    fn pieces(&self, blocks: &[Block], borders: &outline::Borders) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::with_capacity(blocks.len());
        let mut n_headings = 0;
        for block in blocks {
            let n_tokens = self.n_tokens(&block.range);
            let piece = Piece {
                range: block.range.clone(),
                section: block.section,
                n_tokens,
                heading_level: block.heading_level,
                leads_in: block.leads_in,
            };
            let room = self.room(block.section, n_headings);
            if block.heading_level.is_some() {
                n_headings += n_tokens;
            } else {
                n_headings = 0;
            }
            if n_tokens <= room.max {
                pieces.push(piece);
            } else {
                self.cut(&piece, borders, room, &mut pieces);
            }
        }
        pieces
    }

    /// The tokens that a section's passages have for text, after headings that go with it.
    fn room(&self, section: usize, n_headings: usize) -> split::Room {
        let left = |limit: usize| {
            let floor = self.limits.max_tokens / 2;
            let without_prefix = limit
                .saturating_sub(self.n_prefix[section])
                .max(floor.min(limit));
            let without_headings = without_prefix.saturating_sub(n_headings);
            if without_headings > without_prefix / 2 {
                without_headings
            } else {
                without_prefix
            }
        };
        split::Room {
            max: left(self.limits.max_tokens),
            target: left(self.limits.target_tokens),
        }
    }

    fn cut(
        &self,
        piece: &Piece,
        borders: &outline::Borders,
        room: split::Room,
        pieces: &mut Vec<Piece>,
    ) {
        let count = |range: &Range<usize>| self.n_tokens(range);
        let parts = split::split(
            self.content,
            piece.range.clone(),
            piece.n_tokens,
            borders,
            room,
            &count,
        );
        let last = parts.len().saturating_sub(1);
        pieces.extend(
            parts
                .into_iter()
                .enumerate()
                .map(|(i, (range, n_tokens))| Piece {
                    range,
                    n_tokens,
                    section: piece.section,
                    heading_level: piece.heading_level.filter(|_| i == 0),
                    leads_in: piece.leads_in && i == last,
                }),
        );
    }

    /// Makes a chunk of neighbouring pieces; of several, where the whole is larger than the sum of
    /// its parts promised.
    fn finish(&self, pieces: &[Piece], borders: &outline::Borders, chunks: &mut Vec<Chunk>) {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return;
        };
        let range = trim_blank(self.content, first.range.start..last.range.end);
        if range.is_empty() {
            return;
        }
        let heading_path = common_path(pieces, self.sections);
        let passage = passage_text(self.title, &heading_path, &self.content[range.clone()]);
        let n_tokens = (self.count)(&passage);
        if n_tokens > self.limits.max_tokens {
            if pieces.len() > 1 {
                let middle = middle_of(pieces);
                self.finish(&pieces[..middle], borders, chunks);
                self.finish(&pieces[middle..], borders, chunks);
                return;
            }
            let n_excess = n_tokens - self.limits.max_tokens;
            let max = first
                .n_tokens
                .saturating_sub(n_excess)
                .max(first.n_tokens / 2);
            let room = split::Room {
                max,
                target: max.min(self.room(first.section, 0).target),
            };
            let mut parts = Vec::new();
            self.cut(first, borders, room, &mut parts);
            if parts.len() > 1 && first.n_tokens > self.limits.max_tokens / 4 {
                for part in &parts {
                    self.finish(std::slice::from_ref(part), borders, chunks);
                }
                return;
            }
        }
        chunks.push(Chunk {
            heading_path,
            range,
            first_line: 0,
            n_tokens,
        });
    }

    fn n_tokens(&self, range: &Range<usize>) -> usize {
        (self.count)(&self.content[range.clone()]).saturating_sub(self.n_overhead)
    }
}

/// Where to halve `pieces`: before the heading nearest to the middle, else near the middle.
fn middle_of(pieces: &[Piece]) -> usize {
    let total: usize = pieces.iter().map(|piece| piece.n_tokens).sum();
    let mut before = 0;
    (1..pieces.len())
        .min_by_key(|&i| {
            before += pieces[i - 1].n_tokens;
            let off_middle = (before * 2).abs_diff(total);
            let is_heading = pieces[i].heading_level.is_some();
            let orphans_heading = pieces[i - 1].heading_level.is_some();
            (
                orphans_heading,
                !(is_heading && off_middle < total * 2 / 3),
                off_middle,
            )
        })
        .unwrap_or(1)
}

/// The headings that are above all of `pieces`. Headings at the start that have no text of their
/// own do not count: they are the way to what follows.
fn common_path(pieces: &[Piece], sections: &[Section]) -> Vec<String> {
    let n_leading = pieces
        .iter()
        .take_while(|piece| piece.heading_level.is_some())
        .count();
    let counted = &pieces[n_leading.min(pieces.len() - 1)..];
    let mut path = sections[counted[0].section].path.as_slice();
    for piece in &counted[1..] {
        let other = &sections[piece.section].path;
        let n_common = path.iter().zip(other).take_while(|(a, b)| a == b).count();
        path = &path[..n_common];
    }
    path.to_vec()
}

/// `range` without blank lines at its start and blanks at its end; the first line keeps its indent.
fn trim_blank(content: &str, range: Range<usize>) -> Range<usize> {
    let text = &content[range.clone()];
    let trimmed = text.trim_start();
    let n_blank = text.len() - trimmed.len();
    let start = text[..n_blank].rfind('\n').map_or(0, |newline| newline + 1);
    if trimmed.is_empty() {
        return range.start..range.start;
    }
    range.start + start..range.start + text.trim_end().len()
}

fn number_lines(content: &str, chunks: &mut [Chunk]) {
    let mut at = 0;
    let mut line = 1;
    for chunk in chunks {
        line += line_of(&content[at..], chunk.range.start - at) - 1;
        at = chunk.range.start;
        chunk.first_line = line;
    }
}

/// The headings with which `text` begins, and its first line, which may be an underlined one.
fn leading_headings(text: &str) -> impl Iterator<Item = &str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next();
    let is_heading = |line: &&str| line.starts_with('#');
    first
        .into_iter()
        .chain(
            lines
                .take_while(is_heading)
                .filter(move |_| first.as_ref().is_some_and(is_heading)),
        )
        .map(|line| line.trim_matches(|c: char| c == '#' || c.is_whitespace()))
}

/// `text` as it is compared with a title: composed, on one line, in lower case.
pub(crate) fn fold(text: &str) -> String {
    one_line(&text.nfc().collect::<String>()).to_lowercase()
}

/// At most `max_chars` characters of `text`, cut between graphemes.
fn first_chars(text: &str, max_chars: usize) -> &str {
    let mut n_chars = 0;
    let end = text
        .grapheme_indices(true)
        .find(|(_, grapheme)| {
            n_chars += grapheme.chars().count();
            n_chars > max_chars
        })
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests;
