//! `busyhour up`: a whole cluster in this process, until it is told to stop. `busyhour proxy`: one proxy of a cluster
//! whose other parts run elsewhere.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use busyhour_control::cluster::{Addresses, Cluster, Directory, Endpoint, Settings};
use busyhour_control::data_dir::DataDir;
use busyhour_control::subscribers::{Domain, SubscriberStore, Token};
use busyhour_roles::{location, proxy, registrar};

use crate::cli::{ProxyArgs, UpArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::load_config;
use crate::serve::{self, Signals, advertised};

/// Runs a whole cluster until it is told to stop.
pub(crate) fn run(args: &UpArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = load_config(args.cluster.base.config.as_deref(), &args.cluster.given())?.config;
    let advertise = advertised(config.listen)?;
    let addresses = Addresses {
        balancers: vec![Endpoint { listen: config.listen, advertise }],
        proxies: (0..config.proxies).map(|index| config.proxy_listen(index)).collect(),
        receive_buffer_bytes: config.net.receive_buffer,
        ..Addresses::default()
    };
    run_at(&config, &addresses, settings_of(&config, advertise), out)
}

/// Runs one proxy until it is told to stop.
pub(crate) fn run_proxy(args: &ProxyArgs, out: &mut impl Write) -> Result<(), Failure> {
    let config = load_config(args.cluster.base.config.as_deref(), &args.cluster.given())?.config;
    let addresses = Addresses {
        proxies: vec![config.listen],
        trusted: args.balancer.clone(),
        receive_buffer_bytes: config.net.receive_buffer,
        ..Addresses::default()
    };
    let settings = settings_of(&config, config.listen.ip());
    run_at(&config, &addresses, settings, out)
}

fn run_at(
    config: &Config,
    addresses: &Addresses,
    settings: Settings,
    out: &mut impl Write,
) -> Result<(), Failure> {
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
    let mut cluster =
        Cluster::start(settings, secret, directory, addresses).map_err(|e| Failure::Run(e.into()))?;
    greet(&cluster, config, &store, out)?;
    serve::run(&mut cluster, &signals, out, |cluster| {
        match store.changed_since(&mut token) {
            Ok(true) => cluster.directory().replace(users_of(&store, config.realm())?),
            Ok(false) => {}
            // The subscribers in memory stay; the database may come back.
            Err(error) => tracing::warn!(%error, "subscribers could not be read again"),
        }
        Ok(())
    })
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
        digest: config.proxy.digest.clone(),
        proxy_record_route: config.proxy.record_route,
        balancer_record_route: config.balancer.record_route,
        path: config.balancer.path,
        next_hop: config.proxy.next_hop,
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
    let entry = cluster.balancers().chain(cluster.proxies()).next().map(|(_, address)| address);
    let entry = entry.expect("a cluster has a part");
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
    text += &format!("  point a softphone  domain {realm}, outbound proxy {entry} (UDP)\n");
    text += &format!("  ask if it is well  sipsak -s sip:{entry}\n");
    text += "  stop               Ctrl-C; once more to stop at once\n";
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::of_output)
}
