//! Edits of a received message: a short list of what to cut and what to put in, applied in one gather-copy.
//!
//! Nothing of the message is re-serialised: what is not edited leaves as it came, byte for byte.

use std::net::SocketAddr;

use arrayvec::ArrayVec;

use crate::message::Element;
use crate::value::Via;
use crate::{HeaderName, Message, Writer};

const SPLICES_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 2048;

/// The edits need more room than there is: too many, or too long.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TooLong;

#[derive(Copy, Clone)]
struct Splice {
    /// What to cut: offsets into the message.
    start: u16,
    end: u16,
    /// What to put in its place: offsets into `text`.
    text_start: u16,
    text_end: u16,
}

/// Pending edits of one message.
pub struct Edits<'a, 'm> {
    message: &'m Message<'a>,
    splices: ArrayVec<Splice, SPLICES_MAX>,
    text: ArrayVec<u8, TEXT_BYTES_MAX>,
    failed: bool,
    /// How many elements of Via and of Route have been taken from the top.
    vias_popped: usize,
    routes_popped: usize,
}

impl<'a, 'm> Edits<'a, 'm> {
    /// No edits yet.
    pub fn new(message: &'m Message<'a>) -> Self {
        Edits {
            message,
            splices: ArrayVec::new(),
            text: ArrayVec::new(),
            failed: false,
            vias_popped: 0,
            routes_popped: 0,
        }
    }

    /// Puts a new topmost Via line in; `value` in parts.
    pub fn push_via(&mut self, value: &[&[u8]]) {
        self.insert_line(self.message.headers_start(), HeaderName::Via, value);
    }

    /// Takes the topmost Via away (that of a response which is passed on).
    pub fn pop_via(&mut self) {
        self.pop_element(HeaderName::Via, self.vias_popped);
        self.vias_popped += 1;
    }

    /// Fills in `received` and `rport` of the topmost Via as a server must (RFC 3261 section 18.2.1, RFC 3581
    /// section 4). Values that the message brought along are replaced: they are not its business.
    pub fn stamp_via(&mut self, via: &Via<'_>, source: SocketAddr) {
        let rport = via.params.get("rport");
        let received = via.params.get("received");
        let wants_received = rport.is_some() || via.host.ip() != Some(source.ip()) || received.is_some();
        let mut buf = [0u8; 64];
        if let Some(rport) = rport {
            let mut w = Writer::new(&mut buf);
            w.put(b"rport=").put_u64(u64::from(source.port()));
            let len = w.finish().expect("fits");
            let start = self.message.range_of(rport.name).start;
            let end = self.message.range_of(rport.value.unwrap_or(rport.name)).end;
            self.splice(start, end, &[&buf[..len]]);
        }
        if wants_received {
            let mut w = Writer::new(&mut buf);
            let at = match received {
                Some(p) => {
                    w.put(b"received=");
                    self.message.range_of(p.name).start..self.message.range_of(p.value.unwrap_or(p.name)).end
                }
                None => {
                    w.put(b";received=");
                    let last = if via.params.0.is_empty() { via.sent_by } else { via.params.0 };
                    let end = self.message.range_of(last).end;
                    end..end
                }
            };
            w.put_ip(source.ip(), false);
            let len = w.finish().expect("fits");
            self.splice(at.start, at.end, &[&buf[..len]]);
        }
    }

    /// Puts a Route on top.
    pub fn push_route(&mut self, value: &[&[u8]]) {
        self.push_line(HeaderName::Route, value);
    }

    /// Takes the topmost Route value away.
    pub fn pop_route(&mut self) {
        self.pop_element(HeaderName::Route, self.routes_popped);
        self.routes_popped += 1;
    }

    /// Takes the last Route value away, when there is one besides those already popped (for a strict router before us).
    pub fn remove_last_route(&mut self) {
        let count = self.message.elements(HeaderName::Route).count();
        if count > self.routes_popped {
            self.pop_element(HeaderName::Route, count - 1);
        }
    }

    /// Puts a Record-Route on top.
    pub fn push_record_route(&mut self, value: &[&[u8]]) {
        self.push_line(HeaderName::RecordRoute, value);
    }

    /// Puts a Path on top (RFC 3327).
    pub fn push_path(&mut self, value: &[&[u8]]) {
        self.push_line(HeaderName::Path, value);
    }

    /// Replaces the Request-URI.
    ///
    /// # Panics
    /// When the message is a response.
    pub fn set_request_uri(&mut self, uri: &[u8]) {
        assert!(self.message.method().is_some(), "a response has no Request-URI");
        let at = self.message.range_of(self.message.request_uri());
        self.splice(at.start, at.end, &[uri]);
    }

    /// Sets a header that carries a number and occurs once, such as Max-Forwards; adds it when absent.
    pub fn set_number(&mut self, name: HeaderName, number: u64) {
        let mut digits = [0u8; 20];
        let mut w = Writer::new(&mut digits);
        w.put_u64(number);
        let len = w.finish().expect("fits");
        match self.message.first_line(name) {
            Some(h) => self.splice(h.value_start as usize, h.value_end as usize, &[&digits[..len]]),
            None => self.add_header(name.as_str().as_bytes(), &[&digits[..len]]),
        }
    }

    /// Adds a header line after all others; `value` in parts.
    pub fn add_header(&mut self, name: &[u8], value: &[&[u8]]) {
        let at = self.message.headers_end();
        let mut parts: ArrayVec<&[u8], 16> = ArrayVec::new();
        parts.push(name);
        parts.push(b": ");
        if parts.try_extend_from_slice(value).is_err() || parts.try_push(b"\r\n").is_err() {
            self.failed = true;
            return;
        }
        self.splice(at, at, &parts);
    }

    /// Removes every line of that name.
    pub fn remove_all(&mut self, name: HeaderName) {
        let message = self.message;
        for h in message.all(name) {
            self.splice(h.start as usize, h.end as usize, &[]);
        }
    }

    /// Adds a whole header line, its line end included, after all others.
    pub fn add_line(&mut self, line: &[u8]) {
        let at = self.message.headers_end();
        self.splice(at, at, &[line]);
    }

    /// Replaces a parameter (name and value) of a header value by other text.
    pub fn replace_param(&mut self, param: &crate::value::Param<'_>, text: &[&[u8]]) {
        let start = self.message.range_of(param.name).start;
        let end = self.message.range_of(param.value.unwrap_or(param.name)).end;
        self.splice(start, end, text);
    }

    /// Removes one header line.
    pub fn remove_line(&mut self, header: &crate::Header) {
        self.splice(header.start as usize, header.end as usize, &[]);
    }

    /// The length of the edited message in bytes.
    ///
    /// # Errors
    /// [`TooLong`] when edits did not fit, or the message would pass [`crate::MESSAGE_BYTES_MAX`].
    pub fn len(&self) -> Result<usize, TooLong> {
        let cut: usize = self.splices.iter().map(|s| usize::from(s.end - s.start)).sum();
        let len = self.message.bytes().len() - cut + self.text.len();
        if self.failed || len > crate::MESSAGE_BYTES_MAX { Err(TooLong) } else { Ok(len) }
    }

    /// Writes the edited message to the start of `buf` and returns its length.
    ///
    /// # Panics
    /// When `buf` is shorter than [`Edits::len`] says, or that was an error.
    pub fn write(&self, buf: &mut [u8]) -> usize {
        let bytes = self.message.bytes();
        let (mut from, mut to) = (0usize, 0usize);
        let mut put = |part: &[u8]| {
            buf[to..to + part.len()].copy_from_slice(part);
            to += part.len();
        };
        for s in &self.splices {
            put(&bytes[from..s.start as usize]);
            put(&self.text[s.text_start as usize..s.text_end as usize]);
            from = s.end as usize;
        }
        put(&bytes[from..]);
        to
    }

    /// Writes one stretch of the message with the edits that fall into it.
    pub(crate) fn write_range(&self, range: std::ops::Range<usize>, w: &mut Writer<'_>) {
        let bytes = self.message.bytes();
        let mut from = range.start;
        for s in self.splices.iter().filter(|s| range.contains(&(s.start as usize))) {
            w.put(&bytes[from..s.start as usize]).put(&self.text[s.text_start as usize..s.text_end as usize]);
            from = s.end as usize;
        }
        w.put(&bytes[from..range.end]);
    }

    /// The edited message as a vector, for what is kept.
    ///
    /// # Errors
    /// [`TooLong`] as for [`Edits::len`].
    pub fn to_vec(&self) -> Result<Vec<u8>, TooLong> {
        let mut v = vec![0; self.len()?];
        self.write(&mut v);
        Ok(v)
    }

    /// Inserts before the first line of that name, or after the Via lines when there is none.
    fn push_line(&mut self, name: HeaderName, value: &[&[u8]]) {
        let at = match self.message.first_line(name) {
            Some(h) => h.start as usize,
            None => self
                .message
                .all(HeaderName::Via)
                .last()
                .map_or(self.message.headers_start(), |h| h.end as usize),
        };
        self.insert_line(at, name, value);
    }

    fn insert_line(&mut self, at: usize, name: HeaderName, value: &[&[u8]]) {
        let mut parts: ArrayVec<&[u8], 16> = ArrayVec::new();
        parts.push(name.as_str().as_bytes());
        parts.push(b": ");
        if parts.try_extend_from_slice(value).is_err() || parts.try_push(b"\r\n").is_err() {
            self.failed = true;
            return;
        }
        self.splice(at, at, &parts);
    }

    /// Cuts the `index`th element of a list header: the whole line when nothing else is left on it.
    fn pop_element(&mut self, name: HeaderName, index: usize) {
        let message = self.message;
        let mut elements = message.elements(name).skip(index);
        let Some(Element { at, header, text }) = elements.next() else {
            return;
        };
        let line = message.headers()[header as usize];
        let next = elements.next().filter(|e| e.header == header);
        let first_of_line = message.elements(name).find(|e| e.header == header).is_some_and(|e| e.at == at);
        // Elements are popped from the top or from the end, so what is before `at` on its line is gone or stays whole.
        let popped_before = !first_of_line && index > 0 && self.cut_at(line.value_start as usize);
        match next {
            Some(next) => self.splice(at as usize, next.at as usize, &[]),
            None if first_of_line => self.splice(line.start as usize, line.end as usize, &[]),
            None if popped_before => {
                self.splices.retain(|s| !(s.start >= line.value_start && s.end <= line.end));
                self.splice(line.start as usize, line.end as usize, &[]);
            }
            None => {
                // The last of several: the comma before it goes, too.
                let before = &message.bytes()[line.value_start as usize..at as usize];
                let comma = before
                    .iter()
                    .rposition(|&b| b == b',')
                    .map_or(at as usize, |i| line.value_start as usize + i);
                self.splice(comma, at as usize + text.len(), &[]);
            }
        }
    }

    fn cut_at(&self, offset: usize) -> bool {
        self.splices.iter().any(|s| s.start as usize == offset && s.end > s.start)
    }

    fn splice(&mut self, start: usize, end: usize, parts: &[&[u8]]) {
        let text_start = self.text.len() as u16;
        for part in parts {
            if self.text.try_extend_from_slice(part).is_err() {
                self.failed = true;
                return;
            }
        }
        let splice =
            Splice { start: start as u16, end: end as u16, text_start, text_end: self.text.len() as u16 };
        // Sorted by place; at one place insertions come before a cut, and a later insertion of a line comes on top.
        let key = |s: &Splice| (s.start, s.end > s.start);
        let at = self.splices.iter().position(|s| key(s) >= key(&splice)).unwrap_or(self.splices.len());
        if self.splices.try_insert(at, splice).is_err() {
            self.failed = true;
        }
    }
}
