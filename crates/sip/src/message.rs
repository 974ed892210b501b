//! One pass over a message: start line, header spans, body. Values stay unparsed.

use std::ops::Range;

use arrayvec::ArrayVec;
use memchr::{memchr, memrchr};

use crate::chars::{is_lws, is_token, trim};
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
    /// Bit n is set when the header name with number n stands on more than one line.
    repeated: u64,
    /// Past the first line.
    headers_start: u16,
    /// Where the empty line starts.
    headers_end: u16,
    body_start: u16,
    defect: Option<Defect>,
}

const _: () = assert!(HeaderName::COUNT <= 64, "a bit for each name");

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
        let (line, at) = line_at(bytes, lead);
        let (start, defect) = parse_start_line(line)?;
        // One variable from here to the return: a message is 1.4 kB, and is made where the caller wants it.
        let mut parsed = Ok(Message {
            bytes,
            start,
            headers: ArrayVec::new(),
            first: [ABSENT; HeaderName::COUNT],
            repeated: 0,
            headers_start: at as u16,
            headers_end: bytes.len() as u16,
            body_start: bytes.len() as u16,
            defect,
        });
        if let Ok(message) = &mut parsed
            && let Err(error) = message.add_headers(at)
        {
            parsed = Err(error);
        }
        parsed
    }

    /// Takes in everything from the first header line to the empty line.
    fn add_headers(&mut self, mut at: usize) -> Result<(), ParseError> {
        loop {
            match self.bytes.get(at..) {
                None | Some([]) => {
                    self.note(Defect::NoEndOfHeaders);
                    return Ok(());
                }
                Some([b'\n', ..] | [b'\r', b'\n', ..]) => {
                    self.headers_end = at as u16;
                    self.body_start = at as u16 + if self.bytes[at] == b'\n' { 1 } else { 2 };
                    return Ok(());
                }
                Some([b' ' | b'\t', ..]) => at = self.add_fold(at),
                Some(_) => at = self.add_line(at)?,
            }
        }
    }

    /// Takes in the header line that starts at `at` and returns where the next line starts.
    fn add_line(&mut self, at: usize) -> Result<usize, ParseError> {
        let (line, next) = line_at(self.bytes, at);
        let Some(colon) = line.iter().position(|&b| b == b':') else {
            self.note(Defect::HeaderLine);
            return Ok(next);
        };
        let mut name = &line[..colon];
        while let [rest @ .., b' ' | b'\t'] = name {
            name = rest;
        }
        let known = HeaderName::from_bytes(name);
        if known == HeaderName::Other && !is_token(name) {
            self.note(Defect::HeaderLine);
            return Ok(next);
        }
        // An empty value lies at the end of its line, where a fold may still put something.
        let value = trim(&line[colon + 1..]);
        let value_start = offset_in(self.bytes, value);
        match self.first[known as usize] {
            ABSENT => self.first[known as usize] = self.headers.len() as u8,
            _ => self.repeated |= 1 << known as u8,
        }
        let header = Header {
            name: known,
            start: at as u16,
            value_start: value_start as u16,
            value_end: (value_start + value.len()) as u16,
            end: next as u16,
        };
        self.headers.try_push(header).map_err(|_| ParseError::TooManyHeaders)?;
        Ok(next)
    }

    /// Takes in a line that starts with white space: it continues the header before it (section 7.3.1).
    fn add_fold(&mut self, at: usize) -> usize {
        let (line, next) = line_at(self.bytes, at);
        let text = trim(line);
        match self.headers.last_mut() {
            Some(header) if usize::from(header.end) == at => {
                if !text.is_empty() {
                    let from = offset_in(self.bytes, text);
                    if header.value_start == header.value_end {
                        header.value_start = from as u16;
                    }
                    header.value_end = (from + text.len()) as u16;
                }
                header.end = next as u16;
            }
            Some(_) | None => self.note(Defect::HeaderLine),
        }
        next
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
        trim(&line[..colon])
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

    /// Whether a header stands on more than one line.
    pub fn is_repeated(&self, name: HeaderName) -> bool {
        self.repeated >> name as u8 & 1 == 1
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
    pub fn elements(&self, name: HeaderName) -> impl Iterator<Item = Element<'a>> + Clone + '_ {
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
        self.headers_start as usize
    }

    /// Where a new last header goes: before the empty line.
    pub(crate) fn headers_end(&self) -> usize {
        self.headers_end as usize
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

/// The offset of `part` in `whole`.
///
/// # Panics
/// When `part` is not a subslice of `whole`.
pub(crate) fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    let offset = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    assert!(offset.checked_add(part.len()).is_some_and(|end| end <= whole.len()), "a part of this message");
    offset
}

fn parse_start_line(line: &[u8]) -> Result<(StartLine<'_>, Option<Defect>), ParseError> {
    if line.len() >= 4 && line[..4].eq_ignore_ascii_case(b"SIP/") {
        return Ok((parse_status_line(line)?, None));
    }
    let method_end = memchr(b' ', line).ok_or(ParseError::StartLine)?;
    let method = &line[..method_end];
    if !is_token(method) {
        return Err(ParseError::StartLine);
    }
    let exact = &line[..line.len() - line.iter().rev().take_while(|&&b| is_lws(b)).count()];
    let version_at = memrchr(b' ', exact).ok_or(ParseError::StartLine)? + 1;
    let version = &exact[version_at..];
    if version.len() < 4 || !version[..4].eq_ignore_ascii_case(b"SIP/") {
        return Err(ParseError::StartLine);
    }
    let middle = &line[(method_end + 1).min(version_at - 1)..version_at - 1];
    let uri = trim(middle);
    // SIP-Version is compared without case (section 7.1); exactly one SP separates the three parts.
    let defect = if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        Some(Defect::Version)
    } else if exact.len() != line.len() || uri.is_empty() || middle.iter().any(|&b| is_lws(b)) {
        Some(Defect::RequestLine)
    } else {
        None
    };
    Ok((StartLine::Request { method: Method::from_token(method), uri }, defect))
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
