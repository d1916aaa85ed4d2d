//! Calls to the kernel that no library of ours has a safe form for.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The longest name of an interface, with the zero at its end.
const NAME_LENGTH: usize = libc::IFNAMSIZ;

/// Tells the kernel that a descriptor of `/dev/net/tun` is the TUN device of that name, which is made, in the
/// network namespace in which the descriptor was opened. Packets come and go without a header before that
/// of IP.
pub(super) fn make_tun(descriptor: impl AsFd, name: &str) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open while it is borrowed. TUNSETIFF reads and writes one `ifreq`, which
    // `request` is, and keeps no pointer to it.
    let result = unsafe {
        libc::ioctl(
            descriptor.as_fd().as_raw_fd(),
            libc::TUNSETIFF as libc::Ioctl,
            &raw mut request,
        )
    };
    check(result)
}

/// Sets one of the values of an interface that `ethtool` sets, in the namespace of the socket.
pub(super) fn set_ethtool(
    socket: impl AsFd,
    interface: &str,
    command: u32,
    value: u32,
) -> io::Result<()> {
    /// `struct ethtool_value` of linux/ethtool.h.
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        value: u32,
    }
    /// Of linux/sockios.h.
    const SIOCETHTOOL: libc::Ioctl = 0x8946;

    let mut content = EthtoolValue { command, value };
    let mut request = request(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut content).cast();
    // SAFETY: the descriptor is open while it is borrowed. SIOCETHTOOL reads one `ifreq`, and through its
    // pointer reads and writes one `ethtool_value` for the commands that set one value; both live until
    // the call is over, and the kernel keeps no pointer to them.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    check(result)
}

/// Binds a packet socket to an interface: it receives all that this one does.
pub(super) fn bind_to_interface(socket: impl AsFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads one `sockaddr_ll`, of the length
    // that it is told.
    let result = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    check(result)
}

/// Lets a packet socket receive what is not for this machine too.
pub(super) fn receive_everything(socket: impl AsFd, index: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_packet_option(socket, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Lets a packet socket receive nothing that this machine itself sends.
pub(super) fn ignore_outgoing(socket: impl AsFd) -> io::Result<()> {
    /// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h.
    const IGNORE_OUTGOING: libc::c_int = 23;
    let yes: libc::c_int = 1;
    set_packet_option(socket, IGNORE_OUTGOING, &yes)
}

/// Asks for short turns on the processor: a thread that is woken, uses little, and sleeps again then soon goes
/// before those that compute for long (sched_setattr(2): since Linux 6.12 the runtime of an ordinary thread
/// is how long it wants to be at it). That is for everybody; earlier kernels take no notice.
pub(super) fn take_short_turns() -> io::Result<()> {
    /// The shortest that the kernel grants.
    const TURN: u64 = 100_000;
    // SAFETY: a structure of numbers; zeros are valid for each.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes no more than `size` bytes to `attributes`, and keeps no pointer to it. 0 is the
    // calling thread.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            size,
            0 as libc::c_uint,
        )
    };
    check(result as libc::c_int)?;
    attributes.size = size;
    attributes.sched_runtime = TURN;
    // SAFETY: the kernel reads `attributes.size` bytes, which is what there is, and keeps no pointer to it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            0,
            &raw const attributes,
            0 as libc::c_uint,
        )
    };
    check(result as libc::c_int)
}

/// Lets the calling thread go before all of the machine that are not in real time (SCHED_FIFO), and so all that it
/// starts from then on.
///
/// # Errors
///
/// That is for root.
pub fn go_first() -> io::Result<()> {
    const LEAST_PRIORITY: libc::c_int = 1;
    let parameter = libc::sched_param {
        sched_priority: LEAST_PRIORITY,
    };
    // SAFETY: the kernel reads one `sched_param`, which lives until the call is over. 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    check(result)
}

fn set_packet_option<T>(socket: impl AsFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads no more of `value` than the
    // length that it is told, and keeps no pointer to it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

/// A request about an interface, with nothing but its name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= NAME_LENGTH || name.contains('\0') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a name of an interface: those have 1 to 15 octets"),
        ));
    }
    // SAFETY: an array of numbers and a union of numbers, of structures of such, and of a pointer; zeros are
    // valid for each.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
