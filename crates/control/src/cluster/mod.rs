//! A cluster in this process: balancers and proxies on sockets, the membership between them, and what they report.
//!
//! Order of a change: the proxies learn whom to trust, the balancers get the new table, and when all have it in force, the
//! proxies learn of that. So a proxy believes every member that may pass a message on to it, and a transaction that it
//! counts under a version began after every balancer knew that version.

mod directory;
mod membership;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use busyhour_net::{BindError, Clock, DriverStats, Handle, SocketOptions, SpawnError, UdpSocket, Worker};
pub use busyhour_roles::balancer::Member;
use busyhour_roles::balancer::{self, Balancer, Change, Refused, State};
use busyhour_roles::proxy::{self, Proxy};

pub use directory::Directory;
pub use membership::Members;
pub use settings::Settings;

use crate::location::SharedLocation;
use crate::secret::ClusterSecret;

/// Where a balancer listens, and what it is called by others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What its socket is bound to.
    pub listen: SocketAddr,
    /// The address that it puts into Via, Record-Route and Path when `listen` is a wildcard.
    pub advertise: IpAddr,
}

impl Endpoint {
    /// A balancer at one address.
    pub fn at(listen: SocketAddr) -> Self {
        Endpoint { listen, advertise: listen.ip() }
    }
}

/// Where the parts of a cluster listen.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// One balancer each.
    pub balancers: Vec<Endpoint>,
    /// One proxy each.
    pub proxies: Vec<SocketAddr>,
    /// Members elsewhere, which take calls beside the proxies.
    pub members: Vec<Member>,
    /// Balancers elsewhere, which the proxies believe.
    pub trusted: Vec<SocketAddr>,
    /// The kernel's receive buffer of each socket, in bytes.
    pub receive_buffer_bytes: usize,
}

/// What a worker told.
enum Told {
    Balancer(usize, balancer::Event),
    Proxy(String, proxy::Event),
}

struct Node<N: busyhour_engine::Node> {
    name: String,
    address: SocketAddr,
    handle: Handle<N>,
}

impl<N: busyhour_engine::Node> Node<N> {
    /// Stops it; what is left is its name and its place.
    fn into_place(self) -> (String, SocketAddr) {
        drop(self.handle);
        (self.name, self.address)
    }
}

/// A running cluster. Dropping it stops it at once.
pub struct Cluster {
    settings: Settings,
    secret: ClusterSecret,
    clock: Clock,
    socket_options: SocketOptions,
    location: SharedLocation,
    directory: Directory,
    members: Members,
    balancers: Vec<Node<Balancer>>,
    proxies: Vec<Node<Proxy>>,
    /// Name and address of proxies that were killed and are still members.
    killed: Vec<(String, SocketAddr)>,
    told: Receiver<Told>,
    tell: Sender<Told>,
    /// Balancers that have not confirmed the present table.
    unconfirmed: usize,
    /// Parts that have not answered the last question for a report.
    unreported: usize,
    status: Status,
    proxies_begun: usize,
}

/// What the parts of a cluster have last reported.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// By name.
    pub balancers: BTreeMap<String, balancer::Stats>,
    /// By name; proxies that were removed stay with their last figures.
    pub proxies: BTreeMap<String, proxy::Stats>,
}

impl Status {
    /// How many messages were dropped for each reason, by balancers and proxies together; reasons that occurred only.
    /// Keep-alives are meant to be dropped and are left out.
    pub fn dropped(&self) -> BTreeMap<&'static str, u64> {
        let mut by_reason = BTreeMap::new();
        for stats in self.balancers.values() {
            for &reason in balancer::Drop::ALL.iter().filter(|r| **r != balancer::Drop::KeepAlive) {
                *by_reason.entry(reason.label()).or_default() += stats.counts.dropped(reason);
            }
        }
        for stats in self.proxies.values() {
            for reason in proxy::Drop::ALL.into_iter().filter(|r| *r != proxy::Drop::KeepAlive) {
                *by_reason.entry(reason.label()).or_default() += stats.drops[reason as usize];
            }
        }
        by_reason.retain(|_, count| *count > 0);
        by_reason
    }

    /// What the proxies have received and answered: requests, INVITEs, REGISTERs.
    pub fn handled(&self) -> [u64; 3] {
        let sum = |f: fn(&proxy::Stats) -> u64| self.proxies.values().map(f).sum();
        [sum(|s| s.requests), sum(|s| s.invites), sum(|s| s.registers)]
    }
}

/// Why a cluster or a proxy of it could not be started, or a member not be changed.
#[derive(Debug)]
pub enum ClusterError {
    /// A socket could not be opened.
    Bind(BindError),
    /// A worker thread could not be started.
    Spawn(SpawnError),
    /// The membership does not allow it.
    Refused(Refused),
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Bind(error) => error.fmt(f),
            ClusterError::Spawn(error) => error.fmt(f),
            ClusterError::Refused(refused) => {
                write!(f, "the membership cannot be changed like this: {refused:?}")
            }
        }
    }
}

impl std::error::Error for ClusterError {}

impl From<BindError> for ClusterError {
    fn from(error: BindError) -> Self {
        ClusterError::Bind(error)
    }
}

impl From<SpawnError> for ClusterError {
    fn from(error: SpawnError) -> Self {
        ClusterError::Spawn(error)
    }
}

impl From<Refused> for ClusterError {
    fn from(refused: Refused) -> Self {
        ClusterError::Refused(refused)
    }
}

/// How long a change of the membership may take to reach all workers before it is done without their word.
const CONFIRM_WITHIN: Duration = Duration::from_secs(2);
/// How long a report is waited for; one that comes later is taken in the next time.
const REPORT_WITHIN: Duration = Duration::from_millis(50);

impl Cluster {
    /// Starts balancers and proxies; returns when calls can be made.
    ///
    /// # Errors
    /// [`ClusterError`] when a socket or thread is not to be had; what was started is stopped again.
    pub fn start(
        settings: Settings,
        secret: ClusterSecret,
        directory: Directory,
        addresses: &Addresses,
    ) -> Result<Self, ClusterError> {
        let (tell, told) = channel();
        let socket_options = SocketOptions {
            receive_buffer_bytes: addresses.receive_buffer_bytes,
            ..SocketOptions::default()
        };
        let clock = Clock::start();
        let location = SharedLocation::new(settings.location, settings::derived(&secret, "location"));
        let mut cluster = Cluster {
            settings,
            secret,
            clock,
            socket_options,
            location,
            directory,
            members: Members::default(),
            balancers: Vec::new(),
            proxies: Vec::new(),
            killed: Vec::new(),
            told,
            tell,
            unconfirmed: 0,
            unreported: 0,
            status: Status::default(),
            proxies_begun: 0,
        };
        for &endpoint in &addresses.balancers {
            cluster.start_balancer(endpoint)?;
        }
        // A wildcard balancer answers local proxies from the loopback address, or from the one that it advertises.
        let loopback = |b: &Node<Balancer>| {
            let ip = if b.address.is_ipv4() {
                IpAddr::from([127, 0, 0, 1])
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            };
            b.handle.local_addr().ip().is_unspecified().then_some(SocketAddr::new(ip, b.address.port()))
        };
        let sources = cluster.balancers.iter().flat_map(|b| [Some(b.address), loopback(b)]).flatten();
        cluster.members = Members::new(sources.chain(addresses.trusted.iter().copied()).collect());
        for &address in &addresses.proxies {
            cluster.start_proxy(address)?;
        }
        for member in &addresses.members {
            cluster.members.change(&Change::Add(member.clone()))?;
        }
        cluster.members.forget_earlier();
        cluster.publish();
        Ok(cluster)
    }

    fn start_balancer(&mut self, endpoint: Endpoint) -> Result<(), ClusterError> {
        let socket = UdpSocket::bind(endpoint.listen, &self.socket_options)?;
        let address = SocketAddr::new(endpoint.advertise, socket.local_addr().port());
        let (index, tell) = (self.balancers.len(), self.tell.clone());
        let name = format!("balancer-{}", index + 1);
        let node = self.settings.balancer(&self.secret, address);
        let on_event = move |_, event| {
            // The cluster that would listen may be gone already; then nobody needs to know.
            let _ = tell.send(Told::Balancer(index, event));
        };
        let handle = Worker::spawn(&name, socket, node, self.clock, on_event)?;
        self.balancers.push(Node { name, address, handle });
        Ok(())
    }

    fn start_proxy(&mut self, listen: SocketAddr) -> Result<String, ClusterError> {
        let socket = UdpSocket::bind(listen, &self.socket_options)?;
        self.proxies_begun += 1;
        let name = format!("proxy-{}", self.proxies_begun);
        let proxy = self.spawn_proxy(name.clone(), socket)?;
        self.members.add_ready(&name, proxy.address)?;
        self.proxies.push(proxy);
        Ok(name)
    }

    fn spawn_proxy(&self, name: String, socket: UdpSocket) -> Result<Node<Proxy>, ClusterError> {
        let address = socket.local_addr();
        let mut seed = [0; 8];
        seed.copy_from_slice(&ClusterSecret::generate().as_bytes()[..8]);
        let node = self.settings.proxy(
            &self.secret,
            address,
            Box::new(self.location.clone()),
            Box::new(self.directory.clone()),
            self.clock.unix_offset_nanos(),
            u64::from_le_bytes(seed),
        );
        let (tell, told_as) = (self.tell.clone(), name.clone());
        let on_event = move |_, event| {
            // As above.
            let _ = tell.send(Told::Proxy(told_as.clone(), event));
        };
        let handle = Worker::spawn(&name, socket, node, self.clock, on_event)?;
        Ok(Node { name, address, handle })
    }

    /// The clock that all workers share.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Where user agents send to.
    pub fn balancers(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.balancers.iter().map(|b| (b.name.as_str(), b.address))
    }

    /// The proxies that run.
    pub fn proxies(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        self.proxies.iter().map(|p| (p.name.as_str(), p.address))
    }

    /// What the sockets and threads of a part have counted.
    pub fn driver_stats(&self, name: &str) -> Option<DriverStats> {
        let balancer = self.balancers.iter().find(|b| b.name == name).map(|b| b.handle.stats());
        balancer.or_else(|| self.proxies.iter().find(|p| p.name == name).map(|p| p.handle.stats()))
    }

    /// What the parts have last reported: see [`Cluster::tick`].
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The location service of the proxies.
    pub fn location(&self) -> &SharedLocation {
        &self.location
    }

    /// The subscribers of the proxies.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Adds a proxy that takes calls at once; its name.
    ///
    /// # Errors
    /// [`ClusterError`] when a socket or thread is not to be had.
    pub fn add_proxy(&mut self, listen: SocketAddr) -> Result<String, ClusterError> {
        let name = self.start_proxy(listen)?;
        self.publish();
        Ok(name)
    }

    /// Takes new calls away from a proxy; those that it has go on.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when there is no such member.
    pub fn drain_proxy(&mut self, name: &str) -> Result<(), ClusterError> {
        self.members.change(&Change::SetState(name.to_owned(), State::Draining))?;
        if let Some(proxy) = self.proxies.iter().find(|p| p.name == name) {
            let _ = proxy.handle.command(proxy::Command::Drain);
        }
        self.publish();
        Ok(())
    }

    /// Whether a drained proxy has nothing left to do: no open transaction, and no epoch in which it was ready.
    pub fn is_drained(&self, name: &str) -> bool {
        let idle = self.status.proxies.get(name).is_some_and(|s| s.open == 0);
        idle && self.members.table().earlier.is_empty()
    }

    /// Takes a proxy out and stops it at once. Drain it first, or its transactions are lost.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when there is no such member.
    pub fn remove_proxy(&mut self, name: &str) -> Result<(), ClusterError> {
        self.members.change(&Change::Remove(name.to_owned()))?;
        self.publish();
        if let Some(index) = self.proxies.iter().position(|p| p.name == name) {
            // The balancers have the new table, so nothing more is sent there.
            drop(self.proxies.remove(index));
        }
        Ok(())
    }

    /// Stops a proxy without telling the balancers, as a crash would.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when no such proxy runs.
    pub fn kill_proxy(&mut self, name: &str) -> Result<(), ClusterError> {
        let index = self.proxies.iter().position(|p| p.name == name);
        let index = index.ok_or_else(|| Refused::Unknown(name.to_owned()))?;
        self.killed.push(self.proxies.remove(index).into_place());
        Ok(())
    }

    /// Starts a proxy that was killed again, under its name and at its address.
    ///
    /// # Errors
    /// [`ClusterError`] when it was not killed, or its address has been taken by another meanwhile.
    pub fn restart_proxy(&mut self, name: &str) -> Result<(), ClusterError> {
        let index = self.killed.iter().position(|(n, _)| n == name);
        let index = index.ok_or_else(|| Refused::Unknown(name.to_owned()))?;
        let (name, address) = self.killed.remove(index);
        let socket = UdpSocket::bind(address, &self.socket_options)?;
        let proxy = self.spawn_proxy(name, socket)?;
        let _ = proxy.handle.command(self.members.for_proxies());
        self.proxies.push(proxy);
        Ok(())
    }

    /// Asks every part for its report and takes in what they tell, for a moment at most. Call it about once a second:
    /// epochs are retired by what the proxies report.
    pub fn tick(&mut self) {
        self.unreported = 0;
        for balancer in &self.balancers {
            self.unreported += usize::from(balancer.handle.command(balancer::Command::Report).is_ok());
        }
        for proxy in &self.proxies {
            self.unreported += usize::from(proxy.handle.command(proxy::Command::Report).is_ok());
        }
        self.listen_while(REPORT_WITHIN, |cluster| cluster.unreported > 0);
    }

    /// Names of parts whose thread has ended though nobody stopped it.
    pub fn crashed(&self) -> Vec<String> {
        let balancers = self.balancers.iter().filter(|b| b.handle.is_finished()).map(|b| b.name.clone());
        balancers
            .chain(self.proxies.iter().filter(|p| p.handle.is_finished()).map(|p| p.name.clone()))
            .collect()
    }

    /// Takes no new calls from here on: they get 503.
    pub fn drain(&mut self) {
        let names: Vec<String> = self.proxies.iter().map(|p| p.name.clone()).collect();
        for name in names {
            let _ = self.members.change(&Change::SetState(name, State::Draining));
        }
        for proxy in &self.proxies {
            let _ = proxy.handle.command(proxy::Command::Close);
        }
        self.publish();
    }

    /// How many requests wait for a final response, as last reported.
    pub fn open_transactions(&self) -> usize {
        self.proxies.iter().filter_map(|p| self.status.proxies.get(&p.name)).map(|s| s.open).sum()
    }

    /// Tells the proxies whom to trust, gives the table to the balancers, waits until they have it in force, then tells the
    /// proxies that they have.
    fn publish(&mut self) {
        let version = self.members.table().version;
        self.unconfirmed = 0;
        for proxy in &self.proxies {
            let _ = proxy.handle.command(self.members.ahead_for_proxies());
        }
        for balancer in &self.balancers {
            let sent = balancer.handle.command(balancer::Command::Members(self.members.table().clone()));
            self.unconfirmed += usize::from(sent.is_ok());
        }
        self.listen_while(CONFIRM_WITHIN, |cluster| {
            cluster.unconfirmed > 0 && cluster.members.table().version == version
        });
        if self.unconfirmed > 0 && self.members.table().version == version {
            tracing::warn!(version, "not every balancer has confirmed the membership");
        }
        for proxy in &self.proxies {
            let _ = proxy.handle.command(self.members.for_proxies());
        }
    }

    /// Takes in what is told as long as `wanted`, but not longer than `patience`.
    fn listen_while(&mut self, patience: Duration, wanted: impl Fn(&Self) -> bool) {
        let until = Instant::now() + patience;
        while wanted(self) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.listen(left);
        }
    }

    /// Takes in what was told; waits for the first of it up to `patience`.
    fn listen(&mut self, patience: Duration) {
        let mut retired = false;
        let mut next = self.told.recv_timeout(patience).ok();
        while let Some(told) = next.take().or_else(|| self.told.try_recv().ok()) {
            match told {
                Told::Balancer(index, balancer::Event::Report(stats)) => {
                    self.unreported = self.unreported.saturating_sub(1);
                    self.status.balancers.insert(self.balancers[index].name.clone(), *stats);
                }
                Told::Balancer(index, balancer::Event::Table { version, outcome }) => {
                    if let Err(refused) = outcome {
                        let balancer = &self.balancers[index].name;
                        tracing::error!(balancer, version, ?refused, "a balancer refused the membership");
                    }
                    if version == self.members.table().version {
                        self.unconfirmed = self.unconfirmed.saturating_sub(1);
                    }
                }
                Told::Proxy(name, proxy::Event::Report(stats)) => {
                    self.unreported = self.unreported.saturating_sub(1);
                    if self.proxies.iter().any(|p| p.name == name) {
                        retired |= self.members.report(&name, &stats);
                    }
                    self.status.proxies.insert(name, *stats);
                }
            }
        }
        if retired {
            self.publish();
        }
    }
}
