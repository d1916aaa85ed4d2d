//! A network that is up.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use emulator::{ConfigError, Device, DriverConfig, Emulator, InterfaceId, Network};
use namespace::{Mark, Namespace, NetlinkError, Program, end_programs};

use crate::control::{Description, InterfaceDescription, LinkDescription, NodeDescription};
use crate::plan::{Plan, Routing};
use crate::state::{Directory, NetworkDirectory, Record, StateError};
use crate::{Topology, plan::PlanError};

/// The variable that every program in a host finds in its environment: the network's name.
pub const NETWORK_VARIABLE: &str = "TANDEM_NET";

/// The same for the host's name.
pub const HOST_VARIABLE: &str = "TANDEM_NET_HOST";

/// The same for what tells the network from all others.
pub const ID_VARIABLE: &str = "TANDEM_NET_ID";

/// How long programs that are asked to end may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A network that is up: hosts as network namespaces, with routers and links between them in an emulator.
///
/// It is taken down when it is dropped. The namespaces and their interfaces are held by this process alone, so
/// they are gone when it dies, however that happens.
#[derive(Debug)]
pub struct Testbed {
    name: String,
    id: String,
    seed: u64,
    plan: Plan,
    hosts: Vec<Host>,
    /// Tell programs on the hosts that their network leads nowhere else.
    _marks: Vec<Mark>,
    emulator: Arc<Emulator>,
    place: NetworkDirectory,
}

#[derive(Debug)]
struct Host {
    node: usize,
    namespace: Namespace,
}

/// A network cannot be brought up here.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// No network namespace can be made.
    #[error(
        "cannot create a network namespace ({0}): run it as root, or where the kernel allows user namespaces"
    )]
    Namespace(io::Error),
    /// No TUN device can be made.
    #[error("{}", tun_advice(.0))]
    Tun(io::Error),
    /// Addresses or routes cannot be set.
    #[error("cannot set up host {host}: {error}")]
    Netlink {
        /// The host.
        host: String,
        /// Why.
        error: NetlinkError,
    },
    /// A setting of the kernel cannot be made.
    #[error("cannot set {key} of host {host} to {value}: {error}")]
    Setting {
        /// The host.
        host: String,
        /// The setting.
        key: String,
        /// What it was to be.
        value: String,
        /// Why.
        error: io::Error,
    },
    /// The topology leaves something open that cannot be filled in.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The emulator refuses the network.
    #[error(transparent)]
    Network(#[from] ConfigError),
    /// The emulator cannot begin.
    #[error("cannot begin to emulate: {0}")]
    Emulator(io::Error),
    /// The network has no place among the others.
    #[error(transparent)]
    State(#[from] StateError),
}

/// There is no such host in a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no host {name}: there are {known}")]
pub struct UnknownHost {
    /// The name.
    pub name: String,
    /// Which there are.
    pub known: String,
}

impl Testbed {
    /// Brings a network up in this process. All randomness comes from the seed.
    ///
    /// # Errors
    ///
    /// This process may not ([`crate::become_root`] may help), or something that it takes is missing; the text says
    /// what to do.
    pub fn up(topology: &Topology, name: &str, seed: u64) -> Result<Testbed, UpError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let place = format!("{}-{count}", std::process::id());
        let place = Directory::of_user()?.inside()?.take(&place)?;
        Testbed::up_at(topology, name, seed, place)
    }

    /// Brings a network up in a place that was taken for it.
    ///
    /// # Errors
    ///
    /// As [`Testbed::up`].
    pub fn up_at(
        topology: &Topology,
        name: &str,
        seed: u64,
        place: NetworkDirectory,
    ) -> Result<Testbed, UpError> {
        let plan = Plan::new(topology.clone())?;
        let id = new_id();
        place.record(&Record {
            process: std::process::id(),
            id: id.clone(),
        })?;
        let hosts_file = place.hosts();
        fs::write(&hosts_file, plan.hosts_file()).map_err(|error| StateError::File {
            path: hosts_file,
            error,
        })?;
        let network = Network::new(&plan.network(), seed, Instant::now())?;
        let mut hosts = Vec::new();
        for (node, description) in plan.topology.nodes.iter().enumerate() {
            if description.is_host {
                let namespace = Namespace::new().map_err(UpError::Namespace)?;
                hosts.push(Host { node, namespace });
            }
        }
        let (mut devices, mut marks) = (Vec::new(), Vec::new());
        for host in &hosts {
            let (made, mark) = host.set_up(&plan, &network)?;
            devices.extend(made);
            marks.push(mark);
        }
        let driver = DriverConfig {
            // Where that is refused packets are later while other programs are busy.
            real_time: true,
            ..DriverConfig::default()
        };
        let emulator = Emulator::spawn(network, devices, driver).map_err(UpError::Emulator)?;
        Ok(Testbed {
            name: name.to_owned(),
            id,
            seed,
            plan,
            hosts,
            _marks: marks,
            emulator: Arc::new(emulator),
            place,
        })
    }

    /// The emulator, where links and rules can be changed.
    pub fn emulator(&self) -> &Arc<Emulator> {
        &self.emulator
    }

    /// What was planned: nodes, interfaces, addresses.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A command that runs a program on a host. The program knows the other hosts by their names.
    ///
    /// # Errors
    ///
    /// There is no such host.
    pub fn command(&self, host: &str, program: impl AsRef<OsStr>) -> Result<Command, UnknownHost> {
        let namespace = self.namespace(host)?;
        let mut command = namespace.command(program, Some(&self.place.hosts()));
        set_variables(&mut command, &self.name, &self.id, host);
        Ok(command)
    }

    /// Moves the calling thread to a host for good: the sockets that it opens from now on are there.
    ///
    /// # Errors
    ///
    /// There is no such host, or the thread may not.
    pub fn enter(&self, host: &str) -> io::Result<()> {
        let namespace = self.namespace(host).map_err(io::Error::other)?;
        namespace.enter()
    }

    /// Runs something in a thread of its own on a host, and waits for it.
    ///
    /// # Errors
    ///
    /// There is no such host, or the thread cannot be made, may not enter, or panicked.
    pub fn run<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let namespace = self.namespace(host).map_err(io::Error::other)?;
        namespace.run(work)
    }

    /// The namespace of a host.
    ///
    /// # Errors
    ///
    /// There is no such host.
    pub fn namespace(&self, host: &str) -> Result<&Namespace, UnknownHost> {
        let name = |host: &Host| self.plan.topology.nodes[host.node].name.as_str();
        let found = self.hosts.iter().find(|one| name(one) == host);
        found
            .map(|found| &found.namespace)
            .ok_or_else(|| UnknownHost {
                name: host.chars().take(60).collect(),
                known: self.hosts.iter().map(name).collect::<Vec<_>>().join(", "),
            })
    }

    /// The addresses of a host or router: those of IPv4 first, then in the order of its links. None when there is
    /// no such node.
    pub fn addresses(&self, node: &str) -> Vec<IpAddr> {
        let node = self.plan.topology.node(node);
        node.map_or_else(Vec::new, |node| self.plan.addresses(node))
    }

    /// What the network is, for those who control it.
    pub fn description(&self) -> Description {
        let topology = &self.plan.topology;
        let nodes = topology.nodes.iter().enumerate();
        let nodes = nodes.map(|(index, node)| {
            let host = self.hosts.iter().find(|host| host.node == index);
            let interfaces = self.plan.interfaces[index].iter();
            NodeDescription {
                name: node.name.clone(),
                kind: if node.is_host { "host" } else { "router" }.to_owned(),
                namespace: host.map(|host| host.namespace.path().display().to_string()),
                interfaces: interfaces
                    .map(|interface| InterfaceDescription {
                        name: interface.name.clone(),
                        link: topology.links[interface.link].name.clone(),
                        addresses: interface
                            .addresses
                            .iter()
                            .map(ToString::to_string)
                            .collect(),
                    })
                    .collect(),
            }
        });
        let links = topology.links.iter().map(|line| LinkDescription {
            name: line.name.clone(),
            between: line.between.map(|node| topology.nodes[node].name.clone()),
            mtu: line.mtu,
        });
        Description {
            name: self.name.clone(),
            id: self.id.clone(),
            description: topology.description.clone(),
            process: std::process::id(),
            seed: self.seed,
            nodes: nodes.collect(),
            links: links.collect(),
        }
    }

    /// Takes the network down: ends the programs that still run on its hosts, and tells which these were.
    pub fn down(self) -> Vec<Program> {
        self.end_programs()
    }

    fn end_programs(&self) -> Vec<Program> {
        let is_ours = |_, identity| {
            let mut hosts = self.hosts.iter();
            hosts.any(|host| host.namespace.identity() == identity)
        };
        end_programs(is_ours, TIMEOUT)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.end_programs();
    }
}

/// What a host has when it is set up: its devices, and its mark.
type SetUp = (Vec<(InterfaceId, Device)>, Mark);

impl Host {
    /// Makes the interfaces of the host, with addresses and routes.
    fn set_up(&self, plan: &Plan, network: &Network) -> Result<SetUp, UpError> {
        let node = &plan.topology.nodes[self.node];
        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let make = || -> Result<Vec<(InterfaceId, Device)>, UpError> {
            for (key, value) in QUIET {
                // Not every kernel has all of them.
                let _ = set(key, value);
            }
            let set = |(key, value): (&String, &String)| {
                set(key, value).map_err(|error| UpError::Setting {
                    host: node.name.clone(),
                    key: key.clone(),
                    value: value.clone(),
                    error,
                })
            };
            // Those of interfaces can be made as soon as there are any, all others are for new interfaces too.
            let (now, later): (Vec<_>, Vec<_>) =
                (node.sysctl.iter()).partition(|(key, _)| exists(key));
            now.into_iter().try_for_each(set)?;
            let interfaces = network.interfaces().iter();
            let devices = interfaces
                .filter(|interface| interface.host == node.name)
                .map(|interface| {
                    let tun = Device::create_tun(&interface.name).map_err(UpError::Tun)?;
                    Ok((interface.id, tun))
                })
                .collect::<Result<_, UpError>>()?;
            later.into_iter().try_for_each(set)?;
            Ok(devices)
        };
        let made = self.namespace.run(make);
        let devices = made.map_err(UpError::Namespace)??;
        self.configure(plan, has_ipv6)
            .map_err(|error| UpError::Netlink {
                host: node.name.clone(),
                error,
            })?;
        if has_ipv6 {
            let addresses = plan.addresses(self.node).into_iter();
            let own: Vec<Ipv6Addr> = addresses.filter_map(v6).collect();
            let waited = self.namespace.run(|| wait_until_taken(&own));
            waited.map_err(UpError::Namespace)?;
        }
        let mark = self.namespace.run(Mark::here).and_then(|mark| mark);
        Ok((devices, mark.map_err(UpError::Namespace)?))
    }

    /// Gives the interfaces of the host, which exist, their addresses and routes.
    fn configure(&self, plan: &Plan, has_ipv6: bool) -> Result<(), NetlinkError> {
        let is_possible = |address: IpAddr| address.is_ipv4() || has_ipv6;
        let mut netlink = self.namespace.netlink()?;
        netlink.set_link_up("lo")?;
        for interface in &plan.interfaces[self.node] {
            let mtu = plan.topology.links[interface.link].mtu;
            netlink.set_link_mtu(&interface.name, mtu.into())?;
            netlink.set_link_up(&interface.name)?;
            for address in &interface.addresses {
                if is_possible(address.addr()) {
                    netlink.add_address(&interface.name, *address)?;
                }
            }
        }
        let Routing { routes, rules } = plan.routing(self.node);
        for route in &routes {
            if is_possible(route.destination.addr()) {
                netlink.add_route(route)?;
            }
        }
        for (source, table) in rules {
            if is_possible(source) {
                netlink.add_rule(source, table)?;
            }
        }
        Ok(())
    }
}

/// Settings of each host: whatever comes by whichever interface is taken, and nobody speaks unasked.
const QUIET: [(&str, &str); 6] = [
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
];

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(address),
    }
}

/// Waits until the host takes packets to its addresses of IPv6. The kernel makes the routes for that in a thread
/// of its own some time after an address was added, and until then drops what comes.
fn wait_until_taken(addresses: &[Ipv6Addr]) {
    const LOOK: Duration = Duration::from_millis(1);
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        let routes = fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
        if addresses
            .iter()
            .all(|address| has_own_route(&routes, *address))
        {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a table of the kernel (proc(5), `/proc/net/ipv6_route`) has a route to that very address: its bits and
/// their number, 128, in hexadecimal begin the line.
fn has_own_route(routes: &str, address: Ipv6Addr) -> bool {
    let begin = format!("{:032x} 80 ", address.to_bits());
    routes.lines().any(|line| line.starts_with(&begin))
}

/// Makes a setting of the network namespace that the calling thread is in.
fn set(key: &str, value: &str) -> io::Result<()> {
    fs::write(setting(key), value)
}

/// Whether that network namespace has a setting.
fn exists(key: &str) -> bool {
    Path::new(&setting(key)).exists()
}

fn setting(key: &str) -> String {
    format!("/proc/sys/{}", key.replace('.', "/"))
}

/// Tells a program where it is.
pub fn set_variables(command: &mut Command, network: &str, id: &str, host: &str) {
    command
        .env(NETWORK_VARIABLE, network)
        .env(HOST_VARIABLE, host)
        .env(ID_VARIABLE, id);
}

/// Ends programs that a network left behind whose process died: those that it is written of in their environment.
/// Their namespaces cannot be told from others any more.
pub fn end_programs_of(id: &str) -> Vec<Program> {
    let variable = format!("{ID_VARIABLE}={id}").into_bytes();
    let is_meant = |process: u32, _| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut variables = environment.split(|octet| *octet == 0);
        variables.any(|one| one == variable)
    };
    end_programs(is_meant, TIMEOUT)
}

/// A text that no other network has.
fn new_id() -> String {
    let random: u128 = rand::random();
    format!("{random:032x}")
}

fn tun_advice(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no /dev/net/tun: load the module (modprobe tun), or give it to the container \
             (--device /dev/net/tun)"
        }
        io::ErrorKind::PermissionDenied => {
            "/dev/net/tun cannot be opened: run it as root, or allow this user to open it (chmod 666 /dev/net/tun)"
        }
        _ => "/dev/net/tun exists, but does not work",
    };
    format!("cannot create a TUN device: {advice} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_to_oneself_is_found() {
        let routes = "fd000001000000000000000000000000 40 00000000 00 0 00000100 1 0 00000001     eth0\n\
                      fd000001000000000000000000000002 80 00000000 00 0 00000000 2 0 80200001     eth0\n";
        let has = |address: &str| has_own_route(routes, address.parse().unwrap());
        assert!(has("fd00:1::2"));
        assert!(!has("fd00:1::"));
        assert!(!has("fd00:1::3"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let advice = |kind| tun_advice(&io::Error::from(kind));
        assert!(advice(io::ErrorKind::NotFound).contains("modprobe tun"));
        assert!(advice(io::ErrorKind::PermissionDenied).contains("root"));
    }
}
