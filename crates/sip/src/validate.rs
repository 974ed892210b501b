//! What makes a message unfit, and how a request that is unfit is answered.

use crate::chars::decimal;
use crate::value::{CSeq, NameAddr, Uri, Via};
use crate::{HeaderName, Message, Method, StartLine};

/// Something wrong with a message that could be parsed. A request gets an answer that says what; a response is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// The request line has more or other white space than single spaces, or a Request-URI with bytes that no URI has.
    RequestLine,
    /// Another SIP version than 2.0.
    Version,
    /// A line among the headers that is no header.
    HeaderLine,
    /// The empty line behind the headers is missing.
    NoEndOfHeaders,
    /// A mandatory header is missing.
    Missing(HeaderName),
    /// A header stands twice that may stand once.
    Twice(HeaderName),
    /// A header's value does not follow its grammar.
    Value(HeaderName),
    /// CSeq names another method than the request line.
    CSeqMethod,
    /// The same, and the request line has a method that nobody here knows: the peer is likely of another time, and is
    /// better told that than that its message is bad (RFC 4475 section 3.1.2.18).
    UnknownMethod,
    /// The body is shorter than Content-Length says.
    ShortBody,
    /// The Request-URI is not a URI, or one with header components (RFC 3261 section 19.1.1).
    RequestUri,
}

impl Defect {
    /// The status and reason phrase of the answer.
    pub fn answer(self) -> (u16, &'static str) {
        match self {
            Defect::RequestLine => (400, "Bad Request Line"),
            Defect::Version => (505, "Version Not Supported"),
            Defect::HeaderLine => (400, "Bad Header Line"),
            Defect::NoEndOfHeaders => (400, "No End Of Headers"),
            Defect::Missing(HeaderName::From) => (400, "Missing From"),
            Defect::Missing(HeaderName::To) => (400, "Missing To"),
            Defect::Missing(HeaderName::CallId) => (400, "Missing Call-ID"),
            Defect::Missing(HeaderName::CSeq) => (400, "Missing CSeq"),
            Defect::Missing(_) => (400, "Missing Header"),
            Defect::Twice(_) => (400, "Repeated Header"),
            Defect::Value(HeaderName::Via) => (400, "Bad Via"),
            Defect::Value(HeaderName::From) => (400, "Bad From"),
            Defect::Value(HeaderName::To) => (400, "Bad To"),
            Defect::Value(HeaderName::CallId) => (400, "Bad Call-ID"),
            Defect::Value(HeaderName::CSeq) => (400, "Bad CSeq"),
            Defect::Value(HeaderName::MaxForwards) => (400, "Bad Max-Forwards"),
            Defect::Value(HeaderName::ContentLength) => (400, "Bad Content-Length"),
            Defect::Value(HeaderName::Contact) => (400, "Bad Contact"),
            Defect::Value(HeaderName::Route) => (400, "Bad Route"),
            Defect::Value(_) => (400, "Bad Header Value"),
            Defect::CSeqMethod => (400, "CSeq Method Mismatch"),
            Defect::UnknownMethod => (501, "Not Implemented"),
            Defect::ShortBody => (400, "Body Shorter Than Content-Length"),
            Defect::RequestUri => (400, "Bad Request-URI"),
        }
    }
}

/// The values that every element looks at, parsed and checked once.
#[derive(Copy, Clone, Debug)]
pub struct Essentials<'a> {
    /// The Request-URI; `None` in a response. Its scheme may be one that nobody here knows: that is a 416.
    pub request_uri: Option<Uri<'a>>,
    /// The topmost Via.
    pub via: Via<'a>,
    /// From.
    pub from: NameAddr<'a>,
    /// To.
    pub to: NameAddr<'a>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq.
    pub cseq: CSeq<'a>,
    /// Max-Forwards; `None` when absent.
    pub max_forwards: Option<u8>,
}

impl<'a> Essentials<'a> {
    /// Checks what every request and response must have (RFC 3261 sections 8.1.1, 16.3 step 1, 18.3) and no more:
    /// a proxy has no business with a bad Date.
    ///
    /// # Errors
    /// The first [`Defect`] found.
    pub fn of(message: &Message<'a>) -> Result<Self, Defect> {
        if let Some(defect) = message.defect() {
            return Err(defect);
        }
        let request_uri = message.parse_request_uri()?;
        for name in
            [HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq, HeaderName::MaxForwards]
        {
            if message.is_repeated(name) {
                return Err(Defect::Twice(name));
            }
        }
        let via = top_via(message)?;
        let from = address(message, HeaderName::From)?;
        let to = address(message, HeaderName::To)?;
        let call_id = message.value(HeaderName::CallId).ok_or(Defect::Missing(HeaderName::CallId))?;
        if call_id.is_empty() || call_id.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return Err(Defect::Value(HeaderName::CallId));
        }
        let cseq = message.value(HeaderName::CSeq).ok_or(Defect::Missing(HeaderName::CSeq))?;
        let cseq = CSeq::parse(cseq).map_err(|_| Defect::Value(HeaderName::CSeq))?;
        let max_forwards = match message.value(HeaderName::MaxForwards) {
            Some(text) => match decimal(text) {
                Some(n @ 0..=255) => Some(n as u8),
                Some(_) | None => return Err(Defect::Value(HeaderName::MaxForwards)),
            },
            None => None,
        };
        if let StartLine::Request { method, .. } = message.start()
            && method != cseq.method
        {
            let unknown = matches!(method, Method::Extension(_));
            return Err(if unknown { Defect::UnknownMethod } else { Defect::CSeqMethod });
        }
        check_body(message)?;
        Ok(Essentials { request_uri, via, from, to, call_id, cseq, max_forwards })
    }

    /// Whether the request starts a dialog or stands alone: its To has no tag.
    pub fn is_initial(&self) -> bool {
        self.to.tag().is_none()
    }

    /// Whether this is an ACK: it is never answered.
    pub fn is_ack(&self) -> bool {
        self.cseq.method == Method::Ack
    }
}

/// The topmost Via.
///
/// # Errors
/// [`Defect`] when there is none or it is malformed.
pub(crate) fn top_via<'a>(message: &Message<'a>) -> Result<Via<'a>, Defect> {
    let top = message.elements(HeaderName::Via).next().ok_or(Defect::Missing(HeaderName::Via))?;
    Via::parse(top.text).map_err(|_| Defect::Value(HeaderName::Via))
}

fn address<'a>(message: &Message<'a>, name: HeaderName) -> Result<NameAddr<'a>, Defect> {
    let value = message.value(name).ok_or(Defect::Missing(name))?;
    let address = NameAddr::parse(value).map_err(|_| Defect::Value(name))?;
    address.parse_uri().map_err(|_| Defect::Value(name))?;
    Ok(address)
}

fn check_body(message: &Message<'_>) -> Result<(), Defect> {
    let mut length = None;
    for h in message.all(HeaderName::ContentLength) {
        let n = decimal(message.value_of(h)).ok_or(Defect::Value(HeaderName::ContentLength))?;
        if length.is_some_and(|l| l != n) {
            return Err(Defect::Twice(HeaderName::ContentLength));
        }
        length = Some(n);
    }
    match length {
        Some(n) if n > message.raw_body().len() as u64 => Err(Defect::ShortBody),
        Some(_) | None => Ok(()),
    }
}

impl<'a> Message<'a> {
    /// The Request-URI in its parts; `None` in a response.
    ///
    /// # Errors
    /// [`Defect::RequestUri`] when it is not a URI, or a SIP URI with header components: these have no place there.
    pub fn parse_request_uri(&self) -> Result<Option<Uri<'a>>, Defect> {
        match self.start() {
            StartLine::Response { .. } => Ok(None),
            StartLine::Request { uri, .. } => match Uri::parse(uri) {
                Ok(Uri::Sip(sip)) if !sip.headers.is_empty() => Err(Defect::RequestUri),
                Ok(uri) => Ok(Some(uri)),
                Err(_) => Err(Defect::RequestUri),
            },
        }
    }

    /// The topmost Via.
    ///
    /// # Errors
    /// [`Defect`] when there is none or it is malformed.
    pub fn top_via(&self) -> Result<Via<'a>, Defect> {
        top_via(self)
    }

    /// The body: what follows the empty line, up to Content-Length when that is there and smaller.
    pub fn body(&self) -> &'a [u8] {
        let raw = self.raw_body();
        match self.value(HeaderName::ContentLength).and_then(decimal) {
            Some(n) if n < raw.len() as u64 => &raw[..n as usize],
            Some(_) | None => raw,
        }
    }
}
