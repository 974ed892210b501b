//! How time goes on: which step is next, and what a step does.

use std::time::Duration;

use busyhour_engine::{Flow, Input, Instant, Message, Node, pump};

use crate::agenda::NEVER;
use crate::cost::CostModel;
use crate::counters::DropReason;
use crate::error::Capacity;
use crate::fault::Fault;
use crate::flight::FlightId;
use crate::host::{Life, Slot, Stage, Work};
use crate::sim::{Action, NodeId, Sim};
use crate::trace::Fate;

impl<N: Node, C: CostModel<N>> Sim<N, C> {
    /// Does the next thing if it is due at `until`; false when nothing is. At the same time, actions go before
    /// arrivals, and those before nodes.
    pub(crate) fn step_until(&mut self, until: Instant) -> Result<bool, Capacity> {
        if let Some(capacity) = self.stopped {
            return Err(capacity);
        }
        let (action, arrival, (wakeup, node)) =
            (self.agenda.next_at(), self.net.arrivals.next_at(), self.wakeups.earliest());
        let at = action.min(arrival).min(wakeup);
        if at > until.as_nanos() {
            return Ok(false);
        }
        self.go_to(Instant::from_nanos(at));
        if at == action {
            self.act();
        } else if at == arrival {
            self.arrive();
        } else {
            self.wake(node);
        }
        self.stopped.map_or(Ok(true), Err)
    }

    fn go_to(&mut self, at: Instant) {
        self.steps += 1;
        if at > self.now {
            self.now = at;
            self.steps_at_this_instant = 0;
        }
        self.steps_at_this_instant += 1;
        let max = self.limits.steps_per_instant_max;
        if self.steps_at_this_instant > max {
            self.stop(Capacity::Standstill { at, max });
        }
    }

    /// The simulation is over; the first reason counts.
    fn stop(&mut self, capacity: Capacity) {
        self.stopped.get_or_insert(capacity);
    }

    fn act(&mut self) {
        let Some((_, id)) = self.agenda.pop() else { return };
        self.actions_free.push(id);
        match self.actions[id as usize].take().expect("an action is scheduled once") {
            Action::Command(node, command) => self.enqueue_command(node, command),
            Action::Fault(fault) => {
                if let Err(capacity) = self.inflict(fault) {
                    self.stop(capacity);
                }
            }
        }
    }

    fn enqueue_command(&mut self, id: NodeId, command: N::Command) {
        let index = id.number() as usize;
        let slot = &mut self.slots[index];
        if slot.node.is_none() {
            slot.counters.commands_lost += 1;
        } else if slot.commands.len() >= self.limits.commands_max {
            slot.counters.commands_lost += 1;
            self.stop(Capacity::Commands { node: id, max: self.limits.commands_max });
        } else {
            slot.commands.push_back(command);
            self.serve(index);
        }
    }

    fn arrive(&mut self) {
        let Some((flight, index)) = self.net.arrive() else { return };
        let slot = &mut self.slots[index];
        let reason = match slot.life {
            Life::Removed => DropReason::UnknownDestination,
            Life::Down => {
                slot.counters.down += 1;
                DropReason::Down
            }
            Life::Up | Life::Paused { .. } => {
                if slot.queue.push(flight, self.net.flights.get(flight).len()) {
                    slot.counters.queue_len_peak = slot.counters.queue_len_peak.max(slot.queue.len());
                    self.serve(index);
                    return;
                }
                slot.counters.receive_overflow += 1;
                DropReason::ReceiveOverflow
            }
        };
        self.net.drop_at(self.now, flight, reason);
    }

    /// A node's moment has come: a stage of its work is done or, when it is idle, a deadline has passed.
    fn wake(&mut self, index: usize) {
        match self.slots[index].stage {
            Stage::Idle => {}
            Stage::Before(work) => self.execute(index, work),
            Stage::After => self.flush(index),
        }
        self.serve(index);
    }

    /// Gives an idle node work until it is busy or has none, and notes its next moment. The order is that of the
    /// socket driver: commands first, then a datagram, and timers by themselves only when no datagram waits, since
    /// `pump` does what is due before every input. So neither timers nor datagrams can starve each other.
    pub(crate) fn serve(&mut self, index: usize) {
        loop {
            let slot = &mut self.slots[index];
            if slot.stage != Stage::Idle || slot.life != Life::Up {
                return;
            }
            let node = slot.node.as_ref().expect("a node that is up is there");
            let (work, cost) = if let Some(command) = slot.commands.pop_front() {
                let cost = self.cost.command(node, &command);
                slot.command = Some(command);
                (Work::Command, cost)
            } else if let Some(flight) = slot.queue.pop() {
                (Work::Message(flight), self.cost.receive(node, self.net.flights.bytes(flight)))
            } else if slot.is_due(self.now) {
                (Work::Timeout, self.cost.timeout(node))
            } else {
                self.wakeups.set(index, slot.deadline.map_or(NEVER, Instant::as_nanos));
                return;
            };
            if !self.work_until_done(index, Stage::Before(work), cost) {
                self.execute(index, work);
            }
        }
    }

    /// Charges `cost`. True when that takes time: the node is then in `stage` until its moment comes.
    fn work_until_done(&mut self, index: usize, stage: Stage, cost: Duration) -> bool {
        let slot = &mut self.slots[index];
        if cost.is_zero() {
            slot.stage = Stage::Idle;
            return false;
        }
        let charge = self.hosts[slot.host].clock.charge(self.now, cost);
        slot.counters.busy += charge.busy;
        slot.counters.throttled += charge.throttled;
        if charge.finish == self.now {
            slot.stage = Stage::Idle;
            return false;
        }
        slot.stage = stage;
        self.wakeups.set(index, charge.finish.as_nanos());
        true
    }

    /// Runs the node on what it has worked for, and charges what it sends.
    fn execute(&mut self, index: usize, work: Work) {
        let slot = &mut self.slots[index];
        let due = slot.is_due(self.now);
        let node = slot.node.as_mut().expect("a node that works is there");
        let id = NodeId(index as u32);
        let mut cost = Duration::ZERO;
        if due {
            slot.counters.timeouts += 1;
            self.net.trace.timeout(self.now, id);
            if work != Work::Timeout {
                cost += self.cost.timeout(node);
            }
        }
        self.outbox.reset(self.net.address(index));
        match work {
            Work::Timeout => pump(node, self.now, Input::Timeout, &mut self.outbox),
            Work::Command => {
                slot.counters.commands += 1;
                self.net.trace.command(self.now, id);
                let command = slot.command.take().expect("the command that is worked on");
                pump(node, self.now, Input::Command(command), &mut self.outbox);
            }
            Work::Message(flight) => {
                slot.counters.delivered += 1;
                let (peer, local) = self.net.ends_of(flight);
                self.net.note(self.now, Fate::Delivered, flight, local);
                let bytes = self.net.flights.bytes(flight);
                pump(
                    node,
                    self.now,
                    Input::Message(Message { flow: Flow { local, peer }, bytes }),
                    &mut self.outbox,
                );
                self.net.delivered(flight);
            }
        }
        while let Some(event) = node.poll_event() {
            self.events.push_back((self.now, id, event));
        }
        slot.deadline = node.next_deadline();
        slot.counters.send_refused += self.outbox.refused();
        for (to, bytes) in self.outbox.letters() {
            cost += self.cost.send(node, bytes);
            slot.unsent.push((to, self.net.flights.add(index as u32, bytes)));
        }
        if self.events.len() > self.limits.events_max {
            self.stop(Capacity::Events { max: self.limits.events_max });
        }
        if !self.work_until_done(index, Stage::After, cost) {
            self.flush(index);
        }
    }

    /// What the node made leaves it.
    fn flush(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.stage = Stage::Idle;
        let mut over = None;
        for (to, flight) in slot.unsent.drain(..) {
            slot.counters.sent += 1;
            if let Err(capacity) = self.net.send(self.now, flight, to) {
                over = Some(capacity);
            }
        }
        if let Some(capacity) = over {
            self.stop(capacity);
        }
    }
}

/// Faults.
impl<N: Node, C: CostModel<N>> Sim<N, C> {
    pub(crate) fn inflict(&mut self, fault: Fault<N>) -> Result<(), Capacity> {
        self.net.trace.fault(self.now, fault.note());
        match fault {
            Fault::Crash(id) => self.crash(id),
            Fault::Restart(id, node) => self.restart(id, *node),
            Fault::Pause(id) => self.pause(id),
            Fault::Resume(id) => self.resume(id),
            Fault::Partition { number, a, b, one_way } => {
                return self.net.partitions.start(number, &a, &b, one_way);
            }
            Fault::Heal(number) => self.net.partitions.heal(number),
            Fault::Link { from, to, model } => self.net.disturb_link((from.number(), to.number()), model),
            Fault::AllLinks(model) => self.net.disturb_all_links(model),
            Fault::Cpu(host, cpu) => self.hosts[host.number() as usize].set_cpu(cpu),
            Fault::HealAll => {
                self.net.heal_all();
                self.hosts.iter_mut().filter(|host| host.disturbed).for_each(|host| host.set_cpu(None));
                for node in 0..self.slots.len() as u32 {
                    self.resume(NodeId(node));
                }
            }
        }
        Ok(())
    }

    fn crash(&mut self, id: NodeId) {
        let index = id.number() as usize;
        if self.slots[index].life != Life::Removed {
            self.empty(index, Life::Down);
        }
    }

    fn restart(&mut self, id: NodeId, node: N) {
        let index = id.number() as usize;
        if self.slots[index].life == Life::Removed {
            return;
        }
        self.empty(index, Life::Down);
        let slot = &mut self.slots[index];
        slot.life = Life::Up;
        slot.deadline = node.next_deadline();
        slot.node = Some(node);
        self.serve(index);
    }

    fn pause(&mut self, id: NodeId) {
        let index = id.number() as usize;
        let slot = &mut self.slots[index];
        if slot.life == Life::Up {
            let busy = slot.stage != Stage::Idle;
            let left = busy.then(|| Instant::from_nanos(self.wakeups.get(index)) - self.now);
            slot.life = Life::Paused { left };
            self.wakeups.set(index, NEVER);
        }
    }

    fn resume(&mut self, id: NodeId) {
        let index = id.number() as usize;
        let slot = &mut self.slots[index];
        if let Life::Paused { left } = slot.life {
            slot.life = Life::Up;
            match left {
                Some(left) => self.wakeups.set(index, (self.now + left).as_nanos()),
                None => self.serve(index),
            }
        }
    }

    /// Takes the node and all that it held out of its slot.
    pub(crate) fn empty(&mut self, index: usize, life: Life) -> Option<N> {
        let slot = &mut self.slots[index];
        slot.life = life;
        slot.deadline = None;
        slot.counters.commands_lost += slot.commands.len() as u64 + u64::from(slot.command.is_some());
        slot.commands.clear();
        slot.command = None;
        slot.counters.unsent += slot.unsent.len() as u64;
        for (_, flight) in slot.unsent.drain(..) {
            self.net.flights.release(flight);
        }
        while let Some(flight) = held(slot) {
            slot.counters.down += 1;
            self.net.drop_at(self.now, flight, DropReason::Down);
        }
        slot.stage = Stage::Idle;
        self.wakeups.set(index, NEVER);
        slot.node.take()
    }
}

/// Takes the next datagram that the node holds: the one that it works on, then those in its queue.
fn held<N: Node>(slot: &mut Slot<N>) -> Option<FlightId> {
    match std::mem::replace(&mut slot.stage, Stage::Idle) {
        Stage::Before(Work::Message(flight)) => Some(flight),
        Stage::Idle | Stage::After | Stage::Before(Work::Timeout | Work::Command) => slot.queue.pop(),
    }
}
