//! A value that is not what was expected, on its way to an error that says where it stands.

use std::ops::Range;

/// A value that is not what was expected, before anyone knows where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) expected: String,
    pub(crate) found: String,
    pub(crate) hint: Option<String>,
    /// The part of the file that is wrong, when it is smaller than the value: an element of a list.
    pub(crate) span: Option<Range<usize>>,
}

impl Bad {
    pub(crate) fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Bad { expected: expected.into(), found: found.into(), hint: None, span: None }
    }
}

impl From<busyhour_control::subscribers::BadInput> for Bad {
    fn from(input: busyhour_control::subscribers::BadInput) -> Self {
        Bad::new(input.expected, input.found)
    }
}
