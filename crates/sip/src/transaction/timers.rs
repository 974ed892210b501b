//! The durations behind the timers (RFC 3261 table 4, RFC 6026 sections 8.4 and 8.7, RFC 4320 section 4.1).

use std::fmt;
use std::time::Duration;

use super::Reliability;

/// The values that all timers of the transaction layer follow from. The methods bear the timers' letters.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Estimate of the round-trip time; first retransmission interval.
    pub t1: Duration,
    /// Longest retransmission interval of non-INVITE requests and of final responses to INVITE.
    pub t2: Duration,
    /// Longest time that a message stays in the network.
    pub t4: Duration,
    /// Timer D on unreliable transports: 32 s or more, and no less than Timer H of the server.
    pub d: Duration,
    /// How long the TU may take to answer an INVITE before 100 (Trying) is sent for it (RFC 3261 section 17.2.1).
    pub trying_after: Duration,
}

impl Default for Timers {
    /// The values of RFC 3261: T1 500 ms, T2 4 s, T4 5 s, Timer D 32 s, 100 (Trying) after 200 ms.
    fn default() -> Self {
        Timers {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            d: Duration::from_secs(32),
            trying_after: Duration::from_millis(200),
        }
    }
}

impl Timers {
    /// Checks values that come from a configuration.
    ///
    /// # Errors
    /// Says which value does not go with which other.
    pub fn check(&self) -> Result<(), TimersError> {
        if self.t1.is_zero() {
            return Err(TimersError::T1Zero);
        }
        if self.t2 < self.t1 {
            return Err(TimersError::T2BelowT1 { t1: self.t1, t2: self.t2 });
        }
        if self.d < self.h() {
            return Err(TimersError::DBelowH { d: self.d, h: self.h() });
        }
        Ok(())
    }

    /// How long Timer A runs after it has fired `fired` times: T1, doubling without a limit (RFC 3261 section 17.1.1.2).
    pub fn a(&self, fired: u8) -> Duration {
        self.t1.saturating_mul(2u32.saturating_pow(fired.into()))
    }

    /// Timer B: how long an INVITE waits for a first response.
    pub fn b(&self) -> Duration {
        self.sixty_four_t1()
    }

    /// Timer D: how long an INVITE client repeats its ACK; zero on reliable transports.
    pub fn d(&self, reliability: Reliability) -> Duration {
        unless_reliable(reliability, self.d)
    }

    /// How long Timer E runs after it has fired `fired` times, while no provisional response has come: T1, doubling up
    /// to T2 (RFC 3261 section 17.1.2.2).
    pub fn e(&self, fired: u8) -> Duration {
        self.a(fired).min(self.t2)
    }

    /// Timer F: how long any other request waits for a final response.
    pub fn f(&self) -> Duration {
        self.sixty_four_t1()
    }

    /// How long Timer G runs after it has fired `fired` times: like Timer E (RFC 3261 section 17.2.1).
    pub fn g(&self, fired: u8) -> Duration {
        self.e(fired)
    }

    /// Timer H: how long a server waits for the ACK to a non-2xx response.
    pub fn h(&self) -> Duration {
        self.sixty_four_t1()
    }

    /// Timer I: how long a server absorbs repeated ACKs; zero on reliable transports.
    pub fn i(&self, reliability: Reliability) -> Duration {
        unless_reliable(reliability, self.t4)
    }

    /// Timer J: how long a server repeats its response to other requests; zero on reliable transports.
    pub fn j(&self, reliability: Reliability) -> Duration {
        unless_reliable(reliability, self.sixty_four_t1())
    }

    /// Timer K: how long a client absorbs repeated responses to other requests; zero on reliable transports.
    pub fn k(&self, reliability: Reliability) -> Duration {
        unless_reliable(reliability, self.t4)
    }

    /// Timer L: how long a server that has accepted an INVITE passes on 2xx and ACK (RFC 6026 section 7.1).
    pub fn l(&self) -> Duration {
        self.sixty_four_t1()
    }

    /// Timer M: how long a client whose INVITE was accepted passes on further 2xx (RFC 6026 section 7.2).
    pub fn m(&self) -> Duration {
        self.sixty_four_t1()
    }

    /// When 100 (Trying) answers a non-INVITE request that has no answer yet: as soon as the client's Timer E has been
    /// set to T2, 3.5 s by default (RFC 4320 section 4.1).
    pub fn non_invite_trying_after(&self) -> Duration {
        let mut after = Duration::ZERO;
        for fired in 0..u8::MAX {
            after = after.saturating_add(self.e(fired));
            if self.e(fired + 1) == self.t2 {
                break;
            }
        }
        after
    }

    fn sixty_four_t1(&self) -> Duration {
        self.t1.saturating_mul(64)
    }
}

fn unless_reliable(reliability: Reliability, d: Duration) -> Duration {
    match reliability {
        Reliability::Unreliable => d,
        Reliability::Reliable => Duration::ZERO,
    }
}

/// Why [`Timers::check`] refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimersError {
    /// Retransmissions would follow each other without a pause.
    T1Zero,
    /// Retransmissions could not slow down.
    T2BelowT1 {
        /// The value given.
        t1: Duration,
        /// The value given.
        t2: Duration,
    },
    /// A client would forget an INVITE whose server still repeats the response.
    DBelowH {
        /// The value given.
        d: Duration,
        /// 64·T1.
        h: Duration,
    },
}

impl fmt::Display for TimersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimersError::T1Zero => write!(f, "T1 must be longer than zero (RFC 3261 says 500ms)"),
            TimersError::T2BelowT1 { t1, t2 } => {
                write!(f, "T2 must be no shorter than T1, but T2 is {t2:?} and T1 is {t1:?}")
            }
            TimersError::DBelowH { d, h } => {
                write!(f, "Timer D must be no shorter than 64·T1 = {h:?}, but it is {d:?}")
            }
        }
    }
}

impl std::error::Error for TimersError {}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// RFC 3261 table 4, and RFC 6026 sections 7.1 and 7.2 for L and M.
    #[test]
    fn default_values_are_those_of_the_rfc() {
        let t = Timers::default();
        assert_eq!([t.t1, t.t2, t.t4, t.trying_after], [MS(500), S(4), S(5), MS(200)]);
        assert_eq!([t.b(), t.f(), t.h(), t.l(), t.m()], [S(32); 5]);
        let (un, re) = (Reliability::Unreliable, Reliability::Reliable);
        assert_eq!([t.d(un), t.i(un), t.j(un), t.k(un)], [S(32), S(5), S(32), S(5)]);
        assert_eq!([t.d(re), t.i(re), t.j(re), t.k(re)], [Duration::ZERO; 4]);
        assert_eq!(t.check(), Ok(()));
    }

    /// RFC 3261 sections 17.1.1.2 (A doubles without a limit), 17.1.2.2 and 17.2.1 (E and G stop at T2).
    #[test]
    fn retransmission_intervals() {
        let t = Timers::default();
        assert_eq!([0, 1, 2, 3, 4, 5].map(|n| t.a(n)), [MS(500), S(1), S(2), S(4), S(8), S(16)]);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|n| t.e(n)), [MS(500), S(1), S(2), S(4), S(4), S(4)]);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|n| t.g(n)), [MS(500), S(1), S(2), S(4), S(4), S(4)]);
        assert!(t.a(u8::MAX) >= t.a(31), "a count that no transaction reaches saturates");
    }

    /// RFC 4320 section 4.1: the sum of the intervals before the first one that is T2.
    #[test]
    fn non_invite_trying_follows_timer_e() {
        let t = Timers::default();
        assert_eq!(t.non_invite_trying_after(), MS(3500));
        assert_eq!(Timers { t1: S(1), ..t }.non_invite_trying_after(), S(3));
        assert_eq!(Timers { t1: S(4), ..t }.non_invite_trying_after(), S(4));
        assert_eq!(Timers { t2: S(5), ..t }.non_invite_trying_after(), MS(7500));
    }

    #[test]
    fn impossible_values_are_refused_with_a_reason() {
        let t = Timers::default();
        let refusal = |t: Timers| t.check().unwrap_err().to_string();
        assert!(refusal(Timers { t1: Duration::ZERO, ..t }).contains("T1 must be longer than zero"));
        assert!(refusal(Timers { t2: MS(499), ..t }).contains("T2 is 499ms and T1 is 500ms"));
        assert!(refusal(Timers { d: S(31), ..t }).contains("64·T1 = 32s, but it is 31s"));
        assert_eq!(Timers { t1: MS(50), d: MS(3200), ..t }.check(), Ok(()), "scaled down for a lab");
    }
}
