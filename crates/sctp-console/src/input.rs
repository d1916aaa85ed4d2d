//! Standard input: a thread that reads lines, so that nothing waits for a person who types.

use std::io::{self, BufRead, Read};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Lines that wait to be taken; then reading waits.
const MAX_WAITING: usize = 4;

/// What was read.
#[derive(Debug)]
pub(crate) enum Input {
    /// A line without its end.
    Line(Bytes),
    /// A line of so many bytes, which was not kept.
    TooLong(u64),
    /// There is no more; why, if it is not the end of the file.
    End(Option<io::Error>),
}

/// Starts to read lines of up to so many bytes.
pub(crate) fn start(
    mut source: impl BufRead + Send + 'static,
    max_line: usize,
) -> io::Result<mpsc::Receiver<Input>> {
    let (lines, waiting) = mpsc::channel(MAX_WAITING);
    // Nobody joins it: a thread that waits for a terminal cannot be woken, and ends with the program.
    std::thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            loop {
                let input = read_line(&mut source, max_line)
                    .unwrap_or_else(|error| Input::End(Some(error)));
                let is_end = matches!(input, Input::End(_));
                if lines.blocking_send(input).is_err() || is_end {
                    return;
                }
            }
        })?;
    Ok(waiting)
}

fn read_line(source: &mut impl BufRead, max_line: usize) -> io::Result<Input> {
    let mut line = Vec::new();
    // One more than a line may have: its end.
    let limit = max_line as u64 + 1;
    let length = source.by_ref().take(limit).read_until(b'\n', &mut line)?;
    if length == 0 {
        return Ok(Input::End(None));
    }
    let is_whole = line.pop_if(|last| *last == b'\n').is_some() || (length as u64) < limit;
    if is_whole {
        return Ok(Input::Line(line.into()));
    }
    drop(line);
    Ok(Input::TooLong(length as u64 + skip_line(source)?))
}

/// Reads to the end of the line, and tells how many bytes that were, its end aside.
fn skip_line(source: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let length = end.unwrap_or(buffer.len());
        skipped += length as u64;
        source.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from these bytes, a word for each.
    fn read(bytes: &'static [u8], max_line: usize) -> Vec<String> {
        let mut lines = start(bytes, max_line).expect("a thread");
        std::iter::from_fn(|| lines.blocking_recv())
            .map(|input| match input {
                Input::Line(line) => String::from_utf8_lossy(&line).into_owned(),
                Input::TooLong(length) => format!("({length})"),
                Input::End(None) => "end".into(),
                Input::End(Some(error)) => error.to_string(),
            })
            .collect()
    }

    #[test]
    fn lines_lose_their_ends_and_nothing_else() {
        assert_eq!(
            read(b"one\n two \r\n\nthree", 10),
            ["one", " two \r", "", "three", "end"]
        );
        assert_eq!(read(b"\n", 10), ["", "end"]);
        assert_eq!(read(b"", 10), ["end"]);
    }

    #[test]
    fn longer_lines_are_not_kept() {
        assert_eq!(
            read(b"12345\n123456\n1234567890\nab", 5),
            ["12345", "(6)", "(10)", "ab", "end"]
        );
        assert_eq!(read(b"123456", 5), ["(6)", "end"]);
        static LONG: [u8; 1 << 20] = [b'x'; 1 << 20];
        assert_eq!(read(&LONG, 5), ["(1048576)", "end"]);
    }

    #[test]
    fn a_failing_source_is_an_end_with_a_reason() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let mut lines = start(io::BufReader::new(Broken), 5).expect("a thread");
        assert!(
            matches!(lines.blocking_recv(), Some(Input::End(Some(error))) if error.to_string() == "broken")
        );
        assert!(lines.blocking_recv().is_none());
    }
}
