//! Reads the PROXY header that a load balancer puts in front of a connection, version 1 or 2.
//!
//! It does not decide who may send one (a listener's list of peers does), keeps no byte, and checks
//! no CRC-32C: what a listed proxy says about its peer is believed, and TCP guards its bytes.
//! Sections are those of HAProxy's `doc/proxy-protocol.txt` (2020/03/05).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Bytes of the longest line of version 1, CR LF included (§2.1).
pub const LINE_BYTES_MAX: usize = 107;

/// Bytes that may follow the fixed part of version 2: the longest addresses take 216, and the names
/// in a client's certificate are what makes TLVs long.
pub const BLOCK_BYTES_MAX: usize = 2048;

/// Bytes of the longest header: [`parse`] never asks for more than these.
pub const HEADER_BYTES_MAX: usize = FIXED_BYTES + BLOCK_BYTES_MAX;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length of what follows (§2.2).
const FIXED_BYTES: usize = 16;

const _: () = assert!(SIGNATURE.len() + 4 == FIXED_BYTES && LINE_BYTES_MAX < HEADER_BYTES_MAX);

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The proxy's own (a health check), or one of a client without an IP address or unknown to the
    /// proxy. The socket's peer stands.
    Local,
    /// The connection of this client. IPv4 in IPv6 form is left as it came.
    Tcp(SocketAddr),
}

/// Why the bytes are no header: a fault of the proxy, or of whoever listed a peer that is none.
/// The connection is of no use then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Version 2: more follows than the bound, or less than the addresses take.
    BadLength {
        /// What the header says follows its fixed part.
        bytes: usize,
    },
    /// Version 1: the line breaks §2.1.
    BadLine,
    /// Version 2: a TLV runs over the end of the header.
    BadTlv,
    /// Version 1: the line does not end within [`LINE_BYTES_MAX`].
    LineTooLong,
    /// The bytes begin as neither version does.
    Missing,
    /// Version 2: a version, command, family or transport without a meaning.
    Unknown,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::BadLength { bytes } => {
                return write!(
                    f,
                    "proxy: a PROXY header cannot have {bytes} bytes of addresses"
                );
            }
            Error::BadLine => "proxy: the PROXY line is broken",
            Error::BadTlv => "proxy: a TLV runs over the end of its PROXY header",
            Error::LineTooLong => "proxy: the PROXY line does not end",
            Error::Missing => "proxy: no PROXY header from a peer that must send one",
            Error::Unknown => "proxy: unknown version, command or family in the PROXY header",
        })
    }
}

impl std::error::Error for Error {}

/// Reads the header at the beginning of `data`, which are all bytes since the connection began, and
/// says how many of them it takes; what follows is the client's.
///
/// `None` asks for more, and only while the bytes may still become a header within
/// [`HEADER_BYTES_MAX`]: a byte of a wrong kind is refused when it comes, a wrong number or address
/// when its field ends. The outcome does not depend on how the bytes were cut.
pub fn parse(data: &[u8]) -> Result<Option<(usize, Header)>, Error> {
    let read = match data.first() {
        Some(b'P') => read_line(&data[..data.len().min(LINE_BYTES_MAX)]),
        _ => read_block(data),
    };
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Stop::At(error)) => Err(error),
        Err(Stop::More) => Ok(None),
    }
}

/// Why reading went no further.
enum Stop {
    At(Error),
    More,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::At(error)
    }
}

type Read<T> = Result<T, Stop>;

/// Version 1 (§2.1); `data` ends at [`LINE_BYTES_MAX`] at the latest.
fn read_line(data: &[u8]) -> Read<(usize, Header)> {
    let mut rest = data;
    let header = read_endpoints(&mut rest);
    match header {
        Err(Stop::More) if data.len() == LINE_BYTES_MAX => Err(Error::LineTooLong.into()),
        header => Ok((data.len() - rest.len(), header?)),
    }
}

fn read_endpoints(rest: &mut &[u8]) -> Read<Header> {
    if !skip(rest, b"PROXY ") {
        return Err(Error::Missing.into());
    }
    let header = if skip(rest, b"TCP4 ") {
        let is_address = |c: u8| c == b'.' || c.is_ascii_digit();
        let source: Ipv4Addr = value(rest, b' ', is_address)?;
        let _target: Ipv4Addr = value(rest, b' ', is_address)?;
        Header::Tcp(SocketAddr::from((source, read_ports(rest)?)))
    } else if skip(rest, b"TCP6 ") {
        let is_address = |c: u8| b":.".contains(&c) || c.is_ascii_hexdigit();
        let source: Ipv6Addr = value(rest, b' ', is_address)?;
        let _target: Ipv6Addr = value(rest, b' ', is_address)?;
        Header::Tcp(SocketAddr::from((source, read_ports(rest)?)))
    } else if skip(rest, b"UNKNOWN") && matches!(rest.first(), None | Some(b' ' | b'\r')) {
        // What follows is to be ignored, up to the CR LF: no other CR or LF ends the line.
        field(rest, b'\r', |c| c != b'\r' && c != b'\n')?;
        Header::Local
    } else {
        return Err(Error::BadLine.into());
    };
    match rest.split_first() {
        Some((b'\n', behind)) => {
            *rest = behind;
            Ok(header)
        }
        Some(_) => Err(Error::BadLine.into()),
        None => Err(Stop::More),
    }
}

/// Both ports and the CR; gives the source's.
fn read_ports(rest: &mut &[u8]) -> Read<u16> {
    let source = read_port(rest, b' ')?;
    read_port(rest, b'\r')?;
    Ok(source)
}

fn read_port(rest: &mut &[u8], end: u8) -> Read<u16> {
    let has_zero_in_front = matches!(**rest, [b'0', b'0'..=b'9', ..]);
    if has_zero_in_front {
        return Err(Error::BadLine.into());
    }
    value(rest, end, |c| c.is_ascii_digit())
}

/// A field as what its standard parser makes of it: addresses without leading zeros, numbers in
/// their range.
fn value<T: FromStr>(rest: &mut &[u8], end: u8, of_class: impl Fn(u8) -> bool) -> Read<T> {
    let text = str::from_utf8(field(rest, end, of_class)?).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(Error::BadLine.into())
}

/// Takes bytes of a class and the one behind them, which has to be `end`.
fn field<'a>(rest: &mut &'a [u8], end: u8, of_class: impl Fn(u8) -> bool) -> Read<&'a [u8]> {
    let length = rest.iter().position(|&c| !of_class(c)).ok_or(Stop::More)?;
    let (text, behind) = rest.split_at(length);
    if behind[0] != end {
        return Err(Error::BadLine.into());
    }
    *rest = &behind[1..];
    Ok(text)
}

/// Takes `word` off the front, or what has come of it. `false`: something else is there.
fn skip(rest: &mut &[u8], word: &[u8]) -> bool {
    let begins = rest.iter().zip(word).all(|(byte, want)| byte == want);
    if begins {
        *rest = rest.get(word.len()..).unwrap_or_default();
    }
    begins
}

/// Version 2 (§2.2).
fn read_block(data: &[u8]) -> Read<(usize, Header)> {
    if !skip(&mut &*data, SIGNATURE) {
        return Err(Error::Missing.into());
    }
    let is_local = match data.get(12).ok_or(Stop::More)? {
        0x20 => true,
        0x21 => false,
        _ => return Err(Error::Unknown.into()),
    };
    let kind = *data.get(13).ok_or(Stop::More)?;
    let (family, transport) = (kind >> 4, kind & 0xf);
    // Of LOCAL all else "is ignored", as are the addresses of a family or transport UNSPEC. A
    // datagram's source is a client like another: an HTTP/3 front end may stand before us.
    let address_bytes = match (is_local, family, transport) {
        (true, ..) | (_, 0, 0..=2) | (_, 1..=3, 0) => 0,
        (_, 1, 1 | 2) => 12,
        (_, 2, 1 | 2) => 36,
        (_, 3, 1 | 2) => 216,
        _ => return Err(Error::Unknown.into()),
    };
    let length = data.get(14..16).ok_or(Stop::More)?;
    let bytes = usize::from(u16::from_be_bytes([length[0], length[1]]));
    if !(address_bytes..=BLOCK_BYTES_MAX).contains(&bytes) {
        return Err(Error::BadLength { bytes }.into());
    }
    let end = FIXED_BYTES + bytes;
    let block = data.get(FIXED_BYTES..end).ok_or(Stop::More)?;
    let (addresses, tlvs) = block.split_at(address_bytes);
    // Both addresses, then both ports.
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    let header = if let (12, Some(&source)) = (address_bytes, addresses.first_chunk::<4>()) {
        Header::Tcp(SocketAddr::from((source, port(8))))
    } else if let (36, Some(&source)) = (address_bytes, addresses.first_chunk::<16>()) {
        Header::Tcp(SocketAddr::from((source, port(32))))
    } else {
        Header::Local
    };
    if address_bytes > 0 {
        walk(tlvs)?;
    }
    Ok((end, header))
}

/// Passes over type, length and value of each TLV. A receiver may skip them unseen; but where they
/// do not add up the two sides disagree on the header, and its addresses are not to be trusted.
fn walk(mut tlvs: &[u8]) -> Read<()> {
    while !tlvs.is_empty() {
        let [_, high, low, value @ ..] = tlvs else {
            return Err(Error::BadTlv.into());
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        tlvs = value.get(length..).ok_or(Error::BadTlv)?;
    }
    Ok(())
}
