//! The commands that need no cluster, as a user runs them: output, errors, exit status.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `busyhour` in `dir` with the arguments of `line`, without any variable of the tester's.
fn busyhour(dir: &Path, line: &str, variables: &[(&str, &str)], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_busyhour"))
        .args(line.split_whitespace())
        .current_dir(dir)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // A command that does not read its input may have ended by now; then there is nobody to write to.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the binary ends")
}

/// Status, standard output, standard error.
fn outcome(dir: &Path, line: &str) -> (i32, String, String) {
    told(busyhour(dir, line, &[], ""))
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit status"), text(output.stdout), text(output.stderr))
}

fn fresh() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn users_are_added_listed_and_removed() {
    let dir = fresh();
    let dir = dir.path();
    let added = |name| (0, format!("{name}@busyhour.example is in data/subscribers.db\n"), String::new());
    assert_eq!(outcome(dir, "user add bob --password secret"), added("bob"));
    assert_eq!(told(busyhour(dir, "user add alice --password-stdin", &[], "wonder land\n")), added("alice"));
    assert_eq!(
        outcome(dir, "user add bob --password other"),
        (
            1,
            String::new(),
            "error: the user bob of busyhour.example exists already: add --replace to give them the new password\n"
                .into()
        )
    );
    assert_eq!(outcome(dir, "user add bob --password other --replace"), added("bob"));
    assert_eq!(outcome(dir, "user add carol --password x --domain a.example").0, 0);
    let all = "carol@a.example\nalice@busyhour.example\nbob@busyhour.example\n";
    assert_eq!(outcome(dir, "user list"), (0, all.into(), String::new()));
    assert_eq!(outcome(dir, "user list --domain A.example"), (0, "carol@a.example\n".into(), String::new()));
    assert_eq!(outcome(dir, "user remove alice mallory").0, 1);
    assert_eq!(outcome(dir, "user list").1, all);
    assert_eq!(
        outcome(dir, "user remove alice bob"),
        (0, "alice@busyhour.example is removed\nbob@busyhour.example is removed\n".into(), String::new())
    );
    assert_eq!(outcome(dir, "user list").1, "carol@a.example\n");
}

#[test]
fn the_realm_and_the_directory_come_from_the_configuration() {
    let dir = fresh();
    let dir = dir.path();
    std::fs::write(dir.join("b.toml"), "domain = \"b.example\"\ndata = \"elsewhere\"\n").expect("written");
    assert_eq!(
        outcome(dir, "user add alice --password x --config b.toml").1,
        "alice@b.example is in elsewhere/subscribers.db\n"
    );
    let named = [("BUSYHOUR_CONFIG", "b.toml"), ("BUSYHOUR_DOMAIN", "c.example")];
    let said = told(busyhour(dir, "user add alice --password x", &named, "")).1;
    assert_eq!(said, "alice@c.example is in elsewhere/subscribers.db\n");
}

#[test]
fn bad_input_is_one_line_and_status_2() {
    let dir = fresh();
    let dir = dir.path();
    std::fs::write(dir.join("b.toml"), "proxies = 2\nlisten = true\n").expect("written");
    let listen = "an IP address and a port, such as \"127.0.0.1:5060\" or \"[::1]:5060\"";
    let cases = [
        ("config check b.toml", format!("b.toml:2:10: listen: expected {listen}, found the boolean true")),
        ("user list --config b.toml", format!("b.toml:2:10: listen: expected {listen}, found the boolean true")),
        ("up --config b.toml", format!("b.toml:2:10: listen: expected {listen}, found the boolean true")),
        ("up --listen 5060", format!("--listen: expected {listen}, found \"5060\"")),
        (
            "config check none.toml",
            "none.toml: expected a readable configuration file, found No such file or directory (os error 2)".into(),
        ),
        (
            "user add a@b --password x",
            "NAME: expected a user name of letters, digits and -_.!~*'()&=+$,;?/ (the user part of a SIP URI), found \"a@b\"".into(),
        ),
        ("user add a --password-stdin", "standard input: expected a password of 1 to 1024 bytes, found one of 0 bytes".into()),
    ];
    for (line, message) in cases {
        assert_eq!(outcome(dir, line), (2, String::new(), format!("error: {message}\n")), "{line}");
    }
    assert_eq!(outcome(dir, "user add a").0, 2, "the command line's own errors have the same status");
    assert!(!dir.join("data").exists(), "a command with bad input leaves nothing behind");
}

#[test]
fn looking_for_users_creates_nothing() {
    let dir = fresh();
    let (status, _, error) = outcome(dir.path(), "user list --data typo");
    assert_eq!(status, 1);
    assert_eq!(
        error,
        "error: there are no subscribers in typo yet: add one with `busyhour user add`, or name another data directory with --data\n"
    );
    assert!(!dir.path().join("typo").exists());
}

#[test]
fn an_unusable_database_is_a_sentence_and_status_1() {
    let dir = fresh();
    std::fs::create_dir(dir.path().join("data")).expect("created");
    std::fs::write(dir.path().join("data/subscribers.db"), "not a database ".repeat(100)).expect("written");
    let message = "error: data/subscribers.db is not a Busyhour subscriber database: move it out of the way, or choose another directory with --data\n";
    assert_eq!(outcome(dir.path(), "user list"), (1, String::new(), message.into()));
    std::fs::write(dir.path().join("file"), "").expect("written");
    let message = "error: file is not a directory: choose another data directory with --data\n";
    assert_eq!(
        outcome(dir.path(), "user add a --password x --data file"),
        (1, String::new(), message.into())
    );
}

#[test]
fn config_check_shows_where_values_come_from() {
    let dir = fresh();
    std::fs::write(dir.path().join("b.toml"), "proxies = 3\n").expect("written");
    let variables = [("BUSYHOUR_LISTEN", "127.0.0.1:7000"), ("BUSYHOUR_PORT", "udp://10.0.0.1:5060")];
    let (status, shown, errors) =
        told(busyhour(dir.path(), "config check b.toml --set balancer.path=false", &variables, ""));
    assert_eq!((status, errors.as_str()), (0, ""));
    let lines: Vec<String> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "# ok: b.toml, effective configuration",
        "listen = \"127.0.0.1:7000\" # BUSYHOUR_LISTEN",
        "proxies = 3 # b.toml:1",
        "proxy_listen = \"127.0.0.1:7011\" # default",
        "path = false # --set balancer.path",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not in\n{shown}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = fresh();
    for name in ["a", "b"] {
        assert_eq!(outcome(dir.path(), &format!("user add {name} --password x")).0, 0);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_busyhour"))
        .args(["user", "list"])
        .current_dir(dir.path())
        .env_clear()
        .stdout({
            // The reading end is closed before the command writes its first byte.
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            writer
        })
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let status = child.wait().expect("the binary ends");
    assert!(status.success(), "{status}");
    let errors = child.wait_with_output().expect("the output").stderr;
    assert!(errors.is_empty(), "{}", String::from_utf8_lossy(&errors));
}
