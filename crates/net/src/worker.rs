//! The worker: one thread runs one node over one socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use busyhour_engine::{Input, Instant, Node, pump};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::mmsg;
use crate::outbox::{Outbox, SocketOutlet};
use crate::receive::ReceiveBatch;
use crate::stats::Counters;
use crate::{Clock, CommandRefused, Commander, DriverStats, Inbox, UdpSocket, clock};

/// How a worker runs.
#[derive(Copy, Clone, Debug)]
pub struct WorkerOptions {
    /// The processor that the thread is pinned to; `None` leaves it to the scheduler.
    pub core: Option<usize>,
    /// The most datagrams of one system call, 1 to 128.
    pub batch_max: usize,
    /// The longest datagram that is received, in bytes. Longer ones are dropped and counted.
    pub datagram_max: usize,
    /// The most commands that can wait, for a worker that is not given an [`Inbox`].
    pub commands_max: usize,
    /// The most bytes that the node can queue to be sent within one input, rounded up to 256 KiB. Of messages shorter than
    /// 256 bytes it can queue one for each 256.
    pub send_bytes_max: usize,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions {
            core: None,
            batch_max: 64,
            datagram_max: 65_535,
            commands_max: 4_096,
            send_bytes_max: 8 << 20,
        }
    }
}

/// One thread that runs one node over one socket, as the order contract in the crate's documentation says.
pub struct Worker<N: Node, F> {
    side: NodeSide<N, F>,
    inbox: Inbox<N::Command>,
    receive: ReceiveBatch,
    clock: Clock,
    /// Whether the socket may have datagrams.
    readable: bool,
}

/// The node and where its output goes.
struct NodeSide<N, F> {
    node: N,
    on_event: F,
    outbox: Outbox,
    batch_max: usize,
    resources: Resources,
}

/// What the handle reads while the thread runs. Dropped with the worker, also when the node panics: the last figures are
/// then in the counters and the socket is closed, so that peers are refused rather than left without an answer.
struct Resources {
    socket: Arc<UdpSocket>,
    counters: Arc<Counters>,
}

impl Drop for Resources {
    fn drop(&mut self) {
        self.counters.rx_kernel_drops.set(mmsg::kernel_drops(&*self.socket).map_or(0, u64::from));
        self.counters.cpu_nanos.set(clock::nanos(clock_gettime(ClockId::ThreadCPUTime)));
    }
}

impl<N, F> Worker<N, F>
where
    N: Node + Send + 'static,
    N::Command: Send + 'static,
    F: FnMut(Instant, N::Event) + Send + 'static,
{
    /// Starts a worker with default options. `name` is the thread's name; tools show its first 15 bytes. `on_event` is
    /// called on the worker's thread and holds up its traffic as long as it runs.
    ///
    /// # Errors
    /// [`SpawnError`] when the process may have no more threads or files.
    pub fn spawn(
        name: &str,
        socket: UdpSocket,
        node: N,
        clock: Clock,
        on_event: F,
    ) -> Result<Handle<N>, SpawnError> {
        let options = WorkerOptions::default();
        let inbox = Inbox::new(options.commands_max).map_err(SpawnError::Files)?;
        Self::spawn_with(name, socket, node, clock, on_event, inbox, &options)
    }

    /// Starts a worker with an inbox that was made before it (see [`Inbox`]), and with options.
    ///
    /// # Errors
    /// [`SpawnError`] when the process may have no more threads, or the core cannot be used.
    ///
    /// # Panics
    /// When an option is out of its range.
    pub fn spawn_with(
        name: &str,
        socket: UdpSocket,
        node: N,
        clock: Clock,
        on_event: F,
        inbox: Inbox<N::Command>,
        options: &WorkerOptions,
    ) -> Result<Handle<N>, SpawnError> {
        assert!((1..=mmsg::BATCH_MAX).contains(&options.batch_max), "batch_max is 1 to {}", mmsg::BATCH_MAX);
        assert!((1..=65_535).contains(&options.datagram_max), "datagram_max is 1 to 65535 bytes");
        let counters = Arc::new(Counters::default());
        let socket = Arc::new(socket);
        let (local, weak, commander) = (socket.local_addr(), Arc::downgrade(&socket), inbox.commander());
        let (options, handle_counters) = (*options, Arc::clone(&counters));
        let (report, pinned) = sync_channel(1);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let outcome = options.core.map_or(Ok(()), pin);
            let usable = outcome.is_ok();
            // The spawning thread waits for exactly this one report.
            let _ = report.send(outcome);
            if !usable {
                return node;
            }
            let outbox = Outbox::new(
                options.send_bytes_max,
                options.batch_max,
                socket.is_wildcard(),
                Arc::clone(&counters),
            );
            let receive = ReceiveBatch::new(&socket, &options);
            let resources = Resources { socket, counters };
            let side = NodeSide { node, on_event, outbox, batch_max: options.batch_max, resources };
            Worker { side, inbox, receive, clock, readable: true }.run()
        });
        let thread = thread.map_err(SpawnError::Thread)?;
        match (pinned.recv(), options.core) {
            (Ok(Err(source)), Some(core)) => Err(SpawnError::Core { core, source }),
            _ => {
                Ok(Handle { thread: Some(thread), commander, socket: weak, counters: handle_counters, local })
            }
        }
    }

    fn run(mut self) -> N {
        loop {
            let stopping = self.inbox.must_stop();
            let more = self.turn(stopping);
            if stopping {
                return self.side.node;
            }
            if !more {
                self.sleep();
            }
        }
    }

    /// One turn, in the order that the crate's documentation promises. True when the socket may have more.
    fn turn(&mut self, stopping: bool) -> bool {
        let more = self.readable
            && !stopping
            && self.receive.receive(&self.side.resources.socket, &self.side.resources.counters);
        let now = self.clock.now();
        let mut commands = 0;
        // Bounded, so that commands that keep coming do not hold up messages.
        while commands < self.inbox.commands_max() {
            let Some(command) = self.inbox.take() else { break };
            self.side.pump(now, Input::Command(command));
            commands += 1;
        }
        if commands > 0 {
            self.side.resources.counters.commands.add(commands as u64);
        }
        for message in self.receive.messages() {
            self.side.pump(now, Input::Message(message));
        }
        self.receive.clear();
        if self.side.node.next_deadline().is_some_and(|at| at <= now) {
            self.side.pump(now, Input::Timeout);
        }
        self.side.settle(now);
        more
    }

    /// Waits for a datagram, a command, a stop or the node's next deadline, whichever is first.
    fn sleep(&mut self) {
        self.readable = true;
        let timeout = match self.side.node.next_deadline().map(|at| at.since(self.clock.now())) {
            Some(left) if left.is_zero() => return,
            // Centuries do not fit into a kernel time on every machine; a year does.
            Some(left) => Some(Timespec {
                tv_sec: left.as_secs().min(31_536_000) as _,
                tv_nsec: left.subsec_nanos() as _,
            }),
            None => None,
        };
        if !self.inbox.fall_asleep() {
            return;
        }
        let socket = &*self.side.resources.socket;
        let mut files =
            [PollFd::new(socket, PollFlags::IN), PollFd::from_borrowed_fd(self.inbox.bell(), PollFlags::IN)];
        let result = poll(&mut files, timeout.as_ref());
        let rung = !files[1].revents().is_empty();
        // After an interruption the flags say nothing: look.
        self.readable = result.is_err() || !files[0].revents().is_empty();
        self.inbox.wake_up(rung);
        self.side.resources.counters.wakeups.add(1);
    }
}

impl<N: Node, F: FnMut(Instant, N::Event)> NodeSide<N, F> {
    /// Gives the node one input; when that fills a batch, settles.
    fn pump(&mut self, now: Instant, input: Input<'_, N::Command>) {
        pump(&mut self.node, now, input, &mut self.outbox);
        if self.outbox.len() >= self.batch_max {
            self.settle(now);
        }
    }

    /// Hands out all events, then sends all messages: never the other way round.
    fn settle(&mut self, now: Instant) {
        let mut events = 0;
        while let Some(event) = self.node.poll_event() {
            (self.on_event)(now, event);
            events += 1;
        }
        if events > 0 {
            self.resources.counters.events.add(events);
        }
        if self.outbox.len() > 0 {
            self.outbox.flush(&mut SocketOutlet(&self.resources.socket));
        }
    }
}

/// Pins the calling thread.
fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)?;
    Ok(())
}

/// A running worker. Dropping it stops the worker and waits for its end.
pub struct Handle<N: Node> {
    /// `None` once joined.
    thread: Option<JoinHandle<N>>,
    commander: Commander<N::Command>,
    /// Held by the worker alone: the socket closes when the worker ends.
    socket: Weak<UdpSocket>,
    counters: Arc<Counters>,
    local: SocketAddr,
}

impl<N: Node> Handle<N> {
    /// Queues a command for the node: see [`Commander::command`].
    ///
    /// # Errors
    /// [`CommandRefused`] when the channel is full (counted) or the worker has ended.
    pub fn command(&self, command: N::Command) -> Result<(), CommandRefused<N::Command>> {
        self.commander.command(command)
    }

    /// A sending end of the command channel, for others.
    pub fn commander(&self) -> Commander<N::Command> {
        self.commander.clone()
    }

    /// The address of the worker's socket, with the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What the worker has done so far. Each figure is exact by itself; a set of them may be a turn apart.
    pub fn stats(&self) -> DriverStats {
        let drops =
            self.socket.upgrade().and_then(|socket| mmsg::kernel_drops(&*socket)).map_or(0, u64::from);
        let cpu_nanos = self.thread.as_ref().and_then(mmsg::cpu_nanos).unwrap_or(0);
        let mut stats = self.counters.read();
        // Zero while the worker runs; final once it has ended and can no longer be asked.
        stats.rx_kernel_drops = stats.rx_kernel_drops.max(drops);
        stats.cpu_nanos = stats.cpu_nanos.max(cpu_nanos);
        stats.commands_refused = self.commander.refused();
        stats
    }

    /// Asks the worker to end. It handles the commands that were queued before, sends what they cause, and reads no more
    /// datagrams.
    pub fn stop(&self) {
        self.commander.stop();
    }

    /// True when the thread has ended: it was stopped, or its node panicked. The socket is then closed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the worker, waits for its end and gives the node back.
    ///
    /// # Panics
    /// With the panic of the node, when that is how the worker ended.
    pub fn join(mut self) -> N {
        self.stop();
        let thread = self.thread.take().expect("only this method and the drop after it take the thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<N: Node> Drop for Handle<N> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.stop();
        if thread.join().is_err() {
            tracing::error!(local = %self.local, "the worker had ended by a panic");
        }
    }
}

/// Why a worker could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The process may have no more threads.
    Thread(io::Error),
    /// The process may open no more files.
    Files(io::Error),
    /// The thread cannot be pinned to this core.
    Core {
        /// The core that was asked for, from 0.
        core: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Thread(source) => {
                write!(
                    f,
                    "cannot start a worker thread: {source}; raise the limit (`ulimit -u`) or start fewer"
                )
            }
            SpawnError::Files(source) => {
                write!(
                    f,
                    "cannot open a worker's eventfd: {source}; raise the limit (`ulimit -n`) or start fewer"
                )
            }
            SpawnError::Core { core, source } => write!(
                f,
                "cannot pin a worker to core {core}: {source}; choose one that `taskset -cp $$` lists, or none"
            ),
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpawnError::Thread(source) | SpawnError::Files(source) | SpawnError::Core { source, .. } => {
                Some(source)
            }
        }
    }
}
