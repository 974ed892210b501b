//! Requests: checked as far as their way depends on it, routed, and forwarded in one copy (RFC 3261 sections 16.3, 16.4,
//! 16.6 and 16.11).

use std::net::SocketAddr;

use busyhour_engine::{Flow, Sink};
use busyhour_sip::value::{NameAddr, Scheme, SipUri, Uri, Via, delta_seconds};
use busyhour_sip::{Defect, Edits, HeaderName, Message, Method, Writer};

use super::reply::{Answer, tag_of};
use super::table::{Owners, Place};
use super::{Answered, Balancer, Drop, PathPolicy, Refusal};
use crate::address::is_sendable;
use crate::dialog::may_begin_dialog;

/// The most Route values of its own that the balancer takes off one request. Two in a row are normal, where a proxy
/// between them did not put itself into the route; what is left over makes the request come back once more.
const OWN_ROUTES_MAX: usize = 4;

/// How a request leaves.
struct Plan<'a> {
    via: Via<'a>,
    max_forwards: u8,
    /// How many Route values are taken from the top.
    routes_cut: usize,
    /// The URI that a strict router before us pushed to the end of the route.
    strict: Option<&'a [u8]>,
    hop: Hop,
}

enum Hop {
    /// The member that the request names.
    Member(u16),
    /// By Call-ID; never empty.
    Owners(Owners),
    /// Away from the cluster.
    Outward(SocketAddr),
}

/// The route of a request after section 16.4.
#[derive(Default)]
struct Routes<'a> {
    cut: usize,
    strict: Option<&'a [u8]>,
    /// The URI of the first Route value that is left.
    next: Option<Uri<'a>>,
}

fn malformed(defect: Defect) -> Refusal {
    Refusal::Answer(Answer::Malformed(defect))
}

fn plain(what: Answered) -> Refusal {
    Refusal::Answer(Answer::Plain(what))
}

impl Balancer {
    pub(super) fn handle_request(
        &mut self,
        m: &Message<'_>,
        method: Method<'_>,
        flow: Flow,
        out: &mut impl Sink,
    ) {
        let forwarded = match self.plan(m, method, flow) {
            Ok(plan) => self.forward(m, method, flow, &plan, out),
            Err(why) => Err(why),
        };
        if let Err(why) = forwarded {
            self.refuse(m, method, flow, why, out);
        }
    }

    fn plan<'a>(&self, m: &Message<'a>, method: Method<'a>, flow: Flow) -> Result<Plan<'a>, Refusal> {
        let via = match m.top_via() {
            Ok(via) => via,
            Err(Defect::Missing(_)) => return Err(Refusal::Drop(Drop::RequestVia)),
            Err(defect) => return Err(malformed(defect)),
        };
        if let Some(defect) = m.defect() {
            return Err(malformed(defect));
        }
        let call_id = match m.value(HeaderName::CallId) {
            None => return Err(malformed(Defect::Missing(HeaderName::CallId))),
            Some([]) => return Err(malformed(Defect::Value(HeaderName::CallId))),
            Some(call_id) => call_id,
        };
        if method == Method::Ack && self.is_own_ack(m) {
            return Err(Refusal::Drop(Drop::OwnAck));
        }
        let mut routes = self.routes(m, flow)?;
        let hop = match routes.next {
            Some(uri) => self.follow_route(uri, call_id, &mut routes.cut, flow)?,
            None => self.follow_request_uri(m, method, routes.strict, call_id, flow)?,
        };
        let max_forwards = self.next_max_forwards(m)?;
        Ok(Plan { via, max_forwards, routes_cut: routes.cut, strict: routes.strict, hop })
    }

    /// Section 16.3 step 3 and section 16.6 step 3.
    fn next_max_forwards(&self, m: &Message<'_>) -> Result<u8, Refusal> {
        let Some(value) = m.value(HeaderName::MaxForwards) else {
            return Ok(self.config.max_forwards);
        };
        match delta_seconds(value).and_then(|n| u8::try_from(n).ok()) {
            Some(0) => Err(plain(Answered::TooManyHops)),
            Some(n) => Ok(n - 1),
            None => Err(malformed(Defect::Value(HeaderName::MaxForwards))),
        }
    }

    /// Section 16.4: undoes what a strict router did to a URI of ours, and takes our values from the top of the route.
    fn routes<'a>(&self, m: &Message<'a>, flow: Flow) -> Result<Routes<'a>, Refusal> {
        let mut routes = Routes::default();
        if !m.has(HeaderName::Route) {
            return Ok(routes);
        }
        let bad_route = |_| malformed(Defect::Value(HeaderName::Route));
        let elements = || m.elements(HeaderName::Route);
        let mut left = usize::MAX;
        if m.request_uri().eq_ignore_ascii_case(&self.texts.uri)
            && let Some(last) = elements().last()
        {
            routes.strict = Some(NameAddr::parse(last.text).map_err(bad_route)?.uri);
            left = elements().count() - 1;
        }
        for element in elements().take(left) {
            if routes.cut < OWN_ROUTES_MAX && element.text == self.texts.route {
                routes.cut += 1;
                continue;
            }
            let uri = NameAddr::parse(element.text).and_then(|a| a.parse_uri()).map_err(bad_route)?;
            let is_own = uri.sip().and_then(|u| u.socket_addr()).is_some_and(|a| self.is_own(a, flow));
            if routes.cut < OWN_ROUTES_MAX && is_own {
                routes.cut += 1;
                continue;
            }
            routes.next = Some(uri);
            break;
        }
        Ok(routes)
    }

    /// A route is left: to the member that it names. When that is gone, its value goes, too, and the owner of the Call-ID
    /// stands in. A foreign route is followed for members only; for others, a proxy decides about it.
    fn follow_route(
        &self,
        uri: Uri<'_>,
        call_id: &[u8],
        cut: &mut usize,
        flow: Flow,
    ) -> Result<Hop, Refusal> {
        let address = uri.sip().and_then(|u| u.socket_addr());
        match address.and_then(|a| self.table.place(a)) {
            Some(Place::Serving(index)) => return Ok(Hop::Member(index)),
            Some(Place::Silent | Place::Departed) => {
                *cut += 1;
                return self.owners(call_id);
            }
            None => {}
        }
        if self.table.is_member(flow.peer) && !address.is_some_and(|a| self.is_own(a, flow)) {
            // A host name in a Route is a next hop that cannot be sent to: section 16.9 makes that a 503 from there, and
            // section 16.7 step 6 lets a proxy pass on a 500 in its place.
            return outward(uri, flow, Answered::Unroutable);
        }
        self.owners(call_id)
    }

    /// No route is left: the Request-URI decides.
    fn follow_request_uri(
        &self,
        m: &Message<'_>,
        method: Method<'_>,
        strict: Option<&[u8]>,
        call_id: &[u8],
        flow: Flow,
    ) -> Result<Hop, Refusal> {
        let uri = Uri::parse(strict.unwrap_or(m.request_uri()));
        let uri = uri.map_err(|_| malformed(Defect::RequestUri))?;
        let sip = uri.sip();
        let address = sip.and_then(|u| u.socket_addr());
        if address.is_some_and(|a| self.is_own(a, flow)) {
            if method == Method::Options && sip.is_some_and(|u| u.user.is_none()) {
                return Err(plain(self.answer_options(m)));
            }
            return self.owners(call_id);
        }
        match address.and_then(|a| self.table.place(a)) {
            Some(Place::Serving(index)) => return Ok(Hop::Member(index)),
            Some(Place::Silent) => return self.owners(call_id),
            // Where a member was there may be a user agent today.
            Some(Place::Departed) | None => {}
        }
        if self.table.is_member(flow.peer) {
            // Section 21.4.5: 404 is also for a Request-URI whose domain is none that the recipient can handle.
            return outward(uri, flow, Answered::UnknownHost);
        }
        self.owners(call_id)
    }

    fn owners(&self, call_id: &[u8]) -> Result<Hop, Refusal> {
        let owners = self.table.owners(self.owner_key(call_id));
        if owners.is_empty() { Err(plain(Answered::NoMember)) } else { Ok(Hop::Owners(owners)) }
    }

    pub(super) fn owner_key(&self, call_id: &[u8]) -> u64 {
        self.seeds.owner.hash(&[call_id])
    }

    /// An OPTIONS for the balancer (section 11.2): its answer tells whether the cluster takes calls.
    fn answer_options(&self, m: &Message<'_>) -> Answered {
        if m.elements(HeaderName::Require).next().is_some() {
            Answered::Extension
        } else if self.table.has_ready() {
            Answered::Options
        } else {
            Answered::OptionsUnready
        }
    }

    fn forward(
        &mut self,
        m: &Message<'_>,
        method: Method<'_>,
        flow: Flow,
        plan: &Plan<'_>,
        out: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let mut edits = Edits::new(m);
        if let Some(uri) = plan.strict {
            edits.remove_last_route();
            edits.set_request_uri(uri);
        }
        for _ in 0..plan.routes_cut {
            edits.pop_route();
        }
        edits.stamp_via(&plan.via, flow.peer);
        edits.set_number(HeaderName::MaxForwards, u64::from(plan.max_forwards));
        if self.config.record_route && may_begin_dialog(method, tag_of(m, HeaderName::To).is_some()) {
            edits.push_record_route(&[&self.texts.route]);
        }
        if method == Method::Register && self.wants_path(m, &plan.hop) {
            edits.push_path(&[&self.texts.route]);
        }
        let to = match plan.hop {
            Hop::Member(index) => self.table.peer(index).member.address,
            Hop::Owners(ref owners) => self.table.peer(owners[0]).member.address,
            Hop::Outward(address) => address,
        };
        self.push_own_via(&mut edits, m, plan);
        let len = edits.len().map_err(|_| plain(Answered::TooLong))?;
        if self.send(Flow { local: flow.local, peer: to }, &edits, len, out) {
            self.count_forwarded(&plan.hop);
        }
        Ok(())
    }

    fn count_forwarded(&mut self, hop: &Hop) {
        self.counts.requests += 1;
        match hop {
            Hop::Member(index) => self.table.count_request(*index),
            Hop::Owners(owners) => {
                self.counts.requests_chained += u64::from(owners.len() > 1);
                self.table.count_request(owners[0]);
            }
            Hop::Outward(_) => self.counts.requests_outward += 1,
        }
    }

    fn wants_path(&self, m: &Message<'_>, hop: &Hop) -> bool {
        let inward = match hop {
            Hop::Member(_) | Hop::Owners(_) => true,
            Hop::Outward(_) => false,
        };
        inward
            && match self.config.path {
                PathPolicy::Never => false,
                PathPolicy::WhenSupported => {
                    m.elements(HeaderName::Supported).any(|e| e.text.eq_ignore_ascii_case(b"path"))
                }
                PathPolicy::Always => true,
            }
    }

    fn push_own_via(&self, edits: &mut Edits<'_, '_>, m: &Message<'_>, plan: &Plan<'_>) {
        let mut branch = [0u8; 16];
        Writer::new(&mut branch).put_hex(self.branch(m, &plan.via));
        let mut next = Next::default();
        if let Hop::Owners(owners) = &plan.hop
            && owners.len() > 1
        {
            next.put(b";next=\"");
            for (i, &owner) in owners[1..].iter().enumerate() {
                next.put(if i > 0 { b"," } else { b"" });
                next.put(&self.table.peer(owner).text);
            }
            next.put(b"\"");
        }
        edits.push_via(&[&self.texts.via, &branch, next.as_slice()]);
    }

    /// The branch (section 16.11): a function of what names the transaction at the hop before, so that a retransmission,
    /// a CANCEL and the ACK to a non-2xx get that of their INVITE, and a spiral gets another.
    fn branch(&self, m: &Message<'_>, via: &Via<'_>) -> u64 {
        let seed = self.seeds.branch;
        if let Some(branch) = via.cookie_branch() {
            return seed.hash(&[branch, via.sent_by]);
        }
        // An element of RFC 2543: what section 17.2.3 matches such requests by, less what an ACK or a CANCEL differs in.
        let cseq = m.value(HeaderName::CSeq).unwrap_or(b"");
        let number = cseq.iter().position(|b| !b.is_ascii_digit()).unwrap_or(cseq.len());
        seed.hash(&[
            m.value(HeaderName::CallId).unwrap_or(b""),
            &cseq[..number],
            tag_of(m, HeaderName::From).unwrap_or(b""),
            m.request_uri(),
            via.sent_by,
            via.branch().unwrap_or(b""),
        ])
    }
}

/// The `next` parameter under construction, for the largest number of owners and the longest addresses.
#[derive(Default)]
struct Next(arrayvec::ArrayVec<u8, { super::EPOCHS_MAX * 48 + 16 }>);

impl Next {
    fn put(&mut self, bytes: &[u8]) {
        self.0.try_extend_from_slice(bytes).expect("addresses have at most 47 characters");
    }

    fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// Where a URI leads over UDP; `unnamed` answers one with a host name.
fn outward(uri: Uri<'_>, flow: Flow, unnamed: Answered) -> Result<Hop, Refusal> {
    let Some(sip @ SipUri { scheme: Scheme::Sip, .. }) = uri.sip() else {
        return Err(plain(Answered::Scheme));
    };
    if sip.params.value("transport").is_some_and(|t| !t.eq_ignore_ascii_case(b"udp")) {
        return Err(plain(Answered::Unroutable));
    }
    let address = sip.socket_addr().ok_or(plain(unnamed))?;
    if is_sendable(address, flow.local) {
        Ok(Hop::Outward(address))
    } else {
        Err(plain(Answered::Unroutable))
    }
}
