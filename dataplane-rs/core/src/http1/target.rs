//! The request target and `Host`, by RFC 9112 §3.2 and RFC 3986.

use std::ops::Range;

use super::characters::{is_escaped, is_host, is_path, is_query};
use crate::Refusal;

/// Where the path lies in a target of origin-form or absolute-form. An absolute-form without a path
/// has an empty one.
///
/// Nothing is decoded or normalised: routes match exactly, so `/a/../b` is no other path's name.
pub(super) fn path_of(target: &[u8]) -> Result<Range<usize>, Refusal> {
    let path_start = match target.first() {
        Some(b'/') => 0,
        Some(_) => behind_authority(target)?,
        None => return Err(Refusal::BadTarget),
    };
    let rest = &target[path_start..];
    let path_length = rest.iter().position(|&c| c == b'?').unwrap_or(rest.len());
    let query = rest.get(path_length + 1..).unwrap_or_default();
    if is_escaped(&rest[..path_length], is_path) && is_escaped(query, is_query) {
        Ok(path_start..path_start + path_length)
    } else {
        Err(Refusal::BadTarget)
    }
}

fn behind_authority(target: &[u8]) -> Result<usize, Refusal> {
    let scheme_length = ["http://", "https://"].into_iter().find_map(|scheme| {
        let start = target.get(..scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme.as_bytes())
            .then_some(scheme.len())
    });
    let scheme_length = scheme_length.ok_or(Refusal::BadTarget)?;
    let rest = &target[scheme_length..];
    let length = rest
        .iter()
        .position(|c| b"/?".contains(c))
        .unwrap_or(rest.len());
    if is_authority(&rest[..length]) {
        Ok(scheme_length + length)
    } else {
        Err(Refusal::BadTarget)
    }
}

/// `uri-host [ ":" port ]`, without user information and not empty.
pub(super) fn is_authority(text: &[u8]) -> bool {
    let (host_is_good, rest) = match text.first() {
        Some(b'[') => {
            let Some(end) = text.iter().position(|&c| c == b']') else {
                return false;
            };
            let inner = &text[1..end];
            let is_ip = std::str::from_utf8(inner)
                .is_ok_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
            (is_ip, &text[end + 1..])
        }
        Some(_) => {
            let end = text.iter().position(|&c| c == b':').unwrap_or(text.len());
            (end > 0 && is_escaped(&text[..end], is_host), &text[end..])
        }
        None => return false,
    };
    host_is_good && (rest.is_empty() || rest[0] == b':' && rest[1..].iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_at_the_query_and_begins_behind_the_authority() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b?c=/d?e", "/a/b"),
            ("//x@y/z", "//x@y/z"),
            ("http://a.test/b?c", "/b"),
            ("HTTPS://[::1]:8/b", "/b"),
            ("http://a.test", ""),
            ("http://a.test?x", ""),
            ("/a%2F?b[]=%20", "/a%2F"),
        ] {
            let range = path_of(target.as_bytes()).expect(target);
            assert_eq!(&target[range], path, "{target}");
        }
    }

    #[test]
    fn a_target_of_no_known_form_is_refused() {
        for target in [
            "",
            "*",
            "a/b",
            "a.test:80",
            "/a#b",
            "/a b",
            "/%",
            "/%4",
            "/%4g",
            "/?%",
            "ftp://a/b",
        ] {
            assert_eq!(
                path_of(target.as_bytes()),
                Err(Refusal::BadTarget),
                "{target}"
            );
        }
        for target in [
            "http:///b",
            "http://u@a/b",
            "http://a:b/c",
            "http://[::1/b",
            "/[a]",
        ] {
            assert_eq!(
                path_of(target.as_bytes()),
                Err(Refusal::BadTarget),
                "{target}"
            );
        }
    }
}
