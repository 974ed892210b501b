//! Route information of a request (RFC 3261 section 16.4), and the cookie that a Record-Route carries.

use busyhour_engine::HashSeed;
use busyhour_sip::value::{NameAddr, SipUri, Uri};
use busyhour_sip::{Edits, Element, HeaderName, Message};

use super::Config;

/// The parameter of a Record-Route of ours that holds the cookie.
const COOKIE_PARAM: &str = "bh";

/// What the Route headers of a request say, after those that name this proxy are taken away.
#[derive(Copy, Clone, Debug)]
pub(super) struct Routing<'a> {
    /// The Request-URI as it was before a strict router moved it.
    pub(super) uri: &'a [u8],
    /// A strict router had put this proxy into the Request-URI.
    strict_before_us: bool,
    /// How many Route values on top name this proxy.
    popped: usize,
    /// The next Route value.
    pub(super) next: Option<Element<'a>>,
    /// A Route of ours was there, with the right cookie: a dialog that this cluster helped to set up.
    pub(super) in_dialog: bool,
}

impl<'a> Routing<'a> {
    pub(super) fn of(config: &Config, key: HashSeed, message: &Message<'a>, call_id: &[u8]) -> Self {
        let mut routing = Routing {
            uri: message.request_uri(),
            strict_before_us: false,
            popped: 0,
            next: None,
            in_dialog: false,
        };
        let total =
            if message.has(HeaderName::Route) { message.elements(HeaderName::Route).count() } else { 0 };
        if total == 0 {
            return routing;
        }
        let expected = cookie(key, call_id);
        let is_ours = |uri: &SipUri<'_>| config.is_own_address(uri);
        let is_good = |uri: &SipUri<'_>| uri.params.value(COOKIE_PARAM) == Some(&expected);
        let mut left = total;
        if let Ok(Uri::Sip(uri)) = Uri::parse(routing.uri)
            && is_ours(&uri)
            && uri.is_loose_router()
            && let Some(last) = message.elements(HeaderName::Route).nth(total - 1)
            && let Ok(address) = NameAddr::parse(last.text)
        {
            routing.uri = address.uri;
            routing.strict_before_us = true;
            routing.in_dialog = is_good(&uri);
            left -= 1;
        }
        for element in message.elements(HeaderName::Route).take(left) {
            let uri = NameAddr::parse(element.text).ok().and_then(|a| a.parse_uri().ok()?.sip());
            match uri {
                Some(uri) if is_ours(&uri) || (is_good(&uri) && routing.next.is_none()) => {
                    routing.popped += 1;
                    routing.in_dialog |= is_good(&uri);
                }
                Some(_) | None => {
                    routing.next = Some(element);
                    break;
                }
            }
        }
        routing
    }

    /// Takes out of the message what was for this proxy.
    pub(super) fn apply(&self, edits: &mut Edits<'_, '_>) {
        for _ in 0..self.popped {
            edits.pop_route();
        }
        if self.strict_before_us {
            edits.set_request_uri(self.uri);
            edits.remove_last_route();
        }
    }

    /// Whether the Request-URI was changed already.
    pub(super) fn moved_uri(&self) -> bool {
        self.strict_before_us
    }
}

/// The cookie of a dialog: a MAC of its Call-ID. It shows any proxy of the cluster that a request with this Route belongs
/// to a dialog which began with an authenticated INVITE, so that a Route made up by somebody opens no relay.
pub(super) fn cookie(key: HashSeed, call_id: &[u8]) -> [u8; 16] {
    super::hex(key.hash(&[b"dialog", call_id]))
}

/// The value of the Record-Route of ours, in parts.
pub(super) fn push_record_route(edits: &mut Edits<'_, '_>, address: &[u8], key: HashSeed, call_id: &[u8]) {
    edits.push_record_route(&[
        b"<sip:",
        address,
        b";lr;",
        COOKIE_PARAM.as_bytes(),
        b"=",
        &cookie(key, call_id),
        b">",
    ]);
}
