//! What an experiment says, after it was read and checked.

use std::time::Duration;

/// Where an experiment comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The document, by its short name (`cnf`, `window`, …) or its title.
    pub document: String,
    /// What it published, in a sentence.
    pub published: Option<String>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Stateless balancers in the first stage (S in *cinema*). 0 only with a single proxy, which the phones then talk
    /// to themselves.
    pub balancers: u32,
    /// Proxies behind them (P in *cinema*), at the start of the run.
    pub proxies: u32,
    /// The host of every balancer; for the simulator.
    pub balancer: Host,
    /// The host of every proxy; for the simulator.
    pub proxy: Host,
    /// How links behave that are not ideal; for the simulator.
    pub links: Vec<Link>,
}

/// What a host has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Thousandths of a CPU; `None` for no limit.
    pub cpu_milli: Option<u32>,
    /// The period over which the CPU limit is enforced; `None` for the default (100 ms).
    pub cpu_period: Option<Duration>,
    /// The receive buffer of a socket, in bytes; `None` for the default.
    pub receive_buffer_bytes: Option<u64>,
}

/// A kind of end of a link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The fleet of phones.
    Phones,
    /// A balancer.
    Balancer,
    /// A proxy.
    Proxy,
}

/// How all links between two kinds of node behave, in both directions.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Link {
    /// The two kinds; `None` for every link that no other entry names.
    pub between: Option<(End, End)>,
    /// What every datagram takes at least.
    pub delay: Duration,
    /// Added to it, uniformly from zero to this.
    pub jitter: Duration,
    /// The probability that a datagram is lost.
    pub loss: f64,
    /// The probability that it arrives twice.
    pub duplicate: f64,
    /// The probability that it is held back by `reorder_delay`, so that later ones may overtake it.
    pub reorder: f64,
    /// How long it is held back.
    pub reorder_delay: Duration,
}

/// The subscribers and their phones.
#[derive(Clone, Debug, PartialEq)]
pub struct Users {
    /// The number of the first user.
    pub first: u32,
    /// How many there are. Users are indices from 0 on everywhere but in names.
    pub count: u32,
    /// How many digits a name has.
    pub digits: usize,
    /// The expiry that a phone asks for.
    pub register_expires: Duration,
    /// How long after a registration it registers again.
    pub register_refresh: Duration,
    /// REGISTERs per second while the fleet starts.
    pub register_rate_per_s: f64,
    /// How many calls a phone can be in at once.
    pub lines: u32,
}

/// How a call goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// How long the caller stays in the call, between its ACK and its BYE; with an exponential distribution the mean.
    pub hold: Duration,
    /// How hold times are distributed.
    pub hold_distribution: Distribution,
    /// How long the callee's phone waits before it answers an INVITE at all.
    pub answer_delay: Duration,
    /// How long it rings: the time from its 180 to its 200. Zero: a 200 at once, without a 180.
    pub ring: Duration,
    /// How long the caller waits for an answer before it gives up with a CANCEL.
    pub patience: Duration,
}

/// A distribution of durations.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Always the same.
    Fixed,
    /// Exponential.
    Exponential,
}

/// The policies, by name. Each is one of [`DISPATCH_POLICIES`] or [`OVERLOAD_POLICIES`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How a balancer picks a proxy.
    pub dispatch: &'static str,
    /// How overload is controlled.
    pub overload: &'static str,
}

/// The dispatch policies that exist.
pub const DISPATCH_POLICIES: [&str; 1] = ["call-id-hash"];
/// The overload controls that exist.
pub const OVERLOAD_POLICIES: [&str; 1] = ["none"];

/// Something that goes wrong, or is done, during the run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When, since the start of the load.
    pub at: Duration,
    /// What.
    pub what: FaultKind,
}

/// What happens. Proxies and balancers are numbered from 0; added proxies get the next numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// One node stops at once and loses all its state.
    Kill {
        /// Which.
        node: Target,
        /// After how long it is started again; `None` for never.
        lasts: Option<Duration>,
    },
    /// One node stands still and keeps its state.
    Pause {
        /// Which.
        node: Target,
        /// For how long.
        lasts: Duration,
    },
    /// One node is cut off from all others.
    Partition {
        /// Which.
        node: Target,
        /// For how long.
        lasts: Duration,
    },
    /// A proxy finishes its calls, takes no new ones and leaves.
    Drain {
        /// Its number.
        proxy: u32,
    },
    /// New proxies join.
    Add {
        /// How many.
        proxies: u32,
    },
}

/// A node, by its kind and number: `proxy-0`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A balancer.
    Balancer(u32),
    /// A proxy.
    Proxy(u32),
}

/// What a person asks for on the command line, in place of what the file says.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Compresses the time of the experiment: the load, its steps, faults, warm-up and windows last this many times
    /// shorter. Rates stay as they are, and so does what belongs to a call or to the protocol: hold and ring times,
    /// expiries, link delays, SIP timers. From 1 to 1000.
    pub speed: Option<f64>,
    /// How long the load lasts, in the time of the run (after `speed`).
    pub duration: Option<Duration>,
    /// The seed.
    pub seed: Option<u64>,
    /// How many repetitions.
    pub repeat: Option<u32>,
}

impl Users {
    /// The name of a user: `0042`.
    pub fn name(&self, index: u32) -> String {
        format!("{:0width$}", self.first + index, width = self.digits)
    }

    /// How many calls the fleet can hold at once: each takes a line of two phones.
    pub fn calls_max(&self) -> u64 {
        u64::from(self.count) * u64::from(self.lines) / 2
    }
}

impl Call {
    /// How long a call lasts on average, from INVITE to BYE.
    pub fn length_mean(&self) -> Duration {
        self.answer_delay + self.ring + self.hold
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Balancer(n) => write!(f, "balancer-{n}"),
            Target::Proxy(n) => write!(f, "proxy-{n}"),
        }
    }
}
