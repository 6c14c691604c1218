//! The receiving half of a connection, without a socket: in which order a server calls `http1`.

use sluice_core::Refusal;
use sluice_core::http1::{ChunkedDecoder, Fields, Framing, Head, HeadReader, Method, Version};

const HEAD_BYTES_MAX: usize = 32 * 1024;
const BODY_BYTES_MAX: u64 = 1 << 20;
const METHODS: [Method; 3] = [Method::Get, Method::Post, Method::Put];

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Accept {
        method: Vec<u8>,
        target: Vec<u8>,
        version: &'static str,
        headers: Vec<(Vec<u8>, Vec<u8>)>,
        body: Vec<u8>,
        keep_alive: bool,
    },
    Refuse {
        status: u16,
        close: bool,
    },
}

/// Where the next bytes belong.
enum Stage {
    Head,
    /// The head is at the beginning of `pending`, followed by what has come of the body.
    Body(Head),
    /// The head is all that `pending` holds; the body goes to `spill` as it comes.
    Chunks(Head, ChunkedDecoder),
}

pub struct Connection {
    reader: HeadReader,
    /// A server has one of these for a worker, not for a connection.
    fields: Fields,
    stage: Stage,
    /// Bytes of a request that came in pieces. Empty when requests come whole.
    pending: Vec<u8>,
    spill: Vec<u8>,
    pub outcomes: Vec<Outcome>,
    /// How often `100 Continue` was sent.
    pub interim: usize,
    pub is_closed: bool,
}

impl Connection {
    pub fn new() -> Connection {
        Connection {
            reader: HeadReader::new(HEAD_BYTES_MAX),
            fields: Fields::new(),
            stage: Stage::Head,
            pending: Vec::new(),
            spill: Vec::new(),
            outcomes: Vec::new(),
            interim: 0,
            is_closed: false,
        }
    }

    /// Whether nothing of a further request has come.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && matches!(self.stage, Stage::Head)
    }

    /// Bytes of one read. Requests that lie in them whole are never copied.
    pub fn on_data(&mut self, data: &[u8]) {
        if self.pending.is_empty() || matches!(self.stage, Stage::Chunks(..)) {
            self.take_all(data);
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(data);
            self.take_all(&joined);
        }
    }

    fn take_all(&mut self, mut data: &[u8]) {
        while !self.is_closed && !data.is_empty() {
            match self.take(data) {
                Ok(0) => break,
                Ok(consumed) => data = &data[consumed..],
                Err(refusal) => self.refuse(&refusal),
            }
        }
        if !self.is_closed && !matches!(self.stage, Stage::Chunks(..)) {
            self.pending.extend_from_slice(data);
        }
    }

    /// Bytes that need not come again; 0: come again with these and more.
    fn take(&mut self, data: &[u8]) -> Result<usize, Refusal> {
        match &mut self.stage {
            Stage::Head => self.take_head(data),
            Stage::Body(head) => {
                let head = *head;
                Ok(self.take_body(data, head))
            }
            Stage::Chunks(head, decoder) => {
                let head = *head;
                let progress = decoder.decode(data, &mut self.spill)?;
                if progress.done {
                    let bytes = std::mem::take(&mut self.pending);
                    let body = std::mem::take(&mut self.spill);
                    self.finish(&bytes, &head, body);
                }
                Ok(progress.consumed)
            }
        }
    }

    fn take_head(&mut self, data: &[u8]) -> Result<usize, Refusal> {
        let Some(head) = self.reader.read(data, &mut self.fields)? else {
            return Ok(0);
        };
        // Here the route is looked up; its bound goes where BODY_BYTES_MAX stands.
        head.framing.fits(BODY_BYTES_MAX)?;
        if head.expect_continue && data.len() == head.length {
            self.interim += 1;
        }
        match head.framing {
            Framing::None | Framing::Length(_) => Ok(self.take_body(data, head)),
            Framing::Chunked => {
                self.pending.extend_from_slice(&data[..head.length]);
                self.stage = Stage::Chunks(head, ChunkedDecoder::new(BODY_BYTES_MAX));
                Ok(head.length)
            }
        }
    }

    fn take_body(&mut self, data: &[u8], head: Head) -> usize {
        let length = match head.framing {
            Framing::Length(length) => length as usize,
            _ => 0,
        };
        match data[head.length..].get(..length) {
            None => {
                self.stage = Stage::Body(head);
                0
            }
            Some(body) => {
                self.finish(data, &head, body.to_vec());
                head.length + length
            }
        }
    }

    /// The request is whole: admission, then the frame.
    fn finish(&mut self, bytes: &[u8], head: &Head, body: Vec<u8>) {
        if !matches!(self.stage, Stage::Head) {
            // Other requests used the fields while this one waited; its bytes give them again.
            self.reader.restart();
            let again = self.reader.read(bytes, &mut self.fields);
            assert_eq!(again, Ok(Some(*head)), "the same bytes, another head");
        }
        self.reader.restart();
        self.stage = Stage::Head;
        self.is_closed = !head.keep_alive;
        if !METHODS.contains(&head.method) {
            self.outcomes.push(Outcome::Refuse {
                status: 405,
                close: !head.keep_alive,
            });
            return;
        }
        let block = head.block(bytes);
        let fields = self.fields.as_slice().iter();
        self.outcomes.push(Outcome::Accept {
            method: head.method.as_str().as_bytes().to_vec(),
            target: head.target(bytes).to_vec(),
            version: if head.version == Version::Http11 {
                "1.1"
            } else {
                "1.0"
            },
            headers: fields
                .map(|f| (f.name(block).to_vec(), f.value(block).to_vec()))
                .collect(),
            body,
            keep_alive: head.keep_alive,
        });
    }

    fn refuse(&mut self, refusal: &Refusal) {
        self.outcomes.push(Outcome::Refuse {
            status: refusal.status(),
            close: refusal.closes(),
        });
        self.is_closed = refusal.closes();
    }
}
