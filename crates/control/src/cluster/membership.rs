//! When earlier epochs of the membership may be forgotten.
//!
//! A message of a call whose owner moved goes to its earlier owner first, as long as that may still hold a transaction of
//! it. Proxies count their transactions by the version of the table under which these began; once no proxy has one of an
//! epoch left, the epoch is retired.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use busyhour_roles::balancer::{Change, Limits, Member, Membership, Refused, State};
use busyhour_roles::proxy;

/// The table of a cluster, and what its proxies have told of their transactions.
#[derive(Debug, Default)]
pub struct Members {
    table: Membership,
    balancers: Vec<SocketAddr>,
    limits: Limits,
    /// By name: the epoch that the proxy has in force, and the oldest one of which it has a transaction.
    reported: BTreeMap<String, (u64, u64)>,
}

impl Members {
    /// No members yet; requests come from these balancers.
    pub fn new(balancers: Vec<SocketAddr>) -> Self {
        Members { balancers, ..Members::default() }
    }

    /// The table to give to the balancers.
    pub fn table(&self) -> &Membership {
        &self.table
    }

    /// What to tell every proxy, after the balancers have the table.
    pub fn for_proxies(&self) -> proxy::Command {
        let members = self.table.members.iter().map(|m| m.address);
        let trusted = members.chain(self.balancers.iter().copied()).collect();
        proxy::Command::Members { epoch: self.table.version, trusted }
    }

    /// Changes the table.
    ///
    /// # Errors
    /// [`Refused`] when the change does not fit.
    pub fn change(&mut self, change: &Change) -> Result<(), Refused> {
        self.table = self.table.next(change, &self.limits)?;
        if let Change::Remove(name) = change {
            self.reported.remove(name);
        }
        Ok(())
    }

    /// Adds a member that is ready.
    ///
    /// # Errors
    /// [`Refused`] when its name or address is taken.
    pub fn add_ready(&mut self, name: &str, address: SocketAddr) -> Result<(), Refused> {
        self.change(&Change::Add(Member { name: name.to_owned(), address, weight: 1, state: State::Ready }))
    }

    /// Takes in what a proxy has told. True when an epoch was retired by that, and the table has changed.
    pub fn report(&mut self, name: &str, stats: &proxy::Stats) -> bool {
        let oldest =
            stats.live_by_epoch.iter().find(|(_, count)| *count > 0).map_or(stats.epoch, |(epoch, _)| *epoch);
        self.reported.insert(name.to_owned(), (stats.epoch, oldest));
        let Some(last) = self.table.earlier.first().map(|e| e.version) else { return false };
        let serving = self.table.members.iter().filter(|m| m.state.is_serving());
        let done = serving.map(|m| self.reported.get(&m.name)).all(|r| {
            // A proxy that has not heard of the present table may still begin transactions of the one before.
            r.is_some_and(|(epoch, oldest)| *epoch >= self.table.version && *oldest > last)
        });
        done && self.change(&Change::Retire(last)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(epoch: u64, live: &[(u64, usize)]) -> proxy::Stats {
        proxy::Stats { epoch, live_by_epoch: live.to_vec(), ..proxy::Stats::default() }
    }

    #[test]
    fn an_epoch_goes_when_no_proxy_has_a_transaction_of_it() {
        let mut members = Members::new(vec!["127.0.0.1:5060".parse().unwrap()]);
        for i in 1..=2u16 {
            members.add_ready(&format!("p{i}"), SocketAddr::from(([127, 0, 0, 1], 5070 + i))).unwrap();
        }
        members.add_ready("p3", "127.0.0.1:5079".parse().unwrap()).unwrap();
        let version = members.table().version;
        let earlier = members.table().earlier.len();
        assert_eq!(earlier, 2, "one proxy alone, then two");
        assert!(!members.report("p1", &stats(version, &[(version - 1, 3), (version, 1)])));
        assert!(!members.report("p2", &stats(version, &[])));
        assert!(members.report("p3", &stats(version, &[])), "the first epoch: nobody has anything as old");
        assert_eq!(members.table().earlier.len(), 1);
        let version = members.table().version;
        assert!(!members.report("p2", &stats(version, &[])));
        assert!(!members.report("p3", &stats(version, &[])));
        assert!(!members.report("p1", &stats(version - 1, &[])), "it has not heard of the present table");
        assert!(members.report("p1", &stats(version, &[(version, 5)])));
        assert!(members.table().earlier.is_empty());
    }
}
