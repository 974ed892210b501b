//! The CPU time of a host: how fast it works, and the bandwidth control of Linux's fair scheduler.
//!
//! A control group with `cpu.max = "quota period"` may use `quota` of CPU time in each period; when it has, all of its
//! threads stand still until the next period begins. What is left of a quota does not carry over.
//!
//! Differences from the kernel, all of them smaller than a slice (5 ms of quota that a CPU draws ahead): work reserves
//! its CPU time from the moment it starts, so of several nodes on a host the one that starts first is served first;
//! a thread is stopped to the nanosecond and not at the next scheduler tick; there is no burst (`cpu.max.burst`).
//! The long-run rate, quota per period, is the same.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use busyhour_engine::Instant;

/// How much CPU time a host has in each period, over all of its nodes together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The length of a period; Linux's default is 100 ms.
    pub period: Duration,
    /// CPU time per period. May exceed the period when a host has several nodes: 150 ms in 100 ms is one and a half CPUs.
    pub quota: Duration,
}

/// The CPU of a host. There are as many cores as nodes: each node has a core to itself, and only the quota is shared.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Cpu {
    /// The limit on CPU time; `None` when there is none.
    pub quota: Option<Quota>,
    /// How many times faster than the machine that the cost model was calibrated on. Greater than zero.
    pub speed: f64,
}

impl Default for Cpu {
    /// As fast as the cost model says, and not limited.
    fn default() -> Cpu {
        Cpu { quota: None, speed: 1.0 }
    }
}

impl Cpu {
    /// Whether the figures make sense.
    ///
    /// # Errors
    /// [`InvalidCpu`] says which does not.
    pub fn check(&self) -> Result<(), InvalidCpu> {
        if !(MIN_SPEED..=MAX_SPEED).contains(&self.speed) {
            return Err(InvalidCpu::Speed { found: self.speed });
        }
        if self.quota.is_some_and(|q| q.period.is_zero() || q.quota.is_zero()) {
            return Err(InvalidCpu::EmptyQuota);
        }
        Ok(())
    }
}

const MIN_SPEED: f64 = 1e-6;
const MAX_SPEED: f64 = 1e6;

/// A CPU on which no work ends.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum InvalidCpu {
    /// The speed is out of range.
    Speed {
        /// Its value.
        found: f64,
    },
    /// The quota or its period is zero.
    EmptyQuota,
}

impl fmt::Display for InvalidCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidCpu::Speed { found } => {
                write!(f, "cpu: speed is a factor from {MIN_SPEED} to {MAX_SPEED}, found {found}")
            }
            InvalidCpu::EmptyQuota => write!(f, "cpu: quota and period must be longer than zero"),
        }
    }
}

impl std::error::Error for InvalidCpu {}

/// When a piece of work is done, and what it took.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When it is done.
    pub finish: Instant,
    /// CPU time that it used, at this host's speed.
    pub busy: Duration,
    /// Time during which it stood still because the quota was used up.
    pub throttled: Duration,
}

/// The account of one host's CPU time.
#[derive(Clone, Debug)]
pub struct CpuClock {
    /// Nanoseconds here per nanosecond of the cost model, in units of 2⁻³². An integer, so that charges are exact.
    scale: u128,
    account: Option<Account>,
}

const ONE: u128 = 1 << 32;

impl CpuClock {
    /// The account of a host that has not worked yet. Periods begin at multiples of the period, shifted back by
    /// `phase`: hosts that began at different moments are not throttled in step.
    ///
    /// # Panics
    /// When `cpu` fails [`Cpu::check`].
    pub fn new(cpu: Cpu, phase: Duration) -> CpuClock {
        if let Err(e) = cpu.check() {
            panic!("{e}");
        }
        let scale = ((ONE as f64 / cpu.speed).round() as u128).max(1);
        CpuClock { scale, account: cpu.quota.map(|quota| Account::new(quota, phase)) }
    }

    /// Charges `work`, in the cost model's time, that starts at `start`. Starts must not go backwards.
    pub fn charge(&mut self, start: Instant, work: Duration) -> Charge {
        if work.is_zero() {
            return Charge { finish: start, busy: work, throttled: work };
        }
        let busy_ns = u64::try_from((work.as_nanos() * self.scale) >> 32).unwrap_or(u64::MAX);
        let busy = Duration::from_nanos(busy_ns);
        let Some(account) = &mut self.account else {
            return Charge { finish: start + busy, busy, throttled: Duration::ZERO };
        };
        let finish = account.charge(start, busy_ns);
        Charge { finish, busy, throttled: (finish - start).saturating_sub(busy) }
    }
}

#[derive(Clone, Debug)]
struct Account {
    period: u64,
    quota: u64,
    phase: u64,
    /// The number of the period that `used[0]` is about; none before it can be charged any more.
    first: u64,
    /// CPU time taken from each period; longer than one only while reserved work reaches into later periods.
    used: VecDeque<u64>,
}

impl Account {
    fn new(quota: Quota, phase: Duration) -> Account {
        let period = nanos(quota.period);
        Account {
            period,
            quota: nanos(quota.quota),
            phase: nanos(phase) % period,
            first: 0,
            used: VecDeque::new(),
        }
    }

    fn charge(&mut self, start: Instant, work: u64) -> Instant {
        let mut now = start.as_nanos().saturating_add(self.phase);
        let mut number = now / self.period;
        self.forget_before(number);
        let mut left = work;
        loop {
            let index = (number - self.first) as usize;
            if index == self.used.len() {
                self.used.push_back(0);
            }
            let end = (number + 1).saturating_mul(self.period);
            let run = left.min(self.quota - self.used[index]).min(end - now);
            self.used[index] += run;
            left -= run;
            // Time is used up when the end saturated: whatever remains would never be done.
            if left == 0 || end == u64::MAX {
                return Instant::from_nanos(now + run - self.phase);
            }
            now = end;
            number += 1;
        }
    }

    fn forget_before(&mut self, number: u64) {
        while self.first < number {
            if self.used.pop_front().is_none() {
                self.first = number;
                return;
            }
            self.first += 1;
        }
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn limited(quota_ms: u64, period_ms: u64) -> CpuClock {
        let quota = Some(Quota { period: ms(period_ms), quota: ms(quota_ms) });
        CpuClock::new(Cpu { quota, speed: 1.0 }, Duration::ZERO)
    }

    #[test]
    fn without_a_quota_work_takes_its_time() {
        let mut cpu = CpuClock::new(Cpu { quota: None, speed: 2.0 }, Duration::ZERO);
        assert_eq!(cpu.charge(at(5), ms(10)), Charge { finish: at(10), busy: ms(5), throttled: ms(0) });
        let mut slow = CpuClock::new(Cpu { quota: None, speed: 0.25 }, Duration::ZERO);
        assert_eq!(slow.charge(at(5), ms(10)).finish, at(45));
    }

    /// 20 ms in 100 ms, worked out by hand: 50 ms of work from the start runs 0–20, 100–120 and 200–210.
    #[test]
    fn work_longer_than_the_quota_is_cut_into_periods() {
        let mut cpu = limited(20, 100);
        assert_eq!(cpu.charge(at(0), ms(50)).finish, at(210));
        assert_eq!(cpu.charge(at(210), ms(10)).finish, at(220), "the rest of the third period's quota");
        let next = cpu.charge(at(220), ms(1));
        assert_eq!(next, Charge { finish: at(301), busy: ms(1), throttled: ms(80) });
    }

    #[test]
    fn a_period_that_ends_renews_the_quota_of_running_work() {
        // 20 ms of work from 90: 10 ms out of the first period, 10 ms out of the second, never standing still.
        let mut cpu = limited(20, 100);
        assert_eq!(cpu.charge(at(90), ms(20)), Charge { finish: at(110), busy: ms(20), throttled: ms(0) });
        // Of the second period 10 ms are left: 110–120, then 200–205.
        assert_eq!(cpu.charge(at(110), ms(15)).finish, at(205));
    }

    #[test]
    fn an_unused_quota_does_not_carry_over() {
        let mut cpu = limited(20, 100);
        assert_eq!(cpu.charge(at(1000), ms(25)).finish, at(1105));
    }

    #[test]
    fn the_phase_shifts_the_periods() {
        let quota = Some(Quota { period: ms(100), quota: ms(20) });
        let mut cpu = CpuClock::new(Cpu { quota, speed: 1.0 }, ms(30));
        // Periods begin at 70, 170, …: from 60, 10 ms belong to the old period and 15 of 20 to the new one.
        assert_eq!(cpu.charge(at(60), ms(25)).finish, at(85));
        assert_eq!(cpu.charge(at(85), ms(6)).finish, at(171));
    }

    #[test]
    fn two_nodes_share_a_quota_of_one_and_a_half_cpus() {
        let mut cpu = limited(150, 100);
        assert_eq!(cpu.charge(at(100), ms(90)).finish, at(190), "the first node");
        // 60 ms are left of this period; the rest is taken from 200.
        assert_eq!(cpu.charge(at(100), ms(90)).finish, at(230), "the second node");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Cpu { quota: None, speed: 0.0 }.check().is_err());
        assert!(Cpu { quota: None, speed: f64::NAN }.check().is_err());
        assert!(Cpu { quota: Some(Quota { period: ms(100), quota: ms(0) }), speed: 1.0 }.check().is_err());
    }

    proptest! {
        /// No period hands out more than its quota, and work never waits while its period has quota left.
        #[test]
        fn one_node_gets_what_a_step_by_step_model_gives(
            quota in 1u64..120, work in prop::collection::vec((0u64..300, 1u64..60), 1..40),
        ) {
            let mut cpu = limited(quota, 100);
            let mut used = std::collections::BTreeMap::<u64, u64>::new();
            let mut now = 1;
            for (idle, length) in work {
                now += idle;
                let finish = cpu.charge(at(now), ms(length)).finish;
                // The model runs millisecond by millisecond.
                let (mut t, mut left) = (now, length);
                while left > 0 {
                    let spent = used.entry(t / 100).or_default();
                    if *spent < quota {
                        *spent += 1;
                        left -= 1;
                    }
                    t += 1;
                }
                prop_assert_eq!(finish.as_nanos(), t * 1_000_000);
                now = t;
            }
        }
    }
}
