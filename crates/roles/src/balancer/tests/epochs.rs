//! A transaction stays where it began, whatever happens to the table meanwhile.
#![allow(clippy::disallowed_types, reason = "proptest's prop_oneof! shares strategies in an Arc")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const BOB: &str = "sip:bob@example.com";

#[test]
fn without_an_earlier_epoch_the_via_names_nobody() {
    let mut lab = Lab::new();
    let (_, got) = lab.pass(UAC, &request("INVITE", BOB, &[]));
    assert!(!got.contains("next="));
    assert_eq!(lab.lb.stats().counts.requests_chained, 0);
}

/// The last one named is always the present owner: it takes what nobody has.
#[test]
fn an_owner_that_changed_is_asked_first_and_the_present_one_last() {
    let limits = Limits::default();
    let one = table(1, &[member("p1", P1, State::Ready), member("p2", P2, State::Starting)]);
    let two = one.next(&Change::SetState("p2".to_owned(), State::Ready), &limits).unwrap();
    let three = two.next(&Change::SetState("p1".to_owned(), State::Draining), &limits).unwrap();
    let four = three.next(&Change::SetState("p1".to_owned(), State::Ready), &limits).unwrap();
    let chains = |membership: &Membership| {
        let mut lab = Lab::with(Config::new(addr(LB), KEY), membership.clone());
        let chain_of = |i| {
            let (to, got) = lab.pass(UAC, &request_of(&format!("c{i}"), "INVITE", BOB, &[]));
            chain(to, &got)
        };
        let chains: Vec<_> = (0..64).map(chain_of).collect();
        let chained = chains.iter().filter(|c| c.len() > 1).count() as u64;
        assert_eq!(lab.lb.stats().counts.requests_chained, chained);
        chains
    };
    let seen = |membership: &Membership| chains(membership).into_iter().collect::<BTreeSet<_>>();
    let (p1, p2) = (addr(P1), addr(P2));
    assert_eq!(seen(&one), BTreeSet::from([vec![p1]]));
    assert_eq!(seen(&two), BTreeSet::from([vec![p1], vec![p1, p2]]));
    assert_eq!(seen(&three), BTreeSet::from([vec![p1, p2]]), "a draining member keeps what it has");
    // Who was p1's, then p2's and is p1's again: p1 is asked first, as before, and at the end, so that new calls go to it.
    assert_eq!(seen(&four), BTreeSet::from([vec![p1, p2, p1], vec![p1, p2]]));
    let owner = |c: &[SocketAddr]| *c.last().unwrap();
    let fresh = table(9, &four.members);
    let pairs = chains(&four).into_iter().zip(chains(&fresh));
    assert!(pairs.into_iter().all(|(with, without)| vec![owner(&with)] == without));
    let retired = four.next(&Change::Retire(three.version), &limits).unwrap();
    assert_eq!(seen(&retired), BTreeSet::from([vec![p1], vec![p2]]));
}

/// The last member drains: what it has reaches it, and it decides about what is new. There is nobody else.
#[test]
fn a_draining_owner_is_reached_while_nobody_is_ready() {
    let one = table(1, &[member("p1", P1, State::Ready)]);
    let two = one.next(&Change::SetState("p1".to_owned(), State::Draining), &Limits::default()).unwrap();
    let mut lab = Lab::with(Config::new(addr(LB), KEY), two.clone());
    let (to, got) = lab.pass(UAC, &request("CANCEL", BOB, &[]));
    assert_eq!(chain(to, &got), [addr(P1)]);
    lab.members(two.next(&Change::Retire(1), &Limits::default()).unwrap()).unwrap();
    lab.answers(UAC, &request("INVITE", BOB, &[]), 503, Answered::NoMember);
}

#[test]
fn the_longest_chain_of_the_longest_addresses_fits() {
    let address = |i: usize| format!("[2001:db8:aaaa:bbbb:cccc:dddd:eeee:{i:04x}]:65535");
    let members: Vec<Member> =
        (0..=EPOCHS_MAX).map(|i| member(&format!("m{i}"), &address(0x1000 + i), State::Draining)).collect();
    let mut membership = table(1, &members);
    for m in &members {
        for state in [State::Ready, State::Draining] {
            membership =
                membership.next(&Change::SetState(m.name.clone(), state), &Limits::default()).unwrap();
        }
    }
    membership = membership
        .next(&Change::SetState(members[0].name.clone(), State::Ready), &Limits::default())
        .unwrap();
    let mut lab = Lab::with(Config::new(addr("[2001:db8::1]:5060"), KEY), membership);
    let uac = "[2001:db8::7]:5062";
    let (to, got) = lab.pass(uac, &request("INVITE", BOB, &[]).replace(UAC, uac));
    let order = (1..=EPOCHS_MAX).chain([0]).map(|i| members[i].address);
    assert_eq!(chain(to, &got), order.collect::<Vec<_>>());
}

/// Proxies as far as this matters: who has which INVITE.
#[derive(Default)]
struct Proxies {
    holds: BTreeMap<SocketAddr, BTreeSet<u32>>,
}

impl Proxies {
    /// Who claims a message that goes along `chain`: whoever has the call, or else the last.
    fn claim(&self, call: u32, chain: &[SocketAddr]) -> SocketAddr {
        let has = |p: &&SocketAddr| self.holds.get(p).is_some_and(|calls| calls.contains(&call));
        *chain.iter().find(has).unwrap_or(chain.last().unwrap())
    }
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Toggle(usize),
    State(usize, State),
    Weight(usize, u32),
    Retire,
    Call,
}

fn step() -> impl Strategy<Value = Step> {
    let states = prop::sample::select(vec![State::Ready, State::Ready, State::Draining, State::Suspect]);
    prop_oneof![
        2 => (0usize..4).prop_map(Step::Toggle),
        4 => (0usize..4, states).prop_map(|(i, state)| Step::State(i, state)),
        1 => (0usize..4, 1u32..4).prop_map(|(i, weight)| Step::Weight(i, weight)),
        3 => Just(Step::Retire),
        4 => Just(Step::Call),
    ]
}

/// A history: the table, what was forgotten of it, and the calls that were made.
struct History {
    lab: Lab,
    membership: Membership,
    /// The latest version whose epoch is forgotten: nothing is promised to calls up to it.
    forgotten: u64,
    proxies: Proxies,
    /// Version and holder of each call.
    calls: Vec<(u64, SocketAddr)>,
}

impl History {
    fn new() -> Self {
        let membership = table(1, &[member("m0", "192.0.2.100:5060", State::Ready)]);
        let lab = Lab::with(Config::new(addr(LB), KEY), membership.clone());
        History { lab, membership, forgotten: 0, proxies: Proxies::default(), calls: Vec::new() }
    }

    fn change(&mut self, change: Change) {
        let next = match self.membership.next(&change, &Limits::default()) {
            Ok(next) => next,
            Err(Refused::Unknown(_)) => return,
            Err(why) => panic!("{change:?} is refused: {why:?}"),
        };
        let oldest = next.earlier.first().map_or(next.version, |e| e.version);
        let lost = self.membership.earlier.iter().map(|e| e.version).filter(|&v| v < oldest).max();
        self.forgotten = self.forgotten.max(lost.unwrap_or(0));
        self.lab.members(next.clone()).unwrap();
        self.membership = next;
    }

    fn apply(&mut self, step: &Step) {
        let name = |i: usize| format!("m{i}");
        match *step {
            Step::Toggle(i) => {
                let address = format!("192.0.2.{}:5060", 100 + i);
                if self.membership.members.iter().any(|m| m.name == name(i)) {
                    // A process that ends takes its transactions with it.
                    self.proxies.holds.remove(&addr(&address));
                    self.change(Change::Remove(name(i)));
                } else {
                    self.change(Change::Add(member(&name(i), &address, State::Ready)));
                }
            }
            Step::State(i, state) => self.change(Change::SetState(name(i), state)),
            Step::Weight(i, weight) => self.change(Change::SetWeight(name(i), weight)),
            Step::Retire => {
                let oldest = self.membership.earlier.first().map_or(0, |e| e.version);
                self.change(Change::Retire(oldest));
            }
            Step::Call => self.call(),
        }
    }

    fn send(&mut self, call: u32, method: &str) -> Option<Vec<SocketAddr>> {
        let text = request_of(&format!("{call}@x"), method, BOB, &[]);
        self.lab.receive(UAC, text.as_bytes());
        let (flow, bytes) = self.lab.out.messages.pop()?;
        Some(chain(flow.peer, std::str::from_utf8(&bytes).unwrap()))
    }

    fn call(&mut self) {
        let call = self.calls.len() as u32;
        let Some(chain) = self.send(call, "INVITE").filter(|c| c[0] != addr(UAC)) else {
            self.calls.push((0, addr(UAC)));
            return;
        };
        let holder = self.proxies.claim(call, &chain);
        assert_eq!(Some(&holder), chain.last(), "a new call is nobody's before");
        let ready = self.membership.members.iter().find(|m| m.address == holder).unwrap().state;
        self.proxies.holds.entry(holder).or_default().insert(call);
        // While nobody is ready, a call is taken as one of the epoch that named its holder; nothing is checked for it.
        let version = if ready == State::Ready { self.membership.version } else { 0 };
        self.calls.push((version, holder));
    }

    /// Every call whose holder still serves and still has it is found there, by whatever belongs to its INVITE.
    fn check(&mut self) -> Result<usize, TestCaseError> {
        let mut checked = 0;
        for call in 0..self.calls.len() {
            let (version, holder) = self.calls[call];
            let serves = self.membership.members.iter().any(|m| m.address == holder && m.state.is_serving());
            let has = self.proxies.holds.get(&holder).is_some_and(|c| c.contains(&(call as u32)));
            if version <= self.forgotten || !serves || !has {
                continue;
            }
            for method in ["CANCEL", "ACK", "INVITE"] {
                let chain = self.send(call as u32, method).expect("a member serves");
                prop_assert_eq!(self.proxies.claim(call as u32, &chain), holder, "{} of {:?}", method, chain);
                prop_assert!(
                    chain.windows(2).all(|pair| pair[0] != pair[1]),
                    "nobody passes on to itself: {:?}",
                    chain
                );
            }
            checked += 1;
        }
        Ok(checked)
    }
}

proptest! {
    #[test]
    fn whatever_belongs_to_an_invite_reaches_the_proxy_that_has_it(steps in prop::collection::vec(step(), 1..80)) {
        let mut history = History::new();
        history.call();
        for step in &steps {
            history.apply(step);
            history.check()?;
        }
    }

    /// Without a change, every message of a call goes to one member, and calls spread over all of them.
    #[test]
    fn a_call_has_one_member(ids in prop::collection::btree_set("[a-z0-9]{1,20}(@[a-z.]{1,10})?", 1..30), weights in prop::collection::vec(1u32..5, 1..6)) {
        let members: Vec<Member> = weights.iter().enumerate().map(|(i, &weight)| {
            Member { weight, ..member(&format!("m{i}"), &format!("192.0.2.{}:5060", 100 + i), State::Ready) }
        }).collect();
        let mut lab = Lab::with(Config::new(addr(LB), KEY), table(1, &members));
        for id in &ids {
            let first = lab.pass(UAC, &request_of(id, "INVITE", BOB, &[])).0;
            for (from, method) in [(UAC, "INVITE"), (UAC, "ACK"), (UAC, "CANCEL"), (UAC, "BYE"), (UAS, "BYE"), (UAS, "WHATEVER")] {
                prop_assert_eq!(lab.pass(from, &request_of(id, method, BOB, &[])).0, first);
            }
        }
    }
}

/// The property above checks something: in a plain history, most calls are checked at the end.
#[test]
fn histories_check_calls() {
    let mut history = History::new();
    let step = |i: usize| [Step::Call, Step::Call, Step::Toggle(1 + i % 3), Step::Call][i % 4].clone();
    for i in 0..24 {
        history.apply(&step(i));
    }
    let checked = history.check().unwrap();
    assert!(checked >= 9, "{checked} of {} calls are checked", history.calls.len());
}
