//! The shape of the workspace: which crate may see which, and how long a file may be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may see of the workspace. An arrow that is not here is a decision about the design: see
/// ARCHITECTURE.md before adding one.
const MAY_SEE: [(&str, &[&str]); 9] = [
    ("busyhour-engine", &[]),
    ("busyhour-sip", &["engine"]),
    ("busyhour-policy", &["engine"]),
    ("busyhour-roles", &["engine", "sip", "policy"]),
    ("busyhour-net", &["engine"]),
    ("busyhour-sim", &["engine"]),
    ("busyhour-control", &["engine", "sip", "policy", "roles", "net"]),
    ("busyhour-lab", &["engine", "sip", "policy", "roles", "net", "sim", "control"]),
    ("busyhour", &["engine", "sip", "policy", "roles", "net", "sim", "control", "lab"]),
];

/// The most lines of a source file.
const FILE_LINES_MAX: usize = 600;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in crates/").to_owned()
}

/// The normal dependencies of every member on other members, by crate.
fn arrows() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let mut arrows = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let own = list(&package["dependencies"])
            .into_iter()
            .filter(|d| d["kind"].is_null() && d["path"].is_string())
            .map(|d| text(&d["name"]))
            .collect();
        arrows.insert(text(&package["name"]), own);
    }
    arrows
}

#[test]
fn arrows_between_crates_point_down() {
    let arrows = arrows();
    let known: Vec<&str> = MAY_SEE.iter().map(|(name, _)| *name).collect();
    let unknown: Vec<_> = arrows.keys().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "say in MAY_SEE what these crates may see: {unknown:?}");
    let mut wrong = Vec::new();
    for (name, allowed) in MAY_SEE {
        let seen = arrows.get(name).unwrap_or_else(|| panic!("{name} is not in the workspace"));
        let wanted = |other: &&String| !allowed.iter().any(|a| **other == format!("busyhour-{a}"));
        wrong.extend(seen.iter().filter(wanted).map(|other| format!("{name} → {other}")));
    }
    assert!(wrong.is_empty(), "these crates see what they may not: {}", wrong.join(", "));
}

/// Every `.rs` file below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn files_are_short_enough_to_read() {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(workspace().join("crates")).expect("crates/") {
        let src = entry.expect("an entry").path().join("src");
        if src.is_dir() {
            sources(&src, &mut found);
        }
    }
    assert!(found.len() > 100, "only {} source files found", found.len());
    let lines = |path: &Path| std::fs::read_to_string(path).expect("UTF-8").lines().count();
    let long: Vec<String> = found
        .iter()
        .map(|path| (path, lines(path)))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(path, lines)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "longer than {FILE_LINES_MAX} lines:\n{}", long.join("\n"));
}
