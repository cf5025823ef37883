//! Dates as people and programs write them in front matter.

use jiff::civil::{Date, DateTime};
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::Offset;
use jiff::{Timestamp, ZonedDateTime};

/// Reads a date or a date with a time: ISO 8601 and RFC 2822, numbers in the order year, month, day
/// with any of the usual separators, Korean (`2026년 11월 3일 오후 2시`), English month names,
/// `20261103`, `202611031405`, and Unix seconds or milliseconds.
///
/// A date alone is its midnight in UTC; a time without an offset is UTC.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return from_digits(text);
    }
    text.parse::<Timestamp>()
        .ok()
        .or_else(|| {
            text.parse::<ZonedDateTime>()
                .ok()
                .map(|zoned| zoned.timestamp())
        })
        .or_else(|| Scanner(text).date_time())
        .or_else(|| rfc2822::parse(text).ok().map(|zoned| zoned.timestamp()))
        .or_else(|| with_month_name(text))
}

fn from_digits(text: &str) -> Option<Timestamp> {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i8>().ok();
    if matches!(text.len(), 8 | 12 | 14) {
        let time_part = |at: usize| {
            if text.len() >= at + 2 {
                number(at..at + 2)
            } else {
                Some(0)
            }
        };
        return civil(
            text[..4].parse().ok()?,
            [number(4..6)?, number(6..8)?],
            [time_part(8)?, time_part(10)?, time_part(12)?],
        )
        .and_then(in_utc);
    }
    let number: i64 = text.parse().ok()?;
    match text.len() {
        9 | 10 => Timestamp::from_second(number).ok(),
        13 => Timestamp::from_millisecond(number).ok(),
        _ => None,
    }
}

fn civil(year: i16, [month, day]: [i8; 2], [hour, minute, second]: [i8; 3]) -> Option<DateTime> {
    DateTime::new(year, month, day, hour, minute, second, 0).ok()
}

fn in_utc(date_time: DateTime) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(date_time).ok()
}

fn with_month_name(text: &str) -> Option<Timestamp> {
    const DATES: [&str; 4] = ["%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y"];
    const TIMES: [&str; 3] = ["", " %I:%M %p", " %H:%M"];
    DATES.iter().find_map(|date| {
        TIMES.iter().find_map(|time| {
            let parsed = strtime::parse(format!("{date}{time}"), text).ok()?;
            let date_time = parsed
                .to_datetime()
                .or_else(|_| parsed.to_date().map(DateTime::from));
            in_utc(date_time.ok()?)
        })
    })
}

/// The part of a date that is still to be read.
struct Scanner<'a>(&'a str);

impl Scanner<'_> {
    fn date_time(mut self) -> Option<Timestamp> {
        if self.0.bytes().take_while(u8::is_ascii_digit).count() != 4 {
            return None;
        }
        let year = i16::try_from(self.number(4)?).ok()?;
        self.one_of(&["-", "/", ".", "년"])?;
        let month = self.short()?;
        self.one_of(&["-", "/", ".", "월"])?;
        let day = self.short()?;
        let _ = self.one_of(&["일", "."]);
        let _ = self.one_of(&["T", "t", ","]);
        self.weekday();
        let date = Date::new(year, month, day).ok()?;
        if self.0.trim().is_empty() {
            return in_utc(DateTime::from(date));
        }

        let before = self.half_of_day();
        let mut hour = self.short()?;
        self.one_of(&[":", "시"])?;
        let minute = self.short().unwrap_or(0);
        let second = if self.one_of(&[":", "분"]).is_some() {
            self.short().unwrap_or(0)
        } else {
            0
        };
        let _ = self.one_of(&["초"]);
        self.fraction();
        if let Some(half) = before.or_else(|| self.half_of_day()) {
            if !(1..=12).contains(&hour) {
                return None;
            }
            hour = hour % 12 + if half == Half::Afternoon { 12 } else { 0 };
        }
        let date_time = civil(year, [month, day], [hour, minute, second])?;
        let offset = self.offset()?;
        self.0
            .trim()
            .is_empty()
            .then(|| offset.to_timestamp(date_time).ok())
            .flatten()
    }

    fn number(&mut self, max_digits: usize) -> Option<i32> {
        self.0 = self.0.trim_start();
        let n_digits = self
            .0
            .bytes()
            .take(max_digits)
            .take_while(u8::is_ascii_digit)
            .count();
        let (digits, rest) = self.0.split_at(n_digits);
        let number = digits.parse().ok()?;
        self.0 = rest;
        Some(number)
    }

    fn short(&mut self) -> Option<i8> {
        self.number(2).and_then(|number| i8::try_from(number).ok())
    }

    fn one_of(&mut self, choices: &[&str]) -> Option<usize> {
        let text = self.0.trim_start();
        let found = choices.iter().position(|choice| text.starts_with(choice))?;
        self.0 = &text[choices[found].len()..];
        Some(found)
    }

    /// `(화)`, `(화요일)`, `화요일`.
    fn weekday(&mut self) {
        let text = self.0.trim_start();
        if let Some((_, rest)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            self.0 = rest;
        } else if let Some((day, rest)) = text.split_once("요일")
            && day.chars().count() == 1
        {
            self.0 = rest;
        }
    }

    fn half_of_day(&mut self) -> Option<Half> {
        let found = self.one_of(&["오전", "AM", "am", "오후", "PM", "pm"])?;
        Some(if found < 3 {
            Half::Morning
        } else {
            Half::Afternoon
        })
    }

    /// Parts of a second are dropped: they tell no two notes apart.
    fn fraction(&mut self) {
        if let Some(rest) = self.0.strip_prefix('.') {
            self.0 = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        }
    }

    /// `Z`, `+09:00`, `+0900`, `-5`; nothing is UTC, and what is not an offset is `None`.
    fn offset(&mut self) -> Option<Offset> {
        if self.one_of(&["Z", "z", "UTC", "GMT"]).is_some() {
            return Some(Offset::UTC);
        }
        if self.one_of(&["KST"]).is_some() {
            return Offset::from_hours(9).ok();
        }
        let Some(sign) = self.one_of(&["+", "-"]) else {
            return self.0.trim().is_empty().then_some(Offset::UTC);
        };
        let hours = self.number(2)?;
        let _ = self.one_of(&[":"]);
        let minutes = self.number(2).unwrap_or(0);
        let seconds = (hours * 60 + minutes) * 60;
        Offset::from_seconds(if sign == 0 { seconds } else { -seconds }).ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let expected: Timestamp = expected.parse().expect("a timestamp");
        assert_eq!(parse(text), Some(expected), "{text}");
    }

    #[test]
    fn a_date_alone_is_its_midnight_in_utc() {
        for text in [
            "2026-11-03",
            "2026/11/03",
            "2026.11.3",
            "2026. 11. 3.",
            "2026년 11월 3일",
            "2026년11월3일 (화)",
            "2026년 11월 3일 화요일",
            "20261103",
            "November 3, 2026",
            "3 Nov 2026",
        ] {
            check(text, "2026-11-03T00:00:00Z");
        }
    }

    #[test]
    fn a_time_without_an_offset_is_utc() {
        for text in [
            "2026-11-03T14:05",
            "2026-11-03 14:05:00",
            "2026-11-03T14:05:00.123",
            "2026. 11. 3. 오후 2:05",
            "2026년 11월 3일 오후 2시 5분",
            "2026년 11월 3일 화요일 오후 2시 5분 0초",
            "202611031405",
            "20261103140500",
            "November 3, 2026 2:05 PM",
        ] {
            check(text, "2026-11-03T14:05:00Z");
        }
        check("2026-11-03 12:30 AM", "2026-11-03T00:30:00Z");
    }

    #[test]
    fn an_offset_is_honoured() {
        for text in [
            "2026-11-03T14:05:00+09:00",
            "2026-11-03 14:05 +0900",
            "2026-11-03T14:05+09:00[Asia/Seoul]",
            "2026-11-03 14:05 KST",
            "2026-11-03T05:05:00Z",
            "2026-11-03 05:05 UTC",
            "Tue, 03 Nov 2026 14:05:00 +0900",
            "1793682300",
            "1793682300000",
        ] {
            check(text, "2026-11-03T05:05:00Z");
        }
    }

    #[test]
    fn what_is_no_date_gives_none() {
        for text in [
            "",
            "soon",
            "2026",
            "2026-11",
            "2026-13-01",
            "2026-02-30",
            "2026년 11월",
            "2026-11-03 25:00",
            "2026-11-03 13:00 PM",
            "2026-11-03 and more",
            "2026-11-03 10:00 later",
            "{{date}}",
            "99999999",
            "한국어",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "\\PC{0,30}", year in "[0-9]{4}[-./년 ]{0,2}\\PC{0,12}") {
            let _ = parse(&text);
            let _ = parse(&year);
        }
    }
}
