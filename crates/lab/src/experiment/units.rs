//! Numbers with units, as a person writes them: durations, rates, ratios, CPU.

use std::fmt;
use std::time::Duration;

/// What a number measures, as the power of the second in its unit: a rate times a duration is a count.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Dimension(pub i8);

impl Dimension {
    /// A count or a ratio.
    pub const NUMBER: Dimension = Dimension(0);
    /// A duration, in seconds.
    pub const DURATION: Dimension = Dimension(1);
    /// A rate, per second.
    pub const RATE: Dimension = Dimension(-1);
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("a number"),
            1 => f.write_str("a duration"),
            -1 => f.write_str("a rate"),
            n => write!(f, "a quantity in s^{n}"),
        }
    }
}

/// A number and what it measures, in seconds and per second.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Quantity {
    /// In seconds (a duration), per second (a rate), or bare.
    pub value: f64,
    /// What it measures.
    pub dimension: Dimension,
}

/// Exact: reads back as the same quantity.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)?;
        match self.dimension.0 {
            1 => f.write_str("s"),
            -1 => f.write_str("/s"),
            _ => Ok(()),
        }
    }
}

impl Quantity {
    /// For a person: four digits and a unit that suits the size.
    pub fn shown(self) -> String {
        let Quantity { value, dimension } = self;
        match dimension.0 {
            1 if value.abs() < 0.001 => format!("{} µs", digits(value * 1e6)),
            1 if value.abs() < 1.0 => format!("{} ms", digits(value * 1e3)),
            1 => format!("{} s", digits(value)),
            -1 => format!("{}/s", digits(value)),
            _ => digits(value),
        }
    }
}

/// Four significant digits, whole numbers in full.
fn digits(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value}");
    }
    let mut places = 3;
    let mut size = value.abs();
    while size >= 10.0 && places > 0 {
        size /= 10.0;
        places -= 1;
    }
    while size < 1.0 && places < 9 {
        size *= 10.0;
        places += 1;
    }
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

const NANOS_PER: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The longest duration that is taken: ten years.
const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// `500ms`, `1.5s`, `30m`, `1h30m`, `7d`: exact to the nanosecond. `None` for anything else, and above ten years.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total: u128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (whole, fraction, after) = decimal(rest)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let nanos = u128::from(NANOS_PER.iter().find(|(name, _)| *name == unit)?.1);
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        total =
            total.checked_add(whole.parse::<u128>().ok()?.checked_mul(nanos)? + fraction * nanos / scale)?;
        rest = next;
    }
    let total = Duration::from_nanos(u64::try_from(total).ok()?);
    (total <= DURATION_MAX).then_some(total)
}

/// `12/s`, `0.5/s`, `720/min`, `36000/h`: per second.
pub fn rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once('/')?;
    let per_s = match unit {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number_of(number)? / per_s)
}

/// `1%` or `0.01`: a fraction.
pub fn ratio(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => Some(number_of(percent)? / 100.0),
        None => number_of(text),
    }
}

/// Milli-CPU as Kubernetes writes it: `30m` is 30, `2` and `0.5` are whole CPUs.
pub fn cpu_milli(text: &str) -> Option<u32> {
    let milli = match text.strip_suffix('m') {
        Some(milli) => milli.parse().ok().filter(|_| milli.bytes().all(|b| b.is_ascii_digit()))?,
        None => {
            let milli = number_of(text)? * 1000.0;
            if milli.fract() != 0.0 || milli > 1e9 {
                return None;
            }
            milli as u32
        }
    };
    (milli > 0).then_some(milli)
}

/// Digits, with a fraction or without; no sign, no exponent.
pub fn number_of(text: &str) -> Option<f64> {
    let (_, _, rest) = decimal(text)?;
    if !rest.is_empty() {
        return None;
    }
    text.parse().ok().filter(|n: &f64| n.is_finite())
}

/// A decimal number at the start of `text`: its whole part, its fraction (empty when it has none), and what follows.
pub(super) fn decimal(text: &str) -> Option<(&str, &str, &str)> {
    const DIGITS_MAX: usize = 18;
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    if whole == 0 || whole > DIGITS_MAX {
        return None;
    }
    let fraction = match text[whole..].strip_prefix('.') {
        Some(after) => digits(after),
        None => 0,
    };
    if fraction == 0 {
        return Some((&text[..whole], "", &text[whole..]));
    }
    let end = whole + 1 + fraction;
    (fraction <= DIGITS_MAX).then(|| (&text[..whole], &text[whole + 1..end], &text[end..]))
}

/// A duration as [`duration`] reads it, in its largest fitting units: `1h30m`, `500ms`.
pub fn written(d: Duration) -> String {
    let mut left = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, nanos) in NANOS_PER.iter().rev().filter(|(unit, _)| *unit != "µs") {
        if left >= *nanos {
            out.push_str(&format!("{}{unit}", left / nanos));
            left %= nanos;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        let ms = |n| Some(Duration::from_millis(n));
        assert_eq!(duration("500ms"), ms(500));
        assert_eq!(duration("1.5s"), ms(1_500));
        assert_eq!(duration("30m"), ms(1_800_000));
        assert_eq!(duration("1h30m"), ms(5_400_000));
        assert_eq!(duration("7d"), ms(604_800_000));
        assert_eq!(duration("250us"), Some(Duration::from_micros(250)));
        assert_eq!(duration("0s"), ms(0));
        for wrong in
            ["", "5", "-5s", "5 s", "5S", "s", "1.s", ".5s", "1e3s", "5min", "99999999999d", "NaNs", "11y"]
        {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates_and_ratios() {
        assert_eq!(rate("12/s"), Some(12.0));
        assert_eq!(rate("720/min"), Some(12.0));
        assert_eq!(rate("36000/h"), Some(10.0));
        for wrong in ["12", "12/d", "-1/s", "inf/s", "1e3/s", "/s", "12 /s", "NaN/s"] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
        assert_eq!(
            (ratio("1%"), ratio("0.01"), ratio("1 %"), ratio("-1%")),
            (Some(0.01), Some(0.01), None, None)
        );
    }

    #[test]
    fn cpu_is_milli_with_an_m_and_whole_without() {
        assert_eq!((cpu_milli("30m"), cpu_milli("2"), cpu_milli("0.5")), (Some(30), Some(2000), Some(500)));
        for wrong in ["0m", "0", "-30m", "1.5m", "0.0001", "m", "30mCPU", "+3m", "9999999999m"] {
            assert_eq!(cpu_milli(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_person_reads() {
        let shown = |value, n| Quantity { value, dimension: Dimension(n) }.shown();
        assert_eq!(shown(0.412_34, 1), "412.3 ms");
        assert_eq!(shown(0.000_012, 1), "12 µs");
        assert_eq!(shown(32.0, 1), "32 s");
        assert_eq!(shown(41.9, -1), "41.9/s");
        assert_eq!(shown(0.000_213_4, 0), "0.0002134");
        assert_eq!(shown(15000.0, 0), "15000");
        assert_eq!(shown(123_456.7, 0), "123457");
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_back(nanos in 0u64..86_400_000_000_000_000) {
            let d = Duration::from_nanos(nanos);
            prop_assert_eq!(duration(&written(d)), Some(d));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,12}") {
            let _ = (duration(&text), rate(&text), ratio(&text), cpu_milli(&text));
        }
    }
}
