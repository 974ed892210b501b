//! The kinds of values that keys have: how each is read from a file or from text, and how it is shown.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use busyhour_control::subscribers::{Domain, NumberRange, PasswordTemplate};
use busyhour_lab::experiment::units::{duration, written};
use busyhour_lab::input::quoted;
use busyhour_sip::value::Algorithm;
use toml::de::DeValue;

use crate::mistake::Bad;
use crate::units;

/// How a value is written. A flag and a variable give text; a file gives a TOML value, which for most kinds is that same
/// text in quotes.
pub(super) trait Kind {
    type Value;

    /// What a right value looks like, for a message: `a duration from 1s to 1h, such as "180s"`.
    fn expected(&self) -> String;

    /// The value that `text` stands for.
    fn of_text(&self, text: &str) -> Result<Self::Value, Bad>;

    /// The value that a TOML value stands for.
    fn of_toml(&self, value: &DeValue<'_>) -> Result<Self::Value, Bad> {
        match value.as_str() {
            Some(text) => self.of_text(text),
            None => Err(self.bad(found(value))),
        }
    }

    /// The value as a file would have it.
    fn shown(&self, value: &Self::Value) -> String;

    fn bad(&self, found: String) -> Bad {
        Bad::new(self.expected(), found)
    }
}

/// A TOML value as a message names it.
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(value) => format!("the boolean {value}"),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// `text` as a TOML string.
pub(super) fn string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// An IP address with a port; port 0 lets the system choose one.
pub(super) struct Address;

impl Kind for Address {
    type Value = SocketAddr;

    fn expected(&self) -> String {
        "an IP address and a port, such as \"127.0.0.1:5060\" or \"[::1]:5060\"".into()
    }

    fn of_text(&self, text: &str) -> Result<SocketAddr, Bad> {
        text.parse().map_err(|_| self.bad(quoted(text)))
    }

    fn shown(&self, value: &SocketAddr) -> String {
        string(&value.to_string())
    }
}

/// An address that need not be there: there is no way to write "none" but to leave it out.
pub(super) struct OptionalAddress;

impl Kind for OptionalAddress {
    type Value = Option<SocketAddr>;

    fn expected(&self) -> String {
        Address.expected()
    }

    fn of_text(&self, text: &str) -> Result<Option<SocketAddr>, Bad> {
        Address.of_text(text).map(Some)
    }

    fn shown(&self, value: &Option<SocketAddr>) -> String {
        value.map_or_else(String::new, |address| Address.shown(&address))
    }
}

/// A directory.
pub(super) struct Directory;

impl Kind for Directory {
    type Value = PathBuf;

    fn expected(&self) -> String {
        "a directory".into()
    }

    fn of_text(&self, text: &str) -> Result<PathBuf, Bad> {
        if text.is_empty() || text.contains('\0') { Err(self.bad(quoted(text))) } else { Ok(text.into()) }
    }

    fn shown(&self, value: &PathBuf) -> String {
        string(&value.to_string_lossy())
    }
}

/// True or false.
pub(super) struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn expected(&self) -> String {
        "true or false".into()
    }

    fn of_text(&self, text: &str) -> Result<bool, Bad> {
        text.parse().map_err(|_| self.bad(quoted(text)))
    }

    fn of_toml(&self, value: &DeValue<'_>) -> Result<bool, Bad> {
        value.as_bool().ok_or_else(|| self.bad(found(value)))
    }

    fn shown(&self, value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number within limits.
pub(super) struct Count {
    pub(super) min: usize,
    pub(super) max: usize,
}

impl Kind for Count {
    type Value = usize;

    fn expected(&self) -> String {
        format!("a whole number from {} to {}", self.min, self.max)
    }

    fn of_text(&self, text: &str) -> Result<usize, Bad> {
        let fits = |n: &usize| (self.min..=self.max).contains(n) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(fits).ok_or_else(|| self.bad(quoted(text)))
    }

    fn of_toml(&self, value: &DeValue<'_>) -> Result<usize, Bad> {
        let number = value.as_integer().and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok());
        number.filter(|n| (self.min..=self.max).contains(n)).ok_or_else(|| self.bad(found(value)))
    }

    fn shown(&self, value: &usize) -> String {
        value.to_string()
    }
}

/// A duration within limits, always with its unit.
pub(super) struct Span {
    pub(super) min: Duration,
    pub(super) max: Duration,
    pub(super) example: &'static str,
}

impl Kind for Span {
    type Value = Duration;

    fn expected(&self) -> String {
        let (min, max) = (written(self.min), written(self.max));
        format!("a duration from {min} to {max}, such as \"{}\"", self.example)
    }

    fn of_text(&self, text: &str) -> Result<Duration, Bad> {
        let fits = |d: &Duration| (self.min..=self.max).contains(d);
        duration(text)
            .filter(fits)
            .ok_or_else(|| Bad { hint: unit_missing(text, "s"), ..self.bad(quoted(text)) })
    }

    fn of_toml(&self, value: &DeValue<'_>) -> Result<Duration, Bad> {
        match (value.as_str(), value.as_integer()) {
            (Some(text), _) => self.of_text(text),
            (None, Some(n)) => Err(Bad { hint: unit_missing(n.as_str(), "s"), ..self.bad(found(value)) }),
            (None, None) => Err(self.bad(found(value))),
        }
    }

    fn shown(&self, value: &Duration) -> String {
        string(&written(*value))
    }
}

/// A size in bytes within limits, always with its unit.
pub(super) struct Size {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) example: &'static str,
}

impl Kind for Size {
    type Value = usize;

    fn expected(&self) -> String {
        let (min, max) = (units::show_size(self.min), units::show_size(self.max));
        format!("a size from {min} to {max}, such as \"{}\"", self.example)
    }

    fn of_text(&self, text: &str) -> Result<usize, Bad> {
        let fits = |n: &usize| (self.min..=self.max).contains(n);
        units::size(text)
            .filter(fits)
            .ok_or_else(|| Bad { hint: unit_missing(text, "B"), ..self.bad(quoted(text)) })
    }

    fn of_toml(&self, value: &DeValue<'_>) -> Result<usize, Bad> {
        match (value.as_str(), value.as_integer()) {
            (Some(text), _) => self.of_text(text),
            (None, Some(n)) => Err(Bad { hint: unit_missing(n.as_str(), "B"), ..self.bad(found(value)) }),
            (None, None) => Err(self.bad(found(value))),
        }
    }

    fn shown(&self, value: &usize) -> String {
        string(&units::show_size(*value))
    }
}

/// The advice for a bare number where a unit is needed.
fn unit_missing(text: &str, unit: &str) -> Option<String> {
    let bare = !text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit());
    bare.then(|| format!("add the unit: \"{text}{unit}\""))
}

/// Users to be provisioned; in a file and on the command line there is no way to write "none" but to leave it out.
pub(super) struct Numbers;

impl Kind for Numbers {
    type Value = Option<NumberRange>;

    fn expected(&self) -> String {
        "a range of numbers with the same count of digits, such as \"0000-9999\"".into()
    }

    fn of_text(&self, text: &str) -> Result<Option<NumberRange>, Bad> {
        Ok(Some(NumberRange::parse(text)?))
    }

    fn shown(&self, value: &Option<NumberRange>) -> String {
        value.as_ref().map_or_else(String::new, |range| string(&range.to_string()))
    }
}

/// How provisioned users' passwords are made.
pub(super) struct Template;

impl Kind for Template {
    type Value = PasswordTemplate;

    fn expected(&self) -> String {
        "a text in which {user} stands for the user name, such as \"pw{user}\"".into()
    }

    fn of_text(&self, text: &str) -> Result<PasswordTemplate, Bad> {
        Ok(PasswordTemplate::parse(text)?)
    }

    fn shown(&self, value: &PasswordTemplate) -> String {
        string(value.as_str())
    }
}

/// One domain of a list.
pub(super) struct DomainName;

impl Kind for DomainName {
    type Value = Domain;

    fn expected(&self) -> String {
        "a domain name or an IP address, without scheme and port".into()
    }

    fn of_text(&self, text: &str) -> Result<Domain, Bad> {
        Ok(Domain::parse(text)?)
    }

    fn shown(&self, value: &Domain) -> String {
        string(value.as_str())
    }
}

/// One SIP method of a list. Methods compare case-sensitively (RFC 3261 section 7.1), and all there are have capitals.
pub(super) struct Method;

impl Kind for Method {
    type Value = String;

    fn expected(&self) -> String {
        "a SIP method in capitals, such as \"INVITE\"".into()
    }

    fn of_text(&self, text: &str) -> Result<String, Bad> {
        if matches!(text, "ACK" | "CANCEL") {
            let expected = "a method that can be challenged; ACK and CANCEL cannot (RFC 3261 section 22.1)";
            return Err(Bad::new(expected, quoted(text)));
        }
        let is_method = !text.is_empty() && text.len() <= 32 && text.bytes().all(|b| b.is_ascii_uppercase());
        if is_method { Ok(text.to_owned()) } else { Err(self.bad(quoted(text))) }
    }

    fn shown(&self, value: &String) -> String {
        string(value)
    }
}

/// An algorithm of digest authentication.
pub(super) struct Digest;

impl Kind for Digest {
    type Value = Algorithm;

    fn expected(&self) -> String {
        "a digest algorithm, \"MD5\" or \"SHA-256\"".into()
    }

    fn of_text(&self, text: &str) -> Result<Algorithm, Bad> {
        let known = Algorithm::ALL.into_iter().find(|a| a.as_str().eq_ignore_ascii_case(text));
        known.ok_or_else(|| self.bad(quoted(text)))
    }

    fn shown(&self, value: &Algorithm) -> String {
        string(value.as_str())
    }
}

/// A list: an array in a file (or a single value), comma-separated in text.
pub(super) struct List<K> {
    pub(super) of: K,
    pub(super) min: usize,
    pub(super) max: usize,
}

impl<K: Kind<Value: PartialEq>> List<K> {
    /// Checks the count and drops repetitions.
    fn checked(&self, values: Vec<K::Value>) -> Result<Vec<K::Value>, Bad> {
        let mut distinct = Vec::new();
        for value in values {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        let count = distinct.len();
        if (self.min..=self.max).contains(&count) {
            return Ok(distinct);
        }
        Err(Bad::new(format!("a list of {} to {} elements", self.min, self.max), format!("{count}")))
    }
}

impl<K: Kind<Value: PartialEq>> Kind for List<K> {
    type Value = Vec<K::Value>;

    fn expected(&self) -> String {
        self.of.expected()
    }

    fn of_text(&self, text: &str) -> Result<Self::Value, Bad> {
        let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        let values: Result<_, Bad> = parts.map(|part| self.of.of_text(part)).collect();
        self.checked(values?)
    }

    fn of_toml(&self, value: &DeValue<'_>) -> Result<Self::Value, Bad> {
        let Some(elements) = value.as_array() else {
            return self.checked(vec![self.of.of_toml(value)?]);
        };
        let mut values = Vec::new();
        for element in elements.iter() {
            let read = self.of.of_toml(element.get_ref());
            values.push(read.map_err(|bad| Bad { span: Some(element.span()), ..bad })?);
        }
        self.checked(values)
    }

    fn shown(&self, values: &Self::Value) -> String {
        let shown: Vec<_> = values.iter().map(|value| self.of.shown(value)).collect();
        format!("[{}]", shown.join(", "))
    }
}
