//! Shape files: a curve of relative load over time, `time,calls` with `time` in seconds from the start.
//!
//! Lines that start with `#` before the header are the file's attribution: it travels with the parsed curve into every
//! report. Only the shape counts; the experiment gives the peak in calls per second.

use std::io::BufRead;
use std::time::Duration;

use super::lines::Lines;
use super::rate::{Piece, Rate};
use crate::experiment::units::number_of;
use crate::input::{InputError, quoted};

/// The most points of a shape file.
pub const POINTS_MAX: usize = 1_000_000;
/// Ten years: later times are refused.
const TIME_S_MAX: f64 = 10.0 * 365.0 * 86_400.0;

/// What the load is between two points.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// A straight line from point to point.
    Linear,
    /// The value of a point until the next one.
    Steps,
}

/// A parsed shape file.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    points: Vec<(Duration, f64)>,
    /// Whose data it is and under which licence, from the comment lines at the head of the file.
    pub attribution: Option<String>,
}

impl Shape {
    /// Reads a shape file; `file` names it in errors.
    ///
    /// # Errors
    /// When the header is not `time,calls`, a number is negative or none at all, time does not start at zero or does
    /// not grow, or there are fewer than two points or more than [`POINTS_MAX`].
    pub fn read(reader: impl BufRead, file: &str) -> Result<Shape, InputError> {
        let mut lines = Lines::new(reader, file, ',');
        let mut attribution = String::new();
        let header = loop {
            let Some(line) = lines.next()? else {
                return Err(InputError::new(file, "the header time,calls", "the end of the file"));
            };
            match line.text.strip_prefix('#') {
                Some(comment) => {
                    let joint = if attribution.is_empty() { "" } else { " " };
                    attribution = format!("{attribution}{joint}{}", comment.trim());
                }
                None => break line,
            }
        };
        if header.text.trim() != "time,calls" {
            return Err(header.error(1, "the header time,calls", &quoted(&header.text)));
        }
        let mut points: Vec<(Duration, f64)> = Vec::new();
        while let Some(line) = lines.next()? {
            let [time, calls] = line.fields(["time", "calls"])?;
            let seconds = number_of(time.text)
                .filter(|s| *s <= TIME_S_MAX)
                .ok_or_else(|| time.error("seconds since the start, as a number from 0 on"))?;
            let at = Duration::from_secs_f64(seconds);
            match points.last() {
                None if !at.is_zero() => return Err(time.error("0 in the first row")),
                Some((before, _)) if at <= *before => {
                    return Err(time
                        .error(&format!("a time later than {} s in the row before", before.as_secs_f64())));
                }
                None | Some(_) => {}
            }
            let value = number_of(calls.text).ok_or_else(|| calls.error("a number of calls from 0 on"))?;
            if points.len() == POINTS_MAX {
                return Err(line.error(1, &format!("at most {POINTS_MAX} rows"), "one more"));
            }
            points.push((at, value));
        }
        if points.len() < 2 {
            let found = format!("{}", points.len());
            return Err(InputError::new(file, "at least two rows after the header", found));
        }
        Ok(Shape { points, attribution: (!attribution.is_empty()).then_some(attribution) })
    }

    /// How long the curve is. The last point stands for as long as the gap before it.
    pub fn length(&self) -> Duration {
        let [.., (before, _), (last, _)] = self.points[..] else { unreachable!("a shape has two points") };
        last + (last - before)
    }

    /// The curve from `from` to `to` in the file's own time, compressed in time by `compress`, and scaled so that its
    /// highest rate is `peak_per_s`. `None` when there is no load at all in that window.
    pub fn rate(
        &self,
        window: (Duration, Duration),
        interpolation: Interpolation,
        compress: f64,
        peak_per_s: f64,
    ) -> Option<Rate> {
        let ends =
            self.points[1..].iter().map(|&(at, value)| (at, Some(value))).chain([(self.length(), None)]);
        let pieces = self.points.iter().zip(ends).map(|(&(start, value), (end, next))| Piece {
            length: end - start,
            from_per_s: value,
            to_per_s: match interpolation {
                Interpolation::Linear => next.unwrap_or(value),
                Interpolation::Steps => value,
            },
        });
        let relative = Rate::new(pieces).slice(window.0, window.1);
        let highest = relative.peak_per_s();
        (highest > 0.0).then(|| relative.scaled(peak_per_s / highest).compressed(compress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Shape, String> {
        Shape::read(text.as_bytes(), "s.csv").map_err(|e| e.to_string())
    }

    #[test]
    fn a_curve_is_scaled_to_its_peak_and_compressed() {
        let shape =
            read("\u{feff}# Somebody,\r\n# ODbL 1.0\r\ntime,calls\r\n0,10\r\n3600,50\r\n7200,20\r\n\r\n")
                .unwrap();
        assert_eq!(shape.attribution.as_deref(), Some("Somebody, ODbL 1.0"));
        assert_eq!(shape.length(), Duration::from_secs(3 * 3600));
        let all = (Duration::ZERO, shape.length());
        let rate = shape.rate(all, Interpolation::Linear, 2.0, 100.0).unwrap();
        assert_eq!(rate.total(), Duration::from_secs(5400));
        assert_eq!(rate.at(Duration::ZERO), 20.0);
        assert_eq!(rate.at(Duration::from_secs(900)), 60.0);
        assert_eq!(rate.at(Duration::from_secs(1800)), 100.0);
        assert_eq!(rate.at(Duration::from_secs(5000)), 40.0);
        let steps = shape.rate(all, Interpolation::Steps, 2.0, 100.0).unwrap();
        assert_eq!((steps.at(Duration::from_secs(900)), steps.peak_per_s()), (20.0, 100.0));
    }

    #[test]
    fn the_peak_is_that_of_the_window() {
        let shape = read("time,calls\n0,10\n10,50\n20,20\n30,0\n").unwrap();
        let window = (Duration::from_secs(20), Duration::from_secs(40));
        let rate = shape.rate(window, Interpolation::Linear, 1.0, 7.0).unwrap();
        assert_eq!((rate.total(), rate.peak_per_s()), (Duration::from_secs(20), 7.0));
        let silent = (Duration::from_secs(30), Duration::from_secs(40));
        assert_eq!(shape.rate(silent, Interpolation::Linear, 1.0, 7.0), None);
    }

    #[test]
    fn errors_say_where() {
        let wrong = |text: &str| read(text).unwrap_err();
        assert_eq!(wrong("a,b\n"), "s.csv:1:1: expected the header time,calls, found \"a,b\"");
        assert_eq!(
            wrong("time,calls\n0,1\n9,x\n"),
            "s.csv:3:3: calls: expected a number of calls from 0 on, found \"x\""
        );
        assert_eq!(
            wrong("time,calls\n0,1\n0,1\n"),
            "s.csv:3:1: time: expected a time later than 0 s in the row before, found \"0\""
        );
        assert_eq!(wrong("time,calls\n5,1\n"), "s.csv:2:1: time: expected 0 in the first row, found \"5\"");
        assert_eq!(wrong("time,calls\n0,1\n"), "s.csv: expected at least two rows after the header, found 1");
        for bad in ["-1", "NaN", "inf", "1e3", ""] {
            assert!(wrong(&format!("time,calls\n0,1\n9,{bad}\n")).starts_with("s.csv:3:3: calls"), "{bad}");
        }
    }
}
