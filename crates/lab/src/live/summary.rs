//! The end of a run in the terminal: the figures that matter, and each verdict.

use std::io::{self, IsTerminal, Write};

use crate::experiment::Judgement;
use crate::measure::{Delay, cause_label};
use crate::report::{Report, Status, format};

/// Whether a stream is to be coloured: it is a terminal, and `NO_COLOR` is not set (or empty).
pub fn wants_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Prints what came out: why the figures may not be used, if so; the totals; a line per expectation; the outcome.
pub fn print_summary(report: &Report, out: &mut impl Write, colour: bool) -> io::Result<()> {
    let paint = Paint(colour);
    writeln!(out)?;
    writeln!(out, "{}  {}", paint.bold(&line(&report.title)), paint.dim(&line(&report.name)))?;
    if report.status() == Status::Invalid {
        writeln!(out)?;
        writeln!(out, "{} these figures may not be used:", paint.alarm(" INVALID "))?;
        for reason in report.validity.reasons() {
            writeln!(out, "  ! {}", line(&reason.to_string()))?;
        }
    }
    writeln!(out)?;
    figures(report, out, paint)?;
    if !report.verdicts.is_empty() {
        writeln!(out)?;
        for v in &report.verdicts {
            let mark = match v.judgement {
                Judgement::Pass => paint.good("PASS"),
                Judgement::Fail => paint.bad("FAIL"),
                Judgement::Skipped => paint.dim("skip"),
            };
            writeln!(out, "  {mark}  {}  {}", line(&v.text), paint.dim(&line(&v.over)))?;
            let (expected, found) = (line(&v.expected), line(&v.found));
            writeln!(out, "        {}", paint.dim(&format!("expected {expected}, found {found}")))?;
        }
    }
    writeln!(out)?;
    let word = match report.status() {
        Status::Pass => paint.good("PASS"),
        Status::Fail => paint.bad("FAIL"),
        Status::Invalid => paint.alarm(" INVALID "),
        Status::Unjudged => paint.bold("MEASURED"),
    };
    writeln!(out, "{word}  {}", report.headline())
}

fn figures(report: &Report, out: &mut impl Write, paint: Paint) -> io::Result<()> {
    let r = &report.recorder;
    if r.is_empty() {
        return writeln!(out, "  No calls were made.");
    }
    let c = r.calls();
    let rate = |name| format::or_dash(r.metric(name, None), format::rate);
    let mut rows = vec![
        ("offered", format::count(c.offered), rate("load")),
        ("completed", format::count(c.completed()), format!("{} while the load lasted", rate("goodput"))),
        ("failed", format::count(c.failed()), causes(report)),
        (
            "SER",
            format::or_dash(c.ser(), format::share),
            format!(
                "SEER {}, ISA {}",
                format::or_dash(c.seer(), format::share),
                format::or_dash(c.isa(), format::share)
            ),
        ),
    ];
    let delays = [
        ("SRD", r.delays(Delay::Srd)),
        ("RRD", r.delays(Delay::Rrd)),
        ("RRD, set-up", r.setup().1),
        ("SDD", r.delays(Delay::Sdd)),
    ];
    for (name, delays) in delays {
        let Some(q) = delays.quantiles() else { continue };
        let [p50, p99, p999, max] = [q.p50_s, q.p99_s, q.p999_s, q.max_s].map(format::delay);
        rows.push((name, p50, format!("median; p99 {p99}, p99.9 {p999}, max {max}")));
    }
    let label_max = rows.iter().map(|(label, ..)| label.chars().count()).max().unwrap_or(0);
    let value_max = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0);
    for (label, value, note) in rows {
        writeln!(out, "  {label:<label_max$}  {value:>value_max$}  {}", paint.dim(&note))?;
    }
    Ok(())
}

fn causes(report: &Report) -> String {
    let each = |(cause, n)| format!("{} × {}", format::count(n), cause_label(cause));
    let causes: Vec<String> = report.recorder.calls().failures().into_iter().take(4).map(each).collect();
    causes.join(", ")
}

/// A text as one line without control characters, which a terminal would obey.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[derive(Copy, Clone)]
struct Paint(bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }
    fn dim(self, text: &str) -> String {
        self.with("2", text)
    }
    fn good(self, text: &str) -> String {
        self.with("1;32", text)
    }
    fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }
    fn alarm(self, text: &str) -> String {
        if self.0 { self.with("1;30;43", text) } else { text.trim().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Reason, Validity};
    use crate::report::tests::{empty_report, sample_report};

    fn text(report: &Report, colour: bool) -> String {
        let mut out = Vec::new();
        print_summary(report, &mut out, colour).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn verdicts_are_told_with_their_figures() {
        let text = text(&sample_report(), false);
        assert!(
            text.contains(
                "PASS  srd.p99 < 1 s  after the warm-up\n        expected below 1 s, found 20.0 ms"
            ),
            "{text}"
        );
        assert!(text.contains("FAIL  ser >= 0.99"), "{text}");
        assert!(text.ends_with("FAIL  1 of 2 expectations hold.\n"), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn colour_only_when_asked_for() {
        assert!(text(&sample_report(), true).contains("\x1b[1;31mFAIL\x1b[0m"));
    }

    #[test]
    fn an_invalid_run_is_loud_at_both_ends() {
        let mut report = sample_report();
        report.validity = Validity::Valid.with(Reason::NotStarted(12));
        let text = text(&report, false);
        assert_eq!(text.matches("INVALID").count(), 2, "{text}");
        assert!(text.contains("never sent 12 of the planned calls"), "{text}");
    }

    #[test]
    fn a_run_without_calls_says_so() {
        assert!(text(&empty_report(), false).contains("No calls were made."));
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        let mut report = sample_report();
        report.title = "a\x1b]0;owned\x07b\nc".to_owned();
        report.verdicts[0].found = "\x1b[2J".to_owned();
        assert!(!text(&report, false).contains(['\x1b', '\x07']));
    }
}
