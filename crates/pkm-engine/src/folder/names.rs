//! File names that every usual file system takes.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use crate::markdown::one_line;

/// Longest name in bytes, without an ending. File systems take 255; the rest is for the ending, a
/// number, and systems that keep Korean decomposed.
const MAX_BYTES: usize = 200;

/// A file name without an ending for a note called `title`: the title, but for characters that
/// some file system forbids, names that Windows keeps for devices, and what would be hidden.
///
/// Different titles may get one name; [`Names`] keeps them apart.
pub(super) fn safe_file_name(title: &str) -> String {
    let composed: String = title.nfc().collect();
    let mut name = one_line(&composed).replace(['/', '\\', ':', '*', '?', '"', '<', '>', '|'], "-");
    if name.starts_with('.') {
        name.insert(0, '_');
    }
    // `NUL.md` is the device too, whatever follows the point.
    let stem = name.split('.').next().unwrap_or("").trim_end();
    if is_device(stem) {
        name.insert(0, '_');
    }
    let mut end = 0;
    for (at, grapheme) in name.grapheme_indices(true) {
        if at + grapheme.len() > MAX_BYTES {
            break;
        }
        end = at + grapheme.len();
    }
    if end == 0 && !name.is_empty() {
        // One grapheme that is longer than a name may be.
        end = name.floor_char_boundary(MAX_BYTES);
    }
    let name = name[..end].trim_end_matches([' ', '.']);
    if name.is_empty() {
        "Untitled".to_owned()
    } else {
        name.to_owned()
    }
}

fn is_device(stem: &str) -> bool {
    let stem = stem.to_uppercase();
    if matches!(
        stem.as_str(),
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$"
    ) {
        return true;
    }
    ["COM", "LPT"].iter().any(|device| {
        stem.strip_prefix(device)
            .and_then(|port| port.chars().next().filter(|_| port.chars().count() == 1))
            .is_some_and(|port| port.is_ascii_digit() || matches!(port, '¹' | '²' | '³'))
    })
}

/// Paths that are given out, told apart as file systems without case and composition do.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The next number for each path that was asked for: many notes may have one title.
    next: HashMap<String, usize>,
}

impl Names {
    /// A path in `folder` for `stem` and `ending`, numbered if needed, that was not given out
    /// before and that `is_free`.
    pub(super) fn take(
        &mut self,
        folder: &str,
        stem: &str,
        ending: &str,
        mut is_free: impl FnMut(&str) -> bool,
    ) -> String {
        let base = if folder.is_empty() {
            stem.to_owned()
        } else {
            format!("{folder}/{stem}")
        };
        let number = self.next.entry(format!("{base}{ending}")).or_insert(1);
        loop {
            let path = if *number == 1 {
                format!("{base}{ending}")
            } else {
                format!("{base} ({number}){ending}")
            };
            *number += 1;
            let folded = path.nfc().collect::<String>().to_lowercase();
            if !self.taken.contains(&folded) && is_free(&path) {
                self.taken.insert(folded);
                return path;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_titles_are_their_own_names() {
        for title in [
            "my file",
            "my_file",
            "my-file",
            "회의록 2026-11-03",
            "C++ & Rust (초안)",
            "v1.2",
        ] {
            assert_eq!(safe_file_name(title), title);
        }
    }

    #[test]
    fn forbidden_characters_and_names_are_replaced() {
        for (title, expected) in [
            ("a/b\\c: d?", "a-b-c- d-"),
            ("NUL", "_NUL"),
            ("con", "_con"),
            ("Aux.txt", "_Aux.txt"),
            ("COM1", "_COM1"),
            ("lpt¹", "_lpt¹"),
            ("console", "console"),
            ("COM10", "COM10"),
            (".hidden", "_.hidden"),
            ("..", "_"),
            ("trailing. ", "trailing"),
            ("two\nlines\u{0}", "two lines"),
            ("???", "---"),
            ("", "Untitled"),
            ("  ", "Untitled"),
        ] {
            assert_eq!(safe_file_name(title), expected, "{title:?}");
        }
        let decomposed: String = "회의록".nfd().collect();
        assert_eq!(safe_file_name(&decomposed), "회의록");
    }

    #[test]
    fn a_long_title_is_cut_between_characters() {
        let name = safe_file_name(&"긴 제목".repeat(60));
        assert!(name.len() <= MAX_BYTES && name.len() > MAX_BYTES - 8);
        let name = safe_file_name(&"👨‍👩‍👧‍👦".repeat(40));
        assert_eq!(name.replace("👨‍👩‍👧‍👦", ""), "");
    }

    #[test]
    fn names_that_differ_only_in_case_or_composition_are_numbered() {
        let mut names = Names::default();
        let mut take = |stem: &str| names.take("a", stem, ".md", |_| true);
        assert_eq!(take("Note"), "a/Note.md");
        assert_eq!(take("note"), "a/note (2).md");
        assert_eq!(take("한"), "a/한.md");
        assert_eq!(
            take("\u{1112}\u{1161}\u{11AB}"),
            "a/\u{1112}\u{1161}\u{11AB} (2).md"
        );
        assert_eq!(names.take("", "x", "", |path| path != "x"), "x (2)");
    }

    proptest! {
        #[test]
        fn every_title_gives_a_name_that_all_systems_take(title in "([./\\\\:]|NUL|\\PC|[\u{0}-\u{20}]){0,120}") {
            let name = safe_file_name(&title);
            prop_assert!(!name.is_empty() && name.len() <= MAX_BYTES);
            prop_assert!(!name.starts_with('.') && !name.ends_with(['.', ' ']));
            prop_assert!(!name.contains(|c: char| c.is_control() || "/\\:*?\"<>|".contains(c)));
        }
    }
}
