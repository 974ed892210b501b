//! CSeq (RFC 3261 section 20.16) and delta-seconds.

use crate::Method;
use crate::chars::{decimal, is_lws, is_token, trim};

use super::Malformed;

/// A sequence number and the method it belongs to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// Less than 2³¹ (section 8.1.1.5).
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Parses the value of a CSeq header.
    ///
    /// # Errors
    /// [`Malformed`] also when the number is 2³¹ or more.
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let space = value.iter().position(|&b| is_lws(b)).ok_or(Malformed)?;
        let (number, method) = (&value[..space], trim(&value[space..]));
        match decimal(number) {
            Some(n) if n < 1 << 31 && is_token(method) => {
                Ok(CSeq { number: n as u32, method: Method::from_token(method) })
            }
            Some(_) | None => Err(Malformed),
        }
    }
}

/// Seconds as in Expires. A number past 2³² − 1 is as good as 2³² − 1 (RFC 3261 section 20.19 bounds it there); what is
/// not a number is `None`.
pub fn delta_seconds(value: &[u8]) -> Option<u32> {
    let value = trim(value);
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(decimal(value).and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX))
}
