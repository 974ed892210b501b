//! Holding a claim against what was measured.

use std::time::Duration;

use super::Expectation;
use super::claim::{At, Claim, Comparison, Expr, Function, Operator, Over};
use crate::Driver;
use crate::arrivals::Window;
use crate::experiment::units::{Dimension, Quantity, written};

/// Where measured figures come from.
pub trait Metrics {
    /// A figure by name, in seconds, per second or bare: of one part of the run, or of all of it after the warm-up.
    /// `None` when there is nothing to compute it from.
    fn get(&self, name: &str, window: Option<Window>) -> Option<f64>;
}

impl Metrics for crate::measure::Recorder {
    fn get(&self, name: &str, window: Option<Window>) -> Option<f64> {
        self.metric(name, window.map(|w| (w.from, w.to)))
    }
}

/// How an expectation came out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It holds.
    Pass,
    /// It does not hold, or there is no data to tell.
    Fail,
    /// It is meant for another driver, or for a part that the run did not reach because it was cut short.
    Skipped,
}

impl Judgement {
    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Pass => "pass",
            Judgement::Fail => "fail",
            Judgement::Skipped => "skipped",
        }
    }
}

/// What became of one expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The claim as it is written.
    pub text: String,
    /// Which part of the run it is about: `after the warm-up`, `20m..25m`, `each step`, in the experiment's time.
    pub over: String,
    /// What was expected of the figure, such as `< 1 s`.
    pub expected: String,
    /// The figure, such as `412 ms`; for several parts of a run, that of the worst one. For a skipped one, the reason.
    pub found: String,
    /// How it came out.
    pub judgement: Judgement,
    /// Why it is expected, or where ours differs.
    pub note: Option<String>,
    /// Where it was published.
    pub source: Option<String>,
}

/// The time of the run that claims are about.
#[derive(Copy, Clone, Debug)]
pub(in crate::experiment) struct Timeline<'a> {
    pub(in crate::experiment) total: Duration,
    pub(in crate::experiment) warmup: Duration,
    pub(in crate::experiment) speed: f64,
    pub(in crate::experiment) steps: &'a [Window],
}

/// A window and what to call it.
type Part = (Option<Window>, Option<String>);

impl Timeline<'_> {
    fn resolve(&self, over: Over) -> Result<Window, String> {
        over.window(self.total, self.speed, self.steps)
            .map_err(|_| format!("the run was cut short before {over} was over"))
    }

    fn parts(&self, at: At) -> Result<Vec<Part>, String> {
        let after_warmup = |w: Window| Window { from: w.from.max(self.warmup), ..w };
        let parts: Vec<Part> = match at {
            At::Measured => vec![(None, None)],
            At::Over(over) => vec![(Some(self.resolve(over)?), None)],
            At::EachStep => self
                .steps
                .iter()
                .enumerate()
                .map(|(i, step)| (Some(after_warmup(*step)), Some(format!("step {}", i + 1))))
                .collect(),
            At::Each(length) => {
                let short = length.div_f64(self.speed);
                let whole = if short.is_zero() { 0 } else { self.total.as_nanos() / short.as_nanos() };
                let whole = u32::try_from(whole).unwrap_or(u32::MAX);
                let part = |n: u32| {
                    let window = Window { from: short * n, to: short * (n + 1) };
                    (
                        Some(after_warmup(window)),
                        Some(Over::Span(Some(length * n), Some(length * (n + 1))).to_string()),
                    )
                };
                (0..whole).map(part).collect()
            }
        };
        let parts: Vec<Part> = parts.into_iter().filter(|(w, _)| w.is_none_or(|w| w.from < w.to)).collect();
        if parts.is_empty() {
            let run = written(self.total);
            return Err(format!("the run of {run} has no such part after the warm-up"));
        }
        Ok(parts)
    }
}

/// Holds one expectation against what was measured.
pub(in crate::experiment) fn judge(
    expectation: &Expectation,
    metrics: &dyn Metrics,
    driver: Driver,
    timeline: Timeline<'_>,
) -> Verdict {
    let mut verdict = Verdict {
        text: expectation.text.clone(),
        over: expectation.at.to_string(),
        expected: expected(&expectation.claim),
        found: String::new(),
        judgement: Judgement::Skipped,
        note: expectation.note.clone(),
        source: expectation.source.clone(),
    };
    if let Some(only) = expectation.driver.filter(|only| *only != driver) {
        let name = match only {
            Driver::Simulator => "the simulator",
            Driver::Sockets => "real sockets",
        };
        verdict.found = format!("meant for {name}");
        return verdict;
    }
    let parts = match timeline.parts(expectation.at) {
        Ok(parts) => parts,
        Err(reason) => {
            verdict.found = reason;
            return verdict;
        }
    };
    let mut worst: Option<f64> = None;
    for (window, name) in parts {
        let evaluation = Evaluation { metrics, window, timeline };
        let (margin, found) = match evaluation.claim(&expectation.claim) {
            Ok(result) => result,
            Err(Missing::NotReached(reason)) => {
                verdict.found = reason;
                verdict.judgement = Judgement::Skipped;
                return verdict;
            }
            Err(Missing::NoData(what)) => (f64::NEG_INFINITY, format!("no data for {what}")),
        };
        if worst.is_none_or(|before| margin < before) {
            worst = Some(margin);
            verdict.found = name.map_or(found.clone(), |name| format!("{found} in {name}"));
            verdict.judgement = if margin >= 0.0 { Judgement::Pass } else { Judgement::Fail };
        }
    }
    verdict
}

enum Missing {
    NoData(String),
    NotReached(String),
}

struct Evaluation<'a> {
    metrics: &'a dyn Metrics,
    window: Option<Window>,
    timeline: Timeline<'a>,
}

impl Evaluation<'_> {
    /// How far the claim is from failing, relative to the figures (negative when it fails), and the figures.
    fn claim(&self, claim: &Claim) -> Result<(f64, String), Missing> {
        let margin = match claim {
            Claim::Chain { first, rest } => {
                let mut left = self.value(first)?;
                let mut margin = f64::INFINITY;
                for (comparison, side) in rest {
                    let right = self.value(side)?;
                    margin = margin.min(comparison.margin(left, right));
                    left = right;
                }
                margin
            }
            Claim::Within { left, tolerance, of } => {
                let (left, tolerance, of) = (self.value(left)?, self.value(tolerance)?, self.value(of)?);
                Comparison::AtMost.margin((left - of).abs(), tolerance * of.abs())
            }
        };
        let mut found = Vec::new();
        for side in claim.sides().into_iter().filter(|side| side.is_measured()) {
            found.push(self.shown(side)?);
        }
        Ok((margin, found.join(" and ")))
    }

    /// The value of one side, and the figures that it is computed from when there are any.
    fn shown(&self, side: &Expr) -> Result<String, Missing> {
        let value = Quantity { value: self.value(side)?, dimension: dimension(side) }.shown();
        if matches!(side, Expr::Metric { .. }) {
            return Ok(value);
        }
        let mut parts: Vec<String> = Vec::new();
        let mut missing = None;
        side.metrics(&mut |name, over| {
            let metric = Expr::Metric { name: name.to_owned(), over };
            match self.value(&metric) {
                Ok(value) => {
                    let part =
                        format!("{metric} {}", Quantity { value, dimension: dimension(&metric) }.shown());
                    if !parts.contains(&part) {
                        parts.push(part);
                    }
                }
                Err(reason) => missing = Some(reason),
            }
        });
        match missing {
            Some(reason) => Err(reason),
            None => Ok(format!("{value} ({})", parts.join(", "))),
        }
    }

    fn value(&self, expr: &Expr) -> Result<f64, Missing> {
        let value = match expr {
            Expr::Quantity(quantity) => quantity.value,
            Expr::Constant { value, .. } => value.value,
            Expr::Metric { name, over } => {
                let window = match over {
                    Some(over) => Some(self.timeline.resolve(*over).map_err(Missing::NotReached)?),
                    None => self.window,
                };
                self.metrics.get(name, window).ok_or_else(|| Missing::NoData(expr.to_string()))?
            }
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                }
            }
            Expr::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument)?);
                }
                match function {
                    Function::Min => values.into_iter().fold(f64::INFINITY, f64::min),
                    Function::Max => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
                    Function::Abs => values[0].abs(),
                }
            }
        };
        if value.is_finite() { Ok(value) } else { Err(Missing::NoData(expr.to_string())) }
    }
}

impl Comparison {
    /// How far the comparison is from failing: the difference relative to the larger side, 0 when it just holds,
    /// negative when it does not hold.
    fn margin(self, left: f64, right: f64) -> f64 {
        let scale = left.abs().max(right.abs()).max(f64::MIN_POSITIVE);
        let strict = |d: f64| if d > 0.0 { d / scale } else { -f64::MIN_POSITIVE + d / scale };
        match self {
            Comparison::Less => strict(right - left),
            Comparison::AtMost => (right - left) / scale,
            Comparison::Greater => strict(left - right),
            Comparison::AtLeast => (left - right) / scale,
            Comparison::Equal => -(left - right).abs() / scale,
        }
    }
}

/// What a parsed expression measures; its units were checked when it was parsed.
fn dimension(expr: &Expr) -> Dimension {
    match expr {
        Expr::Quantity(quantity) => quantity.dimension,
        Expr::Constant { value, .. } => value.dimension,
        Expr::Metric { name, .. } => super::metric_dimension(name).unwrap_or(Dimension::NUMBER),
        Expr::Binary(Operator::Add | Operator::Subtract, left, _) => dimension(left),
        Expr::Binary(Operator::Multiply, left, right) => {
            Dimension(dimension(left).0.saturating_add(dimension(right).0))
        }
        Expr::Binary(Operator::Divide, left, right) => {
            Dimension(dimension(left).0.saturating_sub(dimension(right).0))
        }
        Expr::Call(_, arguments) => dimension(&arguments[0]),
    }
}

/// What is expected, with the measured leftmost side left out: `< 1 s`, `within 10 % of 655/s`.
fn expected(claim: &Claim) -> String {
    let shown = |side: &Expr| match side {
        Expr::Quantity(quantity) => quantity.shown(),
        Expr::Constant { name, value } => format!("{name} = {}", value.shown()),
        Expr::Metric { .. } | Expr::Binary(..) | Expr::Call(..) => side.to_string(),
    };
    match claim {
        Claim::Chain { first, rest } => {
            let mut out = if first.is_measured() && rest.len() == 1 {
                String::new()
            } else {
                format!("{} ", shown(first))
            };
            let last = rest.len() - 1;
            for (i, (comparison, side)) in rest.iter().enumerate() {
                out.push_str(&format!("{comparison} {}{}", shown(side), if i == last { "" } else { " " }));
            }
            out
        }
        Claim::Within { tolerance: Expr::Quantity(share), of, .. } => {
            let percent = Quantity { value: share.value * 100.0, ..*share };
            format!("within {} % of {}", percent.shown(), shown(of))
        }
        Claim::Within { tolerance, of, .. } => format!("within {} of {}", shown(tolerance), shown(of)),
    }
}
