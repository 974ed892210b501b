//! What must hold for any bytes whatever: nothing panics, edits do what a simple model of a message says, and a reply
//! mirrors its request. The property tests, the mutation test and the fuzz target all end here.

#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use busyhour_sip::value::{
    CSeq, Challenge, Credentials, Ha1, Host, NameAddr, Params, Uri, Via, delta_seconds, quoted_text,
    split_list, unescape,
};
use busyhour_sip::{
    Edits, Element, Essentials, HeaderName, MESSAGE_BYTES_MAX, Message, Reply, StartLine, TooLong, Writer,
};

/// The headers that hold lists and are edited.
const LISTS: [HeaderName; 4] =
    [HeaderName::Via, HeaderName::Route, HeaderName::RecordRoute, HeaderName::Path];

/// What may be removed as a whole.
const REMOVED: [HeaderName; 6] = [
    HeaderName::Route,
    HeaderName::ProxyAuthorization,
    HeaderName::MaxForwards,
    HeaderName::Contact,
    HeaderName::Other,
    HeaderName::Via,
];

/// Parses `bytes`, asks for everything, edits as `script` says (a byte each) and replies.
pub(crate) fn exercise(bytes: &[u8], script: &[u8]) {
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    look_at_everything(&message);
    check_edits(&message, script);
    check_reply(&message);
}

fn look_at_everything(message: &Message<'_>) {
    let essentials = Essentials::of(message);
    if let Ok(e) = &essentials {
        assert!(message.defect().is_none());
        assert_eq!(e.request_uri.is_some(), message.method().is_some());
    }
    assert!(message.body().len() <= message.raw_body().len());
    parse_value(message.request_uri());
    for h in message.headers() {
        let line = message.line_of(h);
        assert!(line.starts_with(message.name_of(h)));
        assert!(!message.name_of(h).is_empty());
        assert_eq!(HeaderName::from_bytes(message.name_of(h)), h.name);
        let value = message.value_of(h);
        assert!(is_trimmed(value));
        assert!(message.has(h.name));
        assert_eq!(message.is_repeated(h.name), message.all(h.name).nth(1).is_some());
        parse_value(value);
        if h.name != HeaderName::Other {
            assert_eq!(
                message.value(h.name),
                message.all(h.name).next().map(|first| message.value_of(first))
            );
        }
    }
    for name in LISTS.into_iter().chain([HeaderName::Contact, HeaderName::Other]) {
        for Element { text, .. } in message.elements(name) {
            assert!(!text.is_empty());
            parse_value(text);
        }
    }
}

fn is_trimmed(s: &[u8]) -> bool {
    let lws = |b: Option<&u8>| b.is_some_and(|b| b" \t\r\n".contains(b));
    !lws(s.first()) && !lws(s.last())
}

/// Every value parser on one value.
pub(crate) fn parse_value(value: &[u8]) {
    if let Ok(via) = Via::parse(value) {
        let _ = (via.branch(), via.cookie_branch(), via.wants_rport(), via.response_addr());
        assert!(via.response_addr().is_none_or(|a| a.port() > 0));
    }
    if let Ok(address) = NameAddr::parse(value) {
        let _ = (address.tag(), address.parse_uri());
    }
    for text in [Some(value), NameAddr::parse(value).ok().map(|a| a.uri)].into_iter().flatten() {
        if let Ok(uri) = Uri::parse(text) {
            assert!(uri.equivalent(&uri));
            if let Some(sip) = uri.sip() {
                let _ =
                    (sip.socket_addr(), sip.port_or_default(), sip.is_loose_router(), sip.param("transport"));
                let _ = sip.user.map(unescape::<64>);
            }
        }
    }
    let ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };
    if let Ok(credentials) = Credentials::parse(value) {
        assert!(!credentials.verify(&ha1, b"REGISTER"), "nobody guesses a digest");
    }
    if let Some(challenge) = Challenge::parse(value) {
        let mut buf = [0; 512];
        challenge.write(&mut Writer::new(&mut buf));
        if challenge.algorithm.is_some() {
            challenge.write_credentials(&mut Writer::new(&mut buf), b"u", &ha1, b"REGISTER", b"sip:h", 1, 2);
        }
    }
    assert!(split_list(value).all(|e| !e.is_empty() && is_trimmed(e)));
    let _ = (CSeq::parse(value), Host::parse_with_port(value), delta_seconds(value), quoted_text(value));
    let params = Params(value);
    if params.check().is_ok() {
        assert!(params.iter().all(
            |p| !p.name.is_empty() && params.get(std::str::from_utf8(p.name).expect("a token")).is_some()
        ));
    }
}

/// A message as the model sees it: what was pushed on top of each list, what is gone, what was added.
struct Model<'m, 'a> {
    message: &'m Message<'a>,
    /// The values pushed onto each of `LISTS`, the newest first.
    pushed: [Vec<Vec<u8>>; 4],
    /// How many elements of each were popped from the top.
    popped: [usize; 4],
    last_routes_removed: usize,
    removed_lines: BTreeSet<usize>,
    stamped: Option<SocketAddr>,
    uri: Vec<u8>,
    max_forwards: Option<u64>,
    added: Vec<Vec<u8>>,
}

impl<'m, 'a> Model<'m, 'a> {
    fn new(message: &'m Message<'a>) -> Self {
        Model {
            message,
            pushed: Default::default(),
            popped: [0; 4],
            last_routes_removed: 0,
            removed_lines: BTreeSet::new(),
            stamped: None,
            uri: message.request_uri().to_vec(),
            max_forwards: None,
            added: Vec::new(),
        }
    }

    fn elements(&self, list: usize) -> Vec<Element<'a>> {
        self.message.elements(LISTS[list]).collect()
    }

    fn last_removed(&self, list: usize) -> usize {
        if LISTS[list] == HeaderName::Route { self.last_routes_removed } else { 0 }
    }

    /// The received elements that are left, with the index of each among all.
    fn left(&self, list: usize) -> Vec<(usize, Element<'a>)> {
        let elements = self.elements(list);
        let end = elements.len() - self.last_removed(list);
        let left = elements.into_iter().enumerate().take(end).skip(self.popped[list]);
        left.filter(|(_, e)| !self.removed_lines.contains(&self.line_of(e))).collect()
    }

    fn line_of(&self, element: &Element<'_>) -> usize {
        let lies_in = |line: &[u8]| line.as_ptr_range().contains(&element.text.as_ptr());
        self.message.headers().iter().position(|h| lies_in(self.message.line_of(h))).expect("lies on a line")
    }

    fn remove_all(&mut self, name: HeaderName) {
        let lines = self.message.headers().iter().enumerate().filter(|(_, h)| h.name == name);
        self.removed_lines.extend(lines.map(|(i, _)| i));
    }

    /// Does one edit and notes what it should do.
    fn apply(&mut self, op: u8, number: usize, edits: &mut Edits<'a, 'm>) {
        let value = format!("<sip:192.0.2.{number};edit>");
        let value = value.as_bytes();
        match op % 13 {
            0 => {
                let via = format!("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKedit{number}");
                edits.push_via(&[&via.as_bytes()[..20], &via.as_bytes()[20..]]);
                self.pushed[0].insert(0, via.into_bytes());
            }
            1 => {
                edits.pop_via();
                self.popped[0] = (self.popped[0] + 1).min(self.elements(0).len());
            }
            2 => {
                edits.push_route(&[value]);
                self.pushed[1].insert(0, value.to_vec());
            }
            3 => {
                edits.pop_route();
                self.popped[1] +=
                    usize::from(self.popped[1] + self.last_routes_removed < self.elements(1).len());
            }
            4 => {
                edits.remove_last_route();
                self.last_routes_removed +=
                    usize::from(self.popped[1] + self.last_routes_removed < self.elements(1).len());
            }
            5 => {
                edits.push_record_route(&[value]);
                self.pushed[2].insert(0, value.to_vec());
            }
            6 => {
                edits.push_path(&[value]);
                self.pushed[3].insert(0, value.to_vec());
            }
            7 => {
                let source =
                    if number.is_multiple_of(2) { "192.0.2.77:1077" } else { "[2001:db8::77]:65535" };
                let source = source.parse().expect("an address");
                if let Ok(via) = self.message.top_via() {
                    edits.stamp_via(&via, source);
                    self.stamped = Some(source);
                }
            }
            8 => {
                if self.message.method().is_some() {
                    self.uri = format!("sip:edit{number}@192.0.2.1").into_bytes();
                    edits.set_request_uri(&self.uri);
                }
            }
            9 => {
                if self.message.has(HeaderName::MaxForwards) {
                    self.max_forwards = Some(number as u64);
                    edits.set_number(HeaderName::MaxForwards, number as u64);
                }
            }
            10 => {
                let name = REMOVED[number % REMOVED.len()];
                edits.remove_all(name);
                self.remove_all(name);
            }
            11 => {
                edits.add_header(b"Edit", &[b"a", b"", value]);
                self.added.push([b"Edit: a", value, b"\r\n"].concat());
            }
            _ => {
                if let Some(h) = self.message.headers().get(number % (self.message.headers().len() + 1)) {
                    edits.remove_line(h);
                    self.removed_lines.insert(number % (self.message.headers().len() + 1));
                }
            }
        }
    }

    fn check(&self, written: &[u8]) {
        let (before, after) = (self.message, Message::parse(written).expect("still a message"));
        assert_eq!(after.defect(), None);
        match (before.start(), after.start()) {
            (StartLine::Request { method: m, .. }, StartLine::Request { method: n, uri }) => {
                assert_eq!((m, self.uri.as_slice()), (n, uri));
            }
            (b, a) => assert_eq!(b, a),
        }
        assert_eq!(after.raw_body(), before.body());
        for list in 0..4 {
            self.check_list(list, &after);
        }
        self.check_lines(&after);
    }

    fn check_list(&self, list: usize, after: &Message<'_>) {
        let found: Vec<&[u8]> = after.elements(LISTS[list]).map(|e| e.text).collect();
        let pushed = &self.pushed[list];
        assert_eq!(&found[..pushed.len()], pushed.as_slice());
        let left = self.left(list);
        assert_eq!(found.len() - pushed.len(), left.len());
        for ((index, element), found) in left.iter().zip(&found[pushed.len()..]) {
            match self.stamped {
                Some(source) if list == 0 && *index == 0 => check_stamp(element.text, found, source),
                Some(_) | None => assert_eq!(element.text, *found),
            }
        }
    }

    /// Every line that was not edited is there, in order and as it was; every other line is one that was put in.
    fn check_lines(&self, after: &Message<'_>) {
        let mut put: Vec<Vec<u8>> = self.added.clone();
        for (values, name) in self.pushed.iter().zip(LISTS) {
            put.extend(values.iter().map(|v| [name.as_str().as_bytes(), b": ", v, b"\r\n"].concat()));
        }
        let mut found: Vec<&[u8]> = after.headers().iter().map(|h| after.line_of(h)).collect();
        for line in put {
            let at = found.iter().position(|f| *f == line).expect("the line that was put in");
            found.remove(at);
        }
        let mut found = found.into_iter();
        let first_number = self.message.headers().iter().position(|h| h.name == HeaderName::MaxForwards);
        for (index, h) in self.message.headers().iter().enumerate() {
            let mut touched = false;
            if let Some(list) = LISTS.iter().position(|l| *l == h.name) {
                let all = self.elements(list);
                let on_line = all.iter().filter(|e| self.line_of(e) == index).count();
                let left = self.left(list);
                let left_on_line = left.iter().filter(|(_, e)| self.line_of(e) == index).count();
                if on_line > 0 && left_on_line == 0 {
                    continue;
                }
                let stamped = self.stamped.is_some()
                    && list == 0
                    && all.first().is_some_and(|e| self.line_of(e) == index);
                touched = left_on_line < on_line || stamped;
            }
            if self.removed_lines.contains(&index) {
                continue;
            }
            let line = found.next().expect("a line that was not removed");
            if let Some(number) = self.max_forwards.filter(|_| Some(index) == first_number) {
                let m = [&after.bytes()[..0], line].concat();
                assert!(m.trim_ascii_end().ends_with(number.to_string().as_bytes()));
            } else if !touched {
                assert_eq!(line, self.message.line_of(h));
            }
        }
        assert_eq!(found.next(), None);
    }
}

/// A Via after `received` and `rport` were filled in: RFC 3261 section 18.2.1 and RFC 3581 section 4.
fn check_stamp(before: &[u8], after: &[u8], source: SocketAddr) {
    let (before, after) = (Via::parse(before).expect("stamped"), Via::parse(after).expect("still a Via"));
    assert_eq!((before.transport, before.sent_by), (after.transport, after.sent_by));
    assert_eq!(before.wants_rport(), after.wants_rport());
    let is = |name: &[u8], what: &str| name.eq_ignore_ascii_case(what.as_bytes());
    let others = |via: &Via<'_>| -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let own = |name: &[u8]| is(name, "received") || is(name, "rport");
        let params = via.params.iter().filter(|p| !own(p.name));
        params.map(|p| (p.name.to_vec(), p.value.map(<[u8]>::to_vec))).collect()
    };
    assert_eq!(others(&before), others(&after));
    if after.wants_rport() {
        assert_eq!(after.params.value("rport"), Some(source.port().to_string().as_bytes()));
    }
    let received = after.params.value("received");
    assert!(received.is_some() || (before.host.ip() == Some(source.ip()) && !before.wants_rport()));
    assert!(received.is_none_or(|r| r == source.ip().to_string().as_bytes()));
}

fn check_edits(message: &Message<'_>, script: &[u8]) {
    let mut edits = Edits::new(message);
    let mut model = Model::new(message);
    for (number, &op) in script.iter().take(24).enumerate() {
        model.apply(op, number, &mut edits);
    }
    let len = match edits.len() {
        Ok(len) => len,
        Err(TooLong) => return,
    };
    let written = edits.to_vec().expect("it has a length");
    let mut buf = vec![0; len];
    assert_eq!(edits.write(&mut buf), len);
    assert_eq!(buf, written);
    if message.defect().is_none() {
        model.check(&written);
    }
}

fn check_reply(message: &Message<'_>) {
    if message.method().is_none() {
        return;
    }
    let source: SocketAddr = "192.0.2.77:1077".parse().expect("an address");
    let mut buf = vec![0; MESSAGE_BYTES_MAX];
    let reply = Reply::new(message, 480).to_tag(b"replytag").source(source).record_route();
    let Some(len) = reply.write(&mut buf, |w| {
        w.put(b"Retry-After: 5\r\n");
    }) else {
        return;
    };
    let reply = Message::parse(&buf[..len]).expect("a reply is a message");
    assert_eq!((reply.status(), reply.defect(), reply.body()), (Some(480), None, b"".as_slice()));
    for name in [HeaderName::From, HeaderName::CallId, HeaderName::CSeq] {
        assert_eq!(reply.value(name), message.value(name));
        assert!(!reply.is_repeated(name));
    }
    for name in [HeaderName::Via, HeaderName::RecordRoute] {
        let texts = |m: &Message<'_>| m.elements(name).map(|e| e.text.to_vec()).collect::<Vec<_>>();
        let (mut before, mut after) = (texts(message), texts(&reply));
        if name == HeaderName::Via && !before.is_empty() {
            let (before, after) = (before.remove(0), after.remove(0));
            if Via::parse(&before).is_ok() {
                check_stamp(&before, &after, source);
            } else {
                assert_eq!(before, after);
            }
        }
        assert_eq!(before, after);
    }
    if let Ok(request) = Essentials::of(message) {
        let essentials = Essentials::of(&reply).expect("a good request makes a good reply");
        assert_eq!((essentials.to.uri, essentials.cseq), (request.to.uri, request.cseq));
        let tag = if request.to.params.get("tag").is_some() {
            request.to.tag()
        } else {
            Some(b"replytag".as_slice())
        };
        assert_eq!(essentials.to.tag(), tag);
    }
}
