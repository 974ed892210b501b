//! What carries the messages of a run.

/// What carries the messages of a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// Real sockets, in real time.
    Sockets,
    /// The simulator, in virtual time.
    Simulator,
}

impl Driver {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Sockets => "sockets",
            Driver::Simulator => "simulator",
        }
    }

    /// What a person reads.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Driver::Sockets => "real sockets",
            Driver::Simulator => "simulator, virtual time",
        }
    }
}
