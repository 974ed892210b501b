//! Property tests: messages as odd as the grammar allows are understood and edited as the model says, and bytes that are
//! no message at all do no harm. `PROPTEST_CASES` makes more of them than 256.

#![allow(clippy::disallowed_types, reason = "the strategies of proptest are made with Arc")]

mod common;

use busyhour_sip::value::{NameAddr, Via, unescape};
use busyhour_sip::{Essentials, HeaderName, Message};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::string::string_regex;
use proptest::test_runner::FileFailurePersistence;

fn regex(pattern: &'static str) -> impl Strategy<Value = String> {
    string_regex(pattern).expect("a pattern")
}

/// White space that may stand around separators.
fn sws() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 2 => Just(" "), 1 => Just("\t"), 1 => Just("\r\n "), 1 => Just(" \r\n\t "), 1 => Just("\r\n \r\n ")]
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        regex("[a-z0-9]{1,8}(-[a-z0-9]{1,4})?\\.[a-z]{2,6}\\.?"),
        any::<[u8; 4]>().prop_map(|ip| std::net::Ipv4Addr::from(ip).to_string()),
        any::<[u16; 8]>().prop_map(|ip| format!("[{}]", std::net::Ipv6Addr::from(ip))),
        Just("[::1]".to_owned()),
    ]
}

fn quoted() -> impl Strategy<Value = String> {
    regex("\"([a-zA-Z ,;<>@=:?é\u{1F600}]|\\\\[\\x00-\\x09\\x0b\\x0c\\x0e-\\x7f]){0,12}\"")
}

fn token() -> impl Strategy<Value = String> {
    regex("[a-zA-Z0-9.!%*_+`'~-]{1,12}")
}

/// A parameter that nobody knows, with its semicolon.
fn param() -> impl Strategy<Value = String> {
    let value = prop_oneof![token(), quoted(), host()];
    (sws(), sws(), "x-[a-z]{1,6}", proptest::option::of((sws(), sws(), value))).prop_map(
        |(a, b, name, value)| match value {
            Some((c, d, value)) => format!("{a};{b}{name}{c}={d}{value}"),
            None => format!("{a};{b}{name}"),
        },
    )
}

fn uri() -> impl Strategy<Value = String> {
    let user = regex("([a-zA-Z0-9&=+$,;?/_.!~*'()-]|%[0-9A-Fa-f]{2}){1,12}(:[a-z0-9&=+$,]{0,6})?@");
    let port = proptest::option::of(any::<u16>()).prop_map(|p| p.map_or(String::new(), |p| format!(":{p}")));
    let params = regex("(;[a-z]{1,6}(=[a-zA-Z0-9/:&+$-]{1,6})?){0,3}(;lr)?");
    let sip = (select(&["sip", "sips", "SIP"][..]), proptest::option::of(user), host(), port, params)
        .prop_map(|(scheme, user, host, port, params)| {
            format!("{scheme}:{}{host}{port}{params}", user.unwrap_or_default())
        });
    prop_oneof![8 => sip, 1 => regex("tel:\\+[0-9-]{1,12}(;phone-context=[a-z.]{1,8})?"), 1 => regex("[a-z]{2,6}://[a-z.]{1,9}")]
}

fn name_addr() -> impl Strategy<Value = String> {
    let display = prop_oneof![
        Just(String::new()),
        (quoted(), sws()).prop_map(|(q, s)| q + s),
        vec(token(), 1..3).prop_map(|words| words.join(" ") + " "),
    ];
    (display, uri(), vec(param(), 0..3))
        .prop_map(|(display, uri, params)| format!("{display}<{uri}>{}", params.concat()))
}

fn via() -> impl Strategy<Value = String> {
    let own = vec(
        (
            sws(),
            prop_oneof![
                Just("rport".to_owned()),
                Just("rport=5061".to_owned()),
                Just("Rport\t=\r\n \"x,y\"".to_owned()),
                Just("received=192.0.2.77".to_owned()),
                Just("RECEIVED = [2001:db8::1]".to_owned()),
                Just("maddr=192.0.2.9".to_owned()),
                Just("ttl=1".to_owned()),
                token().prop_map(|t| format!("branch=z9hG4bK{t}")),
            ],
        )
            .prop_map(|(s, p)| format!("{s};{p}")),
        0..4,
    )
    .prop_map(|mut own| {
        let kind = |p: &String| {
            p.trim_start_matches([' ', '\t', '\r', '\n', ';'])
                .chars()
                .take(4)
                .collect::<String>()
                .to_lowercase()
        };
        let mut seen = std::collections::BTreeSet::new();
        own.retain(|p| seen.insert(kind(p)));
        own
    });
    let transport =
        prop_oneof![select(&["UDP", "TCP", "TLS", "SCTP", "WS"][..]).prop_map(str::to_owned), token()];
    let lws = select(&[" ", "\t", "\r\n ", "  \r\n\t"][..]);
    let port = proptest::option::of((sws(), sws(), any::<u16>()));
    ((sws(), sws(), sws(), sws()), transport, lws, host(), port, own, vec(param(), 0..3)).prop_map(
        |((a, b, c, d), transport, lws, host, port, own, params)| {
            let port = port.map_or(String::new(), |(e, f, port)| format!("{e}:{f}{port}"));
            format!("SIP{a}/{b}2.0{c}/{d}{transport}{lws}{host}{port}{}{}", own.concat(), params.concat())
        },
    )
}

/// One to four elements with commas between them, and the line they make, empty elements here and there.
fn list(name: &'static str, compact: &'static str, element: BoxedStrategy<String>) -> BoxedStrategy<Line> {
    let commas = prop_oneof![6 => Just(","), 2 => Just(", "), 1 => Just(",\r\n "), 1 => Just(" , ,\t")];
    (
        header_name(name, compact),
        sws(),
        vec((element, commas), 1..4),
        prop_oneof![9 => Just(""), 1 => Just(",")],
        sws(),
    )
        .prop_map(move |((raw, name), lead, elements, first, trail)| {
            let mut text = format!("{raw}:{lead}{first}");
            let last = elements.len() - 1;
            for (i, (element, comma)) in elements.iter().enumerate() {
                text += element;
                text += if i < last { comma } else { trail };
            }
            Line { name, text: text + "\r\n", elements: elements.into_iter().map(|(e, _)| e).collect() }
        })
        .boxed()
}

/// A header with one value.
fn single(name: &'static str, compact: &'static str, value: BoxedStrategy<String>) -> BoxedStrategy<Line> {
    (header_name(name, compact), sws(), value, sws())
        .prop_map(|((raw, name), a, value, b)| Line {
            name,
            text: format!("{raw}:{a}{value}{b}\r\n"),
            elements: vec![value],
        })
        .boxed()
}

/// A name in any case or its compact form, perhaps with white space before the colon.
fn header_name(name: &'static str, compact: &'static str) -> impl Strategy<Value = (String, HeaderName)> {
    let cased = any::<u64>().prop_map(move |bits| {
        let flip = |(i, c): (usize, char)| {
            if bits >> (i % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
        };
        name.chars().enumerate().map(flip).collect::<String>()
    });
    let short = if compact.is_empty() { name } else { compact };
    (prop_oneof![cased, Just(name.to_owned()), Just(short.to_owned())], select(&["", "", "", " ", "\t "][..]))
        .prop_map(move |(text, blank)| (text + blank, HeaderName::from_bytes(name.as_bytes())))
}

#[derive(Clone, Debug)]
struct Line {
    name: HeaderName,
    text: String,
    elements: Vec<String>,
}

#[derive(Clone, Debug)]
struct Sample {
    start: String,
    uri: String,
    lines: Vec<Line>,
    body: Vec<u8>,
    behind: Vec<u8>,
    method: String,
}

impl Sample {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.start.clone().into_bytes();
        self.lines.iter().for_each(|l| bytes.extend_from_slice(l.text.as_bytes()));
        [bytes.as_slice(), b"\r\n", &self.body, &self.behind].concat()
    }

    fn elements(&self, name: HeaderName) -> Vec<&str> {
        self.lines
            .iter()
            .filter(|l| l.name == name)
            .flat_map(|l| l.elements.iter().map(String::as_str))
            .collect()
    }

    fn one(&self, name: HeaderName) -> &str {
        self.elements(name)[0]
    }
}

/// A message that RFC 3261 allows, in any order of its lines and with everything odd that the grammar has.
fn sample() -> impl Strategy<Value = Sample> {
    let method = prop_oneof![
        4 => select(&["INVITE", "ACK", "BYE", "CANCEL", "REGISTER", "OPTIONS", "MESSAGE"][..]).prop_map(str::to_owned),
        1 => regex("[a-zA-Z0-9.!%*_+`'~-]{1,12}"),
    ];
    let start = (method, uri(), proptest::option::of((100u16..700, regex("[ -~é]{0,20}"))));
    let body = (vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..20), any::<bool>());
    (start, body).prop_flat_map(|((method, uri, response), (body, behind, length))| {
        let one = |line: BoxedStrategy<Line>| vec(line, 1..2);
        let tag = || {
            (name_addr(), proptest::option::of(token()))
                .prop_map(|(a, t)| t.map_or(a.clone(), |t| format!("{a};tag={t}")))
                .boxed()
        };
        let cseq = (0u32..1 << 31, select(&[" ", "\t", "\r\n ", "  "][..])).prop_map({
            let method = method.clone();
            move |(n, s)| format!("{n}{s}{method}")
        });
        let count = body.len().to_string();
        let lines = (
            vec(list("Via", "v", via().boxed()), 1..4),
            vec(list("Route", "", name_addr().boxed()), 0..4),
            vec(list("Record-Route", "", name_addr().boxed()), 0..3),
            vec(list("Path", "", name_addr().boxed()), 0..2),
            one(single("From", "f", tag())),
            one(single("To", "t", tag())),
            one(single(
                "Call-ID",
                "i",
                regex("[a-zA-Z0-9.!%*_+`'~()<>:\\\\\"/?{}\\[\\]-]{1,20}(@[a-z.]{1,8})?").boxed(),
            )),
            one(single("CSeq", "", cseq.boxed())),
            (
                vec(single("Max-Forwards", "", (0u8..).prop_map(|n| format!("{n:03}")).boxed()), 0..2),
                vec(single("Content-Length", "l", Just(count).boxed()), if length { 1..3 } else { 0..1 }),
                vec(list("Contact", "m", name_addr().boxed()), 0..2),
                vec(
                    single("X-Unknown", "", regex("[ -~é]{0,30}").prop_map(|v| v.trim().to_owned()).boxed()),
                    0..4,
                ),
                vec(single("Subject", "s", Just(String::new()).boxed()), 0..2),
            ),
        );
        let lines = lines.prop_map(|(a, b, c, d, e, f, g, h, (i, j, k, l, m))| {
            [a, b, c, d, e, f, g, h, i, j, k, l, m].concat()
        });
        lines.prop_shuffle().prop_map(move |lines| Sample {
            start: match &response {
                Some((status, reason)) => format!("SIP/2.0 {status} {reason}\r\n"),
                None => format!("{method} {uri} SIP/2.0\r\n"),
            },
            uri: if response.is_some() { String::new() } else { uri.clone() },
            lines,
            body: body.clone(),
            behind: if length { behind.clone() } else { Vec::new() },
            method: method.clone(),
        })
    })
}

/// Pieces of messages in any order: nearer to what breaks a parser than random bytes.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(
        &[
            "INVITE sip:a@h SIP/2.0\r\n",
            "SIP/2.0 200 OK\r\n",
            "Via: ",
            "v:",
            "SIP/2.0/UDP h;branch=z9hG4bKx",
            ";rport",
            ";received=",
            "\r\n",
            "\r\n\r\n",
            "\n",
            "\r",
            " ",
            "\t",
            ",",
            ";",
            ":",
            "=",
            "\"",
            "\\",
            "<",
            ">",
            "@",
            "?",
            "%",
            "%4",
            "[",
            "]",
            "[::1]",
            "/",
            "\0",
            "Route: <sip:h;lr>",
            "Record-Route: ",
            "Path:",
            "From: ",
            "To: ",
            ";tag=1",
            "Call-ID: x",
            "CSeq: 1 INVITE",
            "Max-Forwards: 70",
            "Max-Forwards:",
            "Content-Length: 3",
            "Content-Length: ",
            "l: -1",
            "99999999999999999999",
            "sip:",
            "*",
            "Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"u\", response=\"r\"",
            "Contact: *",
            "é",
            "\u{0}\r\n ",
        ][..],
    );
    vec(prop_oneof![9 => piece.prop_map(|p| p.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..4)], 0..60)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        // What fails is written here and tried first from then on.
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/properties.regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_valid_message_is_understood(sample in sample()) {
        let bytes = sample.bytes();
        let message = Message::parse(&bytes).unwrap();
        prop_assert_eq!(message.headers().len(), sample.lines.len());
        for (h, line) in message.headers().iter().zip(&sample.lines) {
            prop_assert_eq!(h.name, line.name);
            prop_assert_eq!(message.line_of(h), line.text.as_bytes());
        }
        prop_assert_eq!(message.body(), sample.body.as_slice());
        prop_assert_eq!(message.request_uri(), sample.uri.as_bytes());
        for name in [HeaderName::Via, HeaderName::Route, HeaderName::RecordRoute, HeaderName::Path, HeaderName::Contact] {
            let found: Vec<&[u8]> = message.elements(name).map(|e| e.text).collect();
            let expected: Vec<&[u8]> = sample.elements(name).into_iter().map(str::as_bytes).collect();
            prop_assert_eq!(&found, &expected);
            for text in found {
                let ok = if name == HeaderName::Via { Via::parse(text).is_ok() } else { NameAddr::parse(text).is_ok_and(|a| a.parse_uri().is_ok()) };
                prop_assert!(ok, "{}", String::from_utf8_lossy(text));
            }
        }
        let essentials = Essentials::of(&message);
        prop_assert!(essentials.is_ok(), "{:?}", essentials);
        let essentials = essentials.unwrap();
        prop_assert_eq!(essentials.call_id, sample.one(HeaderName::CallId).as_bytes());
        prop_assert_eq!(essentials.cseq.method.as_bytes(), sample.method.as_bytes());
        for (name, address) in [(HeaderName::From, essentials.from), (HeaderName::To, essentials.to)] {
            let tag = sample.one(name).rsplit_once(";tag=").map(|(_, tag)| tag.as_bytes());
            prop_assert_eq!(address.tag(), tag);
        }
    }

    #[test]
    fn edits_do_what_the_model_says(sample in sample(), script in vec(any::<u8>(), 0..24)) {
        common::exercise(&sample.bytes(), &script);
    }

    #[test]
    fn pieces_of_messages_do_no_harm(bytes in soup(), script in vec(any::<u8>(), 0..24)) {
        common::exercise(&bytes, &script);
        common::parse_value(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300)) {
        common::exercise(&bytes, &[7, 0, 1, 3, 4, 5]);
        common::parse_value(&bytes);
    }

    #[test]
    fn unescaping_undoes_escaping(plain in vec(any::<u8>(), 0..40)) {
        let escaped: String = plain.iter().map(|b| format!("%{b:02x}")).collect();
        prop_assert_eq!(unescape::<40>(escaped.as_bytes()).unwrap().to_vec(), plain.clone());
        prop_assert_eq!(unescape::<39>(escaped.as_bytes()).is_some(), plain.len() < 40);
    }
}
