//! One scalar of a JSON text, by its pointer.
//!
//! The text is not validated: what is stepped over is only cut into strings, words and brackets, so
//! a broken text may still have an id in front of what breaks it.

use super::PlaceFault;
use crate::limits;

/// A JSON pointer (RFC 6901), parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Box<[Token]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    key: Box<[u8]>,
    /// The element that the key names in an array.
    index: Option<u32>,
}

/// A string without its quotes, perhaps with escapes, or the text of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar<'a> {
    Number(&'a [u8]),
    Text(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// The characters. `None`: an escape is wrong.
    pub(super) fn text(self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let raw = match self {
            Scalar::Number(text) => return Some(text),
            Scalar::Text(raw) => raw,
        };
        if !raw.contains(&b'\\') {
            return Some(raw);
        }
        buffer.clear();
        unescape(raw, |piece| buffer.extend_from_slice(piece))?;
        Some(buffer)
    }
}

impl Pointer {
    /// Reads a pointer, which has at least one token.
    pub fn parse(text: &str) -> Result<Pointer, PlaceFault> {
        let fault = || PlaceFault::Pointer { text: text.into() };
        if text.len() > limits::POINTER_BYTES_MAX {
            return Err(fault());
        }
        let tokens = text.strip_prefix('/').ok_or_else(fault)?.split('/');
        let tokens = tokens.map(|token| {
            let plain = token.replace("~0", "").replace("~1", "");
            if plain.contains('~') {
                return Err(fault());
            }
            let key = token.replace("~1", "/").replace("~0", "~");
            let index = index(&key);
            let key = key.into_bytes().into();
            Ok(Token { key, index })
        });
        tokens.collect::<Result<_, _>>().map(Pointer)
    }

    /// What the pointer leads to in the first [`limits::ID_SCAN_BYTES_MAX`] bytes of a text, if it
    /// is a string or a number. Of two keys of one name the first counts.
    pub(super) fn find<'a>(&self, text: &'a [u8]) -> Option<Scalar<'a>> {
        let end = text.len().min(limits::ID_SCAN_BYTES_MAX);
        let mut scan = Scan {
            text: &text[..end],
            at: 0,
            is_cut: end < text.len(),
        };
        for token in &self.0 {
            match scan.next()? {
                b'{' => scan.enter_object(&token.key)?,
                b'[' => scan.enter_array(token.index?)?,
                _ => return None,
            }
        }
        scan.scalar()
    }
}

/// RFC 6901, section 4: digits without a leading zero.
fn index(key: &str) -> Option<u32> {
    let is_index = key == "0" || !key.starts_with('0') && key.bytes().all(|c| c.is_ascii_digit());
    is_index.then(|| key.parse().ok())?
}

/// Reads from the front. Each method gives `None` once the text is over or broken.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// There is more text that is not looked at.
    is_cut: bool,
}

impl<'a> Scan<'a> {
    /// Steps over blanks; the byte there stays unread.
    fn next(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(other),
            }
        }
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then(|| self.at += 1)
    }

    /// From a brace to the value of a key.
    fn enter_object(&mut self, key: &[u8]) -> Option<()> {
        self.at += 1;
        loop {
            if self.next()? != b'"' {
                return None;
            }
            let name = self.quoted()?;
            self.take(b':')?;
            if is_key(name, key) {
                return Some(());
            }
            self.skip()?;
            self.take(b',')?;
        }
    }

    /// From a bracket to an element.
    fn enter_array(&mut self, index: u32) -> Option<()> {
        self.at += 1;
        for _ in 0..index {
            self.skip()?;
            self.take(b',')?;
        }
        Some(())
    }

    /// A string, without its quotes. A control byte in it is against the grammar (RFC 8259, 7).
    fn quoted(&mut self) -> Option<&'a [u8]> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += plain(&self.text[at.min(self.text.len())..]);
            match *self.text.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(&self.text[start..at]);
                }
                b'\\' => at += 2,
                0..0x20 => return None,
                _ => at += 1,
            }
        }
    }

    fn scalar(&mut self) -> Option<Scalar<'a>> {
        match self.next()? {
            b'"' => self.quoted().map(Scalar::Text),
            b'-' | b'0'..=b'9' => {
                let word = self.word()?;
                is_number(word).then_some(Scalar::Number(word))
            }
            _ => None,
        }
    }

    /// Up to what may follow a number, true, false or null; at least one byte.
    fn word(&mut self) -> Option<&'a [u8]> {
        let rest = &self.text[self.at..];
        let length = match rest.iter().position(|c| b",]} \t\n\r:\"[{".contains(c)) {
            None if self.is_cut => return None,
            length => length.unwrap_or(rest.len()),
        };
        self.at += length;
        (length > 0).then_some(&rest[..length])
    }

    /// Steps over one value of any kind. Brackets are counted and not held against each other: a
    /// text that mixes them up is broken, and then any answer but a crash is right.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            match self.next()? {
                b'"' => {
                    self.quoted()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    self.word()?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// How many bytes in front are surely those of a string: a multiple of eight, for what is stepped
/// over is mostly strings.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH_BITS: u64 = ONES << 7;
    // By Mycroft's test for a zero byte, and the like for a byte below a bound up to 0x80: whether
    // there is one at all is exact.
    let has_below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH_BITS;
    let is_plain = |eight: &[u8; 8]| {
        let word = u64::from_ne_bytes(*eight);
        let quote = has_below(word ^ (ONES * u64::from(b'"')), 1);
        let escape = has_below(word ^ (ONES * u64::from(b'\\')), 1);
        quote | escape | has_below(word, 0x20) == 0
    };
    let (eights, _) = text.as_chunks::<8>();
    8 * eights.iter().take_while(|eight| is_plain(eight)).count()
}

fn is_key(name: &[u8], key: &[u8]) -> bool {
    if !name.contains(&b'\\') {
        return name == key;
    }
    let mut rest = Some(key);
    let is_whole = unescape(name, |piece| {
        rest = rest.and_then(|rest| rest.strip_prefix(piece));
    });
    is_whole.is_some() && rest == Some(b"")
}

/// RFC 8259, section 6.
fn is_number(word: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|c| c.is_ascii_digit()).count();
    let rest = word.strip_prefix(b"-").unwrap_or(word);
    let whole = digits(rest);
    if whole == 0 || whole > 1 && rest[0] == b'0' {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', exponent @ ..] => exponent,
            _ => exponent,
        };
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// Hands the characters of a string on, piece by piece. `None`: an escape is wrong, or half of a
/// surrogate pair stands alone and so is no character.
fn unescape(raw: &[u8], mut put: impl FnMut(&[u8])) -> Option<()> {
    let mut rest = raw;
    loop {
        let plain = rest.iter().position(|&c| c == b'\\').unwrap_or(rest.len());
        if plain > 0 {
            put(&rest[..plain]);
        }
        let Some((_, escape)) = rest[plain..].split_first() else {
            return Some(());
        };
        let (&kind, behind) = escape.split_first()?;
        rest = behind;
        let character = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (first, behind) = unit(rest)?;
                rest = behind;
                let second = match first {
                    0xd800..0xdc00 => {
                        let (second, behind) = unit(rest.strip_prefix(b"\\u")?)?;
                        rest = behind;
                        Some(second)
                    }
                    _ => None,
                };
                let mut units = char::decode_utf16([first].into_iter().chain(second));
                units.next()?.ok()?
            }
            _ => return None,
        };
        put(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Four hexadecimal digits.
fn unit(text: &[u8]) -> Option<(u16, &[u8])> {
    let (digits, rest) = text.split_first_chunk::<4>()?;
    let unit = digits.iter().try_fold(0, |unit, &c| {
        Some(unit << 4 | char::from(c).to_digit(16)? as u16)
    });
    Some((unit?, rest))
}
