//! One binding as bytes: a fixed header, the URI, and the Path when it is not a shared one.
//!
//! ```text
//!  0 next      4  offset of the next binding of the same address-of-record, plus 1; 0 at the end
//!  4 high      4  upper half of the hash of the address-of-record
//!  8 ends      4  the second of the driver's clock at which it ends
//! 12 call_id   8  hash of the Call-ID
//! 20 cseq      4
//! 24 branch    4  hash of the branch
//! 28 q         2  thousandths
//! 30 uri_len   2
//! 32 path_len  2  of an inline Path, else 0
//! 34 path      1  a PathId
//! 35 uri, path
//! ```

use super::paths::PathId;

/// The bytes of a binding before its URI.
pub(super) const HEADER_LEN: usize = 35;

/// The fixed part of a binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) next: u32,
    pub(super) high: u32,
    pub(super) ends_s: u32,
    pub(super) call_id: u64,
    pub(super) cseq: u32,
    pub(super) branch: u32,
    pub(super) q: u16,
    pub(super) uri_len: u16,
    pub(super) path_len: u16,
    pub(super) path: PathId,
}

impl Header {
    /// Reads the header of the record at the start of `bytes`.
    pub(super) fn read(bytes: &[u8]) -> Header {
        let b: &[u8; HEADER_LEN] = bytes[..HEADER_LEN].try_into().expect("the slice has that length");
        Header {
            next: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            high: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            ends_s: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            call_id: u64::from_le_bytes([b[12], b[13], b[14], b[15], b[16], b[17], b[18], b[19]]),
            cseq: u32::from_le_bytes([b[20], b[21], b[22], b[23]]),
            branch: u32::from_le_bytes([b[24], b[25], b[26], b[27]]),
            q: u16::from_le_bytes([b[28], b[29]]),
            uri_len: u16::from_le_bytes([b[30], b[31]]),
            path_len: u16::from_le_bytes([b[32], b[33]]),
            path: PathId(b[34]),
        }
    }

    /// Writes the header at the start of `bytes`.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let b: &mut [u8; HEADER_LEN] =
            (&mut bytes[..HEADER_LEN]).try_into().expect("the slice has that length");
        b[0..4].copy_from_slice(&self.next.to_le_bytes());
        b[4..8].copy_from_slice(&self.high.to_le_bytes());
        b[8..12].copy_from_slice(&self.ends_s.to_le_bytes());
        b[12..20].copy_from_slice(&self.call_id.to_le_bytes());
        b[20..24].copy_from_slice(&self.cseq.to_le_bytes());
        b[24..28].copy_from_slice(&self.branch.to_le_bytes());
        b[28..30].copy_from_slice(&self.q.to_le_bytes());
        b[30..32].copy_from_slice(&self.uri_len.to_le_bytes());
        b[32..34].copy_from_slice(&self.path_len.to_le_bytes());
        b[34] = self.path.0;
    }

    /// The length of the whole record.
    pub(super) fn len(&self) -> usize {
        HEADER_LEN + usize::from(self.uri_len) + usize::from(self.path_len)
    }
}

/// Only the `next` of the record at the start of `bytes`.
pub(super) fn next_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Changes only the `next` of the record at the start of `bytes`.
pub(super) fn set_next(bytes: &mut [u8], next: u32) {
    bytes[..4].copy_from_slice(&next.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            next: 0x0102_0304,
            high: 0x0506_0708,
            ends_s: u32::MAX,
            call_id: 0x1112_1314_1516_1718,
            cseq: 7,
            branch: 8,
            q: 1000,
            uri_len: 300,
            path_len: 500,
            path: PathId::INLINE,
        };
        let mut bytes = [0; HEADER_LEN];
        header.write(&mut bytes);
        assert_eq!(Header::read(&bytes), header);
        assert_eq!(header.len(), HEADER_LEN + 800);
        set_next(&mut bytes, 9);
        assert_eq!((next_of(&bytes), Header::read(&bytes).high), (9, header.high));
    }
}
