//! Dates as people type and read them.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A moment from `2026-11-30` (its first instant where this machine is) or RFC 3339.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Ok(date) = text.parse::<Date>()
        && text.len() == "2026-11-30".len()
    {
        return date
            .to_zoned_datetime(TimeZone::system())
            .map(|zoned| zoned.timestamp())
            .map_err(|error| error.to_string());
    }
    text.parse().map_err(|_| {
        "a date such as `2026-11-30` or a moment such as `2026-11-30T09:00:00Z` is needed"
            .to_owned()
    })
}

/// `moment` to the minute, in this machine's time zone.
pub(crate) fn show(moment: Timestamp) -> String {
    moment
        .to_zoned_datetime(TimeZone::system())
        .strftime("%Y-%m-%d %H:%M")
        .to_string()
}

/// The day of `moment`, in this machine's time zone.
pub(crate) fn show_day(moment: Timestamp) -> String {
    moment
        .to_zoned_datetime(TimeZone::system())
        .strftime("%Y-%m-%d")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_first_instant_here() {
        let day = parse("2026-11-30").unwrap();
        assert_eq!(show(day), "2026-11-30 00:00");
        assert_eq!(show_day(day), "2026-11-30");
    }

    #[test]
    fn a_moment_with_an_offset_is_taken_as_it_is() {
        let check = |text: &str, utc: &str| assert_eq!(parse(text).unwrap().to_string(), utc);
        check("2026-11-30T09:00:00Z", "2026-11-30T09:00:00Z");
        check("2026-11-30T09:00:00+09:00", "2026-11-30T00:00:00Z");
    }

    #[test]
    fn what_is_no_date_is_refused_with_an_example() {
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-11",
            "2026-11-30 09:00",
            "30.11.2026",
        ] {
            assert!(parse(text).unwrap_err().contains("`2026-11-30`"), "{text}");
        }
    }
}
