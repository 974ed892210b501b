//! How the rest of the process reaches a worker: a bounded command channel and a doorbell for a worker that sleeps.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};

/// What both ends of a channel share.
struct Doorbell {
    /// Written to wake the worker from its sleep in `ppoll`.
    bell: OwnedFd,
    /// True from before the worker looks at the channel for the last time until it is awake again.
    asleep: AtomicBool,
    stop: AtomicBool,
    refused: AtomicU64,
}

impl Doorbell {
    /// Wakes the worker when it may be asleep. What the caller did before is seen by the worker before it sleeps again:
    /// either this fence comes after the worker's (and the swap sees `asleep`), or the worker's last look comes after it.
    fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            // The counter of an eventfd holds 2^64 − 2 rings: the write cannot fail for want of room.
            let written = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
            assert!(written.is_ok(), "the worker's eventfd takes a ring: {written:?}");
        }
    }
}

/// The receiving end of a command channel, to be given to a worker. Make it before the worker when workers command each
/// other: every [`Commander`] is then at hand before the first `on_event` needs it.
pub struct Inbox<C> {
    commands: Receiver<C>,
    commander: Commander<C>,
    commands_max: usize,
    /// The command that the worker found on its last look before sleeping.
    found: Option<C>,
}

impl<C> Inbox<C> {
    /// A channel for at most `commands_max` waiting commands.
    ///
    /// # Errors
    /// When the process may open no more files.
    ///
    /// # Panics
    /// When `commands_max` is 0.
    pub fn new(commands_max: usize) -> io::Result<Self> {
        assert!(commands_max > 0, "a command channel has room for one command at least");
        let (sender, commands) = sync_channel(commands_max);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let doorbell = Arc::new(Doorbell {
            bell,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        });
        let commander = Commander { commands: sender, doorbell };
        Ok(Inbox { commands, commander, commands_max, found: None })
    }

    /// A sending end.
    pub fn commander(&self) -> Commander<C> {
        self.commander.clone()
    }

    /// The most commands that can wait. Taking so many takes all that waited when the first of them was taken.
    pub(crate) fn commands_max(&self) -> usize {
        self.commands_max
    }

    /// The command that waits longest.
    pub(crate) fn take(&mut self) -> Option<C> {
        if let Some(found) = self.found.take() {
            return Some(found);
        }
        // An error means empty: the inbox has a sender of its own, so the channel is never disconnected.
        self.commands.try_recv().ok()
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.commander.doorbell.stop.load(Ordering::Acquire)
    }

    /// Announces that the worker goes to sleep. False when it must not: a command waits, or it has to stop.
    pub(crate) fn fall_asleep(&mut self) -> bool {
        let doorbell = &self.commander.doorbell;
        doorbell.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.found = self.commands.try_recv().ok();
        if self.found.is_some() || self.must_stop() {
            self.wake_up(false);
            return false;
        }
        true
    }

    /// Announces that the worker is awake; `rung` says that the bell was found readable.
    pub(crate) fn wake_up(&self, rung: bool) {
        self.commander.doorbell.asleep.store(false, Ordering::Relaxed);
        if rung {
            // Somebody may ring once more after this: the next sleep then ends at once, and that is all.
            let _ = rustix::io::read(&self.commander.doorbell.bell, &mut [0u8; 8]);
        }
    }

    /// What to poll while asleep.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.commander.doorbell.bell.as_fd()
    }
}

/// The sending end of a command channel. Cheap to clone; never blocks.
pub struct Commander<C> {
    commands: SyncSender<C>,
    doorbell: Arc<Doorbell>,
}

impl<C> Clone for Commander<C> {
    fn clone(&self) -> Self {
        Commander { commands: self.commands.clone(), doorbell: Arc::clone(&self.doorbell) }
    }
}

impl<C> Commander<C> {
    /// Queues a command for the worker's node and wakes the worker when it sleeps. Commands of one sender are handled
    /// in the order in which they were sent.
    ///
    /// # Errors
    /// [`CommandRefused`], with the command, when the channel is full (counted) or the worker has ended.
    pub fn command(&self, command: C) -> Result<(), CommandRefused<C>> {
        match self.commands.try_send(command) {
            Ok(()) => {
                self.doorbell.ring();
                Ok(())
            }
            Err(TrySendError::Full(command)) => {
                self.doorbell.refused.fetch_add(1, Ordering::Relaxed);
                Err(CommandRefused::Full(command))
            }
            Err(TrySendError::Disconnected(command)) => Err(CommandRefused::Stopped(command)),
        }
    }

    /// Commands refused because the channel was full, from all senders.
    pub(crate) fn refused(&self) -> u64 {
        self.doorbell.refused.load(Ordering::Relaxed)
    }

    /// Asks the worker to end after its current turn and the commands that are already queued.
    pub(crate) fn stop(&self) {
        self.doorbell.stop.store(true, Ordering::Release);
        self.doorbell.ring();
    }
}

/// Why a command was not queued; gives it back.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum CommandRefused<C> {
    /// As many commands wait as may wait.
    Full(C),
    /// The worker has ended.
    Stopped(C),
}

impl<C> fmt::Debug for CommandRefused<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandRefused::Full(_) => f.write_str("Full(..)"),
            CommandRefused::Stopped(_) => f.write_str("Stopped(..)"),
        }
    }
}

impl<C> fmt::Display for CommandRefused<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommandRefused::Full(_) => "the worker has as many commands waiting as may wait; try again later",
            CommandRefused::Stopped(_) => "the worker has ended",
        })
    }
}

impl<C> std::error::Error for CommandRefused<C> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(inbox: &Inbox<u32>) -> u64 {
        let mut count = [0u8; 8];
        rustix::io::read(inbox.bell(), &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    #[test]
    fn the_bell_rings_once_for_a_sleeper_and_never_for_a_worker_awake() {
        let mut inbox = Inbox::new(8).unwrap();
        let commander = inbox.commander();
        commander.command(1).unwrap();
        assert_eq!(rings(&inbox), 0);
        assert_eq!(inbox.take(), Some(1));
        assert!(inbox.fall_asleep());
        commander.command(2).unwrap();
        commander.command(3).unwrap();
        assert_eq!(rings(&inbox), 1);
        inbox.wake_up(true);
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some(2), Some(3), None));
    }

    #[test]
    fn a_worker_does_not_sleep_on_a_command_and_keeps_its_order() {
        let mut inbox = Inbox::new(8).unwrap();
        let commander = inbox.commander();
        commander.command(1).unwrap();
        commander.command(2).unwrap();
        assert!(!inbox.fall_asleep());
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some(1), Some(2), None));
        commander.stop();
        assert!(!inbox.fall_asleep());
    }

    #[test]
    fn a_full_channel_gives_the_command_back_and_counts() {
        let inbox = Inbox::new(1).unwrap();
        let commander = inbox.commander();
        commander.command(1).unwrap();
        assert_eq!(commander.command(2), Err(CommandRefused::Full(2)));
        assert_eq!(commander.refused(), 1);
        drop(inbox);
        assert_eq!(commander.command(3), Err(CommandRefused::Stopped(3)));
    }
}
