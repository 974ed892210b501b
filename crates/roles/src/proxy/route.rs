//! Route information of a request (RFC 3261 section 16.4), and the cookie that a Record-Route carries.

use busyhour_engine::HashSeed;
use busyhour_sip::value::{Host, NameAddr, SipUri, Uri};
use busyhour_sip::{Edits, Element, Essentials, HeaderName, Message};

use super::Config;

/// The parameter that holds a cookie of ours, in a Record-Route and in a Via.
pub(super) const COOKIE_PARAM: &str = "bh";

/// What the Route headers of a request say, after those that name this proxy are taken away.
#[derive(Copy, Clone, Debug)]
pub(super) struct Routing<'a> {
    /// The Request-URI as it was before a strict router moved it.
    pub(super) uri: &'a [u8],
    /// A strict router had put this proxy into the Request-URI.
    pub(super) strict_before_us: bool,
    /// How many Route values on top name this proxy.
    popped: usize,
    /// The next Route value.
    pub(super) next: Option<Element<'a>>,
    /// The request goes along a dialog that began with one whose sender was known: a Route of ours has the cookie of that.
    pub(super) in_dialog: bool,
}

impl<'a> Routing<'a> {
    pub(super) fn of(
        config: &Config,
        key: HashSeed,
        message: &Message<'a>,
        essentials: &Essentials<'a>,
    ) -> Self {
        let mut routing = Routing {
            uri: message.request_uri(),
            strict_before_us: false,
            popped: 0,
            next: None,
            in_dialog: false,
        };
        if !message.has(HeaderName::Route) {
            return routing;
        }
        let cookies = Cookies::of(key, essentials.call_id);
        // Without a tag in To there is no dialog yet, whatever its sender put into a Route.
        let in_dialog = |uri: &SipUri<'_>| cookies.grant(uri) && !essentials.is_initial();
        let mut left = message.elements(HeaderName::Route).count();
        if let Some(Uri::Sip(uri)) = essentials.request_uri
            && uri.is_loose_router()
            && (names_this_proxy(config, &uri) || cookies.know(&uri))
            && let Some(last) = message.elements(HeaderName::Route).last()
            && let Ok(address) = NameAddr::parse(last.text)
        {
            routing.uri = address.uri;
            routing.strict_before_us = true;
            routing.in_dialog = in_dialog(&uri);
            left -= 1;
        }
        for element in message.elements(HeaderName::Route).take(left) {
            let uri = NameAddr::parse(element.text).ok().and_then(|a| a.parse_uri().ok()?.sip());
            match uri {
                Some(uri) if names_this_proxy(config, &uri) || cookies.know(&uri) => {
                    routing.popped += 1;
                    routing.in_dialog |= in_dialog(&uri);
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
}

/// Whether a Route value is for this very proxy: its address, or one of its domains by name. The address of a domain is
/// that of a balancer, through which the request then has to go.
fn names_this_proxy(config: &Config, uri: &SipUri<'_>) -> bool {
    config.is_own_address(uri)
        || (uri.user.is_none() && matches!(uri.host, Host::Name(_)) && config.is_own(uri))
}

/// Whether a Route value is that of a loose router (section 16.6 step 6).
pub(super) fn is_loose(route: &[u8]) -> bool {
    NameAddr::parse(route)
        .ok()
        .and_then(|a| a.parse_uri().ok().and_then(Uri::sip))
        .is_some_and(|uri| uri.is_loose_router())
}

/// The cookies of a dialog: MACs of its Call-ID. Either shows any proxy of the cluster that this is a Route of its own;
/// the one that grants shows besides that the dialog began with a request whose sender was known. So a Route that
/// somebody made up, or got for a request that needs no credentials, opens no relay.
struct Cookies {
    granting: [u8; 16],
    plain: [u8; 16],
}

impl Cookies {
    fn of(key: HashSeed, call_id: &[u8]) -> Self {
        Cookies { granting: cookie(key, call_id, true), plain: cookie(key, call_id, false) }
    }

    fn grant(&self, uri: &SipUri<'_>) -> bool {
        uri.params.value(COOKIE_PARAM) == Some(&self.granting)
    }

    fn know(&self, uri: &SipUri<'_>) -> bool {
        self.grant(uri) || uri.params.value(COOKIE_PARAM) == Some(&self.plain)
    }
}

fn cookie(key: HashSeed, call_id: &[u8], granting: bool) -> [u8; 16] {
    super::hex(key.hash(&[if granting { b"dialog" } else { b"route" }, call_id]))
}

/// What a Via of ours says when the request comes back to a proxy of the cluster and its sender was known: a MAC of the
/// request and of the URI that it goes to. Credentials have been taken out by then (RFC 3261 section 22.3), and whoever
/// sees the Via further on can use it for nothing but the same request to the same URI.
pub(super) fn spiral_pass(key: HashSeed, e: &Essentials<'_>, uri: &[u8]) -> [u8; 16] {
    let tag = e.from.tag().unwrap_or(b"");
    super::hex(key.hash(&[
        b"spiral",
        e.call_id,
        tag,
        &e.cseq.number.to_be_bytes(),
        e.cseq.method.as_bytes(),
        uri,
    ]))
}

/// Puts in the Record-Route of ours.
pub(super) fn push_record_route(
    edits: &mut Edits<'_, '_>,
    address: &[u8],
    key: HashSeed,
    call_id: &[u8],
    granting: bool,
) {
    edits.push_record_route(&[
        b"<sip:",
        address,
        b";lr;",
        COOKIE_PARAM.as_bytes(),
        b"=",
        &cookie(key, call_id, granting),
        b">",
    ]);
}
