//! Starting, stopping, and what a person is told when that does not work.

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;

use crate::calls::Exchange;
use crate::place::{address, socket, wait_for};
use crate::tool::{find, needs};
use crate::up::{DOMAIN, Up, busyhour};
use crate::wire::Phone;

/// Asks with OPTIONS, by sipsak: whether the answer was 200, and what it was.
fn sipsak(to: SocketAddr) -> (bool, String) {
    let program = find("sipsak", "sipsak").expect("looked for before");
    let output =
        Command::new(program).args(["-vv", "-s", &format!("sip:{to}")]).output().expect("sipsak starts");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn options_says_whether_calls_are_welcome() {
    needs!("sipsak" of "sipsak", "sipp" of "sip-tester");
    let mut x = Exchange::start(&[]);
    let all = [x.up.balancer, x.up.proxy(1), x.up.proxy(2)];
    for address in all {
        let (ok, said) = sipsak(address);
        assert!(ok && said.contains("SIP/2.0 200 OK"), "{address}: {said}");
    }
    // A call that rings keeps the cluster from ending while it drains.
    let callee = x.watchful("answer").with("RING", "3000").start();
    let caller = x.caller("ringing").start();
    wait_for("ringing", Duration::from_secs(10), || caller.messages().contains("180 Ringing").then_some(()));
    x.up.server.interrupt();
    x.up.server.wait_until_said("no new calls");
    for address in all {
        let (ok, said) = sipsak(address);
        assert!(!ok && said.contains("SIP/2.0 503"), "{address}: {said}");
    }
    // The call that was being set up is answered, acknowledged, and then it is over.
    caller.finish();
    assert_eq!(x.up.server.wait().code(), Some(0));
    assert!(x.up.server.stdout().contains("\nstopped: "), "{}", x.up.server.stdout());
    x.up.server.expect_quiet();
    drop(callee);
}

#[test]
fn a_second_interrupt_stops_at_once() {
    needs!("sipp" of "sip-tester");
    let mut x = Exchange::start(&[]);
    let callee = x.callee("cancelled").start();
    let caller = x.caller("ringing").start();
    wait_for("ringing", Duration::from_secs(10), || caller.messages().contains("180 Ringing").then_some(()));
    x.up.server.interrupt();
    x.up.server.wait_until_said("no new calls");
    x.up.server.interrupt();
    assert_eq!(x.up.server.wait().code(), Some(0));
    assert!(
        x.up.server.stdout().contains("stopped with one request unanswered: "),
        "{}",
        x.up.server.stdout()
    );
    drop((caller, callee));
}

fn told(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_stops_a_start_is_said_with_what_to_do() {
    let dir = TempDir::new().expect("a directory");
    let data = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let taken = Phone::at(socket(5060));
    let at = taken.address.to_string();
    let (status, said) = told(&busyhour(&["up", "--listen", &at, "--data", &data("a")], None));
    let expected = format!("error: UDP {at} is in use by another socket: stop the program that has it");
    assert!(status == Some(1) && said.starts_with(&expected), "{status:?} {said}");

    // The balancer's port is free, a proxy's is not.
    let taken = Phone::at(socket(5072));
    let listen = SocketAddr::new(taken.address.ip(), 5060).to_string();
    let (status, said) = told(&busyhour(&["up", "--listen", &listen, "--data", &data("a")], None));
    assert!(
        status == Some(1) && said.contains(&format!("UDP {} is in use", taken.address)),
        "{status:?} {said}"
    );

    let (status, said) = told(&busyhour(&["up", "--listen", "192.0.2.1:5060", "--data", &data("a")], None));
    assert!(
        status == Some(1) && said.contains("192.0.2.1:5060") && said.lines().count() == 1,
        "{status:?} {said}"
    );

    std::fs::create_dir(dir.path().join("b")).expect("a directory");
    std::fs::write(
        dir.path().join("b/subscribers.db"),
        "this is not a database, but long enough to be read as one",
    )
    .expect("a file");
    let listen = SocketAddr::new(address(), 5060).to_string();
    let (status, said) = told(&busyhour(&["up", "--listen", &listen, "--data", &data("b")], None));
    assert!(status == Some(1) && said.contains("subscribers.db"), "{status:?} {said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    std::fs::write(dir.path().join("c"), "").expect("a file");
    let (status, said) = told(&busyhour(&["up", "--listen", &listen, "--data", &data("c")], None));
    assert!(matches!(status, Some(1 | 2)) && said.contains(&data("c")), "{status:?} {said}");
}

#[test]
fn without_permission_there_is_a_sentence_too() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    let data = data.to_str().expect("UTF-8");
    let listen = SocketAddr::new(address(), 5060).to_string();
    // Root may do anything, so the test becomes nobody, who may not even look into the directory.
    let nobody = rustix::process::geteuid().is_root().then_some(65_534);
    if nobody.is_none() {
        let locked = std::os::unix::fs::PermissionsExt::from_mode(0o500);
        std::fs::set_permissions(data, locked).expect("it is ours");
    }
    let (status, said) = told(&busyhour(&["up", "--listen", &listen, "--data", data], nobody));
    assert!(status == Some(1) && said.starts_with("error: ") && said.contains(data), "{status:?} {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn two_clusters_do_not_share_a_data_directory() {
    let up = Up::start(&[]);
    let listen = SocketAddr::new(address(), 5060).to_string();
    let data = up.server.data();
    let second = busyhour(&["up", "--listen", &listen, "--data", data.to_str().expect("UTF-8")], None);
    let (status, said) = told(&second);
    assert!(status == Some(1) && said.contains(data.to_str().expect("UTF-8")), "{status:?} {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    up.stop();
}

#[test]
fn subscribers_survive_a_cluster_that_is_killed() {
    let mut up = Up::start(&["--provision", "0000-0009"]);
    let data = up.server.data().to_str().expect("UTF-8").to_owned();
    let added =
        busyhour(&["user", "add", "alice", "--password", "x", "--domain", DOMAIN, "--data", &data], None);
    assert!(added.status.success());
    up.server.kill();
    let listed = busyhour(&["user", "list", "--data", &data], None);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 11, "{:?}", told(&listed));
    // And the directory is free for the next one.
    let listen = SocketAddr::new(address(), 5060).to_string();
    let mut next =
        crate::up::Server::start(&["up", "--listen", &listen, "--data", &data, "--domain", DOMAIN]);
    next.wait_until_said("11 in test.example");
    next.wait_until_said("once more to stop at once");
    next.stop();
}

#[test]
fn a_cluster_can_live_on_ipv6() {
    let listen = "[::1]:0";
    let arguments =
        ["up", "--listen", listen, "--data", "DATA", "--domain", DOMAIN, "--set", "proxy.authenticate="];
    let mut server = crate::up::Server::start(&arguments);
    server.wait_until_said("once more to stop at once");
    let stdout = server.stdout();
    let after = stdout.split("balancer-1   udp ").nth(1).expect("where the balancer listens");
    let balancer: SocketAddr =
        after.split_whitespace().next().expect("an address").parse().expect("an address");
    let any = listen.parse().expect("an address");
    let (caller, callee) = (Phone::at(any), Phone::at(any));
    let contact = format!("Contact: <sip:u@{}>\r\n", callee.address);
    let stored = callee.ask(balancer, &callee.register("u", "six", 1, &contact));
    assert_eq!(stored.status(), Some(200), "{}", stored.0);
    caller.send(balancer, caller.request("MESSAGE", "sip:u@test.example", "to-six", 1, ""));
    let heard = callee.hear_that("MESSAGE", |h| h.method() == Some("MESSAGE"));
    callee.reply(balancer, &heard, 200, "");
    caller.hear_that("200", |h| h.status() == Some(200));
    server.stop();
}
