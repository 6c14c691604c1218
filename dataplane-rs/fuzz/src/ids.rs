//! Ids in JSON: any text is searched without harm, and in a good one lies what serde finds.

use serde_json::Value;
use sluice_core::http1::Fields;
use sluice_core::ids::{Found, Place, Places, Pointer};
use sluice_core::limits;

fn find(pointer: &Pointer, text: &[u8]) -> Option<Vec<u8>> {
    let places = Places::new([Place::Json(pointer.clone())].into()).expect("one place");
    let mut buffer = Vec::new();
    match places.find(b"", &Fields::new(), Some(text), &mut buffer) {
        Found::Id(id) => {
            assert!((1..=limits::ID_BYTES_MAX).contains(&id.len()));
            assert!(id.len() <= text.len());
            Some(id.to_vec())
        }
        Found::Nowhere => None,
        Found::InBody => panic!("the body was handed in"),
    }
}

/// A pointer, LF, and the text.
pub fn run(input: &[u8]) {
    let mut parts = input.splitn(2, |&c| c == b'\n');
    let pointer = parts.next().unwrap_or_default();
    let text = parts.next().unwrap_or_default();
    let Ok(pointer) = std::str::from_utf8(pointer) else {
        return;
    };
    let Ok(parsed) = Pointer::parse(pointer) else {
        return;
    };
    let found = find(&parsed, text);
    if text.len() < limits::ID_SCAN_BYTES_MAX {
        // What follows a text that has its id already makes no difference.
        let longer = [text, b" }"].concat();
        assert!(found.is_none() || find(&parsed, &longer) == found);
    }

    let Ok(value) = serde_json::from_slice::<Value>(text) else {
        return;
    };
    // Written again each key comes once, and numbers and escapes have one form.
    let text = serde_json::to_vec(&value).expect("a value that was read");
    if text.len() > limits::ID_SCAN_BYTES_MAX {
        return;
    }
    let want = match value.pointer(pointer) {
        Some(Value::String(text)) => Some(text.clone().into_bytes()),
        Some(Value::Number(number)) => Some(number.to_string().into_bytes()),
        _ => None,
    };
    let want = want.filter(|id| (1..=limits::ID_BYTES_MAX).contains(&id.len()));
    assert_eq!(
        find(&parsed, &text),
        want,
        "{pointer} in {}",
        text.escape_ascii()
    );
}
