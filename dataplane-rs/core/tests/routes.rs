//! What a lookup answers, and which tables are refused.

use sluice_core::Refusal;
use sluice_core::admission::{Priority, Rate};
use sluice_core::http1::{Fields, Head, HeadReader, Method};
use sluice_core::ids::Places;
use sluice_core::routes::{Ack, Handshake, Methods, Network, Route, RouteFault, Table};

const PEER: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7];

fn route(path: &str, source_id: u32) -> Route {
    Route {
        path: path.as_bytes().into(),
        source_id,
        source_slot: source_id as u16 % 1024,
        config_version: 1,
        methods: [Method::Post].into_iter().collect(),
        allow_from: None,
        body_bytes_max: 1 << 20,
        budget_ns: 10_000_000_000,
        ack: Ack::Durable,
        shed_status: 503,
        priority: Priority::Default,
        never_retries: false,
        ids: Places::default(),
        retry_headers: Box::default(),
        handshakes: Box::default(),
        probes: false,
        guard_after: 0,
        verify_weight: 0,
        success: Default::default(),
        refused_in_row: 0,
        rate: Rate::per_second(500.0),
    }
}

fn found(table: &Table, path: &str, method: Method) -> Result<u32, Refusal> {
    table
        .find(path.as_bytes(), method, &PEER)
        .map(|route| route.source_id)
}

#[test]
fn a_path_matches_exactly_or_not_at_all() {
    let table = Table::new(vec![
        route("/hooks/a", 1),
        route("/hooks/b", 2),
        route("/", 3),
    ]);
    let table = table.unwrap();
    assert_eq!(found(&table, "/hooks/a", Method::Post), Ok(1));
    assert_eq!(found(&table, "/hooks/b", Method::Post), Ok(2));
    assert_eq!(found(&table, "/", Method::Post), Ok(3));
    for path in [
        "",
        "/hooks",
        "/hooks/",
        "/hooks/a/",
        "/hooks//a",
        "/HOOKS/a",
        "/hooks/%61",
    ] {
        assert_eq!(
            found(&table, path, Method::Post),
            Err(Refusal::NotFound),
            "{path}"
        );
    }
}

#[test]
fn a_method_that_is_not_taken_is_told_which_are() {
    let mut both = route("/a", 1);
    both.methods = both.methods.with(Method::Get);
    let table = Table::new(vec![both]).unwrap();
    let Err(Refusal::MethodNotAllowed { allow }) = found(&table, "/a", Method::Put) else {
        panic!("PUT was let in");
    };
    assert_eq!(allow.to_string(), "GET, POST");
    assert_eq!(found(&table, "/a", Method::Get), Ok(1));
}

#[test]
fn a_peer_outside_the_allow_list_is_turned_away_before_its_method_matters() {
    let mut closed = route("/a", 1);
    let network: Network = "192.30.252.0/22".parse().unwrap();
    closed.allow_from = Some([network].into_iter().collect());
    let table = Table::new(vec![closed]).unwrap();
    assert_eq!(found(&table, "/a", Method::Put), Err(Refusal::Forbidden));
    assert_eq!(found(&table, "/a", Method::Post), Err(Refusal::Forbidden));
    let inside = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 30, 253, 9];
    assert!(table.find(b"/a", Method::Post, &inside).is_ok());
    let unix_socket = [0; 16];
    assert!(matches!(
        table.find(b"/a", Method::Post, &unix_socket),
        Err(Refusal::Forbidden)
    ));
}

#[test]
fn a_table_with_a_fault_is_refused_whole() {
    let fault = |routes| Table::new(routes).unwrap_err();
    let twice = fault(vec![route("/a", 1), route("/a", 2)]);
    assert_eq!(twice, RouteFault::PathTwice { path: "/a".into() });
    for path in ["", "a", &format!("/{}", "a".repeat(5000))] {
        assert_eq!(
            fault(vec![route(path, 1)]),
            RouteFault::Path { path: path.into() }
        );
    }
    let twice = fault(vec![route("/a", 1), route("/b", 1025)]);
    assert_eq!(twice, RouteFault::SlotTwice { slot: 1 });
    let mut without = route("/a", 1);
    without.methods = Methods::default();
    assert_eq!(
        fault(vec![without]),
        RouteFault::NoMethods { path: "/a".into() }
    );
    let mut slot = route("/a", 1);
    slot.source_slot = 1024;
    assert!(matches!(
        fault(vec![slot]),
        RouteFault::TooMany {
            what: "sources",
            ..
        }
    ));
    let many = (0..5000).map(|i| route(&format!("/{i}"), i)).collect();
    assert!(matches!(
        fault(many),
        RouteFault::TooMany { what: "routes", .. }
    ));
}

#[test]
fn a_slot_leads_to_the_source_that_has_it_now() {
    let table = Table::new(vec![route("/a", 1), route("/b", 1026)]).unwrap();
    let of_source = |slot, id| table.of_source(slot, id).map(|route| route.source_id);
    assert_eq!(of_source(1, 1), Some(1));
    assert_eq!(of_source(2, 1026), Some(1026));
    for (slot, id) in [(2, 2), (3, 3), (1024, 1024), (u16::MAX, 1)] {
        assert_eq!(of_source(slot, id), None, "{slot} of {id}");
    }
    assert!(Table::default().of_source(1, 1).is_none());
}

/// Reads a head and hands it to `look`.
fn with_head<T>(text: &str, look: impl FnOnce(&Head, &[u8], &Fields) -> T) -> T {
    let bytes = format!("{text}\r\n\r\n").into_bytes();
    let mut fields = Fields::new();
    let mut reader = HeadReader::new(16 * 1024);
    let head = reader.read(&bytes, &mut fields).unwrap().unwrap();
    look(&head, &bytes, &fields)
}

#[test]
fn a_handshake_is_known_by_all_of_its_signs_and_nothing_else() {
    let handshake = Handshake {
        method: Some(Method::Get),
        query_keys: [&b"hub.mode"[..], b"hub.a&b", b"x y"]
            .map(Into::into)
            .into(),
        headers: ["X-Challenge".into()].into(),
        body_bytes_max: Some(10),
    };
    let mut hooks = route("/hook", 1);
    hooks.handshakes = [handshake.clone()].into();
    let is_like = |hooks: &Route, line: &str, body_bytes| {
        with_head(
            &format!("{line} HTTP/1.1\r\nHost: a"),
            |head, bytes, fields| hooks.is_handshake_like(head, bytes, fields, body_bytes),
        )
    };
    let with = |query: &str| format!("GET /hook?{query} HTTP/1.1\r\nx-challenge: 1\r\nHost: a");
    let judged = |query: &str, body_bytes| {
        with_head(&with(query), |head, bytes, fields| {
            hooks.is_handshake_like(head, bytes, fields, body_bytes)
        })
    };
    for query in [
        "hub.mode=1&hub.a%26b=2&x+y=3",
        "x%20y&a=b&hub.a%26b&hub%2Emode",
        "=&&hub.mode=hub.mode=&x+y=&hub.a%26b=",
    ] {
        assert!(judged(query, 10), "{query}");
        assert!(!judged(query, 11), "{query}: its body is too large");
    }
    for query in [
        "",
        "hub.mode&x+y",
        "hub.mode&x+y&hub.a&b",
        "hub.modes&x+y&hub.a%26b",
        "a=hub.mode&x+y&hub.a%26b",
        "hub.mode&x%2By&hub.a%26b",
    ] {
        assert!(!judged(query, 0), "{query}");
    }
    // Without its field, its query, or of another method.
    assert!(!is_like(&hooks, "GET /hook?hub.mode&hub.a%26b&x+y", 0));
    assert!(!is_like(&hooks, "GET /hook", 0));
    assert!(!is_like(&hooks, "POST /hook?hub.mode&hub.a%26b&x+y", 0));
    // Any of several is enough, and one that is known by its method alone takes any query.
    let by_method = Handshake {
        method: Some(Method::Post),
        query_keys: Box::default(),
        headers: Box::default(),
        body_bytes_max: None,
    };
    hooks.handshakes = [handshake, by_method].into();
    assert!(is_like(&hooks, "POST /hook", u64::MAX));
    assert!(!is_like(&hooks, "GET /hook", 0));
    assert!(!is_like(&route("/hook", 1), "POST /hook", 0));
}

#[test]
fn a_repeat_is_marked_by_any_of_the_senders_fields() {
    let mut retries = route("/a", 1);
    retries.retry_headers = ["X-Retry-Num".into(), "X-Again".into()].into();
    let is_marked = |line: &str| {
        let text = format!("POST /a HTTP/1.1\r\nHost: a{line}");
        with_head(&text, |head, bytes, fields| {
            retries.is_marked_repeat(head.block(bytes), fields)
        })
    };
    assert!(is_marked("\r\nx-retry-num: 1"));
    assert!(is_marked("\r\nX-Again:"));
    assert!(!is_marked("\r\nX-Retry: 1"));
    assert!(!is_marked(""));
}
