//! A proxy among others: transactions of other members, trusted Vias, draining, epochs.

use super::kit::*;
use crate::proxy::Command;

const P2: &str = "192.0.2.11:5060";
const P3: &str = "192.0.2.12:5060";

/// What the balancer makes of a request of the caller; `next` are the members that it names.
fn through_balancer(request: &Request, next: &str) -> Request {
    let mut request = request.clone();
    let next = if next.is_empty() { String::new() } else { format!(";next=\"{next}\"") };
    request.vias.insert(0, format!("SIP/2.0/UDP {LB};branch=z9hG4bK-lb-1{next}"));
    request.vias[1] = request.vias[1].replace(";rport", ";rport=5062;received=198.51.100.7");
    request
}

fn lab() -> Lab {
    let mut cluster = config();
    cluster.trusted = vec![addr(P3), addr(LB), addr(P2)];
    Lab::new(cluster, &[BOB_BOUND])
}

/// What this member does not know goes to the next one that may, as it came but for the list.
#[test]
fn a_message_of_another_members_call_is_passed_on_as_it_came() {
    let ringing = Request::invite().tagged("b");
    for request in
        [Request::invite(), ringing.cancel(), Request::new("ACK", "sip:bob@203.0.113.9").tagged("b")]
    {
        let text = through_balancer(&request, &format!("{P2},{P3}")).text();
        let mut lab = lab();
        let sent = lab.pass(LB, &text);
        assert_eq!(sent.to, addr(P2));
        assert_eq!(
            sent.text,
            text.replace(&format!(";next=\"{P2},{P3}\""), &format!(";passed;next=\"{P3}\""))
        );
        assert_eq!((lab.stats().passed_on, lab.stats().live), (1, (0, 0)));
        // The next one is not the owner either.
        let last = lab.pass(P2, &sent.text);
        assert_eq!(last.to, addr(P3));
        assert_eq!(
            value(&last.text, "Via").matches("passed").count(),
            1,
            "section 7.3.1: no parameter twice"
        );
        assert_eq!(last.text, text.replace(&format!(";next=\"{P2},{P3}\""), ";passed;next=\"\""));
        let alone = lab.pass(LB, &through_balancer(&request, P2).text());
        assert_eq!((alone.to, value(&alone.text, "Via").ends_with(";passed")), (addr(P2), true));
    }
}

/// The last in the list does not pass on; its answers go to the balancer that the topmost Via names, and that Via is not
/// stamped with the address of the member that passed it on.
#[test]
fn the_last_member_serves_what_was_passed_on() {
    for via in [";passed", ";passed;next=\"\""] {
        let mut lab = lab();
        let request = through_balancer(&Request::invite(), "");
        let text = request.text().replacen("lb-1", &format!("lb-1{via}"), 1);
        let sent = lab.pass(P2, &text);
        assert_eq!(sent.to, addr(BOB));
        assert_eq!(values(&sent.text, "Via")[1], value(&text, "Via"));
        let up = lab.pass(BOB, &reply(&sent.text, 180, "b"));
        assert_eq!((up.to, value(&up.text, "Via")), (addr(LB), value(&text, "Via")));
        let mut nobody = request.clone();
        nobody.uri = "sip:nobody@example.com".to_owned();
        let refused = lab.pass(P2, &nobody.text().replacen("lb-1", &format!("lb-2{via}"), 1));
        assert_eq!((refused.status(), refused.to), (404, addr(LB)));
        assert!(!value(&refused.text, "Via").contains("received"), "{}", refused.text);
    }
}

/// What this member does know, it keeps: the retransmission, the CANCEL, the ACK to a refusal.
#[test]
fn the_owner_keeps_what_is_its_own() {
    let mut lab = lab();
    let invite = through_balancer(&Request::invite(), "");
    let sent = lab.pass(LB, &invite.text());
    let later = through_balancer(&Request::invite(), P2);
    lab.absorb(LB, &later.text());
    lab.pass(BOB, &reply(&sent.text, 180, "b"));
    let both = lab.receive(LB, &later.cancel().text());
    assert_eq!(
        (both[0].status(), both[0].to, both[1].method(), both[1].to),
        (200, addr(LB), "CANCEL", addr(BOB))
    );
    lab.absorb(BOB, &reply(&both[1].text, 200, "b"));
    let up = lab.refuse(BOB, &sent.text, 487).remove(0);
    lab.absorb(LB, &later.ack(&up.text).text());
    assert_eq!(lab.stats().passed_on, 0);
    lab.assert_no_leak();
}

/// Who is no member cannot have messages passed on, nor answers sent elsewhere.
#[test]
fn strangers_are_not_believed() {
    let mut lab = lab();
    let request = through_balancer(&Request::invite(), P2);
    let sent = lab.pass(UAC, &request.text().replacen("lb-1", "lb-1;passed", 1));
    assert_eq!(sent.to, addr(BOB));
    assert!(values(&sent.text, "Via")[1].contains("received=198.51.100.7"), "{}", sent.text);
    let up = lab.pass(BOB, &reply(&sent.text, 180, "b"));
    assert_eq!(up.to, addr("198.51.100.7:5060"));
    assert_eq!(lab.stats().passed_on, 0);
    lab.command(Command::Members { epoch: 1, trusted: vec![addr(P3), addr(P2)] });
    let text = request.call_id("call-2");
    lab.pass(LB, &through_balancer(&text, P2).text());
    assert_eq!(lab.stats().passed_on, 0, "it has left the cluster");
}

/// A list that names no address is not followed.
#[test]
fn a_broken_list_of_owners_is_dropped() {
    let mut lab = lab();
    lab.absorb(LB, &through_balancer(&Request::invite(), "nowhere").text());
    lab.absorb(LB, &through_balancer(&Request::invite(), ",").text());
    assert_eq!(lab.stats().drops.iter().sum::<u64>(), 2);
}

/// OPTIONS tells load balancers whether new calls are wanted. What has begun goes on, and so does what was sent before the
/// balancers knew; when the whole cluster ends, a new call is sent away.
#[test]
fn a_draining_proxy_says_so_and_finishes_what_it_has() {
    let mut lab = Lab::with_bob();
    let options = |n: u32| Request::new("OPTIONS", "sip:192.0.2.10").call_id(&format!("options-{n}"));
    lab.answer(UAC, &options(1).text(), 200);
    lab.pass(UAC, &Request::invite().text());
    lab.command(Command::Drain);
    let refused = lab.answer(UAC, &options(2).text(), 503);
    assert!(value(&refused.text, "Retry-After").parse::<u32>().is_ok());
    lab.absorb(UAC, &Request::invite().text());
    assert_eq!(lab.pass(UAC, &Request::invite().call_id("underway").text()).to, addr(BOB));
    lab.command(Command::Close);
    lab.answer(UAC, &options(4).text(), 503);
    lab.answer(UAC, &Request::invite().call_id("new").text(), 503);
    let message = Request::new("MESSAGE", "sip:bob@example.com").call_id("message");
    assert_eq!(lab.pass(UAC, &message.text()).to, addr(BOB));
    lab.command(Command::Resume);
    assert_eq!(lab.pass(UAC, &Request::invite().call_id("newer").text()).to, addr(BOB));
    lab.answer(UAC, &options(3).text(), 200);
}

/// What was sent under the table before is still under way when a proxy hears of a new one: until T4 has passed it counts
/// under the epoch before, or that would be retired while a transaction of it is alive.
#[test]
fn an_epoch_begins_when_everything_older_has_arrived() {
    let mut lab = Lab::with_bob();
    let epoch = |lab: &mut Lab, epoch| lab.command(Command::Members { epoch, trusted: Vec::new() });
    epoch(&mut lab, 3);
    epoch(&mut lab, 4);
    lab.wait(s(2));
    epoch(&mut lab, 5);
    lab.pass(UAC, &Request::invite().text());
    assert_eq!((lab.stats().epoch, lab.stats().live_by_epoch), (3, vec![(3, 1)]));
    lab.wait(s(3));
    lab.pass(UAC, &Request::invite().call_id("call-2").text());
    assert_eq!((lab.stats().epoch, lab.stats().live_by_epoch), (4, vec![(3, 1), (4, 1)]));
    lab.wait(s(2));
    assert_eq!(lab.stats().epoch, 5);
}

/// Transactions count under the epoch that they began in, until they end; an older epoch does not come back.
#[test]
fn transactions_are_counted_by_epoch() {
    let mut lab = Lab::with_bob();
    let epoch = |lab: &mut Lab, epoch| lab.command(Command::Members { epoch, trusted: Vec::new() });
    epoch(&mut lab, 3);
    let first = lab.pass(UAC, &Request::invite().text());
    lab.pass(UAC, &Request::new("MESSAGE", "sip:bob@example.com").text());
    epoch(&mut lab, 4);
    lab.wait(s(5));
    lab.pass(UAC, &Request::invite().call_id("call-2").text());
    epoch(&mut lab, 2);
    assert_eq!((lab.stats().epoch, lab.stats().live_by_epoch), (4, vec![(3, 2), (4, 1)]));
    lab.receive(BOB, &reply(&first.text, 180, "b"));
    lab.receive(UAC, &Request::invite().cancel().text());
    assert_eq!(lab.stats().live_by_epoch, [(3, 2), (4, 2)], "the CANCEL is a transaction of its own");
    lab.refuse(BOB, &first.text, 487);
    lab.wait(s(70));
    let stats = lab.stats();
    assert_eq!(stats.live_by_epoch.iter().map(|&(_, n)| n).sum::<usize>(), stats.live.0);
    lab.assert_no_leak();
}
