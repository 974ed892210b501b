//! How figures read: with a unit, with as many digits as they deserve, and never rounded up to perfection.

/// A whole number with its thousands apart: `52,312`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A delay, given in seconds, in the unit that suits it: `850 µs`, `12.3 ms`, `1.24 s`.
pub(crate) fn delay(seconds: f64) -> String {
    let us = seconds * 1e6;
    if us < 999.5 {
        format!("{us:.0} µs")
    } else if us < 999_500.0 {
        format!("{} ms", three_digits(us / 1e3))
    } else {
        format!("{} s", three_digits(seconds))
    }
}

/// A length of time, given in seconds: `45 s`, `30 min`, `1 h 30 min`.
pub(crate) fn length(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if seconds < 60.0 && (seconds - seconds.round()).abs() > 0.05 {
        return format!("{seconds:.1} s");
    }
    let (h, min, s) = (whole / 3600, whole / 60 % 60, whole % 60);
    let parts = [(h, "h"), (min, "min"), (s, "s")];
    let told: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, u)| format!("{n} {u}")).collect();
    if told.is_empty() { "0 s".to_owned() } else { told.join(" ") }
}

/// Things per second: `41.9 /s`.
pub(crate) fn rate(per_s: f64) -> String {
    if per_s >= 10_000.0 {
        format!("{} /s", count(per_s.round() as u64))
    } else {
        format!("{} /s", three_digits(per_s))
    }
}

/// A share of a whole (0 to 1) in per cent. What is not all of it never reads `100 %`, and what is not nothing
/// never reads `0 %`.
pub(crate) fn share(share: f64) -> String {
    if share > 0.0 && share < 0.000_05 {
        "< 0.01 %".to_owned()
    } else if share < 1.0 && share > 0.999_95 {
        "> 99.99 %".to_owned()
    } else if share == 0.0 || share == 1.0 {
        format!("{:.0} %", share * 100.0)
    } else {
        format!("{:.2} %", share * 100.0)
    }
}

/// A figure that may not exist.
pub(crate) fn or_dash(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), format)
}

fn three_digits(x: f64) -> String {
    let digits = match x {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{x:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(delay(0.000_85), "850 µs");
        assert_eq!(delay(0.000_999_7), "1.00 ms");
        assert_eq!(delay(0.0123), "12.3 ms");
        assert_eq!(delay(0.9999), "1.00 s");
        assert_eq!(delay(32.0), "32.0 s");
        assert_eq!(length(1800.0), "30 min");
        assert_eq!(length(5401.0), "1 h 30 min 1 s");
        assert_eq!(length(0.0), "0 s");
        assert_eq!(length(2.5), "2.5 s");
        assert_eq!(rate(41.94), "41.9 /s");
        assert_eq!(rate(12_345.6), "12,346 /s");
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(share(1.0), "100 %");
        assert_eq!(share(0.999_999), "> 99.99 %");
        assert_eq!(share(0.9995), "99.95 %");
        assert_eq!(share(0.000_001), "< 0.01 %");
        assert_eq!(share(0.0), "0 %");
    }
}
