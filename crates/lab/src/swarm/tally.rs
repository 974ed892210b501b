//! What the fleets told about their calls, against what they were told to do.

use std::collections::BTreeMap;
use std::time::Duration;

use busyhour_engine::Instant;
use busyhour_roles::ua::{CallRecord, Outcome, PlannedCall};

/// Calls by the instant for which they are planned, which no two share.
#[derive(Default)]
pub(super) struct Tally {
    planned: BTreeMap<Instant, (usize, PlannedCall)>,
    told: BTreeMap<Instant, Outcome>,
    /// Calls told that were not planned, or twice, or by another fleet.
    pub(super) wrong: Vec<String>,
    /// Calls that a fleet answered more than once.
    pub(super) answered_again: Vec<String>,
    /// Answered calls by fleet and the fleet's hash of the call.
    answered: BTreeMap<(usize, u64), u32>,
}

impl Tally {
    pub(super) fn plan(&mut self, fleet: usize, call: PlannedCall) {
        let before = self.planned.insert(call.at, (fleet, call));
        assert!(before.is_none(), "two calls are planned for {:?}", call.at);
    }

    pub(super) fn ended(&mut self, fleet: usize, record: &CallRecord, patience: Duration) {
        let at = record.plan.at;
        if self.planned.get(&at) != Some(&(fleet, record.plan)) {
            self.wrong.push(format!("fleet {fleet} told of a call that it was not to make: {record:?}"));
        }
        if let Some(before) = self.told.insert(at, record.outcome) {
            self.wrong
                .push(format!("the call of {at:?} was told twice: {before:?}, then {:?}", record.outcome));
        }
        if let Some(text) = inconsistency(record, patience) {
            self.wrong.push(format!("{text}: {record:?}"));
        }
    }

    pub(super) fn answered(&mut self, fleet: usize, call: u64) {
        let count = self.answered.entry((fleet, call)).or_default();
        *count += 1;
        if *count > 1 {
            self.answered_again.push(format!("fleet {fleet} answered the same call {count} times"));
        }
    }

    /// Calls of which nothing was told.
    pub(super) fn untold(&self) -> impl Iterator<Item = &(usize, PlannedCall)> {
        self.planned.iter().filter(|(at, _)| !self.told.contains_key(at)).map(|(_, planned)| planned)
    }

    /// How every told call ended.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (usize, PlannedCall, Outcome)> {
        self.told
            .iter()
            .filter_map(|(at, outcome)| self.planned.get(at).map(|&(fleet, call)| (fleet, call, *outcome)))
    }

    pub(super) fn len(&self) -> usize {
        self.planned.len()
    }

    pub(super) fn completed(&self) -> usize {
        self.told.values().filter(|&&outcome| outcome == Outcome::Completed).count()
    }
}

/// What a record says that cannot be.
fn inconsistency(r: &CallRecord, patience: Duration) -> Option<&'static str> {
    let completed = r.outcome == Outcome::Completed;
    let ended = matches!(r.outcome, Outcome::Completed | Outcome::ByeRefused(_));
    let established = ended || r.outcome == Outcome::ByeTimeout;
    match r {
        _ if r.sent < r.plan.at => Some("it was sent before its time"),
        _ if r.ended < r.sent => Some("it ended before it began"),
        _ if established != r.answered.is_some() => Some("only an established call was answered"),
        _ if ended != r.sdd.is_some() => Some("only a call whose BYE was answered has an SDD"),
        _ if established && r.srd.is_none() => Some("an established call has an SRD"),
        _ if r.answered.zip(r.srd).is_some_and(|(answered, srd)| srd > answered) => {
            Some("its SRD passes its answer")
        }
        // A caller that had given up hangs up at once.
        _ if completed && r.ended < r.sent + r.plan.hold && r.plan.at + r.answered? < r.sent + patience => {
            Some("it was held too short")
        }
        _ => None,
    }
}
