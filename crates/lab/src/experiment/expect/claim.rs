//! The syntax tree of a claim. Writing it out and parsing that gives the same tree.

use std::fmt::{self, Display as _};
use std::time::Duration;

use crate::arrivals::Window;
use crate::experiment::units::{Quantity, written};

/// What is claimed.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// `a < b`, or `a <= b <= c`: every comparison holds.
    Chain {
        /// The leftmost side.
        first: Expr,
        /// Every comparison and the side to its right; at least one.
        rest: Vec<(Comparison, Expr)>,
    },
    /// `a within t of b`: |a − b| ≤ t·|b|.
    Within {
        /// a.
        left: Expr,
        /// t, as a fraction.
        tolerance: Expr,
        /// b.
        of: Expr,
    },
}

/// A comparison.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

/// A value to be computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number with its unit.
    Quantity(Quantity),
    /// A constant of the experiment.
    Constant {
        /// Its name.
        name: String,
        /// Its value.
        value: Quantity,
    },
    /// A measured figure.
    Metric {
        /// Its name.
        name: String,
        /// The part of the run that it is of, when it is not that of the whole claim.
        over: Option<Over>,
    },
    /// Two values combined.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// A function of one or more values.
    Call(Function, Vec<Expr>),
}

/// An arithmetic operator.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// A function.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Function {
    /// The smallest of its arguments.
    Min,
    /// The largest of its arguments.
    Max,
    /// The size of its one argument.
    Abs,
}

/// A part of a run, in the time of the experiment file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// From one time to another; a missing start is that of the load, a missing end is its end.
    Span(Option<Duration>, Option<Duration>),
    /// A step of a step load, counted from 1.
    Step(u32),
}

/// Which part of a run a claim is about.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// All of it after the warm-up.
    Measured,
    /// One part.
    Over(Over),
    /// Every step of a step load, each by itself.
    EachStep,
    /// Every stretch of this length, each by itself.
    Each(Duration),
}

impl Operator {
    fn sign(self) -> char {
        match self {
            Operator::Add => '+',
            Operator::Subtract => '-',
            Operator::Multiply => '*',
            Operator::Divide => '/',
        }
    }

    fn binds(self) -> u8 {
        match self {
            Operator::Add | Operator::Subtract => 1,
            Operator::Multiply | Operator::Divide => 2,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
            Comparison::Equal => "==",
        })
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Function::Min => "min",
            Function::Max => "max",
            Function::Abs => "abs",
        })
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Over::Span(from, to) => {
                let text = |end: &Option<Duration>| end.map(written).unwrap_or_default();
                write!(f, "{}..{}", text(from), text(to))
            }
            Over::Step(n) => write!(f, "step {n}"),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Measured => f.write_str("after the warm-up"),
            At::Over(over) => over.fmt(f),
            At::EachStep => f.write_str("each step"),
            At::Each(length) => write!(f, "each {}", written(*length)),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Quantity(quantity) => quantity.fmt(f),
            Expr::Constant { name, .. } | Expr::Metric { name, over: None } => f.write_str(name),
            Expr::Metric { name, over: Some(over) } => write!(f, "{name}[{over}]"),
            Expr::Binary(operator, left, right) => {
                side(f, left, operator.binds())?;
                write!(f, " {} ", operator.sign())?;
                // Operators group to the left: an equal one on the right needs its parentheses.
                side(f, right, operator.binds() + 1)
            }
            Expr::Call(function, arguments) => {
                write!(f, "{function}(")?;
                for (i, argument) in arguments.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    argument.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}

fn side(f: &mut fmt::Formatter<'_>, expr: &Expr, binds_min: u8) -> fmt::Result {
    match expr {
        Expr::Binary(operator, ..) if operator.binds() < binds_min => write!(f, "({expr})"),
        Expr::Binary(..)
        | Expr::Quantity(_)
        | Expr::Constant { .. }
        | Expr::Metric { .. }
        | Expr::Call(..) => expr.fmt(f),
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::Chain { first, rest } => {
                first.fmt(f)?;
                rest.iter().try_for_each(|(comparison, side)| write!(f, " {comparison} {side}"))
            }
            Claim::Within { left, tolerance, of } => write!(f, "{left} within {tolerance} of {of}"),
        }
    }
}

impl Expr {
    /// Calls `visit` with the name and the part of the run of every metric in it, from left to right.
    pub(in crate::experiment) fn metrics<'e>(&'e self, visit: &mut impl FnMut(&'e str, Option<Over>)) {
        match self {
            Expr::Quantity(_) | Expr::Constant { .. } => {}
            Expr::Metric { name, over } => visit(name, *over),
            Expr::Binary(_, left, right) => {
                left.metrics(visit);
                right.metrics(visit);
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|argument| argument.metrics(visit)),
        }
    }

    pub(super) fn is_measured(&self) -> bool {
        let mut measured = false;
        self.metrics(&mut |_, _| measured = true);
        measured
    }
}

impl Claim {
    /// All sides, from left to right.
    pub(in crate::experiment) fn sides(&self) -> Vec<&Expr> {
        match self {
            Claim::Chain { first, rest } => {
                std::iter::once(first).chain(rest.iter().map(|(_, side)| side)).collect()
            }
            Claim::Within { left, tolerance, of } => vec![left, tolerance, of],
        }
    }
}

/// Why a part of a run is not there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::experiment) enum WindowError {
    /// It ends after the load does.
    AfterTheEnd,
    /// It is empty or runs backwards.
    Empty,
    /// The load has no such step.
    NoStep,
}

impl Over {
    /// The window that it is in a run of `total` at `speed` with these steps.
    pub(in crate::experiment) fn window(
        self,
        total: Duration,
        speed: f64,
        steps: &[Window],
    ) -> Result<Window, WindowError> {
        let window = match self {
            Over::Step(n) => {
                let index = (n as usize).checked_sub(1).ok_or(WindowError::NoStep)?;
                *steps.get(index).ok_or(WindowError::NoStep)?
            }
            Over::Span(from, to) => {
                let end = |d: Duration| d.div_f64(speed);
                Window { from: from.map_or(Duration::ZERO, end), to: to.map_or(total, end) }
            }
        };
        if window.to > total {
            return Err(WindowError::AfterTheEnd);
        }
        if window.from >= window.to { Err(WindowError::Empty) } else { Ok(window) }
    }
}
