//! What can be done to a running experiment: crashes, pauses, partitions, worse links, slower hosts; and healing.

use busyhour_engine::Node;

use crate::cpu::Cpu;
use crate::error::Capacity;
use crate::link::LinkModel;
use crate::sim::{HostId, NodeId};

/// Something that happens to the system rather than in it. On a node that was removed, nothing happens.
pub enum Fault<N: Node> {
    /// The process dies: its memory, its receive queue and what it has not sent yet are gone. Its address stays its
    /// own, and what arrives there is dropped.
    Crash(NodeId),
    /// The process starts anew as this node, crashing first if it is up. Its address and counters stay.
    Restart(NodeId, Box<N>),
    /// The process stands still, as under SIGSTOP: its receive queue fills and overflows, its timers are late.
    Pause(NodeId),
    /// A paused process goes on where it stood.
    Resume(NodeId),
    /// Nothing sent from now on gets from the hosts of `a` to those of `b`, nor back unless `one_way`. What is under way
    /// arrives. A second partition with the same number replaces the first.
    Partition {
        /// Names it, for healing.
        number: u32,
        /// One side.
        a: Vec<HostId>,
        /// The other side.
        b: Vec<HostId>,
        /// Whether datagrams from `b` to `a` still pass.
        one_way: bool,
    },
    /// The partition with this number ends.
    Heal(u32),
    /// The link from one host to another behaves otherwise; `None`: as configured again. Goes before `AllLinks`.
    Link {
        /// Where it begins.
        from: HostId,
        /// Where it ends.
        to: HostId,
        /// How it behaves.
        model: Option<LinkModel>,
    },
    /// Every link between two hosts behaves otherwise; `None`: as configured again.
    AllLinks(Option<LinkModel>),
    /// A host has another CPU for the work that it begins from now on; `None`: the configured one again. The period
    /// that is running begins with a full quota.
    Cpu(HostId, Option<Cpu>),
    /// Everything is as it was configured: partitions end, links and CPUs recover, paused nodes go on. Crashed nodes
    /// stay down: only the experiment knows what to restart them as.
    HealAll,
}

/// A fault without its payload, for traces.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FaultNote {
    /// [`Fault::Crash`]
    Crash(NodeId),
    /// [`Fault::Restart`]
    Restart(NodeId),
    /// [`Fault::Pause`]
    Pause(NodeId),
    /// [`Fault::Resume`]
    Resume(NodeId),
    /// [`Fault::Partition`]
    Partition(u32),
    /// [`Fault::Heal`]
    Heal(u32),
    /// [`Fault::Link`]
    Link(HostId, HostId),
    /// [`Fault::AllLinks`]
    AllLinks,
    /// [`Fault::Cpu`]
    Cpu(HostId),
    /// [`Fault::HealAll`]
    HealAll,
}

impl<N: Node> Fault<N> {
    /// What it is, without its payload.
    pub fn note(&self) -> FaultNote {
        match self {
            Fault::Crash(node) => FaultNote::Crash(*node),
            Fault::Restart(node, _) => FaultNote::Restart(*node),
            Fault::Pause(node) => FaultNote::Pause(*node),
            Fault::Resume(node) => FaultNote::Resume(*node),
            Fault::Partition { number, .. } => FaultNote::Partition(*number),
            Fault::Heal(number) => FaultNote::Heal(*number),
            Fault::Link { from, to, .. } => FaultNote::Link(*from, *to),
            Fault::AllLinks(_) => FaultNote::AllLinks,
            Fault::Cpu(host, _) => FaultNote::Cpu(*host),
            Fault::HealAll => FaultNote::HealAll,
        }
    }

    /// Panics on a link or a CPU that cannot be.
    pub(crate) fn check(&self) {
        let (link, cpu) = match self {
            Fault::Link { model, .. } | Fault::AllLinks(model) => (model.as_ref(), None),
            Fault::Cpu(_, cpu) => (None, cpu.as_ref()),
            Fault::Crash(_)
            | Fault::Restart(..)
            | Fault::Pause(_)
            | Fault::Resume(_)
            | Fault::Partition { .. }
            | Fault::Heal(_)
            | Fault::HealAll => (None, None),
        };
        if let Some(Err(e)) = link.map(LinkModel::check) {
            panic!("{e}");
        }
        if let Some(Err(e)) = cpu.map(Cpu::check) {
            panic!("{e}");
        }
    }
}

impl<N: Node> std::fmt::Debug for Fault<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.note().fmt(f)
    }
}

impl FaultNote {
    /// A number for the kind and one for whom it concerns.
    pub(crate) fn code(self) -> (u64, u64) {
        match self {
            FaultNote::Crash(node) => (0, node.number().into()),
            FaultNote::Restart(node) => (1, node.number().into()),
            FaultNote::Pause(node) => (2, node.number().into()),
            FaultNote::Resume(node) => (3, node.number().into()),
            FaultNote::Partition(number) => (4, number.into()),
            FaultNote::Heal(number) => (5, number.into()),
            FaultNote::Link(from, to) => (6, u64::from(from.number()) << 32 | u64::from(to.number())),
            FaultNote::AllLinks => (7, 0),
            FaultNote::Cpu(host) => (8, host.number().into()),
            FaultNote::HealAll => (9, 0),
        }
    }
}

/// Directions of partitions that can exist at once.
const DIRECTIONS_MAX: usize = 64;

/// Which hosts cannot reach which. Each direction of a partition has a bit; a datagram is stopped when its sender is
/// on the near side and its receiver on the far side of the same bit.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// The number of the partition that each bit belongs to.
    bits: Vec<Option<u32>>,
    near: Vec<u64>,
    far: Vec<u64>,
}

impl Partitions {
    pub(crate) fn add_host(&mut self) {
        self.near.push(0);
        self.far.push(0);
    }

    pub(crate) fn separates(&self, from: u32, to: u32) -> bool {
        self.near[from as usize] & self.far[to as usize] != 0
    }

    pub(crate) fn start(
        &mut self,
        number: u32,
        a: &[HostId],
        b: &[HostId],
        one_way: bool,
    ) -> Result<(), Capacity> {
        self.heal(number);
        self.stop(number, a, b)?;
        if one_way { Ok(()) } else { self.stop(number, b, a) }
    }

    fn stop(&mut self, number: u32, from: &[HostId], to: &[HostId]) -> Result<(), Capacity> {
        let bit = match self.bits.iter().position(Option::is_none) {
            Some(bit) => bit,
            None if self.bits.len() == DIRECTIONS_MAX => {
                return Err(Capacity::Partitions { max: DIRECTIONS_MAX });
            }
            None => {
                self.bits.push(None);
                self.bits.len() - 1
            }
        };
        self.bits[bit] = Some(number);
        for host in from {
            self.near[host.number() as usize] |= 1 << bit;
        }
        for host in to {
            self.far[host.number() as usize] |= 1 << bit;
        }
        Ok(())
    }

    pub(crate) fn heal(&mut self, number: u32) {
        self.clear(|n| n == number);
    }

    pub(crate) fn heal_all(&mut self) {
        self.clear(|_| true);
    }

    fn clear(&mut self, which: impl Fn(u32) -> bool) {
        let mut keep = u64::MAX;
        for (bit, number) in self.bits.iter_mut().enumerate() {
            if number.is_some_and(&which) {
                *number = None;
                keep &= !(1 << bit);
            }
        }
        for mask in self.near.iter_mut().chain(&mut self.far) {
            *mask &= keep;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(n: u32) -> (Partitions, Vec<HostId>) {
        let mut partitions = Partitions::default();
        (0..n).for_each(|_| partitions.add_host());
        (partitions, (0..n).map(HostId).collect())
    }

    #[test]
    fn a_partition_separates_its_sides_and_nobody_else() {
        let (mut p, h) = hosts(4);
        p.start(1, &h[..1], &h[1..3], false).unwrap();
        assert!(p.separates(0, 1) && p.separates(2, 0));
        assert!(!p.separates(1, 2) && !p.separates(0, 3) && !p.separates(3, 1));
        p.start(2, &h[..1], &h[3..], true).unwrap();
        assert!(p.separates(0, 3) && !p.separates(3, 0));
        p.heal(1);
        assert!(!p.separates(0, 1) && p.separates(0, 3));
        p.heal_all();
        assert!(!p.separates(0, 3));
    }

    #[test]
    fn partitions_are_limited_and_bits_used_again() {
        let (mut p, h) = hosts(2);
        for number in 0..64 {
            p.start(number, &h[..1], &h[1..], true).unwrap();
        }
        assert_eq!(p.start(99, &h[..1], &h[1..], true), Err(Capacity::Partitions { max: 64 }));
        p.heal(7);
        p.start(99, &h[..1], &h[1..], true).unwrap();
    }
}
