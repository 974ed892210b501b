//! What must hold when a scenario has come to rest.

use busyhour_roles::balancer::{self, Balancer};
use busyhour_roles::proxy::{self, Proxy};
use busyhour_roles::ua::Fleet;

use super::scenario::Weather;
use super::wire::Violation;
use super::world::{Part, World};

/// After the disturbances, everything healed, and a time in which every transaction ends.
pub(super) fn safety(world: &World) -> Result<(), Vec<Violation>> {
    let mut findings = rest(world);
    if world.scenario.weather == Weather::Calm {
        unexpected_outcomes(world, &mut findings);
        for (part, fleet) in fleets(world) {
            let stats = fleet.stats();
            if stats.legs > 0 || stats.unacknowledged > 0 {
                findings.push(format!("{} was hung up on badly: {stats:?}", part.name));
            }
        }
    }
    conclude(world, findings)
}

/// After everybody registered and called again on a healed cluster.
pub(super) fn liveness(world: &World) -> Result<(), Vec<Violation>> {
    let mut findings = rest(world);
    unexpected_outcomes(world, &mut findings);
    let left = world.members.table().earlier.len();
    if left > 0 {
        findings.push(format!("the membership does not settle: {left} earlier epochs are not retired"));
    }
    conclude(world, findings)
}

fn conclude(world: &World, findings: Vec<String>) -> Result<(), Vec<Violation>> {
    if findings.is_empty() {
        return Ok(());
    }
    let at = world.sim.now();
    Err(findings.into_iter().map(|what| Violation { at, call_id: None, what }).collect())
}

/// What holds in both: nothing is open, everything was told, and every account adds up.
fn rest(world: &World) -> Vec<String> {
    let mut findings = world.tally.wrong.clone();
    // A proxy that has lost its memory takes a repeated INVITE for a new one, and so does its callee in the end.
    if !world.has_crashed {
        findings.extend(world.tally.answered_again.iter().cloned());
    }
    for (fleet, call) in world.tally.untold() {
        findings.push(format!("fleet {fleet} has told nothing of {call:?}"));
    }
    let totals = world.sim.totals();
    if !totals.is_balanced() {
        findings.push(format!("datagrams are not accounted for: {totals:?}"));
    }
    let up = || world.parts.values().filter(|p| !p.is_gone);
    for part in up() {
        let node = world.sim.node(part.node);
        let handled = world.sim.node_counters(part.node).delivered - part.delivered_before;
        if let Some(balancer) = node.and_then(|n| n.as_balancer()) {
            balancer_adds_up(part, balancer, handled, &mut findings);
        } else if let Some(proxy) = node.and_then(|n| n.as_proxy()) {
            proxy_adds_up(part, proxy, handled, &mut findings);
        } else if let Some(fleet) = node.and_then(|n| n.as_fleet()) {
            let stats = fleet.stats();
            if stats.calls > 0 || stats.planned > 0 || stats.malformed > 0 {
                findings.push(format!("{} is not at rest: {stats:?}", part.name));
            }
        } else {
            findings.push(format!("{} is down", part.name));
        }
    }
    findings
}

/// Every datagram was forwarded, answered or dropped with a reason; every request went to a member or out.
fn balancer_adds_up(part: &Part, balancer: &Balancer, handled: u64, findings: &mut Vec<String>) {
    let balancer::Stats { counts, members, .. } = balancer.stats();
    let accounted = counts.requests + counts.responses + counts.answered_total() + counts.dropped_total();
    if accounted != handled {
        findings.push(format!(
            "{} handled {handled} datagrams and accounts for {accounted}: {counts:?}",
            part.name
        ));
    }
    let to_members: u64 = members.iter().map(|m| m.requests).sum();
    if to_members + counts.requests_departed + counts.requests_outward != counts.requests {
        findings.push(format!("{} forwarded requests to nobody: {counts:?}, {members:?}", part.name));
    }
}

/// No transaction is left, none was counted under two epochs, and every datagram was a request, a response or dropped.
fn proxy_adds_up(part: &Part, proxy: &Proxy, handled: u64, findings: &mut Vec<String>) {
    let stats = proxy.stats();
    let by_epoch: usize = stats.live_by_epoch.iter().map(|&(_, count)| count).sum();
    if stats.live != (0, 0) || stats.open != 0 || by_epoch != 0 {
        findings.push(format!("{} has transactions that do not end: {stats:?}", part.name));
    }
    let dropped = |why: proxy::Drop| stats.drops[why as usize];
    let unparsed = dropped(proxy::Drop::KeepAlive) + dropped(proxy::Drop::NotSip);
    if stats.requests + stats.responses + unparsed != handled {
        findings
            .push(format!("{} handled {handled} datagrams and accounts for others: {stats:?}", part.name));
    }
    if stats.defects > 0 || dropped(proxy::Drop::Malformed) > 0 {
        findings.push(format!("{} found something malformed: {stats:?}", part.name));
    }
}

fn unexpected_outcomes(world: &World, findings: &mut Vec<String>) {
    for (fleet, call, outcome) in world.tally.outcomes() {
        if !world.scenario.is_expected(fleet, &call, outcome) {
            findings
                .push(format!("a call of fleet {fleet} ended as {outcome:?}, with no fault about: {call:?}"));
        }
    }
}

fn fleets(world: &World) -> impl Iterator<Item = (&Part, &Fleet)> {
    world.parts.values().filter_map(|part| Some((part, world.sim.node(part.node)?.as_fleet()?)))
}
