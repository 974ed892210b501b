//! Sizes as a person writes them: a whole number and its unit.

const BYTES: [(&str, usize); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

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
