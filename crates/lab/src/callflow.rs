//! A call flow for people: one line for every message that arrives or is dropped, with virtual time, the two nodes by
//! name, the start line, the call, and what became of it; faults and changes of the cluster stand between them.
//!
//! ```text
//!    3.000081  f1 ─▶ b2  INVITE sip:0003@busyhour.example             c4  1 INVITE
//!    3.000162  b2 ─▶ p1  INVITE sip:0003@busyhour.example             c4  1 INVITE
//!    3.000301  p1 ─▶ b2  407 Proxy Authentication Required            c4  1 INVITE
//!    3.000377  b2 ─× f1  407 Proxy Authentication Required            c4  1 INVITE    lost
//! ── 3.200000  p1 crashes
//! ```
//!
//! A call gets a short name when it is first seen; the line above its first message tells its Call-ID and its parties.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;

use busyhour_engine::{HashSeed, Instant, PrehashedMap};
use busyhour_sim::{Datagram, DropReason, FaultNote, Happening, HostId, NodeId};
use busyhour_sip::value::{NameAddr, Uri};
use busyhour_sip::{HeaderName, Message};

/// Writes what it is shown. Clones write to the same place.
#[derive(Clone)]
pub struct CallFlow(Rc<RefCell<Writer>>);

struct Writer {
    out: Box<dyn Write>,
    /// The first error of `out`; nothing is written after it.
    error: Option<io::Error>,
    /// Only calls whose name or Call-ID this is part of.
    only: Option<String>,
    addresses: BTreeMap<SocketAddr, String>,
    nodes: BTreeMap<u32, String>,
    hosts: BTreeMap<u32, String>,
    /// The short names of calls, by Call-ID.
    calls: BTreeMap<Vec<u8>, String>,
    /// How often the same bytes went from one node to another.
    sent: PrehashedMap<u32>,
}

impl CallFlow {
    /// Writes to `out`, of every call.
    pub fn new(out: Box<dyn Write>) -> Self {
        CallFlow::of(out, None)
    }

    /// Writes to `out` what belongs to one call: `call` is its short name, or a part of its Call-ID. Faults and changes
    /// of the cluster are written all the same.
    pub fn of_call(out: Box<dyn Write>, call: &str) -> Self {
        CallFlow::of(out, Some(call.to_owned()))
    }

    fn of(out: Box<dyn Write>, only: Option<String>) -> Self {
        CallFlow(Rc::new(RefCell::new(Writer {
            out,
            error: None,
            only,
            addresses: BTreeMap::new(),
            nodes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            calls: BTreeMap::new(),
            sent: PrehashedMap::default(),
        })))
    }

    /// What a node, its host and its address are called. Hosts with several nodes have the name of the last.
    pub fn name(&self, node: NodeId, host: HostId, address: SocketAddr, name: &str) {
        let mut writer = self.0.borrow_mut();
        writer.addresses.insert(address, name.to_owned());
        writer.nodes.insert(node.number(), name.to_owned());
        writer.hosts.insert(host.number(), name.to_owned());
    }

    /// Something happened in the simulator.
    pub fn happening(&self, at: Instant, what: Happening<'_>) {
        let mut writer = self.0.borrow_mut();
        match what {
            Happening::Sent(datagram) => *writer.repetitions(&datagram) += 1,
            Happening::Delivered(datagram) => writer.datagram(at, &datagram, '▶', ""),
            Happening::Duplicated(datagram) => writer.datagram(at, &datagram, '+', "doubled by the link"),
            Happening::Dropped(datagram, why) => writer.datagram(at, &datagram, '×', fate(why)),
            Happening::Fault(fault) => {
                let text = writer.fault(fault);
                writer.note(at, &text);
            }
            Happening::Timeout(_) | Happening::Command(_) => {}
        }
    }

    /// Something happened outside of it.
    pub fn note(&self, at: Instant, text: &str) {
        self.0.borrow_mut().note(at, text);
    }

    /// Something happened outside of it that concerns one call, nobody knows which: not written when only one is asked for.
    pub fn note_of_some_call(&self, at: Instant, text: &str) {
        let mut writer = self.0.borrow_mut();
        if writer.only.is_none() {
            writer.note(at, text);
        }
    }

    /// Writes out what is still kept.
    ///
    /// # Errors
    /// The first error of what it writes to, if there was one.
    pub fn finish(&self) -> io::Result<()> {
        let mut writer = self.0.borrow_mut();
        match writer.error.take() {
            Some(error) => Err(error),
            None => writer.out.flush(),
        }
    }
}

impl Writer {
    fn repetitions(&mut self, datagram: &Datagram<'_>) -> &mut u32 {
        let ends = [datagram.from, datagram.to].map(|end| end.to_string());
        let key = HashSeed(0, 0).hash(&[ends[0].as_bytes(), ends[1].as_bytes(), datagram.bytes]);
        self.sent.entry(key).or_default()
    }

    fn datagram(&mut self, at: Instant, datagram: &Datagram<'_>, arrow: char, fate: &str) {
        let Ok(message) = Message::parse(datagram.bytes) else {
            let text = String::from_utf8_lossy(&datagram.bytes[..datagram.bytes.len().min(40)]);
            let line = format!(
                "{:>12}  {} ─{arrow} {}  {text:?}  {fate}",
                time(at),
                self.end(datagram.from),
                self.end(datagram.to)
            );
            return self.line(&line);
        };
        let call_id = message.value(HeaderName::CallId).unwrap_or(b"");
        let is_new = !self.calls.contains_key(call_id);
        let call = self.call(call_id);
        if !self.is_wanted(&call, call_id) {
            return;
        }
        if is_new {
            let (from, to) = (party(&message, HeaderName::From), party(&message, HeaderName::To));
            let id = String::from_utf8_lossy(call_id);
            self.line(&format!("{:>14}┌ {call}: {from} to {to}, Call-ID {id}", ""));
        }
        let cseq = String::from_utf8_lossy(message.value(HeaderName::CSeq).unwrap_or(b"")).into_owned();
        let count = *self.repetitions(datagram);
        let mut remark = String::new();
        if count > 1 {
            let _ = write!(remark, "sent {count} times");
        }
        if !fate.is_empty() {
            let _ = write!(remark, "{}{}", if remark.is_empty() { "" } else { ", " }, fate.to_uppercase());
        }
        let line = format!(
            "{:>12}  {:>3} ─{arrow} {:<3}  {:<44} {call:>5}  {cseq:<12} {remark}",
            time(at),
            self.end(datagram.from),
            self.end(datagram.to),
            start_line(&message),
        );
        self.line(line.trim_end());
    }

    /// The short name of a call, made from the order in which calls are seen.
    fn call(&mut self, call_id: &[u8]) -> String {
        let next = format!("c{}", self.calls.len() + 1);
        self.calls.entry(call_id.to_vec()).or_insert(next).clone()
    }

    fn is_wanted(&self, call: &str, call_id: &[u8]) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| call == only || String::from_utf8_lossy(call_id).contains(only.as_str()))
    }

    fn end(&self, address: SocketAddr) -> String {
        self.addresses.get(&address).cloned().unwrap_or_else(|| address.to_string())
    }

    fn note(&mut self, at: Instant, text: &str) {
        self.line(&format!("── {:>9}  {text}", time(at)));
    }

    fn fault(&self, fault: FaultNote) -> String {
        let node = |id: NodeId| {
            self.nodes.get(&id.number()).cloned().unwrap_or_else(|| format!("node {}", id.number()))
        };
        let host = |id: HostId| {
            self.hosts.get(&id.number()).cloned().unwrap_or_else(|| format!("host {}", id.number()))
        };
        match fault {
            FaultNote::Crash(id) => format!("{} crashes", node(id)),
            FaultNote::Restart(id) => format!("{} starts anew", node(id)),
            FaultNote::Pause(id) => format!("{} stands still", node(id)),
            FaultNote::Resume(id) => format!("{} goes on", node(id)),
            FaultNote::Partition(number) => format!("partition {number} begins"),
            FaultNote::Heal(number) => format!("partition {number} ends"),
            FaultNote::Link(from, to) => format!("the link from {} to {} changes", host(from), host(to)),
            FaultNote::AllLinks => "all links change".to_owned(),
            FaultNote::Cpu(id) => format!("the CPU of {} changes", host(id)),
            FaultNote::HealAll => "partitions, links, CPUs and pauses are healed".to_owned(),
        }
    }

    fn line(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = writeln!(self.out, "{text}").err();
        }
    }
}

fn time(at: Instant) -> String {
    format!("{}.{:06}", at.as_secs(), at.as_nanos() / 1000 % 1_000_000)
}

fn fate(why: DropReason) -> &'static str {
    match why {
        DropReason::Lost => "lost",
        DropReason::LinkOverflow => "link full",
        DropReason::Partitioned => "partitioned",
        DropReason::UnknownDestination => "nobody there",
        DropReason::ReceiveOverflow => "receive queue full",
        DropReason::Down => "process down",
        DropReason::OverCapacity => "simulator full",
    }
}

/// The start line without the version; long ones end with an ellipsis.
fn start_line(message: &Message<'_>) -> String {
    let line = message.bytes().split(|&b| b == b'\r').next().unwrap_or(b"");
    let line = String::from_utf8_lossy(line);
    let line = line.strip_prefix("SIP/2.0 ").or(line.strip_suffix(" SIP/2.0")).unwrap_or(&line);
    match line.char_indices().nth(START_LINE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

const START_LINE_MAX: usize = 43;

/// The user in From or To.
fn party(message: &Message<'_>, name: HeaderName) -> String {
    let address = message.value(name).and_then(|value| NameAddr::parse(value).ok());
    let user = address.and_then(|a| a.parse_uri().ok()).and_then(Uri::sip).and_then(|uri| uri.user);
    String::from_utf8_lossy(user.unwrap_or(b"?")).into_owned()
}
