//! Responses: off with the own Via, on to the next (RFC 3261 sections 16.11 and 18.1.2).

use busyhour_engine::{Flow, Sink};
use busyhour_sip::value::{Via, split_list};
use busyhour_sip::{Edits, HeaderName, Message};

use super::{Balancer, Drop};
use crate::address::is_sendable;

impl Balancer {
    pub(super) fn handle_response(&mut self, m: &Message<'_>, flow: Flow, out: &mut impl Sink) {
        if let Err(why) = self.relay_response(m, flow, out) {
            self.counts.drop(why);
        }
    }

    fn relay_response(&mut self, m: &Message<'_>, flow: Flow, out: &mut impl Sink) -> Result<(), Drop> {
        if m.defect().is_some() {
            return Err(Drop::ResponseDefect);
        }
        let mut lines = m.all(HeaderName::Via);
        let first = lines.next().ok_or(Drop::ResponseDefect)?;
        let value = m.value_of(first);
        let mut edits = Edits::new(m);
        // The balancer's Via was put in on a line of its own, and mostly comes back so. Whatever holds a comma, be it in
        // a quoted string, takes the longer way.
        let next = if value.contains(&b',') {
            let mut elements = m.elements(HeaderName::Via).map(|e| e.text);
            self.check_own_via(elements.next().ok_or(Drop::ResponseDefect)?)?;
            edits.pop_via();
            elements.next()
        } else {
            self.check_own_via(value)?;
            edits.remove_line(first);
            lines.find_map(|line| split_list(m.value_of(line)).next())
        };
        let next = Via::parse(next.ok_or(Drop::ResponseNoNext)?).map_err(|_| Drop::ResponseDefect)?;
        let to = next.response_addr().ok_or(Drop::ResponseAddress)?;
        if self.is_own(to, flow) || !is_sendable(to, flow.local) {
            return Err(Drop::ResponseAddress);
        }
        let len = edits.len().map_err(|_| Drop::TooLong)?;
        if self.send(Flow { local: flow.local, peer: to }, &edits, len, out) {
            self.counts.responses += 1;
        }
        Ok(())
    }

    /// Section 18.1.2: a response whose sent-by is not the balancer's was not meant for it.
    fn check_own_via(&self, text: &[u8]) -> Result<(), Drop> {
        if text.starts_with(&self.texts.via) {
            return Ok(());
        }
        let via = Via::parse(text).map_err(|_| Drop::ResponseDefect)?;
        let own = self.config.address;
        let is_own = via.host.ip() == Some(own.ip()) && via.port.unwrap_or(5060) == own.port();
        if is_own { Ok(()) } else { Err(Drop::ResponseForeign) }
    }
}
