//! Lines of a header section.

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
pub(crate) fn line_end(buffer: &[u8], from: usize) -> Option<LineEnd> {
    let mut at = from;
    let mut proper = true;
    loop {
        at += memchr::memchr2(b'\r', b'\n', buffer.get(at..)?)?;
        if buffer[at] == b'\n' {
            return Some(LineEnd {
                end: at,
                next: at + 1,
                proper: false,
            });
        }
        if *buffer.get(at + 1)? == b'\n' {
            return Some(LineEnd {
                end: at,
                next: at + 2,
                proper,
            });
        }
        proper = false;
        at += 1;
    }
}
