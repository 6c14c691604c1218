//! A snapshot, checked and turned into what workers route and bound by: whole, or refused.

use crate::limits;
use sluice_core::admission::{Class, Rate};
use sluice_core::http1::Method;
use sluice_core::routes::{Ack, Methods, Network, Networks, Route, Table};
use sluice_proto as proto;

/// One version of the config. Never changed once it is in force.
#[derive(Debug, Default)]
pub struct Config {
    /// Its version; 0 is "none yet".
    pub version: u32,
    /// The routes.
    pub routes: Table,
    /// Most bytes of a head.
    pub head_bytes_max: usize,
    /// Most bytes of a body that no route takes.
    pub body_bytes_max: u64,
    /// From a head's first byte to its end.
    pub header_timeout_ns: u64,
    /// From a head's end to the body's.
    pub body_timeout_ns: u64,
    /// Between requests.
    pub idle_timeout_ns: u64,
    /// Connections of the whole process.
    pub connections_max: u64,
    /// Connections of one address; 0 is unbounded.
    pub connections_per_ip_max: u32,
}

impl Config {
    /// Checks a snapshot. The error names the field and is for the operator. `ring_size` bounds
    /// bodies: a frame takes at most a quarter of a ring.
    pub fn new(snapshot: proto::Snapshot, ring_size: u64) -> Result<Config, String> {
        let http = snapshot.http.ok_or("http: bounds are missing")?;
        for (name, value) in [
            ("max_header", u64::from(http.max_header)),
            ("header_timeout", http.header_timeout_ns),
            ("body_timeout", http.body_timeout_ns),
            ("idle_timeout", http.idle_timeout_ns),
            ("max_connections", u64::from(http.max_connections)),
        ] {
            if value == 0 {
                return Err(format!("http.{name}: must not be 0"));
            }
        }
        let routes = snapshot
            .sources
            .into_iter()
            .map(|source| {
                let name = source.name.clone();
                route(source, snapshot.config_version, ring_size)
                    .map_err(|fault| format!("source {name}: {fault}"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Config {
            version: snapshot.config_version,
            routes: Table::new(routes).map_err(|fault| fault.to_string())?,
            head_bytes_max: http.max_header as usize,
            body_bytes_max: http.max_body,
            header_timeout_ns: http.header_timeout_ns,
            body_timeout_ns: http.body_timeout_ns,
            idle_timeout_ns: http.idle_timeout_ns,
            connections_max: u64::from(http.max_connections),
            connections_per_ip_max: http.max_connections_per_ip,
        })
    }
}

fn route(source: proto::Source, config_version: u32, ring_size: u64) -> Result<Route, String> {
    let mut methods = Methods::default();
    for name in &source.methods {
        let method = Method::parse(name.as_bytes());
        methods = methods.with(method.ok_or(format!("methods: {name:?} is not served"))?);
    }
    let room = (ring_size / 4).saturating_sub(limits::FRAME_HEAD_BYTES_MAX);
    if source.max_body > room {
        return Err(format!(
            "max_body: {} bytes do not fit a ring of {ring_size}: at most {room}",
            source.max_body
        ));
    }
    if source.max_body > limits::BODY_BYTES_MAX {
        return Err(format!(
            "max_body: {} bytes, at most {} whatever the ring",
            source.max_body,
            limits::BODY_BYTES_MAX
        ));
    }
    let networks = source
        .allow_from
        .iter()
        .map(|text| {
            text.parse::<Network>()
                .map_err(|fault| format!("allow_from: {fault}"))
        })
        .collect::<Result<Networks, _>>()?;
    Ok(Route {
        path: source.path.as_bytes().into(),
        source_id: source.id,
        source_slot: u16::try_from(source.slot).map_err(|_| "slot: too large")?,
        config_version,
        methods,
        allow_from: (!networks.is_empty()).then_some(networks),
        body_bytes_max: source.max_body,
        budget_ns: source.budget_ns,
        ack: match source.acknowledge() {
            proto::Acknowledge::Ring => Ack::Ring,
            proto::Acknowledge::Durable => Ack::Durable,
            proto::Acknowledge::Delivered => Ack::Delivered,
            proto::Acknowledge::Unspecified => return Err("acknowledge: missing".into()),
        },
        shed_status: match source.shed_status {
            status @ (429 | 503) => status as u16,
            other => return Err(format!("shed_status: {other}, want 503 or 429")),
        },
        class: match source.class() {
            proto::Class::High => Class::High,
            proto::Class::DefaultNeverRetries => Class::DefaultNeverRetries,
            proto::Class::Default => Class::Default,
            proto::Class::Low => Class::Low,
            proto::Class::Unspecified => return Err("class: missing".into()),
        },
        rate: Rate::per_second(source.rate),
    })
}
