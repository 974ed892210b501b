//! SIP on the wire (RFC 3261 and its family): a lazy parser over the receive buffer, edits that copy a message once,
//! responses made from requests, URIs, digest authentication, and the transaction machines. No I/O, no allocation
//! while parsing.
//!
//! [`Message::parse`] finds the start line and the spans of the headers in one pass; a value is parsed when it is asked
//! for. What is wrong with a message is split in two: what cannot be understood at all is a [`ParseError`] and is
//! dropped; what can be answered is a [`Defect`], with the status that the answer carries.
#![forbid(unsafe_code)]

mod chars;
mod edit;
mod header;
mod message;
mod method;
mod reply;
pub mod transaction;
mod validate;
pub mod value;
mod write;

pub use edit::{Edits, TooLong};
pub use header::{Header, HeaderName};
pub use message::{Element, HEADERS_MAX, MESSAGE_BYTES_MAX, Message, ParseError, StartLine};
pub use method::Method;
pub use reply::{Reply, reason_phrase};
pub use validate::{Defect, Essentials};
pub use write::Writer;
