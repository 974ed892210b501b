//! The configuration of a cluster: one TOML file, every key of which a `BUSYHOUR_…` variable and a flag override.
//!
//! The strongest source wins: flag, variable, file, default. [`load`] is the one list of keys; adding a line there makes
//! the key known to the file, the environment, `--set`, `busyhour config check` and the suggestions in messages.

mod kinds;
mod reader;
mod sources;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use busyhour_control::subscribers::{Domain, NumberRange, PasswordTemplate};
use busyhour_sip::value::Algorithm;

use self::kinds::{
    Address, Count, Digest, Directory, DomainName, Kind as _, List, Method, Numbers, OptionalAddress, Size,
    Span, Switch, Template,
};
#[cfg(test)]
use self::reader::Origin;
use self::reader::{Entry, Reader};
pub(crate) use self::sources::{CONFIG_VARIABLE, Given, SourceFile};
use busyhour_lab::input::InputError;

/// What a cluster runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where the balancer listens (`listen`). Its host is served as a domain too.
    pub(crate) listen: SocketAddr,
    /// The domains served, at least one (`domain`). The first is the realm of digest authentication.
    pub(crate) domains: Vec<Domain>,
    /// The data directory (`data`).
    pub(crate) data: PathBuf,
    /// How many proxies there are (`proxies`).
    pub(crate) proxies: usize,
    /// Where the first proxy listens (`proxy_listen`); each further one has the next port, or all have any when it is 0.
    pub(crate) proxy_listen: SocketAddr,
    /// The numbered subscribers that are created at the start (`provision`).
    pub(crate) provision: Option<NumberRange>,
    /// Their passwords (`provision_password`).
    pub(crate) provision_password: PasswordTemplate,
    /// The table `[proxy]`.
    pub(crate) proxy: ProxyConfig,
    /// The table `[balancer]`.
    pub(crate) balancer: BalancerConfig,
    /// The table `[net]`.
    pub(crate) net: NetConfig,
}

impl Config {
    /// The realm of digest authentication, in which subscribers are added: the first domain.
    pub(crate) fn realm(&self) -> &Domain {
        &self.domains[0]
    }

    /// Where proxy number `index` (from 0) listens.
    pub(crate) fn proxy_listen(&self, index: usize) -> SocketAddr {
        assert!(index < self.proxies, "proxy {index} of {}", self.proxies);
        let base = self.proxy_listen;
        // `load` has checked that the highest port exists.
        let port = if base.port() == 0 { 0 } else { base.port() + index as u16 };
        SocketAddr::new(base.ip(), port)
    }
}

/// What each proxy runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyConfig {
    /// Whether the proxy stays in the path of dialogs (`record_route`).
    pub(crate) record_route: bool,
    /// The methods that are challenged (`authenticate`); none when it is empty.
    pub(crate) authenticate: Vec<String>,
    /// The digest algorithms that are offered and accepted, most preferred first (`digest`, RFC 8760).
    pub(crate) digest: Vec<Algorithm>,
    /// Where requests go that are for nobody here and name no address (`next_hop`).
    pub(crate) next_hop: Option<SocketAddr>,
    /// How long an INVITE may ring (`timer_c`, RFC 3261 section 16.6).
    pub(crate) timer_c: Duration,
    /// How many transactions a proxy holds at once (`transactions_max`).
    pub(crate) transactions_max: usize,
    /// How long a nonce is good for (`nonce_lifetime`).
    pub(crate) nonce_lifetime: Duration,
    /// The shortest registration accepted (`min_expires`, RFC 3261 section 10.3).
    pub(crate) min_expires: Duration,
    /// The longest registration granted (`max_expires`).
    pub(crate) max_expires: Duration,
    /// The registration granted to who asks for none (`default_expires`).
    pub(crate) default_expires: Duration,
    /// How many contacts an AoR may have (`contacts_max`).
    pub(crate) contacts_max: usize,
    /// The Max-Breadth of a request that brings none (`max_breadth`, RFC 5393).
    pub(crate) max_breadth: usize,
    /// The Max-Forwards of a request that brings none (`max_forwards`).
    pub(crate) max_forwards: usize,
}

/// What the balancer runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BalancerConfig {
    /// Whether the balancer stays in the path of dialogs (`record_route`).
    pub(crate) record_route: bool,
    /// Whether it puts itself between the registrar and the contacts (`path`, RFC 3327).
    pub(crate) path: bool,
}

/// What the sockets run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetConfig {
    /// The kernel's receive buffer per socket, in bytes (`receive_buffer`).
    pub(crate) receive_buffer: usize,
}

/// A configuration and where each part of it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    file: Option<String>,
    entries: Vec<Entry>,
}

/// The configuration that the sources add up to, or the first mistake in them.
pub(crate) fn load(
    file: Option<&SourceFile>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    flags: &[Given],
) -> Result<Loaded, InputError> {
    let variables = sources::variables(environment)?;
    let mut reader = Reader::new(file, &variables, flags)?;
    let config = read_config(&mut reader);
    check_ports(&config, &mut reader);
    check_expires(&config.proxy, &mut reader);
    let entries = reader.finish()?;
    Ok(Loaded { config, file: file.map(|file| file.name.clone()), entries })
}

fn read_config(reader: &mut Reader<'_>) -> Config {
    let listen = reader.take("listen", &Address, SocketAddr::from(([127, 0, 0, 1], 5060)));
    // Fixed ports by default: a dialog's Route set still leads to its proxy after a restart.
    let proxy_port = if listen.port() == 0 { 0 } else { listen.port().checked_add(11).unwrap_or(0) };
    let domain = List { of: DomainName, min: 1, max: 1000 };
    Config {
        listen,
        domains: reader.take("domain", &domain, domain.of_text("busyhour.example").unwrap_or_default()),
        data: reader.take("data", &Directory, "data".into()),
        proxies: reader.take("proxies", &Count { min: 1, max: 1024 }, 2),
        proxy_listen: reader.take("proxy_listen", &Address, SocketAddr::new(listen.ip(), proxy_port)),
        provision: reader.take("provision", &Numbers, None),
        provision_password: reader.take("provision_password", &Template, PasswordTemplate::default()),
        proxy: read_proxy(reader),
        balancer: BalancerConfig {
            record_route: reader.take("balancer.record_route", &Switch, true),
            path: reader.take("balancer.path", &Switch, true),
        },
        net: NetConfig {
            receive_buffer: reader.take(
                "net.receive_buffer",
                &Size { min: 64 << 10, max: 1 << 30, example: "4MiB" },
                4 << 20,
            ),
        },
    }
}

fn read_proxy(reader: &mut Reader<'_>) -> ProxyConfig {
    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(86_400);
    let methods = List { of: Method, min: 0, max: 32 };
    let digests = List { of: Digest, min: 1, max: 2 };
    let expires = |example| Span { min: SECOND, max: 30 * DAY, example };
    ProxyConfig {
        record_route: reader.take("proxy.record_route", &Switch, true),
        authenticate: reader.take("proxy.authenticate", &methods, vec!["REGISTER".into(), "INVITE".into()]),
        digest: reader.take("proxy.digest", &digests, vec![Algorithm::Md5, Algorithm::Sha256]),
        next_hop: reader.take("proxy.next_hop", &OptionalAddress, None),
        timer_c: reader.take(
            "proxy.timer_c",
            &Span { min: SECOND, max: HOUR, example: "180s" },
            180 * SECOND,
        ),
        transactions_max: reader.take("proxy.transactions_max", &Count { min: 1, max: 10_000_000 }, 200_000),
        nonce_lifetime: reader.take(
            "proxy.nonce_lifetime",
            &Span { min: 10 * SECOND, max: DAY, example: "300s" },
            300 * SECOND,
        ),
        // RFC 3261 section 10.3 allows 423 only for expirations below one hour.
        min_expires: reader.take(
            "proxy.min_expires",
            &Span { min: SECOND, max: HOUR, example: "60s" },
            60 * SECOND,
        ),
        max_expires: reader.take("proxy.max_expires", &expires("2h"), 2 * HOUR),
        default_expires: reader.take("proxy.default_expires", &expires("1h"), HOUR),
        contacts_max: reader.take("proxy.contacts_max", &Count { min: 1, max: 100 }, 10),
        max_breadth: reader.take("proxy.max_breadth", &Count { min: 1, max: 1000 }, 60),
        max_forwards: reader.take("proxy.max_forwards", &Count { min: 1, max: 255 }, 70),
    }
}

fn check_ports(config: &Config, reader: &mut Reader<'_>) {
    let (base, proxies) = (config.proxy_listen, config.proxies);
    if base.port() == 0 {
        return;
    }
    let last = usize::from(base.port()) + proxies - 1;
    if last > usize::from(u16::MAX) {
        let expected = format!("a port with {} free ports above it, one for each further proxy", proxies - 1);
        reader.contradiction("proxy_listen", expected, format!("port {}", base.port()));
    } else if config.listen.ip() == base.ip()
        && (usize::from(base.port())..=last).contains(&config.listen.port().into())
    {
        let expected = "ports for the proxies that the balancer does not listen on".into();
        let found =
            format!("{} to {last} for {proxies} proxies, and listen = {}", base.port(), config.listen);
        reader.contradiction("proxy_listen", expected, found);
    }
}

fn check_expires(proxy: &ProxyConfig, reader: &mut Reader<'_>) {
    let ProxyConfig { min_expires: min, max_expires: max, default_expires: default, .. } = *proxy;
    let show = busyhour_lab::experiment::units::written;
    if min > max {
        let expected = format!("a duration not below min_expires ({})", show(min));
        reader.contradiction("proxy.max_expires", expected, show(max));
    } else if !(min..=max).contains(&default) {
        let expected = format!("a duration from min_expires ({}) to max_expires ({})", show(min), show(max));
        reader.contradiction("proxy.default_expires", expected, show(default));
    }
}

impl Loaded {
    /// Writes the effective configuration as a file that gives the same one, each value with its source as a comment.
    pub(crate) fn write_effective(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.file {
            Some(name) => writeln!(out, "# ok: {name}, effective configuration")?,
            None => writeln!(out, "# ok: no configuration file, effective configuration")?,
        }
        let lines = self.entries.iter().map(|entry| {
            let (table, key) = entry.key.split_once('.').unwrap_or(("", entry.key));
            let absent = if entry.value.is_empty() { "# " } else { "" };
            (table, format!("{absent}{key} = {}", entry.value), &entry.origin)
        });
        let width = lines.clone().map(|(_, text, _)| text.chars().count()).filter(|width| *width <= 48).max();
        let width = width.unwrap_or(0);
        let mut current = "";
        for (table, text, origin) in lines {
            if table != current {
                writeln!(out, "\n[{table}]")?;
                current = table;
            }
            writeln!(out, "{text:width$}  # {origin}")?;
        }
        Ok(())
    }

    /// Where the value of `key` comes from.
    #[cfg(test)]
    fn origin(&self, key: &str) -> &Origin {
        &self.entries.iter().find(|entry| entry.key == key).expect("a key").origin
    }
}

#[cfg(test)]
mod tests;
