//! Korean words without their particles and endings, by rule and without a dictionary.
//!
//! A rule cannot know that 회의 (meeting) is no 회 with a particle. So a stem is always
//! indexed beside the word as written, never instead of it, and one that leaves a single
//! syllable, where most of such mistakes are, is kept apart as *weak*.

use super::endings::{
    After::{self, Any, Final, FinalNotRieul, Vowel, VowelOrRieul},
    ENDINGS, PARTICLES, VERBAL,
};

/// The stems of a Korean word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stems {
    /// Two syllables and more, each shorter than the one before; the word itself left out.
    pub(super) strong: Vec<String>,
    /// One syllable, left by a particle that fits it.
    pub(super) weak: Option<String>,
}

/// The stems of `word`, which is composed Hangul and stands alone.
pub(super) fn stems(word: &str) -> Stems {
    stems_down_to(word, 2)
}

/// The stems of Hangul that is glued to a Latin word or a number: there a single syllable
/// (3월에) is as good as two.
pub(super) fn glued_stems(word: &str) -> Stems {
    let mut stems = stems_down_to(word, 1);
    stems.weak = None;
    stems
}

/// Whether the whole of `word` is particles and endings, as the Hangul in MCP를 or
/// API입니다 is.
pub(super) fn is_particle(word: &str) -> bool {
    let mut rest = word;
    for _ in 0..3 {
        if rest.is_empty() {
            return true;
        }
        // What stands before is a Latin word: nobody can say whether it ends in a vowel.
        let suffix = PARTICLES
            .iter()
            .map(|(suffix, _)| *suffix)
            .chain(VERBAL.iter().copied())
            .filter(|suffix| rest.ends_with(*suffix))
            .max_by_key(|suffix| suffix.len());
        let Some(suffix) = suffix else {
            return false;
        };
        rest = &rest[..rest.len() - suffix.len()];
    }
    rest.is_empty()
}

fn stems_down_to(word: &str, min: usize) -> Stems {
    let mut stems = Stems::default();
    let mut rest = word.to_owned();
    // Particles stack (에서는, 들에게만), hardly ever more than three.
    for _ in 0..3 {
        let Some(shorter) = strip(&rest) else {
            break;
        };
        if n_syllables(&shorter) < min {
            stems.weak = (rest == word).then(|| weak(word)).flatten();
            break;
        }
        stems.strong.push(shorter.clone());
        rest = shorter;
    }
    if stems.weak.is_none() && stems.strong.is_empty() {
        stems.weak = weak(word);
    }
    stems
}

/// The single syllable that a particle leaves.
fn weak(word: &str) -> Option<String> {
    PARTICLES
        .iter()
        .filter_map(|(suffix, after)| {
            let stem = word.strip_suffix(suffix)?;
            (n_syllables(stem) == 1 && fits(stem, *after)).then(|| stem.to_owned())
        })
        .next()
}

/// `word` without its longest suffix that fits and leaves something.
fn strip(word: &str) -> Option<String> {
    let particle = PARTICLES
        .iter()
        .filter(|(suffix, after)| {
            word.strip_suffix(suffix)
                .is_some_and(|stem| !stem.is_empty() && fits(stem, *after))
        })
        .map(|(suffix, _)| *suffix);
    let two = |suffix: &&str| {
        word.strip_suffix(suffix)
            .is_some_and(|stem| n_syllables(stem) >= 2)
    };
    let verbal = VERBAL.iter().copied().filter(two);
    let ending = ENDINGS.iter().copied().filter(two);
    // The last of several that are equally long wins: the noun's particle is the likelier.
    let suffix = ending
        .chain(verbal)
        .chain(particle)
        .max_by_key(|suffix| suffix.len())?;
    let stem = &word[..word.len() - suffix.len()];
    Some(if ENDINGS.contains(&suffix) {
        without_past(stem)
    } else {
        stem.to_owned()
    })
}

/// 바꿨 becomes 바꾸, 마셨 becomes 마시: the mark of the past has melted into the last
/// syllable.
fn without_past(stem: &str) -> String {
    const SSANG_SIOS: u32 = 20;
    let Some(last) = stem.chars().last() else {
        return String::new();
    };
    let Some((lead, vowel, tail)) = letters(last) else {
        return stem.to_owned();
    };
    if tail != SSANG_SIOS {
        return stem.to_owned();
    }
    // Numbers of the vowels in Unicode's order: ㅘ to ㅗ, ㅝ to ㅜ, ㅕ to ㅣ, ㅐ to ㅏ, ㅙ to ㅚ.
    let vowel = match vowel {
        9 => 8,
        14 => 13,
        6 => 20,
        1 => 0,
        10 => 11,
        vowel => vowel,
    };
    let mut out = stem[..stem.len() - last.len_utf8()].to_owned();
    out.extend(char::from_u32(0xac00 + (lead * 21 + vowel) * 28));
    out
}

fn fits(stem: &str, after: After) -> bool {
    const RIEUL: u32 = 8;
    let Some((_, _, tail)) = stem.chars().last().and_then(letters) else {
        return false;
    };
    match after {
        Any => true,
        Vowel => tail == 0,
        Final => tail != 0,
        VowelOrRieul => tail == 0 || tail == RIEUL,
        FinalNotRieul => tail != 0 && tail != RIEUL,
    }
}

/// A composed syllable's leading consonant, vowel and final, as Unicode counts them.
fn letters(syllable: char) -> Option<(u32, u32, u32)> {
    let index = u32::from(syllable)
        .checked_sub(0xac00)
        .filter(|index| *index < 19 * 21 * 28)?;
    Some((index / (21 * 28), index / 28 % 21, index % 28))
}

fn n_syllables(word: &str) -> usize {
    word.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, strong: &[&str], weak: Option<&str>) {
        let stems = stems(word);
        assert_eq!(stems.strong, strong, "{word}");
        assert_eq!(stems.weak.as_deref(), weak, "{word}");
    }

    #[test]
    fn particles_come_off_and_stacked_ones_one_by_one() {
        check("인증을", &["인증"], None);
        check("회의록에", &["회의록"], None);
        check("파이썬으로", &["파이썬"], None);
        check("데이터베이스를", &["데이터베이스"], None);
        check(
            "사용자들에게는",
            &["사용자들에게", "사용자들", "사용자"],
            None,
        );
        check("서버에서는", &["서버에서", "서버"], None);
        check("서울로", &["서울"], None);
    }

    #[test]
    fn a_particle_that_does_not_agree_with_the_syllable_before_stays() {
        check("가을", &[], None);
        check("마을", &[], None);
        check("서버을", &[], None);
        check("인증를", &[], None);
    }

    #[test]
    fn a_single_syllable_is_a_weak_stem() {
        check("책을", &[], Some("책"));
        check("책에", &[], Some("책"));
        check("힙이란", &[], Some("힙"));
        check("회의", &[], Some("회"));
        check("을", &[], None);
        check("책", &[], None);
    }

    #[test]
    fn verbs_made_of_nouns_give_the_noun() {
        for word in [
            "설정하는",
            "설정했다",
            "설정합니다",
            "설정된",
            "설정하려면",
            "설정해서",
        ] {
            assert_eq!(
                stems(word).strong.last().map(String::as_str),
                Some("설정"),
                "{word}"
            );
        }
    }

    #[test]
    fn forms_of_a_verb_meet() {
        assert_eq!(stems("바꾸기").strong, ["바꾸"]);
        assert_eq!(stems("바꿨다").strong, ["바꾸"]);
        assert_eq!(stems("바꾸는데").strong, ["바꾸"]);
        assert_eq!(stems("마셨습니다").strong, ["마시"]);
    }

    #[test]
    fn what_hangs_on_a_latin_word_is_told_from_a_word_of_its_own() {
        for particle in [
            "를",
            "로",
            "에서",
            "에서는",
            "입니다",
            "이란",
            "가",
            "들을",
            "하는",
        ] {
            assert!(is_particle(particle), "{particle}");
        }
        for word in ["월", "서버", "서버를", "개", "문서"] {
            assert!(!is_particle(word), "{word}");
        }
        assert_eq!(glued_stems("월에").strong, ["월"]);
    }
}
