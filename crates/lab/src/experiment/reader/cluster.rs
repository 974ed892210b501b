//! The cluster and its users: `[topology]`, `[users]`, `[call]`, `[policy]`.

use std::time::Duration;

use super::{duration_or, required_section};
use crate::experiment::check::RATE_MAX_PER_S;
use crate::experiment::model::{
    Call, DISPATCH_POLICIES, Distribution, End, Host, Link, OVERLOAD_POLICIES, Policy, Topology, Users,
};
use crate::experiment::section::Section;
use crate::experiment::units::written;
use crate::input::InputError;

const BALANCERS_MAX: u64 = 64;
const PROXIES_MAX: u64 = 1000;
const USERS_MAX: u64 = 1_000_000;
const LINES_MAX: u64 = 1000;

pub(super) fn read_topology(root: &Section<'_>) -> Result<Topology, InputError> {
    let section = required_section(root, "topology")?;
    let balancers = section.optional("balancers");
    let count = balancers.as_ref().map(|f| f.integer(0..=BALANCERS_MAX)).transpose()?.unwrap_or(1);
    let expected = format!("the number of proxies, from 1 to {PROXIES_MAX}");
    let proxies = section.required("proxies", &expected)?.integer(1..=PROXIES_MAX)?;
    if let (Some(field), 0, 2..) = (&balancers, count, proxies) {
        return Err(field.error("at least one balancer in front of more than one proxy"));
    }
    let topology = Topology {
        balancers: count as u32,
        proxies: proxies as u32,
        balancer: section.section("balancer")?.map(read_host).transpose()?.unwrap_or_default(),
        proxy: section.section("proxy")?.map(read_host).transpose()?.unwrap_or_default(),
        links: read_links(&section)?,
    };
    section.finish()?;
    Ok(topology)
}

fn read_host(section: Section<'_>) -> Result<Host, InputError> {
    let host = Host {
        cpu_milli: section.optional("cpu").map(|f| f.cpu_milli()).transpose()?,
        cpu_period: section.optional("cpu_period").map(|f| f.duration_above_zero()).transpose()?,
        receive_buffer_bytes: section.optional("receive_buffer").map(|f| f.bytes()).transpose()?,
    };
    section.finish()?;
    Ok(host)
}

fn read_links(topology: &Section<'_>) -> Result<Vec<Link>, InputError> {
    const BETWEEN: [(&str, Option<(End, End)>); 4] = [
        ("any", None),
        ("phones-balancer", Some((End::Phones, End::Balancer))),
        ("balancer-proxy", Some((End::Balancer, End::Proxy))),
        ("phones-proxy", Some((End::Phones, End::Proxy))),
    ];
    let mut links: Vec<Link> = Vec::new();
    for section in topology.sections("link")? {
        let field = section.optional("between");
        let between = field.as_ref().map(|f| f.one_of(&BETWEEN)).transpose()?.flatten();
        if let Some(twice) = field.filter(|_| links.iter().any(|link| link.between == between)) {
            return Err(twice.error("only one [[topology.link]] for the same ends"));
        }
        let probability = |key| section.optional(key).map_or(Ok(0.0), |f| f.probability());
        links.push(Link {
            between,
            delay: duration_or(&section, "delay", Duration::ZERO)?,
            jitter: duration_or(&section, "jitter", Duration::ZERO)?,
            loss: probability("loss")?,
            duplicate: probability("duplicate")?,
            reorder: probability("reorder")?,
            reorder_delay: duration_or(&section, "reorder_delay", Duration::from_millis(1))?,
        });
        section.finish()?;
    }
    Ok(links)
}

pub(super) fn read_users(section: Section<'_>) -> Result<Users, InputError> {
    let (first, count, digits) = read_names(&section)?;
    let expires = section.optional("register_expires").map(|f| f.duration_above_zero()).transpose()?;
    let register_expires = expires.unwrap_or(Duration::from_secs(3600));
    let refresh = section.optional("register_refresh");
    let register_refresh = refresh.as_ref().map(|f| f.duration_above_zero()).transpose()?;
    if let (Some(field), Some(true)) = (&refresh, register_refresh.map(|r| r >= register_expires)) {
        let expires = written(register_expires);
        return Err(field.error(format!("a time before the registration expires, after {expires}")));
    }
    let users = Users {
        first,
        count,
        digits,
        register_expires,
        register_refresh: register_refresh.unwrap_or(register_expires * 5 / 6),
        register_rate_per_s: section
            .optional("register_rate")
            .map_or(Ok(200.0), |f| f.rate_in(RATE_MAX_PER_S))?,
        lines: section.optional("lines").map_or(Ok(4), |f| f.integer(1..=LINES_MAX))? as u32,
    };
    section.finish()?;
    Ok(users)
}

/// The number of the first user, how many there are, and how many digits their names have.
fn read_names(section: &Section<'_>) -> Result<(u32, u32, usize), InputError> {
    const RANGE: &str = "a range of names such as \"0000-0999\", both ends with the same number of digits";
    match (section.optional("range"), section.optional("count")) {
        (Some(range), None) => {
            let text = range.text()?;
            let ends = text.split_once('-').filter(|(first, last)| {
                let digits = |s: &str| (1..=9).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
                digits(first) && digits(last) && first.len() == last.len()
            });
            let (first, last) = ends.ok_or_else(|| range.error(RANGE))?;
            let number = |s: &str| s.parse::<u64>().expect("at most nine digits");
            let count = (number(last) + 1).checked_sub(number(first)).filter(|n| *n > 0);
            let count = count.ok_or_else(|| range.error("a range whose end is not before its start"))?;
            if count > USERS_MAX {
                return Err(range.error(format!("at most {USERS_MAX} users")));
            }
            if count < 2 {
                return Err(range.error("at least two users, so that one can call the other"));
            }
            Ok((number(first) as u32, count as u32, first.len()))
        }
        (None, Some(count)) => {
            let count = count.integer(2..=USERS_MAX)?;
            Ok((0, count as u32, (count - 1).to_string().len().max(4)))
        }
        (Some(_), Some(count)) => Err(count.error("either a range or a count of users, not both")),
        (None, None) => {
            section.required("range", RANGE)?;
            unreachable!("a missing key is an error")
        }
    }
}

pub(super) const CALL_DEFAULT: Call = Call {
    hold: Duration::from_secs(2),
    hold_distribution: Distribution::Fixed,
    answer_delay: Duration::ZERO,
    ring: Duration::ZERO,
    patience: Duration::from_secs(60),
};

pub(super) fn read_call(section: Section<'_>) -> Result<Call, InputError> {
    const DISTRIBUTIONS: [(&str, Distribution); 2] =
        [("fixed", Distribution::Fixed), ("exponential", Distribution::Exponential)];
    let distribution = section.optional("hold_distribution").map(|f| f.one_of(&DISTRIBUTIONS)).transpose()?;
    let patience = section.optional("patience").map(|f| f.duration_above_zero()).transpose()?;
    let call = Call {
        hold: duration_or(&section, "hold", CALL_DEFAULT.hold)?,
        hold_distribution: distribution.unwrap_or(CALL_DEFAULT.hold_distribution),
        answer_delay: duration_or(&section, "answer_delay", CALL_DEFAULT.answer_delay)?,
        ring: duration_or(&section, "ring", CALL_DEFAULT.ring)?,
        patience: patience.unwrap_or(CALL_DEFAULT.patience),
    };
    section.finish()?;
    Ok(call)
}

pub(super) const POLICY_DEFAULT: Policy =
    Policy { dispatch: DISPATCH_POLICIES[0], overload: OVERLOAD_POLICIES[0] };

pub(super) fn read_policy(section: Section<'_>) -> Result<Policy, InputError> {
    let named = |key, names: &[&'static str]| {
        let names: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
        section.optional(key).map(|field| field.one_of(&names)).transpose()
    };
    let policy = Policy {
        dispatch: named("dispatch", &DISPATCH_POLICIES)?.unwrap_or(POLICY_DEFAULT.dispatch),
        overload: named("overload", &OVERLOAD_POLICIES)?.unwrap_or(POLICY_DEFAULT.overload),
    };
    section.finish()?;
    Ok(policy)
}
