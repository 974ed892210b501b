//! Who may register and call: the subscribers of a cluster, in an embedded SQLite database.
//!
//! [`SubscriberStore`] is one connection to `<data>/subscribers.db`. Any number of processes may have one at the same
//! time; each change is one transaction, on disk when the call returns, so that a process killed at any moment loses
//! nothing that it acknowledged. A running cluster polls [`SubscriberStore::changed_since`] and loads everything anew when
//! something changed; the packet path never touches the database.

mod error;
mod names;
mod schema;
mod store;

pub use error::StoreError;
pub use names::{BadInput, Domain, NumberRange, PasswordTemplate, RANGE_LEN_MAX, USER_LEN_MAX, UserName};
pub use store::{IfExists, Provisioned, Subscriber, SubscriberStore, Token};
