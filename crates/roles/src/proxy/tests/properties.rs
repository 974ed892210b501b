//! Any interleaving of requests, responses, CANCELs and silence, over a network that loses, doubles and delays: what holds
//! for every call (RFC 3261 sections 16.7 and 17, RFC 6026, RFC 4320).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use busyhour_engine::{Instant, Node, Rng};

use super::kit::*;

const SEEDS: u64 = 1000;
const FINALS: [u16; 17] =
    [200, 200, 202, 301, 302, 400, 401, 404, 407, 408, 415, 486, 487, 500, 503, 600, 603];
const CONTACTS: [Binding; 5] = [
    ("bob", "sip:bob@203.0.113.9:5064", 1000, ""),
    ("bob", "sip:bob@203.0.113.20", 1000, ""),
    ("bob", "sip:bob@203.0.113.30", 700, ""),
    ("bob", "sip:bob@203.0.113.31", 700, ""),
    ("bob", "sip:bob@203.0.113.32", 300, ""),
];

/// What the caller has got for one request, by its branch.
#[derive(Default)]
struct Got {
    invite: bool,
    /// The different final responses, as text.
    finals: BTreeSet<String>,
    /// How often each response of a callee was forwarded, and how often it had come.
    forwarded: BTreeMap<String, u32>,
}

struct World {
    lab: Lab,
    rng: Rng,
    agenda: BTreeMap<(Instant, u64), (String, String)>,
    serial: u64,
    calls: BTreeMap<String, (Request, Got)>,
    /// How often each response of a callee was delivered, by the number it carries.
    delivered: BTreeMap<String, u32>,
    /// The callees' INVITEs, by branch: whether they have been answered finally.
    invites: BTreeMap<String, bool>,
    branches: BTreeSet<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let bound = rng.below(CONTACTS.len() as u64 + 1) as usize;
        World {
            lab: Lab::new(config(), &CONTACTS[..bound]),
            rng,
            agenda: BTreeMap::new(),
            serial: 0,
            calls: BTreeMap::new(),
            delivered: BTreeMap::new(),
            invites: BTreeMap::new(),
            branches: BTreeSet::new(),
        }
    }

    fn at(&mut self, delay: Duration, from: &str, text: String) {
        self.serial += 1;
        self.agenda.insert((self.lab.now + delay, self.serial), (from.to_owned(), text));
    }

    /// Over the network: lost, doubled, delayed.
    fn send(&mut self, from: &str, text: &str, after: Duration) {
        let copies = if self.rng.chance(0.15) { 0 } else { 1 + usize::from(self.rng.chance(0.15)) };
        for _ in 0..copies {
            let delay = self.rng.between(ms(1), ms(300));
            self.at(after + delay, from, text.to_owned());
        }
    }

    fn start_call(&mut self, n: u64) {
        let method = ["INVITE", "INVITE", "INVITE", "MESSAGE", "BYE", "FOO"][self.rng.below(6) as usize];
        let request = Request::new(method, "sip:bob@example.com").call_id(&format!("call-{n}"));
        let start = self.rng.between(ms(0), s(20));
        self.at(start, UAC, request.text());
        for _ in 0..self.rng.below(3) {
            let again = self.rng.between(ms(1), s(4));
            self.at(start + again, UAC, request.text());
        }
        if method == "INVITE" && self.rng.chance(0.4) {
            let when = start + self.rng.between(ms(1), s(60));
            for _ in 0..=self.rng.below(3) {
                self.send(UAC, &request.cancel().text(), when);
            }
        }
        let got = Got { invite: method == "INVITE", ..Got::default() };
        self.calls.insert(branch(&request.text()).to_owned(), (request, got));
    }

    fn run(&mut self) {
        for n in 0..1 + self.rng.below(6) {
            self.start_call(n);
        }
        // Timers and arrivals in their order, until neither the network nor, for 300 s, the proxy has anything to do.
        let mut last = self.lab.now;
        loop {
            let due = self.lab.proxy.next_deadline();
            let arrival = self.agenda.keys().next().map(|&(at, _)| at);
            match (due, arrival) {
                (Some(due), arrival) if due < last + s(300) && arrival.is_none_or(|at| due <= at) => {
                    let sent = self.lab.wait(due - self.lab.now);
                    self.take(sent);
                }
                (_, Some(at)) => {
                    last = at;
                    let sent = self.lab.wait(at - self.lab.now);
                    assert!(sent.is_empty(), "all that was due was done before");
                    self.deliver();
                }
                (_, None) => return,
            }
        }
    }

    fn deliver(&mut self) {
        let (_, (from, text)) = self.agenda.pop_first().expect("something is under way");
        if let Some(id) = values(&text, "X-Id").first() {
            *self.delivered.entry((*id).to_owned()).or_default() += 1;
        }
        let sent = self.lab.receive(&from, &text);
        self.take(sent);
    }

    fn take(&mut self, sent: Vec<Out>) {
        for out in sent {
            if out.status() > 0 {
                self.caller_gets(&out);
            } else {
                self.callee_gets(&out);
            }
        }
    }

    fn caller_gets(&mut self, out: &Out) {
        assert_eq!((out.to, values(&out.text, "Via").len()), (addr(UAC), 1), "{}", out.text);
        let status = out.status();
        if value(&out.text, "CSeq").ends_with("CANCEL") {
            assert!(matches!(status, 200 | 481), "{}", out.text);
            return;
        }
        let (request, got) = self.calls.get_mut(branch(&out.text)).expect("a response without a request");
        assert_eq!(value(&out.text, "CSeq"), format!("1 {}", request.method));
        if let Some(id) = values(&out.text, "X-Id").first() {
            *got.forwarded.entry((*id).to_owned()).or_default() += 1;
            assert_ne!(status, 100, "a 100 is hop by hop");
            assert_ne!(status, 503);
        }
        if status >= 200 {
            got.finals.insert(out.text.clone());
        }
        if !got.invite {
            assert!(status == 100 || status >= 200, "RFC 4320 section 4.1: {}", out.text);
            assert_ne!(status, 408, "RFC 4320 section 4.2");
        } else if status >= 300 {
            let ack = request.ack(&out.text).text();
            self.send(UAC, &ack, ms(0));
        } else if status >= 200 {
            let to = value(&out.text, "To").to_owned();
            let ack = Request { to, ..Request::new("ACK", "sip:bob@203.0.113.9:5064") };
            self.send(
                UAC,
                &ack.via(&format!("SIP/2.0/UDP {UAC};branch=z9hG4bK-ack-{}", self.serial)).text(),
                ms(0),
            );
        }
    }

    fn callee_gets(&mut self, out: &Out) {
        let at = out.to.to_string();
        assert!(at.starts_with("203.0.113."), "{}", out.text);
        match out.method() {
            "ACK" => {}
            "CANCEL" => {
                let reply_to_cancel = self.numbered(&out.text, 200);
                self.send(&at, &reply_to_cancel, ms(0));
                let invite = self.invites.get_mut(branch(&out.text)).expect("a CANCEL without an INVITE");
                if !*invite && self.rng.chance(0.7) {
                    *invite = true;
                    let text = out.text.replace("CANCEL sip:", "INVITE sip:").replace("1 CANCEL", "1 INVITE");
                    let text = self.numbered(&self.with_caller_via(&text), 487);
                    self.send(&at, &text, ms(0));
                }
            }
            _ => self.callee_acts(&at, out),
        }
    }

    /// A CANCEL has one Via; the 487 to its INVITE has those of the INVITE.
    fn with_caller_via(&self, text: &str) -> String {
        let call =
            self.calls.values().find(|(r, _)| r.call_id == value(text, "Call-ID")).expect("a known call");
        let ours = format!("Via: {}\r\n", value(text, "Via"));
        text.replacen(&ours, &format!("{ours}Via: {}\r\n", call.0.vias[0]), 1)
    }

    fn callee_acts(&mut self, at: &str, out: &Out) {
        let (invite, first) = (out.method() == "INVITE", self.branches.insert(branch(&out.text).to_owned()));
        if !first {
            return;
        }
        if invite {
            self.invites.insert(branch(&out.text).to_owned(), false);
        }
        let mut after = Duration::ZERO;
        for _ in 0..self.rng.below(4) {
            after += self.rng.between(ms(0), s(20));
            let status = [100, 180, 183, 199][self.rng.below(4) as usize];
            let text = self.numbered(&out.text, status);
            self.send(at, &text, after);
        }
        for _ in 0..[1, 1, 1, 0, 2][self.rng.below(5) as usize] {
            after += self.rng.between(ms(0), s(40));
            let status = FINALS[self.rng.below(FINALS.len() as u64) as usize];
            let text = self.numbered(&out.text, status);
            for copy in 0..1 + self.rng.below(3) {
                self.send(at, &text, after + s(copy));
            }
        }
    }

    fn numbered(&mut self, request: &str, status: u16) -> String {
        self.serial += 1;
        reply_with(request, status, &format!("t{}", self.serial), &format!("X-Id: {}\r\n", self.serial))
    }

    /// The final statuses that there were.
    fn check(&mut self) -> BTreeSet<u16> {
        let mut statuses = BTreeSet::new();
        for (_, (request, got)) in std::mem::take(&mut self.calls) {
            let failures = got.finals.iter().filter(|text| status(text) >= 300).count();
            statuses.extend(got.finals.iter().map(|text| status(text)));
            let successes = got.finals.len() - failures;
            if got.invite {
                let once = (failures == 1 && successes == 0) || (failures == 0 && successes > 0);
                assert!(once, "{}: {:#?}", request.call_id, got.finals);
            } else {
                assert!(got.finals.len() <= 1, "{}: {:#?}", request.call_id, got.finals);
            }
            for text in got.finals.iter().filter(|text| got.invite && status(text) < 300) {
                let id = value(text, "X-Id");
                assert!(got.forwarded[id] <= self.delivered[id], "once for each that came: {text}");
            }
        }
        self.lab.assert_no_leak();
        let stats = self.lab.stats();
        assert_eq!(stats.last_defect, None);
        statuses
    }
}

/// The seed of a failure is in its message; `run_seed` alone replays it.
#[test]
fn every_invite_ends_once_and_nothing_is_left() {
    let statuses: BTreeSet<u16> = (0..SEEDS).flat_map(run_seed).collect();
    // Every kind of end occurs, so that the test tests something: accepted, refused, timed out, cancelled, not registered.
    for expected in FINALS.into_iter().filter(|&status| status != 503).chain([404, 408, 487, 500]) {
        assert!(statuses.contains(&expected), "no request ended with {expected}: {statuses:?}");
    }
}

fn run_seed(seed: u64) -> BTreeSet<u16> {
    let outcome = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        world.run();
        world.check()
    });
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("seed {seed}: {text}");
    })
}
