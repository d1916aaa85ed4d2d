//! The configuration of a signalling process, as TOML.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use m3ua::message::{RoutingKey, ServiceIndicator, TrafficMode, TrafficSelection};
use m3ua::{
    Activation, ApplicationServerConfig, AsId, Config, ConfigError, KeySelection, MaskedPointCode,
    MemberConfig, Network, NetworkId, PeerConfig, PeerId, PeerRole, PointCode, PointCodeError,
    Registration, Route, ServedBy, SgId, SignallingProcess, Variant, Via,
};
use serde::{Deserialize, Deserializer};

use crate::carrier::CarrierConfiguration;

/// A configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Configuration {
    /// What carries the associations.
    pub sctp: CarrierConfiguration,
    /// Timers and limits.
    pub m3ua: Settings,
    /// Where metrics and status are served.
    pub metrics: MetricsTable,
    /// SS7 networks; none: one with ITU point codes, without Network Appearance.
    pub network: Vec<NetworkTable>,
    /// Signalling processes at the other end of associations.
    pub peer: Vec<PeerTable>,
    /// Application servers.
    pub application_server: Vec<ApplicationServerTable>,
    /// Routes.
    pub route: Vec<RouteTable>,
}

/// The table `m3ua`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// T(ack), 2 seconds.
    #[serde(deserialize_with = "time")]
    pub t_ack: Option<Duration>,
    /// T(r), 2 seconds.
    #[serde(deserialize_with = "time")]
    pub t_r: Option<Duration>,
    /// T(beat); without, no heartbeats of M3UA.
    #[serde(deserialize_with = "time")]
    pub t_beat: Option<Duration>,
    /// Time between audits of destinations that are not available; without, none.
    #[serde(deserialize_with = "time")]
    pub t_audit: Option<Duration>,
    /// Whether messages for others are relayed.
    pub gateway: bool,
    /// Which routing keys may be registered: `unsupported`, `provisioned` or `dynamic`.
    pub registration: RegistrationPolicy,
    /// Messages that a pending application server keeps.
    pub max_pending_messages: Option<usize>,
}

/// The table `metrics`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsTable {
    /// The address of `/metrics`, `/status` and the page; none: they are not served.
    pub listen: Option<SocketAddr>,
    /// The names by which the listener may be asked, beside addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// Which routing keys may be registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationPolicy {
    /// None.
    #[default]
    Unsupported,
    /// Those in the configuration.
    Provisioned,
    /// Any.
    Dynamic,
}

/// A table `network`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkTable {
    /// Network Appearance.
    pub appearance: Option<u32>,
    /// `itu`, `ansi`, `china` or `japan`.
    pub variant: Option<String>,
}

/// A table `peer`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerTable {
    /// Its name.
    pub name: String,
    /// `asp`, `sgp`, `ipsp-single` or `ipsp-double`: what it is to us.
    pub role: RoleName,
    /// Its addresses, the first one with the SCTP port: `192.0.2.1:2905`.
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Further addresses.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Its UDP port.
    pub encapsulation_port: Option<u16>,
    /// Whether we open the association. Default: to an SGP.
    pub connect: Option<bool>,
    /// The signalling gateway that it is an SGP of; without, it is one by itself.
    pub gateway: Option<String>,
    /// Our ASP Identifier towards it.
    pub asp_identifier: Option<u32>,
}

/// What a peer is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleName {
    /// An ASP.
    Asp,
    /// An SGP.
    Sgp,
    /// An IPSP with single exchange.
    IpspSingle,
    /// An IPSP with double exchange.
    IpspDouble,
}

/// A table `application_server`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationServerTable {
    /// Its name.
    pub name: String,
    /// `peers`, `us` or `both`.
    pub served_by: ServedByName,
    /// The peers that serve it, or at which we do.
    pub peers: Vec<String>,
    /// The Network Appearance of its network; without, the first network.
    pub network: Option<u32>,
    /// Its routing context.
    pub routing_context: Option<u32>,
    /// Destination point codes: `2-45-3`, or `2-45-0/3` for all that differ in the last three bits only.
    #[serde(default)]
    pub dpc: Vec<String>,
    /// MTP3 users: `isup`, `sccp`, or numbers.
    #[serde(default)]
    pub si: Vec<String>,
    /// Originating point codes.
    #[serde(default)]
    pub opc: Vec<String>,
    /// The first and the last circuit of ISUP.
    pub circuits: Option<[u16; 2]>,
    /// `override`, `loadshare` or `broadcast`.
    pub traffic_mode: Option<String>,
    /// ASPs that must be active before traffic begins.
    pub required_asps: Option<usize>,
    /// `immediate`, `standby` or `manual`.
    pub activation: Option<String>,
    /// Whether we register its key.
    #[serde(default)]
    pub register: bool,
}

/// Who serves an application server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedByName {
    /// Peers.
    Peers,
    /// We do.
    Us,
    /// Both ends, with single exchange.
    Both,
}

/// A table `route`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// A point code or a range; without, all destinations.
    pub destination: Option<String>,
    /// The Network Appearance of its network; without, the first network.
    pub network: Option<u32>,
    /// The name of a signalling gateway, an application server, or a peer that is a gateway by itself.
    pub via: String,
    /// Lower ones first; equal ones share.
    #[serde(default)]
    pub priority: u8,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It is not TOML, or has unknown keys.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A point code.
    #[error("{0}")]
    PointCode(#[from] PointCodeError),
    /// A word that is not one of those that may be there.
    #[error("{what}: {word:?} is not known")]
    Word {
        /// Which key.
        what: &'static str,
        /// What it says.
        word: String,
    },
    /// A name that nothing has.
    #[error("{what}: nothing has the name {name:?}")]
    Name {
        /// Which key.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that two have.
    #[error("{what}: the name {name:?} is there twice")]
    Twice {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that a registered key could get.
    #[error("application_server: names like {0:?} are those of keys that ASPs register")]
    Reserved(String),
    /// What the engine does not take.
    #[error("{name}: {error}")]
    Engine {
        /// Of what.
        name: String,
        /// Why.
        error: ConfigError,
    },
}

/// The names that a configuration has given.
#[derive(Clone, Debug, Default)]
pub struct Names {
    peers: Vec<String>,
    application_servers: BTreeMap<String, AsId>,
    /// By number.
    application_server_names: Vec<String>,
    gateways: BTreeMap<String, SgId>,
}

impl Names {
    /// The name of a peer.
    pub fn of_peer(&self, peer: PeerId) -> &str {
        self.peers
            .get(peer.0)
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// The name of an application server: of one that was registered, too.
    pub fn of_application_server(&self, server: AsId) -> Cow<'_, str> {
        match self.application_server_names.get(server.0) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(server.registered_name()),
        }
    }

    /// The name of a signalling gateway.
    pub fn of_gateway(&self, gateway: SgId) -> Option<&str> {
        let mut named = self.gateways.iter();
        let (name, _) = named.find(|(_, it)| **it == gateway)?;
        Some(name)
    }

    /// The peer with this name.
    pub fn peer(&self, name: &str) -> Option<PeerId> {
        self.peers.iter().position(|it| it == name).map(PeerId)
    }

    /// The application server with this name.
    pub fn application_server(&self, name: &str) -> Option<AsId> {
        self.application_servers.get(name).copied()
    }
}

impl Configuration {
    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// When it is not TOML, or has unknown keys.
    pub fn read(text: &str) -> Result<Configuration, ConfigurationError> {
        Ok(toml::from_str(text)?)
    }

    /// The variant of the first network, in which point codes are shown.
    pub fn variant(&self) -> Result<Variant, ConfigurationError> {
        Ok(self
            .networks()?
            .first()
            .map(|network| network.variant)
            .unwrap_or_default())
    }

    /// The engine with all that is configured, and the names of its parts.
    ///
    /// # Errors
    ///
    /// When a name, a word or a point code is wrong.
    pub fn build(&self) -> Result<(SignallingProcess, Names), ConfigurationError> {
        let networks = self.networks()?;
        let defaults = Config::default();
        let mut engine = SignallingProcess::new(Config {
            networks: networks.clone(),
            t_ack: self.m3ua.t_ack.unwrap_or(defaults.t_ack),
            t_r: self.m3ua.t_r.unwrap_or(defaults.t_r),
            t_beat: self.m3ua.t_beat,
            t_audit: self.m3ua.t_audit,
            relays: self.m3ua.gateway,
            registration: match self.m3ua.registration {
                RegistrationPolicy::Unsupported => Registration::Unsupported,
                RegistrationPolicy::Provisioned => Registration::Provisioned,
                RegistrationPolicy::Dynamic => Registration::Dynamic,
            },
            max_pending_messages: self
                .m3ua
                .max_pending_messages
                .unwrap_or(defaults.max_pending_messages),
            ..defaults
        });
        let mut names = Names::default();
        for table in &self.peer {
            self.add_peer(&mut engine, &mut names, table)?;
        }
        for table in &self.application_server {
            add_application_server(&mut engine, &mut names, &networks, table)?;
        }
        for table in &self.route {
            add_route(&mut engine, &names, &networks, table)?;
        }
        Ok((engine, names))
    }

    fn networks(&self) -> Result<Vec<Network>, ConfigurationError> {
        if self.network.is_empty() {
            return Ok(vec![Network::default()]);
        }
        let networks = self.network.iter().map(|table| {
            let name = table.variant.as_deref().unwrap_or("itu");
            let variant = Variant::named(name).ok_or_else(|| word("variant", name))?;
            Ok(Network {
                appearance: table.appearance,
                variant,
            })
        });
        networks.collect()
    }

    fn add_peer(
        &self,
        engine: &mut SignallingProcess,
        names: &mut Names,
        table: &PeerTable,
    ) -> Result<(), ConfigurationError> {
        if names.peer(&table.name).is_some() {
            return Err(twice("peer", &table.name));
        }
        let role = match table.role {
            RoleName::Asp => PeerRole::Asp,
            RoleName::Sgp => PeerRole::Sgp,
            RoleName::IpspSingle => PeerRole::IpspSingleExchange,
            RoleName::IpspDouble => PeerRole::IpspDoubleExchange,
        };
        let gateway = match (table.role, &table.gateway) {
            (RoleName::Asp, _) => None,
            (_, name) => {
                let name = name.as_ref().unwrap_or(&table.name).clone();
                Some(
                    *names
                        .gateways
                        .entry(name)
                        .or_insert_with(|| engine.add_gateway()),
                )
            }
        };
        let config = PeerConfig {
            name: table.name.clone(),
            role,
            network: NetworkId(0),
            asp_identifier: table.asp_identifier,
            comes_up: true,
        };
        engine
            .add_peer(config, gateway)
            .map_err(|error| of_engine(&table.name, error))?;
        names.peers.push(table.name.clone());
        Ok(())
    }
}

impl PeerTable {
    /// Whether we open the association.
    pub(crate) fn connects(&self) -> bool {
        self.connect.unwrap_or(self.role == RoleName::Sgp)
    }
}

fn add_application_server(
    engine: &mut SignallingProcess,
    names: &mut Names,
    networks: &[Network],
    table: &ApplicationServerTable,
) -> Result<(), ConfigurationError> {
    if names.application_server(&table.name).is_some() {
        return Err(twice("application_server", &table.name));
    }
    if AsId::is_registered_name(&table.name) {
        return Err(ConfigurationError::Reserved(table.name.clone()));
    }
    let (network, variant) = find_network(networks, table.network)?;
    let key = selections(table, variant)?;
    let traffic_mode = table
        .traffic_mode
        .as_deref()
        .map(traffic_mode)
        .transpose()?;
    let config = ApplicationServerConfig {
        name: table.name.clone(),
        network,
        served_by: match table.served_by {
            ServedByName::Peers => ServedBy::Peers,
            ServedByName::Us => ServedBy::Us,
            ServedByName::Both => ServedBy::Both,
        },
        routing_context: table.routing_context,
        routing_key: key.clone(),
        traffic_mode,
        required_asps: table.required_asps.unwrap_or(1),
    };
    let server = engine.add_application_server(config);
    let server = server.map_err(|error| of_engine(&table.name, error))?;
    names.application_servers.insert(table.name.clone(), server);
    names.application_server_names.push(table.name.clone());
    let activation = match table.activation.as_deref() {
        None | Some("immediate") => Activation::Immediate,
        Some("standby") => Activation::Standby,
        Some("manual") => Activation::Manual,
        Some(other) => return Err(word("activation", other)),
    };
    let registers = table.register.then(|| RoutingKey {
        local_rk_identifier: 0,
        routing_context: None,
        traffic_mode,
        network_appearance: table.network,
        selections: key.into_iter().map(|it| it.traffic).collect(),
        unsupported_parameter: None,
    });
    for name in &table.peers {
        let peer = names.peer(name).ok_or_else(|| ConfigurationError::Name {
            what: "peers",
            name: name.clone(),
        })?;
        let member = MemberConfig {
            activation,
            registers: registers.clone(),
        };
        let added = engine.add_member(peer, server, member);
        added.map_err(|error| of_engine(&table.name, error))?;
    }
    Ok(())
}

fn add_route(
    engine: &mut SignallingProcess,
    names: &Names,
    networks: &[Network],
    table: &RouteTable,
) -> Result<(), ConfigurationError> {
    let (network, variant) = find_network(networks, table.network)?;
    let destination = match &table.destination {
        Some(text) => range(text, variant)?,
        None => MaskedPointCode {
            mask: 24,
            point_code: variant.read("0")?,
        },
    };
    let gateway = names.gateways.get(&table.via).copied().map(Via::Sg);
    let via = gateway.or_else(|| names.application_server(&table.via).map(Via::As));
    let via = via.ok_or_else(|| ConfigurationError::Name {
        what: "via",
        name: table.via.clone(),
    })?;
    let route = Route {
        destination,
        via,
        priority: table.priority,
    };
    engine
        .add_route(network, route)
        .map_err(|error| of_engine(&table.via, error))
}

fn find_network(
    networks: &[Network],
    appearance: Option<u32>,
) -> Result<(NetworkId, Variant), ConfigurationError> {
    let mut numbered = networks.iter().enumerate();
    let found = numbered.find(|(_, it)| appearance.is_none() || it.appearance == appearance);
    let (number, network) = found.ok_or_else(|| ConfigurationError::Name {
        what: "network",
        name: appearance.unwrap_or_default().to_string(),
    })?;
    Ok((NetworkId(number), network.variant))
}

fn selections(
    table: &ApplicationServerTable,
    variant: Variant,
) -> Result<Vec<KeySelection>, ConfigurationError> {
    let users = table.si.iter().map(|name| {
        let user = ServiceIndicator::named(name).and_then(|it| u8::try_from(it.0).ok());
        user.ok_or_else(|| word("si", name))
    });
    let users = users.collect::<Result<Vec<u8>, _>>()?;
    let opcs = table.opc.iter().map(|text| range(text, variant));
    let opcs = opcs.collect::<Result<Vec<MaskedPointCode>, _>>()?;
    let selections = table.dpc.iter().map(|text| {
        Ok(KeySelection {
            traffic: TrafficSelection {
                dpc: range(text, variant)?,
                service_indicators: users.clone(),
                opcs: opcs.clone(),
            },
            circuits: table.circuits.map(|[first, last]| first..=last),
        })
    });
    selections.collect()
}

fn range(text: &str, variant: Variant) -> Result<MaskedPointCode, ConfigurationError> {
    let (point_code, mask) = match text.split_once('/') {
        None => (text, 0),
        Some((point_code, mask)) => (point_code, mask.parse().map_err(|_| word("mask", mask))?),
    };
    let point_code: PointCode = variant.read(point_code)?;
    Ok(MaskedPointCode { mask, point_code })
}

fn traffic_mode(name: &str) -> Result<TrafficMode, ConfigurationError> {
    match name {
        "override" => Ok(TrafficMode::OVERRIDE),
        "loadshare" => Ok(TrafficMode::LOADSHARE),
        "broadcast" => Ok(TrafficMode::BROADCAST),
        other => Err(word("traffic_mode", other)),
    }
}

fn word(what: &'static str, word: &str) -> ConfigurationError {
    ConfigurationError::Word {
        what,
        word: word.to_owned(),
    }
}

fn twice(what: &'static str, name: &str) -> ConfigurationError {
    ConfigurationError::Twice {
        what,
        name: name.to_owned(),
    }
}

fn of_engine(name: &str, error: ConfigError) -> ConfigurationError {
    ConfigurationError::Engine {
        name: name.to_owned(),
        error,
    }
}

/// An address with a port. Peers are known by their addresses, and no names are looked up.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = |_| {
        let why = "is no address with a port, such as 192.0.2.1:2905; names are not looked up";
        serde::de::Error::custom(format!("{text:?} {why}"))
    };
    text.parse().map_err(wrong)
}

/// A time with its unit: `2s`, `500ms`.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let parsed = text.map(|text| humantime::parse_duration(&text));
    parsed.transpose().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
        [m3ua]
        t_r = "500ms"
        gateway = true

        [[peer]]
        name = "asp1"
        role = "asp"
        address = "127.0.0.1:3001"

        [[peer]]
        name = "sgp1"
        role = "sgp"
        address = "127.0.0.1:2905"
        gateway = "sg"

        [[application_server]]
        name = "hlr"
        served_by = "peers"
        peers = ["asp1"]
        routing_context = 100
        dpc = ["2-45-3"]
        si = ["sccp", "5"]
        opc = ["1-0-0/3"]
        traffic_mode = "loadshare"

        [[route]]
        via = "sg"
    "#;

    #[test]
    fn a_configuration_makes_an_engine() {
        let configuration = Configuration::read(EXAMPLE).expect("it is right");
        let (engine, names) = configuration.build().expect("it is right");
        let server = names.application_server("hlr").expect("its name");
        let config = engine.application_server(server).expect("it");
        assert_eq!(config.routing_context, Some(100));
        let selection = &config.routing_key[0].traffic;
        assert_eq!(selection.service_indicators, [3, 5]);
        assert_eq!(selection.opcs[0].mask, 3);
        assert_eq!(names.of_application_server(server), "hlr");
        assert_eq!(names.of_application_server(AsId(7)), "registered-7");
        assert_eq!(names.peer("sgp1"), Some(PeerId(1)));
        assert!(!configuration.peer[0].connects() && configuration.peer[1].connects());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, error) in [
            ("t_r = \"500ms\"", "t_r = \"500\"", "time unit needed"),
            (
                "gateway = true",
                "gatewey = true",
                "unknown field `gatewey`",
            ),
            ("2-45-3", "9-45-3", "more than 3 bits"),
            ("\"sccp\"", "\"skpp\"", "si: \"skpp\" is not known"),
            (
                "via = \"sg\"",
                "via = \"gs\"",
                "nothing has the name \"gs\"",
            ),
            ("[\"asp1\"]", "[\"asp9\"]", "nothing has the name \"asp9\""),
            (
                "127.0.0.1:2905",
                "sgp.example.com:2905",
                "\"sgp.example.com:2905\" is no address with a port",
            ),
            (
                "name = \"hlr\"",
                "name = \"registered-3\"",
                "names like \"registered-3\" are those of keys that ASPs register",
            ),
            ("loadshare", "share", "traffic_mode: \"share\" is not known"),
            (
                "name = \"sgp1\"",
                "name = \"asp1\"",
                "the name \"asp1\" is there twice",
            ),
            (
                "[[route]]",
                "[[application_server]]\nname = \"hlr\"\nserved_by = \"us\"\npeers = []\n[[route]]",
                "the name \"hlr\" is there twice",
            ),
        ] {
            let text = EXAMPLE.replace(from, to);
            assert_ne!(text, EXAMPLE);
            let built = Configuration::read(&text).and_then(|it| it.build().map(|_| ()));
            let message = built.expect_err(to).to_string();
            assert!(message.contains(error), "{message}");
        }
    }
}
