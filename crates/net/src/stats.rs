//! What a worker counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Defines the worker's counters twice, as atomics and as plain numbers, so that neither list can miss one.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that only the worker writes. They have their cache lines to themselves: two, because processors
        /// fetch lines in pairs.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// What a worker has done since it was spawned. Every field only grows.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct DriverStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Commands refused because the command channel was full.
            pub commands_refused: u64,
        }

        impl Counters {
            /// The counters as they are, each by itself; what the worker does not count is zero.
            pub(crate) fn read(&self) -> DriverStats {
                DriverStats { $($name: self.$name.get(),)* ..DriverStats::default() }
            }
        }
    };
}

counters! {
    /// Datagrams that were given to the node.
    rx_datagrams,
    /// Their payload, in bytes.
    rx_bytes,
    /// Receive calls that returned at least one datagram.
    rx_batches,
    /// Datagrams that the kernel dropped because the receive buffer was full or the checksum wrong; modulo 2^32.
    rx_kernel_drops,
    /// Datagrams dropped because they were longer than `datagram_max`.
    rx_truncated,
    /// Receive calls that failed, and datagrams without a usable source address.
    rx_errors,
    /// Datagrams that the kernel took.
    tx_datagrams,
    /// Their payload, in bytes.
    tx_bytes,
    /// Send calls that took at least one datagram.
    tx_batches,
    /// Messages refused to the node as `Full`: the send arena had no room, or the message cannot be a datagram.
    tx_refused,
    /// Datagrams dropped because the kernel's send buffer stayed full.
    tx_dropped,
    /// Datagrams that the kernel would not send to their destination: no route, wrong address family, port 0, …
    tx_errors,
    /// Commands given to the node.
    commands,
    /// Events handed to `on_event`.
    events,
    /// How often the worker went to sleep and woke up.
    wakeups,
    /// CPU time of the worker's thread, user and system, in nanoseconds.
    cpu_nanos,
}

/// A number with one writer: adding is a load and a store, without a locked instruction.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
