//! Several branches: the response context (RFC 3261 section 16.7), parallel and serial.

use super::kit::*;

/// An INVITE that went to Bob's two phones at once.
fn forked() -> (Lab, Request, String, String) {
    let mut lab = Lab::new(config(), &[BOB_BOUND, CAROL_BOUND]);
    let request = Request::invite();
    let sent = lab.receive(UAC, &request.text());
    assert_eq!(sent.len(), 2);
    let to = |who: &str| sent.iter().find(|o| o.to == addr(who)).unwrap().text.clone();
    let (bob, carol) = (to(BOB), to(CAROL));
    (lab, request, bob, carol)
}

fn statuses(sent: &[Out]) -> Vec<u16> {
    sent.iter().map(Out::status).collect()
}

/// Section 16.7 steps 5 and 10: a 2xx goes on at once, and the branches that ring are called off; their refusals end here.
#[test]
fn the_first_2xx_wins_and_the_others_are_called_off() {
    let (mut lab, _, bob, carol) = forked();
    assert_eq!(lab.pass(BOB, &reply(&bob, 180, "b")).status(), 180);
    assert_eq!(lab.pass(CAROL, &reply(&carol, 180, "c")).status(), 180);
    let sent = lab.receive(BOB, &reply(&bob, 200, "b"));
    assert_eq!((sent[0].status(), sent[0].to), (200, addr(UAC)));
    assert_eq!((sent.len(), sent[1].method(), sent[1].to), (2, "CANCEL", addr(CAROL)));
    assert_eq!(branch(&sent[1].text), branch(&carol));
    lab.absorb(CAROL, &reply(&sent[1].text, 200, "c"));
    assert!(lab.refuse(CAROL, &carol, 487).is_empty());
    lab.assert_no_leak();
}

/// Section 16.7 step 5: 2xx of other branches go on, too: the caller decides about them.
#[test]
fn a_late_2xx_of_another_branch_goes_on() {
    let (mut lab, _, bob, carol) = forked();
    assert_eq!(
        statuses(&lab.receive(BOB, &reply(&bob, 200, "b"))),
        [200],
        "nobody rings: no CANCEL yet (section 9.1)"
    );
    let late = lab.pass(CAROL, &reply(&carol, 200, "c"));
    assert_eq!((late.status(), tag(&late.text, "To")), (200, Some("c")));
    lab.assert_no_leak();
}

/// Section 9.1: a branch that has not answered is called off as soon as it does provisionally, with a 100 as well.
#[test]
fn a_silent_branch_is_called_off_when_it_speaks() {
    let (mut lab, _, bob, carol) = forked();
    lab.receive(BOB, &reply(&bob, 200, "b"));
    let cancel = lab.pass(CAROL, &reply(&carol, 100, ""));
    assert_eq!((cancel.method(), cancel.to), ("CANCEL", addr(CAROL)));
    lab.absorb(CAROL, &reply(&carol, 180, "c"));
    assert!(lab.refuse(CAROL, &carol, 487).is_empty());
    lab.assert_no_leak();
}

/// Section 16.7 step 6: the best of the refusals, once all are in.
#[test]
fn the_best_refusal_goes_on_when_all_are_in() {
    for (bobs, carols, best) in [
        (486, 404, 404),
        (486, 302, 302),
        (503, 503, 500),
        (503, 486, 486),
        (500, 503, 500),
        (404, 484, 484),
        (480, 420, 420),
        (480, 415, 415),
        (408, 486, 486),
        (603, 486, 603),
        (486, 600, 600),
    ] {
        let (mut lab, request, bob, carol) = forked();
        assert!(lab.refuse(BOB, &bob, bobs).is_empty(), "{bobs}: another branch may do better");
        let up = lab.refuse(CAROL, &carol, carols);
        assert_eq!(statuses(&up), [best], "{bobs} and {carols}");
        assert_eq!(values(&up[0].text, "Via").len(), 1);
        lab.absorb(UAC, &request.ack(&up[0].text).text());
        lab.assert_no_leak();
    }
}

/// Section 16.7 steps 5 and 10: a 6xx calls the others off, and goes on when they have ended; a 2xx that comes first wins.
#[test]
fn a_6xx_calls_the_others_off() {
    for carols in [487, 200] {
        let (mut lab, _, bob, carol) = forked();
        lab.receive(CAROL, &reply(&carol, 180, "c"));
        let sent = lab.refuse(BOB, &bob, 603);
        assert_eq!((sent.len(), sent[0].method(), sent[0].to), (1, "CANCEL", addr(CAROL)));
        lab.absorb(CAROL, &reply(&sent[0].text, 200, "c"));
        let up = if carols == 200 {
            lab.receive(CAROL, &reply(&carol, 200, "c"))
        } else {
            lab.refuse(CAROL, &carol, carols)
        };
        assert_eq!(statuses(&up), [if carols == 200 { 200 } else { 603 }]);
        lab.assert_no_leak();
    }
}

/// Section 16.7 step 7: the challenges of all branches are in the 401 or 407 that goes on.
#[test]
fn challenges_are_collected() {
    let (mut lab, _, bob, carol) = forked();
    let www = "WWW-Authenticate: Digest realm=\"b\", nonce=\"1\"\r\nWWW-Authenticate: Digest realm=\"b2\", nonce=\"2\"\r\n";
    let proxy = "Proxy-Authenticate: Digest realm=\"c\", nonce=\"3\"\r\n";
    assert_eq!(lab.receive(CAROL, &reply_with(&carol, 407, "c", proxy)).len(), 1, "only the ACK");
    let sent = lab.receive(BOB, &reply_with(&bob, 401, "b", www));
    let up = &sent[1];
    assert!(matches!(up.status(), 401 | 407));
    assert_eq!(
        values(&up.text, "WWW-Authenticate"),
        ["Digest realm=\"b\", nonce=\"1\"", "Digest realm=\"b2\", nonce=\"2\""]
    );
    assert_eq!(values(&up.text, "Proxy-Authenticate"), ["Digest realm=\"c\", nonce=\"3\""]);
}

/// Section 16.7 step 6 with section 16.8: a branch that nobody answers counts as a 408; when it is all there is, the
/// caller gets that.
#[test]
fn silence_counts_as_408() {
    let (mut lab, _, _, _) = forked();
    let up: Vec<_> = lab.wait(s(33)).into_iter().filter(|o| o.to == addr(UAC) && o.status() > 100).collect();
    assert_eq!((up[0].status(), up[0].at), (408, s(32)));
    lab.assert_no_leak();

    let (mut lab, _, bob, _) = forked();
    assert!(lab.refuse(BOB, &bob, 486).is_empty());
    let up: Vec<_> = lab.wait(s(33)).into_iter().filter(|o| o.to == addr(UAC) && o.status() > 100).collect();
    assert_eq!((up[0].status(), up[0].at), (486, s(32)), "somebody's answer before a silence");
    lab.assert_no_leak();
}

const SERIAL: [Binding; 3] = [
    ("bob", "sip:bob@203.0.113.9:5064", 900, ""),
    ("bob", "sip:bob@203.0.113.20", 500, ""),
    ("bob", "sip:bob@203.0.113.30", 500, ""),
];

fn tried_first() -> (Lab, Request, String) {
    let mut lab = Lab::new(config(), &SERIAL);
    let request =
        Request::invite().header("Proxy-Authorization: Digest username=\"a\", realm=\"example.com\"");
    let sent = lab.pass(UAC, &request.text());
    assert_eq!(sent.to, addr(BOB));
    (lab, request, sent.text)
}

/// Sections 16.5 and 16.6: contacts in order of preference; the next ones when the ones before have failed, and they get
/// the request as it came.
#[test]
fn less_preferred_contacts_are_tried_after_a_failure() {
    let (mut lab, request, first) = tried_first();
    let next = lab.refuse(BOB, &first, 486);
    let to: std::collections::BTreeSet<_> = next.iter().map(|o| o.to).collect();
    assert_eq!(to, [addr(CAROL), addr(DAVE)].into());
    for copy in &next {
        assert_eq!(values(&copy.text, "Via").len(), 2);
        assert_eq!(values(&copy.text, "Via")[1], values(&first, "Via")[1]);
        assert_eq!(value(&copy.text, "Max-Forwards"), "69");
        assert_eq!(value(&copy.text, "Record-Route"), value(&first, "Record-Route"));
        assert_eq!(value(&copy.text, "Max-Breadth"), "30");
    }
    let (a, b) = (next[0].clone(), next[1].clone());
    assert!(lab.refuse(&a.to.to_string(), &a.text, 480).is_empty());
    let up = lab.refuse(&b.to.to_string(), &b.text, 487);
    assert_eq!(statuses(&up), [480]);
    lab.absorb(UAC, &request.ack(&up[0].text).text());
    lab.assert_no_leak();
}

/// The same when nobody answers at the first contact: after Timer B.
#[test]
fn less_preferred_contacts_are_tried_after_a_timeout() {
    let (mut lab, _, _) = tried_first();
    let sent = lab.wait(s(32));
    let next: Vec<_> = sent.iter().filter(|o| o.to == addr(CAROL) || o.to == addr(DAVE)).collect();
    assert_eq!((next.len(), next[0].at, next[1].at), (2, s(32), s(32)));
    lab.assert_no_leak();
}

/// Section 16.7 steps 5 and 10 and section 16.10: nobody else is tried after a 2xx, a 6xx or a CANCEL.
#[test]
fn nobody_else_is_tried_after_the_end() {
    let (mut lab, _, first) = tried_first();
    assert_eq!(statuses(&lab.receive(BOB, &reply(&first, 200, "b"))), [200]);
    lab.assert_no_leak();

    let (mut lab, _, first) = tried_first();
    assert_eq!(statuses(&lab.refuse(BOB, &first, 600)), [600]);
    lab.assert_no_leak();

    let (mut lab, request, first) = tried_first();
    lab.receive(BOB, &reply(&first, 180, "b"));
    let sent = lab.receive(UAC, &request.cancel().text());
    assert_eq!((sent[0].status(), sent[1].method()), (200, "CANCEL"));
    assert_eq!(statuses(&lab.refuse(BOB, &first, 486)), [486]);
    lab.assert_no_leak();
}

/// Section 16.7 with RFC 4320: of a forked MESSAGE the first final response that is a success goes on, the others end
/// here, and nothing is cancelled.
#[test]
fn a_forked_message_is_answered_once() {
    let mut lab = Lab::new(config(), &[BOB_BOUND, CAROL_BOUND]);
    let sent = lab.receive(UAC, &Request::new("MESSAGE", "sip:bob@example.com").text());
    assert_eq!(sent.len(), 2);
    assert!(lab.refuse(&sent[0].to.to_string(), &sent[0].text, 404).is_empty());
    assert_eq!(lab.pass(&sent[1].to.to_string(), &reply(&sent[1].text, 202, "c")).status(), 202);
    lab.assert_no_leak();

    let mut lab = Lab::new(config(), &[BOB_BOUND, CAROL_BOUND]);
    let sent = lab.receive(UAC, &Request::new("MESSAGE", "sip:bob@example.com").text());
    assert_eq!(lab.pass(&sent[1].to.to_string(), &reply(&sent[1].text, 200, "c")).status(), 200);
    lab.absorb(&sent[0].to.to_string(), &reply(&sent[0].text, 200, "b"));
    lab.assert_no_leak();
}
