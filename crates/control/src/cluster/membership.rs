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
    /// By name: the oldest epoch of which the proxy has a transaction, or may still begin one.
    reported: BTreeMap<String, u64>,
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

    /// What to tell every proxy before the balancers get the table: as soon as one of them has it, members pass messages on
    /// to each other that did not know of each other before, and those that are gone may still do so.
    pub fn ahead_for_proxies(&self) -> proxy::Command {
        let members = self.table.members.iter().map(|m| m.address);
        let known = members.chain(self.table.departed.iter().copied());
        proxy::Command::Members { epoch: 0, trusted: known.chain(self.balancers.iter().copied()).collect() }
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

    /// Forgets what was before the present table: nothing has been sent by it yet.
    pub fn forget_earlier(&mut self) {
        self.table.earlier.clear();
    }

    /// Adds a member that is ready.
    ///
    /// # Errors
    /// [`Refused`] when its name or address is taken.
    pub fn add_ready(&mut self, name: &str, address: SocketAddr) -> Result<(), Refused> {
        self.change(&Change::Add(Member { name: name.to_owned(), address, weight: 1, state: State::Ready }))
    }

    /// Takes in what a proxy has told. True when epochs were retired by that, and the table has changed.
    pub fn report(&mut self, name: &str, stats: &proxy::Stats) -> bool {
        let live = stats.live_by_epoch.iter().find(|(_, count)| *count > 0);
        self.reported.insert(name.to_owned(), live.map_or(stats.epoch, |(epoch, _)| *epoch));
        let serving = self.table.members.iter().filter(|m| m.state.is_serving());
        // A proxy that has told nothing yet may have anything.
        let oldest = serving.map(|m| self.reported.get(&m.name).copied().unwrap_or(0)).min();
        let over = |version: &u64| oldest.is_some_and(|oldest| oldest > *version);
        let last = self.table.earlier.iter().map(|epoch| epoch.version).rfind(over);
        last.is_some_and(|version| self.change(&Change::Retire(version)).is_ok())
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
        let versions: Vec<u64> = members.table().earlier.iter().map(|epoch| epoch.version).collect();
        assert_eq!(versions, [1, 2], "one proxy alone, then two");
        assert!(!members.report("p1", &stats(3, &[(2, 3), (3, 1)])));
        assert!(!members.report("p2", &stats(3, &[])), "p3 has told nothing");
        assert!(members.report("p3", &stats(3, &[])), "the first epoch: nobody has anything as old");
        assert_eq!(members.table().earlier.len(), 1);
        assert!(!members.report("p1", &stats(2, &[])), "it may still begin transactions of the second");
        assert!(members.report("p1", &stats(3, &[(3, 5)])));
        assert!(members.table().earlier.is_empty());
    }

    #[test]
    fn epochs_of_which_nothing_is_left_go_together() {
        let mut members = Members::new(Vec::new());
        for i in 1..=4u16 {
            members.add_ready(&format!("p{i}"), SocketAddr::from(([127, 0, 0, 1], 5070 + i))).unwrap();
        }
        assert_eq!(members.table().earlier.len(), 3);
        let told = (1..=4).filter(|i| members.report(&format!("p{i}"), &stats(4, &[]))).count();
        assert_eq!((told, members.table().earlier.len(), members.table().version), (1, 0, 5));
    }

    #[test]
    fn proxies_trust_members_that_come_and_those_that_go() {
        let (old, new) = ("127.0.0.1:5071".parse().unwrap(), "127.0.0.1:5072".parse().unwrap());
        let mut members = Members::new(vec!["127.0.0.1:5060".parse().unwrap()]);
        members.add_ready("old", old).unwrap();
        members.add_ready("new", new).unwrap();
        members.change(&Change::Remove("old".into())).unwrap();
        let trusts = |command| {
            let proxy::Command::Members { trusted, .. } = command else { panic!("{command:?}") };
            [trusted.contains(&old), trusted.contains(&new)]
        };
        assert_eq!(trusts(members.ahead_for_proxies()), [true, true]);
        assert_eq!(trusts(members.for_proxies()), [false, true]);
    }
}
