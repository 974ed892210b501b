//! A run in the terminal: progress while it goes on, and the verdicts when it is over.
//!
//! On a terminal a bar with two lines of figures below it; elsewhere a plain line every few seconds, for logs.

mod phones;
mod summary;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::measure::{Snapshot, cause_label};
use crate::report::format;

pub use phones::Phones;
pub use summary::{print_summary, wants_colour};

/// How far apart plain lines are.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// Rates are those of this much of the run.
const RATES_OF: Duration = Duration::from_secs(5);
/// Snapshots that rates are computed from; more often than ten a second tells nothing more.
const HISTORY_MAX: usize = 64;
/// Causes of failure that are named; the rest is summed up.
const CAUSES_MAX: usize = 4;

/// Live progress of one run.
pub struct Live {
    title: String,
    total: Duration,
    history: VecDeque<(Duration, u64, u64)>,
    shown: Shown,
}

enum Shown {
    Terminal { group: MultiProgress, bar: ProgressBar, rates: ProgressBar, failures: ProgressBar },
    Plain { out: Box<dyn Write + Send>, every: Duration, last: Option<Instant> },
}

impl Live {
    /// Progress of a run that lasts `total`, on standard output. `tty` tells whether that is a terminal.
    pub fn new(title: &str, total: Duration, tty: bool) -> Self {
        let shown = if tty {
            terminal(title, total)
        } else {
            Shown::Plain { out: Box::new(io::stdout()), every: PLAIN_EVERY, last: None }
        };
        Live { title: title.to_owned(), total, history: VecDeque::new(), shown }
    }

    /// Progress as plain lines into a writer, at most one every `every`.
    pub fn plain(title: &str, total: Duration, every: Duration, out: Box<dyn Write + Send>) -> Self {
        let shown = Shown::Plain { out, every, last: None };
        Live { title: title.to_owned(), total, history: VecDeque::new(), shown }
    }

    /// Shows the run as it is. Cheap enough to be called several times a second. What cannot be written is left out:
    /// progress is no reason to stop a run.
    pub fn update(&mut self, snapshot: &Snapshot) {
        let figures = self.figures(snapshot);
        match &mut self.shown {
            Shown::Terminal { bar, rates, failures, .. } => {
                bar.set_position(millis(snapshot.elapsed.min(self.total)));
                bar.set_message(figures.left.clone());
                rates.set_message(figures.rates);
                failures.set_message(figures.failures);
            }
            Shown::Plain { out, every, last } => {
                if last.is_some_and(|at| at.elapsed() < *every) {
                    return;
                }
                *last = Some(Instant::now());
                let elapsed = format::length(snapshot.elapsed.as_secs_f64().floor());
                let line = format!(
                    "{}: {elapsed}, {}: {}; {}",
                    self.title, figures.left, figures.rates, figures.failures
                );
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
        }
    }

    /// Ends the display: a bar disappears, plain lines stay.
    pub fn finish(self) {
        if let Shown::Terminal { group, bar, rates, failures } = self.shown {
            for line in [&bar, &rates, &failures] {
                line.finish_and_clear();
            }
            // A terminal that is gone has nothing to clear.
            let _ = group.clear();
        }
    }

    fn figures(&mut self, now: &Snapshot) -> Figures {
        self.history.push_back((now.elapsed, now.offered, now.completed));
        while self.history.len() > HISTORY_MAX
            || self.history.get(1).is_some_and(|(at, ..)| *at + RATES_OF <= now.elapsed)
        {
            self.history.pop_front();
        }
        let &(since, offered, completed) = self.history.front().expect("the snapshot was just added");
        let span = now.elapsed.saturating_sub(since).as_secs_f64();
        let rate = |before: u64, after: u64| {
            let per_s = (span > 0.0).then(|| after.saturating_sub(before) as f64 / span);
            format::or_dash(per_s, format::rate)
        };
        let left = self.total.saturating_sub(now.elapsed);
        let left = if left.is_zero() {
            "waiting for the last calls to end".to_owned()
        } else {
            format!("{} left", format::length(left.as_secs_f64().ceil()))
        };
        let rates = format!(
            "offered {}, completed {}, SRD p50 {} p99 {}, {} in progress",
            rate(offered, now.offered),
            rate(completed, now.completed),
            format::or_dash(now.srd_p50_s, format::delay),
            format::or_dash(now.srd_p99_s, format::delay),
            format::count(now.in_progress),
        );
        Figures { left, rates, failures: failures(now) }
    }
}

/// The words of one moment.
struct Figures {
    left: String,
    rates: String,
    failures: String,
}

fn failures(now: &Snapshot) -> String {
    let all: u64 = now.failures.iter().map(|(_, n)| n).sum();
    if all == 0 {
        return "no failures".to_owned();
    }
    let named = now.failures.iter().take(CAUSES_MAX);
    let mut causes: Vec<String> =
        named.map(|(cause, n)| format!("{} × {}", format::count(*n), cause_label(*cause))).collect();
    let rest: u64 = now.failures.iter().skip(CAUSES_MAX).map(|(_, n)| n).sum();
    if rest > 0 {
        causes.push(format!("{} × other causes", format::count(rest)));
    }
    format!("{} failed: {}", format::count(all), causes.join(", "))
}

fn terminal(title: &str, total: Duration) -> Shown {
    let group = MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(10));
    let style = |template: &str| ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = group.add(ProgressBar::new(millis(total).max(1)));
    bar.set_style(style("{prefix:.bold} {wide_bar:.green/dim} {percent:>3} % {msg}").progress_chars("━━─"));
    bar.set_prefix(title.to_owned());
    let rates = group.add(ProgressBar::new(1));
    rates.set_style(style("  {wide_msg}"));
    let failures = group.add(ProgressBar::new(1));
    failures.set_style(style("  {wide_msg:.dim}"));
    Shown::Terminal { group, bar, rates, failures }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use busyhour_roles::ua::Outcome;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn at(seconds: u64) -> Snapshot {
        Snapshot {
            elapsed: Duration::from_secs(seconds),
            offered: seconds * 12,
            completed: seconds * 10,
            failures: vec![(Outcome::Refused(503), 1500), (Outcome::InviteTimeout, 2)],
            in_progress: 24,
            srd_p50_s: Some(0.0012),
            srd_p99_s: None,
        }
    }

    #[test]
    fn a_plain_line_tells_everything() {
        let sink = Sink::default();
        let total = Duration::from_secs(100);
        let mut live = Live::plain("cnf/step", total, Duration::ZERO, Box::new(sink.clone()));
        for s in [0, 10, 12, 14, 100] {
            live.update(&at(s));
        }
        live.finish();
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(
            lines[3],
            "cnf/step: 14 s, 1 min 26 s left: offered 12.0 /s, completed 10.0 /s, SRD p50 1.20 ms p99 –, 24 in progress; \
             1,502 failed: 1,500 × 503 Service Unavailable, 2 × no final response to INVITE"
        );
        assert!(lines[0].contains("offered –"), "{}", lines[0]);
        assert!(lines[4].contains("waiting for the last calls"), "{}", lines[4]);
    }

    #[test]
    fn plain_lines_keep_their_distance() {
        let sink = Sink::default();
        let hour = Duration::from_secs(3600);
        let mut live = Live::plain("x", hour, hour, Box::new(sink.clone()));
        for s in 0..1000 {
            live.update(&at(s));
        }
        assert_eq!(String::from_utf8(sink.0.lock().unwrap().clone()).unwrap().lines().count(), 1);
        assert!(live.history.len() <= HISTORY_MAX);
    }

    #[test]
    fn many_causes_are_summed_up() {
        let mut snapshot = at(1);
        snapshot.failures = (400..407).map(|s| (Outcome::Refused(s), 1)).collect();
        assert!(failures(&snapshot).ends_with("3 × other causes"), "{}", failures(&snapshot));
        snapshot.failures.clear();
        assert_eq!(failures(&snapshot), "no failures");
    }
}
