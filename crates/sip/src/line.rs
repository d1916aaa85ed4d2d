//! Lines of a header section.

use crate::syntax::find;

/// Where a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEnd {
    /// Behind the last octet of the line, its line end left out.
    pub(crate) end: usize,
    /// Where the next line begins.
    pub(crate) next: usize,
}

/// Finds the end of the line that goes on at `from`. `None` where it does not end in this buffer. A
/// lone LF is taken for a line end too, a lone CR is not.
#[inline]
pub(crate) fn line_end(buffer: &[u8], from: usize) -> Option<LineEnd> {
    let at = from + find(b'\n', buffer.get(from..)?)?;
    // The line before ends with LF.
    let has_cr = at > 0 && buffer[at - 1] == b'\r';
    Some(LineEnd {
        end: at - usize::from(has_cr),
        next: at + 1,
    })
}
