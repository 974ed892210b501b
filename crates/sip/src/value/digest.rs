//! Digest access authentication for SIP (RFC 3261 section 22 as updated by RFC 8760; RFC 7616 for the arithmetic).

use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::Writer;
use crate::chars::{is_lws, trim};

use super::list::split_list;
use super::quoted_text;

/// A digest algorithm.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// SHA-256 (RFC 8760), the one to prefer.
    Sha256,
    /// MD5, for phones that know nothing else.
    Md5,
}

impl Algorithm {
    /// Best first: the order in which challenges are offered (RFC 8760 section 2.4).
    pub const ALL: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Md5];

    /// As it stands in the `algorithm` parameter.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Md5 => "MD5",
        }
    }

    fn hex(self, parts: &[&[u8]]) -> HexDigest {
        match self {
            Algorithm::Md5 => {
                let mut h = Md5::new();
                parts.iter().for_each(|p| h.update(p));
                HexDigest::of(&h.finalize())
            }
            Algorithm::Sha256 => {
                let mut h = Sha256::new();
                parts.iter().for_each(|p| h.update(p));
                HexDigest::of(&h.finalize())
            }
        }
    }
}

/// A digest in lower-case hexadecimal: 32 or 64 characters.
#[derive(Copy, Clone)]
struct HexDigest {
    text: [u8; 64],
    len: usize,
}

impl HexDigest {
    fn of(binary: &[u8]) -> Self {
        let mut text = [0; 64];
        for (i, b) in binary.iter().enumerate() {
            text[2 * i] = b"0123456789abcdef"[(b >> 4) as usize];
            text[2 * i + 1] = b"0123456789abcdef"[(b & 15) as usize];
        }
        HexDigest { text, len: 2 * binary.len() }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len]
    }
}

/// What is stored of a password: H(username ":" realm ":" password) for each algorithm, in binary.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Ha1 {
    /// By MD5.
    pub md5: [u8; 16],
    /// By SHA-256.
    pub sha256: [u8; 32],
}

impl std::fmt::Debug for Ha1 {
    /// As good as a password, so never printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ha1(…)")
    }
}

impl Ha1 {
    /// The hashes of a password.
    pub fn of(username: &str, realm: &str, password: &str) -> Self {
        let text = format!("{username}:{realm}:{password}");
        Ha1 { md5: Md5::digest(text.as_bytes()).into(), sha256: Sha256::digest(text.as_bytes()).into() }
    }

    fn hex(&self, algorithm: Algorithm) -> HexDigest {
        match algorithm {
            Algorithm::Md5 => HexDigest::of(&self.md5),
            Algorithm::Sha256 => HexDigest::of(&self.sha256),
        }
    }
}

/// An Authorization or Proxy-Authorization value of scheme Digest. Quoted values come without their quotes.
#[derive(Copy, Clone, Debug)]
pub struct Credentials<'a> {
    /// `username`.
    pub username: &'a [u8],
    /// `realm`.
    pub realm: &'a [u8],
    /// `nonce`.
    pub nonce: &'a [u8],
    /// `uri`.
    pub uri: &'a [u8],
    /// `response`, in hexadecimal.
    pub response: &'a [u8],
    /// `algorithm`; MD5 when absent, `None` when it is one that is not spoken here.
    pub algorithm: Option<Algorithm>,
    /// `qop`, when there is one.
    pub qop: Option<&'a [u8]>,
    /// `nc`.
    pub nc: &'a [u8],
    /// `cnonce`.
    pub cnonce: &'a [u8],
}

/// A Digest value that lacks one of username, realm, nonce, uri, response, or is of another scheme.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TooFewParts;

impl<'a> Credentials<'a> {
    /// Parses the value of an Authorization or Proxy-Authorization header.
    ///
    /// # Errors
    /// [`TooFewParts`] when it is not usable.
    pub fn parse(value: &'a [u8]) -> Result<Self, TooFewParts> {
        let params = digest_params(value).ok_or(TooFewParts)?;
        let mut c = Credentials {
            username: b"",
            realm: b"",
            nonce: b"",
            uri: b"",
            response: b"",
            algorithm: Some(Algorithm::Md5),
            qop: None,
            nc: b"",
            cnonce: b"",
        };
        for (name, value) in params {
            let is = |n: &str| name.eq_ignore_ascii_case(n.as_bytes());
            if is("username") {
                c.username = value;
            } else if is("realm") {
                c.realm = value;
            } else if is("nonce") {
                c.nonce = value;
            } else if is("uri") {
                c.uri = value;
            } else if is("response") {
                c.response = value;
            } else if is("algorithm") {
                c.algorithm = algorithm_named(value);
            } else if is("qop") {
                c.qop = Some(value);
            } else if is("nc") {
                c.nc = value;
            } else if is("cnonce") {
                c.cnonce = value;
            }
        }
        if [c.username, c.realm, c.nonce, c.uri, c.response].iter().any(|v| v.is_empty()) {
            return Err(TooFewParts);
        }
        Ok(c)
    }

    /// Whether the response proves knowledge of the password behind `ha1` for a request with this method. The body is
    /// not covered (`qop=auth`; `auth-int` is not offered and fails).
    pub fn verify(&self, ha1: &Ha1, method: &[u8]) -> bool {
        let Some(algorithm) = self.algorithm else {
            return false;
        };
        let expected = response(
            algorithm,
            ha1,
            self.nonce,
            self.qop.map(|qop| (qop, self.nc, self.cnonce)),
            method,
            self.uri,
        );
        let expected = expected.as_bytes();
        let good_qop = self.qop.is_none_or(|q| {
            q.eq_ignore_ascii_case(b"auth") && !self.cnonce.is_empty() && !self.nc.is_empty()
        });
        // All bytes are compared, so that the time tells nothing about where they differ.
        let differing =
            expected.iter().zip(self.response).fold(0, |d, (a, b)| d | (a ^ b.to_ascii_lowercase()));
        good_qop && expected.len() == self.response.len() && differing == 0
    }
}

/// A challenge as a client reads it from a WWW-Authenticate or Proxy-Authenticate header.
#[derive(Copy, Clone, Debug)]
pub struct Challenge<'a> {
    /// `realm`.
    pub realm: &'a [u8],
    /// `nonce`.
    pub nonce: &'a [u8],
    /// `opaque`, when there is one.
    pub opaque: Option<&'a [u8]>,
    /// `algorithm`; MD5 when absent, `None` when it is one that is not spoken here.
    pub algorithm: Option<Algorithm>,
    /// Whether `qop` offers `auth`.
    pub qop_auth: bool,
    /// `stale=true`: the credentials were right, only the nonce too old.
    pub stale: bool,
}

impl<'a> Challenge<'a> {
    /// Parses the value of a WWW-Authenticate or Proxy-Authenticate header; `None` when it is not a Digest challenge
    /// with realm and nonce.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let mut c = Challenge {
            realm: b"",
            nonce: b"",
            opaque: None,
            algorithm: Some(Algorithm::Md5),
            qop_auth: false,
            stale: false,
        };
        for (name, value) in digest_params(value)? {
            let is = |n: &str| name.eq_ignore_ascii_case(n.as_bytes());
            if is("realm") {
                c.realm = value;
            } else if is("nonce") {
                c.nonce = value;
            } else if is("opaque") {
                c.opaque = Some(value);
            } else if is("algorithm") {
                c.algorithm = algorithm_named(value);
            } else if is("qop") {
                c.qop_auth = split_list(value).any(|q| q.eq_ignore_ascii_case(b"auth"));
            } else if is("stale") {
                c.stale = value.eq_ignore_ascii_case(b"true");
            }
        }
        (!c.nonce.is_empty()).then_some(c)
    }

    /// Writes the challenge: the value of a WWW-Authenticate or Proxy-Authenticate header.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.put(b"Digest realm=\"").put(self.realm).put(b"\", nonce=\"").put(self.nonce).put(b"\"");
        if let Some(opaque) = self.opaque {
            w.put(b", opaque=\"").put(opaque).put(b"\"");
        }
        if let Some(algorithm) = self.algorithm {
            w.put(b", algorithm=").put(algorithm.as_str().as_bytes());
        }
        if self.qop_auth {
            w.put(b", qop=\"auth\"");
        }
        if self.stale {
            w.put(b", stale=true");
        }
    }

    /// Writes the credentials that answer it: the value of an Authorization or Proxy-Authorization header.
    ///
    /// # Panics
    /// When the algorithm is one that is not spoken here.
    #[allow(clippy::too_many_arguments, reason = "each goes into the digest")]
    pub fn write_credentials(
        &self,
        w: &mut Writer<'_>,
        username: &[u8],
        ha1: &Ha1,
        method: &[u8],
        uri: &[u8],
        nc: u32,
        cnonce: u64,
    ) {
        let algorithm = self.algorithm.expect("a challenge that can be answered");
        let (mut nc_text, mut cnonce_text) = ([0u8; 16], [0u8; 16]);
        Writer::new(&mut nc_text).put_hex(u64::from(nc));
        Writer::new(&mut cnonce_text).put_hex(cnonce);
        let (nc, cnonce) = (&nc_text[8..], &cnonce_text[..]);
        let qop = self.qop_auth.then_some((b"auth".as_slice(), nc, cnonce));
        let response = response(algorithm, ha1, self.nonce, qop, method, uri);
        w.put(b"Digest username=\"").put(username).put(b"\", realm=\"").put(self.realm);
        w.put(b"\", nonce=\"").put(self.nonce).put(b"\", uri=\"").put(uri);
        w.put(b"\", response=\"")
            .put(response.as_bytes())
            .put(b"\", algorithm=")
            .put(algorithm.as_str().as_bytes());
        if let Some(opaque) = self.opaque {
            w.put(b", opaque=\"").put(opaque).put(b"\"");
        }
        if self.qop_auth {
            w.put(b", qop=auth, nc=").put(nc).put(b", cnonce=\"").put(cnonce).put(b"\"");
        }
    }
}

/// The response of RFC 7616 section 3.4.1; without `qop` (its value, nc, cnonce) that of RFC 2069.
fn response(
    algorithm: Algorithm,
    ha1: &Ha1,
    nonce: &[u8],
    qop: Option<(&[u8], &[u8], &[u8])>,
    method: &[u8],
    uri: &[u8],
) -> HexDigest {
    let ha1 = ha1.hex(algorithm);
    let ha2 = algorithm.hex(&[method, b":", uri]);
    let (ha1, ha2) = (ha1.as_bytes(), ha2.as_bytes());
    match qop {
        Some((qop, nc, cnonce)) => {
            algorithm.hex(&[ha1, b":", nonce, b":", nc, b":", cnonce, b":", qop, b":", ha2])
        }
        None => algorithm.hex(&[ha1, b":", nonce, b":", ha2]),
    }
}

fn algorithm_named(value: &[u8]) -> Option<Algorithm> {
    Algorithm::ALL.into_iter().find(|a| value.eq_ignore_ascii_case(a.as_str().as_bytes()))
}

/// The `name=value` pairs behind the scheme `Digest`, quotes taken off.
fn digest_params(value: &[u8]) -> Option<impl Iterator<Item = (&[u8], &[u8])>> {
    let value = trim(value);
    let space = value.iter().position(|&b| is_lws(b))?;
    if !value[..space].eq_ignore_ascii_case(b"Digest") {
        return None;
    }
    Some(split_list(&value[space..]).filter_map(|pair| {
        let eq = pair.iter().position(|&b| b == b'=')?;
        let (name, value) = (trim(&pair[..eq]), trim(&pair[eq + 1..]));
        Some((name, quoted_text(value).unwrap_or(value)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7616 section 3.9.1: one request, answered with both algorithms.
    #[test]
    fn the_examples_of_rfc_7616() {
        let ha1 = Ha1::of("Mufasa", "http-auth@example.org", "Circle of Life");
        let line = |algorithm: &str, response: &str| {
            format!(
                "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", algorithm={algorithm}, \
                 nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
                 cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, response=\"{response}\""
            )
        };
        let md5 = line("MD5", "8ca523f5e9506fed4657c9700eebdbec");
        let sha = line("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1");
        for good in [&md5, &sha] {
            assert!(Credentials::parse(good.as_bytes()).unwrap().verify(&ha1, b"GET"));
            assert!(!Credentials::parse(good.as_bytes()).unwrap().verify(&ha1, b"PUT"));
        }
        let swapped = line("MD5", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1");
        assert!(!Credentials::parse(swapped.as_bytes()).unwrap().verify(&ha1, b"GET"));
    }

    /// RFC 2617 section 3.5 without qop: H(HA1:nonce:HA2).
    #[test]
    fn a_client_without_qop_is_understood() {
        let ha1 = Ha1::of("u", "r", "p");
        let response = response(Algorithm::Md5, &ha1, b"n", None, b"INVITE", b"sip:x@y");
        let text = format!(
            "digest username=u,realm=\"r\",nonce=\"n\",uri=\"sip:x@y\",response=\"{}\"",
            String::from_utf8_lossy(response.as_bytes())
        );
        assert!(Credentials::parse(text.as_bytes()).unwrap().verify(&ha1, b"INVITE"));
    }

    #[test]
    fn what_a_client_writes_a_server_accepts() {
        let ha1 = Ha1::of("alice", "example.com", "secret");
        for algorithm in Algorithm::ALL {
            for qop_auth in [false, true] {
                let mut buf = [0; 512];
                let mut w = Writer::new(&mut buf);
                Challenge {
                    realm: b"example.com",
                    nonce: b"abc",
                    opaque: None,
                    algorithm: Some(algorithm),
                    qop_auth,
                    stale: true,
                }
                .write(&mut w);
                let n = w.finish().unwrap();
                let challenge = Challenge::parse(&buf[..n]).unwrap();
                assert!(challenge.stale);
                let mut reply = [0; 512];
                let mut w = Writer::new(&mut reply);
                challenge.write_credentials(&mut w, b"alice", &ha1, b"REGISTER", b"sip:example.com", 1, 42);
                let n = w.finish().unwrap();
                let credentials = Credentials::parse(&reply[..n]).unwrap();
                assert!(credentials.verify(&ha1, b"REGISTER"), "{algorithm:?} {qop_auth}");
                assert!(!credentials.verify(&Ha1::of("alice", "example.com", "other"), b"REGISTER"));
            }
        }
    }

    #[test]
    fn what_lacks_a_part_is_refused() {
        for text in [
            "Basic abc",
            "Digest",
            "Digest username=\"u\"",
            "Digest username=\"\",realm=r,nonce=n,uri=u,response=r",
        ] {
            assert!(Credentials::parse(text.as_bytes()).is_err(), "{text}");
        }
        let sess =
            Credentials::parse(b"Digest username=u,realm=r,nonce=n,uri=u,response=r,algorithm=MD5-sess")
                .unwrap();
        assert_eq!(sess.algorithm, None);
    }
}
