//! What identifies a transaction (RFC 3261 sections 17.1.3 and 17.2.3).

use busyhour_engine::HashSeed;
use busyhour_sip::{Essentials, HeaderName, Message, Method};

/// The key of the server transaction that a request belongs to. An ACK belongs to its INVITE, so it takes that
/// method's key; a CANCEL has a key of its own, and with `method` = INVITE the key of what it cancels is found.
pub fn server_key(
    seed: HashSeed,
    message: &Message<'_>,
    essentials: &Essentials<'_>,
    method: Method<'_>,
) -> u64 {
    let method = if method == Method::Ack { Method::Invite } else { method };
    match essentials.via.cookie_branch() {
        Some(branch) => seed.hash(&[b"server", branch, essentials.via.sent_by, method.as_bytes()]),
        // An element of RFC 2543: the branch says nothing. Call-ID, From tag, CSeq number, Request-URI and the topmost
        // Via are the same in every retransmission, and in the CANCEL and the ACK to a non-2xx.
        None => {
            let top = message.elements(HeaderName::Via).next().map_or(b"".as_slice(), |e| e.text);
            let from_tag = essentials.from.tag().unwrap_or(b"");
            let number = essentials.cseq.number.to_be_bytes();
            seed.hash(&[
                b"rfc2543",
                essentials.call_id,
                from_tag,
                &number,
                message.request_uri(),
                top,
                method.as_bytes(),
            ])
        }
    }
}

/// The key of the client transaction that a response belongs to: the branch of its topmost Via and the method of CSeq.
pub fn client_key(seed: HashSeed, branch: &[u8], method: Method<'_>) -> u64 {
    let method = if method == Method::Ack { Method::Invite } else { method };
    seed.hash(&[b"client", branch, method.as_bytes()])
}
