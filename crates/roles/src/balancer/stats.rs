//! What a balancer counts.

use std::net::SocketAddr;

use super::membership::State;

macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order in which they are counted.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// A short name for metrics.
            pub const fn label(self) -> &'static str {
                match self {
                    $($name::$variant => $label,)*
                }
            }
        }
    };
}

counted! {
    /// Why a message was dropped without an answer.
    Drop {
        /// Only line ends: a keep-alive, which over UDP needs no answer (RFC 5626 section 3.5.1 has it for streams only).
        KeepAlive = "keep-alive",
        /// Not SIP.
        NotSip = "not SIP",
        /// A request without a Via: nobody to answer.
        RequestVia = "request without Via",
        /// A request whose top Via leads to no address that could be answered.
        ReplyAddress = "no address to answer to",
        /// An ACK to a response that the balancer made itself.
        OwnAck = "ACK to an own response",
        /// An ACK or CANCEL that cannot be forwarded: neither is ever answered without state (RFC 3261 section 8.2.7).
        Unanswerable = "ACK or CANCEL that cannot be forwarded",
        /// A response that is malformed where the balancer has to look.
        ResponseDefect = "malformed response",
        /// A response whose top Via is not this balancer's.
        ResponseForeign = "response for somebody else",
        /// A response without a second Via.
        ResponseNoNext = "response without next hop",
        /// A response whose second Via leads to no address, or back to this balancer.
        ResponseAddress = "response to an unusable address",
        /// Longer after the edits than a message can be.
        TooLong = "too long",
        /// The driver had no room.
        Full = "send queue full",
    }
}

counted! {
    /// What a response that the balancer makes itself says.
    Answered {
        /// 200 to an OPTIONS for the balancer.
        Options = "200 OPTIONS",
        /// 503 to an OPTIONS for the balancer while no member is ready.
        OptionsUnready = "503 OPTIONS, no member ready",
        /// 503: no member can take the request.
        NoMember = "503 no member",
        /// 400 or 505: malformed.
        Malformed = "400 malformed",
        /// 404: a member sent a request for a host name, and the balancer resolves none.
        UnknownHost = "404 host name",
        /// 416: a member sent a request for a URI of a scheme that UDP cannot carry.
        Scheme = "416 URI scheme",
        /// 420: an OPTIONS for the balancer that requires an extension.
        Extension = "420 extension",
        /// 483: Max-Forwards is spent.
        TooManyHops = "483 too many hops",
        /// 500: the next hop is known, but UDP does not lead there.
        Unroutable = "500 unroutable",
        /// 513: longer after the edits than a message can be.
        TooLong = "513 too long",
    }
}

/// Counters since the balancer was made.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests forwarded, of any kind.
    pub requests: u64,
    /// Those of them that went to an address that is no member's.
    pub requests_outward: u64,
    /// Those of them that went to the owner of an earlier epoch and name later owners.
    pub requests_chained: u64,
    /// Responses forwarded.
    pub responses: u64,
    /// Requests that were forwarded to members that are not in the table any more.
    pub requests_departed: u64,
    /// Tables applied.
    pub tables: u64,
    /// Tables ignored because they were older than the one in force.
    pub tables_stale: u64,
    /// Tables refused for another reason.
    pub tables_refused: u64,
    /// Departed addresses that had no room.
    pub departed_refused: u64,
    dropped: [u64; Drop::COUNT],
    answered: [u64; Answered::COUNT],
}

impl Counts {
    /// Messages dropped for that reason.
    pub fn dropped(&self, why: Drop) -> u64 {
        self.dropped[why as usize]
    }

    /// Responses of that kind made and sent.
    pub fn answered(&self, what: Answered) -> u64 {
        self.answered[what as usize]
    }

    /// All messages that were neither forwarded nor answered.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// All responses that the balancer made itself.
    pub fn answered_total(&self) -> u64 {
        self.answered.iter().sum()
    }

    pub(super) fn drop(&mut self, why: Drop) {
        self.dropped[why as usize] += 1;
    }

    pub(super) fn answer(&mut self, what: Answered) {
        self.answered[what as usize] += 1;
    }
}

/// One member as the balancer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStats {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    /// Its state.
    pub state: State,
    /// Its weight.
    pub weight: u32,
    /// Requests forwarded to it since it is in the table; with later owners named, the first counts.
    pub requests: u64,
}

/// What a balancer reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The version of the table in force.
    pub version: u64,
    /// The counters.
    pub counts: Counts,
    /// The members, in the order of the table.
    pub members: Vec<MemberStats>,
}
