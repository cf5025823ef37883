//! Joins the pieces of a note to chunks: as near to the target as its structure allows.

use std::ops::Range;

use super::Limits;
use super::outline::Section;

/// A block, or a part of one that was too large.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    /// Its section's position in the outline.
    pub(super) section: usize,
    /// Tokens of its text alone.
    pub(super) n_tokens: usize,
    /// The level of a piece that is a heading.
    pub(super) heading_level: Option<u8>,
    /// Whether it announces what follows.
    pub(super) leads_in: bool,
}

/// Prices are in units of "a chunk without any text": the squared share by which a size is off.
mod price {
    /// A chunk above the target costs more than one as far below it: it is about more things.
    pub(super) const ABOVE_TARGET: f32 = 2.0;
    /// One more section in a chunk. Small sections still come together: two of half the target
    /// cost 0.5 apart.
    pub(super) const NEXT_SECTION: f32 = 0.04;
    /// A chunk that is the rest of one section and goes on into the next.
    pub(super) const REST_AND_NEXT: f32 = 0.15;
    /// A chunk that goes on into a section above the one it began in: they share no parent.
    pub(super) const UNRELATED: f32 = 1.5;
    /// A cut between two blocks of one section.
    pub(super) const CUT_WITHIN: f32 = 0.1;
    /// A cut between a line that ends in a colon and what it announces.
    pub(super) const CUT_AFTER_LEAD_IN: f32 = 0.3;
    /// A heading at the end of a chunk.
    pub(super) const ORPHAN_HEADING: f32 = 2.0;
}

/// Pieces looked back at for one chunk; only a note of near-empty blocks reaches it.
const MAX_PIECES: usize = 512;

/// The cheapest way to cut `pieces` into groups of at most `limits.max_tokens`, by their sums; a
/// piece above that is a group of its own.
///
/// Finds, for every prefix of the pieces, the best last group: at most [`MAX_PIECES`] steps each.
pub(super) fn pack(
    pieces: &[Piece],
    n_prefix: &[usize],
    sections: &[Section],
    limits: Limits,
) -> Vec<Range<usize>> {
    // `best[j]`: the price of the first j pieces, and where their last group begins.
    let mut best: Vec<(f32, usize)> = vec![(0.0, 0)];
    let text_of = section_of_text(pieces);
    for end in 1..=pieces.len() {
        let mut cheapest = (f32::INFINITY, end - 1);
        let mut group = Group::default();
        for start in (end.saturating_sub(MAX_PIECES)..end).rev() {
            let size = group.extend(pieces, start, sections) + n_prefix[text_of[start]];
            if size > limits.max_tokens && start + 1 < end {
                break;
            }
            let price = best[start].0 + group.price(size, limits) + price_of_cut(pieces, end);
            if price < cheapest.0 {
                cheapest = (price, start);
            }
        }
        best.push(cheapest);
    }
    let mut groups = Vec::new();
    let mut end = pieces.len();
    while end > 0 {
        let start = best[end].1;
        groups.push(start..end);
        end = start;
    }
    groups.reverse();
    groups
}

/// For each piece the section of the first text at or after it: headings go with what follows.
fn section_of_text(pieces: &[Piece]) -> Vec<usize> {
    let mut sections: Vec<usize> = pieces.iter().map(|piece| piece.section).collect();
    for i in (0..pieces.len().saturating_sub(1)).rev() {
        if pieces[i].heading_level.is_some() {
            sections[i] = sections[i + 1];
        }
    }
    sections
}

/// A group that grows towards the start of the note.
#[derive(Default)]
struct Group {
    n_tokens: usize,
    /// Headings inside, those at the group's very start not counted.
    n_headings: usize,
    /// Headings at the group's start.
    n_leading: usize,
    /// The highest rank of a heading inside (1 is the highest).
    top_level: Option<u8>,
    leading_level: Option<u8>,
    start_level: u8,
    begins_with_heading: bool,
}

impl Group {
    /// Takes in piece `start`, which stands before all the others; gives the group's tokens.
    fn extend(&mut self, pieces: &[Piece], start: usize, sections: &[Section]) -> usize {
        let piece = &pieces[start];
        self.n_tokens += piece.n_tokens;
        self.start_level = sections[piece.section].level;
        self.begins_with_heading = piece.heading_level.is_some();
        if let Some(level) = piece.heading_level {
            self.n_leading += 1;
            self.leading_level = Some(self.leading_level.map_or(level, |above| above.min(level)));
        } else {
            self.n_headings += std::mem::take(&mut self.n_leading);
            self.top_level = [self.top_level, self.leading_level.take()]
                .into_iter()
                .flatten()
                .min();
        }
        self.n_tokens
    }

    fn price(&self, size: usize, limits: Limits) -> f32 {
        let target = limits.target_tokens.max(1) as f32;
        let off = (size as f32 - target) / target;
        let mut price = off * off;
        if off > 0.0 {
            price *= price::ABOVE_TARGET;
        }
        price += self.n_headings as f32 * price::NEXT_SECTION;
        if self.n_headings > 0 && !self.begins_with_heading && self.start_level > 0 {
            price += price::REST_AND_NEXT;
        }
        let top_level = self.top_level.into_iter().chain(self.leading_level).min();
        if top_level.is_some_and(|top| top < self.start_level) {
            price += price::UNRELATED;
        }
        price
    }
}

/// What it costs that a chunk ends before piece `at`.
fn price_of_cut(pieces: &[Piece], at: usize) -> f32 {
    let (before, Some(after)) = (&pieces[at - 1], pieces.get(at)) else {
        return 0.0;
    };
    if before.heading_level.is_some() {
        return price::ORPHAN_HEADING;
    }
    if after.heading_level.is_some() {
        return 0.0;
    }
    if before.leads_in {
        price::CUT_AFTER_LEAD_IN
    } else {
        price::CUT_WITHIN
    }
}
