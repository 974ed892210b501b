//! The canonical form of an address-of-record (RFC 3261 section 10.3 step 5).

use arrayvec::ArrayVec;
use busyhour_sip::Writer;
use busyhour_sip::value::{Host, SipUri, unescape};

/// The longest address-of-record, in bytes.
pub const AOR_LEN_MAX: usize = 256;

/// A canonical address-of-record: `user@domain`.
pub type Aor = ArrayVec<u8, AOR_LEN_MAX>;

/// The address-of-record that a URI names, in the domain that it names: escapes of the user part resolved, parameters
/// and port left out, a host name in lower case without a final dot, an IPv6 address in brackets. `None` for a URI
/// without a user part, or when the result would be longer than [`AOR_LEN_MAX`].
///
/// The scheme is left out, too: `sip:` and `sips:` of a user are one address-of-record (RFC 5630 section 4).
pub fn aor_of(uri: &SipUri<'_>) -> Option<Aor> {
    let mut host = [0; AOR_LEN_MAX];
    let len = match uri.host {
        Host::Ip(ip) => {
            let mut w = Writer::new(&mut host);
            w.put_ip(ip, true).finish()?
        }
        Host::Name(name) => {
            let name = name.strip_suffix(b".").unwrap_or(name);
            let room = host.get_mut(..name.len())?;
            room.copy_from_slice(name);
            room.make_ascii_lowercase();
            name.len()
        }
    };
    aor_in(uri, &host[..len])
}

/// The address-of-record of a URI's user in a given domain, whatever the URI's host says: for a proxy to whom its
/// address and its domains are names of one and the same. `domain` must be in canonical form.
pub fn aor_in(uri: &SipUri<'_>, domain: &[u8]) -> Option<Aor> {
    let mut aor: Aor = unescape(uri.user?)?;
    aor.try_push(b'@').ok()?;
    aor.try_extend_from_slice(domain).ok()?;
    Some(aor)
}

#[cfg(test)]
mod tests {
    use busyhour_sip::value::Uri;

    use super::*;

    fn of(text: &str) -> Option<String> {
        let aor = aor_of(&Uri::parse(text.as_bytes()).unwrap().sip().unwrap())?;
        Some(String::from_utf8(aor.to_vec()).unwrap())
    }

    #[test]
    fn one_form_for_all_ways_to_write_it() {
        for text in [
            "sip:alice@example.com",
            "sip:%61l%69ce@EXAMPLE.com",
            "sips:alice:secret@example.com.;transport=tcp",
            "sip:alice@example.com:5070?subject=x",
        ] {
            assert_eq!(of(text).as_deref(), Some("alice@example.com"), "{text}");
        }
        assert_eq!(of("sip:Alice@example.com").as_deref(), Some("Alice@example.com"), "users have case");
        assert_eq!(of("sip:a%40b@h").as_deref(), Some("a@b@h"));
        assert_eq!(of("sip:a@[2001:DB8::0:1]:5060").as_deref(), Some("a@[2001:db8::1]"));
        assert_eq!(of("sip:a@127.0.0.1").as_deref(), Some("a@127.0.0.1"));
    }

    #[test]
    fn what_names_nobody_is_none() {
        assert_eq!(of("sip:example.com"), None);
        let longest = format!("sip:{}@h", "u".repeat(AOR_LEN_MAX - 2));
        assert_eq!(of(&longest).map(|a| a.len()), Some(AOR_LEN_MAX));
        assert_eq!(of(&format!("sip:{}@h", "u".repeat(AOR_LEN_MAX - 1))), None);
        assert_eq!(of(&format!("sip:{}@h", "u".repeat(3 * AOR_LEN_MAX))), None);
    }

    #[test]
    fn a_domain_can_stand_in_for_the_host() {
        let uri = Uri::parse(b"sip:bob@127.0.0.1:5060").unwrap().sip().unwrap();
        assert_eq!(aor_in(&uri, b"example.com").unwrap().as_slice(), b"bob@example.com");
    }
}
