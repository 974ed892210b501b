//! Scenario files: every call by itself, with caller and callee. Both formats of *cnf*, told apart by their header:
//!
//! * `caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s`. The second is the anchor; the waits
//!   since the first row of that second place a call within it. So waits that were rounded to whole milliseconds do
//!   not add up to a drift. A second and a wait that contradict each other by more than a second are refused.
//! * `ten_minute;milliseconds;calls_in_ten_minutes;caller;callee`. The milliseconds count either from the start of the
//!   scenario or from the start of their ten minutes; the first row after the first ten minutes shows which.

use std::io::BufRead;
use std::time::Duration;

use super::lines::{Field, Line, Lines};
use crate::experiment::units::number_of;
use crate::input::{InputError, quoted};

/// The most rows of a scenario file: two weeks at 16 calls per second.
pub const ROWS_MAX: usize = 20_000_000;
/// Half the window over which [`Scenario::rate_at`] counts calls.
const RATE_WINDOW_HALF: Duration = Duration::from_secs(5);
const TEN_MINUTES_MS: u64 = 600_000;
const TEN_MINUTES_NS: u64 = TEN_MINUTES_MS * 1_000_000;
/// Ten years: later times are refused.
const SECONDS_MAX: f64 = 10.0 * 365.0 * 86_400.0;

const WAITS: [&str; 5] =
    ["caller", "callee", "wait_before_next_in_ms", "seconds_since_start", "arrival_rate_in_s"];
const BINS: [&str; 5] = ["ten_minute", "milliseconds", "calls_in_ten_minutes", "caller", "callee"];

/// The users that a scenario may name, by their four-digit ids: `first` to `first + count − 1`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The lowest id.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// One call. Users are indices into the fleet: 0 is the user with the lowest id.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at_ns: u64,
    pub(super) caller: u32,
    pub(super) callee: u32,
}

/// A parsed scenario file, in order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    rows: Vec<Row>,
    length: Duration,
}

impl Scenario {
    /// Reads a scenario file; `file` names it in errors.
    ///
    /// # Errors
    /// At the first thing that is wrong, with file, line and column: an unknown header, a field too many, an id that is
    /// not four digits or not in `ids`, a caller who calls itself, a number that is negative or none at all, time that
    /// goes backwards, more than [`ROWS_MAX`] rows, or no row.
    pub fn read(reader: impl BufRead, file: &str, ids: Ids) -> Result<Scenario, InputError> {
        let mut lines = Lines::new(reader, file, ';');
        let expected = || format!("the header {} or {}", WAITS.join(";"), BINS.join(";"));
        let Some(header) = lines.next()? else {
            return Err(InputError::new(file, expected(), "an empty file"));
        };
        let names: Vec<&str> = header.text.split(';').map(str::trim).collect();
        let mut clock = if names == WAITS {
            Clock::Waits(WaitClock::default())
        } else if names == BINS {
            Clock::Bins(BinClock::default())
        } else {
            return Err(header.error(1, &expected(), &quoted(&header.text)));
        };
        let mut rows: Vec<Row> = Vec::new();
        while let Some(line) = lines.next()? {
            if rows.len() == ROWS_MAX {
                return Err(line.error(1, &format!("at most {ROWS_MAX} rows"), "one more"));
            }
            let before = rows.last().map_or(0, |row| row.at_ns);
            let (at_ns, caller, callee) = clock.place(&line, before)?;
            let row = Row { at_ns, caller: user(caller, ids)?, callee: user(callee, ids)? };
            if row.caller == row.callee {
                return Err(callee.error("a callee other than the caller"));
            }
            rows.push(row);
        }
        let Some(last) = rows.last() else {
            return Err(InputError::new(file, "at least one row after the header", "none"));
        };
        let length = Duration::from_nanos(clock.end_ns().max(last.at_ns + 1));
        Ok(Scenario { rows, length })
    }

    /// How long it is: to the end of the last wait, or of the last ten minutes.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// How many calls it has.
    pub fn calls(&self) -> usize {
        self.rows.len()
    }

    /// Calls per second around `t`, counted over ten seconds (fewer at the ends).
    pub fn rate_at(&self, t: Duration) -> f64 {
        let (from, to) = (t.saturating_sub(RATE_WINDOW_HALF), (t + RATE_WINDOW_HALF).min(self.length));
        let calls = self.index_at(to) - self.index_at(from.min(to));
        let seconds = to.saturating_sub(from).as_secs_f64();
        if t >= self.length || seconds == 0.0 { 0.0 } else { calls as f64 / seconds }
    }

    /// The highest rate, in calls per second, over any of its ten-second bins.
    pub fn peak_per_s(&self) -> f64 {
        let bin = |row: &Row| row.at_ns / 10_000_000_000;
        let most = self.rows.chunk_by(|a, b| bin(a) == bin(b)).map(<[Row]>::len).max().unwrap_or(0);
        most as f64 / self.length.as_secs_f64().min(10.0)
    }

    /// How many calls come before `t`.
    pub(super) fn index_at(&self, t: Duration) -> usize {
        let nanos = u64::try_from(t.as_nanos()).unwrap_or(u64::MAX);
        self.rows.partition_point(|row| row.at_ns < nanos)
    }

    pub(super) fn row(&self, index: usize) -> Option<Row> {
        self.rows.get(index).copied()
    }
}

/// What has to be remembered from row to row to place the next one.
enum Clock {
    Waits(WaitClock),
    Bins(BinClock),
}

/// The second of the last row, the sum of the waits within it, and when the next row is due by its wait.
#[derive(Default)]
struct WaitClock {
    second_ns: u64,
    offset_ns: u64,
    next_ns: Option<u64>,
}

/// Whether milliseconds count from the start of the scenario, once that is known, and the last ten minutes.
#[derive(Default)]
struct BinClock {
    absolute: Option<bool>,
    last_bin: u64,
}

/// When a row's call is made, and the fields of its caller and callee.
type Placement<'l> = (u64, Field<'l>, Field<'l>);

impl Clock {
    /// Places a row that comes after one at `before`.
    fn place<'l>(&mut self, line: &'l Line<'_>, before: u64) -> Result<Placement<'l>, InputError> {
        match self {
            Clock::Waits(clock) => clock.place(line, before),
            Clock::Bins(clock) => clock.place(line, before),
        }
    }

    fn end_ns(&self) -> u64 {
        match self {
            Clock::Waits(clock) => clock.next_ns.unwrap_or(0),
            Clock::Bins(clock) => (clock.last_bin + 1) * TEN_MINUTES_NS,
        }
    }
}

impl WaitClock {
    fn place<'l>(&mut self, line: &'l Line<'_>, before: u64) -> Result<Placement<'l>, InputError> {
        const APART_NS: u64 = 1_000_000_000;
        let [caller, callee, wait, second, rate] = line.fields(WAITS)?;
        let wait_ns = milliseconds(wait)?;
        let anchor_ns = seconds(second)?;
        number_of(rate.text).ok_or_else(|| rate.error("calls per second, as a number from 0 on"))?;
        if anchor_ns < self.second_ns {
            let last = self.second_ns as f64 / 1e9;
            return Err(second.error(&format!("a second not before {last}, that of the row before")));
        }
        let contradicts = |next: &u64| anchor_ns > next + APART_NS || *next > anchor_ns + 2 * APART_NS;
        if let Some(next) = self.next_ns.filter(contradicts) {
            let hint = "the wait of the row before and this second contradict each other";
            return Err(second.error(&format!("a second near {}", next as f64 / 1e9)).hint(hint));
        }
        if anchor_ns > self.second_ns {
            (self.second_ns, self.offset_ns) = (anchor_ns, 0);
        }
        // Waits that were rounded up may lead past the end of their second: the calls then come at its end.
        let at_ns = (anchor_ns + self.offset_ns.min(999_999_999)).max(before);
        self.offset_ns += wait_ns;
        self.next_ns = Some(at_ns + wait_ns);
        Ok((at_ns, caller, callee))
    }
}

impl BinClock {
    fn place<'l>(&mut self, line: &'l Line<'_>, before: u64) -> Result<Placement<'l>, InputError> {
        let [bin, millis, calls, caller, callee] = line.fields(BINS)?;
        let number = bin.text.parse::<u64>().ok().filter(|n| *n <= SECONDS_MAX as u64 / 600);
        let number = number.ok_or_else(|| bin.error("the number of the ten minutes, from 0 on"))?;
        if number < self.last_bin {
            return Err(bin.error(&format!("a number not below {}, that of the row before", self.last_bin)));
        }
        number_of(calls.text).ok_or_else(|| calls.error("a number of calls from 0 on"))?;
        let ns = milliseconds(millis)?;
        let start_ns = number * TEN_MINUTES_NS;
        if number > 0 && self.absolute.is_none() {
            self.absolute = Some(ns >= start_ns);
        }
        let absolute = self.absolute == Some(true);
        let at_ns = if absolute { ns } else { start_ns + ns };
        if !(start_ns..start_ns + TEN_MINUTES_NS).contains(&at_ns) {
            let first = if absolute { number * TEN_MINUTES_MS } else { 0 };
            let last = first + TEN_MINUTES_MS - 1;
            return Err(millis.error(&format!("milliseconds from {first} to {last} in ten_minute {number}")));
        }
        if at_ns < before {
            return Err(millis.error("a time not before that of the row before"));
        }
        self.last_bin = number;
        Ok((at_ns, caller, callee))
    }
}

fn milliseconds(field: Field<'_>) -> Result<u64, InputError> {
    number_of(field.text)
        .filter(|ms| *ms <= SECONDS_MAX * 1e3)
        .map(|ms| (ms * 1e6).round() as u64)
        .ok_or_else(|| field.error("milliseconds, as a number from 0 on"))
}

fn seconds(field: Field<'_>) -> Result<u64, InputError> {
    number_of(field.text)
        .filter(|s| *s <= SECONDS_MAX)
        .map(|s| (s * 1e9).round() as u64)
        .ok_or_else(|| field.error("seconds since the start, as a number from 0 on"))
}

/// The index of the user with this id.
fn user(field: Field<'_>, ids: Ids) -> Result<u32, InputError> {
    let text = field.text;
    if text.is_empty() || text.len() > 4 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(field.error("an id of 4 digits"));
    }
    if text.len() < 4 {
        return Err(field
            .error("an id of 4 digits")
            .hint(format!("write it with leading zeros: {text:0>4}")));
    }
    let id: u32 = text.parse().expect("four digits fit");
    id.checked_sub(ids.first).filter(|index| *index < ids.count).ok_or_else(|| {
        let last = ids.first + ids.count.saturating_sub(1);
        field.error(&format!("one of the experiment's users, {:04} to {last:04}", ids.first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Ids = Ids { first: 0, count: 10_000 };

    fn read(text: &str) -> Result<Scenario, String> {
        Scenario::read(text.as_bytes(), "s.csv", ALL).map_err(|e| e.to_string())
    }

    fn waits(rows: &str) -> Result<Scenario, String> {
        read(&format!("{}\n{rows}", WAITS.join(";")))
    }

    fn bins(rows: &str) -> Result<Scenario, String> {
        read(&format!("{}\n{rows}", BINS.join(";")))
    }

    fn times_ms(scenario: &Scenario) -> Vec<u64> {
        scenario.rows.iter().map(|row| row.at_ns / 1_000_000).collect()
    }

    #[test]
    fn the_format_with_waits() {
        let text = "\u{feff}caller;callee;wait_before_next_in_ms;seconds_since_start;arrival_rate_in_s\r\n\
                    0600;0700;1000;0;1\r\n7000;7100;1000;1;1\r\n9400;9500;500;2;2\r\n8600;8700;500;2;2\r\n\r\n\r\n";
        let scenario = read(text).unwrap();
        assert_eq!(times_ms(&scenario), [0, 1000, 2000, 2500]);
        assert_eq!(scenario.length(), Duration::from_secs(3));
        assert_eq!(scenario.row(0), Some(Row { at_ns: 0, caller: 600, callee: 700 }));
    }

    #[test]
    fn rounded_waits_do_not_drift() {
        // 42 calls in a second with waits of 24 ms would be 8 ms late in every second.
        let rows: String = (0..4200).map(|i| format!("0000;0100;24;{};42\n", i / 42)).collect();
        let scenario = waits(&rows).unwrap();
        assert_eq!(times_ms(&scenario)[42 * 99], 99_000);
        assert_eq!(scenario.rate_at(Duration::from_secs(50)), 42.0);
        assert_eq!(scenario.peak_per_s(), 42.0);
        // Waits that were rounded up beyond the second.
        let rows: String = (0..180).map(|i| format!("0000;0100;12;{};90\n", i / 90)).collect();
        let times = times_ms(&waits(&rows).unwrap());
        assert_eq!((times[89], times[90]), (999, 1000));
    }

    #[test]
    fn the_format_with_ten_minutes_in_both_readings() {
        let scenario = bins("0;0;2;7200;7300\n0;300000;2;0400;0500\n1;600000;1;5600;5700\n").unwrap();
        assert_eq!(times_ms(&scenario), [0, 300_000, 600_000]);
        assert_eq!(scenario.length(), Duration::from_secs(1200));
        let relative = bins("0;0;2;7200;7300\n0;300000;2;0400;0500\n1;0;1;5600;5700\n").unwrap();
        assert_eq!(relative, scenario);
    }

    #[test]
    fn an_unpadded_id_is_refused_with_what_to_write() {
        assert_eq!(
            waits("0600;0700;1000;0;1\n600;700;1000;1;1\n").unwrap_err(),
            "s.csv:3:1: caller: expected an id of 4 digits, found \"600\"; write it with leading zeros: 0600"
        );
        assert_eq!(
            bins("0;0;600;7200;700\n").unwrap_err(),
            "s.csv:2:14: callee: expected an id of 4 digits, found \"700\"; write it with leading zeros: 0700"
        );
        assert_eq!(
            waits("a600;0700;1;0;1\n").unwrap_err(),
            "s.csv:2:1: caller: expected an id of 4 digits, found \"a600\""
        );
    }

    #[test]
    fn errors_say_line_and_column() {
        let error = |result: Result<Scenario, String>| result.unwrap_err();
        assert_eq!(
            error(waits("0600;0700;-5;0;1\n")),
            "s.csv:2:11: wait_before_next_in_ms: expected milliseconds, as a number from 0 on, found \"-5\""
        );
        assert_eq!(
            error(waits("0600;0700;5;NaN;1\n")),
            "s.csv:2:13: seconds_since_start: expected seconds since the start, as a number from 0 on, found \"NaN\""
        );
        assert_eq!(
            error(waits("0600;0700;1000;0;1\n0600;0700;1000;1;1\n0600;0700;1000;0;1\n")),
            "s.csv:4:16: seconds_since_start: expected a second not before 1, that of the row before, found \"0\""
        );
        assert_eq!(
            error(waits("0600;0700;1000;0;1\n0600;0700;1000;500;1\n")),
            "s.csv:3:16: seconds_since_start: expected a second near 1, found \"500\"; \
             the wait of the row before and this second contradict each other"
        );
        assert_eq!(
            error(waits("0600;0600;1000;0;1\n")),
            "s.csv:2:6: callee: expected a callee other than the caller, found \"0600\""
        );
        assert!(
            error(waits("0600;0700;1000;0\n")).starts_with("s.csv:2:1: expected 5 fields (caller;callee;")
        );
        assert!(
            error(waits("0600;0700;1000;0;1\n\n0600;0700;1000;1;1\n"))
                .starts_with("s.csv:3:1: expected a row")
        );
        assert_eq!(
            error(bins("0;5000;600;7200;7300\n0;4999;600;7200;7300\n")),
            "s.csv:3:3: milliseconds: expected a time not before that of the row before, found \"4999\""
        );
        assert!(
            error(bins("0;600000;600;7200;7300\n")).contains("milliseconds from 0 to 599999 in ten_minute 0")
        );
        assert!(
            error(read("caller,callee\n")).starts_with("s.csv:1:1: expected the header caller;callee;wait")
        );
        assert_eq!(error(waits("")), "s.csv: expected at least one row after the header, found none");
        assert!(error(read("")).ends_with("found an empty file"));
        let long = format!("{};0700;1;0;1\n", "0".repeat(5000));
        assert!(error(waits(&long)).starts_with("s.csv:2:1: expected a line of at most 4096 bytes"));
    }

    #[test]
    fn an_id_outside_the_fleet_is_refused() {
        let text = format!("{}\n0600;0700;1000;0;1\n", WAITS.join(";"));
        let error = Scenario::read(text.as_bytes(), "s.csv", Ids { first: 0, count: 700 }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "s.csv:2:6: callee: expected one of the experiment's users, 0000 to 0699, found \"0700\""
        );
    }

    #[test]
    fn text_that_is_not_text_is_an_error() {
        assert!(Scenario::read(&b"\xff\xfe\n"[..], "s.csv", ALL).is_err());
    }
}
