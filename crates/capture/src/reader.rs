//! One capture file, read packet by packet.

use std::io::{self, Read};

use crate::{Seen, Time};

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is of no format that is known.
    #[error("neither pcap, pcapng, nor a text summary of Wireshark")]
    UnknownFormat,
}

/// What was counted while a file was read.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Packets in the file.
    pub packets: u64,
    /// Octets of the file.
    pub octets: u64,
    /// SIP messages.
    pub sip_messages: u64,
    /// SCTP packets.
    pub sctp_packets: u64,
}

/// Reads one capture file. Its memory is bounded by what waits for its other parts (fragments,
/// segments, unfinished messages), not by the length of the file.
pub struct Reader<R> {
    file: usize,
    input: R,
    counts: Counts,
}

impl<R: Read> Reader<R> {
    /// Looks at the beginning of a file to see what it is. `file` is the number that
    /// [`Seen::file`] will have.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is nothing that is known.
    pub fn open(input: R, file: usize) -> Result<Reader<R>, OpenError> {
        let mut reader = Reader {
            file,
            input,
            counts: Counts::default(),
        };
        let mut beginning = [0; 4];
        reader.input.read_exact(&mut beginning)?;
        Ok(reader)
    }

    /// When the next packet was captured, so that several files can be merged by time. `None` at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn next_time(&mut self) -> io::Result<Option<Time>> {
        Ok(None)
    }

    /// Reads the next packet and hands over what is seen in it: nothing, or several things. False at the
    /// end of the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. What is damaged is no error but a [`Trouble`](crate::Trouble) that is
    /// seen.
    pub fn step(&mut self, see: &mut dyn FnMut(Seen<'_>)) -> io::Result<bool> {
        let _ = (see, self.file);
        Ok(false)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
