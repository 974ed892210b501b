//! The response context of a forwarded request (RFC 3261 section 16.7): its branches and the best answer so far.

use busyhour_sip::{HeaderName, Message};

use crate::transactions::{ClientId, ServerId};

use super::targets::Later;

/// Kept with the server transaction of every request that is forwarded, and with that of a CANCEL.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) invite: bool,
    /// The membership epoch in which it began.
    pub(super) epoch: u64,
    /// Branches without a final response.
    pub(super) open: Branches,
    /// Targets not tried yet.
    pub(super) later: Option<Box<Later>>,
    pub(super) best: Option<Best>,
    /// A 2xx has been forwarded.
    pub(super) answered: bool,
    /// The caller, or a 6xx, wants no more branches.
    pub(super) cancelled: bool,
    /// Max-Breadth that the branches share.
    pub(super) breadth: u32,
    /// Its sender showed credentials, or a dialog that began with some.
    pub(super) granted: bool,
}

/// The branches of a request; nearly always there is one, and then nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Branches {
    first: Option<ClientId>,
    more: Vec<ClientId>,
}

impl Branches {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn push(&mut self, id: ClientId) {
        match self.first {
            None => self.first = Some(id),
            Some(_) => self.more.push(id),
        }
    }

    pub(super) fn remove(&mut self, id: ClientId) {
        if self.first == Some(id) {
            self.first = self.more.pop();
        } else {
            self.more.retain(|&other| other != id);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.first.into_iter().chain(self.more.iter().copied())
    }
}

/// Kept with the client transaction of every branch, and with that of a CANCEL.
#[derive(Debug)]
pub(super) enum Branch {
    /// A forwarded request.
    Forward(Forward),
    /// The CANCEL of one: its response concerns nobody.
    Cancel,
}

/// The state of one branch.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) server: ServerId,
    pub(super) id: BranchId,
    /// A provisional response has come, so a CANCEL may be sent.
    pub(super) provisional: bool,
    /// A CANCEL is to be sent as soon as it may.
    pub(super) cancel_wanted: bool,
    /// A CANCEL has been sent.
    pub(super) cancelled: bool,
}

/// The two parts of a branch parameter of ours: a random one, and a hash of what decides where the request goes, by
/// which a loop is known from a spiral (RFC 3261 section 16.6 step 8, RFC 5393 section 4.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct BranchId {
    pub(super) unique: u64,
    pub(super) loop_hash: u64,
}

pub(super) const BRANCH_LEN: usize = 7 + 16 + 1 + 16;

impl BranchId {
    pub(super) fn text(self) -> [u8; BRANCH_LEN] {
        let mut text = [0; BRANCH_LEN];
        busyhour_sip::Writer::new(&mut text)
            .put(b"z9hG4bK")
            .put_hex(self.unique)
            .put(b".")
            .put_hex(self.loop_hash);
        text
    }

    /// The loop hash in a branch that this kind of proxy made.
    pub(super) fn loop_hash_of(branch: &[u8]) -> Option<u64> {
        let text = branch.get(24..).filter(|_| branch.len() == BRANCH_LEN && branch[23] == b'.')?;
        u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
    }
}

/// The best final response so far.
#[derive(Debug)]
pub(super) struct Best {
    pub(super) status: u16,
    /// The response as it will be forwarded; `None` for one that this proxy makes itself (408, 487, 500, …).
    pub(super) bytes: Option<Vec<u8>>,
    /// Challenges of other branches' 401 and 407, whole header lines (section 16.7 step 7).
    pub(super) challenges: Vec<Vec<u8>>,
}

impl Best {
    /// Takes a candidate in, keeping the better of the two (section 16.7 step 6).
    pub(super) fn consider(best: &mut Option<Best>, mut candidate: Best) {
        match best {
            None => *best = Some(candidate),
            Some(old) if rank(candidate.status) < rank(old.status) => {
                candidate.take_challenges(old);
                *best = Some(candidate);
            }
            Some(old) => old.take_challenges(&mut candidate),
        }
    }

    fn take_challenges(&mut self, other: &mut Best) {
        self.challenges.append(&mut other.challenges);
        if let Some(bytes) = &other.bytes
            && matches!(other.status, 401 | 407)
            && let Ok(response) = Message::parse(bytes)
        {
            for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
                self.challenges.extend(response.all(name).map(|h| response.line_of(h).to_vec()));
            }
        }
    }
}

/// Lower is better: 6xx; then the lowest class; within 4xx those that tell the caller what to change; and a response
/// that came from somebody before a timeout.
fn rank(status: u16) -> (u16, u16, u16) {
    let class = match status / 100 {
        6 => 0,
        class => class,
    };
    let preference = match status {
        401 | 407 | 415 | 420 | 484 => 0,
        408 | 487 => 2,
        _ => 1,
    };
    (class, preference, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_of(statuses: &[u16]) -> u16 {
        let mut best = None;
        for &status in statuses {
            Best::consider(&mut best, Best { status, bytes: None, challenges: Vec::new() });
        }
        best.unwrap().status
    }

    /// RFC 3261 section 16.7 step 6.
    #[test]
    fn the_best_response_is_chosen_as_the_rfc_says() {
        assert_eq!(best_of(&[486, 404]), 404, "the lowest of a class, when none says more");
        assert_eq!(best_of(&[503, 404, 302]), 302, "the lowest class");
        assert_eq!(best_of(&[302, 603, 404]), 603, "a 6xx is final for all");
        assert_eq!(best_of(&[404, 407, 480]), 407, "one that the caller can act upon");
        assert_eq!(best_of(&[408, 486]), 486, "an answer before a silence");
    }

    #[test]
    fn branches_are_a_set() {
        let mut ids = slotmap::SlotMap::<ClientId, ()>::with_key();
        let [a, b, c] = [(); 3].map(|()| ids.insert(()));
        let mut branches = Branches::default();
        assert!(branches.is_empty());
        for id in [a, b, c] {
            branches.push(id);
        }
        branches.remove(a);
        assert_eq!(branches.iter().collect::<Vec<_>>(), [c, b]);
        branches.remove(b);
        branches.remove(b);
        assert_eq!(branches.iter().collect::<Vec<_>>(), [c]);
        branches.remove(c);
        assert!(branches.is_empty());
    }

    #[test]
    fn a_branch_carries_its_loop_hash() {
        let id = BranchId { unique: 7, loop_hash: 0xfeed };
        assert_eq!(BranchId::loop_hash_of(&id.text()), Some(0xfeed));
        assert_eq!(BranchId::loop_hash_of(b"z9hG4bKabc"), None);
    }
}
