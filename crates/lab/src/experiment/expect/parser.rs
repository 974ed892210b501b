//! From the text of a claim to its tree, with its units checked.

use super::claim::{At, Claim, Comparison, Expr, Function, Operator, Over};
use super::lexer::{Placed, Token, tokens};
use super::vocabulary::{Constants, all_names, metric_dimension, suggestion};
use crate::experiment::units::{Dimension, Quantity};

/// Longer claims are refused.
const TEXT_MAX: usize = 1000;
/// Deeper parentheses are refused.
const DEPTH_MAX: usize = 32;

/// What is wrong in a claim, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The character that it is at, from 0.
    pub offset: usize,
    /// What was expected there.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ExpressionError {
    pub(super) fn new(offset: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        ExpressionError { offset, expected: expected.into(), found: found.into(), hint: None }
    }
}

/// Parses a claim.
///
/// # Errors
/// When it is not one, names something that there is not, or mixes units.
pub fn parse_claim(text: &str, constants: &Constants) -> Result<Claim, ExpressionError> {
    let mut parser = Parser::new(text, constants)?;
    let claim = parser.claim()?;
    parser.end()?;
    Ok(claim)
}

/// Parses the part of a run that a claim is about: `20m..25m`, `step 3`, `each step`, `each 5m`.
///
/// # Errors
/// When it is none of these.
pub fn parse_at(text: &str) -> Result<At, ExpressionError> {
    let constants = Constants::new();
    let mut parser = Parser::new(text, &constants)?;
    let at = if parser.takes_name("each") {
        let Placed { token, offset, text } = parser.take();
        match token {
            Token::Name(name) if name == "step" => At::EachStep,
            Token::Duration(length) if !length.is_zero() => At::Each(length),
            Token::Duration(_) | Token::Name(_) | Token::Number(_) | Token::Symbol(_) | Token::End => {
                return Err(ExpressionError::new(
                    offset,
                    "\"step\" or a duration such as 5m after \"each\"",
                    text,
                ));
            }
        }
    } else {
        At::Over(parser.over()?)
    };
    parser.end()?;
    Ok(at)
}

/// Parses a number with its unit.
///
/// # Errors
/// When it is none.
pub fn parse_quantity(text: &str) -> Result<Quantity, ExpressionError> {
    let constants = Constants::new();
    let mut parser = Parser::new(text, &constants)?;
    let Placed { token, offset, text } = parser.take();
    let quantity = match token {
        Token::Number(quantity) => quantity,
        Token::Duration(d) => Quantity { value: d.as_secs_f64(), dimension: Dimension::DURATION },
        Token::Name(_) | Token::Symbol(_) | Token::End => {
            return Err(ExpressionError::new(offset, "a number such as 5, 0.9, 5%, 500ms or 12/s", text));
        }
    };
    parser.end()?;
    Ok(quantity)
}

struct Parser<'c> {
    tokens: std::vec::IntoIter<Placed>,
    next: Placed,
    constants: &'c Constants,
    depth: usize,
}

type Typed = (Expr, Dimension);

impl<'c> Parser<'c> {
    fn new(text: &str, constants: &'c Constants) -> Result<Self, ExpressionError> {
        if text.chars().count() > TEXT_MAX {
            let expected = format!("at most {TEXT_MAX} characters");
            return Err(ExpressionError::new(TEXT_MAX, expected, "more"));
        }
        let mut tokens = tokens(text)?.into_iter();
        let next = tokens.next().expect("there is always the end");
        Ok(Parser { tokens, next, constants, depth: 0 })
    }

    /// The next token. The end is never used up.
    fn take(&mut self) -> Placed {
        match self.tokens.next() {
            Some(after) => std::mem::replace(&mut self.next, after),
            None => self.next.clone(),
        }
    }

    fn takes_symbol(&mut self, symbol: &str) -> bool {
        let there = matches!(self.next.token, Token::Symbol(s) if s == symbol);
        if there {
            self.take();
        }
        there
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let there = matches!(&self.next.token, Token::Name(n) if n == name);
        if there {
            self.take();
        }
        there
    }

    fn unexpected(&self, expected: &str) -> ExpressionError {
        ExpressionError::new(self.next.offset, expected, self.next.text.clone())
    }

    fn needs(&mut self, symbol: &str) -> Result<(), ExpressionError> {
        if self.takes_symbol(symbol) { Ok(()) } else { Err(self.unexpected(&format!("\"{symbol}\""))) }
    }

    fn end(&self) -> Result<(), ExpressionError> {
        if self.next.token == Token::End { Ok(()) } else { Err(self.unexpected("an operator or the end")) }
    }

    fn claim(&mut self) -> Result<Claim, ExpressionError> {
        let (first, dimension) = self.sum()?;
        if self.takes_name("within") {
            let offset = self.next.offset;
            let (tolerance, unit) = self.sum()?;
            same(Dimension::NUMBER, unit, offset)?;
            if !self.takes_name("of") {
                return Err(self.unexpected("\"of\" after the tolerance"));
            }
            let offset = self.next.offset;
            let (of, unit) = self.sum()?;
            same(dimension, unit, offset)?;
            return Ok(Claim::Within { left: first, tolerance, of });
        }
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison() {
            let offset = self.next.offset;
            let (side, unit) = self.sum()?;
            same(dimension, unit, offset)?;
            rest.push((comparison, side));
        }
        if rest.is_empty() {
            return Err(self.unexpected("a comparison (<, <=, >, >=, ==) or \"within\""));
        }
        Ok(Claim::Chain { first, rest })
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let Token::Symbol(symbol) = self.next.token else { return None };
        let comparison = match symbol {
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            ">=" => Comparison::AtLeast,
            "==" => Comparison::Equal,
            _ => return None,
        };
        self.take();
        Some(comparison)
    }

    fn sum(&mut self) -> Result<Typed, ExpressionError> {
        let (mut left, dimension) = self.product()?;
        loop {
            let operator = match self.next.token {
                Token::Symbol("+") => Operator::Add,
                Token::Symbol("-") => Operator::Subtract,
                Token::Symbol(_) | Token::Number(_) | Token::Duration(_) | Token::Name(_) | Token::End => {
                    return Ok((left, dimension));
                }
            };
            self.take();
            let offset = self.next.offset;
            let (right, unit) = self.product()?;
            same(dimension, unit, offset)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn product(&mut self) -> Result<Typed, ExpressionError> {
        let (mut left, mut dimension) = self.operand()?;
        loop {
            let (operator, sign) = match self.next.token {
                Token::Symbol("*") => (Operator::Multiply, 1),
                Token::Symbol("/") => (Operator::Divide, -1),
                Token::Symbol(_) | Token::Number(_) | Token::Duration(_) | Token::Name(_) | Token::End => {
                    return Ok((left, dimension));
                }
            };
            self.take();
            let (right, unit) = self.operand()?;
            dimension = Dimension(dimension.0.saturating_add(unit.0.saturating_mul(sign)));
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn operand(&mut self) -> Result<Typed, ExpressionError> {
        let Placed { token, offset, text } = self.take();
        match token {
            Token::Number(quantity) => Ok((Expr::Quantity(quantity), quantity.dimension)),
            Token::Duration(d) => {
                let quantity = Quantity { value: d.as_secs_f64(), dimension: Dimension::DURATION };
                Ok((Expr::Quantity(quantity), quantity.dimension))
            }
            Token::Symbol("(") => {
                self.deeper(offset)?;
                let inner = self.sum()?;
                self.depth -= 1;
                self.needs(")")?;
                Ok(inner)
            }
            Token::Name(name) => match name.as_str() {
                "min" => self.call(Function::Min, offset),
                "max" => self.call(Function::Max, offset),
                "abs" => self.call(Function::Abs, offset),
                _ => self.named(name, offset),
            },
            Token::Symbol(_) | Token::End => Err(ExpressionError::new(offset, "a number or a metric", text)),
        }
    }

    fn deeper(&mut self, offset: usize) -> Result<(), ExpressionError> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return Ok(());
        }
        Err(ExpressionError::new(offset, format!("at most {DEPTH_MAX} levels of parentheses"), "one more"))
    }

    fn call(&mut self, function: Function, offset: usize) -> Result<Typed, ExpressionError> {
        self.needs("(")?;
        self.deeper(offset)?;
        let (first, dimension) = self.sum()?;
        let mut arguments = vec![first];
        while function != Function::Abs && self.takes_symbol(",") {
            let offset = self.next.offset;
            let (argument, unit) = self.sum()?;
            same(dimension, unit, offset)?;
            arguments.push(argument);
        }
        self.depth -= 1;
        self.needs(")")?;
        Ok((Expr::Call(function, arguments), dimension))
    }

    fn named(&mut self, name: String, offset: usize) -> Result<Typed, ExpressionError> {
        if let Some(&value) = self.constants.get(&name) {
            return Ok((Expr::Constant { name, value }, value.dimension));
        }
        let Some(dimension) = metric_dimension(&name) else {
            let mut error = ExpressionError::new(offset, "a metric that exists", format!("\"{name}\""));
            let meant = suggestion(&name, self.constants).map(|meant| format!("did you mean {meant}? "));
            error.hint =
                Some(format!("{}there are: {}", meant.unwrap_or_default(), all_names(self.constants)));
            return Err(error);
        };
        let over = if self.takes_symbol("[") {
            let over = self.over()?;
            self.needs("]")?;
            Some(over)
        } else {
            None
        };
        Ok((Expr::Metric { name, over }, dimension))
    }

    fn over(&mut self) -> Result<Over, ExpressionError> {
        const EXPECTED: &str = "a part of the run such as 20m..25m, 20m.., ..5m or step 3";
        if self.takes_name("step") {
            let Placed { token, offset, text } = self.take();
            let step = match token {
                Token::Number(n)
                    if n.dimension == Dimension::NUMBER && n.value.fract() == 0.0 && n.value >= 1.0 =>
                {
                    n.value
                }
                Token::Number(_) | Token::Duration(_) | Token::Name(_) | Token::Symbol(_) | Token::End => {
                    return Err(ExpressionError::new(offset, "the number of a step, from 1 on", text));
                }
            };
            return Ok(Over::Step(step.min(f64::from(u32::MAX)) as u32));
        }
        let from = self.time();
        if !self.takes_symbol("..") {
            return Err(self.unexpected(if from.is_some() { "\"..\" after the start" } else { EXPECTED }));
        }
        let to = self.time();
        if from.is_none() && to.is_none() { Err(self.unexpected(EXPECTED)) } else { Ok(Over::Span(from, to)) }
    }

    fn time(&mut self) -> Option<std::time::Duration> {
        let Token::Duration(time) = self.next.token else { return None };
        self.take();
        Some(time)
    }
}

fn same(left: Dimension, right: Dimension, offset: usize) -> Result<(), ExpressionError> {
    if left == right {
        return Ok(());
    }
    let example = match left.0 {
        1 => " such as 500ms",
        -1 => " such as 12/s",
        _ => "",
    };
    Err(ExpressionError::new(offset, format!("{left}{example}, as on the left"), right.to_string()))
}
