//! Expectations: what the source of an experiment published, as claims about measured figures.
//!
//! ```text
//! claim      = sum comparison sum { comparison sum }  |  sum "within" sum "of" sum
//! comparison = "<" | "<=" | ">" | ">=" | "=="
//! sum        = product { ("+" | "-") product }
//! product    = operand { ("*" | "/") operand }
//! operand    = number | "(" sum ")" | function "(" sum { "," sum } ")" | constant | metric [ "[" over "]" ]
//! number     = 5 | 0.9 | 5% | 500ms | 1h30m | 12/s | 720/min
//! over       = "20m..25m" | "20m.." | "..5m" | "step 3"
//! function   = min | max | abs
//! ```
//!
//! Units are checked when the file is read: a duration is compared with a duration, and a count divided by a duration
//! is a rate. Metrics are those of [`crate::measure`]; constants are those of the experiment's `[constants]`. A claim
//! with data missing (a percentile of no calls, a division by zero) fails and says so.

mod claim;
mod lexer;
mod parser;
mod verdict;
mod vocabulary;

pub use claim::{At, Claim, Comparison, Expr, Function, Operator, Over};
pub use parser::{ExpressionError, parse_at, parse_claim, parse_quantity};
pub use verdict::{Judgement, Metrics, Verdict};
pub use vocabulary::{Constants, metric_dimension};

pub(super) use claim::WindowError;
pub(super) use verdict::{Timeline, judge};
pub(super) use vocabulary::is_reserved;

/// One `[[expect]]` of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The claim as it is written.
    pub text: String,
    /// The claim.
    pub claim: Claim,
    /// Which part of the run it is about.
    pub at: At,
    /// The only driver that it is meant for; `None` for both.
    pub driver: Option<crate::Driver>,
    /// Why it is expected, or where ours differs.
    pub note: Option<String>,
    /// Where it was published.
    pub source: Option<String>,
}
