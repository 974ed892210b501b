//! `busyhour up`: a whole cluster in this process, until it is told to stop.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use busyhour_control::cluster::{Addresses, Cluster, Directory, Endpoint, Settings};
use busyhour_control::data_dir::DataDir;
use busyhour_control::subscribers::{Domain, SubscriberStore, Token};
use busyhour_roles::{location, proxy, registrar};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::UpArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::load_config;

/// How often the cluster is asked for its figures and the database for changes.
const TICK: Duration = Duration::from_millis(500);
/// How long calls that are being set up may take when the cluster is told to stop: Timer B, after which a transaction
/// without an answer is over.
const DRAIN_MAX: Duration = Duration::from_secs(32);

/// Runs the cluster until it is told to stop.
pub(crate) fn run(args: &UpArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = load_config(args.cluster.base.config.as_deref(), &args.cluster.given())?.config;
    let signals = Signals::listen()?;
    let data = DataDir::open(&config.data)?;
    let _lock = data.lock_exclusive()?;
    let mut store = SubscriberStore::open(&data)?;
    if let Some(range) = &config.provision {
        store.provision(range, config.realm(), &config.provision_password)?;
    }
    let mut token = Token::default();
    store.changed_since(&mut token)?;
    let directory = Directory::of(users_of(&store, config.realm())?);
    let secret = store.cluster_secret()?;
    let advertise = advertised(config.listen)?;
    let settings = settings_of(&config, advertise);
    let addresses = Addresses {
        balancers: vec![Endpoint { listen: config.listen, advertise }],
        proxies: (0..config.proxies).map(|index| config.proxy_listen(index)).collect(),
        receive_buffer_bytes: config.net.receive_buffer,
    };
    let mut cluster =
        Cluster::start(settings, secret, directory, &addresses).map_err(|e| Failure::Run(e.into()))?;
    greet(&cluster, &config, &store, out)?;
    let told = serve(&mut cluster, &config, &store, &mut token, &signals);
    match told {
        Ok(()) => drain(&mut cluster, &signals, out),
        Err(failure) => Err(failure),
    }
}

/// Counts the orders to stop: the first drains, the second ends at once.
struct Signals(Arc<AtomicUsize>);

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
            .context("signals cannot be watched")
            .map_err(Failure::Run)?;
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, owner) = (count.clone(), std::thread::current());
        let watch = move || {
            for _ in signals.forever() {
                counted.fetch_add(1, Ordering::Relaxed);
                owner.unpark();
            }
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(watch);
        thread.context("no thread to watch for signals").map_err(Failure::Run)?;
        Ok(Signals(count))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The address that others are told when the balancer listens on all of them.
fn advertised(listen: SocketAddr) -> Result<IpAddr, Failure> {
    if !listen.ip().is_unspecified() {
        return Ok(listen.ip());
    }
    // Connecting a UDP socket sends nothing; it only chooses the address that packets to the outside would come from.
    // The address connected to is one of those that documentation uses (RFC 5737, RFC 3849).
    let outside = if listen.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
    let chosen = std::net::UdpSocket::bind(SocketAddr::new(listen.ip(), 0)).and_then(|socket| {
        socket.connect(outside)?;
        socket.local_addr()
    });
    match chosen {
        Ok(address) if !address.ip().is_unspecified() => Ok(address.ip()),
        Ok(_) | Err(_) => Err(Failure::Run(anyhow!(
            "listen = {listen} means every address of this machine, but it has none that leads outside; \
             give the address that phones can reach, such as --listen 192.168.1.10:{}",
            listen.port()
        ))),
    }
}

fn settings_of(config: &Config, advertise: IpAddr) -> Settings {
    let seconds = |d: Duration| u32::try_from(d.as_secs()).unwrap_or(u32::MAX);
    let mut domains: Vec<proxy::Domain> =
        config.domains.iter().filter_map(|d| proxy::Domain::parse(d.as_str())).collect();
    // Phones that know only the address are served, too; on a wildcard, at the loopback address as well.
    domains.push(proxy::Domain::Address(advertise, Some(config.listen.port())));
    if config.listen.ip().is_unspecified() {
        domains.push(proxy::Domain::Address(IpAddr::from([127, 0, 0, 1]), Some(config.listen.port())));
    }
    Settings {
        domains,
        authenticate: config.proxy.authenticate.clone(),
        proxy_record_route: config.proxy.record_route,
        balancer_record_route: config.balancer.record_route,
        path: config.balancer.path,
        timer_c: config.proxy.timer_c,
        transactions_max: config.proxy.transactions_max,
        nonce_lifetime: config.proxy.nonce_lifetime,
        registrar: registrar::Config {
            min_expires_s: seconds(config.proxy.min_expires),
            max_expires_s: seconds(config.proxy.max_expires),
            default_expires_s: seconds(config.proxy.default_expires),
            ..registrar::Config::default()
        },
        location: location::Limits {
            contacts_per_aor_max: config.proxy.contacts_max,
            ..location::Limits::default()
        },
        max_breadth: u32::try_from(config.proxy.max_breadth).unwrap_or(u32::MAX),
        max_forwards: u8::try_from(config.proxy.max_forwards).unwrap_or(u8::MAX),
        ..Settings::for_domain(config.realm().as_str())
    }
}

fn users_of(
    store: &SubscriberStore,
    realm: &Domain,
) -> Result<Vec<(String, busyhour_sip::value::Ha1)>, Failure> {
    let all = store.load_all()?;
    Ok(all.into_iter().filter(|s| s.realm == *realm).map(|s| (s.user.as_str().to_owned(), s.ha1)).collect())
}

/// Says where everything listens and what to do next.
fn greet(
    cluster: &Cluster,
    config: &Config,
    store: &SubscriberStore,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let realm = config.realm();
    let users = cluster.directory().len();
    let balancer = cluster.balancers().next().map(|(_, address)| address).expect("a cluster has a balancer");
    let mut text = String::from("busyhour is up.\n\n");
    for (name, address) in cluster.balancers() {
        text += &format!("  {name:<12} udp {address}   phones and trunks send here\n");
    }
    for (name, address) in cluster.proxies() {
        text += &format!("  {name:<12} udp {address}   proxy and registrar\n");
    }
    text += &format!("  {:<12} {}   {users} in {realm}\n\n", "subscribers", store.path().display());
    let others: Vec<String> = store
        .realms()?
        .into_iter()
        .filter(|(other, _)| other != realm)
        .map(|(other, count)| format!("{count} in {other}"))
        .collect();
    if !others.is_empty() {
        text += &format!("  note: {} cannot be used now: the domain is {realm}\n\n", others.join(", "));
    }
    let data = config.data.display();
    text += "Next:\n";
    if users == 0 {
        text += &format!(
            "  add a subscriber   busyhour user add alice --password … --domain {realm} --data {data}\n"
        );
    }
    text += &format!("  point a softphone  domain {realm}, outbound proxy {balancer} (UDP)\n");
    text += &format!("  ask if it is well  sipsak -s sip:{balancer}\n");
    text += "  stop               Ctrl-C; once more to stop at once\n";
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::of_output)
}

/// Keeps the cluster's figures and subscribers up to date until an order to stop, or a part of it ends by itself.
fn serve(
    cluster: &mut Cluster,
    config: &Config,
    store: &SubscriberStore,
    token: &mut Token,
    signals: &Signals,
) -> Result<(), Failure> {
    let mut drops = Drops::default();
    while signals.count() == 0 {
        cluster.tick();
        drops.look(cluster);
        if let Some(name) = cluster.crashed().first() {
            return Err(Failure::Run(anyhow!(
                "{name} has ended by itself, which is a bug; its message is above"
            )));
        }
        match store.changed_since(token) {
            Ok(true) => cluster.directory().replace(users_of(store, config.realm())?),
            Ok(false) => {}
            // The subscribers in memory stay; the database may come back.
            Err(error) => tracing::warn!(%error, "subscribers could not be read again"),
        }
        std::thread::park_timeout(TICK);
    }
    Ok(())
}

/// Logs what was dropped, at most once in a while: whoever sends rubbish must not be able to fill a disk.
#[derive(Default)]
struct Drops {
    logged: u64,
    last: Option<Instant>,
}

impl Drops {
    const EVERY: Duration = Duration::from_secs(10);

    fn look(&mut self, cluster: &Cluster) {
        let dropped = cluster.status().dropped();
        let total: u64 = dropped.values().sum();
        if total == self.logged || self.last.is_some_and(|at| at.elapsed() < Self::EVERY) {
            return;
        }
        let since = total - self.logged.min(total);
        (self.logged, self.last) = (total, Some(Instant::now()));
        tracing::warn!("{since} messages dropped; since the start: {}", listed(&dropped));
    }
}

fn listed(dropped: &BTreeMap<&str, u64>) -> String {
    let each: Vec<String> = dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    each.join(", ")
}

/// What the cluster has done, for the last words.
fn figures(cluster: &Cluster) -> String {
    let [requests, invites, registers] = cluster.status().handled();
    let mut text = format!("{requests} requests, of them {invites} INVITEs and {registers} REGISTERs");
    let dropped = cluster.status().dropped();
    if !dropped.is_empty() {
        text += &format!("; dropped: {}", listed(&dropped));
    }
    text
}

/// Lets calls that are being set up come to their end. A second order to stop ends it at once.
fn drain(cluster: &mut Cluster, signals: &Signals, out: &mut impl Write) -> Result<(), Failure> {
    cluster.drain();
    let started = Instant::now();
    let mut told = false;
    loop {
        cluster.tick();
        std::thread::sleep(Duration::from_millis(100));
        cluster.tick();
        let open = cluster.open_transactions();
        if open == 0 || signals.count() > 1 || started.elapsed() > DRAIN_MAX {
            let text = match open {
                0 => "stopped".to_owned(),
                1 => "stopped with one request unanswered".to_owned(),
                n => format!("stopped with {n} requests unanswered"),
            };
            return say(out, &format!("{text}: {}\n", figures(cluster)));
        }
        if !told {
            told = true;
            say(
                out,
                &format!("\nno new calls; requests that wait for an answer: {open} (Ctrl-C stops at once)\n"),
            )?;
        }
    }
}

fn say(out: &mut impl Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::of_output(error)),
    }
}
