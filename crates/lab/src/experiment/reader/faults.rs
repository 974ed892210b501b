//! What goes wrong, or is done, during the run: `[[fault]]`.

use std::time::Duration;

use crate::experiment::model::{Fault, FaultKind, Target, Topology};
use crate::experiment::section::Section;
use crate::experiment::units::written;
use crate::input::{InputError, list, quoted};

const FAULTS_MAX: usize = 1000;
const ADDED_MAX: u64 = 1000;

#[derive(Copy, Clone)]
enum What {
    Kill,
    Pause,
    Partition,
    Drain,
    Add,
}

pub(super) fn read_faults(
    root: &Section<'_>,
    topology: &Topology,
    length: Duration,
) -> Result<Vec<Fault>, InputError> {
    const WHATS: [(&str, What); 5] = [
        ("kill", What::Kill),
        ("pause", What::Pause),
        ("partition", What::Partition),
        ("drain", What::Drain),
        ("add", What::Add),
    ];
    let sections = root.sections("fault")?;
    if let Some(extra) = sections.get(FAULTS_MAX) {
        return Err(extra.required("at", "")?.error(format!("at most {FAULTS_MAX} faults")));
    }
    // Proxies that are added may be named from then on, so the additions have to be known first.
    let mut timed = Vec::new();
    for section in sections {
        let at_field = section.required("at", "when, since the start of the load, such as \"2m\"")?;
        let at = at_field.duration()?;
        if at >= length {
            return Err(at_field.error(format!("a time before the end of the load at {}", written(length))));
        }
        let names = list(WHATS.map(|(name, _)| quoted(name)));
        let what = section.required("what", &format!("one of {names}"))?.one_of(&WHATS)?;
        timed.push((at, what, section));
    }
    timed.sort_by_key(|(at, ..)| *at);
    let mut proxies = topology.proxies;
    let mut faults = Vec::with_capacity(timed.len());
    for (at, what, section) in timed {
        let lasting = || section.required("for", "how long it lasts, such as \"10s\"")?.duration_above_zero();
        let node = || read_target(&section, topology.balancers, proxies);
        let what = match what {
            What::Kill => FaultKind::Kill {
                node: node()?,
                lasts: section.optional("for").map(|f| f.duration_above_zero()).transpose()?,
            },
            What::Pause => FaultKind::Pause { node: node()?, lasts: lasting()? },
            What::Partition => FaultKind::Partition { node: node()?, lasts: lasting()? },
            What::Drain => match node()? {
                Target::Proxy(proxy) => FaultKind::Drain { proxy },
                Target::Balancer(_) => {
                    return Err(section.required("node", "")?.error("a proxy: only proxies are drained"));
                }
            },
            What::Add => {
                let added = section.optional("proxies").map_or(Ok(1), |f| f.integer(1..=ADDED_MAX))? as u32;
                proxies += added;
                FaultKind::Add { proxies: added }
            }
        };
        section.finish()?;
        faults.push(Fault { at, what });
    }
    Ok(faults)
}

fn read_target(section: &Section<'_>, balancers: u32, proxies: u32) -> Result<Target, InputError> {
    let field = section.required("node", "a node such as \"proxy-0\"")?;
    let parsed = field.text()?.rsplit_once('-').and_then(|(kind, number)| {
        let number = number.parse::<u32>().ok()?;
        match kind {
            "proxy" if number < proxies => Some(Target::Proxy(number)),
            "balancer" if number < balancers => Some(Target::Balancer(number)),
            _ => None,
        }
    });
    let mut nodes = vec![format!("\"proxy-0\" to \"proxy-{}\"", proxies - 1)];
    if balancers > 0 {
        nodes.push(format!("\"balancer-0\" to \"balancer-{}\"", balancers - 1));
    }
    parsed.ok_or_else(|| field.error(format!("a node that is there: {}", nodes.join(", "))))
}
