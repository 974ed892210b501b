//! The names that a claim may use.

use std::collections::BTreeMap;

use crate::experiment::units::{Dimension, Quantity};
use crate::input::nearest;
use crate::measure::{METRICS, Unit, is_metric};

/// The constants of an experiment, by name.
pub type Constants = BTreeMap<String, Quantity>;

/// What may stand behind a metric's name that ends with a dot.
const STATISTICS: [&str; 7] = ["p50", "p90", "p99", "p999", "mean", "max", "count"];

const WORDS: [&str; 6] = ["within", "of", "step", "min", "max", "abs"];

/// What a metric measures; `None` when there is no metric of that name.
pub fn metric_dimension(name: &str) -> Option<Dimension> {
    if !is_metric(name) {
        return None;
    }
    if name.ends_with(".count") {
        return Some(Dimension::NUMBER);
    }
    let named = |metric: &&crate::measure::Metric| {
        metric.name == name || (metric.name.ends_with('.') && name.starts_with(metric.name))
    };
    Some(match METRICS.iter().find(named).map(|metric| metric.unit) {
        Some(Unit::Seconds) => Dimension::DURATION,
        Some(Unit::PerSecond) => Dimension::RATE,
        // Counts by response status (`calls.refused.503`) are not in the table one by one.
        Some(Unit::Count | Unit::Share) | None => Dimension::NUMBER,
    })
}

/// Whether a constant cannot have this name because the language has it already.
pub(in crate::experiment) fn is_reserved(name: &str) -> bool {
    WORDS.contains(&name) || is_metric(name)
}

/// The metric or constant that an unknown name was most likely meant to be.
pub(super) fn suggestion(wrong: &str, constants: &Constants) -> Option<String> {
    let mut names: Vec<String> = constants.keys().cloned().collect();
    for metric in METRICS {
        if metric.name.ends_with('.') {
            names.extend(
                STATISTICS.iter().map(|s| format!("{}{s}", metric.name)).filter(|name| is_metric(name)),
            );
        } else {
            names.push(metric.name.to_owned());
        }
    }
    nearest(wrong, names.iter().map(String::as_str)).map(str::to_owned)
}

/// All names, on one line.
pub(super) fn all_names(constants: &Constants) -> String {
    let statistics = STATISTICS.join("|");
    let metrics = METRICS.iter().map(|metric| {
        if metric.name.ends_with('.') {
            format!("{}{statistics}", metric.name)
        } else {
            metric.name.to_owned()
        }
    });
    crate::input::list(metrics.chain(["calls.refused.STATUS".to_owned()]).chain(constants.keys().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_follow_the_units_of_the_table() {
        assert_eq!(metric_dimension("srd.p99"), Some(Dimension::DURATION));
        assert_eq!(metric_dimension("srd.count"), Some(Dimension::NUMBER));
        assert_eq!(metric_dimension("goodput"), Some(Dimension::RATE));
        assert_eq!(metric_dimension("ser"), Some(Dimension::NUMBER));
        assert_eq!(metric_dimension("calls.refused.503"), Some(Dimension::NUMBER));
        assert_eq!(metric_dimension("srd."), None);
        assert_eq!(metric_dimension("srd.p98"), None);
    }

    #[test]
    fn every_metric_of_the_table_with_every_statistic_is_known() {
        for metric in METRICS {
            let ends = if metric.name.ends_with('.') { &STATISTICS[..] } else { &[""] };
            for end in ends {
                assert!(metric_dimension(&format!("{}{end}", metric.name)).is_some(), "{}{end}", metric.name);
            }
        }
    }
}
