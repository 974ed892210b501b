//! The controller: a cluster in this process, and what it keeps on disk.
//!
//! - [`cluster`]: balancers and proxies on sockets, and the membership between them.
//! - [`data_dir`]: the directory that holds all that a cluster keeps, and the lock that one running cluster has on it.
//! - [`subscribers`]: who may register and call, in an embedded SQLite database.
//! - [`secret`]: passwords, and the secret that a cluster's nonces are made with.
//!
//! The database holds HA1 values, never passwords. An HA1 is worth as much as the password inside its realm, so the
//! directory is closed to other users of the machine (mode 0700) and the database file too (0600).

pub mod cluster;
pub mod data_dir;
pub mod location;
pub mod secret;
pub mod subscribers;
