//! Proxies that come and go under load, in a cluster on sockets: `busyhour lab run` with an experiment of our own.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::up::busyhour;

const EXPERIMENT: &str = r#"
name = "e2e/membership"
title = "Two proxies leave and three come, and no call notices"
seed = 1
duration = "16s"

[topology]
balancers = 2
proxies = 3

[users]
range = "0000-0199"

[call]
ring = "300ms"
hold = "2s"

[load]
kind = "constant"
rate = "60/s"
arrivals = "poisson"

[[fault]]
at = "3s"
what = "add"
proxies = 1

[[fault]]
at = "5s"
what = "drain"
node = "proxy-0"

[[fault]]
at = "8s"
what = "add"
proxies = 2

[[fault]]
at = "10s"
what = "drain"
node = "proxy-1"

[[expect]]
that = "calls.failed == 0"

[[expect]]
that = "calls.completed == calls.offered"
"#;

/// The one file of this name below a directory.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find_map(|path| if path.is_dir() { find(&path, name) } else { path.ends_with(name).then_some(path) })
}

#[test]
fn no_call_fails_while_proxies_leave_and_come() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("membership.toml");
    std::fs::write(&file, EXPERIMENT).expect("a file");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = busyhour(&["lab", "run", &text(&file), "--out", &text(&dir.path().join("results"))], None);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary = find(&dir.path().join("results"), "summary.json").expect("a summary");
    let summary: Value =
        serde_json::from_slice(&std::fs::read(summary).expect("a file")).expect("a summary in JSON");
    let calls = &summary["calls"];
    assert!(calls["offered"].as_u64() > Some(700), "{calls}");
    assert_eq!((&calls["completed"], calls["failed"].as_u64()), (&calls["offered"], Some(0)), "{calls}");
    let busy = summary["proxies"].as_array().expect("a list");
    let busy = busy.iter().filter(|p| p["invites"].as_u64() > Some(0)).count();
    assert_eq!(busy, 6, "those who left and those who came have had calls: {}", summary["proxies"]);
}
