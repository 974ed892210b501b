//! SIP by hand, for what no scenario of SIPp can say: single datagrams, out of order, repeated, or not SIP at all.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::up::DOMAIN;

/// How long an answer may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A user agent that sends what it is told.
pub(crate) struct Phone {
    socket: UdpSocket,
    pub(crate) address: SocketAddr,
}

/// A message that a phone has received.
#[derive(Clone, Debug)]
pub(crate) struct Heard(pub(crate) String);

impl Phone {
    pub(crate) fn at(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).expect("an address of its own");
        let address = socket.local_addr().expect("it is bound");
        Phone { socket, address }
    }

    pub(crate) fn send(&self, to: SocketAddr, bytes: impl AsRef<[u8]>) {
        self.socket.send_to(bytes.as_ref(), to).expect("loopback takes every datagram");
    }

    /// The next message, if one comes in time.
    pub(crate) fn hear(&self, patience: Duration) -> Option<Heard> {
        let mut buf = vec![0; 65_536];
        self.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).expect("not zero");
        match self.socket.recv_from(&mut buf) {
            Ok((len, _)) => Some(Heard(String::from_utf8_lossy(&buf[..len]).into_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
            Err(error) => panic!("{}: {error}", self.address),
        }
    }

    /// The next message for which this holds; others are passed over.
    #[track_caller]
    pub(crate) fn hear_that(&self, what: &str, mut wanted: impl FnMut(&Heard) -> bool) -> Heard {
        let until = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        while let Some(heard) = self.hear(until.saturating_duration_since(Instant::now())) {
            if wanted(&heard) {
                return heard;
            }
            others.push(heard.first_line().to_owned());
        }
        panic!("{}: no {what}, but {others:?}", self.address)
    }

    /// Sends a request and returns its final response.
    #[track_caller]
    pub(crate) fn ask(&self, to: SocketAddr, request: &str) -> Heard {
        self.send(to, request);
        let cseq = header_of(request, "CSeq").expect("a request has a CSeq").to_owned();
        self.hear_that(&format!("response to\n{request}"), |h| {
            h.status().is_some_and(|s| s >= 200) && h.header("CSeq") == Some(&cseq)
        })
    }

    /// A request of this phone. `more` holds header lines, each with its line end.
    pub(crate) fn request(&self, method: &str, uri: &str, call_id: &str, cseq: u32, more: &str) -> String {
        let from =
            if more.contains("From: ") { String::new() } else { self.party("From", "phone", ";tag=1") };
        let to = if more.contains("To: ") { String::new() } else { format!("To: <{uri}>\r\n") };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK-{call_id}-{cseq};rport\r\nMax-Forwards: 70\r\n\
             {from}{to}Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n{more}Content-Length: 0\r\n\r\n",
            self.address
        )
    }

    fn party(&self, header: &str, user: &str, more: &str) -> String {
        format!("{header}: <sip:{user}@{}>{more}\r\n", self.address)
    }

    /// A REGISTER for a user of the domain, with these header lines besides.
    pub(crate) fn register(&self, user: &str, call_id: &str, cseq: u32, more: &str) -> String {
        let parties = format!("From: <sip:{user}@{DOMAIN}>;tag=1\r\nTo: <sip:{user}@{DOMAIN}>\r\n{more}");
        self.request("REGISTER", &format!("sip:{DOMAIN}"), call_id, cseq, &parties)
    }

    /// A response to a request that was heard.
    pub(crate) fn reply(&self, to: SocketAddr, request: &Heard, status: u16, more: &str) {
        let mut text = format!("SIP/2.0 {status} Answer\r\n");
        for line in request.0.lines().take_while(|l| !l.is_empty()) {
            let name = line.split(':').next().unwrap_or("");
            let kept = ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"];
            if kept.iter().any(|k| k.eq_ignore_ascii_case(name)) {
                let tag = if name == "To" && !line.contains("tag=") { ";tag=callee" } else { "" };
                write!(text, "{line}{tag}\r\n").expect("a string takes all");
            }
        }
        self.send(to, format!("{text}{more}Content-Length: 0\r\n\r\n"));
    }
}

impl Heard {
    pub(crate) fn first_line(&self) -> &str {
        self.0.lines().next().unwrap_or("")
    }

    /// The status of a response.
    pub(crate) fn status(&self) -> Option<u16> {
        self.first_line().strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> Option<&str> {
        if self.status().is_some() { None } else { self.first_line().split(' ').next() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header_of(&self.0, name)
    }

    /// The values of all headers of a name, one for each line.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        headers_of(&self.0, name).collect()
    }
}

fn headers_of<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    text.lines().take_while(|l| !l.is_empty()).filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        found.trim().eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

fn header_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    headers_of(text, name).next()
}

/// Registers one of the provisioned users at a contact.
#[track_caller]
pub(crate) fn register(phone: &Phone, to: SocketAddr, user: &str, contact: &str) {
    let (call_id, contact) =
        (format!("register-{user}-{}", phone.address.port()), format!("Contact: {contact}\r\n"));
    let challenge = phone.ask(to, &phone.register(user, &call_id, 1, &contact));
    if challenge.status() == Some(200) {
        return;
    }
    let offered = challenge.headers("WWW-Authenticate");
    let offer = offered.iter().find(|c| c.contains("SHA-256")).expect("SHA-256 is offered");
    let given = sha256_credentials(offer, user, &format!("pw{user}"), "REGISTER", &format!("sip:{DOMAIN}"));
    let answer =
        phone.ask(to, &phone.register(user, &call_id, 2, &format!("{contact}Authorization: {given}\r\n")));
    assert_eq!(answer.status(), Some(200), "{}", answer.0);
}

/// Credentials by RFC 7616 with SHA-256, reckoned here rather than with the code that is tested. `challenge` is the value
/// of the header that asks for them.
pub(crate) fn sha256_credentials(
    challenge: &str,
    user: &str,
    password: &str,
    method: &str,
    uri: &str,
) -> String {
    let param = |name: &str| {
        let rest =
            &challenge[challenge.find(&format!("{name}=\"")).expect("a quoted parameter") + name.len() + 2..];
        rest[..rest.find('"').expect("a quoted string")].to_owned()
    };
    let hash = |text: String| {
        Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes all");
            hex
        })
    };
    let (realm, nonce) = (param("realm"), param("nonce"));
    let ha1 = hash(format!("{user}:{realm}:{password}"));
    let ha2 = hash(format!("{method}:{uri}"));
    let response = hash(format!("{ha1}:{nonce}:00000001:c0ffee:auth:{ha2}"));
    format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", algorithm=SHA-256, qop=auth, \
         nc=00000001, cnonce=\"c0ffee\", response=\"{response}\""
    )
}
