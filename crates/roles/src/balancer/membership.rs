//! The table of members that the controller owns and pushes to every balancer.
//!
//! A [`Membership`] is a plain value: the members, the *epochs* that came before (who was ready then, with which
//! weights) and the addresses of members that are gone. A balancer keeps nothing else, so two balancers with the same
//! version and key decide alike, and so does one that was just started. This module is pure: it makes the next value
//! from the present one. When an epoch may be forgotten is the controller's decision.

use std::net::SocketAddr;

use busyhour_engine::HashSeed;
use busyhour_policy::dispatch::Candidate;

/// The most earlier epochs that a table may hold: each costs every request that is placed by its Call-ID another
/// rendezvous choice, and a call whose owner moved every time another hop.
pub const EPOCHS_MAX: usize = 8;

/// How large a table may be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most members; never more than 65,535.
    pub members_max: usize,
    /// The most addresses of members that are gone.
    pub departed_max: usize,
    /// The most earlier epochs; not more than [`EPOCHS_MAX`].
    pub epochs_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { members_max: 1024, departed_max: 1024, epochs_max: EPOCHS_MAX }
    }
}

/// What may be sent to a member.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Known, but not there yet: gets nothing.
    Starting,
    /// Gets new calls.
    Ready,
    /// Finishes what it has: requests that name it or whose INVITE it has.
    Draining,
    /// Does not answer: gets nothing, as if it were gone, until the controller decides.
    Suspect,
}

impl State {
    /// Whether requests that belong to the member are sent to it.
    pub fn is_serving(self) -> bool {
        match self {
            State::Ready | State::Draining => true,
            State::Starting | State::Suspect => false,
        }
    }
}

/// One proxy worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name: unique and stable. Calls are placed by a hash of it, whatever address it has.
    pub name: String,
    /// Where it receives SIP over UDP, and what it puts into Record-Route.
    pub address: SocketAddr,
    /// Its relative share of the calls; at least 1.
    pub weight: u32,
    /// What may be sent to it.
    pub state: State,
}

impl Member {
    /// The identity by which calls are placed: a hash of the name, the same everywhere and for ever.
    pub fn id(&self) -> u64 {
        HashSeed(0, 0).hash(&[self.name.as_bytes()])
    }
}

/// Who was ready during a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The last version of the table to which it applied.
    pub version: u64,
    /// The ready members of that time.
    pub ready: Vec<Candidate>,
}

/// The table: see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Grows with every change.
    pub version: u64,
    /// The members.
    pub members: Vec<Member>,
    /// What was before, oldest first, as far as transactions of that time may still be alive.
    pub earlier: Vec<Epoch>,
    /// Addresses at which there was a member and is none, longest gone first. Dialogs may still name them in a Route.
    pub departed: Vec<SocketAddr>,
}

/// One change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new member.
    Add(Member),
    /// The member of that name is gone.
    Remove(String),
    /// The member of that name has another state.
    SetState(String, State),
    /// The member of that name has another weight.
    SetWeight(String, u32),
    /// No transaction that began at this version or before is alive: epochs up to it are forgotten.
    Retire(u64),
}

/// Why a table or a change is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A newer table is known.
    Stale {
        /// The version that is in force.
        known: u64,
    },
    /// More members than [`Limits::members_max`].
    TooManyMembers,
    /// More epochs than [`Limits::epochs_max`].
    TooManyEpochs,
    /// Two members have this name.
    NameTaken(String),
    /// Two members have this address, or it is the balancer's own.
    AddressTaken(SocketAddr),
    /// Nothing can be sent to this address.
    BadAddress(SocketAddr),
    /// The weight of this member is zero.
    NoWeight(String),
    /// There is no member of this name.
    Unknown(String),
}

impl Membership {
    /// The ready members as candidates, in the order of the table.
    pub fn ready(&self) -> Vec<Candidate> {
        let ready = self.members.iter().filter(|m| m.state == State::Ready);
        ready.map(|m| Candidate { id: m.id(), weight: m.weight }).collect()
    }

    /// The table after `change`, one version on. When other members are ready than before, or with other weights, the
    /// present epoch becomes the latest of the earlier ones. At its limit, the oldest epoch or departed address is
    /// forgotten.
    ///
    /// # Errors
    /// [`Refused`] when the change does not fit the table.
    pub fn next(&self, change: &Change, limits: &Limits) -> Result<Membership, Refused> {
        let mut next = self.clone();
        next.version += 1;
        match change {
            Change::Add(member) => next.members.push(member.clone()),
            Change::Remove(name) => {
                let index = next.position(name)?;
                let gone = next.members.remove(index);
                next.departed.push(gone.address);
            }
            Change::SetState(name, state) => {
                let index = next.position(name)?;
                next.members[index].state = *state;
            }
            Change::SetWeight(name, weight) => {
                let index = next.position(name)?;
                next.members[index].weight = *weight;
            }
            Change::Retire(version) => next.earlier.retain(|epoch| epoch.version > *version),
        }
        next.departed.retain(|address| next.members.iter().all(|m| m.address != *address));
        keep_last(&mut next.departed, limits.departed_max);
        let before = self.ready();
        if !before.is_empty() && !same_candidates(&before, &next.ready()) {
            next.earlier.push(Epoch { version: self.version, ready: before });
        }
        keep_last(&mut next.earlier, limits.epochs_max);
        next.check(limits)?;
        Ok(next)
    }

    /// Whether the table can be used as it is.
    ///
    /// # Errors
    /// The first [`Refused`] found.
    pub fn check(&self, limits: &Limits) -> Result<(), Refused> {
        if self.members.len() > limits.members_max.min(usize::from(u16::MAX)) {
            return Err(Refused::TooManyMembers);
        }
        if self.earlier.len() > limits.epochs_max.min(EPOCHS_MAX) {
            return Err(Refused::TooManyEpochs);
        }
        let mut names: Vec<&str> = self.members.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refused::NameTaken(pair[0].to_owned()));
        }
        let mut addresses: Vec<SocketAddr> = self.members.iter().map(|m| m.address).collect();
        addresses.sort_unstable();
        if let Some(pair) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refused::AddressTaken(pair[0]));
        }
        match self.members.iter().find(|m| m.weight == 0) {
            Some(member) => Err(Refused::NoWeight(member.name.clone())),
            None => Ok(()),
        }
    }

    fn position(&self, name: &str) -> Result<usize, Refused> {
        self.members.iter().position(|m| m.name == name).ok_or_else(|| Refused::Unknown(name.to_owned()))
    }
}

/// Whether two sets hold the same candidates with the same weights, in whatever order.
fn same_candidates(a: &[Candidate], b: &[Candidate]) -> bool {
    let sorted = |set: &[Candidate]| {
        let mut pairs: Vec<(u64, u32)> = set.iter().map(|c| (c.id, c.weight)).collect();
        pairs.sort_unstable();
        pairs
    };
    sorted(a) == sorted(b)
}

fn keep_last<T>(list: &mut Vec<T>, max: usize) {
    list.drain(..list.len().saturating_sub(max));
}
