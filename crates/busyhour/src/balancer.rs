//! `busyhour balancer`: a stateless balancer in front of proxies that run elsewhere, of whatever make.

use std::io::Write;

use busyhour_control::cluster::{Addresses, Cluster, Directory, Endpoint, Settings};
use busyhour_control::secret::ClusterSecret;

use crate::cli::BalancerArgs;
use crate::failure::Failure;
use crate::serve::{self, Signals, advertised};

/// The kernel's receive buffer, in bytes: as for a cluster.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Runs the balancer until it is told to stop.
pub(crate) fn run(args: &BalancerArgs, out: &mut impl Write) -> Result<(), Failure> {
    let signals = Signals::listen()?;
    let endpoint = Endpoint { listen: args.listen, advertise: advertised(args.listen)? };
    let addresses = Addresses {
        balancers: vec![endpoint],
        members: args.member.clone(),
        receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
        ..Addresses::default()
    };
    let settings = Settings {
        balancer_record_route: !args.no_record_route,
        path: args.path,
        ..Settings::for_domain(&endpoint.advertise.to_string())
    };
    // The secret places the calls: balancers that stand in for each other will have to share one.
    let mut cluster = Cluster::start(settings, ClusterSecret::generate(), Directory::default(), &addresses)
        .map_err(|e| Failure::Run(e.into()))?;
    let mut text = String::new();
    for (name, address) in cluster.balancers() {
        text += &format!("  {name:<12} udp {address}   calls come in here\n");
    }
    for member in &args.member {
        text += &format!("  {:<12} udp {}   weight {}\n", member.name, member.address, member.weight);
    }
    text += "\nCtrl-C stops.\n";
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::of_output)?;
    serve::run(&mut cluster, &signals, out, |_| Ok(()))
}
