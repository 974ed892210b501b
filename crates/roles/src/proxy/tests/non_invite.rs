//! Requests other than INVITE through a transaction (RFC 3261 sections 17.1.2 and 17.2.2, RFC 4320).

use super::kit::*;
use crate::proxy::Drop;

fn sent() -> (Lab, Request, String) {
    let mut lab = Lab::with_bob();
    let request = Request::new("MESSAGE", "sip:bob@example.com");
    let sent = lab.pass(UAC, &request.text());
    assert_eq!(sent.to, addr(BOB));
    (lab, request, sent.text)
}

fn times(sent: &[Out], to: &str) -> Vec<u64> {
    sent.iter().filter(|o| o.to == addr(to)).map(|o| o.at.as_millis() as u64).collect()
}

/// RFC 4320 section 4.1: 100 after 3.5 s, no sooner, and no other provisional response ever.
#[test]
fn the_only_provisional_response_is_a_late_100() {
    let (mut lab, request, sent) = sent();
    lab.absorb(BOB, &reply(&sent, 180, "b"));
    lab.absorb(BOB, &reply(&sent, 100, ""));
    lab.absorb(UAC, &request.text());
    let waited = lab.wait(s(5));
    let up: Vec<_> = waited.iter().filter(|o| o.to == addr(UAC)).collect();
    assert_eq!((up.len(), up[0].status(), up[0].at), (1, 100, ms(3500)));
    assert_eq!(tag(&up[0].text, "To"), None, "section 8.2.6.2 of RFC 3261 leaves it to 100 to have none");
    assert_eq!(
        lab.pass(UAC, &request.text()).text,
        up[0].text,
        "section 17.2.2: the last provisional response again"
    );
    lab.absorb(BOB, &reply(&sent, 183, "b"));
    assert_eq!(lab.pass(BOB, &reply(&sent, 200, "b")).status(), 200);
    lab.assert_no_leak();
}

/// RFC 3261 section 17.2.2: a final response is repeated when the request comes again, for Timer J.
#[test]
fn a_repeated_request_gets_the_same_final_response() {
    let (mut lab, request, sent) = sent();
    let up = lab.pass(BOB, &reply(&sent, 404, "b"));
    lab.wait(s(31));
    assert_eq!(lab.pass(UAC, &request.text()).text, up.text);
    lab.wait(s(2));
    assert_eq!(lab.pass(UAC, &request.text()).to, addr(BOB), "after Timer J it is a new request");
    lab.assert_no_leak();
}

/// RFC 3261 section 17.1.2.2: Timer E from T1 up to T2; T2 once there is a provisional response.
#[test]
fn the_request_is_repeated_until_it_is_answered() {
    let (mut lab, _, _) = sent();
    assert_eq!(
        times(&lab.wait(s(40)), BOB),
        [500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500]
    );
    lab.assert_no_leak();

    let (mut lab, _, sent) = sent();
    lab.wait(ms(600));
    lab.absorb(BOB, &reply(&sent, 100, ""));
    assert_eq!(times(&lab.wait(s(10)), BOB), [1500, 5500, 9500]);
}

/// RFC 4320 section 4.2: a request that nobody answers is not answered with 408, and a late final response is not
/// forwarded. A copy of the request that is still under way starts nothing.
#[test]
fn a_request_that_nobody_answers_ends_silently() {
    let (mut lab, request, sent) = sent();
    let up: Vec<_> = lab.wait(s(33)).into_iter().filter(|o| o.to == addr(UAC)).collect();
    assert_eq!((up.len(), up[0].status()), (1, 100));
    lab.absorb(BOB, &reply(&sent, 200, "b"));
    assert_eq!(lab.stats().drops[Drop::StrayResponse as usize], 1);
    assert_eq!(lab.pass(UAC, &request.text()).status(), 100);
    assert_eq!((lab.stats().open, lab.stats().forwarded), (0, 1));
    lab.assert_no_leak();
}

/// The same section: a 408 from downstream is not sent on, and takes no other answer's place.
#[test]
fn a_408_is_not_sent_on() {
    let (mut lab, request, sent) = sent();
    lab.absorb(BOB, &reply(&sent, 408, "b"));
    lab.absorb(UAC, &request.text());
    let up: Vec<_> = lab.wait(s(60)).into_iter().filter(|o| o.to == addr(UAC)).collect();
    assert_eq!((up.len(), up[0].status()), (1, 100));
    lab.assert_no_leak();

    let mut lab = Lab::new(config(), &[BOB_BOUND, CAROL_BOUND]);
    let sent = lab.receive(UAC, &Request::new("MESSAGE", "sip:bob@example.com").text());
    assert!(lab.refuse(&sent[0].to.to_string(), &sent[0].text, 404).is_empty());
    let up = lab.refuse(&sent[1].to.to_string(), &sent[1].text, 408);
    assert_eq!((up.len(), up[0].status()), (1, 404));
    lab.assert_no_leak();
}

/// RFC 3261 section 17.1.2.2: repeated final responses are absorbed; RFC 4320: only one goes on.
#[test]
fn a_repeated_final_response_is_absorbed() {
    let (mut lab, _, sent) = sent();
    assert_eq!(lab.pass(BOB, &reply(&sent, 200, "b")).status(), 200);
    lab.absorb(BOB, &reply(&sent, 200, "b"));
    lab.absorb(BOB, &reply(&sent, 404, "b"));
    lab.assert_no_leak();
}

/// RFC 3261 section 16.7 step 6 holds for every method: a 503 goes on as a 500.
#[test]
fn a_503_goes_on_as_a_500() {
    let (mut lab, _, sent) = sent();
    let up = lab.pass(BOB, &reply_with(&sent, 503, "b", "Retry-After: 9\r\n"));
    assert_eq!((up.status(), values(&up.text, "Retry-After").len()), (500, 0));
}
