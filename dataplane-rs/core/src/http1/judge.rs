//! Judges a head that is whole.
//!
//! The tokens come from `httparse`; what it lets pass and RFC 9112 does not, or what this server
//! refuses beyond it, is looked for here. [`super::scan`] has seen that each LF follows a CR.

use std::mem::MaybeUninit;

use super::head::{Field, Fields, Framing, Head, Span, Version};
use super::method::Method;
use super::target::{is_authority, path_of};
use crate::{Refusal, limits};

/// `bytes` end with the empty line; the request line begins at `start`. Framing is judged before
/// method and target: a head whose end is in doubt is nothing else.
pub(super) fn judge(bytes: &[u8], start: usize, fields: &mut Fields) -> Result<Head, Refusal> {
    let mut slots = [const { MaybeUninit::uninit() }; limits::FIELDS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(&bytes[start..], &mut slots) {
        Ok(httparse::Status::Complete(length)) if start + length == bytes.len() => {}
        // The scan and the parser disagree on where the head ends: nobody may go on from there.
        Ok(_) => return Err(Refusal::BadLineEnd),
        Err(error) => return Err(refusal_of(error, &bytes[start..])),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Err(Refusal::BadRequestLine);
    };
    let version = if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    let target_start = start + method.len() + 1;
    let target_end = target_start + target.len();
    let block_start = target_end + " HTTP/1.1\r\n".len();
    let block_end = bytes.len() - 2;

    fields.clear();
    let mut told = Told::default();
    for header in request.headers.iter() {
        let name = header.name.as_bytes();
        told.hear(name, header.value)?;
        fields.push(Field {
            name_offset: offset(bytes, name, block_start),
            name_length: name.len() as u16,
            value_offset: offset(bytes, header.value, block_start),
            value_length: header.value.len() as u16,
        });
    }
    let framing = told.framing(version)?;
    let method = Method::parse(method.as_bytes()).ok_or(Refusal::MethodUnknown)?;
    let is_asterisk = target == "*" && method == Method::Options;
    if is_asterisk {
        return Err(Refusal::MethodUnknown);
    }
    let path = path_of(target.as_bytes())?;
    if matches!(method, Method::Get | Method::Head) && framing != Framing::None {
        return Err(Refusal::BodyUnexpected);
    }
    // A sender of HTTP/1.0 cannot wait for an interim answer (RFC 9110 §10.1.1).
    let is_11 = version == Version::Http11;
    if told.expects_other && is_11 {
        return Err(Refusal::ExpectationUnknown);
    }
    Ok(Head {
        method,
        version,
        framing,
        keep_alive: is_11 && !told.close,
        expect_continue: is_11 && told.expects_continue && framing != Framing::None,
        length: bytes.len(),
        target: Span::new(target_start, target_end),
        path: Span::new(target_start + path.start, target_start + path.end),
        block: Span::new(block_start, block_end),
    })
}

/// Where a part of `bytes` lies, from `base`. Heads are at most 64 KiB long, so it fits.
fn offset(bytes: &[u8], part: &[u8], base: usize) -> u16 {
    let at = (part.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
    debug_assert!(at >= base && at + part.len() <= bytes.len());
    at.wrapping_sub(base) as u16
}

fn refusal_of(error: httparse::Error, head: &[u8]) -> Refusal {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => Refusal::BadField,
        httparse::Error::TooManyHeaders => Refusal::TooManyFields {
            count_max: limits::FIELDS_MAX,
        },
        httparse::Error::Version if names_other_version(head) => Refusal::VersionUnsupported,
        _ => Refusal::BadRequestLine,
    }
}

/// Whether the request line is one but for a version that is not spoken here.
fn names_other_version(head: &[u8]) -> bool {
    let line = head.split(|&c| c == b'\r').next().unwrap_or_default();
    let version = line.splitn(3, |&c| c == b' ').nth(2).unwrap_or_default();
    matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// What the fields say that bears on the connection.
#[derive(Default)]
struct Told {
    hosts: u32,
    length: Option<u64>,
    codings: u32,
    chunked: bool,
    close: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl Told {
    fn hear(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                self.hosts += 1;
                if self.hosts > 1 || !is_authority(value) {
                    return Err(Refusal::BadHost);
                }
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                if value.eq_ignore_ascii_case(b"100-continue") {
                    self.expects_continue = true;
                } else {
                    self.expects_other = true;
                }
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.close |= has_option(value, b"close");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = parse_length(value).filter(|_| self.length.is_none());
                self.length = Some(length.ok_or(Refusal::BadContentLength)?);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.codings += 1;
                self.chunked = value.eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
        Ok(())
    }

    fn framing(&self, version: Version) -> Result<Framing, Refusal> {
        if self.hosts == 0 && version == Version::Http11 {
            return Err(Refusal::BadHost);
        }
        match (self.codings, self.length) {
            (0, None | Some(0)) => Ok(Framing::None),
            (0, Some(length)) => Ok(Framing::Length(length)),
            (_, Some(_)) => Err(Refusal::BadFraming),
            (_, None) if version == Version::Http10 => Err(Refusal::BadFraming),
            (1, None) if self.chunked => Ok(Framing::Chunked),
            (1, None) => Err(Refusal::TransferCodingUnknown),
            // Twice: one side might see only one of them.
            (_, None) => Err(Refusal::BadFraming),
        }
    }
}

/// `1*DIGIT`. A number beyond 64 bits is a number still, and longer than any bound.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0u64, |n, &c| {
        n.saturating_mul(10).saturating_add(u64::from(c - b'0'))
    }))
}

fn has_option(list: &[u8], option: &[u8]) -> bool {
    list.split(|&c| c == b',')
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(option))
}

#[cfg(test)]
mod tests {
    use super::super::head::HeadReader;
    use super::*;

    #[test]
    fn a_fields_place_is_told_from_the_beginning_of_the_header_block() {
        let bytes = b"\r\nPOST /a?b HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nX-Pad:  v w \t\r\n\r\nbody";
        let mut fields = Fields::new();
        let head = HeadReader::new(4096)
            .read(bytes, &mut fields)
            .unwrap()
            .unwrap();
        assert_eq!(&bytes[head.length..], b"body");
        assert_eq!(
            (head.target(bytes), head.path(bytes)),
            (&b"/a?b"[..], &b"/a"[..])
        );
        let block = head.block(bytes);
        assert_eq!(block, b"Host: x\r\nX-Empty:\r\nX-Pad:  v w \t\r\n");
        let pairs: Vec<_> = fields
            .as_slice()
            .iter()
            .map(|f| (f.name(block), f.value(block)))
            .collect();
        let want: [(&[u8], &[u8]); 3] = [(b"Host", b"x"), (b"X-Empty", b""), (b"X-Pad", b"v w")];
        assert_eq!(pairs, want);
        assert_eq!(fields.find(block, "x-pad"), Some(&b"v w"[..]));
        assert_eq!(fields.as_slice()[0].to_bytes(), [0, 0, 4, 0, 6, 0, 1, 0]);
    }

    fn read(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
        HeadReader::new(4096).read(bytes, &mut Fields::new())
    }

    #[test]
    fn a_question_about_the_whole_server_is_well_formed_and_not_served() {
        let options = read(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(options, Err(Refusal::MethodUnknown));
        let post = read(b"POST * HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(post, Err(Refusal::BadTarget));
    }

    #[test]
    fn only_a_sender_of_http_1_1_with_a_body_waits_for_an_interim_answer() {
        let waits = |line: &str, length: u32| {
            let text = format!(
                "POST / {line}\r\nHost: x\r\nExpect: 100-continue\r\n\
                 Content-Length: {length}\r\n\r\n"
            );
            read(text.as_bytes()).unwrap().unwrap().expect_continue
        };
        assert!(waits("HTTP/1.1", 1));
        assert!(!waits("HTTP/1.1", 0));
        assert!(!waits("HTTP/1.0", 1));
    }

    #[test]
    fn a_length_beyond_64_bits_is_too_large_for_every_bound() {
        let length = parse_length(b"18446744073709551623").unwrap();
        let refusal = Framing::Length(length).fits(limits::BODY_BYTES_MAX);
        assert_eq!(
            refusal,
            Err(Refusal::BodyTooLarge {
                bytes_max: limits::BODY_BYTES_MAX
            })
        );
    }

    #[test]
    fn the_fields_of_the_largest_head_fit_into_16_bits() {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: x\r\nA: ".to_vec();
        bytes.resize(limits::HEAD_BYTES_MAX - 4, b'v');
        bytes.extend_from_slice(b"\r\n\r\n");
        let mut fields = Fields::new();
        let head = HeadReader::new(limits::HEAD_BYTES_MAX).read(&bytes, &mut fields);
        let head = head.unwrap().unwrap();
        let value = fields.find(head.block(&bytes), "a").unwrap();
        assert_eq!(value.len(), limits::HEAD_BYTES_MAX - 4 - 28);
        assert!(value.iter().all(|&c| c == b'v'));
    }
}
