//! Axes of the charts: time, delays on a logarithmic scale, and shares by their number of nines.

use plotly::layout::{Axis, AxisRange, AxisType};

use super::charts::{GRID, INK, axis_title};
use super::format;

/// The unit of a time axis.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Minutes,
    Hours,
}

impl TimeUnit {
    /// The unit in which a span, in seconds, has a readable number of ticks.
    pub(super) fn for_span(seconds: f64) -> Self {
        match seconds {
            s if s <= 300.0 => TimeUnit::Seconds,
            s if s <= 4.0 * 3600.0 => TimeUnit::Minutes,
            _ => TimeUnit::Hours,
        }
    }

    pub(super) fn of(self, seconds: f64) -> f64 {
        match self {
            TimeUnit::Seconds => seconds,
            TimeUnit::Minutes => seconds / 60.0,
            TimeUnit::Hours => seconds / 3600.0,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            TimeUnit::Seconds => " s",
            TimeUnit::Minutes => " min",
            TimeUnit::Hours => " h",
        }
    }
}

/// An axis without anything special.
pub(super) fn plain(title: &str) -> Axis {
    Axis::new()
        .title(axis_title(title))
        .grid_color(GRID)
        .line_color(GRID)
        .zero_line(false)
        .tick_font(plotly::common::Font::new().size(11).color(INK))
        .auto_margin(true)
}

/// Time since the load began.
pub(super) fn time_axis(unit: TimeUnit, end: f64) -> Axis {
    plain("since the load began")
        .range(AxisRange::new(0.0, end))
        .tick_suffix(unit.suffix())
        .hover_format(",.4~r")
        .show_grid(false)
        .n_ticks(9)
        .show_line(true)
}

/// A logarithmic axis of delays, in seconds, that holds both ends.
pub(super) fn delay_axis(least: f64, most: f64) -> Axis {
    let (low, high) = (round_down(least), round_up(most));
    let ticks = ticks(low, high);
    let text = ticks.iter().map(|s| short_delay(*s)).collect();
    plain("")
        .type_(AxisType::Log)
        .range(AxisRange::new((low / 1.08).log10(), (high * 1.08).log10()))
        .tick_values(ticks)
        .tick_text(text)
}

/// An axis of shares by their number of nines: 0 is nothing, 1 is 90 %, 2 is 99 %.
pub(super) fn nines_axis(nines_max: f64) -> Axis {
    let ticks: Vec<f64> = [0.5_f64, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999]
        .into_iter()
        .map(|share| -(1.0 - share).log10())
        .filter(|nines| *nines <= nines_max + 0.01)
        .collect();
    let text = ticks.iter().map(|nines| share_label(*nines)).collect();
    plain("share of all")
        .range(AxisRange::new(0.0, nines_max))
        .tick_values(ticks)
        .tick_text(text)
        .show_line(true)
}

/// A share by its nines, with the digits that tell it: `99.9 %`.
pub(super) fn share_label(nines: f64) -> String {
    let digits = (nines - 2.0 - 1e-9).ceil().max(0.0) as usize;
    format!("{:.digits$} %", (1.0 - 10_f64.powf(-nines)) * 100.0)
}

/// The least and the most of some delays; None without any.
pub(super) fn span(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |span, v| {
        let (least, most) = span.unwrap_or((v, v));
        Some((f64::min(least, v), f64::max(most, v)))
    })
}

/// Ticks at 1, 2 and 5 of each decade, or only at 1 when that would be too many.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if (high / low).log10() <= 2.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
    all.filter(|t| *t >= low * 0.999 && *t <= high * 1.001).collect()
}

fn round_down(x: f64) -> f64 {
    let decade = 10_f64.powf(x.log10().floor());
    [5.0, 2.0].map(|step| step * decade).into_iter().find(|t| *t <= x).unwrap_or(decade)
}

fn round_up(x: f64) -> f64 {
    let decade = 10_f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0].map(|step| step * decade).into_iter().find(|t| *t >= x).unwrap_or(decade * 10.0)
}

/// A round delay without needless digits: `500 µs`, `20 ms`, `5 s`.
fn short_delay(seconds: f64) -> String {
    let text = format::delay(seconds);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_both_ends() {
        assert_eq!((round_down(0.0123), round_up(0.0123)), (0.01, 0.02));
        assert_eq!((round_down(0.07), round_up(0.07)), (0.05, 0.1));
        let labels: Vec<String> = ticks(0.01, 0.1).into_iter().map(short_delay).collect();
        assert_eq!(labels, ["10 ms", "20 ms", "50 ms", "100 ms"]);
        let labels: Vec<String> = ticks(0.0001, 10.0).into_iter().map(short_delay).collect();
        assert_eq!(labels, ["100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn shares_have_the_digits_that_tell_them() {
        assert_eq!(share_label(0.0), "0 %");
        assert_eq!(share_label(-(1.0 - 0.9999_f64).log10()), "99.99 %");
        assert_eq!(share_label(-(0.5_f64.log10())), "50 %");
        assert_eq!(share_label(2.0), "99 %");
        assert_eq!(share_label(3.0), "99.9 %");
        assert_eq!(share_label(4.0), "99.99 %");
    }

    #[test]
    fn spans_of_time_get_a_unit() {
        assert_eq!(TimeUnit::for_span(90.0), TimeUnit::Seconds);
        assert_eq!(TimeUnit::for_span(1860.0), TimeUnit::Minutes);
        assert_eq!(TimeUnit::for_span(86_400.0), TimeUnit::Hours);
        assert_eq!(TimeUnit::Minutes.of(90.0), 1.5);
    }
}
