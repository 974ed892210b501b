//! What must hold between processes: a killed process loses no subscriber that it acknowledged, and one data directory
//! has one cluster. The test program starts copies of itself as the other process; `harness = false` gives it its own
//! `main`, which takes the child's part when its first argument is `child`.

// The acknowledgements of a child are lines on its standard output.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use busyhour_control::data_dir::{DataDir, DataDirError};
use busyhour_control::secret::Password;
use busyhour_control::subscribers::{Domain, IfExists, SubscriberStore, Token, UserName};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match arguments[..] {
        ["child", "add", data, prefix] => add_for_ever(data, prefix),
        ["child", "lock", data] => hold_the_lock(data),
        ["child", ..] => panic!("unknown part: {arguments:?}"),
        _ => {
            a_killed_process_loses_no_acknowledged_subscriber();
            two_processes_cannot_share_a_directory();
            println!("2 tests passed");
        }
    }
}

fn add_for_ever(data: &str, prefix: &str) {
    let mut store = SubscriberStore::open(&DataDir::open(data).unwrap()).unwrap();
    let realm = Domain::parse("busyhour.example").unwrap();
    for number in 0_u64.. {
        let user = UserName::parse(&format!("{prefix}-{number}")).unwrap();
        store.add(&user, &realm, &Password::parse("x").unwrap(), IfExists::Refuse).unwrap();
        println!("{user}");
    }
}

fn hold_the_lock(data: &str) {
    let _lock = DataDir::open(data).unwrap().lock_exclusive().unwrap();
    println!("locked");
    // Ends when the parent closes the pipe or kills this process.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A copy of this program in the part that `arguments` name; killed at the end at the latest.
struct Other {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg("child")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Other { process, lines }
    }

    fn next_line(&mut self) -> String {
        self.lines.next().expect("the child ended early").unwrap()
    }

    /// SIGKILL; then the lines that it had written by then.
    fn kill(&mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.lines.by_ref().map(Result::unwrap).collect()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two processes add at the same time and are killed in the middle, several times over.
fn a_killed_process_loses_no_acknowledged_subscriber() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let ours = SubscriberStore::open(&DataDir::open(data).unwrap()).unwrap();
    let mut token = Token::default();
    assert!(ours.changed_since(&mut token).unwrap());
    let mut acknowledged = Vec::new();
    for round in 0..8 {
        let mut others = ["a", "b"].map(|name| Other::start(&["add", data, &format!("{name}{round}")]));
        // Different depths, so that the kill falls on different moments of the log's life.
        for _ in 0..(5 + round * 17) {
            acknowledged.extend(others.iter_mut().map(Other::next_line));
        }
        for other in &mut others {
            acknowledged.extend(other.kill());
        }
        assert!(ours.changed_since(&mut token).unwrap(), "the other processes added users");
        let stored: HashSet<String> = ours
            .load_all()
            .unwrap()
            .into_iter()
            .map(|subscriber| subscriber.user.as_str().to_owned())
            .collect();
        let lost: Vec<_> = acknowledged.iter().filter(|user| !stored.contains(*user)).collect();
        assert!(lost.is_empty(), "round {round}: lost {lost:?}");
        // One transaction per child may have been committed and not yet acknowledged; nothing else may be there.
        assert!(stored.len() <= acknowledged.len() + 2 * (round + 1), "round {round}: users out of nowhere");
        assert!(!ours.changed_since(&mut token).unwrap(), "nobody is left who could add users");
    }
    // A fresh process recovers the log too.
    drop(ours);
    let reopened = SubscriberStore::open(&DataDir::open(data).unwrap()).unwrap();
    assert!(reopened.load_all().unwrap().len() >= acknowledged.len());
    println!("test a_killed_process_loses_no_acknowledged_subscriber ... ok ({} users)", acknowledged.len());
}

fn two_processes_cannot_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = DataDir::open(dir.path()).unwrap();
    let mut holder = lock_elsewhere(dir.path());
    assert_refused_by(&data, holder.process.id());

    // Subscribers can be changed while a cluster has the directory.
    let mut store = SubscriberStore::open(&data).unwrap();
    let (user, realm) = (UserName::parse("alice").unwrap(), Domain::parse("busyhour.example").unwrap());
    store.add(&user, &realm, &Password::parse("x").unwrap(), IfExists::Refuse).unwrap();

    // The operating system frees the directory of a killed process.
    holder.kill();
    let mine = data.lock_exclusive().unwrap();
    drop(mine);

    // And that of one that ends by itself.
    let mut holder = lock_elsewhere(dir.path());
    assert_refused_by(&data, holder.process.id());
    holder.process.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(holder.process.wait().unwrap().success());
    let _mine = data.lock_exclusive().unwrap();
    println!("test two_processes_cannot_share_a_directory ... ok");
}

fn lock_elsewhere(data: &Path) -> Other {
    let mut holder = Other::start(&["lock", data.to_str().unwrap()]);
    assert_eq!(holder.next_line(), "locked");
    holder
}

fn assert_refused_by(data: &DataDir, pid: u32) {
    let refusal = data.lock_exclusive().map(drop);
    assert!(
        matches!(refusal, Err(DataDirError::InUse { holder_pid: Some(holder), .. }) if holder == pid),
        "{refusal:?}"
    );
}
