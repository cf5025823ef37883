//! Cuts a block that does not fit: between its items or rows, else lines of code or sentences of
//! prose, else words, and where there is not even a word, between graphemes.

use std::ops::Range;

use pkm_embed::token_weight;
use unicode_segmentation::GraphemeCursor;

use super::outline::Borders;

/// The tokens that a part may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) max: usize,
    pub(super) target: usize,
}

/// How bad a border is, in units of "as far from the wanted size as that size".
mod penalty {
    /// Per level of depth, for an item, a row or a block within the block.
    pub(super) const INNER: f32 = 0.1;
    pub(super) const SENTENCE: f32 = 0.5;
    /// A line's end in prose may be in the middle of a sentence.
    pub(super) const PROSE_LINE: f32 = 0.9;
    /// A line of code or of a table: worse than a small part before or after the whole of it.
    pub(super) const ATOM_LINE: f32 = 1.2;
    pub(super) const ATOM_BLANK_LINE: f32 = 1.0;
    pub(super) const WORD: f32 = 2.0;
    /// After a sign within a word, or between ideographs.
    pub(super) const IN_WORD: f32 = 2.6;
}

/// Cuts `range`, which has `n_tokens`, into parts of at most `room.max`; each comes with its own
/// tokens. The parts follow each other without a gap. Only a single grapheme may be larger.
pub(super) fn split(
    content: &str,
    range: Range<usize>,
    n_tokens: usize,
    borders: &Borders,
    room: Room,
    count: &dyn Fn(&Range<usize>) -> usize,
) -> Vec<(Range<usize>, usize)> {
    let mut done = Vec::new();
    // Parts still to be looked at, the next one last.
    let mut open = vec![(range, n_tokens)];
    while let Some((range, n_tokens)) = open.pop() {
        if n_tokens <= room.max {
            done.push((range, n_tokens));
            continue;
        }
        let mut parts: Vec<_> = cut_once(content, &range, n_tokens, borders, room)
            .into_iter()
            .map(|part| {
                let n_tokens = count(&part);
                (part, n_tokens)
            })
            .collect();
        if parts.len() < 2 {
            done.append(&mut parts);
        } else {
            open.extend(parts.into_iter().rev());
        }
    }
    done
}

struct Candidate {
    at: usize,
    /// Estimated tokens before it.
    before: f32,
    penalty: f32,
}

/// Cuts `range` at the best borders by estimated sizes, into at least two parts where it can.
fn cut_once(
    content: &str,
    range: &Range<usize>,
    n_tokens: usize,
    borders: &Borders,
    room: Room,
) -> Vec<Range<usize>> {
    let text = &content[range.clone()];
    let estimated: f32 = text.chars().map(token_weight).sum();
    // The estimate says how tokens are spread, the count how many there are.
    let scale = n_tokens as f32 / estimated.max(0.01);
    let candidates = candidates(content, range, borders, scale);
    let target = room.target.clamp(1, room.max.max(1)) as f32;
    let max = room.max.max(1) as f32;

    let mut parts = Vec::new();
    let (mut start, mut before) = (range.start, 0.0_f32);
    let mut next = 0;
    loop {
        let left = n_tokens as f32 - before;
        let must_cut = parts.is_empty() || left > max;
        let n_parts = (left / target)
            .round()
            .max(if must_cut { 2.0 } else { 1.0 });
        if n_parts < 2.0 {
            break;
        }
        let ideal = left / n_parts;
        while candidates
            .get(next)
            .is_some_and(|candidate| candidate.at <= start)
        {
            next += 1;
        }
        let chosen = candidates[next..]
            .iter()
            .take_while(|candidate| candidate.before - before <= max)
            .map(|candidate| {
                let off = (candidate.before - before - ideal).abs() / ideal.max(0.01);
                (candidate, candidate.penalty + off)
            })
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(candidate, _)| candidate.at);
        let wanted = chosen.unwrap_or_else(|| advance(content, start..range.end, ideal / scale));
        let Some(cut) = grapheme_border(content, start..range.end, wanted) else {
            break;
        };
        parts.push(start..cut);
        before += scale * content[start..cut].chars().map(token_weight).sum::<f32>();
        start = cut;
    }
    parts.push(start..range.end);
    parts
}

/// The byte after the first characters of `range` that weigh `weight`.
fn advance(content: &str, range: Range<usize>, weight: f32) -> usize {
    let mut sum = 0.0;
    content[range.clone()]
        .char_indices()
        .find(|(_, c)| {
            sum += token_weight(*c);
            sum > weight
        })
        .map_or(range.end, |(at, _)| range.start + at)
}

/// The grapheme border strictly inside `range` that is at `at` or the next before it, else after
/// it; `None` when `range` is one grapheme.
fn grapheme_border(content: &str, range: Range<usize>, at: usize) -> Option<usize> {
    let text = &content[range.clone()];
    let at = at.clamp(range.start, range.end) - range.start;
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    let inside = |border: Option<usize>| border.filter(|&b| 0 < b && b < text.len());
    let here = matches!(cursor.is_boundary(text, 0), Ok(true)).then_some(at);
    inside(here)
        .or_else(|| inside(cursor.prev_boundary(text, 0).ok().flatten()))
        .or_else(|| {
            let mut cursor = GraphemeCursor::new(at, text.len(), true);
            inside(cursor.next_boundary(text, 0).ok().flatten())
        })
        .map(|border| range.start + border)
}

/// All borders inside `range`, in order.
fn candidates(
    content: &str,
    range: &Range<usize>,
    borders: &Borders,
    scale: f32,
) -> Vec<Candidate> {
    let mut inner = borders.inner[borders.inner.partition_point(|(at, _)| *at <= range.start)..]
        .iter()
        .take_while(|(at, _)| *at < range.end)
        .peekable();
    let mut atoms = borders.atoms[borders
        .atoms
        .partition_point(|atom| atom.end <= range.start)..]
        .iter()
        .peekable();
    let mut scan = Scan::default();
    let mut found = Vec::new();
    let mut before = 0.0;
    let mut line = range.start;
    for (i, c) in content[range.clone()].char_indices() {
        let at = range.start + i;
        while atoms.next_if(|atom| atom.end <= at).is_some() {}
        let in_atom = atoms.peek().is_some_and(|atom| atom.start < at);
        let mut penalty = if i > 0 {
            scan.border_before(c, in_atom)
        } else {
            None
        };
        while let Some((_, depth)) = inner.next_if(|(border, _)| *border <= at) {
            let inner = penalty::INNER * f32::from(*depth);
            penalty = Some(penalty.map_or(inner, |other: f32| other.min(inner)));
        }
        // A line keeps its indent.
        let at = if scan.n_line_ends > 0 { line } else { at };
        if let Some(penalty) = penalty
            && at > range.start
        {
            found.push(Candidate {
                at,
                before,
                penalty,
            });
        }
        scan.take(c);
        if c == '\n' {
            line = range.start + i + 1;
        }
        before += scale * token_weight(c);
    }
    found
}

/// What a left-to-right look at the characters has to remember.
#[derive(Default)]
struct Scan {
    last: Option<char>,
    /// Line ends since the last character that is not blank.
    n_line_ends: usize,
    /// Blanks since then.
    n_blanks: usize,
    sentence: Sentence,
    /// The word that the last sign ended: its characters, and whether all are digits.
    word: (usize, bool),
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Sentence {
    #[default]
    Open,
    /// Ended by a sign that needs a blank after it.
    Ended,
    /// Ended by a full-width sign.
    EndedWide,
}

impl Scan {
    /// The penalty of cutting before `c`, if that is a border at all.
    fn border_before(&self, c: char, in_atom: bool) -> Option<f32> {
        if c.is_whitespace() {
            return None;
        }
        if in_atom {
            return match self.n_line_ends {
                0 if self.n_blanks > 0 => Some(penalty::WORD),
                0 => self.in_word(c),
                1 => Some(penalty::ATOM_LINE),
                _ => Some(penalty::ATOM_BLANK_LINE),
            };
        }
        match self.sentence {
            Sentence::EndedWide if !is_closing(c) && !is_terminator(c) => Some(penalty::SENTENCE),
            Sentence::Ended if self.n_blanks > 0 => Some(penalty::SENTENCE),
            _ if self.n_line_ends > 0 => Some(penalty::PROSE_LINE),
            _ if self.n_blanks > 0 => Some(penalty::WORD),
            _ => self.in_word(c),
        }
    }

    fn in_word(&self, c: char) -> Option<f32> {
        let last = self.last?;
        let after_sign = last.is_ascii_punctuation() && !c.is_ascii_punctuation();
        (after_sign || (is_ideograph(last) && is_ideograph(c))).then_some(penalty::IN_WORD)
    }

    fn take(&mut self, c: char) {
        if c.is_whitespace() {
            self.n_blanks += 1;
            self.n_line_ends += usize::from(c == '\n');
        } else {
            if self.n_blanks > 0 {
                self.word = (0, true);
            }
            self.n_blanks = 0;
            self.n_line_ends = 0;
            self.sentence = match c {
                '。' | '！' | '？' => Sentence::EndedWide,
                '!' | '?' | '…' => Sentence::Ended,
                '.' if self.is_sentence_word() => Sentence::Ended,
                _ if is_closing(c) => self.sentence,
                _ => Sentence::Open,
            };
            self.word.0 += 1;
            self.word.1 &= c.is_ascii_digit();
        }
        self.last = Some(c);
    }

    /// A full stop after `3` or `J` is a number's or an abbreviation's; one after `다` is not.
    fn is_sentence_word(&self) -> bool {
        let (n_chars, all_digits) = self.word;
        let last_is_latin = self.last.is_some_and(|c| c.is_ascii_alphabetic());
        n_chars > 0 && !all_digits && (n_chars > 1 || !last_is_latin)
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？')
}

fn is_closing(c: char) -> bool {
    matches!(
        c,
        ')' | ']' | '"' | '\'' | '”' | '’' | '」' | '』' | '》' | '*' | '_'
    )
}

fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0x2_0000..=0x3_FFFF)
}
