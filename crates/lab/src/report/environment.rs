//! Where and how a run was made.

use std::time::SystemTime;

use crate::Driver;

/// Where and how a run was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// What carried the messages.
    pub driver: Driver,
    /// The seed that the run can be repeated with.
    pub seed: u64,
    /// When it began.
    pub started: SystemTime,
    /// The version of Busyhour.
    pub busyhour: String,
    /// The operating system's kernel.
    pub kernel: String,
    /// The model of the CPU.
    pub cpu: String,
    /// How many cores the process may use.
    pub cores: u32,
    /// Anything else that is worth knowing, as name and value.
    pub notes: Vec<(String, String)>,
}

impl Environment {
    /// This machine, now. What the system does not tell reads `unknown`.
    pub fn of_this_machine(driver: Driver, seed: u64) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let os = read("/proc/sys/kernel/ostype");
        let release = read("/proc/sys/kernel/osrelease");
        Environment {
            driver,
            seed,
            started: SystemTime::now(),
            busyhour: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: or_unknown(format!("{} {}", os.trim(), release.trim()).trim()),
            cpu: or_unknown(cpu_model(&cpuinfo)),
            cores: std::thread::available_parallelism()
                .map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
            notes: Vec::new(),
        }
    }

    /// When it began, in UTC.
    pub fn started_rfc3339(&self) -> String {
        humantime::format_rfc3339_seconds(self.started).to_string()
    }
}

/// The model that x86 and some other kernels tell; empty when they do not.
fn cpu_model(cpuinfo: &str) -> &str {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
        line.split_once(':').map(|(_, v)| v.trim())
    };
    value("model name").or_else(|| value("Model")).or_else(|| value("cpu model")).unwrap_or_default()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_found_where_kernels_tell_it() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
        assert_eq!(cpu_model("processor : 0\nModel : Board 4\n"), "Board 4");
        assert_eq!(cpu_model("processor : 0\n"), "");
        assert_eq!(or_unknown(""), "unknown");
    }
}
