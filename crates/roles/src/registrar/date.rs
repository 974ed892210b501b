//! The Date header (RFC 3261 section 20.17): the only place where a role knows the calendar.

use std::time::Duration;

use busyhour_engine::Instant;

/// `Sat, 13 Nov 2010 23:29:00 GMT`, made once per second.
pub(super) struct Date {
    unix_offset: Duration,
    unix_s: u64,
    text: [u8; LEN],
}

const LEN: usize = 29;
const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

impl Date {
    /// `unix_offset_nanos`: from the Unix epoch to the driver's.
    pub(super) fn new(unix_offset_nanos: u64) -> Self {
        Date { unix_offset: Duration::from_nanos(unix_offset_nanos), unix_s: 0, text: date_at(0) }
    }

    /// The date and time at `now`.
    pub(super) fn at(&mut self, now: Instant) -> &[u8] {
        let unix_s = (self.unix_offset + Duration::from_nanos(now.as_nanos())).as_secs();
        if unix_s != self.unix_s {
            (self.unix_s, self.text) = (unix_s, date_at(unix_s));
        }
        &self.text
    }
}

fn date_at(unix_s: u64) -> [u8; LEN] {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    let weekday = (days % 7) as usize * 3;
    text[..3].copy_from_slice(&DAYS[weekday..weekday + 3]);
    let month_at = month * 3;
    text[8..11].copy_from_slice(&MONTHS[month_at..month_at + 3]);
    put_two(&mut text[5..7], day);
    put_two(&mut text[12..14], year / 100 % 100);
    put_two(&mut text[14..16], year % 100);
    put_two(&mut text[17..19], second / 3600);
    put_two(&mut text[20..22], second / 60 % 60);
    put_two(&mut text[23..25], second % 60);
    text
}

fn put_two(to: &mut [u8], n: u64) {
    to[0] = b'0' + (n / 10) as u8;
    to[1] = b'0' + (n % 10) as u8;
}

/// Year, month (0 to 11) and day (from 1) of a day since 1 January 1970, by the Gregorian calendar.
fn civil(days: u64) -> (u64, usize, u64) {
    const DAYS_PER_400_YEARS: u64 = 146_097;
    let mut year = 1970 + days / DAYS_PER_400_YEARS * 400;
    let mut left = days % DAYS_PER_400_YEARS;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    for (month, length) in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate() {
        if left < length {
            return (year, month, left + 1);
        }
        left -= length;
    }
    unreachable!("a year has no more days than its months")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (16_725_225_599, "Thu, 31 Dec 2499 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&date_at(unix_s)).unwrap(), text);
        }
    }

    #[test]
    fn it_follows_the_driver_s_clock() {
        let mut date = Date::new(1_289_690_939_500_000_000);
        assert_eq!(date.at(Instant::from_nanos(499_999_999)), b"Sat, 13 Nov 2010 23:28:59 GMT");
        assert_eq!(date.at(Instant::from_nanos(500_000_000)), b"Sat, 13 Nov 2010 23:29:00 GMT");
    }
}
