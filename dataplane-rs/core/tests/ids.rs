//! Where ids are found, and that no bytes lead the search astray.

mod seed;

use seed::Seed;
use serde_json::Value;
use sluice_core::http1::{Fields, HeadReader};
use sluice_core::ids::{Found, Place, PlaceFault, Places, Pointer};
use sluice_core::limits;

fn places(texts: &[&str]) -> Places {
    let places = texts.iter().map(|text| match text.starts_with('/') {
        true => Place::Json(Pointer::parse(text).unwrap()),
        false => Place::header(text).unwrap(),
    });
    Places::new(places.collect()).unwrap()
}

/// What a pointer leads to in a body.
fn in_body(pointer: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    match places(&[pointer]).find(b"", &Fields::new(), Some(body), &mut buffer) {
        Found::Id(id) => Some(id.to_vec()),
        Found::Nowhere => None,
        Found::InBody => panic!("the body was handed in"),
    }
}

fn found(pointer: &str, body: &str) -> Option<String> {
    in_body(pointer, body.as_bytes()).map(|id| String::from_utf8(id).unwrap())
}

/// What places lead to in a head with these lines, and the body if it is looked at.
fn in_head(texts: &[&str], lines: &str, body: Option<&str>) -> Option<String> {
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let mut fields = Fields::new();
    let mut reader = HeadReader::new(16 * 1024);
    let head_bytes = head.as_bytes();
    let head = reader.read(head_bytes, &mut fields).unwrap().unwrap();
    let (block, body) = (head.block(head_bytes), body.map(str::as_bytes));
    let mut buffer = Vec::new();
    match places(texts).find(block, &fields, body, &mut buffer) {
        Found::Id(id) => Some(String::from_utf8(id.to_vec()).unwrap()),
        Found::InBody => Some("(in the body)".into()),
        Found::Nowhere => None,
    }
}

#[test]
fn a_pointer_leads_to_a_string_or_a_number_and_nothing_else() {
    let body = r#"{"a": {"b": [1, "two", {"c": -3.5e2}, null, true]}, "": "empty key", "d": ""}"#;
    for (pointer, id) in [
        ("/a/b/0", Some("1")),
        ("/a/b/1", Some("two")),
        ("/a/b/2/c", Some("-3.5e2")),
        ("/", Some("empty key")),
        ("/a/b/3", None),
        ("/a/b/4", None),
        ("/a/b/5", None),
        ("/a/b/00", None),
        ("/a/b/-", None),
        ("/a/b/4294967296", None),
        ("/a/b", None),
        ("/a", None),
        ("/a/b/0/c", None),
        ("/d", None),
        ("/e", None),
    ] {
        assert_eq!(found(pointer, body).as_deref(), id, "{pointer}");
    }
}

#[test]
fn keys_and_ids_are_compared_and_given_without_their_escapes() {
    let body = r#"{"\u0061\/b": "x\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00", "m~n": 8, "\ud800": 1}"#;
    let text = "x\"\\/\u{8}\u{c}\n\r\té😀";
    assert_eq!(found("/a~1b", body).as_deref(), Some(text));
    assert_eq!(found("/m~0n", body).as_deref(), Some("8"));
    assert_eq!(found("/~01", r#"{"~1": "x"}"#).as_deref(), Some("x"));
    for wrong in [
        r"\x",
        r"\u12",
        r"\ud800",
        r"\ud800\u0041",
        r"\udc00",
        r"\ud800\n",
    ] {
        assert_eq!(
            found("/a", &format!(r#"{{"a": "{wrong}"}}"#)),
            None,
            "{wrong}"
        );
        let behind = format!(r#"{{"{wrong}": 1, "a": 2}}"#);
        assert_eq!(found("/a", &behind).as_deref(), Some("2"), "{wrong}");
    }
}

#[test]
fn a_string_ends_at_its_quote_wherever_that_lies() {
    for length in 0..40 {
        let text = "é😀ab".repeat(10).chars().take(length).collect::<String>();
        for (inside, id) in [
            ("", ""),
            ("\\\"", "\""),
            ("\\\\", "\\"),
            ("\u{7f}", "\u{7f}"),
        ] {
            let body = format!("{{\"{text}{inside}\": \"p\", \"a\": \"{text}{inside}{text}\"}}");
            let want = format!("{text}{id}{text}");
            let want = (!want.is_empty()).then_some(want);
            assert_eq!(found("/a", &body), want, "{body}");
            let value: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(by_serde(&value, "/a"), want);
        }
        for control in ["\0", "\u{1f}", "\n"] {
            assert_eq!(
                found("/a", &format!("{{\"a\": \"{text}{control}{text}\"}}")),
                None
            );
        }
    }
}

#[test]
fn of_two_keys_of_one_name_the_first_counts() {
    assert_eq!(found("/a", r#"{"a": 1, "a": 2}"#).as_deref(), Some("1"));
    assert_eq!(found("/a/b", r#"{"a": 1, "a": {"b": 2}}"#), None);
}

#[test]
fn what_is_broken_before_the_id_hides_it_and_what_is_behind_it_does_not() {
    for body in [
        "",
        "{",
        "{]",
        r#"{"a""#,
        r#"{"a":"#,
        r#"{"a":"open"#,
        r#"{"b" 1, "a": 2}"#,
        r#"{"b": 1 "a": 2}"#,
        r#"{"b": ], "a": 2}"#,
        r#"{b: 1, "a": 2}"#,
        "{\"b\n\": 1, \"a\": 2}",
        r#"{"a": 01}"#,
        r#"{"a": 1.}"#,
        r#"{"a": .5}"#,
        r#"{"a": -}"#,
        r#"{"a": 1e}"#,
        r#"{"a": 1x}"#,
        r#"{"a": +1}"#,
        r#"{"a": NaN}"#,
    ] {
        assert_eq!(found("/a", body), None, "{body}");
    }
    for body in [
        r#"{"a": 2"#,
        r#"{"a": 2, "#,
        r#"{"a": 2]]]"#,
        r#"[{"a": 2}]"#,
    ] {
        let pointer = if body.starts_with('[') { "/0/a" } else { "/a" };
        assert_eq!(found(pointer, body).as_deref(), Some("2"), "{body}");
    }
}

#[test]
fn an_id_behind_the_bound_of_the_search_is_not_known() {
    let bound = limits::ID_SCAN_BYTES_MAX;
    // The last byte that is looked at is the one behind the number, or the closing quote.
    for (id, length) in [("7,", 1), ("\"x\"", 3)] {
        let padding = |count: usize| format!("{{\"p\": \"{}\", \"a\": ", "p".repeat(count));
        let around = padding(0).len() + id.len();
        let fits = format!("{}{id}, \"z\": 1}}", padding(bound - around));
        let beyond = format!("{}{id}, \"z\": 1}}", padding(bound - around + 1));
        let text = id.trim_matches(['"', ',']);
        assert_eq!(found("/a", &fits).as_deref(), Some(text), "{length}");
        assert_eq!(found("/a", &beyond), None, "{length}");
    }
    // A text that ends there is whole.
    let deep = "[".repeat(bound - 1) + "1";
    assert_eq!(found("/0", &deep), None);
    let whole = format!("{{\"a\":{}", "1".repeat(limits::ID_BYTES_MAX));
    assert_eq!(
        found("/a", &whole).map(|id| id.len()),
        Some(limits::ID_BYTES_MAX)
    );
}

#[test]
fn an_id_that_is_too_long_is_none() {
    let body = |count| format!("{{\"a\": \"{}\"}}", "i".repeat(count));
    assert!(found("/a", &body(limits::ID_BYTES_MAX)).is_some());
    assert_eq!(found("/a", &body(limits::ID_BYTES_MAX + 1)), None);
}

#[test]
fn the_first_place_that_has_an_id_counts() {
    let body = Some(r#"{"id": "b"}"#);
    let (both, json_first) = (["X-Id", "/id"], ["/id", "X-Id"]);
    assert_eq!(in_head(&both, "x-ID: h\r\n", body).as_deref(), Some("h"));
    assert_eq!(in_head(&both, "x-ID: h\r\n", None).as_deref(), Some("h"));
    assert_eq!(in_head(&both, "", body).as_deref(), Some("b"));
    assert_eq!(in_head(&both, "X-Id:\r\n", body).as_deref(), Some("b"));
    assert_eq!(in_head(&both, "", None).as_deref(), Some("(in the body)"));
    // One event has one id, whether its body was looked at or not.
    let unseen = in_head(&json_first, "X-Id: h\r\n", None);
    assert_eq!(unseen.as_deref(), Some("(in the body)"));
    assert_eq!(
        in_head(&json_first, "X-Id: h\r\n", body).as_deref(),
        Some("b")
    );
    assert_eq!(
        in_head(&json_first, "X-Id: h\r\n", Some("{}")).as_deref(),
        Some("h")
    );
    assert_eq!(
        in_head(&json_first, "X-Id: h\r\n", Some(r#"{"id":"\x"}"#)),
        None
    );
    assert_eq!(in_head(&["X-Id"], "X-Id: h\r\nX-ID: h\r\n", None), None);
    assert_eq!(in_head(&["A", "B"], "B: b\r\n", None).as_deref(), Some("b"));
    assert_eq!(in_head(&[], "X-Id: h\r\n", body), None);
    let long = format!("X-Id: {}\r\n", "i".repeat(limits::ID_BYTES_MAX + 1));
    assert_eq!(in_head(&both, &long, body), None);
}

#[test]
fn a_place_that_is_none_is_refused() {
    for text in [
        "",
        "a",
        "/~",
        "/~2",
        "/a~",
        &format!("/{}", "a".repeat(256)),
    ] {
        let fault = PlaceFault::Pointer { text: text.into() };
        assert_eq!(Pointer::parse(text), Err(fault), "{text}");
    }
    for name in ["", "X Id", "X:", "Ä", "X\n", &"a".repeat(257)] {
        let fault = PlaceFault::FieldName { name: name.into() };
        assert_eq!(Place::header(name), Err(fault), "{name:?}");
    }
    let many = vec![Place::header("a").unwrap(); limits::ID_PLACES_MAX + 1];
    let count = limits::ID_PLACES_MAX + 1;
    assert_eq!(Places::new(many.into()), Err(PlaceFault::TooMany { count }));
}

/// A random text of JSON, and all pointers into it.
struct Writer<'a> {
    seed: &'a mut Seed,
    text: String,
    pointers: Vec<String>,
}

impl Writer<'_> {
    fn blank(&mut self) {
        if self.seed.chance(4) {
            self.text
                .push_str([" ", "\n", "\t\r", "  "][self.seed.index(4)]);
        }
    }

    fn string(&mut self, plain: &str) {
        self.text.push('"');
        for c in plain.chars() {
            match c {
                '"' | '\\' => self.text.extend(['\\', c]),
                _ if self.seed.chance(6) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                '/' if self.seed.chance(2) => self.text.push_str("\\/"),
                _ => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    fn word(&mut self) -> String {
        let pieces = [
            "id", "a", "~", "/", "\"", "\\", "é", "😀", "0", "12", " ", "{", "]", ",",
        ];
        (0..self.seed.below(4))
            .map(|_| pieces[self.seed.index(pieces.len())])
            .collect()
    }

    fn value(&mut self, pointer: &str, depth: u32) {
        self.pointers.push(pointer.into());
        self.blank();
        match self.seed.below(if depth < 6 { 9 } else { 6 }) {
            0 => {
                let word = self.word();
                self.string(&word);
            }
            1 => self.text.push_str(&(self.seed.next() as i64).to_string()),
            2 => self
                .text
                .push_str(["1.5", "-0", "1e3", "0.25E-2"][self.seed.index(4)]),
            3 => self.text.push_str("true"),
            4 => self.text.push_str("null"),
            5 => self
                .text
                .push_str(["[]", "{ }", "\"\""][self.seed.index(3)]),
            6 => {
                self.text.push('[');
                for i in 0..self.seed.between(1, 4) {
                    if i > 0 {
                        self.text.push(',');
                    }
                    self.value(&format!("{pointer}/{i}"), depth + 1);
                }
                self.text.push(']');
            }
            _ => {
                self.text.push('{');
                let mut keys = std::collections::BTreeSet::new();
                for i in 0..self.seed.between(1, 4) {
                    let key = format!("{}{i}", self.word());
                    if !keys.insert(key.clone()) {
                        continue;
                    }
                    if i > 0 {
                        self.text.push(',');
                    }
                    self.blank();
                    self.string(&key);
                    self.blank();
                    self.text.push(':');
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    self.value(&format!("{pointer}/{escaped}"), depth + 1);
                }
                self.text.push('}');
            }
        }
        self.blank();
    }
}

/// The id that serde_json would have found.
fn by_serde(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn rounds() -> u64 {
    match std::env::var("SLUICE_SOAK").is_ok_and(|soak| soak == "1") {
        true => 300_000,
        false => 3000,
    }
}

#[test]
fn every_pointer_into_any_text_finds_what_serde_finds() {
    let mut seed = Seed::printed("ids");
    // Each round may write a text without an id: it goes on until enough were compared.
    let (mut ids, mut round) = (0, 0);
    while round < rounds() || ids <= rounds() {
        round += 1;
        assert!(round < 10 * rounds(), "only {ids} ids were found");
        let mut writer = Writer {
            seed: &mut seed,
            text: String::new(),
            pointers: Vec::new(),
        };
        writer.value("", 0);
        let Writer { text, pointers, .. } = writer;
        let value: Value = serde_json::from_str(&text).expect(&text);
        for pointer in pointers.iter().filter(|pointer| !pointer.is_empty()) {
            let (own, theirs) = (found(pointer, &text), by_serde(&value, pointer));
            // A number's text is kept as it came: 1e3 and 1000.0 are one number and two ids.
            let is_same = match (&own, &theirs) {
                (Some(own), Some(theirs)) if own != theirs => own
                    .parse::<f64>()
                    .is_ok_and(|own| Ok(own) == theirs.parse()),
                _ => own == theirs,
            };
            assert!(is_same, "{pointer} in {text}: {own:?}, not {theirs:?}");
            ids += u64::from(own.is_some());
        }
        for absent in ["/absent", "/9", "/0/absent"] {
            assert_eq!(
                found(absent, &text),
                by_serde(&value, absent),
                "{absent} in {text}"
            );
        }
    }
}

#[test]
fn no_bytes_lead_the_search_astray() {
    let mut seed = Seed::printed("ids, broken");
    let alphabet = br#"{}[]":,\u0a1e-. d8~"#;
    let places = places(&["/id", "/a/0/id", "/0/1/0", "/", "/u/d8"]);
    let mut buffer = Vec::new();
    for _ in 0..rounds() {
        let mut text: Vec<u8> = match seed.below(3) {
            0 => (0..seed.below(200)).map(|_| seed.next() as u8).collect(),
            1 => (0..seed.below(200))
                .map(|_| alphabet[seed.index(alphabet.len())])
                .collect(),
            _ => {
                let mut writer = Writer {
                    seed: &mut seed,
                    text: String::new(),
                    pointers: Vec::new(),
                };
                writer.value("", 0);
                writer.text.into_bytes()
            }
        };
        for _ in 0..seed.below(4) {
            if !text.is_empty() {
                let at = seed.index(text.len());
                text[at] = seed.next() as u8;
                text.truncate(seed.index(text.len()) + 1);
            }
        }
        let found = places.find(b"", &Fields::new(), Some(&text), &mut buffer);
        if let Found::Id(id) = found {
            assert!(
                (1..=text.len()).contains(&id.len()),
                "{id:?} out of {text:?}"
            );
        }
    }
    assert!(buffer.capacity() < 4096);
}
