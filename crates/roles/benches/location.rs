//! The location table at 10⁴ and 10⁶ contacts, and at 5·10⁶ when `BUSYHOUR_BENCH_LARGE` is set: resident memory per
//! contact, the longest pause while it grows and while it expires, and the time of single operations.
//!
//! Pauses are CPU time of the thread, so that being scheduled away does not count as one; page faults do count.
#![allow(clippy::disallowed_methods, reason = "a bench reads its environment and its own memory")]
#![allow(clippy::print_stdout, reason = "a bench is a program that reports")]

use std::hint::black_box;
use std::time::Duration;

use busyhour_engine::{HashSeed, Instant, Rng};
use busyhour_roles::location::{Change, ContactChange, Limits, Location, Origin, Table};
use busyhour_sip::Writer;
use criterion::Criterion;
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let is_test = std::env::args().any(|a| a == "--test");
    let is_large = std::env::var("BUSYHOUR_BENCH_LARGE").is_ok();
    let sizes: &[u64] = match (is_test, is_large) {
        (true, _) => &[1_000],
        (false, false) => &[10_000, 1_000_000],
        (false, true) => &[10_000, 1_000_000, 5_000_000],
    };
    if let Some(case) = std::env::args().find_map(|a| a.strip_prefix("--growth=").map(str::to_owned)) {
        let (own_path, size) = case.split_once(',').expect("--growth=own_path,size");
        return report_growth(size.parse().expect("a number"), own_path == "true");
    }
    for own_path in [false, true] {
        for &size in sizes {
            in_a_process_of_its_own(&format!("--growth={own_path},{size}"));
        }
    }
    let mut criterion = Criterion::default().configure_from_args();
    for &size in sizes {
        operations(&mut criterion, size);
    }
    criterion.final_summary();
}

/// What one case leaves behind in the allocator must not count for the next.
fn in_a_process_of_its_own(case: &str) {
    let me = std::env::current_exe().expect("a program has a path");
    let status = std::process::Command::new(me).arg(case).status().expect("it can be started again");
    assert!(status.success(), "{case}: {status}");
}

/// The texts of one user, without allocation.
struct User {
    buf: [u8; 160],
    uri_at: usize,
    path_at: usize,
    len: usize,
}

impl User {
    /// `own_path`: every user has a Path of its own; else there are three in all.
    fn new(n: u64, own_path: bool) -> Self {
        let mut buf = [0; 160];
        let mut w = Writer::new(&mut buf);
        w.put(b"user").put_u64(10_000_000 + n).put(b"@example.com");
        let uri_at = w.finish().expect("short");
        w.put(b"sip:user").put_u64(10_000_000 + n).put(b"@192.0.2.").put_u64(n % 250).put(b":5060;ob");
        let path_at = w.finish().expect("short");
        w.put(b"<sip:").put_u64(if own_path { 10_000_000 + n } else { 10_000_000 + n % 3 });
        let len = w.put(b"@203.0.113.1:5060;lr>").finish().expect("short");
        User { buf, uri_at, path_at, len }
    }

    fn aor(&self) -> &[u8] {
        &self.buf[..self.uri_at]
    }

    fn register(&self, table: &mut Table, now: Instant, cseq: u32, expires_s: u32) {
        let path = &self.buf[self.path_at..self.len];
        let origin = Origin { call_id: self.aor(), cseq, branch: cseq, path };
        let change = [ContactChange { uri: &self.buf[self.uri_at..self.path_at], q: 1000, expires_s }];
        table.register(now, self.aor(), &origin, Change::Contacts(&change), &mut |_| ()).expect("room");
    }
}

fn new_table() -> Table {
    Table::new(Limits::default(), HashSeed(1, 2))
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn filled(size: u64) -> Table {
    let mut table = new_table();
    for n in 0..size {
        User::new(n, false).register(&mut table, at(1), 1, 3600);
    }
    table
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux /proc");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("the resident set");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("kilobytes") * 1024
}

/// The longest, and how many took more than 1 ms.
#[derive(Default)]
struct Pauses {
    longest: Duration,
    /// Which of all was the longest.
    longest_is: u64,
    count: u64,
    over_1_ms: u64,
    total: Duration,
}

impl Pauses {
    fn time(&mut self, what: impl FnOnce()) {
        let cpu = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("not negative");
        let start = cpu();
        what();
        let took = cpu() - start;
        if took > self.longest {
            (self.longest, self.longest_is) = (took, self.count);
        }
        self.count += 1;
        self.over_1_ms += u64::from(took > Duration::from_millis(1));
        self.total += took;
    }
}

impl std::fmt::Display for Pauses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Pauses { longest, longest_is, count, over_1_ms, total } = self;
        write!(
            f,
            "{count} steps in {total:?}, longest {longest:?} (step {longest_is}), {over_1_ms} over 1 ms"
        )
    }
}

fn report_growth(size: u64, own_path: bool) {
    let before = resident_bytes();
    let mut table = new_table();
    let [mut growing, mut looking, mut expiring] = std::array::from_fn(|_| Pauses::default());
    for n in 0..size {
        let user = User::new(n, own_path);
        growing.time(|| user.register(&mut table, at(1 + n / 10_000), 1, 3600));
    }
    let per_contact = |bytes: u64| bytes as f64 / size as f64;
    let resident = resident_bytes().saturating_sub(before);
    let user = User::new(0, own_path);
    println!(
        "{size} contacts, URI of {} bytes, {} Path of {} bytes: {:.0} B resident, {:.0} B claimed per contact",
        user.path_at - user.uri_at,
        if own_path { "own" } else { "shared" },
        user.len - user.path_at,
        per_contact(resident),
        per_contact(table.heap_bytes() as u64),
    );
    println!("    growing: {growing}");
    for n in 0..size {
        User::new(n, own_path).register(&mut table, at(3000), 2, 3600);
    }
    sweep(&mut table, at(4000), &mut looking);
    assert_eq!(table.len(), size as usize);
    println!("    sweeping all while nothing has ended: {looking}");
    sweep(&mut table, at(20_000), &mut expiring);
    assert_eq!(table.len(), 0);
    println!("    sweeping all when everything has ended: {expiring}");
    println!(
        "    left: {:.1} B resident, {:.1} B claimed per former contact",
        per_contact(resident_bytes().saturating_sub(before)),
        per_contact(table.heap_bytes() as u64),
    );
}

/// Sweeps until nothing is due within the next half hour.
fn sweep(table: &mut Table, mut now: Instant, pauses: &mut Pauses) {
    let until = now + Duration::from_secs(1800);
    while let Some(due) = table.next_expiry().filter(|&due| due < until) {
        now = now.max(due);
        pauses.time(|| table.expire(now));
    }
}

fn operations(criterion: &mut Criterion, size: u64) {
    let mut group = criterion.benchmark_group(format!("location/{size}"));
    let mut table = filled(size);
    let mut rng = Rng::from_seed(1);
    group.bench_function("lookup", |b| {
        b.iter(|| {
            let user = User::new(rng.below(size), false);
            table.lookup(at(2), user.aor(), &mut |c| _ = black_box(c));
        });
    });
    group.bench_function("lookup of nobody", |b| {
        b.iter(|| {
            let user = User::new(size + rng.below(size), false);
            table.lookup(at(2), user.aor(), &mut |c| _ = black_box(c));
        });
    });
    let mut cseq = 1;
    group.bench_function("refresh", |b| {
        b.iter(|| {
            cseq += 1;
            User::new(rng.below(size), false).register(&mut table, at(2), cseq, 3600);
        });
    });
    let mut next = size;
    group.bench_function("insert and remove", |b| {
        b.iter(|| {
            next += 1;
            let user = User::new(next, false);
            user.register(&mut table, at(2), 1, 3600);
            user.register(&mut table, at(2), 2, 0);
        });
    });
    group.finish();
}
