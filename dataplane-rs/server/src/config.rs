//! A snapshot, checked and turned into what workers route and bound by: whole, or refused.

use crate::limits;
use crate::listeners::{self, Listener};
use sluice_core::admission::{Priority, Rate};
use sluice_core::answers::Success;
use sluice_core::http1::Method;
use sluice_core::ids::{self, Place, Places, Pointer};
use sluice_core::limits as bounds;
use sluice_core::routes::{Ack, Handshake, Methods, Network, Networks, Route, Table};
use sluice_proto as proto;
use sluice_proto::id_place;
use sluice_tls::{TicketKey, Tickets};
use std::sync::Arc;

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
    /// From a head's end to the body's, at the least.
    pub body_timeout_ns: u64,
    /// So many bytes of a body prolong that by a second; 0: none does.
    pub body_rate_min: u64,
    /// Between requests.
    pub idle_timeout_ns: u64,
    /// Connections of the whole process.
    pub connections_max: u64,
    /// Connections of one address; 0 is unbounded.
    pub connections_per_ip_max: u32,
    /// Bytes that one worker keeps for requests that are not whole or wait.
    pub kept_bytes_max: usize,
    /// Until a TLS handshake is done.
    pub handshake_timeout_ns: u64,
    /// TLS handshakes of the whole process; `None` is unbounded.
    pub handshake_rate: Option<Rate>,
    /// Sum of the weights of one worker's unanswered requests from which on heavy ones wait; 0:
    /// none.
    pub verify_weight_max: u32,
    /// One for each row of listening sockets.
    pub listeners: Vec<Listener>,
    /// What session tickets are sealed with.
    pub ticket_keys: Vec<TicketKey>,
}

/// What of a data plane bounds a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Bytes of each request ring: a frame takes at most a quarter of one.
    pub ring_size: u64,
    /// Workers, each with its share of the memory.
    pub workers: usize,
    /// Rows of listening sockets.
    pub rows: usize,
    /// What the listeners' sessions are resumed with.
    pub tickets: &'a Arc<Tickets>,
}

impl Config {
    /// Checks a snapshot. The error names the field and is for the operator.
    pub fn new(snapshot: proto::Snapshot, host: &Host<'_>) -> Result<Config, String> {
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
        let has_tls = snapshot.listeners.iter().any(|l| l.tls.is_some());
        if has_tls && http.handshake_timeout_ns == 0 {
            return Err("http.handshake_timeout: must not be 0".into());
        }
        let routes = snapshot
            .sources
            .into_iter()
            .map(|source| {
                let name = source.name.clone();
                route(source, snapshot.config_version, http.receive_memory, host)
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
            body_rate_min: http.min_body_rate,
            kept_bytes_max: kept_bytes_max(http.receive_memory, host) as usize,
            handshake_timeout_ns: http.handshake_timeout_ns,
            handshake_rate: Rate::per_second(f64::from(http.handshake_rate)),
            verify_weight_max: snapshot.verify_weight_max,
            listeners: listeners::rows(snapshot.listeners, host)?,
            ticket_keys: listeners::ticket_keys(&snapshot.ticket_keys)?,
        })
    }
}

/// A worker's share of the memory.
fn kept_bytes_max(receive_memory: u64, host: &Host<'_>) -> u64 {
    match receive_memory {
        0 => limits::KEPT_BYTES_MAX as u64,
        all => all / host.workers as u64,
    }
}

fn route(
    source: proto::Source,
    config_version: u32,
    receive_memory: u64,
    host: &Host<'_>,
) -> Result<Route, String> {
    let mut methods = Methods::default();
    for name in &source.methods {
        let method = Method::parse(name.as_bytes());
        methods = methods.with(method.ok_or(format!("methods: {name:?} is not served"))?);
    }
    let room = (host.ring_size / 4).saturating_sub(limits::FRAME_HEAD_BYTES_MAX);
    if source.max_body > room {
        return Err(format!(
            "max_body: {} bytes do not fit a ring of {}: at most {room}",
            source.max_body, host.ring_size
        ));
    }
    let share = kept_bytes_max(receive_memory, host) / limits::KEPT_FRAMES_MIN;
    let room = share.saturating_sub(limits::FRAME_HEAD_BYTES_MAX);
    if source.max_body > room {
        return Err(format!(
            "max_body: {} bytes do not fit http.receive_memory, {receive_memory} bytes of which \
             each of {} workers leaves one source half of its share: at most {room}",
            source.max_body, host.workers
        ));
    }
    if source.max_body > limits::BODY_BYTES_MAX {
        return Err(format!(
            "max_body: {} bytes, at most {} whatever the ring",
            source.max_body,
            limits::BODY_BYTES_MAX
        ));
    }
    let networks = networks("allow_from", &source.allow_from)?;
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
        success: Success {
            accepted: success_of("accepted_status", source.accepted_status, 200)?,
            queued: success_of("queued_status", source.queued_status, 202)?,
            has_body: !source.empty_success,
        },
        priority: match source.priority() {
            proto::Priority::High => Priority::High,
            proto::Priority::Default => Priority::Default,
            proto::Priority::Low => Priority::Low,
            proto::Priority::Unspecified => return Err("priority: missing".into()),
        },
        never_retries: source.never_retries,
        ids: places(&source.id_places)?,
        retry_headers: names(
            "retry_headers",
            &source.retry_headers,
            bounds::RETRY_HEADERS_MAX,
        )?,
        handshakes: handshakes(&source.handshakes)?,
        probes: source.probes,
        guard_after: source.guard_after,
        refused_in_row: source.refused_in_row,
        rate: Rate::per_second(source.rate),
        verify_weight: source.verify_weight,
    })
}

/// The networks of a list by that name.
pub(crate) fn networks(what: &str, list: &[String]) -> Result<Networks, String> {
    bounded(what, list.len(), bounds::NETWORKS_MAX)?;
    let networks = list.iter().map(|text| text.parse::<Network>());
    networks
        .collect::<Result<_, _>>()
        .map_err(|fault| format!("{what}: {fault}"))
}

fn success_of(field: &str, status: u32, otherwise: u16) -> Result<u16, String> {
    match status {
        0 => Ok(otherwise),
        200..=299 => Ok(status as u16),
        other => Err(format!("{field}: {other}, want 200 to 299")),
    }
}

fn places(places: &[proto::IdPlace]) -> Result<Places, String> {
    let places = places.iter().map(|place| match &place.place {
        Some(id_place::Place::Header(name)) => Place::header(name).map_err(|f| f.to_string()),
        Some(id_place::Place::Json(text)) => Pointer::parse(text)
            .map(Place::Json)
            .map_err(|f| f.to_string()),
        None => Err("a place is neither a header nor a pointer".into()),
    });
    let places: Result<Box<[_]>, String> = places.collect();
    places
        .and_then(|places| Places::new(places).map_err(|fault| fault.to_string()))
        .map_err(|fault| format!("id_places: {fault}"))
}

/// Names of header fields.
fn names(what: &str, names: &[String], count_max: usize) -> Result<Box<[Box<str>]>, String> {
    bounded(what, names.len(), count_max)?;
    let names = names.iter().map(|name| ids::field_name(name));
    names
        .collect::<Result<_, _>>()
        .map_err(|fault| format!("{what}: {fault}"))
}

fn handshakes(given: &[proto::Handshake]) -> Result<Box<[Handshake]>, String> {
    bounded("handshakes", given.len(), bounds::HANDSHAKES_MAX)?;
    given.iter().map(handshake).collect()
}

fn handshake(given: &proto::Handshake) -> Result<Handshake, String> {
    let name = &given.method;
    let method = match Method::parse(name.as_bytes()) {
        None if !name.is_empty() => {
            return Err(format!("handshakes.method: {name:?} is not served"));
        }
        method => method,
    };
    let keys = &given.query_keys;
    let names_max = bounds::HANDSHAKE_NAMES_MAX;
    bounded("handshakes.query_keys", keys.len(), names_max)?;
    if let Some(key) = keys.iter().find(|key| key.is_empty()) {
        return Err(format!("handshakes.query_keys: {key:?} is no key"));
    }
    if method.is_none() && keys.is_empty() && given.headers.is_empty() && given.max_body == 0 {
        return Err("handshakes: one has no sign, so that every request is like it".into());
    }
    Ok(Handshake {
        method,
        query_keys: keys.iter().map(|key| key.as_bytes().into()).collect(),
        headers: names("handshakes.headers", &given.headers, names_max)?,
        body_bytes_max: (given.max_body > 0).then_some(given.max_body),
    })
}

fn bounded(what: &str, count: usize, count_max: usize) -> Result<(), String> {
    match count > count_max {
        true => Err(format!("{what}: {count} of them, at most {count_max}")),
        false => Ok(()),
    }
}
