//! What a link does to a datagram: delay, jitter, loss, duplication, reordering, and a rate with a bounded queue.
//!
//! Self-contained and pure: [`Link::pass`] takes the time and the length and says when the datagram arrives. The
//! simulator asks it in virtual time; a relay between real sockets can ask the same type on the wall clock.
//!
//! Invariant: datagrams leave a link in the order in which they entered, unless [`LinkModel::reorder`] picks them.
//! Jitter alone never reorders: a datagram that drew less jitter than its predecessor waits behind it, as packets do
//! in the queue that causes the jitter. Deliberately absent: bursts of loss, corruption, fragmentation.

use std::fmt;
use std::time::Duration;

use busyhour_engine::{Instant, Rng};

/// Bytes of IPv4 and UDP header that every datagram carries besides its payload.
pub const HEADER_BYTES: u64 = 20 + 8;

/// How one direction of a link behaves. Probabilities run from 0 to 1 and are drawn for each datagram on its own.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct LinkModel {
    /// Propagation delay: what every datagram takes at least.
    pub delay: Duration,
    /// Added to `delay`: uniform between zero and this.
    pub jitter: Duration,
    /// The probability that a datagram vanishes. A lost datagram has used the rate all the same.
    pub loss: f64,
    /// The probability that a datagram that is not lost arrives twice, the copy never before the original.
    pub duplicate: f64,
    /// The probability that a datagram is held back by `reorder_delay` while later ones may overtake it.
    pub reorder: f64,
    /// How long datagrams picked by `reorder` are held back.
    pub reorder_delay: Duration,
    /// Bits per second, headers included; `None` when the rate is no limit.
    pub rate_bps: Option<u64>,
    /// With a rate: how many bytes, headers included, may wait for the wire. What comes on top is dropped, except
    /// that an idle wire takes a datagram of any length.
    pub queue_bytes_max: u64,
}

impl LinkModel {
    /// No delay, no loss, no limit.
    pub const IDEAL: LinkModel = LinkModel {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        loss: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        reorder_delay: Duration::ZERO,
        rate_bps: None,
        queue_bytes_max: 256 * 1024,
    };

    /// An ideal link with a propagation delay.
    pub const fn with_delay(delay: Duration) -> LinkModel {
        LinkModel { delay, ..LinkModel::IDEAL }
    }

    /// Whether the figures make sense.
    ///
    /// # Errors
    /// [`InvalidLink`] names the field and what was found.
    pub fn check(&self) -> Result<(), InvalidLink> {
        for (field, found) in [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder)]
        {
            if !(0.0..=1.0).contains(&found) {
                return Err(InvalidLink::Probability { field, found });
            }
        }
        if self.rate_bps == Some(0) {
            return Err(InvalidLink::ZeroRate);
        }
        Ok(())
    }
}

/// A link model that no link can follow.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum InvalidLink {
    /// A probability that is not between 0 and 1.
    Probability {
        /// Which one.
        field: &'static str,
        /// Its value.
        found: f64,
    },
    /// A rate of zero bits per second; a link that passes nothing is a loss of 1.
    ZeroRate,
}

impl fmt::Display for InvalidLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidLink::Probability { field, found } => {
                write!(f, "link: {field} is a probability from 0 to 1, found {found}")
            }
            InvalidLink::ZeroRate => {
                write!(f, "link: rate_bps must be at least 1, found 0; for a dead link set loss to 1")
            }
        }
    }
}

impl std::error::Error for InvalidLink {}

/// What became of a datagram that was put on a link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It vanished.
    Lost,
    /// It found the queue before the wire full.
    Overflow,
    /// It arrives.
    Arrives {
        /// When.
        at: Instant,
        /// When a second copy arrives, if one was made; not before `at`.
        copy_at: Option<Instant>,
        /// Whether it was picked to be held back. Whether anything overtook it depends on what follows.
        reordered: bool,
    },
}

/// One direction of a link, with its own generator: what passes here does not shift what other links draw.
#[derive(Clone, Debug)]
pub struct Link {
    model: LinkModel,
    rng: Rng,
    /// When the last bit of what has been accepted so far is on the wire.
    wire_free_at: Instant,
    /// The latest arrival of a datagram that keeps the order.
    last_arrival: Instant,
}

impl Link {
    /// A link that nothing has passed yet.
    ///
    /// # Panics
    /// When the model fails [`LinkModel::check`].
    pub fn new(model: LinkModel, rng: Rng) -> Link {
        let mut link = Link { model, rng, wire_free_at: Instant::EPOCH, last_arrival: Instant::EPOCH };
        link.set_model(model);
        link
    }

    /// How the link behaves.
    pub fn model(&self) -> &LinkModel {
        &self.model
    }

    /// Changes how the link behaves. What is under way stays so; later datagrams do not overtake it.
    ///
    /// # Panics
    /// When the model fails [`LinkModel::check`].
    pub fn set_model(&mut self, model: LinkModel) {
        if let Err(e) = model.check() {
            panic!("{e}");
        }
        self.model = model;
    }

    /// Puts a datagram with `len` bytes of payload on the link. `now` must not go backwards from call to call.
    pub fn pass(&mut self, now: Instant, len: usize) -> Passage {
        let Some(off_the_wire) = self.serialise(now, len) else {
            return Passage::Overflow;
        };
        if self.draw(self.model.loss) {
            return Passage::Lost;
        }
        let natural = off_the_wire + self.propagation();
        let reordered = self.draw(self.model.reorder);
        let at = if reordered {
            natural.max(self.last_arrival) + self.model.reorder_delay
        } else {
            self.in_order(natural)
        };
        let copy_at = self.draw(self.model.duplicate).then(|| {
            let copy = (off_the_wire + self.propagation()).max(at);
            if reordered { copy } else { self.in_order(copy) }
        });
        Passage::Arrives { at, copy_at, reordered }
    }

    /// When the last bit has left, or `None` when the queue is full.
    fn serialise(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(rate) = self.model.rate_bps else { return Some(now) };
        let bytes = len as u64 + HEADER_BYTES;
        let backlog_ns = self.wire_free_at.since(now).as_nanos();
        let backlog_bytes = backlog_ns * u128::from(rate) / 8_000_000_000;
        if backlog_ns > 0 && backlog_bytes + u128::from(bytes) > u128::from(self.model.queue_bytes_max) {
            return None;
        }
        let on_the_wire_ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate));
        let on_the_wire = Duration::from_nanos(u64::try_from(on_the_wire_ns).unwrap_or(u64::MAX));
        self.wire_free_at = self.wire_free_at.max(now) + on_the_wire;
        Some(self.wire_free_at)
    }

    fn propagation(&mut self) -> Duration {
        if self.model.jitter.is_zero() {
            return self.model.delay;
        }
        self.model.delay + self.rng.between(Duration::ZERO, self.model.jitter)
    }

    fn in_order(&mut self, natural: Instant) -> Instant {
        self.last_arrival = self.last_arrival.max(natural);
        self.last_arrival
    }

    fn draw(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.chance(probability)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    fn link(model: LinkModel) -> Link {
        Link::new(model, Rng::from_seed(11))
    }

    fn arrival(passage: Passage) -> Option<Instant> {
        match passage {
            Passage::Arrives { at, .. } => Some(at),
            Passage::Lost | Passage::Overflow => None,
        }
    }

    #[test]
    fn an_ideal_link_delivers_at_once() {
        let passage = link(LinkModel::IDEAL).pass(at(5), 100);
        assert_eq!(passage, Passage::Arrives { at: at(5), copy_at: None, reordered: false });
    }

    #[test]
    fn loss_duplication_and_reordering_lie_within_binomial_bounds() {
        let model = LinkModel { loss: 0.1, duplicate: 0.05, reorder: 0.2, ..LinkModel::IDEAL };
        let mut link = link(model);
        let n = 100_000u32;
        let (mut lost, mut copied, mut held) = (0u32, 0u32, 0u32);
        for i in 0..n {
            match link.pass(at(u64::from(i)), 100) {
                Passage::Lost => lost += 1,
                Passage::Overflow => panic!("there is no rate"),
                Passage::Arrives { copy_at, reordered, .. } => {
                    copied += u32::from(copy_at.is_some());
                    held += u32::from(reordered);
                }
            }
        }
        // Five standard deviations: a false alarm once in two million seeds, and the seed is fixed.
        let within = |found: u32, n: u32, p: f64| {
            let n = f64::from(n);
            (f64::from(found) - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt()
        };
        assert!(within(lost, n, 0.1), "{lost} of {n} lost");
        assert!(within(copied, n - lost, 0.05), "{copied} copies of {}", n - lost);
        assert!(within(held, n - lost, 0.2), "{held} held back of {}", n - lost);
    }

    #[test]
    fn jitter_is_uniform_when_datagrams_are_far_apart() {
        let mut link = link(LinkModel {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(4),
            ..LinkModel::IDEAL
        });
        let n = 20_000;
        let mut total = Duration::ZERO;
        for i in 0..n {
            let sent = at(i * 100_000);
            let took = arrival(link.pass(sent, 1)).expect("no loss") - sent;
            assert!((Duration::from_millis(10)..=Duration::from_millis(14)).contains(&took));
            total += took;
        }
        // A uniform draw over 4 ms has a standard deviation of 4 ms / √12; the mean of 20,000 is within 41 µs at 5 sigma.
        let mean_us = total.as_micros() as f64 / n as f64;
        assert!((mean_us - 12_000.0).abs() < 41.0, "mean {mean_us} us");
    }

    #[test]
    fn a_rate_spaces_datagrams_and_its_queue_overflows() {
        // 972 + 28 bytes at 8 Mbit/s take 1 ms on the wire.
        let mut link =
            link(LinkModel { rate_bps: Some(8_000_000), queue_bytes_max: 3000, ..LinkModel::IDEAL });
        let got: Vec<_> = (0..5).map(|_| arrival(link.pass(at(1), 972))).collect();
        assert_eq!(got, [Some(at(1001)), Some(at(2001)), Some(at(3001)), None, None]);
        assert_eq!(arrival(link.pass(at(1001), 972)), Some(at(4001)), "there is room again");
    }

    #[test]
    fn an_idle_wire_takes_what_exceeds_its_queue() {
        let mut link = link(LinkModel { rate_bps: Some(8_000_000), queue_bytes_max: 10, ..LinkModel::IDEAL });
        assert!(arrival(link.pass(at(1), 972)).is_some());
        assert_eq!(link.pass(at(2), 1), Passage::Overflow);
    }

    #[test]
    fn what_is_held_back_is_overtaken() {
        let held = LinkModel { reorder: 1.0, reorder_delay: Duration::from_millis(5), ..LinkModel::IDEAL };
        let mut link = link(held);
        let first = arrival(link.pass(at(0), 1)).expect("no loss");
        link.set_model(LinkModel::IDEAL);
        let second = arrival(link.pass(at(1), 1)).expect("no loss");
        assert!(second < first);
    }

    #[test]
    fn a_shorter_delay_does_not_overtake_what_is_under_way() {
        let mut link = link(LinkModel::with_delay(Duration::from_millis(50)));
        let first = arrival(link.pass(at(0), 1));
        link.set_model(LinkModel::with_delay(Duration::from_millis(1)));
        assert_eq!(arrival(link.pass(at(10), 1)), first);
    }

    #[test]
    fn nonsense_is_refused() {
        for model in [
            LinkModel { loss: 1.1, ..LinkModel::IDEAL },
            LinkModel { duplicate: -0.1, ..LinkModel::IDEAL },
            LinkModel { reorder: f64::NAN, ..LinkModel::IDEAL },
            LinkModel { rate_bps: Some(0), ..LinkModel::IDEAL },
        ] {
            assert!(model.check().is_err(), "{model:?}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_kept_unless_asked_otherwise(
            seed in any::<u64>(), jitter_us in 0u64..5000, duplicate in 0.0f64..0.5, rate in prop::option::of(100_000u64..1_000_000_000),
            gaps in prop::collection::vec((0u64..2000, 1usize..2000), 1..200),
        ) {
            let model = LinkModel {
                delay: Duration::from_millis(1), jitter: Duration::from_micros(jitter_us), duplicate, rate_bps: rate,
                loss: 0.05, ..LinkModel::IDEAL
            };
            let mut link = Link::new(model, Rng::from_seed(seed));
            let (mut now, mut last) = (0, Instant::EPOCH);
            for (gap, len) in gaps {
                now += gap;
                if let Passage::Arrives { at: arrives, copy_at, .. } = link.pass(at(now), len) {
                    prop_assert!(arrives >= last && arrives >= at(now) + Duration::from_millis(1));
                    last = arrives;
                    if let Some(copy) = copy_at {
                        prop_assert!(copy >= arrives);
                        last = copy;
                    }
                }
            }
        }
    }
}
