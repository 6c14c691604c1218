//! One keep-alive connection: at most one request out, its answer read to the last byte.
//!
//! States, moved by the engine's events only:
//! `Down → Connecting → Idle ⇄ Busy`, and from each of them back to `Down`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::agenda::Due;
use crate::answer::{self, Answer};
use crate::limits::ANSWER_BYTES_MAX;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// No socket; tried again at this time, if at all.
    Down {
        /// Nanoseconds since the start; `u64::MAX` is never.
        retry_ns: u64,
    },
    /// The handshake is under way.
    Connecting {
        /// Nanoseconds since the start.
        since_ns: u64,
    },
    /// Free to send.
    Idle,
    /// A request is out.
    Busy(Flight),
}

/// The request that is out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flight {
    /// What was due.
    pub due: Due,
    /// When it was written, in nanoseconds since the start.
    pub sent_ns: u64,
}

/// Why a connection was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer closed or reset it.
    Closed,
    /// It could not be made.
    Connect,
    /// The peer sent what is no answer.
    Protocol,
    /// The answer took too long.
    Timeout,
}

impl Fault {
    /// The faults that can cost a request its answer.
    pub const OF_REQUESTS: [Self; 3] = [Self::Closed, Self::Protocol, Self::Timeout];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Connect => "connect",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
        }
    }
}

/// A connection and its buffers.
pub struct Conn {
    /// What it is doing.
    pub state: State,
    /// Counts sockets, so that an event of a closed one is told from one of its successor.
    pub generation: u32,
    /// Failed tries in a row.
    pub failures: u32,
    stream: Option<TcpStream>,
    inbox: Vec<u8>,
    filled: usize,
    rest: Vec<u8>,
    rest_at: usize,
}

impl Conn {
    /// A connection that is tried at once.
    pub fn new() -> Self {
        Self {
            state: State::Down { retry_ns: 0 },
            generation: 0,
            failures: 0,
            stream: None,
            inbox: vec![0; 4096],
            filled: 0,
            rest: Vec::new(),
            rest_at: 0,
        }
    }

    /// Starts the handshake without waiting for it.
    pub fn connect(&mut self, address: SocketAddr, now_ns: u64) -> io::Result<()> {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.generation = self.generation.wrapping_add(1);
        self.filled = 0;
        self.rest.clear();
        self.rest_at = 0;
        self.state = State::Connecting { since_ns: now_ns };
        self.stream = Some(TcpStream::from(fd));
        Ok(())
    }

    /// The socket, to be watched.
    pub fn socket(&self) -> io::Result<&TcpStream> {
        self.stream
            .as_ref()
            .ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// Whether the handshake has ended well, called when the socket became writable.
    pub fn connected(&self) -> Result<bool, Fault> {
        let Some(stream) = &self.stream else {
            return Err(Fault::Connect);
        };
        match stream.take_error() {
            Ok(None) => Ok(stream.peer_addr().is_ok()),
            _ => Err(Fault::Connect),
        }
    }

    /// Drops the socket.
    pub fn close(&mut self, retry_ns: u64) {
        self.stream = None;
        self.state = State::Down { retry_ns };
    }

    /// Writes a request; what the socket does not take now is kept for `flush`.
    pub fn send(&mut self, request: &[u8], flight: Flight) -> Result<(), Fault> {
        self.state = State::Busy(flight);
        let written = self.write(request)?;
        self.rest.clear();
        self.rest_at = 0;
        if written < request.len() {
            self.rest.extend_from_slice(&request[written..]);
        }
        Ok(())
    }

    /// Writes what an earlier `send` could not.
    pub fn flush(&mut self) -> Result<(), Fault> {
        if self.rest_at < self.rest.len() {
            let rest = std::mem::take(&mut self.rest);
            let written = self.write(&rest[self.rest_at..]);
            self.rest = rest;
            self.rest_at += written?;
        }
        Ok(())
    }

    /// Reads what is there; the answer, once it is whole, stays valid until `consume`.
    pub fn receive(&mut self) -> Result<Option<Answer>, Fault> {
        loop {
            if self.filled == self.inbox.len() {
                if self.filled >= ANSWER_BYTES_MAX {
                    return Err(Fault::Protocol);
                }
                self.inbox.resize(self.filled * 2, 0);
            }
            let Some(stream) = &mut self.stream else {
                return Err(Fault::Closed);
            };
            let room = self.inbox.len() - self.filled;
            match stream.read(&mut self.inbox[self.filled..]) {
                Ok(0) => return Err(Fault::Closed),
                Ok(count) => {
                    self.filled += count;
                    if let Some(answer) =
                        answer::read(&self.inbox[..self.filled]).map_err(|_| Fault::Protocol)?
                    {
                        return Ok(Some(answer));
                    }
                    // Edge-triggered, but a short read means that the socket is empty: the next
                    // byte raises a new edge. Saves one system call per answer.
                    if count < room {
                        return Ok(None);
                    }
                }
                Err(err) if err.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Fault::Closed),
            }
        }
    }

    /// The bytes that `receive` found an answer in.
    pub fn answer_bytes(&self) -> &[u8] {
        &self.inbox[..self.filled]
    }

    /// Forgets an answer. Bytes after it are a fault: nothing else was asked for.
    pub fn consume(&mut self, answer: &Answer) -> Result<(), Fault> {
        let more = self.filled > answer.len;
        self.filled = 0;
        self.state = State::Idle;
        // An answer before the request is out (a refusal of a large body) ends the connection:
        // the rest of the body would be read as the next request.
        let early = self.rest_at < self.rest.len();
        if more || early {
            Err(Fault::Protocol)
        } else {
            Ok(())
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(stream) = &mut self.stream else {
            return Err(Fault::Closed);
        };
        let mut written = 0;
        while written < bytes.len() {
            match stream.write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(err) if err.kind() == ErrorKind::WouldBlock => break,
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Fault::Closed),
            }
        }
        Ok(written)
    }
}
