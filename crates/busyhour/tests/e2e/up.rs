//! `busyhour up` as a user runs it: started, waited for, stopped with Ctrl-C.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::place::{address, tail, wait_for};

/// The domain of every cluster here, and its realm.
pub(crate) const DOMAIN: &str = "test.example";

/// Longer than a drained cluster may take: that is Timer B, 32 seconds.
const STOP_MAX: Duration = Duration::from_secs(45);

/// A running `busyhour` that serves until it is told to stop. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    dir: TempDir,
}

impl Server {
    /// Starts it with these arguments; the word `DATA` among them stands for a fresh directory.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let data = dir.path().join("data");
        let given = arguments.iter().map(|a| if *a == "DATA" { data.as_path() } else { Path::new(a) });
        let file = |name: &str| File::create(dir.path().join(name)).expect("a file");
        let child = Command::new(env!("CARGO_BIN_EXE_busyhour"))
            .args(given)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("the binary starts");
        Server { child, dir }
    }

    /// Waits until it has said so.
    #[track_caller]
    pub(crate) fn wait_until_said(&mut self, text: &str) {
        wait_for(&format!("busyhour to say {text:?}"), Duration::from_secs(30), || {
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "busyhour has ended, {ended:?}: {}", self.stderr());
            self.stdout().contains(text).then_some(())
        });
    }

    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stdout")).expect("UTF-8")
    }

    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).expect("UTF-8")
    }

    /// The directory that `DATA` stands for.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("it runs");
    }

    /// Ends it without a chance to tidy up. Its directory stays.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.wait();
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("busyhour to end", STOP_MAX, || self.child.try_wait().expect("a child of ours"))
    }

    /// Stops it and checks that it ends as it should: drained, with status 0 and without complaints.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.finish();
    }

    /// As [`Server::stop`]; returns what it said.
    #[track_caller]
    pub(crate) fn finish(mut self) -> String {
        assert!(self.is_running(), "busyhour has ended by itself: {}", tail(&self.stderr(), 20));
        self.interrupt();
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", tail(&self.stderr(), 20));
        let stdout = self.stdout();
        assert!(stdout.lines().last().is_some_and(|l| l.starts_with("stopped: ")), "{stdout}");
        self.expect_quiet();
        stdout
    }

    /// Standard error has no bug on it, and no flood. A few lines may be there: a machine can have small buffers.
    #[track_caller]
    pub(crate) fn expect_quiet(&self) {
        let stderr = self.stderr();
        assert!(!stderr.contains("panicked") && !stderr.contains("ERROR"), "{}", tail(&stderr, 40));
        assert!(
            stderr.lines().count() <= 10,
            "{} lines, the last:\n{}",
            stderr.lines().count(),
            tail(&stderr, 10)
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_running() {
            // It can only have ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("busyhour said:\n{}{}", self.stdout(), tail(&self.stderr(), 40));
        }
    }
}

/// A running `busyhour up`.
pub(crate) struct Up {
    pub(crate) server: Server,
    pub(crate) balancer: SocketAddr,
}

impl Up {
    /// A balancer and two proxies on an address of their own, ready for calls.
    pub(crate) fn start(more: &[&str]) -> Self {
        let balancer = SocketAddr::new(address(), 5060);
        let listen = balancer.to_string();
        let mut arguments = vec!["up", "--listen", &listen, "--data", "DATA", "--domain", DOMAIN];
        arguments.extend(more);
        let mut server = Server::start(&arguments);
        server.wait_until_said("once more to stop at once");
        Up { server, balancer }
    }

    /// Where a proxy listens; the first is 1.
    pub(crate) fn proxy(&self, number: u16) -> SocketAddr {
        SocketAddr::new(self.balancer.ip(), 5070 + number)
    }

    pub(crate) fn stop(self) {
        self.server.stop();
    }
}

/// Runs a command of `busyhour` to its end. As another user when `user` is given, which takes root.
pub(crate) fn busyhour(arguments: &[&str], user: Option<u32>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busyhour"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.output().expect("the binary starts")
}
