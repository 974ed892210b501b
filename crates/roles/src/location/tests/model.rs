//! Random changes over time, against a model written straight from RFC 3261 section 10.3.
#![allow(clippy::disallowed_types, reason = "proptest's prop_oneof! shares strategies in an Arc")]

use std::collections::BTreeMap;

use busyhour_sip::value::Uri;
use proptest::prelude::*;

use super::super::*;
use super::{SEED, s};

#[derive(Clone, Debug, PartialEq)]
struct Bound {
    uri: Vec<u8>,
    q: u16,
    path: Vec<u8>,
    ends_s: u64,
    call_id: Vec<u8>,
    cseq: u32,
    branch: u32,
}

#[derive(Default)]
struct Model {
    /// In order of registration, latest first.
    aors: BTreeMap<Vec<u8>, Vec<Bound>>,
}

fn same(a: &[u8], b: &[u8]) -> bool {
    Uri::parse(a).unwrap().equivalent(&Uri::parse(b).unwrap())
}

impl Model {
    fn alive(&self, now: Instant, aor: &[u8]) -> Vec<Bound> {
        let all = self.aors.get(aor).cloned().unwrap_or_default();
        all.into_iter().filter(|b| s(b.ends_s) > now).collect()
    }

    fn shown(&self, now: Instant, aor: &[u8]) -> Vec<Bound> {
        let mut alive = self.alive(now, aor);
        alive.sort_by_key(|b| std::cmp::Reverse(b.q));
        alive
    }

    fn register(
        &mut self,
        now: Instant,
        aor: &[u8],
        origin: &Origin<'_>,
        change: Change<'_>,
        limits: &Limits,
    ) -> Result<(), RegisterError> {
        let mut bound = self.alive(now, aor);
        let late = |b: &Bound| b.call_id == origin.call_id && origin.cseq <= b.cseq;
        let repeated = |b: &Bound| late(b) && origin.cseq == b.cseq && origin.branch == b.branch;
        match change {
            Change::Query => return Ok(()),
            Change::RemoveAll if bound.iter().any(late) => return Err(RegisterError::OutOfOrder),
            Change::RemoveAll => bound.clear(),
            Change::Contacts(changes) => {
                let (mut new, mut retransmission, mut added) = (Vec::new(), false, 0);
                for (i, change) in changes.iter().enumerate() {
                    if changes[i + 1..].iter().any(|later| same(later.uri, change.uri)) {
                        continue;
                    }
                    // Preferred first, as the table looks at them: it matters where several are equivalent.
                    bound.sort_by_key(|b| std::cmp::Reverse(b.q));
                    let exact = bound.iter().position(|b| b.uri == change.uri);
                    let found = exact.or_else(|| bound.iter().position(|b| same(&b.uri, change.uri)));
                    if let Some(found) = found {
                        let old = bound.remove(found);
                        retransmission |= repeated(&old);
                        if late(&old) && !repeated(&old) {
                            return Err(RegisterError::OutOfOrder);
                        }
                    } else if change.expires_s > 0 {
                        added += 1;
                    }
                    if change.expires_s > 0 {
                        let starts_s = now.as_nanos().div_ceil(1_000_000_000);
                        new.push(Bound {
                            uri: change.uri.to_vec(),
                            q: change.q,
                            path: origin.path.to_vec(),
                            ends_s: starts_s + u64::from(change.expires_s),
                            call_id: origin.call_id.to_vec(),
                            cseq: origin.cseq,
                            branch: origin.branch,
                        });
                    }
                }
                if retransmission {
                    return Ok(());
                }
                let others = self.aors.iter().filter(|(name, b)| *name != aor && !b.is_empty()).count();
                new.extend(bound);
                if added > 0 && new.len() > limits.contacts_per_aor_max {
                    return Err(RegisterError::TooManyContacts);
                }
                if added > 0 && self.alive(now, aor).is_empty() && others >= limits.aors_max {
                    return Err(RegisterError::Full);
                }
                bound = new;
            }
        }
        self.aors.insert(aor.to_vec(), bound);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Op {
    Register { aor: u8, contacts: Vec<(u8, u16, u8)>, call_id: u8, cseq: u32, branch: u32, path: u8 },
    RemoveAll { aor: u8, call_id: u8, cseq: u32, branch: u32 },
    Query { aor: u8 },
    Pass { millis: u64 },
    Expire,
}

const URIS: [&str; 9] = [
    "sip:a@192.0.2.1",
    "sip:%61@192.0.2.1",
    "sip:a@192.0.2.1;x=1",
    "sip:a@192.0.2.1;x=2",
    "sip:a@192.0.2.1:5060",
    "sip:A@192.0.2.1;transport=tcp",
    "sip:b@host.example.com",
    "sip:b@HOST.example.com;ob",
    "tel:+123",
];

const CALL_IDS: [&[u8]; 2] = [b"one@ua", b"two@ua"];

fn op() -> impl Strategy<Value = Op> {
    let contact = (0u8..9, prop::sample::select(vec![0u16, 500, 1000]), 0u8..5);
    let origin = || (0u8..2, 1u32..6, 0u32..2);
    prop_oneof![
        6 => (0u8..6, prop::collection::vec(contact, 0..4), origin(), 0u8..30).prop_map(
            |(aor, contacts, (call_id, cseq, branch), path)| Op::Register { aor, contacts, call_id, cseq, branch, path }
        ),
        1 => (0u8..6, origin()).prop_map(|(aor, (call_id, cseq, branch))| Op::RemoveAll { aor, call_id, cseq, branch }),
        1 => (0u8..6).prop_map(|aor| Op::Query { aor }),
        3 => (0u64..90_000, 0u32..17).prop_map(|(millis, scale)| Op::Pass { millis: millis >> scale }),
        1 => Just(Op::Expire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn it_does_what_the_rfc_says(ops in prop::collection::vec(op(), 1..120)) {
        let limits = Limits { aors_max: 4, contacts_per_aor_max: 3, ..Limits::default() };
        let mut table = Table::new(limits, SEED);
        let mut model = Model::default();
        let mut now = Instant::from_nanos(1_234_567_890);
        for op in ops {
            let aor_of = |aor: u8| format!("user{aor}@h").into_bytes();
            let (aor, origin, changes, path);
            let change = match &op {
                Op::Register { aor: a, contacts, call_id, cseq, branch, path: p } => {
                    aor = aor_of(*a);
                    path = if *p == 0 { String::new() } else { format!("<sip:p{p};lr>") };
                    origin = Origin { call_id: CALL_IDS[usize::from(*call_id)], cseq: *cseq, branch: *branch, path: path.as_bytes() };
                    changes = contacts.iter().map(|&(uri, q, e)| ContactChange {
                        uri: URIS[usize::from(uri)].as_bytes(),
                        q,
                        expires_s: [0, 1, 60, 61, 3600][usize::from(e)],
                    }).collect::<Vec<_>>();
                    Change::Contacts(&changes)
                }
                Op::RemoveAll { aor: a, call_id, cseq, branch } => {
                    aor = aor_of(*a);
                    origin = Origin { call_id: CALL_IDS[usize::from(*call_id)], cseq: *cseq, branch: *branch, path: b"" };
                    Change::RemoveAll
                }
                Op::Query { aor: a } => {
                    aor = aor_of(*a);
                    origin = Origin { call_id: b"", cseq: 0, branch: 0, path: b"" };
                    Change::Query
                }
                Op::Pass { millis } => {
                    now += std::time::Duration::from_millis(*millis);
                    continue;
                }
                Op::Expire => {
                    table.expire(now);
                    prop_assert!(table.next_expiry().is_none_or(|next| next > now));
                    continue;
                }
            };
            // What has expired does not count against the limit in the model; in the table it does until it is swept.
            sweep_all(&mut table, now);
            for bound in model.aors.values_mut() {
                bound.retain(|b| s(b.ends_s) > now);
            }
            let mut shown = Vec::new();
            let got = table.register(now, &aor, &origin, change, &mut |c| shown.push(line(&c)));
            let want = model.register(now, &aor, &origin, change, &limits);
            prop_assert_eq!(got, want, "{:?} at {:?}", op, now);
            let expected = model.shown(now, &aor).iter().map(bound_line).collect::<Vec<_>>();
            if got.is_ok() {
                prop_assert_eq!(&shown, &expected, "{:?} at {:?}", op, now);
            }
            let mut looked_up = Vec::new();
            table.lookup(now, &aor, &mut |c| looked_up.push(line(&c)));
            prop_assert_eq!(&looked_up, &expected, "lookup after {:?} at {:?}", op, now);
            let total = model.aors.values().map(Vec::len).sum::<usize>();
            prop_assert_eq!(table.len(), total);
            prop_assert_eq!(table.aors(), model.aors.values().filter(|b| !b.is_empty()).count());
        }
    }
}

/// Sweeping is coarse; this sweeps as if the period had passed, but with the present time.
fn sweep_all(table: &mut Table, now: Instant) {
    table.sweep_now(now);
}

fn line(c: &Contact<'_>) -> (String, u16, String, Instant) {
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    (text(c.uri), c.q, text(c.path), c.expires_at)
}

fn bound_line(b: &Bound) -> (String, u16, String, Instant) {
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    (text(&b.uri), b.q, text(&b.path), s(b.ends_s))
}
