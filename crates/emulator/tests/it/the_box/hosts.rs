//! Hosts of a network: network namespaces with TUN devices.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use emulator::{Device, DriverConfig, Emulator, HostInterface, Network, NetworkConfig};
use namespace::Namespace;
use test_support::{require_command, say_skipped};

pub(crate) struct Hosts {
    pub(crate) namespaces: BTreeMap<String, Namespace>,
    pub(crate) emulator: Emulator,
}

impl Hosts {
    /// Builds all of it; `None`, and a line with the reason, where that cannot be.
    pub(crate) fn up(config: &NetworkConfig) -> Option<Hosts> {
        require_command("ip", "iproute2")?;
        let mut namespaces = BTreeMap::new();
        for host in &config.hosts {
            match Namespace::new() {
                Ok(namespace) => namespaces.insert(host.clone(), namespace),
                Err(error) => {
                    say_skipped(&format!("no network namespace: {error}"));
                    return None;
                }
            };
        }
        let network = Network::new(config, 1, Instant::now()).unwrap();
        let mut devices = Vec::new();
        for interface in network.interfaces() {
            let namespace = &namespaces[&interface.host];
            let device = namespace.run(|| Device::create_tun(&interface.name));
            match device.and_then(|device| device) {
                Ok(device) => devices.push((interface.id, device)),
                Err(error) => {
                    say_skipped(&format!("no TUN device: {error}"));
                    return None;
                }
            }
            set_up(namespace, interface);
        }
        let emulator = Emulator::spawn(network, devices, DriverConfig::default()).unwrap();
        Some(Hosts {
            namespaces,
            emulator,
        })
    }

    pub(crate) fn run<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        self.namespaces[host].run(work).unwrap()
    }

    pub(crate) fn udp(&self, host: &str, address: &str) -> UdpSocket {
        let address: SocketAddr = address.parse().unwrap();
        let socket = self.run(host, || UdpSocket::bind(address)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket
    }

    pub(crate) fn listen(&self, host: &str, address: &str) -> TcpListener {
        let address: SocketAddr = address.parse().unwrap();
        self.run(host, || TcpListener::bind(address)).unwrap()
    }

    pub(crate) fn connect(&self, host: &str, address: &str) -> TcpStream {
        let address: SocketAddr = address.parse().unwrap();
        self.run(host, || {
            TcpStream::connect_timeout(&address, Duration::from_secs(10))
        })
        .unwrap()
    }
}

fn set_up(namespace: &Namespace, interface: &HostInterface) {
    let (name, mtu) = (&interface.name, interface.mtu);
    let table = interface.id.0 + 1;
    let ip = |arguments: String| {
        let output = namespace
            .command("ip", None)
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {error}");
    };
    ip("link set lo up".to_owned());
    ip(format!("link set {name} mtu {mtu} txqueuelen 1000 up"));
    for address in &interface.addresses {
        let own = address.addr();
        let (version, nodad) = match own.is_ipv4() {
            true => ("-4", ""),
            false => ("-6", "nodad"),
        };
        // What has several interfaces sends what comes from an address by the interface that has it.
        ip(format!("{version} addr add {address} dev {name} {nodad}"));
        ip(format!("{version} rule add from {own} table {table}"));
        ip(format!(
            "{version} route add default dev {name} table {table}"
        ));
        ip(format!(
            "{version} route add default dev {name} metric {table}"
        ));
    }
}
