//! What must not leak: passwords and the cluster's secret. Neither shows its content in `Debug`.

use std::fmt;

use busyhour_sip::value::Ha1;

use crate::subscribers::{BadInput, Domain, UserName};

/// The longest password accepted, in bytes.
pub const PASSWORD_LEN_MAX: usize = 1024;

/// A subscriber's password: 1 to 1024 bytes of UTF-8 without control characters. It is hashed and forgotten, never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<str>);

impl Password {
    /// Takes `text` as it is; spaces count.
    pub fn parse(text: &str) -> Result<Self, BadInput> {
        if text.is_empty() || text.len() > PASSWORD_LEN_MAX {
            return Err(BadInput::new(
                format!("a password of 1 to {PASSWORD_LEN_MAX} bytes"),
                format!("one of {} bytes", text.len()),
            ));
        }
        if text.chars().any(char::is_control) {
            return Err(BadInput::new(
                "a password without control characters",
                "one with a tab, a line break or another control character",
            ));
        }
        Ok(Password(text.into()))
    }

    /// What is stored of the password: the credentials of `user` in `realm` (RFC 7616 section 3.4.2, RFC 8760).
    pub fn ha1(&self, user: &UserName, realm: &Domain) -> Ha1 {
        Ha1::of(user.as_str(), realm.as_str(), &self.0)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The key that the nonces of a cluster are authenticated with: 32 bytes from the operating system, made once per data
/// directory, so that a nonce given before a restart is still good after it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret(pub(crate) [u8; 32]);

impl ClusterSecret {
    /// A fresh secret from the operating system's generator.
    ///
    /// # Panics
    /// When the operating system has no random bytes: a guessable secret would let anyone forge nonces.
    pub fn generate() -> Self {
        let mut bytes = [0; 32];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        // The kernel fills requests of up to 256 bytes whole, and a signal cannot interrupt them.
        assert_eq!(filled, Ok(bytes.len()), "the operating system must supply random bytes");
        ClusterSecret(bytes)
    }

    /// The secret that these bytes are: for simulations, which must be the same every time.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        ClusterSecret(bytes)
    }

    /// The key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn ha1(user: &str, realm: &str, password: &str) -> Ha1 {
        Password::parse(password)
            .unwrap()
            .ha1(&UserName::parse(user).unwrap(), &Domain::parse(realm).unwrap())
    }

    /// The expected values are those of `printf 'user:realm:password' | md5sum` and `sha256sum`.
    #[test]
    fn ha1_is_the_hash_of_user_realm_and_password() {
        let ha1 = ha1("alice", "busyhour.example", "wonder land");
        assert_eq!(hex(&ha1.md5), "f89d7cb947f05afc71f6cad206da3900");
        assert_eq!(hex(&ha1.sha256), "3ff42c8db99524f0e13b4c1f2f02ec7f34363841ad2ee887ad8817bd52cd24c8");
    }

    #[test]
    fn nothing_secret_shows_in_debug_output() {
        let shown = format!(
            "{:?} {:?} {:?}",
            Password::parse("hunter2").unwrap(),
            ha1("alice", "busyhour.example", "hunter2"),
            ClusterSecret::generate()
        );
        assert_eq!(shown, "Password(…) Ha1(…) ClusterSecret(…)");
    }

    #[test]
    fn two_secrets_differ() {
        assert_ne!(ClusterSecret::generate(), ClusterSecret::generate());
    }

    #[test]
    fn passwords_have_limits() {
        assert!(Password::parse("").is_err());
        assert!(Password::parse(&"x".repeat(PASSWORD_LEN_MAX)).is_ok());
        assert!(Password::parse(&"x".repeat(PASSWORD_LEN_MAX + 1)).is_err());
        assert!(Password::parse("two\nlines").is_err());
        let message = Password::parse("tab\t").unwrap_err().to_string();
        assert!(!message.contains("tab\t"), "a password must not appear in its own error: {message}");
    }
}
