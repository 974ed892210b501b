//! The time before the load, in which the phones register.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::format;

/// Progress of the registrations: a bar on a terminal, elsewhere one line at the start.
pub struct Phones(Option<ProgressBar>);

impl Phones {
    /// So many phones are to register, in about this time.
    pub fn new(count: u64, takes: Duration, tty: bool) -> Self {
        let title = format!("registering {} phones", format::count(count));
        if !tty {
            println(&format!("{title}, which takes {}", format::length(takes.as_secs_f64().ceil())));
            return Phones(None);
        }
        let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stdout_with_hz(10));
        let style =
            ProgressStyle::with_template("{prefix:.bold} {wide_bar:.green/dim} {percent:>3} % {eta} left");
        bar.set_style(style.expect("the template is a constant").progress_chars("━━─"));
        bar.set_prefix(title);
        Phones(Some(bar))
    }

    /// So many have their answer.
    pub fn update(&mut self, registered: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(registered);
        }
    }

    /// All have, or nobody waits any longer.
    pub fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

#[allow(clippy::print_stdout, reason = "progress in the terminal is what this module is for")]
fn println(line: &str) {
    println!("{line}");
}
