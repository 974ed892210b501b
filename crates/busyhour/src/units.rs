//! Durations and sizes as a person writes them: a whole number and its unit.

use std::time::Duration;

const SECONDS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
const BYTES: [(&str, usize); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// `500ms`, `180s`, `3m`, `2h`, `1d`. `None` for anything else.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    if unit == "ms" {
        return Some(Duration::from_millis(number));
    }
    let (_, seconds) = SECONDS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*seconds).map(Duration::from_secs)
}

/// A duration in the largest unit that shows it exactly, down to milliseconds.
pub(crate) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() != 0 || seconds == 0 {
        return format!("{}ms", duration.as_millis());
    }
    let (name, unit) = SECONDS.iter().find(|(_, unit)| seconds.is_multiple_of(*unit)).unwrap_or(&("s", 1));
    format!("{}{name}", seconds / unit)
}

/// `4MiB`, `64KiB`, `1500B`, `2MB`: bytes. `None` for anything else.
pub(crate) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let (_, bytes) = BYTES.iter().find(|(name, _)| *name == unit)?;
    usize::try_from(number).ok()?.checked_mul(*bytes)
}

/// A size in the largest unit that shows it exactly.
pub(crate) fn show_size(size: usize) -> String {
    let fits = |unit: usize| size >= unit && size.is_multiple_of(unit);
    let (name, unit) = BYTES.iter().find(|(_, unit)| fits(*unit)).unwrap_or(&("B", 1));
    format!("{}{name}", size / unit)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_show() {
        for (text, ms) in
            [("500ms", 500), ("180s", 180_000), ("3m", 180_000), ("2h", 7_200_000), ("1d", 86_400_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "1.5s",
            "-1s",
            "1 s",
            "1S",
            "1h30m",
            "99999999999999999999s",
            "9999999999999999999d",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["0ms", "1ms", "1500ms", "1s", "61s", "3m", "2h", "1d", "36h"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_read_and_show() {
        for (text, bytes) in
            [("4MiB", 4 << 20), ("64KiB", 65_536), ("1500B", 1500), ("2MB", 2_000_000), ("0B", 0)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
            assert_eq!(show_size(bytes), text);
        }
        for text in ["", "4", "4M", "4mib", "-4B", "4.5MiB", "18446744073709551615GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
