//! What a REGISTER does to the bindings of one address-of-record: RFC 3261 section 10.3 steps 6 and 7.
//!
//! A change is first worked out against the bindings as they are, and carried out only when all of it is allowed.

use arrayvec::ArrayVec;
use busyhour_sip::value::Uri;

use super::record::Header;
use super::segment::{Binding, Segment};
use super::{CHANGES_MAX, Change, ContactChange, RegisterError, Stats};

/// Whose bindings are changed, when, and by which request.
#[derive(Copy, Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) hash: u64,
    /// The current second.
    pub(super) now_s: u32,
    /// The second from which new bindings last.
    pub(super) starts_s: u32,
    pub(super) call_id: u64,
    pub(super) cseq: u32,
    pub(super) branch: u32,
    pub(super) path: &'a [u8],
    /// How many bindings the address-of-record may have.
    pub(super) contacts_max: usize,
    /// Whether there may be one more address-of-record.
    pub(super) room: bool,
}

/// How a request stands to the one that made a binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Order {
    /// It may change the binding.
    Newer,
    /// It is that request, retransmitted.
    Same,
    /// It came late.
    Older,
}

impl Request<'_> {
    fn order(&self, header: &Header) -> Order {
        if header.call_id != self.call_id || self.cseq > header.cseq {
            Order::Newer
        } else if self.cseq == header.cseq && self.branch == header.branch {
            Order::Same
        } else {
            Order::Older
        }
    }
}

/// What is done to one binding: which of the contacts asked for it, and the binding that it has already.
type Step = (usize, Option<u32>);

impl Segment {
    /// Carries out a change; returns the head of the list afterwards, also when nothing was changed.
    pub(super) fn change(
        &mut self,
        request: &Request<'_>,
        change: Change<'_>,
        stats: &mut Stats,
    ) -> Result<u32, RegisterError> {
        if let Change::Contacts(changes) = change {
            let kept = changes.iter().filter(|c| c.expires_s > 0);
            self.reserve(kept.map(|c| Segment::binding_len_max(c.uri, request.path)).sum());
        }
        let slot = self.find(request.hash);
        let (head, ended) = self.remove_ended(self.head(slot), request.now_s);
        stats.expired += ended;
        let result = match change {
            Change::Query => Ok(head),
            Change::RemoveAll => self.remove_all(head, request, stats),
            Change::Contacts(changes) => self.change_contacts(head, request, changes, stats),
        };
        self.set_head(request.hash, slot, result.unwrap_or(head));
        result
    }

    fn remove_all(
        &mut self,
        head: u32,
        request: &Request<'_>,
        stats: &mut Stats,
    ) -> Result<u32, RegisterError> {
        // The very request that made a binding cannot be one that removes all, so it counts as out of order here.
        if self.list(head).any(|(_, header)| request.order(&header) != Order::Newer) {
            return Err(RegisterError::OutOfOrder);
        }
        let mut head = head;
        while head != 0 {
            head = self.remove(head, head);
            stats.removed += 1;
        }
        Ok(head)
    }

    fn change_contacts(
        &mut self,
        head: u32,
        request: &Request<'_>,
        changes: &[ContactChange<'_>],
        stats: &mut Stats,
    ) -> Result<u32, RegisterError> {
        let Some(steps) = self.plan(head, request, changes)? else {
            stats.retransmissions += 1;
            return Ok(head);
        };
        let mut head = head;
        // The first contact is to come first among its equals, and what is added last comes first.
        for &(i, existing) in steps.iter().rev() {
            let ContactChange { uri, q, expires_s } = changes[i];
            let binding = Binding {
                hash: request.hash,
                ends_s: request.starts_s.saturating_add(expires_s),
                call_id: request.call_id,
                cseq: request.cseq,
                branch: request.branch,
                q,
                uri,
                path: request.path,
            };
            head = match (existing, expires_s) {
                (None, _) => {
                    stats.added += 1;
                    self.add(head, &binding)
                }
                (Some(at), 0) => {
                    stats.removed += 1;
                    self.remove(head, at)
                }
                (Some(at), _) => {
                    stats.refreshed += 1;
                    self.replace(head, at, &binding)
                }
            };
        }
        Ok(head)
    }

    /// What has to be done; `None` when the request is a retransmission.
    fn plan(
        &self,
        head: u32,
        request: &Request<'_>,
        changes: &[ContactChange<'_>],
    ) -> Result<Option<ArrayVec<Step, CHANGES_MAX>>, RegisterError> {
        let mut steps = ArrayVec::<Step, CHANGES_MAX>::new();
        let (mut retransmission, mut added, mut removed) = (false, 0, 0);
        for (i, change) in changes.iter().enumerate() {
            if changes[i + 1..].iter().any(|later| same_uri(later.uri, change.uri)) {
                continue;
            }
            // Equivalence of URIs is not transitive, so two contacts can be equivalent to one binding: the first gets it.
            let taken = |at: u32| steps.iter().any(|&(_, existing)| existing == Some(at));
            let existing = self.list_find(head, change.uri, taken);
            if let Some((_, header)) = existing {
                match request.order(&header) {
                    Order::Newer => {}
                    Order::Same => retransmission = true,
                    Order::Older => return Err(RegisterError::OutOfOrder),
                }
            }
            match (existing, change.expires_s) {
                (None, 0) => continue,
                (None, _) => added += 1,
                (Some(_), 0) => removed += 1,
                (Some(_), _) => {}
            }
            steps.push((i, existing.map(|(at, _)| at)));
        }
        if retransmission {
            return Ok(None);
        }
        if added > 0 && self.list(head).count() + added > request.contacts_max + removed {
            return Err(RegisterError::TooManyContacts);
        }
        if added > 0 && head == 0 && !request.room {
            return Err(RegisterError::Full);
        }
        Ok(Some(steps))
    }

    /// The binding of a list that a contact is about: one with the same bytes before one that is equivalent.
    fn list_find(&self, head: u32, uri: &[u8], taken: impl Fn(u32) -> bool) -> Option<(u32, Header)> {
        let free = || self.list(head).filter(|&(at, _)| !taken(at));
        free()
            .find(|(at, header)| self.uri(*at, header) == uri)
            .or_else(|| free().find(|(at, header)| equivalent(self.uri(*at, header), uri)))
    }
}

fn same_uri(a: &[u8], b: &[u8]) -> bool {
    a == b || equivalent(a, b)
}

fn equivalent(a: &[u8], b: &[u8]) -> bool {
    match (Uri::parse(a), Uri::parse(b)) {
        (Ok(a), Ok(b)) => a.equivalent(&b),
        (Err(_), _) | (_, Err(_)) => false,
    }
}
