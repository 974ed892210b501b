//! Why a command ends with another status than 0.

use std::fmt;
use std::io;
use std::process::ExitCode;

use busyhour_control::data_dir::DataDirError;
use busyhour_control::subscribers::{BadInput, StoreError};

use busyhour_lab::input::InputError;

/// Sorted by whose fault it is: that decides the exit status.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What the user wrote is wrong: exit status 2.
    Input(anyhow::Error),
    /// It was well asked, but did not succeed: exit status 1.
    Run(anyhow::Error),
    /// The experiment ran, and its verdict is not a pass; that has been shown: exit status 1.
    Verdict,
    /// Nobody reads the output any more, as in `busyhour user list | head`: not worth a message.
    OutputClosed,
}

impl Failure {
    /// The status that the process ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Input(_) => ExitCode::from(2),
            Failure::Run(_) | Failure::Verdict => ExitCode::from(1),
            Failure::OutputClosed => ExitCode::SUCCESS,
        }
    }

    /// An error while writing to standard output.
    pub(crate) fn of_output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Run(anyhow::anyhow!("cannot write to standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Input(error) | Failure::Run(error) => write!(f, "{error}"),
            Failure::Verdict => f.write_str("the verdict is not a pass"),
            Failure::OutputClosed => f.write_str("nobody reads the output"),
        }
    }
}

impl From<InputError> for Failure {
    fn from(mistake: InputError) -> Self {
        Failure::Input(mistake.into())
    }
}

impl From<BadInput> for Failure {
    fn from(input: BadInput) -> Self {
        Failure::Input(input.into())
    }
}

impl From<DataDirError> for Failure {
    fn from(error: DataDirError) -> Self {
        Failure::Run(error.into())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Run(error.into())
    }
}
