//! Requests that a transaction makes from its own: ACK to a non-2xx (RFC 3261 section 17.1.1.3) and CANCEL
//! (section 9.1). Both carry the Request-URI, topmost Via, Route set, From, Call-ID and CSeq number of the INVITE.

use busyhour_sip::{HeaderName, Message, Writer};

/// How much longer the derived request can be than its INVITE (and, for an ACK, the To of the response together): header names in
/// long form, Max-Forwards of two digits, and a Content-Length.
pub(super) const LONGER_MAX: usize = 64;

/// Writes the ACK to a final response into `buf`; the To comes from the response. `None` when it does not fit.
pub(super) fn write_ack(invite: &Message<'_>, response: &Message<'_>, buf: &mut [u8]) -> Option<usize> {
    write(invite, b"ACK", response.value(HeaderName::To)?, buf)
}

/// Writes the CANCEL of an INVITE into `buf`. `None` when it does not fit.
pub(super) fn write_cancel(invite: &Message<'_>, buf: &mut [u8]) -> Option<usize> {
    write(invite, b"CANCEL", invite.value(HeaderName::To)?, buf)
}

fn write(invite: &Message<'_>, method: &[u8], to: &[u8], buf: &mut [u8]) -> Option<usize> {
    let mut w = Writer::new(buf);
    w.put(method).put(b" ").put(invite.request_uri()).put(b" SIP/2.0\r\n");
    w.put(b"Via: ").put(invite.elements(HeaderName::Via).next()?.text).put(b"\r\n");
    for route in invite.all(HeaderName::Route) {
        w.put(invite.line_of(route));
    }
    w.put(b"Max-Forwards: 70\r\nFrom: ").put(invite.value(HeaderName::From)?);
    w.put(b"\r\nTo: ").put(to).put(b"\r\nCall-ID: ").put(invite.value(HeaderName::CallId)?);
    let cseq = busyhour_sip::value::CSeq::parse(invite.value(HeaderName::CSeq)?).ok()?;
    w.put(b"\r\nCSeq: ").put_u64(u64::from(cseq.number)).put(b" ").put(method);
    w.put(b"\r\nContent-Length: 0\r\n\r\n");
    w.finish()
}
