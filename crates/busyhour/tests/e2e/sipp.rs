//! SIPp: scenarios of our own, run against a cluster of ours.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::place::{is_bound, tail, wait_for};
use crate::up::DOMAIN;

/// How long one run may take before SIPp gives up, in seconds.
const RUN_MAX_S: u64 = 90;

/// A run of SIPp that is being prepared.
pub(crate) struct Sipp {
    scenario: String,
    name: String,
    local: SocketAddr,
    remote: SocketAddr,
    calls: u32,
    options: Vec<String>,
    table: Option<String>,
}

impl Sipp {
    /// Runs `scenarios/NAME.xml` at the address `local`; what it sends first goes to `remote`.
    pub(crate) fn new(name: &str, local: SocketAddr, remote: SocketAddr) -> Self {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/scenarios").join(format!("{name}.xml"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let scenario = text.replace("@DOMAIN@", DOMAIN);
        Sipp { scenario, name: name.into(), local, remote, calls: 1, options: Vec::new(), table: None }
    }

    /// Puts `value` where the scenario says `@WORD@`.
    pub(crate) fn with(mut self, word: &str, value: &str) -> Self {
        let word = format!("@{word}@");
        assert!(self.scenario.contains(&word), "{}.xml has no {word}", self.name);
        self.scenario = self.scenario.replace(&word, value);
        self
    }

    /// How many calls it makes or takes.
    pub(crate) fn calls(mut self, calls: u32) -> Self {
        self.calls = calls;
        self
    }

    /// Calls per second.
    pub(crate) fn rate(self, per_s: u32) -> Self {
        self.option("-r").option(&per_s.to_string())
    }

    /// One more word of SIPp's command line.
    pub(crate) fn option(mut self, word: &str) -> Self {
        self.options.push(word.into());
        self
    }

    /// The lines that calls take their fields from, one after the other.
    pub(crate) fn table(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        let lines: Vec<String> = lines.into_iter().collect();
        self.table = Some(format!("SEQUENTIAL\n{}\n", lines.join("\n")));
        self
    }

    /// Starts it; returns when its socket is there.
    pub(crate) fn start(self) -> Running {
        let dir = TempDir::new().expect("a directory");
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
        put("scenario.xml", &self.scenario);
        let mut command = Command::new(crate::tool::find("sipp", "sip-tester").expect("looked for before"));
        command
            .arg(self.remote.to_string())
            .args([
                "-sf",
                "scenario.xml",
                "-i",
                &self.local.ip().to_string(),
                "-p",
                &self.local.port().to_string(),
            ])
            .args([
                "-mi",
                &self.local.ip().to_string(),
                "-m",
                &self.calls.to_string(),
                "-nostdin",
                "-skip_rlimit",
            ])
            .args(["-timeout", &format!("{RUN_MAX_S}s"), "-timeout_error"])
            .args(["-trace_err", "-error_file", "errors", "-trace_msg", "-message_file", "messages"])
            .args(&self.options);
        if let Some(table) = &self.table {
            put("table.csv", table);
            command.args(["-inf", "table.csv"]);
        }
        let file = |name: &str| File::create(dir.path().join(name)).expect("a file");
        let child = command
            .current_dir(dir.path())
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(file("screen"))
            .stderr(file("stderr"))
            .spawn()
            .expect("sipp starts");
        let mut running = Running { child, dir, name: self.name };
        wait_for(&format!("{} to be there", running.name), Duration::from_secs(20), || {
            // One that is done already was there.
            let ended = running.child.try_wait().expect("a child of ours").is_some();
            (ended || is_bound(self.local)).then_some(())
        });
        running
    }

    /// Runs it to its end; every call has to go as the scenario says.
    #[track_caller]
    pub(crate) fn run(self) {
        self.start().finish();
    }
}

/// A running SIPp. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    dir: TempDir,
    name: String,
}

impl Running {
    /// Waits for its end; every call has to have gone as the scenario says.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "sipp {}: {status}{}", self.name, self.report());
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let patience = Duration::from_secs(RUN_MAX_S + 20);
        wait_for(&format!("sipp {} to end", self.name), patience, || {
            self.child.try_wait().expect("a child of ours")
        })
    }

    /// Everything that it sent and received so far.
    pub(crate) fn messages(&self) -> String {
        self.read("messages")
    }

    fn read(&self, name: &str) -> String {
        let bytes = std::fs::read(self.dir.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What it had to say, for a failure.
    fn report(&self) -> String {
        let part =
            |name: &str, lines| format!("\n--- {name} of {}\n{}", self.name, tail(&self.read(name), lines));
        part("stderr", 20) + &part("errors", 60) + &part("messages", 120)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().expect("a child of ours").is_none() {
            // It can only have ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
            if std::thread::panicking() {
                eprintln!("sipp {} was still running{}", self.name, self.report());
            }
        }
    }
}

/// The line of a table with which `user` calls or registers: name, credentials, and one field more.
pub(crate) fn user_line(user: &str, password: &str, more: &str) -> String {
    format!("{user};[authentication username={user} password={password}];{more}")
}
