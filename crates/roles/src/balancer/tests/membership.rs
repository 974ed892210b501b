//! The table: what a change makes of it, and which tables a balancer takes.

use super::*;

fn three() -> Membership {
    table(
        7,
        &[member("p1", P1, State::Ready), member("p2", P2, State::Ready), member("p3", P3, State::Starting)],
    )
}

fn next(membership: &Membership, change: Change) -> Result<Membership, Refused> {
    membership.next(&change, &Limits::default())
}

#[test]
fn a_change_of_who_is_ready_begins_an_epoch() {
    let before = three();
    let epoch = Epoch { version: 7, ready: before.ready() };
    for change in [
        Change::SetState("p3".to_owned(), State::Ready),
        Change::SetState("p1".to_owned(), State::Draining),
        Change::SetState("p1".to_owned(), State::Suspect),
        Change::SetWeight("p2".to_owned(), 5),
        Change::Remove("p2".to_owned()),
        Change::Add(member("p4", UAS, State::Ready)),
    ] {
        let after = next(&before, change.clone()).unwrap();
        assert_eq!((after.version, &after.earlier), (8, &vec![epoch.clone()]), "{change:?}");
    }
    for change in [
        Change::SetState("p3".to_owned(), State::Suspect),
        Change::SetWeight("p3".to_owned(), 5),
        Change::Remove("p3".to_owned()),
        Change::Add(member("p4", UAS, State::Starting)),
        Change::Retire(3),
    ] {
        let after = next(&before, change.clone()).unwrap();
        assert_eq!((after.version, after.earlier.len()), (8, 0), "{change:?}");
    }
}

#[test]
fn epochs_are_retired_by_version_and_bounded() {
    let mut membership = three();
    for i in 0..12 {
        let state = if i % 2 == 0 { State::Draining } else { State::Ready };
        membership = next(&membership, Change::SetState("p1".to_owned(), state)).unwrap();
    }
    let versions = |m: &Membership| m.earlier.iter().map(|e| e.version).collect::<Vec<_>>();
    assert_eq!(versions(&membership), [11, 12, 13, 14, 15, 16, 17, 18]);
    assert_eq!(versions(&next(&membership, Change::Retire(15)).unwrap()), [16, 17, 18]);
    assert_eq!(versions(&next(&membership, Change::Retire(u64::MAX)).unwrap()), [0u64; 0]);
}

#[test]
fn addresses_that_are_left_are_remembered_until_they_are_taken_again() {
    let limits = Limits { departed_max: 2, ..Limits::default() };
    let next = |m: &Membership, change| m.next(&change, &limits).unwrap();
    let mut membership = three();
    for name in ["p2", "p1", "p3"] {
        membership = next(&membership, Change::Remove(name.to_owned()));
    }
    assert_eq!(membership.departed, [addr(P1), addr(P3)]);
    membership = next(&membership, Change::Add(member("p9", P1, State::Ready)));
    assert_eq!(membership.departed, [addr(P3)]);
}

#[test]
fn what_does_not_fit_the_table_is_refused() {
    let own = addr(LB);
    let add = |name: &str, address: &str, weight| {
        Change::Add(Member { weight, ..member(name, address, State::Ready) })
    };
    let limits = Limits { members_max: 4, ..Limits::default() };
    for (change, why) in [
        (add("p1", UAS, 1), Refused::NameTaken("p1".to_owned())),
        (add("p4", P1, 1), Refused::AddressTaken(addr(P1))),
        (add("p4", UAS, 0), Refused::NoWeight("p4".to_owned())),
        (Change::SetWeight("p1".to_owned(), 0), Refused::NoWeight("p1".to_owned())),
        (Change::Remove("p4".to_owned()), Refused::Unknown("p4".to_owned())),
        (Change::SetState("p4".to_owned(), State::Ready), Refused::Unknown("p4".to_owned())),
    ] {
        assert_eq!(three().next(&change, &limits), Err(why));
    }
    let four = three().next(&add("p4", UAS, 1), &limits).unwrap();
    assert_eq!(four.next(&add("p5", UAC, 1), &limits), Err(Refused::TooManyMembers));

    // A balancer refuses the same, and what it could not send to; the table in force stays.
    let mut lab = Lab::with(Config { limits, ..Config::new(own, KEY) }, three());
    let broken = |members: &[Member]| table(9, members);
    let many: Vec<Member> =
        (0..5).map(|i| member(&format!("m{i}"), &format!("192.0.2.{}:5060", 30 + i), State::Ready)).collect();
    let twice = [member("a", P1, State::Ready), member("a", P2, State::Ready)];
    let same = [member("a", P1, State::Ready), member("b", P1, State::Ready)];
    let epochs = Membership {
        earlier: vec![Epoch { version: 1, ready: Vec::new() }; EPOCHS_MAX + 1],
        ..broken(&[member("a", P1, State::Ready)])
    };
    for (membership, why) in [
        (broken(&many), Refused::TooManyMembers),
        (broken(&twice), Refused::NameTaken("a".to_owned())),
        (broken(&same), Refused::AddressTaken(addr(P1))),
        (broken(&[member("a", LB, State::Ready)]), Refused::AddressTaken(own)),
        (broken(&[member("a", "192.0.2.9:0", State::Ready)]), Refused::BadAddress(addr("192.0.2.9:0"))),
        (broken(&[Member { weight: 0, ..member("a", P1, State::Ready) }]), Refused::NoWeight("a".to_owned())),
        (epochs, Refused::TooManyEpochs),
    ] {
        assert_eq!(lab.members(membership), Err(why));
    }
    let stats = lab.lb.stats();
    assert_eq!((stats.version, stats.counts.tables, stats.counts.tables_refused), (7, 1, 7));
}

#[test]
fn an_older_table_is_ignored_and_the_same_one_again_is_no_error() {
    let mut lab = Lab::with(Config::new(addr(LB), KEY), three());
    assert_eq!(lab.members(table(6, &[])), Err(Refused::Stale { known: 7 }));
    assert_eq!(lab.members(table(7, &[])), Ok(()));
    let stats = lab.lb.stats();
    assert_eq!((stats.members.len(), stats.counts.tables, stats.counts.tables_stale), (3, 1, 1));
}

#[test]
fn departed_addresses_beyond_the_limit_are_counted() {
    let limits = Limits { departed_max: 1, ..Limits::default() };
    let departed = vec![addr("192.0.2.91:5060"), addr("192.0.2.92:5060"), addr(P1)];
    let membership = Membership { departed, ..three() };
    let lab = Lab::with(Config { limits, ..Config::new(addr(LB), KEY) }, membership);
    assert_eq!(lab.lb.stats().counts.departed_refused, 2);
}

/// The share of every member, over table changes: no request is counted twice or lost.
#[test]
fn requests_are_counted_by_member() {
    let mut lab = Lab::with(Config::new(addr(LB), KEY), three());
    let calls = |lab: &mut Lab, n| {
        for i in 0..n {
            lab.pass(UAC, &request_of(&format!("c{i}"), "INVITE", "sip:bob@example.com", &[]));
        }
    };
    calls(&mut lab, 100);
    let first = lab.lb.stats();
    assert!(first.members[0].requests > 20 && first.members[1].requests > 20, "{first:?}");
    assert_eq!(first.members[2].requests, 0);
    lab.members(next(&three(), Change::Remove("p1".to_owned())).unwrap()).unwrap();
    calls(&mut lab, 50);
    let second = lab.lb.stats();
    assert_eq!(second.counts.requests_departed, first.members[0].requests);
    assert_eq!(second.members[0].requests, first.members[1].requests + 50);
    pump(&mut lab.lb, Instant::EPOCH, Input::Command(Command::Report), &mut lab.out);
    match lab.lb.poll_event() {
        Some(Event::Report(report)) => assert_eq!(*report, second),
        other => panic!("a report was ordered: {other:?}"),
    }
    assert!(lab.lb.poll_event().is_none() && lab.lb.next_deadline().is_none());
}
