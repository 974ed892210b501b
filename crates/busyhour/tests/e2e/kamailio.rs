//! Our balancer in front of proxies that somebody else wrote: two Kamailios.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::place::{address, socket, tail, wait_for, wait_until_answered};
use crate::sipp::{Sipp, user_line};
use crate::tool::{find, needs};
use crate::up::{DOMAIN, Server};

/// A running Kamailio. Dropping it ends it and its worker processes.
struct Kamailio {
    child: Child,
    dir: TempDir,
}

impl Kamailio {
    fn start(listen: SocketAddr) -> Self {
        let dir = TempDir::new().expect("a directory");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/kamailio/proxy.cfg");
        let text = std::fs::read_to_string(file).expect("the configuration");
        let text = text.replace("@LISTEN@", &listen.to_string()).replace("@DOMAIN@", DOMAIN);
        std::fs::write(dir.path().join("proxy.cfg"), text).expect("a file");
        let log = File::create(dir.path().join("log")).expect("a file");
        let child = Command::new(find("kamailio", "kamailio").expect("looked for before"))
            .args(["-DD", "-E", "-m", "32", "-M", "4", "-f", "proxy.cfg"])
            .args([Path::new("-Y"), dir.path()])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("kamailio starts");
        let mut kamailio = Kamailio { child, dir };
        wait_until_answered(listen, || {
            let ended = kamailio.child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "kamailio has ended: {}", kamailio.log());
        });
        kamailio
    }

    fn log(&self) -> String {
        tail(&std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default(), 20)
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // Its main process ends the others when it is told to end; killed, it would leave them behind.
        if self.child.try_wait().expect("a child of ours").is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
            let patience = Duration::from_secs(20);
            wait_for("kamailio to end", patience, || self.child.try_wait().expect("a child of ours"));
        }
        if std::thread::panicking() {
            eprintln!("kamailio said:\n{}", self.log());
        }
    }
}

#[test]
fn calls_complete_through_our_balancer_and_two_kamailios() {
    needs!("kamailio" of "kamailio", "sipp" of "sip-tester");
    let ip = address();
    let [balancer, first, second] = [5060, 5071, 5072].map(|port| SocketAddr::new(ip, port));
    let kamailios = [first, second].map(Kamailio::start);
    let (listen, members) = (balancer.to_string(), [format!("one={first}"), format!("two={second}*2")]);
    let arguments = ["balancer", "--listen", &listen, "--member", &members[0], "--member", &members[1]];
    let mut server = Server::start(&arguments);
    server.wait_until_said("Ctrl-C stops");

    let (caller, callee) = (socket(5060), socket(5060));
    let user = |n: u32, more: &str| user_line(&format!("{n:04}"), &format!("pw{n:04}"), more);
    // Each has a location table of its own, so each is told where everybody is.
    for kamailio in [first, second] {
        let lines = (100..120).map(|n| user(n, &callee.to_string()));
        Sipp::new("register", socket(5060), kamailio).table(lines).calls(20).rate(50).run();
    }
    // A registration goes through the balancer just as well.
    Sipp::new("register", socket(5060), balancer).table([user(120, &callee.to_string())]).run();

    let callees = Sipp::new("answer", callee, balancer).with("RING", "100").with("CLUSTER", &ip.to_string());
    let callees = callees.calls(60).start();
    let lines = (0..20).map(|n| user(n, &format!("{:04}", 100 + n)));
    Sipp::new("call", caller, balancer).with("HOLD", "200").table(lines).calls(60).rate(30).run();
    let messages = callees.messages();
    callees.finish();
    for member in [first, second] {
        let has_had_calls = messages.contains(&format!("Via: SIP/2.0/UDP {member}"));
        assert!(has_had_calls, "{member} has had none of 60 calls");
    }
    server.interrupt();
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    server.expect_quiet();
    drop(kamailios);
}
