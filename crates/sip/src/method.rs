//! Request methods.

use std::fmt;

macro_rules! methods {
    ($($variant:ident = $text:literal, $doc:literal;)*) => {
        /// A request method. Methods are case-sensitive (RFC 3261 section 7.1).
        #[derive(Copy, Clone, PartialEq, Eq, Hash)]
        pub enum Method<'a> {
            $(#[doc = $doc] $variant,)*
            /// A method that this element knows nothing special about.
            Extension(&'a [u8]),
        }

        impl<'a> Method<'a> {
            /// The method that a token names.
            pub fn from_token(token: &'a [u8]) -> Self {
                match token {
                    $($text => Method::$variant,)*
                    other => Method::Extension(other),
                }
            }

            /// The method as it stands in a message.
            pub fn as_bytes(&self) -> &'a [u8] {
                match self {
                    $(Method::$variant => $text,)*
                    Method::Extension(token) => token,
                }
            }
        }
    };
}

methods! {
    Invite = b"INVITE", "RFC 3261 section 13.";
    Ack = b"ACK", "RFC 3261 section 13.";
    Bye = b"BYE", "RFC 3261 section 15.";
    Cancel = b"CANCEL", "RFC 3261 section 9.";
    Register = b"REGISTER", "RFC 3261 section 10.";
    Options = b"OPTIONS", "RFC 3261 section 11.";
    Info = b"INFO", "RFC 6086.";
    Message = b"MESSAGE", "RFC 3428.";
    Notify = b"NOTIFY", "RFC 6665.";
    Prack = b"PRACK", "RFC 3262.";
    Publish = b"PUBLISH", "RFC 3903.";
    Refer = b"REFER", "RFC 3515.";
    Subscribe = b"SUBSCRIBE", "RFC 6665.";
    Update = b"UPDATE", "RFC 3311.";
}

impl fmt::Debug for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
