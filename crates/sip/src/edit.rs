//! Edits of a received message: a short list of what to cut and what to put in, applied in one gather-copy.
//!
//! Nothing of the message is re-serialised: what is not edited leaves as it came, byte for byte.

use std::net::SocketAddr;
use std::ops::Range;

use arrayvec::ArrayVec;

use crate::message::{Element, HEADERS_MAX};
use crate::value::{Param, Via};
use crate::{Header, HeaderName, Message, Writer};

/// Enough to remove every other header line of the longest message, and then some.
const SPLICES_MAX: usize = HEADERS_MAX / 2 + 16;
const TEXT_BYTES_MAX: usize = 2048;

/// The edits need more room than there is: too many, or too long.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What a splice does; at one place they stand in this order.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Inserts into a value that ends here.
    Inside,
    /// Inserts a line on top of those that were put here before.
    LineOnTop,
    /// Inserts a line below those that were put here before.
    LineBelow,
    /// Cuts a stretch and may put text in its place.
    Cut,
}

/// Cuts never overlap, and nothing is inserted into a cut: whatever an edit does to text that is or gets cut has no effect.
#[derive(Copy, Clone)]
struct Splice {
    kind: Kind,
    /// What to cut: offsets into the message; empty unless it is a cut.
    start: u16,
    end: u16,
    /// What to put in its place: offsets into `text`.
    text_start: u16,
    text_end: u16,
}

impl Splice {
    fn lies_in(&self, cut: &Splice) -> bool {
        match self.kind {
            Kind::Cut => cut.start <= self.start && self.end <= cut.end,
            // What is inserted at the edge of a cut stays.
            Kind::Inside | Kind::LineOnTop | Kind::LineBelow => {
                cut.start < self.start && self.start < cut.end
            }
        }
    }
}

/// Pending edits of one message.
///
/// Bytes behind the end of the body (Content-Length) do not belong to the message and are left out (RFC 3261 section
/// 18.3). The message should have no [`crate::Defect`]; when it has one, edits still do not panic.
pub struct Edits<'a, 'm> {
    message: &'m Message<'a>,
    /// Where the message ends that is written.
    end: usize,
    splices: ArrayVec<Splice, SPLICES_MAX>,
    text: ArrayVec<u8, TEXT_BYTES_MAX>,
    failed: bool,
    /// How many elements have been taken from the top of Via and Route, and from the end of Route.
    vias_popped: usize,
    routes_popped: usize,
    last_routes_removed: usize,
}

impl<'a, 'm> Edits<'a, 'm> {
    /// No edits yet.
    pub fn new(message: &'m Message<'a>) -> Self {
        Edits {
            message,
            end: message.bytes().len() - message.raw_body().len() + message.body().len(),
            splices: ArrayVec::new(),
            text: ArrayVec::new(),
            failed: false,
            vias_popped: 0,
            routes_popped: 0,
            last_routes_removed: 0,
        }
    }

    /// Puts a new topmost Via line in; `value` in parts.
    pub fn push_via(&mut self, value: &[&[u8]]) {
        self.insert_line(self.message.headers_start(), Kind::LineOnTop, HeaderName::Via.as_str(), value);
    }

    /// Takes the topmost Via away (that of a response which is passed on).
    pub fn pop_via(&mut self) {
        self.vias_popped += usize::from(self.cut_first(HeaderName::Via, self.vias_popped, 0));
    }

    /// Fills in `received` and `rport` of the topmost Via as a server must (RFC 3261 section 18.2.1, RFC 3581
    /// section 4). Values that the message brought along are replaced: they are not its business.
    ///
    /// # Panics
    /// When `via` is not the topmost Via of this message.
    pub fn stamp_via(&mut self, via: &Via<'_>, source: SocketAddr) {
        let rport = via.params.get("rport");
        let received = via.params.get("received");
        let mut buf = [0u8; 64];
        if let Some(rport) = rport {
            let len = Writer::new(&mut buf).put(b"rport=").put_u64(u64::from(source.port())).finish();
            self.replace(self.range_of_param(rport), &[&buf[..len.expect("fits")]]);
        }
        if rport.is_none() && received.is_none() && via.host.ip() == Some(source.ip()) {
            return;
        }
        let len = Writer::new(&mut buf).put(b"received=").put_ip(source.ip(), false).finish();
        let text = &buf[..len.expect("fits")];
        match received {
            Some(received) => self.replace(self.range_of_param(received), &[text]),
            None => {
                let last = if via.params.0.is_empty() { via.sent_by } else { via.params.0 };
                let end = self.message.range_of(last).end;
                self.splice(Kind::Inside, end..end, &[b";", text]);
            }
        }
    }

    /// Puts a Route on top.
    pub fn push_route(&mut self, value: &[&[u8]]) {
        self.push_line(HeaderName::Route, value);
    }

    /// Takes the topmost Route value away.
    pub fn pop_route(&mut self) {
        self.routes_popped +=
            usize::from(self.cut_first(HeaderName::Route, self.routes_popped, self.last_routes_removed));
    }

    /// Takes the last Route value away, when there is one besides those already popped (for a strict router before us).
    pub fn remove_last_route(&mut self) {
        self.last_routes_removed +=
            usize::from(self.cut_last(HeaderName::Route, self.routes_popped, self.last_routes_removed));
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
        self.replace(self.message.range_of(self.message.request_uri()), &[uri]);
    }

    /// Sets a header that carries a number and occurs once, such as Max-Forwards; adds it when absent (then call it once).
    pub fn set_number(&mut self, name: HeaderName, number: u64) {
        let mut digits = [0u8; 20];
        let len = Writer::new(&mut digits).put_u64(number).finish().expect("fits");
        match self.message.first_line(name) {
            Some(h) => self.replace(usize::from(h.value_start)..usize::from(h.value_end), &[&digits[..len]]),
            None => self.add_header(name.as_str().as_bytes(), &[&digits[..len]]),
        }
    }

    /// Adds a header line after all others; `value` in parts.
    pub fn add_header(&mut self, name: &[u8], value: &[&[u8]]) {
        self.insert_line(self.message.headers_end(), Kind::LineBelow, name, value);
    }

    /// Adds a whole header line, its line end included, after all others.
    pub fn add_line(&mut self, line: &[u8]) {
        let end = self.message.headers_end();
        self.splice(Kind::LineBelow, end..end, &[line]);
    }

    /// Replaces a parameter (name and value) of a header value by other text.
    pub fn replace_param(&mut self, param: Param<'_>, text: &[&[u8]]) {
        self.replace(self.range_of_param(param), text);
    }

    /// Removes every line of that name.
    pub fn remove_all(&mut self, name: HeaderName) {
        let message = self.message;
        for h in message.all(name) {
            self.remove_line(h);
        }
    }

    /// Removes one header line.
    pub fn remove_line(&mut self, header: &Header) {
        self.splice(Kind::Cut, usize::from(header.start)..usize::from(header.end), &[]);
    }

    /// The length of the edited message in bytes.
    ///
    /// # Errors
    /// [`TooLong`] when edits did not fit, or the message would pass [`crate::MESSAGE_BYTES_MAX`].
    #[allow(clippy::len_without_is_empty, reason = "no message is empty")]
    pub fn len(&self) -> Result<usize, TooLong> {
        let cut: usize = self.splices.iter().map(|s| usize::from(s.end - s.start)).sum();
        let put: usize = self.splices.iter().map(|s| usize::from(s.text_end - s.text_start)).sum();
        let len = self.end - cut + put;
        if self.failed || len > crate::MESSAGE_BYTES_MAX { Err(TooLong) } else { Ok(len) }
    }

    /// Writes the edited message to the start of `buf` and returns its length.
    ///
    /// # Panics
    /// When `buf` is shorter than [`Edits::len`] says, or that was an error.
    pub fn write(&self, buf: &mut [u8]) -> usize {
        assert!(!self.failed, "edits that did not fit are not written");
        let bytes = &self.message.bytes()[..self.end];
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

    /// Writes one stretch of the message with the edits that fall into it or stand at its end.
    pub(crate) fn write_range(&self, range: Range<usize>, w: &mut Writer<'_>) {
        let bytes = self.message.bytes();
        let mut from = range.start;
        for s in self.splices.iter().filter(|s| range.start <= s.start.into() && range.end >= s.end.into()) {
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
        self.insert_line(at, Kind::LineOnTop, name.as_str(), value);
    }

    fn insert_line(&mut self, at: usize, kind: Kind, name: impl AsRef<[u8]>, value: &[&[u8]]) {
        // A message that was cut off in its headers has no line end to follow.
        let new_line: &[u8] = if self.message.bytes()[..at].ends_with(b"\n") { b"" } else { b"\r\n" };
        let text_start = self.text.len() as u16;
        self.put_text(&[new_line, name.as_ref(), b": "]);
        self.put_text(value);
        self.put_text(&[b"\r\n"]);
        self.place(kind, at..at, text_start);
    }

    /// Cuts the topmost element of a list header, when `top` have been cut before it and `last` at the end; the whole
    /// line when nothing else is left on it. Whether there was one.
    fn cut_first(&mut self, name: HeaderName, top: usize, last: usize) -> bool {
        let message = self.message;
        let mut elements = message.elements(name).skip(top);
        let Some(Element { header, .. }) = elements.next() else {
            return false;
        };
        let left = if last == 0 { 1 } else { 1 + elements.clone().count() };
        if left <= last {
            return false;
        }
        let line = &message.headers()[usize::from(header)];
        let next_stays = last == 0 || left > last + 1;
        match elements.next().filter(|next| next.header == header && next_stays) {
            // From the start of the value on, and so over what was cut before: the cuts become one.
            Some(next) => self.splice(Kind::Cut, usize::from(line.value_start)..usize::from(next.at), &[]),
            None => self.remove_line(line),
        }
        true
    }

    /// The same for the last element.
    fn cut_last(&mut self, name: HeaderName, top: usize, last: usize) -> bool {
        let message = self.message;
        let left = message.elements(name).count().saturating_sub(top + last);
        if left == 0 {
            return false;
        }
        let mut elements = message.elements(name).skip(top + left.saturating_sub(2));
        let before = if left > 1 { elements.next() } else { None };
        let Element { header, .. } = elements.next().expect("counted");
        let line = &message.headers()[usize::from(header)];
        match before.filter(|before| before.header == header) {
            Some(before) => {
                let end = usize::from(before.at) + before.text.len();
                self.splice(Kind::Cut, end..usize::from(line.value_end), &[]);
            }
            None => self.remove_line(line),
        }
        true
    }

    fn range_of_param(&self, param: Param<'_>) -> Range<usize> {
        let name = self.message.range_of(param.name);
        name.start..param.value.map_or(name.end, |value| self.message.range_of(value).end)
    }

    fn replace(&mut self, range: Range<usize>, parts: &[&[u8]]) {
        self.splice(Kind::Cut, range, parts);
    }

    fn splice(&mut self, kind: Kind, range: Range<usize>, parts: &[&[u8]]) {
        let text_start = self.text.len() as u16;
        self.put_text(parts);
        self.place(kind, range, text_start);
    }

    fn put_text(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.failed |= self.text.try_extend_from_slice(part).is_err();
        }
    }

    /// Takes a splice in whose text reaches from `text_start` to the end of the text.
    fn place(&mut self, kind: Kind, range: Range<usize>, text_start: u16) {
        let new = Splice {
            kind,
            start: range.start as u16,
            end: range.end as u16,
            text_start,
            text_end: self.text.len() as u16,
        };
        if self.splices.iter().any(|s| s.kind == Kind::Cut && new.lies_in(s) && !s.lies_in(&new)) {
            return;
        }
        match kind {
            Kind::Cut => self.splices.retain(|s| !s.lies_in(&new)),
            // Only a stamp goes there, and a second one replaces the first.
            Kind::Inside => self.splices.retain(|s| (s.kind, s.start) != (kind, new.start)),
            Kind::LineOnTop | Kind::LineBelow => {}
        }
        let on_top = kind == Kind::LineOnTop;
        let key = |s: &Splice| (s.start, s.kind);
        let at = self.splices.partition_point(|s| key(s) < key(&new) || (!on_top && key(s) == key(&new)));
        self.failed |= self.splices.try_insert(at, new).is_err();
        assert!(self.splices.is_sorted_by(|a, b| a.end <= b.start), "splices do not overlap");
    }
}
