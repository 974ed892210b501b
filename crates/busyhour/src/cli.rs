//! The command line: every command, its flags, and the help that explains them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use busyhour_lab::experiment::units;
use busyhour_roles::balancer::{Member, State};
use clap::{ArgGroup, Args, Parser, Subcommand};

use crate::config::Given;

const FIRST_STEPS: &str = "\
First steps:
  busyhour up --provision 0000-9999                        a cluster with 10,000 subscribers: user 0042, password pw0042
  busyhour user add alice --password-stdin                 one more
  busyhour lab run experiments/cnf/step.toml --speed 20    load, latencies, verdicts, and a report

Exit status:
  0  done; for `lab run`: every expectation holds
  1  not done, or an expectation failed, or the run was invalid
  2  the command line, the configuration, or another input is wrong";

const SOURCES: &str = "\
Every key of the configuration can be given in four places; the strongest wins:
  1. a flag                --proxies 4, or --set proxy.timer_c=60s for any key
  2. a variable            BUSYHOUR_PROXIES=4, BUSYHOUR_PROXY_TIMER_C=60s
  3. the file of --config  proxies = 4, or timer_c = \"60s\" below [proxy]
  4. the default
`busyhour config check` shows all keys, their values, and where each value comes from.";

/// An elastic SIP signalling cluster, and the lab that proves it.
#[derive(Debug, Parser)]
#[command(name = "busyhour", version, max_term_width = 100, after_help = FIRST_STEPS)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine
    ///
    /// Starts a balancer, proxies with registrar behind it, and the subscriber database, all in this process, and prints
    /// where everything listens. Ctrl-C drains: calls in progress may finish, new ones get 503. A second Ctrl-C stops at
    /// once. Register a softphone with the balancer as its proxy (`outbound proxy`) and the first domain as its domain.
    #[command(after_help = SOURCES)]
    Up(UpArgs),

    /// Run a stateless balancer in front of proxies that run elsewhere
    ///
    /// Spreads calls over the members by a weighted hash of the Call-ID and stays in the path of dialogs. The members may
    /// be any SIP proxies or servers that are reached over UDP.
    Balancer(BalancerArgs),

    /// Run one proxy with registrar, without a balancer in this process
    ///
    /// Listens at --listen. Phones can talk to it directly, or through balancers elsewhere, which --balancer names.
    #[command(after_help = SOURCES)]
    Proxy(ProxyArgs),

    /// Add, list and remove subscribers
    ///
    /// Works on the database in the data directory, also while a cluster runs on it; the cluster sees a change within a
    /// second. Passwords are hashed (HA1 with MD5 and SHA-256, RFC 8760) and never stored.
    #[command(subcommand)]
    User(UserCommand),

    /// Run experiments and simulations
    #[command(subcommand)]
    Lab(LabCommand),

    /// Check a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Where the configuration, the subscribers and the realm are: for every command that has to do with a cluster.
#[derive(Args, Debug, Default)]
pub(crate) struct BaseArgs {
    /// Configuration file in TOML; BUSYHOUR_CONFIG names it too
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Data directory: subscribers, cluster secret, lock [default: data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,

    /// Domain that the cluster serves; may be repeated. The first is the digest realm [default: busyhour.example]
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Vec<String>,

    /// Any key of the configuration, such as proxy.timer_c=60s; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
}

impl BaseArgs {
    /// What the flags give, the strongest last.
    pub(crate) fn given(&self) -> Vec<Given> {
        let set = self.set.iter().map(|(key, text)| Given {
            key: key.clone(),
            flag: format!("--set {key}"),
            text: text.clone(),
        });
        let mut given: Vec<Given> = set.collect();
        push(&mut given, "data", self.data.as_deref());
        let domains = self.domain.join(",");
        push(&mut given, "domain", (!self.domain.is_empty()).then_some(&*domains));
        given
    }
}

/// The flags of a cluster.
#[derive(Args, Debug, Default)]
pub(crate) struct ClusterArgs {
    /// Where the balancer listens, over UDP; its host is served as a domain too [default: 127.0.0.1:5060]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// How many proxies there are [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) proxies: Option<String>,

    /// Where the first proxy listens, the others on the ports above; port 0: any [default: --listen plus 11]
    #[arg(long, value_name = "ADDR")]
    pub(crate) proxy_listen: Option<String>,

    /// Create the numbered subscribers of a range, such as 0000-9999, unless they exist
    #[arg(long, value_name = "RANGE")]
    pub(crate) provision: Option<String>,

    /// Password of each provisioned subscriber; {user} stands for the number [default: pw{user}]
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) provision_password: Option<String>,

    #[command(flatten)]
    pub(crate) base: BaseArgs,
}

impl ClusterArgs {
    /// What the flags give, the strongest last.
    pub(crate) fn given(&self) -> Vec<Given> {
        let mut given = self.base.given();
        push(&mut given, "listen", self.listen.as_deref());
        push(&mut given, "proxies", self.proxies.as_deref());
        push(&mut given, "proxy_listen", self.proxy_listen.as_deref());
        push(&mut given, "provision", self.provision.as_deref());
        push(&mut given, "provision_password", self.provision_password.as_deref());
        given
    }
}

fn push(given: &mut Vec<Given>, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        given.push(Given {
            key: key.into(),
            flag: format!("--{}", key.replace('_', "-")),
            text: text.into(),
        });
    }
}

#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

#[derive(Args, Debug)]
pub(crate) struct BalancerArgs {
    /// Where it listens, over UDP
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5060")]
    pub(crate) listen: SocketAddr,

    /// A member: its name, its address, and its weight unless that is 1; may be repeated
    #[arg(long, value_name = "NAME=ADDR[*WEIGHT]", required = true, value_parser = member)]
    pub(crate) member: Vec<Member>,

    /// Do not stay in the path of dialogs
    #[arg(long)]
    pub(crate) no_record_route: bool,

    /// Stay in the path to registered phones too (RFC 3327); the registrars behind must accept a Path
    #[arg(long)]
    pub(crate) path: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// A balancer whose word on the source of a request is taken; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub(crate) balancer: Vec<SocketAddr>,
}

/// `p1=192.168.1.21:5060` or `p1=192.168.1.21:5060*3`.
fn member(text: &str) -> Result<Member, String> {
    let expected = || "expected NAME=ADDR or NAME=ADDR*WEIGHT, such as p1=192.168.1.21:5060*3".to_owned();
    let (name, rest) = text.split_once('=').ok_or_else(expected)?;
    let (address, weight) = rest.split_once('*').unwrap_or((rest, "1"));
    let weight = weight.parse().ok().filter(|&w| w > 0).ok_or_else(expected)?;
    let address = address.parse().map_err(|_| expected())?;
    if name.is_empty() {
        return Err(expected());
    }
    Ok(Member { name: name.to_owned(), address, weight, state: State::Ready })
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a subscriber
    #[command(group = ArgGroup::new("secret").required(true))]
    Add {
        /// User part of the address of record, and digest username: alice stands for sip:alice@DOMAIN
        name: String,

        /// Password; visible to other users of this machine while the command runs
        #[arg(long, value_name = "PASSWORD", group = "secret")]
        password: Option<String>,

        /// Read the password from the first line of standard input
        #[arg(long, group = "secret")]
        password_stdin: bool,

        /// Give an existing subscriber the new password instead of refusing
        #[arg(long)]
        replace: bool,

        #[command(flatten)]
        base: BaseArgs,
    },

    /// List subscribers as user@realm, one per line, sorted; those of all realms unless --domain is given
    List {
        #[command(flatten)]
        base: BaseArgs,
    },

    /// Remove subscribers: all that are named, or none when one of them does not exist
    Remove {
        /// Subscribers to remove
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,

        #[command(flatten)]
        base: BaseArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run one experiment and judge it
    ///
    /// Starts the cluster that the file describes, registers the user agents, drives the load, shows live progress, and
    /// prints a verdict per expectation. Writes summary.json, CSV time series and a self-contained report.html to
    /// results/EXPERIMENT/TIME/.
    Run(LabRunArgs),

    /// List the experiments that come with Busyhour
    List,

    /// Simulate one random cluster under faults
    ///
    /// Draws topology, load and faults from the seed, as the swarm test does, and checks that nothing is answered twice,
    /// lost without a reason, or stuck. The same seed gives the same trace on every machine.
    Sim {
        /// Seed to draw from: the one that a failed test has printed
        #[arg(long, value_name = "N")]
        seed: u64,

        /// Print the call flow, message by message
        #[arg(long)]
        trace: bool,

        /// Print the call flow of this call only: its short name in the call flow, such as c12, or a part of its Call-ID
        #[arg(long, value_name = "CALL")]
        call: Option<String>,
    },
}

#[derive(Args, Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) struct LabRunArgs {
    /// The experiment, a TOML file such as experiments/cnf/step.toml
    pub(crate) file: PathBuf,

    /// Run in the simulator, in virtual time, instead of on real sockets
    #[arg(long)]
    pub(crate) sim: bool,

    /// Compress the load's time axis by this factor; rates stay as they are
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(crate) speed: Option<f64>,

    /// Stop the load after this time, such as 90s or 10m
    #[arg(long, value_name = "D", value_parser = duration)]
    pub(crate) duration: Option<Duration>,

    /// Seed of everything random, instead of the file's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Run it this often, with the seeds that follow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,

    /// Write results below this directory
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and print all of it
    ///
    /// Prints the effective configuration as a TOML file that could be used in its place, each value with a comment that
    /// says where it comes from. The first mistake is reported as FILE:LINE:COLUMN with what was expected and found.
    #[command(after_help = SOURCES)]
    Check {
        /// Configuration file; the same as --config
        #[arg(conflicts_with = "config")]
        file: Option<PathBuf>,

        #[command(flatten)]
        cluster: ClusterArgs,
    },
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as proxy.timer_c=60s")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let wanted = units::duration(text).filter(|duration| !duration.is_zero());
    wanted.ok_or_else(|| "expected a duration with its unit, such as 90s or 10m".into())
}

fn speed(text: &str) -> Result<f64, String> {
    let wanted = text.parse().ok().filter(|speed: &f64| speed.is_finite() && (0.001..=1e6).contains(speed));
    wanted.ok_or_else(|| "expected a factor from 0.001 to 1000000, such as 20".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_become_keys_with_the_dedicated_flag_stronger_than_set() {
        let line = "busyhour up --listen [::1]:0 --set proxies=5 --proxies 3 --domain a.example --domain b.example --set proxy.timer_c=1m";
        let Command::Up(up) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!("not up") };
        let given = up.cluster.given();
        let given: Vec<_> =
            given.iter().map(|g| (g.key.as_str(), g.flag.as_str(), g.text.as_str())).collect();
        assert_eq!(
            given,
            [
                ("proxies", "--set proxies", "5"),
                ("proxy.timer_c", "--set proxy.timer_c", "1m"),
                ("domain", "--domain", "a.example,b.example"),
                ("listen", "--listen", "[::1]:0"),
                ("proxies", "--proxies", "3"),
            ]
        );
    }

    #[test]
    fn lab_run_takes_its_overrides() {
        let line = "busyhour lab run a.toml --sim --speed 20 --duration 90s --seed 7 --repeat 3 --out /tmp/r";
        let Command::Lab(LabCommand::Run(run)) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("not lab run")
        };
        let expected = LabRunArgs {
            file: "a.toml".into(),
            sim: true,
            speed: Some(20.0),
            duration: Some(Duration::from_secs(90)),
            seed: Some(7),
            repeat: Some(3),
            out: "/tmp/r".into(),
        };
        assert_eq!(run, expected);
    }

    #[test]
    fn wrong_overrides_are_refused() {
        for flags in [
            "--speed 0",
            "--speed nan",
            "--speed -1",
            "--duration 10",
            "--duration 0s",
            "--repeat 0",
            "--seed x",
        ] {
            let line = format!("busyhour lab run a.toml {flags}");
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{flags}");
        }
    }

    #[test]
    fn a_password_comes_from_exactly_one_place() {
        for (flags, right) in [
            ("", false),
            ("--password x", true),
            ("--password-stdin", true),
            ("--password x --password-stdin", false),
        ] {
            let line = format!("busyhour user add alice {flags}");
            assert_eq!(Cli::try_parse_from(line.split_whitespace()).is_ok(), right, "{flags}");
        }
    }
}
