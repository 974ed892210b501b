//! The phones of an experiment.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_control::cluster::{Directory, Settings};
use busyhour_roles::{registrar, transactions, ua};
use busyhour_sip::value::Ha1;

use crate::experiment::{Call, Experiment};

/// The domain of every experiment.
pub(super) const DOMAIN: &str = "lab.busyhour.example";

/// The cluster that an experiment asks for.
pub(super) fn settings(experiment: &Experiment) -> Settings {
    let expires = u32::try_from(experiment.users.register_expires.as_secs()).unwrap_or(u32::MAX);
    let registrar = registrar::Config::default();
    Settings {
        registrar: registrar::Config {
            min_expires_s: registrar.min_expires_s.min(expires).max(1),
            max_expires_s: registrar.max_expires_s.max(expires),
            ..registrar
        },
        // Without a balancer phones and proxy talk to each other.
        path: experiment.topology.balancers > 0,
        transactions_max: TRANSACTIONS_MAX,
        ..Settings::for_domain(DOMAIN)
    }
}

/// Enough for some ten thousand calls a second, each of which leaves transactions behind for 32 s.
const TRANSACTIONS_MAX: usize = 2_000_000;

/// The subscribers, with passwords that nobody has to know.
pub(super) fn users(experiment: &Experiment) -> Vec<ua::User> {
    let user = |index| {
        let name = experiment.users.name(index);
        let ha1 = Ha1::of(&name, DOMAIN, &format!("pw{name}"));
        ua::User { name, ha1 }
    };
    (0..experiment.users.count).map(user).collect()
}

/// The same for the cluster.
pub(super) fn directory(users: &[ua::User]) -> Directory {
    Directory::of(users.iter().map(|u| (u.name.clone(), u.ha1)))
}

/// The longest that a call is reckoned to last; of exponential ones, one in three thousand lasts longer.
pub(super) fn longest(call: &Call) -> Duration {
    call.answer_delay + call.ring + call.hold * 8
}

/// Timers B and F, and a little: how long a transaction without an answer may take.
pub(super) const TRANSACTION_MAX: Duration = Duration::from_secs(33);

/// The fleet: all phones behind one address.
pub(super) fn config(
    experiment: &Experiment,
    users: Vec<ua::User>,
    address: SocketAddr,
    outbound: Vec<SocketAddr>,
    timers: busyhour_sip::transaction::Timers,
) -> ua::Config {
    let call = &experiment.call;
    let expires = u32::try_from(experiment.users.register_expires.as_secs()).unwrap_or(u32::MAX);
    ua::Config {
        address,
        outbound,
        domain: DOMAIN.to_owned(),
        users,
        register_expires_s: expires,
        refresh_after: Some(experiment.users.register_refresh),
        answer: ua::Answering {
            ring_after: (!call.ring.is_zero()).then_some(call.answer_delay),
            answer_after: call.answer_delay + call.ring,
            busy_share: 0.0,
        },
        patience: call.patience,
        bye_within: longest(call) + 2 * TRANSACTION_MAX,
        // A call is there twice: at who makes it and at who answers it.
        calls_max: usize::try_from(2 * experiment.users.calls_max()).unwrap_or(usize::MAX),
        transactions: transactions::Config {
            timers,
            servers_max: TRANSACTIONS_MAX,
            clients_max: TRANSACTIONS_MAX,
        },
        tell_answers: false,
    }
}
