//! The character classes of RFC 9110 §5.6 and RFC 3986 §2, as one table.

const TOKEN: u8 = 1;
const PATH: u8 = 2;
const QUERY: u8 = 4;
const HOST: u8 = 8;
const VALUE: u8 = 16;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let c = i as u8;
        let mut class = 0;
        let alphanumeric = c.is_ascii_alphanumeric();
        if alphanumeric || is_in(c, b"!#$%&'*+-.^_`|~") {
            class |= TOKEN;
        }
        // unreserved, sub-delims
        let plain = alphanumeric || is_in(c, b"-._~!$&'()*+,;=");
        if plain {
            class |= HOST;
        }
        if plain || is_in(c, b":@/") {
            class |= PATH;
        }
        // Brackets are no query characters by RFC 3986, but form-style keys (`a[]=1`) carry them.
        if plain || is_in(c, b":@/?[]") {
            class |= QUERY;
        }
        if c == b'\t' || (c >= b' ' && c != 0x7f) {
            class |= VALUE;
        }
        table[i] = class;
        i += 1;
    }
    table
}

const fn is_in(c: u8, set: &[u8]) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == c {
            return true;
        }
        i += 1;
    }
    false
}

/// `tchar`: methods and field names.
pub(super) fn is_token(c: u8) -> bool {
    CLASSES[c as usize] & TOKEN != 0
}

/// A character of a field value: HTAB, SP, VCHAR, obs-text.
pub(super) fn is_value(c: u8) -> bool {
    CLASSES[c as usize] & VALUE != 0
}

/// A character of a path, percent apart.
pub(super) fn is_path(c: u8) -> bool {
    CLASSES[c as usize] & PATH != 0
}

/// A character of a query, percent apart.
pub(super) fn is_query(c: u8) -> bool {
    CLASSES[c as usize] & QUERY != 0
}

/// A character of a reg-name, percent apart.
pub(super) fn is_host(c: u8) -> bool {
    CLASSES[c as usize] & HOST != 0
}

/// Whether all of `text` is of a class, with `%` only before two hex digits.
pub(super) fn is_escaped(text: &[u8], of_class: impl Fn(u8) -> bool) -> bool {
    let mut i = 0;
    while i < text.len() {
        if text[i] == b'%' {
            match text.get(i + 1..i + 3) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => i += 3,
                _ => return false,
            }
        } else if of_class(text[i]) {
            i += 1;
        } else {
            return false;
        }
    }
    true
}
