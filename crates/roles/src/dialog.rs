//! Which requests begin dialogs.

use busyhour_sip::Method;

/// Whether a proxy that wants to stay in the way of dialogs puts itself into this request: INVITE and REFER that begin
/// one (RFC 3261 section 16.6 step 4, RFC 3515), SUBSCRIBE and NOTIFY always (RFC 6665 section 4.3: a dialog may begin
/// with a NOTIFY, whose To has a tag then).
pub(crate) fn may_begin_dialog(method: Method<'_>, to_has_tag: bool) -> bool {
    match method {
        Method::Invite | Method::Refer => !to_has_tag,
        Method::Subscribe | Method::Notify => true,
        Method::Ack
        | Method::Bye
        | Method::Cancel
        | Method::Register
        | Method::Options
        | Method::Info
        | Method::Message
        | Method::Prack
        | Method::Publish
        | Method::Update
        | Method::Extension(_) => false,
    }
}
