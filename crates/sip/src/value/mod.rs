//! Header values: parsed from their bytes when somebody asks. A fold counts as white space everywhere.

mod cseq;
mod digest;
mod list;
mod name_addr;
mod uri;
mod via;

pub use cseq::{CSeq, delta_seconds};
pub use digest::{Algorithm, Challenge, Credentials, Ha1, TooFewParts};
pub use list::{Param, Params, quoted_text, split_list};
pub use name_addr::NameAddr;
pub use uri::{Host, Scheme, SipUri, Uri, unescape};
pub use via::Via;

/// A value that is not what its grammar says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Malformed;
