//! The words of a claim.

use std::time::Duration;

use super::parser::ExpressionError;
use crate::experiment::units::{self, Dimension, Quantity};
use crate::input::quoted;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(Quantity),
    /// A duration, exactly; in arithmetic it is a quantity.
    Duration(Duration),
    Name(String),
    Symbol(&'static str),
    End,
}

/// A token and the character that it starts at, from 0.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) offset: usize,
    pub(super) text: String,
}

/// Two-character symbols come first: the longest match counts.
const SYMBOLS: [&str; 15] = ["<=", ">=", "==", "..", "<", ">", "+", "-", "*", "/", "(", ")", "[", "]", ","];

pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, ExpressionError> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let offset = text.chars().count() - rest.chars().count();
        let Some(first) = rest.chars().next() else {
            out.push(Placed { token: Token::End, offset, text: "the end".to_owned() });
            return Ok(out);
        };
        let (token, length) = if first.is_ascii_digit() {
            number(rest).ok_or_else(|| {
                let shown: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
                let expected = "a number such as 5, 0.9, 5%, 500ms or 12/s";
                ExpressionError::new(offset, expected, quoted(&shown))
            })?
        } else if first.is_ascii_alphabetic() {
            let length = name_length(rest);
            (Token::Name(rest[..length].to_owned()), length)
        } else if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let expected = "a number, a metric or an operator";
            return Err(ExpressionError::new(offset, expected, quoted(&first.to_string())));
        };
        out.push(Placed { token, offset, text: quoted(&rest[..length]) });
        rest = &rest[length..];
    }
}

fn name_length(text: &str) -> usize {
    let part_of_name = |(i, c): (usize, char)| {
        let next_is_name = || text[i + 1..].starts_with(|c: char| c.is_ascii_alphanumeric());
        c.is_ascii_alphanumeric() || c == '_' || (c == '.' && next_is_name())
    };
    text.char_indices().find(|&(i, c)| !part_of_name((i, c))).map_or(text.len(), |(i, _)| i)
}

/// A number with its unit at the start of `text`, and its length. `None` when what is there is no number.
fn number(text: &str) -> Option<(Token, usize)> {
    let (_, _, after) = units::decimal(text)?;
    let digits = text.len() - after.len();
    let value = units::number_of(&text[..digits])?;
    let plain = |value| Token::Number(Quantity { value, dimension: Dimension::NUMBER });
    if after.starts_with('%') {
        return Some((plain(value / 100.0), digits + 1));
    }
    if let Some(unit) = after.strip_prefix('/') {
        let length = name_length(unit);
        // `100/s` is a rate, `100/seer` a division.
        if let Some(value) = units::rate(&text[..digits + 1 + length]) {
            return Some((
                Token::Number(Quantity { value, dimension: Dimension::RATE }),
                digits + 1 + length,
            ));
        }
    }
    if after.starts_with(|c: char| c.is_alphabetic()) {
        let length = text.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(text.len());
        let length = text[..length].find("..").unwrap_or(length);
        return Some((Token::Duration(units::duration(&text[..length])?), length));
    }
    Some((plain(value), digits))
}
