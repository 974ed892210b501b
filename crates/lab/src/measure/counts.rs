//! Counts of calls and registrations by how they ended, and the ratios of RFC 6076 that follow from them.

use std::collections::BTreeMap;

use busyhour_roles::ua::{CallRecord, Outcome, RegisterRecord};

/// Calls, counted by the interval in which they were planned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallCounts {
    /// Calls that were planned: the offered load.
    pub offered: u64,
    /// Calls whose INVITE was sent ("session requests" in RFC 6076).
    pub started: u64,
    /// Calls that got a 200 to their INVITE.
    pub answered: u64,
    /// INVITEs and BYEs that callers had to send again.
    pub retransmissions: u64,
    /// Every call by how it ended.
    pub outcomes: BTreeMap<Outcome, u64>,
}

impl CallCounts {
    pub(super) fn record(&mut self, call: &CallRecord) {
        self.offered += 1;
        self.started += u64::from(call.outcome != Outcome::NotStarted);
        self.answered += u64::from(is_answered(call));
        self.retransmissions += u64::from(call.retransmissions);
        *self.outcomes.entry(call.outcome).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &CallCounts) {
        self.offered += other.offered;
        self.started += other.started;
        self.answered += other.answered;
        self.retransmissions += other.retransmissions;
        for (&outcome, &n) in &other.outcomes {
            *self.outcomes.entry(outcome).or_default() += n;
        }
    }

    /// Calls that ended in one way.
    pub fn with(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(&outcome).copied().unwrap_or(0)
    }

    fn sum(&self, matches: impl Fn(Outcome) -> bool) -> u64 {
        self.outcomes.iter().filter(|(o, _)| matches(**o)).map(|(_, n)| n).sum()
    }

    /// Calls that were answered, held and ended with an answered BYE.
    pub fn completed(&self) -> u64 {
        self.with(Outcome::Completed)
    }

    /// Calls that failed: refused, timed out, or not ended properly. Calls that were cut off by the end of the run
    /// or never sent are neither completed nor failed.
    pub fn failed(&self) -> u64 {
        self.sum(is_failure)
    }

    /// Calls whose INVITE got a final response of 300 to 699.
    pub fn refused(&self) -> u64 {
        self.sum(|o| matches!(o, Outcome::Refused(_)))
    }

    /// Calls whose INVITE or BYE got no final response.
    pub fn timeout(&self) -> u64 {
        self.with(Outcome::InviteTimeout) + self.with(Outcome::ByeTimeout)
    }

    /// The failures by cause, most frequent first.
    pub fn failures(&self) -> Vec<(Outcome, u64)> {
        let mut all: Vec<_> =
            self.outcomes.iter().filter(|(o, _)| is_failure(**o)).map(|(o, n)| (*o, *n)).collect();
        all.sort_by_key(|&(outcome, n)| (std::cmp::Reverse(n), outcome));
        all
    }

    /// Session establishment ratio, 0 to 1 (RFC 6076 section 4.6): INVITEs with a 200 over all INVITEs less those
    /// with a 3xx. A challenge (401, 407) that was answered is part of its attempt; one that ended the attempt
    /// counts in the denominator. None when nothing remains to divide by.
    pub fn ser(&self) -> Option<f64> {
        ratio(self.answered, self.started - self.redirected())
    }

    /// Session establishment effectiveness ratio, 0 to 1 (RFC 6076 section 4.7): as [`CallCounts::ser`], and 480,
    /// 486, 600 and 603 count as successes, because they tell what the called user did.
    pub fn seer(&self) -> Option<f64> {
        let by_user = self.sum(|o| matches!(o, Outcome::Refused(480 | 486 | 600 | 603)));
        ratio(self.answered + by_user, self.started - self.redirected())
    }

    /// Ineffective session attempts, 0 to 1 (RFC 6076 section 4.8): INVITEs with 408, 500, 503 or 504 over all
    /// INVITEs. An INVITE without any final response counts as a 408, as RFC 3261 section 8.1.3.1 has it.
    pub fn isa(&self) -> Option<f64> {
        let ineffective =
            self.sum(|o| matches!(o, Outcome::Refused(408 | 500 | 503 | 504) | Outcome::InviteTimeout));
        ratio(ineffective, self.started)
    }

    /// Session completion ratio, 0 to 1 (RFC 6076 section 4.9): completed calls over all INVITEs.
    pub fn scr(&self) -> Option<f64> {
        ratio(self.completed(), self.started)
    }

    fn redirected(&self) -> u64 {
        self.sum(|o| matches!(o, Outcome::Refused(300..=399)))
    }
}

/// Registrations, counted by the interval in which they were planned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegisterCounts {
    /// Registrations that were planned and tried.
    pub offered: u64,
    /// Registrations that got a 2xx.
    pub completed: u64,
    /// The others by final status; None stands for no final response (Timer F).
    pub failures: BTreeMap<Option<u16>, u64>,
}

impl RegisterCounts {
    pub(super) fn record(&mut self, registration: &RegisterRecord) {
        self.offered += 1;
        if is_registered(registration) {
            self.completed += 1;
        } else {
            *self.failures.entry(registration.status).or_default() += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &RegisterCounts) {
        self.offered += other.offered;
        self.completed += other.completed;
        for (&status, &n) in &other.failures {
            *self.failures.entry(status).or_default() += n;
        }
    }

    /// Registrations that did not get a 2xx.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Ineffective registration attempts, 0 to 1 (RFC 6076 section 4.2): attempts that timed out or ended with 4xx
    /// (other than 401, 402 and 407), 5xx or 6xx, over all attempts.
    pub fn ira(&self) -> Option<f64> {
        let ineffective = |status: &Option<u16>| match status {
            None => true,
            Some(code) => is_failure_status(*code),
        };
        let n = self.failures.iter().filter(|(status, _)| ineffective(status)).map(|(_, n)| n).sum();
        ratio(n, self.offered)
    }
}

/// A call that got a 200 to its INVITE, whatever became of it later.
pub(super) fn is_answered(call: &CallRecord) -> bool {
    match call.outcome {
        Outcome::Completed | Outcome::ByeTimeout | Outcome::ByeRefused(_) => true,
        Outcome::Unfinished => call.answered.is_some(),
        Outcome::Refused(_) | Outcome::InviteTimeout | Outcome::NotStarted => false,
    }
}

/// A registration that got a 2xx.
pub(super) fn is_registered(registration: &RegisterRecord) -> bool {
    matches!(registration.status, Some(200..=299))
}

/// What RFC 6076 calls a failure response: 4xx other than the challenges 401, 402 and 407, 5xx and 6xx.
pub(super) fn is_failure_status(status: u16) -> bool {
    matches!(status, 400..=699) && !matches!(status, 401 | 402 | 407)
}

fn is_failure(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Refused(_) | Outcome::InviteTimeout | Outcome::ByeTimeout | Outcome::ByeRefused(_) => true,
        Outcome::Completed | Outcome::Unfinished | Outcome::NotStarted => false,
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A stable word for an outcome, for files that programs read: `503`, `invite-timeout`, `bye-481`, ….
pub fn cause_code(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed => "completed".to_owned(),
        Outcome::Refused(status) => status.to_string(),
        Outcome::InviteTimeout => "invite-timeout".to_owned(),
        Outcome::ByeTimeout => "bye-timeout".to_owned(),
        Outcome::ByeRefused(status) => format!("bye-{status}"),
        Outcome::Unfinished => "unfinished".to_owned(),
        Outcome::NotStarted => "not-started".to_owned(),
    }
}

/// How a person reads an outcome: `503 Service Unavailable`, `no answer to INVITE`, ….
pub fn cause_label(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed => "completed".to_owned(),
        Outcome::Refused(status) => status_label(status),
        Outcome::InviteTimeout => "no final response to INVITE".to_owned(),
        Outcome::ByeTimeout => "no final response to BYE".to_owned(),
        Outcome::ByeRefused(status) => format!("BYE: {}", status_label(status)),
        Outcome::Unfinished => "cut off by the end of the run".to_owned(),
        Outcome::NotStarted => "never sent".to_owned(),
    }
}

/// A status code with the reason phrase that RFC 3261 section 21 gives it.
pub fn status_label(status: u16) -> String {
    let phrase = match status {
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        420 => "Bad Extension",
        423 => "Interval Too Brief",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        486 => "Busy Here",
        487 => "Request Terminated",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        600 => "Busy Everywhere",
        603 => "Decline",
        _ => return status.to_string(),
    };
    format!("{status} {phrase}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(outcomes: &[(Outcome, u64)]) -> CallCounts {
        let mut c = CallCounts::default();
        for &(outcome, n) in outcomes {
            c.offered += n;
            c.started += if outcome == Outcome::NotStarted { 0 } else { n };
            c.answered += match outcome {
                Outcome::Completed | Outcome::ByeTimeout | Outcome::ByeRefused(_) => n,
                Outcome::Refused(_) | Outcome::InviteTimeout | Outcome::Unfinished | Outcome::NotStarted => 0,
            };
            *c.outcomes.entry(outcome).or_default() += n;
        }
        c
    }

    #[test]
    fn ser_leaves_redirected_calls_out_of_the_denominator() {
        let c = counts(&[(Outcome::Completed, 90), (Outcome::Refused(302), 50), (Outcome::Refused(503), 10)]);
        assert_eq!(c.ser(), Some(0.9));
        let only_redirects = counts(&[(Outcome::Refused(302), 5)]);
        assert_eq!(only_redirects.ser(), None);
    }

    #[test]
    fn a_challenge_that_ends_the_attempt_counts_against_ser_and_seer() {
        let c = counts(&[(Outcome::Completed, 3), (Outcome::Refused(407), 1)]);
        assert_eq!(c.ser(), Some(0.75));
        assert_eq!(c.seer(), Some(0.75));
        assert_eq!(c.isa(), Some(0.0));
    }

    #[test]
    fn seer_forgives_what_the_called_user_did_and_nothing_else() {
        let by_user = [480, 486, 600, 603].map(|s| (Outcome::Refused(s), 1));
        let not_by_user = [404, 408, 487, 488, 500, 503, 604, 606].map(|s| (Outcome::Refused(s), 1));
        let mut all = vec![(Outcome::Completed, 4)];
        all.extend(by_user);
        all.extend(not_by_user);
        let c = counts(&all);
        assert_eq!(c.ser(), Some(4.0 / 16.0));
        assert_eq!(c.seer(), Some(8.0 / 16.0));
    }

    #[test]
    fn isa_counts_the_four_statuses_and_timeouts_over_all_attempts() {
        let mut all = vec![(Outcome::Completed, 4), (Outcome::Refused(302), 4), (Outcome::InviteTimeout, 2)];
        all.extend([408, 500, 503, 504].map(|s| (Outcome::Refused(s), 1)));
        all.extend([404, 486, 501, 502, 505, 580].map(|s| (Outcome::Refused(s), 1)));
        let c = counts(&all);
        assert_eq!(c.isa(), Some(6.0 / 20.0));
        assert_eq!(c.scr(), Some(4.0 / 20.0));
    }

    #[test]
    fn an_established_call_counts_for_ser_whatever_its_bye_met() {
        let c = counts(&[(Outcome::ByeTimeout, 1), (Outcome::ByeRefused(481), 1), (Outcome::Completed, 2)]);
        assert_eq!(c.ser(), Some(1.0));
        assert_eq!(c.scr(), Some(0.5));
        assert_eq!((c.failed(), c.refused(), c.timeout()), (2, 0, 1));
    }

    #[test]
    fn calls_that_were_never_sent_are_no_attempts() {
        let c = counts(&[(Outcome::NotStarted, 9), (Outcome::Completed, 1)]);
        assert_eq!(c.ser(), Some(1.0));
        assert_eq!((c.offered, c.started, c.failed()), (10, 1, 0));
        assert_eq!(CallCounts::default().ser(), None);
        assert_eq!(CallCounts::default().isa(), None);
    }

    #[test]
    fn ira_leaves_out_challenges_and_counts_timeouts() {
        let mut c = RegisterCounts { offered: 10, completed: 4, failures: BTreeMap::new() };
        for status in [Some(401), Some(402), Some(407), Some(403), Some(503), None] {
            c.failures.insert(status, 1);
        }
        assert_eq!(c.ira(), Some(0.3));
        assert_eq!(c.failed(), 6);
    }

    #[test]
    fn failures_are_sorted_by_how_many_there_are() {
        let c = counts(&[(Outcome::Refused(404), 1), (Outcome::InviteTimeout, 7), (Outcome::Completed, 99)]);
        assert_eq!(c.failures(), vec![(Outcome::InviteTimeout, 7), (Outcome::Refused(404), 1)]);
    }
}
