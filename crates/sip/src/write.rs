//! Writing into a buffer of fixed size.

use std::net::{IpAddr, SocketAddr};

/// Appends to a borrowed buffer. What does not fit is noticed at the end: [`Writer::finish`].
pub struct Writer<'b> {
    buf: &'b mut [u8],
    len: usize,
    overflow: bool,
}

impl<'b> Writer<'b> {
    /// Writes from the start of `buf`.
    pub fn new(buf: &'b mut [u8]) -> Self {
        Writer { buf, len: 0, overflow: false }
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        match self.buf.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.overflow = true,
        }
        self
    }

    /// Appends a decimal number.
    pub fn put_u64(&mut self, mut n: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                return self.put(&digits[at..]);
            }
        }
    }

    /// Appends 16 lower-case hexadecimal digits.
    pub fn put_hex(&mut self, n: u64) -> &mut Self {
        let mut digits = [0u8; 16];
        for (i, d) in digits.iter_mut().enumerate() {
            *d = b"0123456789abcdef"[(n >> (60 - 4 * i)) as usize & 15];
        }
        self.put(&digits)
    }

    /// Appends an address; IPv6 in brackets when `bracketed`.
    pub fn put_ip(&mut self, ip: IpAddr, bracketed: bool) -> &mut Self {
        match ip {
            IpAddr::V4(v4) => {
                for (i, octet) in v4.octets().into_iter().enumerate() {
                    if i > 0 {
                        self.put(b".");
                    }
                    self.put_u64(u64::from(octet));
                }
                self
            }
            IpAddr::V6(v6) => {
                use std::io::Write as _;
                let mut text = [0u8; 48];
                let mut rest = &mut text[..];
                let full = if bracketed { write!(rest, "[{v6}]") } else { write!(rest, "{v6}") };
                full.expect("an IPv6 address has at most 45 characters");
                let used = 48 - rest.len();
                self.put(&text[..used])
            }
        }
    }

    /// Appends `host:port` as in sent-by and URIs.
    pub fn put_addr(&mut self, addr: SocketAddr) -> &mut Self {
        self.put_ip(addr.ip(), true).put(b":").put_u64(u64::from(addr.port()))
    }

    /// How many bytes were written; `None` when something did not fit.
    pub fn finish(&self) -> Option<usize> {
        (!self.overflow).then_some(self.len)
    }
}
