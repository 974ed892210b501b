//! What is expected: `[constants]` and `[[expect]]`.

use crate::Driver;
use std::time::Duration;

use super::text;
use crate::arrivals::Window;
use crate::experiment::check;
use crate::experiment::expect::{
    At, Constants, Expectation, ExpressionError, is_reserved, parse_at, parse_claim, parse_quantity,
};
use crate::experiment::section::{Field, Section};
use crate::input::InputError;

const EXPECTATIONS_MAX: usize = 1000;

pub(super) fn read_constants(section: &Section<'_>) -> Result<Constants, InputError> {
    let mut constants = Constants::new();
    for (name, field) in section.entries() {
        let word = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !word || is_reserved(name) {
            return Err(field.error(
                "a name of lower-case letters, digits and _ that is no metric and no word of a claim",
            ));
        }
        let quantity =
            parse_quantity(field.text()?).map_err(|e| field.error_within(e.offset, e.expected, e.found))?;
        constants.insert(name.to_owned(), quantity);
    }
    Ok(constants)
}

pub(super) fn read_expectations(
    root: &Section<'_>,
    constants: &Constants,
    steps: &[Window],
    length: Duration,
) -> Result<Vec<Expectation>, InputError> {
    const DRIVERS: [(&str, Driver); 2] = [("sim", Driver::Simulator), ("net", Driver::Sockets)];
    let mut expectations = Vec::new();
    for section in root.sections("expect")? {
        let that = section.required("that", "a claim such as \"srd.p99 < 1000ms\"")?;
        if expectations.len() == EXPECTATIONS_MAX {
            return Err(that.error(format!("at most {EXPECTATIONS_MAX} expectations")));
        }
        let text_of_claim = that.text()?;
        let place = |field: &Field<'_>, e: ExpressionError| {
            let error = field.error_within(e.offset, e.expected, e.found);
            if let Some(hint) = e.hint { error.hint(hint) } else { error }
        };
        let claim = parse_claim(text_of_claim, constants).map_err(|e| place(&that, e))?;
        let at_field = section.optional("at");
        let at = match &at_field {
            None => At::Measured,
            Some(field) => parse_at(field.text()?).map_err(|e| place(field, e))?,
        };
        check::windows(&claim, &that, at, at_field.as_ref(), steps, length)?;
        expectations.push(Expectation {
            text: text_of_claim.to_owned(),
            claim,
            at,
            driver: section.optional("driver").map(|f| f.one_of(&DRIVERS)).transpose()?,
            note: text(&section, "note")?,
            source: text(&section, "source")?,
        });
        section.finish()?;
    }
    Ok(expectations)
}
