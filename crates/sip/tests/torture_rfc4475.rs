//! Every message of RFC 4475 and what the RFC says of it, as far as a parser has to do with it. Where the RFC leaves a
//! choice between refusing a malformed message and guessing what it means, it is refused: what a proxy guesses, the next
//! element may guess otherwise.

use busyhour_sip::value::{
    Credentials, Host, NameAddr, SipUri, TooFewParts, Uri, Via, delta_seconds, unescape,
};
use busyhour_sip::{Defect, Edits, Essentials, HeaderName, Message, Method, ParseError, StartLine};

macro_rules! dat {
    ($name:literal) => {
        include_bytes!(concat!("torture/rfc4475/", $name, ".dat")).as_slice()
    };
}

/// A message that is accepted.
#[track_caller]
fn good(bytes: &[u8]) -> (Message<'_>, Essentials<'_>) {
    let message = Message::parse(bytes).expect("a message");
    let essentials = Essentials::of(&message).expect("no defect");
    (message, essentials)
}

/// The defect of a message that is SIP, but refused.
#[track_caller]
fn defect(bytes: &[u8]) -> Defect {
    Essentials::of(&Message::parse(bytes).expect("a message")).expect_err("a defect")
}

/// The defect of a request and the status that it is answered with.
#[track_caller]
fn refused(bytes: &[u8], status: u16) -> Defect {
    let defect = defect(bytes);
    assert_eq!(defect.answer().0, status);
    assert!(Message::parse(bytes).expect("a message").method().is_some(), "only requests are answered");
    defect
}

fn sip<'a>(essentials: &Essentials<'a>) -> SipUri<'a> {
    essentials.request_uri.expect("a request").sip().expect("a SIP URI")
}

fn texts<'a>(message: &Message<'a>, name: HeaderName) -> Vec<&'a [u8]> {
    message.elements(name).map(|e| e.text).collect()
}

fn contacts<'a>(message: &Message<'a>) -> Vec<NameAddr<'a>> {
    texts(message, HeaderName::Contact).into_iter().map(|t| NameAddr::parse(t).expect("a contact")).collect()
}

fn user(uri: SipUri<'_>) -> Vec<u8> {
    unescape::<256>(uri.user.expect("a user")).expect("short").to_vec()
}

// Section 3.1.1: valid messages.

#[test]
fn s3_1_1_1_wsinv_a_short_tortuous_invite() {
    let (m, e) = good(dat!("wsinv"));
    let names: Vec<HeaderName> = m.headers().iter().map(|h| h.name).collect();
    use HeaderName::{
        CSeq, CallId, Contact, ContentLength, ContentType, From, MaxForwards, Other, Route, Subject, To,
    };
    let expected = [
        To,
        From,
        MaxForwards,
        CallId,
        ContentLength,
        CSeq,
        HeaderName::Via,
        Subject,
        Other,
        Other,
        ContentType,
        Route,
        HeaderName::Via,
        Contact,
    ];
    assert_eq!(names, expected);
    assert_eq!(e.to.uri, b"sip:vivekg@chair-dnrc.example.com");
    assert_eq!(e.to.tag(), Some(b"1918181833n".as_slice()));
    assert_eq!(e.from.display, br#""J Rosenberg \\\"""#);
    assert_eq!(e.from.tag(), Some(b"98asjd8".as_slice()));
    assert_eq!(e.max_forwards, Some(68));
    assert_eq!((e.cseq.number, e.cseq.method), (9, Method::Invite));
    assert_eq!(e.call_id, b"wsinv.ndaksdj@192.0.2.1");
    let uri = sip(&e);
    assert_eq!(uri.host, Host::Name(b"chair-dnrc.example.com"));
    assert!(uri.param("unknownparam").is_some_and(|p| p.value.is_none()));
    let vias: Vec<Via<'_>> =
        texts(&m, HeaderName::Via).into_iter().map(|t| Via::parse(t).expect("a Via")).collect();
    let seen: Vec<_> = vias.iter().map(|v| (v.transport, v.sent_by, v.branch().expect("a branch"))).collect();
    assert_eq!(
        seen,
        [
            (b"UDP".as_slice(), b"192.0.2.2".as_slice(), b"390skdjuw".as_slice()),
            (b"TCP", b"spindle.example.com", b"z9hG4bK9ikj8"),
            (b"UDP", b"192.168.255.111", b"z9hG4bK30239"),
        ]
    );
    assert_eq!(e.via.cookie_branch(), None, "the topmost branch is one of RFC 2543");
    assert_eq!(m.value(Subject), Some(b"".as_slice()));
    let other: Vec<(&[u8], &[u8])> = m.all(Other).map(|h| (m.name_of(h), m.value_of(h))).collect();
    assert_eq!(
        other,
        [
            (b"NewFangledHeader".as_slice(), b"newfangled value\r\n continued newfangled value".as_slice()),
            (b"UnknownHeaderWithUnusualValue", b";;,,;;,;"),
        ]
    );
    let routes = texts(&m, Route);
    let route = NameAddr::parse(routes[0]).unwrap();
    assert_eq!(routes.len(), 1);
    assert!(route.parse_uri().unwrap().sip().unwrap().is_loose_router());
    let contacts = contacts(&m);
    assert_eq!(contacts.len(), 1);
    assert_eq!(contacts[0].display, br#""Quoted string \"\"""#);
    assert_eq!(contacts[0].params.value("q"), Some(b"0.33".as_slice()));
    assert_eq!(contacts[0].params.value("newparam"), Some(b"newvalue".as_slice()));
    assert!(contacts[0].params.get("secondparam").is_some_and(|p| p.value.is_none()));
    assert_eq!(m.body().len(), 150);
}

#[test]
fn s3_1_1_2_intmeth_wide_range_of_valid_characters() {
    let (m, e) = good(dat!("intmeth"));
    let method = b"!interesting-Method0123456789_*+`.%indeed'~";
    assert_eq!(m.method(), Some(Method::Extension(method)));
    let uri = sip(&e);
    assert_eq!(uri.user, Some(b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*".as_slice()));
    assert_eq!(uri.password, Some(b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)".as_slice()));
    assert_eq!(uri.host, Host::Name(b"example.com"));
    assert_eq!(e.via.branch(), Some(b"z9hG4bK-.!%66*_+`'~".as_slice()));
    assert_eq!(e.to.display, b"\"BEL:\\\x07 NUL:\\\x00 DEL:\\\x7f\"");
    assert_eq!(e.to.uri, b"sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*@example.com");
    assert_eq!(e.from.display, b"token1~` token2'+_ token3*%!.-");
    assert_eq!(e.from.tag(), Some(b"_token~1'+`*%!-.".as_slice()));
    let param = e.from.params.value("fromParam''~+*_!.-%").unwrap();
    assert_eq!(std::str::from_utf8(param).unwrap(), "\"работающий\"");
    assert_eq!(e.call_id, br#"intmeth.word%ZK-!.*_+'@word`~)(><:\/"][?}{"#);
    assert_eq!((e.cseq.number, e.max_forwards), (139_122_385, Some(255)));
    let extension = m.all(HeaderName::Other).next().unwrap();
    assert_eq!(m.name_of(extension), b"extensionHeader-!.%*+_`'~");
    assert_eq!(std::str::from_utf8(m.value_of(extension)).unwrap(), "\u{feff}大停電");
}

#[test]
fn s3_1_1_3_esc01_valid_use_of_escapes() {
    let (m, e) = good(dat!("esc01"));
    // The scheme is sip, whatever the user part looks like when its escapes are resolved.
    assert_eq!(user(sip(&e)), b"sips:user@example.com");
    assert_eq!(sip(&e).host, Host::Name(b"example.net"));
    assert_eq!(user(e.to.parse_uri().unwrap().sip().unwrap()), b"user");
    assert_eq!(user(e.from.parse_uri().unwrap().sip().unwrap()), b"I have spaces");
    let contact = contacts(&m)[0].parse_uri().unwrap();
    let plain = Uri::parse(b"sip:caller@host5.example.net;lr;name=value%2541").unwrap();
    assert!(contact.equivalent(&plain));
    let contact = contact.sip().unwrap();
    assert!(contact.is_loose_router());
    let name = contact.param("name").unwrap().value.unwrap();
    assert_eq!(unescape::<16>(name).unwrap().as_slice(), b"value%41", "escapes are resolved once");
}

#[test]
fn s3_1_1_4_escnull_escaped_nulls_in_uris() {
    let (m, e) = good(dat!("escnull"));
    assert_eq!(user(e.to.parse_uri().unwrap().sip().unwrap()), b"null-\0-null");
    assert_eq!(user(e.from.parse_uri().unwrap().sip().unwrap()), b"null-\0-null");
    let uris: Vec<Uri<'_>> = contacts(&m).iter().map(|c| c.parse_uri().unwrap()).collect();
    assert_eq!(
        uris.iter().map(|u| user(u.sip().unwrap())).collect::<Vec<_>>(),
        [b"\0".to_vec(), b"\0\0".to_vec()]
    );
    assert!(!uris[0].equivalent(&uris[1]), "two bindings");
}

#[test]
fn s3_1_1_5_esc02_a_percent_that_is_no_escape() {
    let (m, e) = good(dat!("esc02"));
    assert_eq!(m.method(), Some(Method::Extension(b"RE%47IST%45R")), "not REGISTER");
    assert_eq!(e.to.display, b"\"%Z%45\"");
    assert_eq!(e.via.branch(), Some(b"z9hG4bK209%fzsnel234".as_slice()));
    let uris: Vec<&[u8]> = contacts(&m).iter().map(|c| c.uri).collect();
    assert_eq!(uris, [b"sip:alias1@host1.example.com".as_slice(), b"sip:alias3@host3.example.com"]);
    let unknown = m.all(HeaderName::Other).next().unwrap();
    assert_eq!(m.name_of(unknown), b"C%6Fntact");
}

#[test]
fn s3_1_1_6_lwsdisp_no_white_space_before_the_bracket() {
    let (_, e) = good(dat!("lwsdisp"));
    assert_eq!((e.from.display, e.from.uri), (b"caller".as_slice(), b"sip:caller@example.com".as_slice()));
    assert_eq!(e.from.tag(), Some(b"323".as_slice()));
}

#[test]
fn s3_1_1_7_longreq_long_values() {
    let (m, e) = good(dat!("longreq"));
    assert_eq!(m.bytes().len(), 3515);
    assert!(e.to.display.starts_with(b"\"I have a user name of extreme") && e.to.display.len() > 90);
    let to = e.to.parse_uri().unwrap().sip().unwrap();
    assert_eq!((to.user, to.port), (Some(b"user".as_slice()), Some(6000)));
    assert_eq!(to.params.iter().count(), 3);
    assert_eq!(e.from.tag().unwrap().len(), 155);
    assert_eq!(e.from.params.iter().count(), 3);
    assert_eq!(user(e.from.parse_uri().unwrap().sip().unwrap()).len(), 5 * "amazinglylongcallername".len());
    let vias = texts(&m, HeaderName::Via);
    assert_eq!(vias.len(), 34);
    let hosts: Vec<&[u8]> = vias.iter().map(|t| Via::parse(t).unwrap().sent_by).collect();
    assert_eq!((hosts[0], hosts[32]), (b"sip33.example.com".as_slice(), b"sip1.example.com".as_slice()));
    assert_eq!(hosts[33], b"host.example.com");
    let last = Via::parse(vias[33]).unwrap();
    assert_eq!((last.branch().unwrap().len(), last.cookie_branch()), (215, None));
    assert_eq!(m.body().len(), 150);
}

#[test]
fn s3_1_1_8_dblreq_octets_behind_the_message() {
    let (m, e) = good(dat!("dblreq"));
    assert_eq!((m.method(), e.cseq.number), (Some(Method::Register), 8));
    assert_eq!(m.body(), b"");
    assert!(m.raw_body().starts_with(b"\r\nINVITE sip:joe@example.com SIP/2.0\r\n"));
    // What follows is dropped (RFC 3261 section 18.3), and does not travel on with the REGISTER.
    let sent = Edits::new(&m).to_vec().unwrap();
    assert!(sent.ends_with(b"Content-Length: 0\r\n\r\n"));
    assert_eq!(sent, &m.bytes()[..sent.len()]);
}

#[test]
fn s3_1_1_9_semiuri_semicolons_in_the_user_part() {
    let (m, e) = good(dat!("semiuri"));
    assert_eq!(sip(&e).user, Some(b"user;par=u%40example.net".as_slice()));
    assert_eq!(user(sip(&e)), b"user;par=u@example.net");
    assert_eq!(sip(&e).host, Host::Name(b"example.com"));
    assert!(sip(&e).params.iter().next().is_none());
    assert_eq!(texts(&m, HeaderName::Other).len(), 6, "Accept, folded over three lines");
}

#[test]
fn s3_1_1_10_transports_known_and_unknown() {
    let (m, _) = good(dat!("transports"));
    let transports: Vec<&[u8]> =
        texts(&m, HeaderName::Via).into_iter().map(|t| Via::parse(t).unwrap().transport).collect();
    assert_eq!(transports, [b"UDP".as_slice(), b"SCTP", b"TLS", b"UNKNOWN", b"TCP"]);
}

#[test]
fn s3_1_1_11_mpart01_a_binary_multipart_body() {
    let (m, e) = good(dat!("mpart01"));
    assert_eq!((m.method(), m.body().len()), (Some(Method::Message), 553));
    assert!(e.via.wants_rport());
    assert_eq!(
        m.value(HeaderName::ContentType),
        Some(b"multipart/mixed;boundary=7a9cbec02ceef655".as_slice())
    );
    assert!(
        m.body().starts_with(b"--7a9cbec02ceef655\r\n") && m.body().ends_with(b"--7a9cbec02ceef655--\r\n")
    );
    assert!(m.body().contains(&0), "binary");
    assert_eq!(Edits::new(&m).to_vec().unwrap(), dat!("mpart01"));
}

#[test]
fn s3_1_1_12_unreason_an_unusual_reason_phrase() {
    let (m, _) = good(dat!("unreason"));
    let StartLine::Response { status, reason } = m.start() else { panic!("a response") };
    assert_eq!(status, 200);
    assert_eq!(std::str::from_utf8(reason).unwrap(), "= 2**3 * 5**2 но сто девяносто девять - простое");
}

#[test]
fn s3_1_1_13_noreason_an_empty_reason_phrase() {
    let (m, _) = good(dat!("noreason"));
    assert_eq!(m.start(), StartLine::Response { status: 100, reason: b"" });
}

// Section 3.1.2: invalid messages.

#[test]
fn s3_1_2_1_badinv01_separators_with_nothing_between() {
    assert_eq!(refused(dat!("badinv01"), 400), Defect::Value(HeaderName::Via));
    let m = Message::parse(dat!("badinv01")).unwrap();
    assert!(NameAddr::parse(m.value(HeaderName::Contact).unwrap()).is_err());
}

#[test]
fn s3_1_2_2_clerr_content_length_past_the_datagram() {
    assert_eq!(refused(dat!("clerr"), 400), Defect::ShortBody);
}

#[test]
fn s3_1_2_3_ncl_negative_content_length() {
    assert_eq!(refused(dat!("ncl"), 400), Defect::Value(HeaderName::ContentLength));
}

#[test]
fn s3_1_2_4_scalar02_overlarge_numbers_in_a_request() {
    assert_eq!(refused(dat!("scalar02"), 400), Defect::Value(HeaderName::CSeq));
    // Too long an expiry alone would be no reason to refuse: it is as long as can be.
    let m = Message::parse(dat!("scalar02")).unwrap();
    assert_eq!(m.value(HeaderName::Expires).and_then(delta_seconds), Some(u32::MAX));
    assert_eq!(contacts(&m)[0].params.value("expires").and_then(delta_seconds), Some(u32::MAX));
}

#[test]
fn s3_1_2_5_scalarlg_overlarge_numbers_in_a_response() {
    // A response with a defect is dropped.
    assert_eq!(defect(dat!("scalarlg")), Defect::Value(HeaderName::CSeq));
    assert_eq!(Message::parse(dat!("scalarlg")).unwrap().status(), Some(503));
}

#[test]
fn s3_1_2_6_quotbal_an_open_quote() {
    assert_eq!(refused(dat!("quotbal"), 400), Defect::Value(HeaderName::To));
}

/// The brackets may be ignored or the request refused; here it is refused.
#[test]
fn s3_1_2_7_ltgtruri_brackets_around_the_request_uri() {
    assert_eq!(refused(dat!("ltgtruri"), 400), Defect::RequestUri);
}

/// White space may be ignored or the request refused; here it is refused, in this and the next two.
#[test]
fn s3_1_2_8_lwsruri_white_space_in_the_request_uri() {
    assert_eq!(refused(dat!("lwsruri"), 400), Defect::RequestLine);
}

#[test]
fn s3_1_2_9_lwsstart_several_spaces_in_the_request_line() {
    assert_eq!(refused(dat!("lwsstart"), 400), Defect::RequestLine);
    assert_eq!(Message::parse(dat!("lwsstart")).unwrap().request_uri(), b"sip:user@example.com");
}

#[test]
fn s3_1_2_10_trws_spaces_at_the_end_of_the_request_line() {
    assert_eq!(refused(dat!("trws"), 400), Defect::RequestLine);
    assert_eq!(Message::parse(dat!("trws")).unwrap().request_uri(), b"sip:remote-target@example.com");
}

/// The escaped header may be ignored or the request refused; it must not be obeyed. Here it is refused.
#[test]
fn s3_1_2_11_escruri_header_components_in_the_request_uri() {
    assert_eq!(refused(dat!("escruri"), 400), Defect::RequestUri);
}

/// A proxy does nothing with Date, so it has no business to refuse one.
#[test]
fn s3_1_2_12_baddate_a_date_that_is_not_gmt() {
    let (m, _) = good(dat!("baddate"));
    assert_eq!(m.value(HeaderName::Date), Some(b"Fri, 01 Jan 2010 16:00:00 EST".as_slice()));
}

/// A registrar finds the Contact malformed; a proxy that does not look at Contact passes the request on.
#[test]
fn s3_1_2_13_regbadct_a_uri_with_headers_and_no_brackets() {
    let (m, _) = good(dat!("regbadct"));
    assert!(NameAddr::parse(m.value(HeaderName::Contact).unwrap()).is_err());
    assert_eq!(Defect::Value(HeaderName::Contact).answer(), (400, "Bad Contact"));
}

/// The spaces may be ignored or the request refused; here it is refused.
#[test]
fn s3_1_2_14_badaspec_spaces_in_an_addr_spec() {
    assert_eq!(refused(dat!("badaspec"), 400), Defect::Value(HeaderName::To));
}

/// The quotes may be added or the request refused; here it is refused. Its headers do not end in an empty line either.
#[test]
fn s3_1_2_15_baddn_an_unquoted_display_name() {
    assert_eq!(refused(dat!("baddn"), 400), Defect::NoEndOfHeaders);
    let mut whole = dat!("baddn").to_vec();
    whole.extend_from_slice(b"\r\n");
    assert_eq!(refused(&whole, 400), Defect::Value(HeaderName::From));
    let m = Message::parse(&whole).unwrap();
    assert_eq!(
        NameAddr::parse(m.value(HeaderName::To).unwrap()).map(|t| t.uri),
        Err(busyhour_sip::value::Malformed)
    );
}

#[test]
fn s3_1_2_16_badvers_an_unknown_version() {
    assert_eq!(refused(dat!("badvers"), 505), Defect::Version);
    // Its Via is of that version, too, and still says where the answer goes.
    let via = Message::parse(dat!("badvers")).unwrap().top_via().unwrap();
    assert_eq!((via.transport, via.sent_by), (b"UDP".as_slice(), b"c.example.com".as_slice()));
}

#[test]
fn s3_1_2_17_mismatch01_two_methods() {
    assert_eq!(refused(dat!("mismatch01"), 400), Defect::CSeqMethod);
}

/// 501 and 400 are both right; 501 is the better one for whoever comes after us.
#[test]
fn s3_1_2_18_mismatch02_two_methods_one_of_them_unknown() {
    assert_eq!(refused(dat!("mismatch02"), 501), Defect::UnknownMethod);
}

#[test]
fn s3_1_2_19_bigcode_an_overlarge_status() {
    assert_eq!(Message::parse(dat!("bigcode")).unwrap_err(), ParseError::Status);
}

// Section 3.2: transaction layer semantics.

/// May be refused or matched as RFC 2543 does; the latter is left to the transaction layer.
#[test]
fn s3_2_1_badbranch_no_transaction_identifier() {
    let (_, e) = good(dat!("badbranch"));
    assert_eq!((e.via.branch(), e.via.cookie_branch()), (Some(b"z9hG4bK".as_slice()), None));
}

// Section 3.3: application layer semantics. What a proxy or registrar answers is tested on the wire.

#[test]
fn s3_3_1_insuf_required_headers_are_missing() {
    assert_eq!(refused(dat!("insuf"), 400), Defect::Missing(HeaderName::From));
    let m = Message::parse(dat!("insuf")).unwrap();
    assert!(m.top_via().is_ok(), "the answer has somewhere to go");
    assert!(!m.has(HeaderName::To) && !m.has(HeaderName::CallId));
}

#[test]
fn s3_3_2_unkscm_an_unknown_scheme() {
    let (_, e) = good(dat!("unkscm"));
    let Some(Uri::Other { scheme, rest }) = e.request_uri else { panic!("another scheme") };
    assert_eq!((scheme, rest), (b"nobodyKnowsThisScheme".as_slice(), b"totallyopaquecontent".as_slice()));
}

#[test]
fn s3_3_3_novelsc_a_known_but_odd_scheme() {
    let (_, e) = good(dat!("novelsc"));
    let Some(Uri::Other { scheme, rest }) = e.request_uri else { panic!("another scheme") };
    assert_eq!((scheme, rest), (b"soap.beep".as_slice(), b"//192.0.2.103:3002".as_slice()));
}

#[test]
fn s3_3_4_unksm2_other_schemes_in_headers() {
    let (m, e) = good(dat!("unksm2"));
    let scheme = |a: &NameAddr<'_>| match a.parse_uri().unwrap() {
        Uri::Other { scheme, .. } => scheme.to_vec(),
        Uri::Sip(_) => panic!("another scheme"),
    };
    assert_eq!(
        [scheme(&e.to), scheme(&e.from), scheme(&contacts(&m)[0])],
        [b"isbn".to_vec(), b"http".to_vec(), b"name".to_vec()]
    );
}

#[test]
fn s3_3_5_bext01_proxy_require_and_require() {
    let (m, e) = good(dat!("bext01"));
    assert_eq!(
        texts(&m, HeaderName::ProxyRequire),
        [b"noProxiesSupportThis".as_slice(), b"norDoAnyProxiesSupportThis"]
    );
    assert_eq!(
        texts(&m, HeaderName::Require),
        [b"nothingSupportsThis".as_slice(), b"nothingSupportsThisEither"]
    );
    assert_eq!(e.via.transport, b"TLS");
}

#[test]
fn s3_3_6_invut_an_unknown_content_type() {
    let (m, _) = good(dat!("invut"));
    assert_eq!(m.value(HeaderName::ContentType), Some(b"application/unknownformat".as_slice()));
    assert_eq!(m.body(), b"<audio>\r\n <pcmu port=\"443\"/>\r\n</audio>\r\n".as_slice());
}

#[test]
fn s3_3_7_regaut01_an_unknown_authorization_scheme() {
    let (m, _) = good(dat!("regaut01"));
    let value = m.value(HeaderName::Authorization).unwrap();
    assert_eq!(Credentials::parse(value).unwrap_err(), TooFewParts, "as good as no credentials");
}

#[test]
fn s3_3_8_multi01_values_that_may_stand_once() {
    assert_eq!(refused(dat!("multi01"), 400), Defect::Twice(HeaderName::From));
    let m = Message::parse(dat!("multi01")).unwrap();
    use HeaderName::{CSeq, CallId, From, MaxForwards, To};
    assert!([From, To, CallId, CSeq, MaxForwards].iter().all(|&name| m.is_repeated(name)));
}

#[test]
fn s3_3_9_mcl01_two_content_lengths() {
    assert_eq!(refused(dat!("mcl01"), 400), Defect::Twice(HeaderName::ContentLength));
}

#[test]
fn s3_3_10_bcast_a_broadcast_address_in_the_second_via() {
    let (m, _) = good(dat!("bcast"));
    let next = Via::parse(texts(&m, HeaderName::Via)[1]).unwrap();
    assert_eq!(next.host.ip(), Some("255.255.255.255".parse().unwrap()));
    assert_eq!(next.response_addr(), None, "nobody gets us to send there");
}

#[test]
fn s3_3_11_zeromf_max_forwards_of_zero() {
    assert_eq!(good(dat!("zeromf")).1.max_forwards, Some(0));
}

#[test]
fn s3_3_12_cparam01_a_parameter_of_the_header() {
    let contact = contacts(&good(dat!("cparam01")).0)[0];
    assert_eq!(contact.uri, b"sip:+19725552222@gw1.example.net");
    assert!(contact.params.get("unknownparam").is_some());
}

#[test]
fn s3_3_13_cparam02_a_parameter_of_the_uri() {
    let contact = contacts(&good(dat!("cparam02")).0)[0];
    assert!(contact.params.get("unknownparam").is_none());
    assert!(contact.parse_uri().unwrap().sip().unwrap().param("unknownparam").is_some());
}

#[test]
fn s3_3_14_regescrt_an_escaped_header_in_a_contact() {
    let contact = contacts(&good(dat!("regescrt")).0)[0];
    assert_eq!(contact.parse_uri().unwrap().sip().unwrap().headers, b"Route=%3Csip:sip.example.com%3E");
}

#[test]
fn s3_3_15_sdp01_an_accept_that_cannot_be_met() {
    let (m, _) = good(dat!("sdp01"));
    let accept = m.all(HeaderName::Other).next().unwrap();
    assert_eq!(
        (m.name_of(accept), m.value_of(accept)),
        (b"Accept".as_slice(), b"text/nobodyKnowsThis".as_slice())
    );
}

// Section 3.4: backward compatibility.

#[test]
fn s3_4_1_inv2543_an_invite_of_rfc_2543() {
    let (m, e) = good(dat!("inv2543"));
    assert_eq!((e.via.branch(), e.from.tag(), e.max_forwards), (None, None, None));
    assert!(!m.has(HeaderName::ContentLength));
    assert!(
        m.body().starts_with(b"v=0\r\n") && m.body().ends_with(b"RTP/AVP 0\r\n"),
        "all that is left of the datagram"
    );
    let record_route = NameAddr::parse(m.value(HeaderName::RecordRoute).unwrap()).unwrap();
    let uri = record_route.parse_uri().unwrap().sip().unwrap();
    assert_eq!(uri.param("maddr").unwrap().value, Some(b"ss1.example.com".as_slice()));
    assert!(!uri.is_loose_router());
    // Without brackets, the parameter is one of the header.
    assert_eq!(e.to.uri, b"sip:+16505552222@ss1.example.net");
    assert_eq!(e.to.params.value("user"), Some(b"phone".as_slice()));
}

/// In the archive, but in no section: a request line without version, which was never SIP/2.0.
#[test]
fn test_dat_is_no_sip_message() {
    assert_eq!(Message::parse(dat!("test")).unwrap_err(), ParseError::StartLine);
}
