//! Asking name servers, by hickory-resolver. What is remembered is remembered elsewhere: here every
//! question goes out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig as ServerConfig,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::{Hosts, TokioResolver};

use super::config::ResolverConfig;
use super::records::{Found, Key, Kind, Naptr, RecordSet, Srv};

/// The name servers and the `hosts` file.
#[derive(Debug)]
pub(super) struct Dns {
    /// None where the settings of the system are of no use.
    resolver: Option<TokioResolver>,
    hosts: Arc<Hosts>,
}

/// An answer, and how long it may be remembered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) found: Found,
    pub(super) ttl: Duration,
}

impl Dns {
    /// The name servers of the settings, or else of the system. Without any, names are known by the
    /// `hosts` file alone.
    pub(super) fn new(config: &ResolverConfig) -> Dns {
        let hosts = Arc::new(if config.hosts_file {
            Hosts::from_system().unwrap_or_default()
        } else {
            Hosts::default()
        });
        let resolver = resolver(config, Arc::clone(&hosts));
        let resolver = resolver
            .inspect_err(|error| tracing::warn!(%error, "no name servers: names are known by the hosts file alone"))
            .ok();
        Dns { resolver, hosts }
    }

    /// Asks for records.
    pub(super) async fn look_up(&self, key: &Key, config: &ResolverConfig) -> Answer {
        let failed = |found| Answer {
            found,
            ttl: config.failure_ttl,
        };
        let Some(name) = name(key) else {
            // It cannot stand in the DNS.
            return failed(Found::Nothing);
        };
        if matches!(key.kind, Kind::Naptr | Kind::Srv) && self.is_in_hosts(&name) {
            return failed(Found::Nothing);
        }
        let Some(resolver) = &self.resolver else {
            return self.look_up_host(&name, key.kind, config);
        };
        match resolver.lookup(name, record_type(key.kind)).await {
            Ok(lookup) => {
                let ttl = ttl(lookup.answers(), key.kind).min(config.maximum_ttl);
                match record_set(key.kind, lookup.answers()) {
                    Some(records) => Answer {
                        found: Found::Records(Arc::new(records)),
                        ttl,
                    },
                    None => failed(Found::Nothing),
                }
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => Answer {
                found: Found::Nothing,
                ttl: none.negative_ttl.map_or(config.failure_ttl, |seconds| {
                    Duration::from_secs(seconds.into()).min(config.maximum_negative_ttl)
                }),
            },
            // The server does not know such questions, and will not the next time either.
            Err(NetError::Dns(DnsError::ResponseCode(
                code @ (ResponseCode::FormErr | ResponseCode::NotImp),
            ))) => {
                tracing::debug!(name = %key.name, kind = ?key.kind, %code, "name servers do not know such records");
                failed(Found::Nothing)
            }
            Err(NetError::Dns(error)) => {
                tracing::debug!(name = %key.name, kind = ?key.kind, %error, "name servers cannot say");
                failed(Found::Unknown)
            }
            Err(error) => {
                tracing::debug!(name = %key.name, kind = ?key.kind, %error, "name servers do not answer");
                failed(Found::Unreachable)
            }
        }
    }

    /// What the `hosts` file says.
    fn look_up_host(&self, name: &Name, kind: Kind, config: &ResolverConfig) -> Answer {
        let query = Query::query(name.clone(), record_type(kind));
        let records = self
            .hosts
            .lookup_static_host(&query)
            .and_then(|lookup| record_set(kind, lookup.answers()));
        Answer {
            found: match records {
                Some(records) => Found::Records(Arc::new(records)),
                None if self.is_in_hosts(name) => Found::Nothing,
                None => Found::Unreachable,
            },
            ttl: config.failure_ttl,
        }
    }

    /// Whether the host that records are about is in the `hosts` file: then that is all about it.
    fn is_in_hosts(&self, name: &Name) -> bool {
        let services = name.iter().take_while(|label| label.starts_with(b"_"));
        let labels = usize::from(name.num_labels()).saturating_sub(services.count());
        let host = name.trim_to(labels);
        [RecordType::A, RecordType::AAAA].into_iter().any(|kind| {
            let query = Query::query(host.clone(), kind);
            self.hosts.lookup_static_host(&query).is_some()
        })
    }
}

fn resolver(config: &ResolverConfig, hosts: Arc<Hosts>) -> Result<TokioResolver, NetError> {
    let mut builder = if config.servers.is_empty() {
        TokioResolver::builder_tokio()?
    } else {
        let servers = config.servers.iter().copied().map(name_server).collect();
        TokioResolver::builder_with_config(
            ServerConfig::from_parts(None, Vec::new(), servers),
            TokioRuntimeProvider::default(),
        )
    };
    let options = builder.options_mut();
    options.timeout = config.timeout;
    options.attempts = config.retries;
    options.cache_size = 0;
    options.max_active_requests = config.maximum_parallel.max(1);
    options.use_hosts_file = ResolveHosts::Never;
    let mut resolver = builder.build()?;
    resolver.set_hosts(hosts);
    Ok(resolver)
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let with_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    NameServerConfig::new(
        address.ip(),
        true,
        vec![
            with_port(ConnectionConfig::udp()),
            with_port(ConnectionConfig::tcp()),
        ],
    )
}

/// The name of a key. One without a dot may be one of the system's search domains; any other one is
/// whole.
fn name(key: &Key) -> Option<Name> {
    let mut name = Name::from_utf8(&*key.name).ok()?;
    if key.name.contains('.') {
        name.set_fqdn(true);
    }
    Some(name)
}

fn record_type(kind: Kind) -> RecordType {
    match kind {
        Kind::Naptr => RecordType::NAPTR,
        Kind::Srv => RecordType::SRV,
        Kind::A => RecordType::A,
        Kind::Aaaa => RecordType::AAAA,
    }
}

/// How long records may be remembered: as long as the shortest-lived of them and of the aliases that
/// have led to them.
fn ttl(answers: &[Record], kind: Kind) -> Duration {
    let counts = [record_type(kind), RecordType::CNAME];
    let seconds = answers
        .iter()
        .filter(|record| counts.contains(&record.record_type()))
        .map(|record| record.ttl);
    Duration::from_secs(seconds.min().unwrap_or(0).into())
}

fn record_set(kind: Kind, answers: &[Record]) -> Option<RecordSet> {
    let data = answers.iter().map(|record| &record.data);
    let set = match kind {
        Kind::Naptr => RecordSet::Naptr(data.filter_map(naptr).collect()),
        Kind::Srv => RecordSet::Srv(data.filter_map(srv).collect()),
        Kind::A | Kind::Aaaa => {
            RecordSet::Addresses(data.filter_map(|data| data.ip_addr()).collect())
        }
    };
    let is_empty = match &set {
        RecordSet::Naptr(records) => records.is_empty(),
        RecordSet::Srv(records) => records.is_empty(),
        RecordSet::Addresses(addresses) => addresses.is_empty(),
    };
    (!is_empty).then_some(set)
}

fn naptr(data: &RData) -> Option<Naptr> {
    let RData::NAPTR(record) = data else {
        return None;
    };
    Some(Naptr {
        order: record.order,
        preference: record.preference,
        flags: record.flags.clone(),
        services: record.services.clone(),
        regexp: record.regexp.clone(),
        replacement: text(&record.replacement),
    })
}

fn srv(data: &RData) -> Option<Srv> {
    let RData::SRV(record) = data else {
        return None;
    };
    Some(Srv {
        priority: record.priority,
        weight: record.weight,
        port: record.port,
        target: text(&record.target),
    })
}

/// A domain name without a dot at its end: empty for the root.
fn text(name: &Name) -> Box<str> {
    let text = name.to_ascii();
    text.strip_suffix('.').unwrap_or(&text).into()
}
