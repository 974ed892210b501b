//! The proxy against the RFCs, in virtual time. Every test names the section that its expectation comes from.

mod kit;

mod validation;
