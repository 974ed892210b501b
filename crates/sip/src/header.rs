//! Header names and where headers lie in a message.

macro_rules! header_names {
    ($($variant:ident = $text:literal $(/ $compact:literal)?;)*) => {
        /// A header name that some element looks at; everything else is `Other` and travels untouched.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each is named as on the wire")]
        pub enum HeaderName {
            $($variant,)*
            Other,
        }

        impl HeaderName {
            /// How many there are, `Other` included.
            pub const COUNT: usize = HeaderName::Other as usize + 1;

            /// The header that `name` stands for, in long or compact form, in any case.
            pub fn from_bytes(name: &[u8]) -> Self {
                if let &[letter] = name {
                    return match letter.to_ascii_lowercase() {
                        $($($compact => HeaderName::$variant,)?)*
                        _ => HeaderName::Other,
                    };
                }
                let candidate = BY_HASH[hash(name)];
                let text = candidate.as_str().as_bytes();
                if name == text || name.eq_ignore_ascii_case(text) { candidate } else { HeaderName::Other }
            }

            /// The long form; empty for `Other`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(HeaderName::$variant => $text,)*
                    HeaderName::Other => "",
                }
            }
        }

        /// The header whose long form has that hash, if any. No two have the same: the array could not be built then.
        static BY_HASH: [HeaderName; 256] = {
            let mut table = [HeaderName::Other; 256];
            $(
                let slot = hash($text.as_bytes());
                assert!(matches!(table[slot], HeaderName::Other), "two header names have the same hash");
                table[slot] = HeaderName::$variant;
            )*
            table
        };
    };
}

/// From length, first, middle and last letter, without case; below 256.
const fn hash(name: &[u8]) -> usize {
    let n = name.len();
    if n == 0 {
        return 0;
    }
    let (first, middle, last) = (name[0] | 0x20, name[n / 2] | 0x20, name[n - 1] | 0x20);
    (first as usize * FIRST + middle as usize * MIDDLE + last as usize * LAST + n) & 255
}

// Found by trial: they keep the names below apart.
const FIRST: usize = 1;
const MIDDLE: usize = 3;
const LAST: usize = 21;

header_names! {
    Via = "Via" / b'v';
    From = "From" / b'f';
    To = "To" / b't';
    CallId = "Call-ID" / b'i';
    CSeq = "CSeq";
    MaxForwards = "Max-Forwards";
    Route = "Route";
    RecordRoute = "Record-Route";
    Contact = "Contact" / b'm';
    ContentLength = "Content-Length" / b'l';
    ContentType = "Content-Type" / b'c';
    ContentEncoding = "Content-Encoding" / b'e';
    Expires = "Expires";
    MinExpires = "Min-Expires";
    Authorization = "Authorization";
    ProxyAuthorization = "Proxy-Authorization";
    WwwAuthenticate = "WWW-Authenticate";
    ProxyAuthenticate = "Proxy-Authenticate";
    AuthenticationInfo = "Authentication-Info";
    Require = "Require";
    ProxyRequire = "Proxy-Require";
    Supported = "Supported" / b'k';
    Unsupported = "Unsupported";
    Allow = "Allow";
    Path = "Path";
    ServiceRoute = "Service-Route";
    MaxBreadth = "Max-Breadth";
    RetryAfter = "Retry-After";
    ResourcePriority = "Resource-Priority";
    Timestamp = "Timestamp";
    Date = "Date";
    UserAgent = "User-Agent";
    Server = "Server";
    Event = "Event" / b'o';
    Subject = "Subject" / b's';
    ReferTo = "Refer-To" / b'r';
    Warning = "Warning";
}

/// Where one header line (with its folds) lies: offsets into the message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which header it is.
    pub name: HeaderName,
    /// Start of the name.
    pub(crate) start: u16,
    /// Start of the value, white space skipped.
    pub(crate) value_start: u16,
    /// End of the value, white space dropped.
    pub(crate) value_end: u16,
    /// Start of what follows the header: past its line end.
    pub(crate) end: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_compact_and_odd_case_names_are_recognised() {
        for (text, name) in [
            ("Via", HeaderName::Via),
            ("v", HeaderName::Via),
            ("V", HeaderName::Via),
            ("cAlL-iD", HeaderName::CallId),
            ("i", HeaderName::CallId),
            ("www-authenticate", HeaderName::WwwAuthenticate),
            ("CSEQ", HeaderName::CSeq),
            ("k", HeaderName::Supported),
            ("Vib", HeaderName::Other),
            ("z", HeaderName::Other),
            ("", HeaderName::Other),
        ] {
            assert_eq!(HeaderName::from_bytes(text.as_bytes()), name, "{text}");
        }
    }
}
