//! Lines of a header section.

use crate::syntax::find_control;

/// Where a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEnd {
    /// Behind the last octet of the line, its line end left out.
    pub(crate) end: usize,
    /// Where the next line begins.
    pub(crate) next: usize,
    /// Whether it ends with CRLF and has no other CR or LF in it, as RFC 3261 section 7 demands. A
    /// lone LF is taken for a line end too, a lone CR is not.
    pub(crate) proper: bool,
}

/// Finds the end of the line that goes on at `from`. `None` where it does not end in this buffer.
#[inline(always)]
pub(crate) fn line_end(buffer: &[u8], from: usize) -> Option<LineEnd> {
    let mut at = from;
    let mut proper = true;
    loop {
        at += find_control(buffer.get(at..)?)?;
        match buffer[at..] {
            [b'\r', b'\n', ..] => {
                return Some(LineEnd {
                    end: at,
                    next: at + 2,
                    proper,
                });
            }
            [b'\n', ..] => {
                return Some(LineEnd {
                    end: at,
                    next: at + 1,
                    proper: false,
                });
            }
            // What follows this CR is not here yet.
            [b'\r'] => return None,
            [b'\r', ..] => proper = false,
            _ => {}
        }
        at += 1;
    }
}
