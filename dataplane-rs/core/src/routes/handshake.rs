//! What a handshake looks like from outside.

use crate::http1::{Fields, Method};

/// The signs by which a handshake is known before anybody judges it. All that are given must hold,
/// and at least one is given.
///
/// A likeness gives a request nothing but a better chance to be judged, so it may err on the wide
/// side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// `None`: any.
    pub method: Option<Method>,
    /// Parameters that the query has, whatever their values; decoded.
    pub query_keys: Box<[Box<[u8]>]>,
    /// Names of fields that the head has.
    pub headers: Box<[Box<str>]>,
    /// Bytes of the body; `None`: no bound.
    pub body_bytes_max: Option<u64>,
}

impl Handshake {
    /// Whether a request looks like one. `fields` are ranges of `block`.
    pub fn is_like(
        &self,
        method: Method,
        target: &[u8],
        block: &[u8],
        fields: &Fields,
        body_bytes: u64,
    ) -> bool {
        self.method.is_none_or(|wanted| wanted == method)
            && self.body_bytes_max.is_none_or(|max| body_bytes <= max)
            && self
                .headers
                .iter()
                .all(|name| fields.find(block, name).is_some())
            && self.query_keys.iter().all(|key| has_key(target, key))
    }
}

/// Whether the query of a target has a parameter of this name.
fn has_key(target: &[u8], key: &[u8]) -> bool {
    let Some(start) = target.iter().position(|&c| c == b'?') else {
        return false;
    };
    let mut parameters = target[start + 1..].split(|&c| c == b'&');
    parameters.any(|parameter| {
        let name = parameter.split(|&c| c == b'=').next().unwrap_or_default();
        decoded(name).eq(key.iter().copied())
    })
}

/// As forms are encoded; a percent sign that begins nothing stands for itself.
fn decoded(name: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let (&first, behind) = rest.split_first()?;
        rest = behind;
        Some(match first {
            b'+' => b' ',
            b'%' => match behind {
                [high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    rest = behind;
                    digit(*high) << 4 | digit(*low)
                }
                _ => first,
            },
            other => other,
        })
    })
}

/// The caller has seen that it is one.
fn digit(c: u8) -> u8 {
    char::from(c).to_digit(16).unwrap_or_default() as u8
}
