//! Lets the kernel give each UDP datagram to the worker whose association it belongs to.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt};

/// Attaches a program to the group of sockets that share an address with `socket` (SO_REUSEPORT),
/// which chooses among the first `workers` of them, in the order in which they were bound, by the
/// SCTP verification tag. Packets with tag 0 hold an INIT, and go by the tag that its sender has
/// chosen, so that copies of it come to the same worker.
///
/// # Errors
///
/// The kernel's.
pub(super) fn steer_by_tag(socket: &impl AsFd, workers: u32) -> io::Result<()> {
    let mut program = [
        load_word(VERIFICATION_TAG),
        statement(JUMP_IF_EQUAL, 0, 0, 1),
        load_word(INITIATE_TAG),
        statement(MODULO, workers, 0, 0),
        statement(RETURN_ACCUMULATOR, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // The kernel copies the program before this returns.
    setsockopt(socket, sockopt::AttachReusePortCbpf, &filter)?;
    Ok(())
}

/// Where in the payload of the datagram the verification tag is (RFC 9260 section 3.1).
const VERIFICATION_TAG: u32 = 4;
/// Where the Initiate Tag is, when the first chunk is an INIT (section 3.3.2). A packet that is too
/// short to have one goes to the first worker, for a load beyond the end returns 0.
const INITIATE_TAG: u32 = 16;

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
const RETURN_ACCUMULATOR: u32 = libc::BPF_RET | libc::BPF_A;

fn load_word(offset: u32) -> libc::sock_filter {
    statement(LOAD_WORD, offset, 0, 0)
}

fn statement(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}
