//! Packets of a loopback interface that nobody else uses.

use std::net::UdpSocket;
use std::time::{Duration, SystemTime};

use packet_socket::{ANY, HEADER_LENGTH, OpenError, PacketSocket};
use test_support::Namespace;

#[test]
fn a_packet_is_heard_once() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    namespace.enter();
    for interface in ["lo", ANY] {
        let mut socket = PacketSocket::open(interface).expect("root may");
        let before = SystemTime::now() - Duration::from_secs(1);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        sender
            .send_to(b"hello", sender.local_addr().expect("an address"))
            .expect("it is sent");
        let packet = socket
            .receive(Duration::from_secs(20))
            .expect("it can be read")
            .expect("it comes");
        assert!(packet.time > before);
        assert_eq!(packet.octets[..2], [8, 0], "IPv4");
        assert_eq!(packet.octets[HEADER_LENGTH], 0x45, "its header");
        assert!(packet.octets.ends_with(b"hello"));
        let again = socket.receive(Duration::from_millis(50)).expect("it can");
        assert!(again.is_none(), "{again:?}");
        assert_eq!(socket.dropped(), 0);
    }
}

#[test]
fn other_interfaces_are_named() {
    match PacketSocket::open("nothing0") {
        Err(OpenError::NoInterface { name, others }) => {
            assert_eq!(name, "nothing0");
            assert!(others.contains("lo") && others.contains(ANY), "{others}");
        }
        other => panic!("{other:?}"),
    }
}
