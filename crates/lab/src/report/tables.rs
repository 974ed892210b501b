//! The time series as CSV files: one header line, times in seconds since the load began, delays in seconds, rates as
//! counts (divide by `width_s` and by `runs`).

use csv::Writer;

use crate::measure::{Delay, Point, cause_code};

/// `series.csv`: calls and registrations per interval.
pub(super) fn series(points: &[Point]) -> Vec<u8> {
    let header = [
        "start_s",
        "width_s",
        "runs",
        "calls_offered",
        "calls_started",
        "calls_answered",
        "calls_completed",
        "calls_failed",
        "calls_refused",
        "calls_timeout",
        "completed_by_end",
        "retransmissions",
        "registrations_offered",
        "registrations_completed",
        "registrations_failed",
        "generator_cpu_share",
    ];
    table(&header, |rows| {
        for p in points {
            let c = &p.calls;
            let counts = [
                c.offered,
                c.started,
                c.answered,
                c.completed(),
                c.failed(),
                c.refused(),
                c.timeout(),
                p.completed_by_end,
                c.retransmissions,
                p.registrations.offered,
                p.registrations.completed,
                p.registrations.failed(),
            ];
            let mut row = vec![p.start_s.to_string(), p.width_s.to_string(), p.runs.to_string()];
            row.extend(counts.map(|n| n.to_string()));
            row.push(p.generator_cpu.map(|c| c.to_string()).unwrap_or_default());
            rows.push(row);
        }
    })
}

/// `latency.csv`: one row per interval and kind of delay that has figures.
pub(super) fn latency(points: &[Point]) -> Vec<u8> {
    let header =
        ["start_s", "width_s", "delay", "count", "mean_s", "p50_s", "p90_s", "p99_s", "p999_s", "max_s"];
    table(&header, |rows| {
        for p in points {
            for kind in Delay::ALL {
                let Some(q) = p.delays(kind) else { continue };
                let mut row = vec![p.start_s.to_string(), p.width_s.to_string(), kind.name().to_owned()];
                row.push(q.count.to_string());
                row.extend(
                    [q.mean_s, q.p50_s, q.p90_s, q.p99_s, q.p999_s, q.max_s].map(|s| format!("{s:.6}")),
                );
                rows.push(row);
            }
        }
    })
}

/// `proxies.csv`: one row per interval and proxy.
pub(super) fn proxies(points: &[Point]) -> Vec<u8> {
    let header = ["start_s", "width_s", "proxy", "requests", "invites", "registers", "refused", "cpu_share"];
    table(&header, |rows| {
        for p in points {
            for (name, w) in &p.proxies {
                let mut row = vec![p.start_s.to_string(), p.width_s.to_string(), name.clone()];
                row.extend([w.requests, w.invites, w.registers, w.refused].map(|n| n.to_string()));
                row.push(w.cpu_share().map(|c| format!("{c:.6}")).unwrap_or_default());
                rows.push(row);
            }
        }
    })
}

/// `failures.csv`: one row per interval and cause.
pub(super) fn failures(points: &[Point]) -> Vec<u8> {
    table(&["start_s", "width_s", "cause", "calls"], |rows| {
        for p in points {
            for (cause, n) in p.calls.failures() {
                rows.push(vec![
                    p.start_s.to_string(),
                    p.width_s.to_string(),
                    cause_code(cause),
                    n.to_string(),
                ]);
            }
        }
    })
}

fn table(header: &[&str], fill: impl FnOnce(&mut Vec<Vec<String>>)) -> Vec<u8> {
    let mut rows = Vec::new();
    fill(&mut rows);
    let mut out = Writer::from_writer(Vec::new());
    let written = "writing into memory cannot fail, and every row has the columns of the header";
    out.write_record(header).expect(written);
    for row in rows {
        out.write_record(row).expect(written);
    }
    out.into_inner().expect(written)
}
