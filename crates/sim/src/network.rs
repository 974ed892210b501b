//! Everything between two nodes: addresses, links, partitions, and the datagrams under way.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::SocketAddr;

use busyhour_engine::{HashSeed, Instant, Rng};

use crate::agenda::EventQueue;
use crate::counters::{DropReason, LinkCounters, Totals};
use crate::error::Capacity;
use crate::fault::Partitions;
use crate::flight::{FlightId, Flights};
use crate::link::{Link, LinkModel, Passage};
use crate::sim::HostId;
use crate::trace::{Fate, Trace};

/// The number that stands for the receiver of a datagram that nobody receives.
const NOBODY: u32 = u32::MAX;
const NO_LINK: u32 = u32::MAX;

pub(crate) struct Network {
    seed: u64,
    in_flight_max: usize,
    pub(crate) flights: Flights,
    pub(crate) arrivals: EventQueue,
    pub(crate) trace: Trace,
    /// `on_links` and `queued` are filled in when somebody asks.
    pub(crate) totals: Totals,
    pub(crate) partitions: Partitions,
    addresses: HashMap<SocketAddr, u32, BuildHasherDefault<AddressHasher>>,
    /// Address and host of every node, also of those that were removed.
    ends: Vec<(SocketAddr, u32)>,
    /// For each host, its links by the number of the other host.
    links_of: Vec<Vec<u32>>,
    links: Vec<(Link, LinkCounters)>,
    /// The hosts at the two ends of each link.
    link_ends: BTreeMap<(u32, u32), u32>,
    models: Models,
}

/// Which model holds for which link.
struct Models {
    between: LinkModel,
    within: LinkModel,
    configured: BTreeMap<(u32, u32), LinkModel>,
    disturbed: BTreeMap<(u32, u32), LinkModel>,
    all_disturbed: Option<LinkModel>,
}

impl Models {
    fn of(&self, ends: (u32, u32)) -> LinkModel {
        let within = ends.0 == ends.1;
        let disturbed = self.disturbed.get(&ends).copied().or(if within { None } else { self.all_disturbed });
        let default = if within { self.within } else { self.between };
        disturbed.or_else(|| self.configured.get(&ends).copied()).unwrap_or(default)
    }
}

impl Network {
    pub(crate) fn new(seed: u64, between: LinkModel, within: LinkModel, in_flight_max: usize) -> Network {
        Network {
            seed,
            in_flight_max,
            flights: Flights::default(),
            arrivals: EventQueue::default(),
            trace: Trace::new(),
            totals: Totals::default(),
            partitions: Partitions::default(),
            addresses: HashMap::default(),
            ends: Vec::new(),
            links_of: Vec::new(),
            links: Vec::new(),
            link_ends: BTreeMap::new(),
            models: Models {
                between,
                within,
                configured: BTreeMap::new(),
                disturbed: BTreeMap::new(),
                all_disturbed: None,
            },
        }
    }

    pub(crate) fn add_host(&mut self) {
        self.partitions.add_host();
        self.links_of.push(Vec::new());
    }

    /// Gives the next node its address; false when another has it.
    pub(crate) fn add_node(&mut self, address: SocketAddr, host: HostId) -> bool {
        if self.addresses.contains_key(&address) {
            return false;
        }
        self.addresses.insert(address, self.ends.len() as u32);
        self.ends.push((address, host.number()));
        true
    }

    pub(crate) fn remove_node(&mut self, node: usize) {
        self.addresses.remove(&self.ends[node].0);
    }

    pub(crate) fn address(&self, node: usize) -> SocketAddr {
        self.ends[node].0
    }

    pub(crate) fn node_at(&self, address: SocketAddr) -> Option<u32> {
        self.addresses.get(&address).copied()
    }

    /// Puts a datagram that its sender has finished on the link to its destination.
    pub(crate) fn send(&mut self, now: Instant, flight: FlightId, to: SocketAddr) -> Result<(), Capacity> {
        self.totals.sent += 1;
        let from = self.flights.get(flight).from;
        let Some(node) = self.node_at(to) else {
            self.trace.stranger(to);
            self.note(now, Fate::Sent, flight, to);
            self.drop_towards(now, flight, to, DropReason::UnknownDestination);
            return Ok(());
        };
        self.flights.set_destination(flight, node);
        self.note(now, Fate::Sent, flight, to);
        if self.flights.len() > self.in_flight_max {
            self.drop_towards(now, flight, to, DropReason::OverCapacity);
            return Err(Capacity::InFlight { max: self.in_flight_max });
        }
        let hosts = (self.ends[from as usize].1, self.ends[node as usize].1);
        let separated = self.partitions.separates(hosts.0, hosts.1);
        let len = self.flights.get(flight).len();
        let index = self.link_index(hosts);
        self.flights.set_link(flight, index);
        let (link, counters) = &mut self.links[index];
        counters.sent += 1;
        counters.sent_bytes += len as u64;
        if separated {
            counters.partitioned += 1;
            self.drop_towards(now, flight, to, DropReason::Partitioned);
            return Ok(());
        }
        match link.pass(now, len) {
            Passage::Lost => {
                counters.lost += 1;
                self.drop_towards(now, flight, to, DropReason::Lost);
            }
            Passage::Overflow => {
                counters.overflow += 1;
                self.drop_towards(now, flight, to, DropReason::LinkOverflow);
            }
            Passage::Arrives { at, copy_at, reordered } => {
                counters.reordered += u64::from(reordered);
                counters.duplicated += u64::from(copy_at.is_some());
                self.totals.reordered += u64::from(reordered);
                self.arrivals.push(at.as_nanos(), flight.0);
                if let Some(copy_at) = copy_at {
                    self.totals.duplicated += 1;
                    self.flights.duplicate(flight);
                    self.arrivals.push(copy_at.as_nanos(), flight.0);
                    self.note(now, Fate::Duplicated, flight, to);
                }
            }
        }
        Ok(())
    }

    /// The next datagram reaches the other end of its link: its node's number.
    pub(crate) fn arrive(&mut self) -> Option<(FlightId, usize)> {
        let (_, id) = self.arrivals.pop()?;
        let flight = self.flights.get(FlightId(id));
        self.links[flight.link as usize].1.arrived += 1;
        Some((FlightId(id), flight.to as usize))
    }

    /// A datagram, or a copy, comes to an end after it had left its link.
    pub(crate) fn drop_at(&mut self, now: Instant, flight: FlightId, reason: DropReason) {
        let to = self.ends[self.flights.get(flight).to as usize].0;
        self.drop_towards(now, flight, to, reason);
    }

    /// A datagram, or a copy, was handled.
    pub(crate) fn delivered(&mut self, flight: FlightId) {
        self.totals.delivered += 1;
        self.flights.release(flight);
    }

    fn drop_towards(&mut self, now: Instant, flight: FlightId, to: SocketAddr, reason: DropReason) {
        self.note(now, Fate::Dropped(reason), flight, to);
        self.totals.drops.count(reason);
        self.flights.release(flight);
    }

    pub(crate) fn note(&mut self, now: Instant, fate: Fate, id: FlightId, to: SocketAddr) {
        let flight = *self.flights.get(id);
        let ends = (flight.from, flight.to);
        let details = || (self.ends[flight.from as usize].0, to);
        self.trace.datagram(now, fate, ends, flight.hash, details, self.flights.bytes(id));
    }

    /// The sender and the receiver of a datagram that has a receiver.
    pub(crate) fn ends_of(&self, id: FlightId) -> (SocketAddr, SocketAddr) {
        let flight = self.flights.get(id);
        debug_assert_ne!(flight.to, NOBODY);
        (self.ends[flight.from as usize].0, self.ends[flight.to as usize].0)
    }

    fn link_index(&mut self, hosts: (u32, u32)) -> usize {
        let known = self.links_of[hosts.0 as usize].get(hosts.1 as usize);
        match known {
            Some(&index) if index != NO_LINK => index as usize,
            Some(_) | None => self.add_link(hosts),
        }
    }

    /// Links come to be with their first datagram. What they draw depends on the seed and the two hosts alone, not on
    /// which link was used first.
    fn add_link(&mut self, hosts: (u32, u32)) -> usize {
        let seed = HashSeed(self.seed, LINK_SEEDS).hash(&[&hosts.0.to_le_bytes(), &hosts.1.to_le_bytes()]);
        let index = self.links.len() as u32;
        self.links.push((Link::new(self.models.of(hosts), Rng::from_seed(seed)), LinkCounters::default()));
        self.link_ends.insert(hosts, index);
        let row = &mut self.links_of[hosts.0 as usize];
        if row.len() <= hosts.1 as usize {
            row.resize(hosts.1 as usize + 1, NO_LINK);
        }
        row[hosts.1 as usize] = index;
        index as usize
    }

    pub(crate) fn configure_link(&mut self, hosts: (u32, u32), model: LinkModel) {
        self.models.configured.insert(hosts, model);
        self.refresh();
    }

    pub(crate) fn disturb_link(&mut self, hosts: (u32, u32), model: Option<LinkModel>) {
        match model {
            Some(model) => self.models.disturbed.insert(hosts, model),
            None => self.models.disturbed.remove(&hosts),
        };
        self.refresh();
    }

    pub(crate) fn disturb_all_links(&mut self, model: Option<LinkModel>) {
        self.models.all_disturbed = model;
        self.refresh();
    }

    pub(crate) fn heal_all(&mut self) {
        self.partitions.heal_all();
        self.models.disturbed.clear();
        self.models.all_disturbed = None;
        self.refresh();
    }

    fn refresh(&mut self) {
        for (&hosts, &index) in &self.link_ends {
            self.links[index as usize].0.set_model(self.models.of(hosts));
        }
    }

    pub(crate) fn link_counters(&self, hosts: (u32, u32)) -> LinkCounters {
        self.link_ends.get(&hosts).map(|&index| self.links[index as usize].1).unwrap_or_default()
    }

    pub(crate) fn all_links(&self) -> impl Iterator<Item = ((u32, u32), LinkCounters)> {
        self.link_ends.iter().map(|(&hosts, &index)| (hosts, self.links[index as usize].1))
    }
}

/// Tells the seeds of links from other uses of the same seed.
const LINK_SEEDS: u64 = 0x6c69_6e6b;

/// Hashes addresses of the experiment's own nodes: nobody chooses them to collide, and nobody sees the order.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
