//! Takes the chunks off a body, byte by byte if it must.
//!
//! Sizes are bounded before they are added, extensions and trailers are read, bounded and dropped.

use std::ops::Range;

use super::characters::{is_token, is_value};
use crate::{Refusal, limits};

/// Where the decoder stands. Lines end in CR LF only, so each kind of line has a state behind its
/// CR in which nothing but LF may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In front of the first digit of a size.
    SizeStart,
    /// Behind a digit.
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// In front of a trailer line or the empty one.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// A decoder for one body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    digits: u8,
    extension_bytes: u32,
    trailer_bytes: u32,
    trailer_fields: u32,
    /// Size read so far, then bytes of the chunk that are still to come.
    chunk: u64,
    body_bytes: u64,
    body_bytes_max: u64,
}

/// What one [`ChunkedDecoder::step`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Body bytes, as a range of the input.
    pub data: Range<usize>,
    /// Input that need not be looked at again.
    pub consumed: usize,
    /// The body is whole; what follows is the next request.
    pub done: bool,
}

/// What a call took from its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Input that need not be looked at again. All of it, unless the body is whole.
    pub consumed: usize,
    /// Body bytes that were written.
    pub produced: usize,
    /// The body is whole; what follows is the next request.
    pub done: bool,
}

impl ChunkedDecoder {
    /// A body of more than `body_bytes_max` is refused as soon as a chunk announces it.
    pub fn new(body_bytes_max: u64) -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::SizeStart,
            digits: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
            chunk: 0,
            body_bytes: 0,
            body_bytes_max: body_bytes_max.min(limits::BODY_BYTES_MAX),
        }
    }

    /// Body bytes that the chunks have announced so far.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the body is whole.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Appends the body bytes in `input` to `out`. `out` grows only beyond its capacity.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, Refusal> {
        let before = out.len();
        let (consumed, done) = self.each(input, |data| out.extend_from_slice(&input[data]))?;
        Ok(Progress {
            consumed,
            produced: out.len() - before,
            done,
        })
    }

    /// Moves the body bytes in `buffer` to its beginning: a body shrinks when it loses its frame.
    pub fn decode_in_place(&mut self, buffer: &mut [u8]) -> Result<Progress, Refusal> {
        let (mut consumed, mut produced) = (0, 0);
        while consumed < buffer.len() && !self.is_done() {
            let step = self.step(&buffer[consumed..])?;
            let length = step.data.len();
            buffer.copy_within(
                consumed + step.data.start..consumed + step.data.end,
                produced,
            );
            produced += length;
            consumed += step.consumed;
        }
        Ok(Progress {
            consumed,
            produced,
            done: self.is_done(),
        })
    }

    fn each(
        &mut self,
        input: &[u8],
        mut take: impl FnMut(Range<usize>),
    ) -> Result<(usize, bool), Refusal> {
        let mut consumed = 0;
        while consumed < input.len() && !self.is_done() {
            let step = self.step(&input[consumed..])?;
            if !step.data.is_empty() {
                take(consumed + step.data.start..consumed + step.data.end);
            }
            consumed += step.consumed;
        }
        Ok((consumed, self.is_done()))
    }

    /// Reads framing up to and including the next run of body bytes, without copying it.
    pub fn step(&mut self, input: &[u8]) -> Result<Step, Refusal> {
        let mut at = 0;
        while at < input.len() {
            if self.state == State::Data {
                let rest = (input.len() - at) as u64;
                // Not more than what is left of the input, so it fits.
                let length = self.chunk.min(rest) as usize;
                self.chunk -= length as u64;
                if self.chunk == 0 {
                    self.state = State::DataReturn;
                }
                let end = at + length;
                return Ok(Step {
                    data: at..end,
                    consumed: end,
                    done: false,
                });
            }
            if self.state == State::Done {
                break;
            }
            self.state = self.next(input[at])?;
            at += 1;
        }
        Ok(Step {
            data: at..at,
            consumed: at,
            done: self.is_done(),
        })
    }

    /// The state behind one byte of framing.
    fn next(&mut self, c: u8) -> Result<State, Refusal> {
        match (self.state, c) {
            (State::SizeStart | State::Size, _) if c.is_ascii_hexdigit() => self.add_digit(c),
            (State::Size, b'\r' | b';') => {
                self.check_size()?;
                Ok(if c == b';' {
                    State::Extension
                } else {
                    State::SizeLineFeed
                })
            }
            (State::Extension, b'\r') => Ok(State::SizeLineFeed),
            (State::Extension, b'\t' | b' '..=b'~') => {
                self.extension_bytes += 1;
                if self.extension_bytes > limits::CHUNK_EXTENSION_BYTES_MAX {
                    return Err(Refusal::ChunkOverhead);
                }
                Ok(State::Extension)
            }
            (State::SizeLineFeed, b'\n') if self.chunk == 0 => Ok(State::TrailerStart),
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => {
                self.digits = 0;
                Ok(State::SizeStart)
            }
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::EndLineFeed, b'\n') => Ok(State::Done),
            (State::TrailerStart | State::TrailerName, _) if is_token(c) => {
                self.count_trailer(self.state == State::TrailerStart)?;
                Ok(State::TrailerName)
            }
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, _) if is_value(c) => {
                self.count_trailer(false)?;
                Ok(State::TrailerValue)
            }
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (
                State::TrailerStart
                | State::TrailerName
                | State::TrailerValue
                | State::TrailerLineFeed
                | State::EndLineFeed,
                _,
            ) => Err(Refusal::BadTrailer),
            _ => Err(Refusal::BadChunk),
        }
    }

    fn add_digit(&mut self, c: u8) -> Result<State, Refusal> {
        if self.digits == limits::CHUNK_SIZE_DIGITS_MAX {
            return Err(Refusal::BadChunk);
        }
        let digit = match c {
            b'0'..=b'9' => c - b'0',
            // Only hex digits come here; both cases end in the same four bits.
            _ => (c & 0xf) + 9,
        };
        self.chunk = self.chunk << 4 | u64::from(digit);
        self.digits += 1;
        Ok(State::Size)
    }

    /// Bounds the size before it is added.
    fn check_size(&mut self) -> Result<(), Refusal> {
        if self.chunk > self.body_bytes_max - self.body_bytes {
            return Err(Refusal::BodyTooLarge {
                bytes_max: self.body_bytes_max,
            });
        }
        self.body_bytes += self.chunk;
        Ok(())
    }

    fn count_trailer(&mut self, begins_field: bool) -> Result<(), Refusal> {
        self.trailer_bytes += 1;
        self.trailer_fields += u32::from(begins_field);
        if self.trailer_bytes > limits::TRAILER_BYTES_MAX
            || self.trailer_fields > limits::TRAILER_FIELDS_MAX
        {
            return Err(Refusal::ChunkOverhead);
        }
        Ok(())
    }
}
