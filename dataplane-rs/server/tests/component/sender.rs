//! A sender that says exactly what a test wants, and reads answers one by one.

use crate::world::PATIENCE;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;

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

pub struct Sender {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Sender {
    pub fn connect(address: SocketAddr) -> Sender {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Sender {
            stream,
            received: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends as much as the peer takes; false when it no longer takes any.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends what fits without waiting.
    pub fn send_some(&mut self, bytes: &[u8]) -> usize {
        self.stream.set_nonblocking(true).unwrap();
        let count = match self.stream.write(bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("send: {error}"),
        };
        self.stream.set_nonblocking(false).unwrap();
        count
    }

    /// Sends what goes without waiting, to a peer that may be gone.
    pub fn send_what_goes(&mut self, bytes: &[u8]) {
        self.stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = self.stream.write(&bytes[sent..]) {
            sent += count;
            if sent == bytes.len() {
                break;
            }
        }
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Sends FIN to a peer that may be gone; false when it is.
    pub fn try_finish(&mut self) -> bool {
        self.stream.shutdown(Shutdown::Write).is_ok()
    }

    /// FIN: nothing more will be sent.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Ends the connection at once.
    pub fn reset(self) {
        sluice_kernel::sys::set_linger_reset(self.stream.as_fd()).unwrap();
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
            match self.stream.read(&mut piece) {
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
