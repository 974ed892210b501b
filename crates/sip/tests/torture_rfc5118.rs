//! Every message of RFC 5118 and what the RFC says of it, as far as a parser has to do with it.

use std::net::{IpAddr, SocketAddr};

use busyhour_sip::value::{Host, NameAddr, SipUri, Uri, Via};
use busyhour_sip::{Defect, Edits, Essentials, HeaderName, Message, Method};

macro_rules! dat {
    ($name:literal) => {
        include_bytes!(concat!("torture/rfc5118/", $name, ".dat")).as_slice()
    };
}

#[track_caller]
fn good(bytes: &[u8]) -> (Message<'_>, Essentials<'_>) {
    let message = Message::parse(bytes).expect("a message");
    let essentials = Essentials::of(&message).expect("no defect");
    (message, essentials)
}

fn sip<'a>(uri: Option<Uri<'a>>) -> SipUri<'a> {
    uri.expect("a URI").sip().expect("a SIP URI")
}

fn host(ip: &str) -> Host<'static> {
    Host::Ip(ip.parse().expect("an address"))
}

fn addr(addr: &str) -> Option<SocketAddr> {
    Some(addr.parse().expect("an address"))
}

fn contact<'a>(message: &Message<'a>) -> SipUri<'a> {
    let contact =
        NameAddr::parse(message.value(HeaderName::Contact).expect("a Contact")).expect("well-formed");
    sip(contact.parse_uri().ok())
}

#[test]
fn s4_1_ipv6_good() {
    let (m, e) = good(dat!("ipv6-good"));
    let uri = sip(e.request_uri);
    assert_eq!((uri.host, uri.port, uri.user), (host("2001:db8::10"), None, None));
    assert_eq!(uri.socket_addr(), addr("[2001:db8::10]:5060"));
    assert_eq!(e.via.response_addr(), addr("[2001:db8::9:1]:5060"));
    assert_eq!(contact(&m).host, host("2001:db8::1"));
}

#[test]
fn s4_2_ipv6_bad_no_brackets() {
    let m = Message::parse(dat!("ipv6-bad")).unwrap();
    assert_eq!(Essentials::of(&m).unwrap_err(), Defect::RequestUri);
    assert_eq!(Defect::RequestUri.answer().0, 400);
}

/// Well-formed, though not what was meant: the port is part of the address.
#[test]
fn s4_3_port_ambiguous() {
    let uri = sip(good(dat!("port-ambiguous")).1.request_uri);
    assert_eq!((uri.host, uri.port), (host("2001:db8::10:5070"), None));
}

#[test]
fn s4_4_port_unambiguous() {
    let uri = sip(good(dat!("port-unambiguous")).1.request_uri);
    assert_eq!((uri.host, uri.port), (host("2001:db8::10"), Some(5070)));
}

/// `received` with brackets is outside the grammar; it must be understood all the same.
#[test]
fn s4_5_via_received_with_and_without_delimiters() {
    let (m, e) = good(dat!("via-received-param-with-delim"));
    assert_eq!((m.method(), e.via.response_addr()), (Some(Method::Bye), addr("[2001:db8::9:255]:5060")));
    let (m, e) = good(dat!("via-received-param-no-delim"));
    assert_eq!((m.method(), e.via.response_addr()), (Some(Method::Options), addr("[2001:db8::9:255]:5060")));
}

/// Well-formed but for its length: the RFC itself says 268 octets of a body that has fewer, and so a datagram with it is
/// refused like any other that is cut short (RFC 3261 section 18.3).
#[test]
fn s4_6_ipv6_in_sdp() {
    assert_eq!(Essentials::of(&Message::parse(dat!("ipv6-in-sdp")).unwrap()).unwrap_err(), Defect::ShortBody);
    let mended =
        String::from_utf8_lossy(dat!("ipv6-in-sdp")).replace("Length: 268", "Length: 251").into_bytes();
    let (m, e) = good(&mended);
    assert_eq!(sip(e.request_uri).user, Some(b"user".as_slice()));
    assert_eq!(sip(e.request_uri).host, host("2001:db8::10"));
    assert_eq!(sip(e.to.parse_uri().ok()).host, host("2001:db8::10"));
    assert_eq!(Edits::new(&m).to_vec().unwrap(), mended, "a proxy leaves the body alone");
}

#[test]
fn s4_7_mult_ip_in_header() {
    let (m, _) = good(dat!("mult-ip-in-header"));
    let vias: Vec<Via<'_>> = m.elements(HeaderName::Via).map(|e| Via::parse(e.text).unwrap()).collect();
    let to: Vec<Option<SocketAddr>> = vias.iter().map(Via::response_addr).collect();
    assert_eq!(to, [addr("[2001:db8::9:1]:6050"), addr("192.0.2.1:5060"), addr("192.0.2.200:5060")]);
    assert_eq!(vias[2].host, host("2001:db8::9:255"));
}

#[test]
fn s4_8_mult_ip_in_sdp() {
    let (m, e) = good(dat!("mult-ip-in-sdp"));
    assert_eq!(e.cseq.number, 8912);
    assert_eq!(m.body().len(), 181);
}

#[test]
fn s4_9_ipv4_mapped_ipv6() {
    let (m, e) = good(dat!("ipv4-mapped-ipv6"));
    assert_eq!((e.via.host, e.via.port), (host("::ffff:192.0.2.10"), Some(19823)));
    let second = m.elements(HeaderName::Via).nth(1).unwrap();
    assert_eq!(
        Via::parse(second.text).unwrap().host.ip(),
        Some("::ffff:192.0.2.2".parse::<IpAddr>().unwrap())
    );
    assert_eq!(contact(&m).host, host("::ffff:192.0.2.2"));
}

/// The third colon came from a mistake in the grammar of RFC 3261. An element may ignore it, and this one does.
#[test]
fn s4_10_ipv6_bug_abnf_3_colons() {
    let three = sip(good(dat!("ipv6-bug-abnf-3-colons")).1.request_uri);
    let two = sip(good(dat!("ipv6-correct-abnf-2-colons")).1.request_uri);
    assert_eq!((three.host, two.host), (host("2001:db8::192.0.2.1"), host("2001:db8::192.0.2.1")));
    assert!(three.equivalent(&two));
}
