//! What a cluster is made of, and the roles made from that: the same for sockets and for the simulator.

use std::net::SocketAddr;
use std::time::Duration;

use busyhour_engine::HashSeed;
use busyhour_roles::auth::{self, Authenticator, Subscribers};
use busyhour_roles::balancer::{self, Balancer, PathPolicy};
use busyhour_roles::location::{self, Location};
use busyhour_roles::proxy::{self, Proxy};
use busyhour_roles::registrar::{self, Registrar};
use busyhour_roles::transactions;
use busyhour_sip::transaction::Timers;
use busyhour_sip::value::Algorithm;

use crate::secret::ClusterSecret;

/// Settings of a cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Host names and addresses that the cluster is responsible for.
    pub domains: Vec<proxy::Domain>,
    /// The realm of digest authentication; users' addresses-of-record are in it.
    pub realm: String,
    /// Methods that need credentials.
    pub authenticate: Vec<String>,
    /// Whether proxies stay in the path of dialogs.
    pub proxy_record_route: bool,
    /// Whether balancers stay in the path of dialogs.
    pub balancer_record_route: bool,
    /// Whether balancers stay in the path to registered user agents (RFC 3327).
    pub path: bool,
    /// How long an INVITE may ring (Timer C).
    pub timer_c: Duration,
    /// Durations of the transaction timers.
    pub timers: Timers,
    /// The most server transactions of a proxy, and of its client transactions twice as many.
    pub transactions_max: usize,
    /// The digest algorithms that are offered and accepted, most preferred first.
    pub digest: Vec<Algorithm>,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// Bounds of registrations.
    pub registrar: registrar::Config,
    /// Limits of the location table that the proxies of a process share; each of its shards has them.
    pub location: location::Limits,
    /// Max-Breadth of requests without one.
    pub max_breadth: u32,
    /// Max-Forwards of requests without one.
    pub max_forwards: u8,
    /// A fixed next hop for requests to nobody here.
    pub next_hop: Option<SocketAddr>,
}

impl Settings {
    /// A cluster for one domain, with the usual values.
    pub fn for_domain(domain: &str) -> Self {
        Settings {
            domains: proxy::Domain::parse(domain).into_iter().collect(),
            realm: domain.to_owned(),
            authenticate: vec!["REGISTER".into(), "INVITE".into()],
            proxy_record_route: true,
            balancer_record_route: true,
            path: true,
            timer_c: Duration::from_secs(181),
            timers: Timers::default(),
            transactions_max: 200_000,
            // What knows only MD5 often looks only at the first challenge: SIPp before 3.7, sipsak, older phones. What knows
            // better and insists can choose the second.
            digest: vec![Algorithm::Md5, Algorithm::Sha256],
            nonce_lifetime: Duration::from_secs(300),
            registrar: registrar::Config::default(),
            location: location::Limits::default(),
            max_breadth: 60,
            max_forwards: 70,
            next_hop: None,
        }
    }

    /// A balancer that is reached at `address`.
    pub fn balancer(&self, secret: &ClusterSecret, address: SocketAddr) -> Balancer {
        let mut config = balancer::Config::new(address, derived(secret, "balancer"));
        config.record_route = self.balancer_record_route;
        config.path = if self.path { PathPolicy::Always } else { PathPolicy::Never };
        config.max_forwards = self.max_forwards;
        Balancer::new(config)
    }

    /// A proxy that is reached at `address`. `seed` is its own.
    pub fn proxy(
        &self,
        secret: &ClusterSecret,
        address: SocketAddr,
        location: Box<dyn Location + Send>,
        subscribers: Box<dyn Subscribers + Send>,
        unix_offset_nanos: u64,
        seed: u64,
    ) -> Proxy {
        let config = proxy::Config {
            address,
            domains: self.domains.clone(),
            record_route: self.proxy_record_route,
            authenticate: self.authenticate.clone(),
            next_hop: self.next_hop,
            trusted: Vec::new(),
            max_forwards: self.max_forwards,
            max_breadth: self.max_breadth,
            timer_c: self.timer_c,
            transactions: transactions::Config {
                timers: self.timers,
                servers_max: self.transactions_max,
                clients_max: 2 * self.transactions_max,
            },
        };
        let auth = auth::Config {
            realm: self.realm.clone(),
            key: derived(secret, "nonce"),
            nonce_lifetime: self.nonce_lifetime,
            unix_offset_nanos,
        };
        let registrar = registrar::Config { unix_offset_nanos, ..self.registrar };
        Proxy::new(
            config,
            Authenticator::new(auth, subscribers).offering(&self.digest),
            Registrar::new(registrar, derived(secret, "registrar")),
            location,
            derived(secret, "proxy"),
            seed,
        )
    }
}

/// A key for one purpose, made from the cluster's secret: who learns one learns nothing of the others.
pub(super) fn derived(secret: &ClusterSecret, purpose: &str) -> HashSeed {
    let word =
        |i: usize| u64::from_le_bytes(secret.as_bytes()[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let half = |i: usize, n: u8| HashSeed(word(2 * i), word(2 * i + 1)).hash(&[purpose.as_bytes(), &[n]]);
    HashSeed(half(0, 0), half(1, 1))
}
