//! Small hand-made records for the tests of this crate.

use std::time::Duration;

use busyhour_engine::Instant;
use busyhour_roles::ua::{CallRecord, Outcome, PlannedCall, RegisterRecord};

/// When the load of the fixtures begins.
pub(crate) const ORIGIN: Instant = Instant::from_nanos(1_000_000_000_000);

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A call planned `at_ms` after the origin, sent on time, answered after `srd_ms` when its outcome allows it, that
/// ended `took_ms` after its plan.
pub(crate) fn call(at_ms: u64, srd_ms: u64, took_ms: u64, outcome: Outcome) -> CallRecord {
    let at = ORIGIN + ms(at_ms);
    let answered = matches!(outcome, Outcome::Completed | Outcome::ByeTimeout | Outcome::ByeRefused(_));
    CallRecord {
        plan: PlannedCall { at, caller: 1, callee: 2, hold: ms(took_ms.saturating_sub(srd_ms)) },
        sent: at,
        srd: (outcome != Outcome::NotStarted && outcome != Outcome::InviteTimeout).then(|| ms(srd_ms)),
        answered: answered.then(|| ms(srd_ms)),
        sdd: (outcome == Outcome::Completed).then(|| ms(2)),
        ended: at + ms(took_ms),
        retransmissions: 0,
        outcome,
    }
}

pub(crate) fn completed(at_ms: u64, srd_ms: u64) -> CallRecord {
    call(at_ms, srd_ms, srd_ms + 100, Outcome::Completed)
}

/// A registration planned `at_ms` after the origin, or before it when that is negative.
pub(crate) fn registration(at_ms: i64, rrd_ms: u64, status: Option<u16>) -> RegisterRecord {
    let distance = ms(at_ms.unsigned_abs());
    let at = if at_ms < 0 { ORIGIN - distance } else { ORIGIN + distance };
    RegisterRecord { user: 7, at, ended: at + ms(rrd_ms), rrd: status.map(|_| ms(rrd_ms)), status }
}
