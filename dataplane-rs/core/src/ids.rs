//! Finds a sender's own id of an event, where its profile says that it is.
//!
//! It judges nothing: an id that is found here was not verified, and serves only to choose a class
//! and to name what was refused. Whatever is doubtful (a field that comes twice, an id that is too
//! long, JSON that is broken before it, a body that goes on beyond [`limits::ID_SCAN_BYTES_MAX`])
//! is no id. One pass over the bytes, no recursion, and no memory but the caller's buffer.
//!
//! ```
//! use sluice_core::http1::Fields;
//! use sluice_core::ids::{Found, Place, Places, Pointer};
//!
//! let fields = Fields::new(); // of a head without `X-Id`
//! let places = [Place::header("X-Id")?, Place::Json(Pointer::parse("/event/id")?)];
//! let places = Places::new(places.into())?;
//! let mut buffer = Vec::new();
//! // Without a look at the body nobody knows.
//! assert_eq!(places.find(b"", &fields, None, &mut buffer), Found::InBody);
//! let body = br#"{"event": {"id": "evt_1"}}"#;
//! assert_eq!(places.find(b"", &fields, Some(body), &mut buffer), Found::Id(b"evt_1"));
//! # Ok::<(), sluice_core::ids::PlaceFault>(())
//! ```

mod json;

use crate::http1::Fields;
use crate::limits;
pub use json::Pointer;
use std::fmt;

/// Where an id may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The value of a field of this name, which compares without case.
    Header(Box<str>),
    /// A string or a number of the body.
    Json(Pointer),
}

impl Place {
    /// A field's name, checked.
    pub fn header(name: &str) -> Result<Place, PlaceFault> {
        field_name(name).map(Place::Header)
    }
}

/// A name that a field can have, or the fault of one that cannot.
pub fn field_name(name: &str) -> Result<Box<str>, PlaceFault> {
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    let fits = (1..=limits::FIELD_NAME_BYTES_MAX).contains(&name.len());
    match fits && name.bytes().all(is_token) {
        true => Ok(name.into()),
        false => Err(PlaceFault::FieldName { name: name.into() }),
    }
}

/// Why a place is none. All of them are the operator's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceFault {
    /// No field has such a name.
    FieldName {
        /// The name.
        name: String,
    },
    /// By RFC 6901 this is no pointer, or it is too long.
    Pointer {
        /// The text.
        text: String,
    },
    /// More places than [`limits::ID_PLACES_MAX`].
    TooMany {
        /// How many.
        count: usize,
    },
}

impl fmt::Display for PlaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceFault::FieldName { name } => write!(f, "{name:?} is no name of a header field"),
            PlaceFault::Pointer { text } => write!(
                f,
                "{text:?} is no JSON pointer of at most {} bytes: it begins with / and a tilde is \
                 ~0 or ~1",
                limits::POINTER_BYTES_MAX
            ),
            PlaceFault::TooMany { count } => {
                write!(f, "{count} places, at most {}", limits::ID_PLACES_MAX)
            }
        }
    }
}

impl std::error::Error for PlaceFault {}

/// The places of one source; the first one that has an id counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Box<[Place]>);

/// What a search says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// This is the id, at least one byte.
    Id(&'a [u8]),
    /// The body decides, and it was not handed in.
    InBody,
    /// There is none.
    Nowhere,
}

impl Places {
    /// No more than [`limits::ID_PLACES_MAX`].
    pub fn new(places: Box<[Place]>) -> Result<Places, PlaceFault> {
        match places.len() {
            count if count > limits::ID_PLACES_MAX => Err(PlaceFault::TooMany { count }),
            _ => Ok(Places(places)),
        }
    }

    /// Whether ids are known at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Searches a head, whose fields are ranges of `block`, and the body where it is given. The
    /// buffer is used for a string with escapes alone.
    pub fn find<'a>(
        &self,
        block: &'a [u8],
        fields: &Fields,
        body: Option<&'a [u8]>,
        buffer: &'a mut Vec<u8>,
    ) -> Found<'a> {
        for place in &self.0 {
            let id = match place {
                Place::Header(name) => match header(block, fields, name) {
                    Ok(None) => continue,
                    Ok(Some(value)) => value,
                    Err(Twice) => return Found::Nowhere,
                },
                Place::Json(pointer) => match body.map(|body| pointer.find(body)) {
                    None => return Found::InBody,
                    Some(None) => continue,
                    Some(Some(scalar)) => match scalar.text(buffer) {
                        Some(text) => return id_or_nowhere(text),
                        None => return Found::Nowhere,
                    },
                },
            };
            return id_or_nowhere(id);
        }
        Found::Nowhere
    }
}

/// Of two values nobody knows which one the sender means.
struct Twice;

fn header<'a>(block: &'a [u8], fields: &Fields, name: &str) -> Result<Option<&'a [u8]>, Twice> {
    let mut values = fields
        .as_slice()
        .iter()
        .filter(|field| field.name(block).eq_ignore_ascii_case(name.as_bytes()))
        .map(|field| field.value(block));
    let value = values.next().filter(|value| !value.is_empty());
    match values.next() {
        Some(_) => Err(Twice),
        None => Ok(value),
    }
}

fn id_or_nowhere(text: &[u8]) -> Found<'_> {
    match (1..=limits::ID_BYTES_MAX).contains(&text.len()) {
        true => Found::Id(text),
        false => Found::Nowhere,
    }
}
