//! The requests that user agents send, as text.

use std::net::SocketAddr;

use busyhour_sip::Writer;

/// An SDP offer or answer of ordinary size: what a softphone with a handful of codecs sends.
pub(super) const SDP: &[u8] = b"v=0\r\no=- 3900000001 3900000001 IN IP4 127.0.0.1\r\ns=busyhour\r\nc=IN IP4 127.0.0.1\r\n\
t=0 0\r\nm=audio 40000 RTP/AVP 96 9 8 0 101\r\na=rtpmap:96 opus/48000/2\r\na=fmtp:96 minptime=10;useinbandfec=1\r\n\
a=rtpmap:9 G722/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
a=fmtp:101 0-16\r\na=ptime:20\r\na=sendrecv\r\n";

/// More than any request of a fleet is long, without credentials and route set.
pub(super) const REQUEST_LEN_MAX: usize = 1600;

/// The parts that every request has.
pub(super) struct Request<'a> {
    pub(super) method: &'a [u8],
    pub(super) uri: &'a [u8],
    pub(super) address: SocketAddr,
    pub(super) branch: &'a [u8],
    /// Route values separated by commas; empty without.
    pub(super) route: &'a [u8],
    pub(super) from: (&'a [u8], &'a [u8]),
    pub(super) to: &'a [u8],
    pub(super) to_tag: &'a [u8],
    pub(super) domain: &'a [u8],
    pub(super) call_id: &'a [u8],
    pub(super) cseq: u32,
}

impl Request<'_> {
    /// Writes the request; `headers` adds header lines of its own.
    pub(super) fn write(&self, buf: &mut [u8], headers: impl FnOnce(&mut Writer<'_>), body: &[u8]) -> usize {
        let mut w = Writer::new(buf);
        w.put(self.method)
            .put(b" ")
            .put(self.uri)
            .put(b" SIP/2.0\r\nVia: SIP/2.0/UDP ")
            .put_addr(self.address);
        w.put(b";branch=").put(self.branch).put(b";rport\r\n");
        if !self.route.is_empty() {
            w.put(b"Route: ").put(self.route).put(b"\r\n");
        }
        w.put(b"Max-Forwards: 70\r\nFrom: <sip:")
            .put(self.from.0)
            .put(b"@")
            .put(self.domain)
            .put(b">;tag=")
            .put(self.from.1);
        w.put(b"\r\nTo: <sip:").put(self.to).put(b"@").put(self.domain).put(b">");
        if !self.to_tag.is_empty() {
            w.put(b";tag=").put(self.to_tag);
        }
        w.put(b"\r\nCall-ID: ").put(self.call_id).put(b"\r\nCSeq: ").put_u64(u64::from(self.cseq));
        w.put(b" ").put(self.method).put(b"\r\nUser-Agent: busyhour-lab\r\n");
        headers(&mut w);
        if !body.is_empty() {
            w.put(b"Content-Type: application/sdp\r\n");
        }
        w.put(b"Content-Length: ").put_u64(body.len() as u64).put(b"\r\n\r\n").put(body);
        w.finish().expect("the room was reckoned")
    }
}

/// A contact of a fleet's user.
pub(super) fn put_contact(w: &mut Writer<'_>, user: &[u8], address: SocketAddr) {
    w.put(b"Contact: <sip:").put(user).put(b"@").put_addr(address).put(b">");
}
