//! A rate of calls over time, as straight pieces: its value, its integral, and the exact inverse of its integral.
//!
//! Invariants: the pieces follow one another without a gap from zero on; rates are finite and not negative; `before`
//! of a piece is the integral over all pieces before it.

use std::time::Duration;

/// One straight piece: the rate goes from `from_per_s` to `to_per_s` in `length`.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Piece {
    /// How long it lasts.
    pub length: Duration,
    /// Calls per second at its start.
    pub from_per_s: f64,
    /// Calls per second at its end.
    pub to_per_s: f64,
}

#[derive(Copy, Clone, Debug, PartialEq)]
struct Placed {
    start_s: f64,
    length_s: f64,
    from_per_s: f64,
    slope_per_s2: f64,
    /// Calls before this piece, and within it.
    before: f64,
    mass: f64,
}

/// A piecewise linear rate, from time zero to [`Rate::total`]; zero afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    pieces: Vec<Piece>,
    placed: Vec<Placed>,
    total: Duration,
    mass: f64,
}

impl Rate {
    /// The rate that is made of `pieces`, one after the other. Pieces without length are left out.
    ///
    /// # Panics
    /// When a rate is negative or not finite: whoever reads it from outside checks that first.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Rate {
        let mut rate = Rate { pieces: Vec::new(), placed: Vec::new(), total: Duration::ZERO, mass: 0.0 };
        for piece in pieces.into_iter().filter(|p| !p.length.is_zero()) {
            let (from, to) = (piece.from_per_s, piece.to_per_s);
            assert!(from.is_finite() && to.is_finite() && from >= 0.0 && to >= 0.0, "no rate: {piece:?}");
            let length_s = piece.length.as_secs_f64();
            let mass = (from + to) / 2.0 * length_s;
            rate.placed.push(Placed {
                start_s: rate.total.as_secs_f64(),
                length_s,
                from_per_s: from,
                slope_per_s2: (to - from) / length_s,
                before: rate.mass,
                mass,
            });
            rate.mass += mass;
            rate.total += piece.length;
            rate.pieces.push(piece);
        }
        rate
    }

    /// When it ends.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Its integral: the mean number of calls in all.
    pub fn calls(&self) -> f64 {
        self.mass
    }

    /// The highest rate that it reaches, in calls per second.
    pub fn peak_per_s(&self) -> f64 {
        self.pieces.iter().map(|p| p.from_per_s.max(p.to_per_s)).fold(0.0, f64::max)
    }

    /// Calls per second at `t`. Where two pieces meet, the later one counts.
    pub fn at(&self, t: Duration) -> f64 {
        if t >= self.total {
            return 0.0;
        }
        let t_s = t.as_secs_f64();
        let index = self.placed.partition_point(|p| p.start_s <= t_s).saturating_sub(1);
        self.placed
            .get(index)
            .map_or(0.0, |p| p.from_per_s + p.slope_per_s2 * (t_s - p.start_s).min(p.length_s))
    }

    /// Its integral from zero to `t`: the mean number of calls before `t`.
    pub fn calls_before(&self, t: Duration) -> f64 {
        let t_s = t.as_secs_f64();
        let index = self.placed.partition_point(|p| p.start_s <= t_s).saturating_sub(1);
        self.placed.get(index).map_or(0.0, |p| {
            let x = (t_s - p.start_s).clamp(0.0, p.length_s);
            p.before + (p.from_per_s + p.slope_per_s2 * x / 2.0) * x
        })
    }

    /// The same rates in times divided by `factor`: a step of five minutes lasts 15 s at a factor of 20, and offers as
    /// many calls per second as before.
    pub fn compressed(&self, factor: f64) -> Rate {
        Rate::new(self.pieces.iter().map(|p| Piece { length: p.length.div_f64(factor), ..*p }))
    }

    /// The same course, with every rate multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Rate {
        Rate::new(self.pieces.iter().map(|p| Piece {
            from_per_s: p.from_per_s * factor,
            to_per_s: p.to_per_s * factor,
            ..*p
        }))
    }

    /// What lies from `from` to `to`, starting at zero.
    pub fn slice(&self, from: Duration, to: Duration) -> Rate {
        let mut start = Duration::ZERO;
        Rate::new(self.pieces.iter().filter_map(|p| {
            let end = start + p.length;
            let (first, last) = (from.clamp(start, end), to.clamp(start, end));
            let along = |t: Duration| {
                let share = (t - start).as_secs_f64() / p.length.as_secs_f64();
                p.from_per_s + (p.to_per_s - p.from_per_s) * share
            };
            let to_per_s = if last == end { p.to_per_s } else { along(last) };
            let kept = Piece { length: last.saturating_sub(first), from_per_s: along(first), to_per_s };
            start = end;
            (!kept.length.is_zero()).then_some(kept)
        }))
    }
}

/// Walks along the integral of a [`Rate`]: finds the time of ever larger numbers of calls, in constant time each.
#[derive(Clone, Debug)]
pub(super) struct Inverse {
    index: usize,
}

impl Inverse {
    pub(super) fn new() -> Inverse {
        Inverse { index: 0 }
    }

    /// The time at which the integral of `rate` passes `calls`; `None` when it never gets above it. `calls` must not
    /// be smaller than in the call before.
    pub(super) fn find(&mut self, rate: &Rate, calls: f64) -> Option<Duration> {
        // A whole number of calls must not turn into one more by the rounding of a sum of many pieces.
        if calls >= rate.mass - rate.mass.max(1.0) * 1e-12 {
            return None;
        }
        let mut piece = rate.placed.get(self.index)?;
        while calls >= piece.before + piece.mass {
            self.index += 1;
            piece = rate.placed.get(self.index)?;
        }
        // Solves from·x + slope·x²/2 = wanted in the form that neither cancels nor divides by a slope of zero.
        let wanted = (calls - piece.before).max(0.0);
        let root = (piece.from_per_s * piece.from_per_s + 2.0 * piece.slope_per_s2 * wanted).max(0.0).sqrt();
        let divisor = piece.from_per_s + root;
        let x_s =
            if wanted == 0.0 || divisor == 0.0 { 0.0 } else { (2.0 * wanted / divisor).min(piece.length_s) };
        Some(Duration::from_nanos(((piece.start_s + x_s) * 1e9).round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(ms: u64, from_per_s: f64, to_per_s: f64) -> Piece {
        Piece { length: Duration::from_millis(ms), from_per_s, to_per_s }
    }

    #[test]
    fn the_integral_and_the_value_of_a_ramp() {
        let rate = Rate::new([piece(10_000, 0.0, 10.0), piece(10_000, 10.0, 10.0)]);
        assert_eq!(rate.calls(), 150.0);
        assert_eq!(rate.at(Duration::from_secs(5)), 5.0);
        assert_eq!(rate.calls_before(Duration::from_secs(5)), 12.5);
        assert_eq!(rate.calls_before(Duration::from_secs(99)), 150.0);
        assert_eq!(rate.at(Duration::from_secs(20)), 0.0);
        assert_eq!(rate.peak_per_s(), 10.0);
    }

    #[test]
    fn no_call_comes_while_the_rate_is_zero() {
        let rate = Rate::new([piece(3_000, 0.0, 0.0), piece(1_000, 2.0, 2.0), piece(3_000, 0.0, 0.0)]);
        let mut inverse = Inverse::new();
        assert_eq!(inverse.find(&rate, 0.0), Some(Duration::from_secs(3)));
        assert_eq!(inverse.find(&rate, 1.0), Some(Duration::from_millis(3_500)));
        assert_eq!(inverse.find(&rate, 2.0), None);
    }

    #[test]
    fn a_cut_inside_a_ramp_keeps_its_slope() {
        let rate =
            Rate::new([piece(10_000, 0.0, 10.0)]).slice(Duration::from_secs(2), Duration::from_secs(5));
        assert_eq!(rate, Rate::new([piece(3_000, 2.0, 5.0)]));
    }

    proptest! {
        /// Whatever the pieces: the integral up to the time that the inverse finds is what was asked for.
        #[test]
        fn the_inverse_undoes_the_integral(
            pieces in prop::collection::vec((1u64..100_000, 0u32..500, 0u32..500), 1..12),
            shares in prop::collection::vec(0.0f64..1.0, 1..20),
        ) {
            let rate = Rate::new(pieces.iter().map(|&(ms, a, b)| piece(ms, f64::from(a), f64::from(b))));
            let mut targets: Vec<f64> = shares.iter().map(|s| s * rate.calls()).collect();
            targets.sort_by(f64::total_cmp);
            let mut inverse = Inverse::new();
            for target in targets {
                if let Some(t) = inverse.find(&rate, target) {
                    let back = rate.calls_before(t);
                    prop_assert!((back - target).abs() < 1e-5 * target.max(1.0), "{target} became {back}");
                }
            }
        }

        /// Compression keeps the rates and divides the number of calls.
        #[test]
        fn compression_keeps_rates(ms in 1_000u64..1_000_000, a in 0u32..500, b in 0u32..500, factor in 1.0f64..50.0) {
            let rate = Rate::new([piece(ms, f64::from(a), f64::from(b))]);
            let fast = rate.compressed(factor);
            prop_assert_eq!(fast.peak_per_s(), rate.peak_per_s());
            prop_assert!((fast.calls() * factor - rate.calls()).abs() < 1e-3 * rate.calls().max(1.0));
        }
    }
}
