//! What a lookup answers, and which tables are refused.

use sluice_core::Refusal;
use sluice_core::admission::{Class, Rate};
use sluice_core::http1::Method;
use sluice_core::routes::{Ack, Methods, Network, Route, RouteFault, Table};

const PEER: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7];

fn route(path: &str, source_id: u32) -> Route {
    Route {
        path: path.as_bytes().into(),
        source_id,
        source_slot: 3,
        config_version: 1,
        methods: [Method::Post].into_iter().collect(),
        allow_from: None,
        body_bytes_max: 1 << 20,
        budget_ns: 10_000_000_000,
        ack: Ack::Durable,
        shed_status: 503,
        class: Class::Default,
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
