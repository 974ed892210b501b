//! One pass over a message: start line, header spans, body. Values stay unparsed.

use std::ops::Range;

use arrayvec::ArrayVec;
use memchr::memchr;

use crate::chars::{is_lws, is_token, is_uri_byte, trim};
use crate::validate::Defect;
use crate::{Header, HeaderName, Method};

/// The most header lines that a message may have.
pub const HEADERS_MAX: usize = 128;
/// The most bytes that a message may have: the largest UDP payload over IPv4.
pub const MESSAGE_BYTES_MAX: usize = 65_507;

/// The first line of a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// A request.
    Request {
        /// Its method.
        method: Method<'a>,
        /// Its Request-URI, unparsed.
        uri: &'a [u8],
    },
    /// A response.
    Response {
        /// Its status, 100 to 699.
        status: u16,
        /// Its reason phrase; may be empty.
        reason: &'a [u8],
    },
}

/// What cannot be understood as SIP at all. Nothing can be answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// Nothing but line ends or NULs: a keep-alive (RFC 5626 section 3.5.1), not an error of the peer.
    KeepAlive,
    /// Longer than [`MESSAGE_BYTES_MAX`].
    TooLarge,
    /// The first line is neither a request line nor a status line.
    StartLine,
    /// A response with a status outside 100 to 699.
    Status,
    /// More header lines than [`HEADERS_MAX`].
    TooManyHeaders,
}

/// A parsed message: borrowed bytes and where things lie in them.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    start: StartLine<'a>,
    headers: ArrayVec<Header, HEADERS_MAX>,
    /// Index of the first header of each name; `ABSENT` when there is none.
    first: [u8; HeaderName::COUNT],
    body_start: u16,
    defect: Option<Defect>,
}

const ABSENT: u8 = u8::MAX;

/// One element of a header that may hold a comma-separated list.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The element, white space trimmed.
    pub text: &'a [u8],
    /// Its offset in the message.
    pub(crate) at: u16,
    /// The index of its header line.
    pub(crate) header: u8,
}

impl<'a> Message<'a> {
    /// Parses one whole message (over UDP, a datagram).
    ///
    /// # Errors
    /// [`ParseError`] when the bytes are not SIP. A message that is SIP but broken parses, with a [`Defect`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(ParseError::TooLarge);
        }
        // RFC 3261 section 7.5: line ends before the start line are ignored.
        let lead =
            bytes.iter().position(|&b| !matches!(b, b'\r' | b'\n' | 0)).ok_or(ParseError::KeepAlive)?;
        let mut defect = None;
        let (line, mut at) = line_at(bytes, lead);
        let start = parse_start_line(line, &mut defect)?;
        let mut message = Message {
            bytes,
            start,
            headers: ArrayVec::new(),
            first: [ABSENT; HeaderName::COUNT],
            body_start: bytes.len() as u16,
            defect,
        };
        let mut ended = false;
        while at < bytes.len() {
            let (line, next) = line_at(bytes, at);
            if line.is_empty() {
                message.body_start = next as u16;
                ended = true;
                break;
            }
            message.add_line(line, at, next)?;
            at = next;
        }
        if !ended {
            message.note(Defect::NoEndOfHeaders);
        }
        Ok(message)
    }

    fn add_line(&mut self, line: &'a [u8], at: usize, next: usize) -> Result<(), ParseError> {
        if is_lws(line[0]) {
            // A fold continues the header before it (section 7.3.1).
            match self.headers.last_mut() {
                Some(header) => {
                    let end = at + trim_end(line);
                    if trim_end(line) > 0 {
                        header.value_end = end as u16;
                        if header.value_start as usize == header.end as usize {
                            header.value_start = (end - trim(line).len()) as u16;
                        }
                    }
                    header.end = next as u16;
                }
                None => self.note(Defect::HeaderLine),
            }
            return Ok(());
        }
        let Some(colon) = memchr(b':', line) else {
            self.note(Defect::HeaderLine);
            return Ok(());
        };
        let name = &line[..trim_end(&line[..colon])];
        if !is_token(name) {
            self.note(Defect::HeaderLine);
            return Ok(());
        }
        let value = trim(&line[colon + 1..]);
        // An empty value lies at the end of the line, so that a fold can tell that nothing came before it.
        let value_start = if value.is_empty() { next } else { offset_in(self.bytes, value) };
        let name = HeaderName::from_bytes(name);
        if self.first[name as usize] == ABSENT {
            self.first[name as usize] = self.headers.len() as u8;
        }
        self.headers
            .try_push(Header {
                name,
                start: at as u16,
                value_start: value_start as u16,
                value_end: (value_start + value.len()) as u16,
                end: next as u16,
            })
            .map_err(|_| ParseError::TooManyHeaders)
    }

    fn note(&mut self, defect: Defect) {
        self.defect.get_or_insert(defect);
    }

    /// The first thing found wrong with the framing of the message.
    pub fn defect(&self) -> Option<Defect> {
        self.defect
    }

    /// The message as received.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first line.
    pub fn start(&self) -> StartLine<'a> {
        self.start
    }

    /// The method, when it is a request.
    pub fn method(&self) -> Option<Method<'a>> {
        match self.start {
            StartLine::Request { method, .. } => Some(method),
            StartLine::Response { .. } => None,
        }
    }

    /// The status, when it is a response.
    pub fn status(&self) -> Option<u16> {
        match self.start {
            StartLine::Request { .. } => None,
            StartLine::Response { status, .. } => Some(status),
        }
    }

    /// The Request-URI, unparsed; empty in a response.
    pub fn request_uri(&self) -> &'a [u8] {
        match self.start {
            StartLine::Request { uri, .. } => uri,
            StartLine::Response { .. } => b"",
        }
    }

    /// Everything behind the empty line, whatever Content-Length says.
    pub fn raw_body(&self) -> &'a [u8] {
        &self.bytes[self.body_start as usize..]
    }

    /// All header lines, in order.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// The value of a header line, folds included, ends trimmed.
    pub fn value_of(&self, header: &Header) -> &'a [u8] {
        &self.bytes[header.value_start as usize..header.value_end as usize]
    }

    /// The name of a header line as it stands there.
    pub fn name_of(&self, header: &Header) -> &'a [u8] {
        let line = &self.bytes[header.start as usize..header.end as usize];
        let colon = memchr(b':', line).expect("a header line has a colon");
        &line[..trim_end(&line[..colon])]
    }

    /// The whole header line, its line end included.
    pub fn line_of(&self, header: &Header) -> &'a [u8] {
        &self.bytes[header.start as usize..header.end as usize]
    }

    /// The header lines of one name, in order.
    pub fn all(&self, name: HeaderName) -> impl Iterator<Item = &Header> + Clone {
        let from = match self.first[name as usize] {
            ABSENT => self.headers.len(),
            index => index as usize,
        };
        self.headers[from..].iter().filter(move |h| h.name == name)
    }

    /// Whether a header is there.
    pub fn has(&self, name: HeaderName) -> bool {
        self.first[name as usize] != ABSENT
    }

    /// The value of the first header line of that name.
    pub fn value(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.first_line(name).map(|h| self.value_of(h))
    }

    pub(crate) fn first_line(&self, name: HeaderName) -> Option<&Header> {
        match self.first[name as usize] {
            ABSENT => None,
            index => Some(&self.headers[index as usize]),
        }
    }

    /// The elements of a header that may hold comma-separated lists and may occur on several lines (Via, Route,
    /// Contact, …), in order. Commas in quoted strings and in angle brackets do not separate. Empty elements are skipped.
    pub fn elements(&self, name: HeaderName) -> impl Iterator<Item = Element<'a>> + '_ {
        let from = match self.first[name as usize] {
            ABSENT => self.headers.len(),
            index => index as usize,
        };
        let lines = self.headers.iter().enumerate().skip(from);
        lines.filter(move |(_, h)| h.name == name).flat_map(move |(index, h)| {
            crate::value::split_list(self.value_of(h)).map(move |text| Element {
                text,
                at: offset_in(self.bytes, text) as u16,
                header: index as u8,
            })
        })
    }

    /// Where the first line ends and the headers start.
    pub(crate) fn headers_start(&self) -> usize {
        self.headers.first().map_or(self.body_start as usize, |h| h.start as usize)
    }

    /// Where a new last header goes: before the empty line.
    pub(crate) fn headers_end(&self) -> usize {
        self.headers.last().map_or(self.headers_start(), |h| h.end as usize)
    }

    pub(crate) fn range_of(&self, part: &[u8]) -> Range<usize> {
        let at = offset_in(self.bytes, part);
        at..at + part.len()
    }
}

/// The line that starts at `at`, without its end, and where the next one starts. A bare LF ends a line, too.
fn line_at(bytes: &[u8], at: usize) -> (&[u8], usize) {
    match memchr(b'\n', &bytes[at..]) {
        Some(n) => {
            let line = &bytes[at..at + n];
            (line.strip_suffix(b"\r").unwrap_or(line), at + n + 1)
        }
        None => (&bytes[at..], bytes.len()),
    }
}

fn trim_end(s: &[u8]) -> usize {
    s.iter().rposition(|&b| !is_lws(b)).map_or(0, |i| i + 1)
}

/// The offset of `part`, a subslice of `whole`.
pub(crate) fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    let offset = part.as_ptr() as usize - whole.as_ptr() as usize;
    debug_assert!(offset + part.len() <= whole.len());
    offset
}

fn parse_start_line<'a>(line: &'a [u8], defect: &mut Option<Defect>) -> Result<StartLine<'a>, ParseError> {
    if line.len() >= 4 && line[..4].eq_ignore_ascii_case(b"SIP/") {
        return parse_status_line(line);
    }
    let method_end = memchr(b' ', line).ok_or(ParseError::StartLine)?;
    let method = &line[..method_end];
    let version_at =
        line.windows(5).rposition(|w| w.eq_ignore_ascii_case(b" SIP/")).ok_or(ParseError::StartLine)?;
    if !is_token(method) || version_at < method_end {
        return Err(ParseError::StartLine);
    }
    let version = &line[version_at + 1..];
    let uri = if version_at == method_end { b"".as_slice() } else { &line[method_end + 1..version_at] };
    // SIP-Version is compared without case (section 7.1); exactly one SP separates the three parts.
    *defect = if trim(version).eq_ignore_ascii_case(b"SIP/2.0") {
        let exact = version.len() == 7 && !uri.is_empty() && uri.iter().all(|&b| is_uri_byte(b));
        (!exact).then_some(Defect::RequestLine)
    } else {
        Some(Defect::Version)
    };
    Ok(StartLine::Request { method: Method::from_token(method), uri: trim(uri) })
}

fn parse_status_line(line: &[u8]) -> Result<StartLine<'_>, ParseError> {
    let rest = match line.get(..8) {
        Some(version) if version.eq_ignore_ascii_case(b"SIP/2.0 ") => &line[8..],
        Some(_) | None => return Err(ParseError::StartLine),
    };
    let (code, reason) = match memchr(b' ', rest) {
        Some(space) => (&rest[..space], &rest[space + 1..]),
        None => (rest, b"".as_slice()),
    };
    match crate::chars::decimal(code) {
        Some(status @ 100..=699) if code.len() == 3 => {
            Ok(StartLine::Response { status: status as u16, reason })
        }
        Some(_) | None => Err(ParseError::Status),
    }
}
