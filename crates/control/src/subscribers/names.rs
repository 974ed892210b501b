//! What a person writes about subscribers, checked: user names, domains, number ranges, password templates.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::secret::Password;

/// The longest user name accepted, in bytes.
pub const USER_LEN_MAX: usize = 128;
/// The most users that one range may provision.
pub const RANGE_LEN_MAX: u64 = 1_000_000;
/// The most letters before the digits of a numbered user.
const PREFIX_LEN_MAX: usize = 8;
/// The most digits of a provisioned number; E.164 numbers have up to 15.
const DIGITS_MAX: usize = 15;
/// The longest password template, in bytes.
const TEMPLATE_LEN_MAX: usize = 512;

/// What was expected of an input and what was found instead; its text is `expected …, found …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    /// What would have been right.
    pub expected: String,
    /// What was there, ready to be shown: nothing secret, no control characters.
    pub found: String,
}

impl BadInput {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        BadInput { expected: expected.into(), found: found.into() }
    }

    /// Names the refused text itself, escaped and shortened.
    fn quoted(expected: impl Into<String>, text: &str) -> Self {
        let short: String = text.chars().take(64).flat_map(char::escape_debug).collect();
        let dots = if text.chars().nth(64).is_some() { "…" } else { "" };
        BadInput::new(expected, format!("\"{short}{dots}\""))
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for BadInput {}

/// The user part of a subscriber's AoR, which is also the digest username: 1 to 128 characters that RFC 3261 section 25.1
/// allows in `user` without escaping. Case matters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(Box<str>);

impl UserName {
    /// Checks `text` against the grammar and the length.
    pub fn parse(text: &str) -> Result<Self, BadInput> {
        if text.is_empty() {
            return Err(BadInput::new("a user name", "nothing"));
        }
        if text.len() > USER_LEN_MAX {
            return Err(BadInput::quoted(format!("a user name of at most {USER_LEN_MAX} characters"), text));
        }
        if !text.bytes().all(is_user_byte) {
            let expected =
                "a user name of letters, digits and -_.!~*'()&=+$,;?/ (the user part of a SIP URI)";
            return Err(BadInput::quoted(expected, text));
        }
        Ok(UserName(text.into()))
    }

    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `unreserved / user-unreserved` of RFC 3261 section 25.1.
fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/".contains(&byte)
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// A domain that a cluster serves, which is also the digest realm of its subscribers (RFC 3261 section 22.1): a host
/// name or an IP address, in the one form that compares byte by byte (lower case, no final dot, IPv6 in brackets).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Box<str>);

impl Domain {
    /// Checks `text` as `host` of RFC 3261 section 25.1 and brings it into canonical form.
    pub fn parse(text: &str) -> Result<Self, BadInput> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Domain(format!("[{address}]").into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Domain(address.to_string().into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if is_host_name(name) {
            return Ok(Domain(name.to_ascii_lowercase().into()));
        }
        Err(BadInput::quoted("a domain name or an IP address, without scheme and port", text))
    }

    /// The domain in canonical form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name of at most 253 characters whose labels are 1 to 63 letters, digits and inner hyphens. The last label starts
/// with a letter, so that a mistyped IPv4 address is not taken for a name.
fn is_host_name(name: &str) -> bool {
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253
        && name.split('.').all(label_fits)
        && last.starts_with(|c: char| c.is_ascii_alphabetic())
}

impl From<IpAddr> for Domain {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Domain(address.to_string().into()),
            IpAddr::V6(address) => Domain(format!("[{address}]").into()),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// The numbered users from a first to a last number, both included, all written with the same letters before the number
/// and the same count of digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberRange {
    prefix: Box<str>,
    first: u64,
    last: u64,
    digits: usize,
}

impl NumberRange {
    /// Reads `FIRST-LAST`, such as `0000-9999` or `u100-u199`: at most 8 letters, 15 digits and 1,000,000 numbers.
    pub fn parse(text: &str) -> Result<Self, BadInput> {
        let expected = "a range of numbers with the same count of digits, such as 0000-9999 or u100-u199";
        let wrong = || BadInput::quoted(expected, text);
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let letters = first.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (prefix, first) = first.split_at(letters);
        let last = last.strip_prefix(prefix).ok_or_else(wrong)?;
        let is_number = |part: &str| {
            (1..=DIGITS_MAX).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if letters > PREFIX_LEN_MAX || !is_number(first) || !is_number(last) || first.len() != last.len() {
            return Err(wrong());
        }
        let digits = first.len();
        let (first, last): (u64, u64) =
            (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first > last {
            return Err(BadInput::quoted("a range whose first number is not above its last", text));
        }
        if last - first >= RANGE_LEN_MAX {
            return Err(BadInput::quoted(format!("a range of at most {RANGE_LEN_MAX} numbers"), text));
        }
        Ok(NumberRange { prefix: prefix.into(), first, last, digits })
    }

    /// How many users the range names; at least 1.
    pub fn count(&self) -> u64 {
        self.last - self.first + 1
    }

    /// The users of the range, in order.
    pub fn users(&self) -> impl Iterator<Item = UserName> + use<'_> {
        let NumberRange { prefix, digits, .. } = self;
        (self.first..=self.last).map(move |number| UserName(format!("{prefix}{number:0digits$}").into()))
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NumberRange { prefix, first, last, digits } = self;
        write!(f, "{prefix}{first:0digits$}-{prefix}{last:0digits$}")
    }
}

/// How the password of a provisioned user is made from the user's name: `{user}` stands for the name. The default,
/// `pw{user}`, gives user `0042` the password `pw0042`; it is public knowledge, meant for tests on closed networks.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordTemplate(Box<str>);

impl PasswordTemplate {
    /// Checks that braces appear only as `{user}`, and that every password made from it is one.
    pub fn parse(text: &str) -> Result<Self, BadInput> {
        let fixed = text.replace("{user}", "");
        if text.is_empty() || text.len() > TEMPLATE_LEN_MAX || fixed.contains(['{', '}']) {
            let expected = format!(
                "1 to {TEMPLATE_LEN_MAX} bytes in which {{user}} stands for the user name, such as pw{{user}}"
            );
            return Err(BadInput::quoted(expected, text));
        }
        let longest = text.replace("{user}", &"9".repeat(PREFIX_LEN_MAX + DIGITS_MAX));
        Password::parse(&longest)?;
        Ok(PasswordTemplate(text.into()))
    }

    /// The password of `user`, who comes from a [`NumberRange`].
    pub(crate) fn password_of(&self, user: &UserName) -> Result<Password, BadInput> {
        Password::parse(&self.0.replace("{user}", user.as_str()))
    }

    /// The template as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for PasswordTemplate {
    fn default() -> Self {
        PasswordTemplate("pw{user}".into())
    }
}

impl fmt::Display for PasswordTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for PasswordTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordTemplate(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_follow_the_user_grammar() {
        for name in ["alice", "0042", "+3612345678", "a.b-c_d!e~f*g'h(i)", "&=+$,;?/"] {
            assert_eq!(UserName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "al ice", "alice@example.com", "a:b", "%41", "naïve", "a\0b", "a\nb", "\u{202e}"] {
            assert!(UserName::parse(name).is_err(), "{name:?}");
        }
        assert!(UserName::parse(&"x".repeat(USER_LEN_MAX)).is_ok());
        assert!(UserName::parse(&"x".repeat(USER_LEN_MAX + 1)).is_err());
    }

    #[test]
    fn a_refused_name_is_shown_escaped_and_short() {
        let message = UserName::parse("a\u{1b}[31m\nb").unwrap_err().to_string();
        assert!(message.ends_with(r#"found "a\u{1b}[31m\nb""#), "{message}");
        let message = UserName::parse(&"x".repeat(5000)).unwrap_err().to_string();
        assert_eq!(
            message.chars().filter(|c| *c == 'x').count(),
            64 + "expected".matches('x').count(),
            "{message}"
        );
    }

    #[test]
    fn domains_have_one_form() {
        let cases = [
            ("Busyhour.Example", "busyhour.example"),
            ("example.com.", "example.com"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "[::1]"),
            ("[2001:DB8::0:1]", "[2001:db8::1]"),
        ];
        for (text, form) in cases {
            assert_eq!(Domain::parse(text).unwrap().as_str(), form);
        }
        let long = format!("{}.example", "a".repeat(64));
        for text in [
            "",
            ".",
            "a..b",
            "-a.example",
            "a-.example",
            "127.0.0.256",
            "a b",
            "sip:a.example",
            "a:5060",
            &long,
        ] {
            assert!(Domain::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ranges_keep_their_zeros() {
        let range = NumberRange::parse("0098-0101").unwrap();
        assert_eq!(
            range.users().map(|user| user.to_string()).collect::<Vec<_>>(),
            ["0098", "0099", "0100", "0101"]
        );
        assert_eq!((range.count(), range.to_string()), (4, "0098-0101".to_owned()));
        assert_eq!(NumberRange::parse("0000-9999").unwrap().count(), 10_000);
        let lettered = NumberRange::parse("u09-u10").unwrap();
        assert_eq!(lettered.users().map(|user| user.to_string()).collect::<Vec<_>>(), ["u09", "u10"]);
        assert_eq!(lettered.to_string(), "u09-u10");
        assert_eq!(NumberRange::parse("7-7").unwrap().count(), 1);
        assert_eq!(NumberRange::parse("000000-999999").unwrap().count(), RANGE_LEN_MAX);
    }

    #[test]
    fn ranges_have_limits() {
        for text in
            ["", "-", "5", "1-", "-1", "1-10", "9-1", "a-b", "1-2-3", "+1-+2", " 1-2", "0000000-1000000"]
        {
            assert!(NumberRange::parse(text).is_err(), "{text:?}");
        }
        assert!(NumberRange::parse("0000000000000000-0000000000000001").is_err(), "16 digits");
    }

    #[test]
    fn templates_know_one_placeholder() {
        let user = UserName::parse("0042").unwrap();
        let made = |template: &str| PasswordTemplate::parse(template).unwrap().password_of(&user).unwrap();
        assert_eq!(made("pw{user}"), Password::parse("pw0042").unwrap());
        assert_eq!(made("{user}{user}"), Password::parse("00420042").unwrap());
        assert_eq!(PasswordTemplate::default().password_of(&user), Password::parse("pw0042"));
        let many = "{user}".repeat(85);
        for template in ["", "{usr}", "{user", "user}", "{}", "a\nb", &many] {
            assert!(PasswordTemplate::parse(template).is_err(), "{template:?}");
        }
    }
}
