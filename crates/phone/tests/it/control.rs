//! The control socket: for this user alone, at all times.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use phone::{ControlSocket, PhoneEvent};
use sip::Transport;

use crate::calls::block_on;
use crate::phones::Running;

#[test]
fn the_socket_appears_with_its_permissions_and_replaces_one_that_was_left_behind() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("phone.sock");
        let phone = Running::start("alice", Transport::Udp, |_| {});
        // Somebody else watches for the socket all the time.
        let watched = path.clone();
        let watching = std::thread::spawn(move || {
            loop {
                if let Ok(found) = std::fs::metadata(&watched) {
                    return found.permissions().mode() & 0o777;
                }
            }
        });
        let socket = ControlSocket::open(&path, &phone.phone).unwrap();
        assert_eq!(watching.join().unwrap(), 0o600);
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        // One that is in use is not taken away.
        assert!(ControlSocket::open(&path, &phone.phone).is_err());
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"command\":\"dance\"}\n").unwrap();
        let mut answer = String::new();
        BufReader::new(client.try_clone().unwrap())
            .read_line(&mut answer)
            .unwrap();
        assert!(answer.contains("unknown variant `dance`"), "{answer}");
        socket.tell(&PhoneEvent::Played { call: 7 });
        drop(socket);
        assert!(!path.exists());
        // What a phone that was killed leaves behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let again = ControlSocket::open(&path, &phone.phone).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(again);
    });
}
