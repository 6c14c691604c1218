//! What is known of a request once its head is whole.

use super::judge;
use super::method::Method;
use super::scan::Scan;
use crate::{Refusal, limits};

/// Reads the heads of one connection, one after the other.
#[derive(Clone, Debug)]
pub struct HeadReader {
    scan: Scan,
    bytes_max: usize,
}

impl HeadReader {
    /// `bytes_max` bounds a whole head; it is moved into what [`limits`] allows.
    pub fn new(bytes_max: usize) -> HeadReader {
        let bytes_max = bytes_max.clamp(limits::HEAD_BYTES_MIN, limits::HEAD_BYTES_MAX);
        HeadReader {
            scan: Scan::default(),
            bytes_max,
        }
    }

    /// Judges the head at the beginning of `bytes`: all bytes since the request began, those of
    /// earlier calls included. `None` when the head is not whole; each byte is looked through once.
    ///
    /// `fields` holds the header fields afterwards, and nothing of use after an error. Reading the
    /// same bytes again after [`restart`](HeadReader::restart) gives the same result, so a caller
    /// that waits for a body may keep the bytes alone.
    pub fn read(&mut self, bytes: &[u8], fields: &mut Fields) -> Result<Option<Head>, Refusal> {
        match self.scan.advance(bytes, self.bytes_max)? {
            None => Ok(None),
            Some((start, end)) => judge::judge(&bytes[..end], start, fields).map(Some),
        }
    }

    /// Forgets the request: the next bytes handed in begin another one.
    pub fn restart(&mut self) {
        self.scan = Scan::default();
    }
}

/// A request's head. Its ranges refer to the bytes that were handed to [`HeadReader::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The version that the sender speaks.
    pub version: Version,
    /// How long the body is.
    pub framing: Framing,
    /// Whether another request may follow.
    pub keep_alive: bool,
    /// Whether the sender waits for `100 Continue`. Moot when bytes of the body are there.
    pub expect_continue: bool,
    /// Bytes of the head, the empty line included: the body begins there.
    pub length: usize,
    pub(super) target: Span,
    pub(super) path: Span,
    pub(super) block: Span,
}

impl Head {
    /// The request target as it came.
    pub fn target<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.target.of(bytes)
    }

    /// The path of the target, without query.
    pub fn path<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.path.of(bytes)
    }

    /// The header block: from behind the request line up to the empty line, exactly as it came.
    pub fn block<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.block.of(bytes)
    }
}

/// The versions that are spoken. A connection of HTTP/1.0 ends with its answer, whatever it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// So many bytes, at least one.
    Length(u64),
    /// Where [`super::ChunkedDecoder`] says.
    Chunked,
}

impl Framing {
    /// Whether a body that announces its length fits. Chunks are bounded by their decoder.
    pub fn fits(&self, bytes_max: u64) -> Result<(), Refusal> {
        match *self {
            Framing::Length(length) if length > bytes_max => {
                Err(Refusal::BodyTooLarge { bytes_max })
            }
            _ => Ok(()),
        }
    }
}

/// A range of a head. Heads are at most 64 KiB long, so 32 bits are plenty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && end <= limits::HEAD_BYTES_MAX);
        Span {
            start: start as u32,
            end: end as u32,
        }
    }

    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// One header field, as ranges of the header block: an entry of a frame's header index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Field {
    /// Where the name begins.
    pub name_offset: u16,
    /// Bytes of the name.
    pub name_length: u16,
    /// Where the value begins, blanks in front of it left out.
    pub value_offset: u16,
    /// Bytes of the value, blanks behind it left out.
    pub value_length: u16,
}

impl Field {
    /// The entry as it stands in a frame.
    pub fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        let numbers = [
            self.name_offset,
            self.name_length,
            self.value_offset,
            self.value_length,
        ];
        for (place, number) in bytes.chunks_exact_mut(2).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The name as it came.
    pub fn name<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.name_offset);
        &block[start..start + usize::from(self.name_length)]
    }

    /// The value.
    pub fn value<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.value_offset);
        &block[start..start + usize::from(self.value_length)]
    }
}

/// The fields of a head in wire order. One serves all requests of a worker.
#[derive(Clone)]
pub struct Fields {
    entries: [Field; limits::FIELDS_MAX],
    count: usize,
}

impl Fields {
    /// An empty list.
    pub const fn new() -> Fields {
        const EMPTY: Field = Field {
            name_offset: 0,
            name_length: 0,
            value_offset: 0,
            value_length: 0,
        };
        Fields {
            entries: [EMPTY; limits::FIELDS_MAX],
            count: 0,
        }
    }

    /// The fields of the head that was read last.
    pub fn as_slice(&self) -> &[Field] {
        &self.entries[..self.count]
    }

    /// The first value of a name, which compares without case.
    pub fn find<'a>(&self, block: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let found = |field: &&Field| field.name(block).eq_ignore_ascii_case(name.as_bytes());
        self.as_slice()
            .iter()
            .find(found)
            .map(|field| field.value(block))
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// The parser has as many slots as there are entries.
    pub(super) fn push(&mut self, field: Field) {
        self.entries[self.count] = field;
        self.count += 1;
    }
}

impl Default for Fields {
    fn default() -> Fields {
        Fields::new()
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
