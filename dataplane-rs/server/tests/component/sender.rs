//! A sender that says exactly what a test wants, and reads answers one by one.

use crate::certificates::HOST;
use crate::world::PATIENCE;
use rustls::{ClientConfig, ClientConnection, Stream};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// One answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub fn closes(&self) -> bool {
        self.header("Connection") == Some("close")
    }

    /// `Retry-After` in seconds.
    pub fn retry_after(&self) -> u64 {
        self.header("Retry-After")
            .expect("Retry-After")
            .parse()
            .unwrap()
    }
}

/// A POST of a body to a path.
pub fn post(path: &str, body: &[u8]) -> Vec<u8> {
    post_with(path, "", body)
}

/// The same with more header lines, each ended by CRLF.
pub fn post_with(path: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: test\r\n{lines}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A GET of a target.
pub fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n").into_bytes()
}

/// What a sender speaks on.
enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<ClientConnection>, Box<Wire>),
    /// Byte by byte.
    Dripping(Box<Wire>),
}

impl Wire {
    fn set_nonblocking(&self, on: bool) {
        match self {
            Wire::Tcp(stream) => stream.set_nonblocking(on),
            Wire::Unix(stream) => stream.set_nonblocking(on),
            Wire::Tls(_, below) | Wire::Dripping(below) => return below.set_nonblocking(on),
        }
        .unwrap()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Tcp(stream) => stream.as_fd(),
            Wire::Unix(stream) => stream.as_fd(),
            Wire::Tls(_, below) | Wire::Dripping(below) => below.fd(),
        }
    }

    /// close_notify where there is one, and FIN.
    fn finish(&mut self) -> io::Result<()> {
        match self {
            Wire::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Wire::Unix(stream) => stream.shutdown(Shutdown::Write),
            Wire::Tls(session, below) => {
                session.send_close_notify();
                while session.wants_write() {
                    session.write_tls(below)?;
                }
                below.finish()
            }
            Wire::Dripping(below) => below.finish(),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Tcp(stream) => stream.read(to),
            Wire::Unix(stream) => stream.read(to),
            Wire::Tls(session, below) => Stream::new(&mut **session, &mut **below).read(to),
            Wire::Dripping(below) => below.read(to),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Tcp(stream) => stream.write(bytes),
            Wire::Unix(stream) => stream.write(bytes),
            Wire::Tls(session, below) => Stream::new(&mut **session, &mut **below).write(bytes),
            Wire::Dripping(below) => below.write(&bytes[..bytes.len().min(1)]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Tls(session, below) => Stream::new(&mut **session, &mut **below).flush(),
            _ => Ok(()),
        }
    }
}

pub struct Sender {
    wire: Wire,
    received: Vec<u8>,
}

impl Sender {
    pub fn connect(address: SocketAddr) -> Sender {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Sender {
            wire: Wire::Tcp(stream),
            received: Vec::new(),
        }
    }

    pub fn connect_unix(path: &Path) -> Sender {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Sender {
            wire: Wire::Unix(stream),
            received: Vec::new(),
        }
    }

    /// Speaks TLS from here on; the handshake comes with the first bytes.
    pub fn into_tls(self, config: &Arc<ClientConfig>) -> Sender {
        let host = HOST.try_into().unwrap();
        let session = ClientConnection::new(config.clone(), host).unwrap();
        Sender {
            wire: Wire::Tls(Box::new(session), Box::new(self.wire)),
            received: self.received,
        }
    }

    /// Sends byte by byte from here on.
    pub fn dripping(self) -> Sender {
        Sender {
            wire: Wire::Dripping(Box::new(self.wire)),
            received: self.received,
        }
    }

    /// Makes the handshake. An error is what the peer's alert or the end of the connection was.
    pub fn handshake(&mut self) -> io::Result<()> {
        let Wire::Tls(session, below) = &mut self.wire else {
            panic!("no TLS here")
        };
        while session.is_handshaking() {
            session.complete_io(below)?;
        }
        Ok(())
    }

    /// Reads once.
    pub fn read_once(&mut self) -> io::Result<usize> {
        self.wire.read(&mut [0; 1024])
    }

    /// Sends its first flight.
    pub fn begin_handshake(&mut self) {
        let flight = self.flight();
        self.send_below(&flight);
    }

    /// What TLS has to send.
    pub fn flight(&mut self) -> Vec<u8> {
        let Wire::Tls(session, _) = &mut self.wire else {
            panic!("no TLS here")
        };
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Bytes as records, not sent.
    pub fn sealed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Wire::Tls(session, _) = &mut self.wire else {
            panic!("no TLS here")
        };
        session.writer().write_all(bytes).unwrap();
        self.flight()
    }

    /// Sends bytes below TLS.
    pub fn send_below(&mut self, bytes: &[u8]) {
        let Wire::Tls(_, below) = &mut self.wire else {
            panic!("no TLS here")
        };
        below.write_all(bytes).unwrap();
    }

    /// close_notify without the FIN that belongs behind it.
    pub fn notify(&mut self) {
        let Wire::Tls(session, _) = &mut self.wire else {
            panic!("no TLS here")
        };
        session.send_close_notify();
        let alert = self.flight();
        self.send_below(&alert);
    }

    /// Ends with FIN and without the close_notify that belongs before it.
    pub fn finish_rudely(&mut self) {
        let Wire::Tls(_, below) = &mut self.wire else {
            panic!("no TLS here")
        };
        below.finish().unwrap();
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.wire.write_all(bytes).unwrap();
        self.wire.flush().unwrap();
    }

    /// Sends as much as the peer takes; false when it no longer takes any.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.wire.write_all(bytes).is_ok()
    }

    /// Sends what fits without waiting.
    pub fn send_some(&mut self, bytes: &[u8]) -> usize {
        self.wire.set_nonblocking(true);
        let count = match self.wire.write(bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("send: {error}"),
        };
        self.wire.set_nonblocking(false);
        count
    }

    /// Sends what goes without waiting, to a peer that may be gone.
    pub fn send_what_goes(&mut self, bytes: &[u8]) {
        self.wire.set_nonblocking(true);
        let mut sent = 0;
        while let Ok(count) = self.wire.write(&bytes[sent..]) {
            sent += count;
            if sent == bytes.len() {
                break;
            }
        }
        self.wire.set_nonblocking(false);
    }

    /// Sends FIN to a peer that may be gone; false when it is.
    pub fn try_finish(&mut self) -> bool {
        self.wire.finish().is_ok()
    }

    /// FIN: nothing more will be sent.
    pub fn finish(&mut self) {
        self.wire.finish().unwrap();
    }

    /// Ends the connection at once.
    pub fn reset(self) {
        sluice_kernel::sys::set_linger_reset(self.wire.fd()).unwrap();
    }

    /// The next answer to a request that was no HEAD.
    pub fn answer(&mut self) -> Answer {
        self.answer_to(false)
    }

    /// The next answer.
    pub fn answer_to(&mut self, head_only: bool) -> Answer {
        let end = loop {
            if let Some(at) = self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                break at + 4;
            }
            assert!(
                self.read_more(),
                "closed before an answer: {:?}",
                self.received
            );
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        let length = answer
            .header("Content-Length")
            .map_or(0, |text| text.parse().unwrap());
        if !head_only {
            while self.received.len() < length {
                assert!(self.read_more(), "closed inside a body");
            }
            answer.body = self.received.drain(..length).collect();
        }
        answer
    }

    /// Waits for the end, and gives what came before it.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.read_more() {}
        std::mem::take(&mut self.received)
    }

    /// Waits for the end, whatever it is, and does not even listen to what TLS has to say.
    /// Says how many bytes came.
    pub fn outlast(&mut self) -> usize {
        let wire = match &mut self.wire {
            Wire::Tls(_, below) => below,
            wire => wire,
        };
        let mut sum = 0;
        loop {
            match wire.read(&mut [0; 16 * 1024]) {
                Ok(count @ 1..) => sum += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no end comes"),
                _ => return sum,
            }
        }
    }

    /// Waits for the end; nothing may come before it.
    pub fn expect_end(&mut self) {
        while self.read_more() {}
        let text = String::from_utf8_lossy(&self.received);
        assert!(self.received.is_empty(), "before the end came {text:?}");
    }

    /// False: FIN or a reset.
    fn read_more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        let result = loop {
            match self.wire.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        match result {
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("receive: {error}"),
        }
    }
}
