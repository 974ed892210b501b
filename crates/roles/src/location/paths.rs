//! Paths that many bindings of a segment share, each stored once.

/// The most paths that a segment shares. Where every user agent has a Path of its own, sharing gains nothing: what
/// does not find a place here is stored with its binding.
const SHARED_MAX: usize = 16;

/// Says where the Path of a binding is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct PathId(pub(super) u8);

impl PathId {
    /// There is none.
    pub(super) const NONE: PathId = PathId(0);
    /// It follows the URI in the record.
    pub(super) const INLINE: PathId = PathId(u8::MAX);
}

#[derive(Clone, Debug, Default)]
struct Shared {
    text: Box<[u8]>,
    /// How many records refer to it; a place without references is free.
    references: u32,
}

/// The shared paths of one segment. `PathId(n)` from 1 to [`SHARED_MAX`] is the entry n − 1.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths(Vec<Shared>);

impl Paths {
    /// A place for `path`, with one more reference.
    pub(super) fn add(&mut self, path: &[u8]) -> PathId {
        if path.is_empty() {
            return PathId::NONE;
        }
        let at = match self.0.iter().position(|s| s.references > 0 && *s.text == *path) {
            Some(at) => at,
            None => match self.0.iter().position(|s| s.references == 0) {
                Some(free) => {
                    self.0[free].text = path.into();
                    free
                }
                None if self.0.len() < SHARED_MAX => {
                    self.0.reserve_exact(1);
                    self.0.push(Shared { text: path.into(), references: 0 });
                    self.0.len() - 1
                }
                None => return PathId::INLINE,
            },
        };
        self.0[at].references += 1;
        PathId(at as u8 + 1)
    }

    /// One more reference to a path.
    pub(super) fn keep(&mut self, id: PathId) {
        if let Some(shared) = self.entry(id) {
            shared.references += 1;
        }
    }

    /// One reference less; the text goes with the last one.
    pub(super) fn release(&mut self, id: PathId) {
        if let Some(shared) = self.entry(id) {
            shared.references =
                shared.references.checked_sub(1).expect("a path is released once per reference");
            if shared.references == 0 {
                shared.text = Box::default();
            }
        }
    }

    /// The text of a shared path; empty for [`PathId::NONE`].
    pub(super) fn text(&self, id: PathId) -> &[u8] {
        match id {
            PathId::NONE => b"",
            PathId::INLINE => unreachable!("an inline path lies in its record"),
            PathId(n) => &self.0[usize::from(n) - 1].text,
        }
    }

    /// The same paths under the same ids, without references; follow up with [`Paths::keep`] and [`Paths::trim`].
    pub(super) fn without_references(&self) -> Paths {
        Paths(self.0.iter().map(|s| Shared { text: s.text.clone(), references: 0 }).collect())
    }

    /// Drops the texts that nothing refers to.
    pub(super) fn trim(&mut self) {
        for shared in self.0.iter_mut().filter(|s| s.references == 0) {
            shared.text = Box::default();
        }
    }

    /// Bytes of heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let texts: usize = self.0.iter().map(|s| s.text.len()).sum();
        texts + self.0.capacity() * size_of::<Shared>()
    }

    fn entry(&mut self, id: PathId) -> Option<&mut Shared> {
        match id {
            PathId::NONE | PathId::INLINE => None,
            PathId(n) => Some(&mut self.0[usize::from(n) - 1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_share_a_place_until_the_last_is_released() {
        let mut paths = Paths::default();
        let a = paths.add(b"<sip:a;lr>");
        assert_eq!(paths.add(b"<sip:a;lr>"), a);
        assert_eq!(paths.add(b""), PathId::NONE);
        let b = paths.add(b"<sip:b;lr>");
        assert_ne!(a, b);
        paths.release(a);
        assert_eq!(paths.text(a), b"<sip:a;lr>");
        paths.release(a);
        assert_eq!(paths.add(b"<sip:c;lr>"), a, "the place is used again");
        assert_eq!(paths.text(b), b"<sip:b;lr>");
    }

    #[test]
    fn too_many_paths_stay_with_their_records() {
        let mut paths = Paths::default();
        for i in 0..SHARED_MAX {
            assert_ne!(paths.add(format!("<sip:{i};lr>").as_bytes()), PathId::INLINE);
        }
        assert_eq!(paths.add(b"<sip:other;lr>"), PathId::INLINE);
        assert_ne!(paths.add(b"<sip:3;lr>"), PathId::INLINE);
    }
}
