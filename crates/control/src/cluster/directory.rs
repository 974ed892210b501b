//! The subscribers in memory, shared by the proxies of a process.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use busyhour_roles::auth::Subscribers;
use busyhour_sip::value::Ha1;

/// Every subscriber of one realm, for synchronous look-ups. Clones share one table.
#[derive(Clone, Default)]
pub struct Directory(Arc<RwLock<HashMap<Box<[u8]>, Ha1>>>);

impl Directory {
    /// A directory of these users.
    pub fn of(users: impl IntoIterator<Item = (String, Ha1)>) -> Self {
        let directory = Directory::default();
        directory.replace(users);
        directory
    }

    /// Puts these users in the place of all that were there.
    pub fn replace(&self, users: impl IntoIterator<Item = (String, Ha1)>) {
        let users =
            users.into_iter().map(|(name, ha1)| (name.into_bytes().into_boxed_slice(), ha1)).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = users;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Subscribers for Directory {
    fn ha1(&self, username: &[u8]) -> Option<Ha1> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(username).copied()
    }
}
