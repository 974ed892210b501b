//! Responses made from a request (RFC 3261 section 8.2.6).

use std::net::SocketAddr;

use crate::edit::Edits;
use crate::{Header, HeaderName, Message, Writer};

/// A response to a request, to be written into a buffer. Via, From, To, Call-ID and CSeq are copied as they came.
pub struct Reply<'a, 'm> {
    request: &'m Message<'a>,
    status: u16,
    reason: &'m str,
    to_tag: Option<&'m [u8]>,
    source: Option<SocketAddr>,
    record_route: bool,
}

impl<'a, 'm> Reply<'a, 'm> {
    /// A response with the usual reason phrase.
    pub fn new(request: &'m Message<'a>, status: u16) -> Self {
        Reply {
            request,
            status,
            reason: reason_phrase(status),
            to_tag: None,
            source: None,
            record_route: false,
        }
    }

    /// With a reason phrase of its own.
    pub fn reason(mut self, reason: &'m str) -> Self {
        self.reason = reason;
        self
    }

    /// With this To tag, when the request's To has none. Every response but 100 has one (section 8.2.6.2).
    pub fn to_tag(mut self, tag: &'m [u8]) -> Self {
        self.to_tag = Some(tag);
        self
    }

    /// With `received` and `rport` of the topmost Via filled in for a request that came from there.
    pub fn source(mut self, source: SocketAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// With the Record-Route of the request copied, as a UAS does in a response that creates a dialog (section 12.1.1).
    pub fn record_route(mut self) -> Self {
        self.record_route = true;
        self
    }

    /// Writes the response to the start of `buf`; `headers` writes further header lines, each with its CRLF. Returns
    /// the length, or `None` when `buf` is too short.
    pub fn write(&self, buf: &mut [u8], headers: impl FnOnce(&mut Writer<'_>)) -> Option<usize> {
        self.write_with_body(buf, headers, b"")
    }

    /// The same with a body; its Content-Type is up to `headers`.
    pub fn write_with_body(
        &self,
        buf: &mut [u8],
        headers: impl FnOnce(&mut Writer<'_>),
        body: &[u8],
    ) -> Option<usize> {
        let mut w = Writer::new(buf);
        w.put(b"SIP/2.0 ").put_u64(u64::from(self.status)).put(b" ").put(self.reason.as_bytes()).put(b"\r\n");
        self.copy_vias(&mut w);
        if self.record_route {
            self.copy_all(&mut w, HeaderName::RecordRoute);
        }
        self.copy_first(&mut w, HeaderName::From);
        self.copy_to(&mut w);
        self.copy_first(&mut w, HeaderName::CallId);
        self.copy_first(&mut w, HeaderName::CSeq);
        if self.status == 100 {
            self.copy_first(&mut w, HeaderName::Timestamp);
        }
        headers(&mut w);
        w.put(b"Content-Length: ").put_u64(body.len() as u64).put(b"\r\n\r\n").put(body);
        w.finish()
    }

    fn copy_vias(&self, w: &mut Writer<'_>) {
        let mut edits = Edits::new(self.request);
        if let (Some(source), Ok(via)) = (self.source, self.request.top_via()) {
            edits.stamp_via(&via, source);
        }
        for line in self.request.all(HeaderName::Via) {
            edits.write_range(usize::from(line.start)..usize::from(line.end), w);
            end_line(w, self.request.line_of(line));
        }
    }

    fn copy_to(&self, w: &mut Writer<'_>) {
        let Some(line) = self.request.first_line(HeaderName::To) else {
            return;
        };
        let value = self.request.value_of(line);
        let has_tag = crate::value::NameAddr::parse(value).is_ok_and(|to| to.params.get("tag").is_some());
        w.put(b"To: ").put(value);
        if let (false, Some(tag)) = (has_tag, self.to_tag) {
            w.put(b";tag=").put(tag);
        }
        w.put(b"\r\n");
    }

    fn copy_all(&self, w: &mut Writer<'_>, name: HeaderName) {
        for line in self.request.all(name) {
            self.copy_line(w, line);
        }
    }

    /// Copies a header that a response has once, even when the request is refused for having it twice.
    fn copy_first(&self, w: &mut Writer<'_>, name: HeaderName) {
        if let Some(line) = self.request.first_line(name) {
            self.copy_line(w, line);
        }
    }

    fn copy_line(&self, w: &mut Writer<'_>, header: &Header) {
        let line = self.request.line_of(header);
        w.put(line);
        end_line(w, line);
    }
}

/// Ends a line that was copied without its end, because the message was cut off there.
fn end_line(w: &mut Writer<'_>, line: &[u8]) {
    if !line.ends_with(b"\n") {
        w.put(b"\r\n");
    }
}

/// The reason phrase that RFC 3261 and its family give a status.
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        200 => "OK",
        202 => "Accepted",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        421 => "Extension Required",
        423 => "Interval Too Brief",
        440 => "Max-Breadth Exceeded",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        491 => "Request Pending",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        _ => "Unknown",
    }
}
