//! A [`Membership`] made ready for looking things up: by address, and by the hash of a Call-ID.

use std::net::SocketAddr;

use arrayvec::ArrayVec;
use busyhour_policy::dispatch::{Candidate, select};

use super::address_text;
use super::membership::{EPOCHS_MAX, Limits, Member, Membership, Refused};
use super::stats::MemberStats;
use crate::address::is_sendable;

/// The members that may have a call's transactions, those of the earliest epoch first, as indices into the table.
pub(super) type Owners = ArrayVec<u16, { EPOCHS_MAX + 1 }>;

pub(super) struct Peer {
    pub(super) member: Member,
    /// Its address as it stands in a Via parameter.
    pub(super) text: Vec<u8>,
    pub(super) requests: u64,
}

/// What there is at an address.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A member that is sent what belongs to it.
    Serving(u16),
    /// A member that is sent nothing.
    Silent,
    /// There was a member.
    Departed,
}

/// The ready members of one epoch: candidates, and which of the present members each is, if it still serves.
struct Ring {
    candidates: Vec<Candidate>,
    peers: Vec<Option<u16>>,
}

impl Ring {
    fn owner(&self, key: u64) -> Option<u16> {
        let index = select(key, self.candidates.iter().copied())?;
        self.peers[index]
    }
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) version: u64,
    peers: Vec<Peer>,
    /// The identities of the members and their indices, sorted.
    ids: Vec<(u64, u16)>,
    /// Sorted by address.
    places: Vec<(SocketAddr, Place)>,
    /// Oldest first; the last is the present epoch. Empty only before the first table.
    rings: Vec<Ring>,
}

impl Table {
    /// The table for `membership`, and how many departed addresses had no room. `own` is the balancer's address.
    pub(super) fn build(
        membership: Membership,
        limits: &Limits,
        own: SocketAddr,
    ) -> Result<(Table, u64), Refused> {
        membership.check(limits)?;
        for m in &membership.members {
            if m.address == own {
                return Err(Refused::AddressTaken(own));
            }
            if !is_sendable(m.address, own) {
                return Err(Refused::BadAddress(m.address));
            }
        }
        let mut ids: Vec<(u64, u16)> = membership.members.iter().map(Member::id).zip(0u16..).collect();
        ids.sort_unstable();
        let ring = |candidates: Vec<Candidate>| {
            let serving = |&i: &u16| membership.members[usize::from(i)].state.is_serving();
            let peers = candidates.iter().map(|c| find(&ids, c.id).filter(serving)).collect();
            Ring { candidates, peers }
        };
        let earlier = membership.earlier.iter().map(|epoch| epoch.ready.clone());
        let rings: Vec<Ring> = earlier.chain([membership.ready()]).map(ring).collect();
        let excess = membership.departed.len().saturating_sub(limits.departed_max);
        let mut places: Vec<(SocketAddr, Place)> = (0u16..)
            .zip(&membership.members)
            .map(|(i, m)| (m.address, if m.state.is_serving() { Place::Serving(i) } else { Place::Silent }))
            .collect();
        // The sort is stable and members come first: an address that has a member is not a departed one.
        places.extend(membership.departed[excess..].iter().map(|&address| (address, Place::Departed)));
        places.sort_by_key(|&(address, _)| address);
        places.dedup_by_key(|place| place.0);
        let peers = membership.members.into_iter();
        let peers = peers.map(|m| Peer { text: address_text(m.address), member: m, requests: 0 }).collect();
        Ok((Table { version: membership.version, peers, ids, places, rings }, excess as u64))
    }

    /// Takes the counters over from the table before; returns the sum of those whose member is gone.
    pub(super) fn inherit(&mut self, before: Table) -> u64 {
        let mut departed = 0;
        for (id, old) in before.ids {
            let requests = before.peers[usize::from(old)].requests;
            match find(&self.ids, id) {
                Some(index) => self.peers[usize::from(index)].requests = requests,
                None => departed += requests,
            }
        }
        departed
    }

    pub(super) fn has_ready(&self) -> bool {
        self.rings.last().is_some_and(|ring| !ring.candidates.is_empty())
    }

    /// Whether there is a member at that address, in whatever state.
    pub(super) fn is_member(&self, address: SocketAddr) -> bool {
        matches!(self.place(address), Some(Place::Serving(_) | Place::Silent))
    }

    pub(super) fn place(&self, address: SocketAddr) -> Option<Place> {
        let index = self.places.binary_search_by_key(&address, |&(a, _)| a).ok()?;
        Some(self.places[index].1)
    }

    pub(super) fn peer(&self, index: u16) -> &Peer {
        &self.peers[usize::from(index)]
    }

    pub(super) fn count_request(&mut self, index: u16) {
        self.peers[usize::from(index)].requests += 1;
    }

    /// Who may have the transactions of a call, by the hash of its Call-ID. The last is its owner in the present epoch,
    /// when that has any ready member; members that are gone, or that nothing is sent to, are left out.
    pub(super) fn owners(&self, key: u64) -> Owners {
        let mut owners = Owners::new();
        for ring in &self.rings {
            if let Some(index) = ring.owner(key) {
                // An owner that comes back is asked in both places. Messages that were sent under different tables then ask
                // in the same order, one list being the start of the other: asked in opposite orders, two proxies could
                // each pass on what the other has not seen yet, and both would take the call.
                if owners.last() == Some(&index) {
                    continue;
                }
                owners.push(index);
            }
        }
        owners
    }

    pub(super) fn report(&self) -> Vec<MemberStats> {
        let report = |p: &Peer| MemberStats {
            name: p.member.name.clone(),
            address: p.member.address,
            state: p.member.state,
            weight: p.member.weight,
            requests: p.requests,
        };
        self.peers.iter().map(report).collect()
    }
}

fn find(ids: &[(u64, u16)], id: u64) -> Option<u16> {
    ids.binary_search_by_key(&id, |&(known, _)| known).ok().map(|at| ids[at].1)
}
