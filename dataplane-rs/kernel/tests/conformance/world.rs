//! A backend, a sink that writes everything down and checks the contract, and clients.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use sluice_kernel::{
    Backend, ConnId, Errno, ListenerId, Options, SendBuf, Share, Sink, Wait, WakeId, sys,
};

/// How long a condition may take on a very busy machine before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Small tables, so that tests can run side by side.
pub fn small() -> Options {
    Options {
        buffer_size: 4096,
        buffers: 64,
        conns_max: 256,
        cq_entries: 1024,
        sq_entries: 64,
        ..Options::default()
    }
}

/// What one connection went through.
#[derive(Debug, Default)]
pub struct Seen {
    pub data: Vec<u8>,
    pub pieces: usize,
    pub eof: Option<Option<Errno>>,
    pub sent: Vec<(usize, Result<(), Errno>)>,
    pub closed: bool,
    pub paused: bool,
}

/// The sink.
#[derive(Debug, Default)]
pub struct Book {
    /// Send back what arrives.
    pub echo: bool,
    /// Refuse what is accepted.
    pub refuse: bool,
    /// Keep accepted sockets here instead of attaching them.
    pub keep: Option<Vec<OwnedFd>>,
    /// Turn receiving off and on again in every `on_data`.
    pub toggle: bool,
    /// Pause this connection at the beginning of the next turn.
    pub pause_on_awake: Option<ConnId>,
    /// When the first hears something, turn receiving of the second on again.
    pub resume_from: Option<(ConnId, ConnId)>,
    /// Remove this listener at the beginning of the next turn.
    pub unlisten_on_awake: Option<ListenerId>,
    /// Send this much again, so many times, when a send is over.
    pub refill: (usize, usize),
    /// Remove the listener when it accepts something.
    pub unlisten_on_accept: bool,
    pub conns: HashMap<ConnId, Seen>,
    pub by_peer: HashMap<SocketAddr, ConnId>,
    pub accepted: Vec<ListenerId>,
    pub overfull: Vec<OwnedFd>,
    pub listeners_closed: Vec<(ListenerId, Option<Errno>)>,
    pub wakes: Vec<WakeId>,
    pub awake: usize,
    pub closed: usize,
    /// `on_awake` of the running turn has been called.
    pub in_turn: bool,
    pub nodelay: Vec<bool>,
}

impl Book {
    fn open(&mut self, conn: ConnId) -> &mut Seen {
        assert!(self.in_turn, "callbacks come after on_awake");
        let seen = self
            .conns
            .get_mut(&conn)
            .expect("callbacks only for attached connections");
        assert!(!seen.closed, "nothing comes after on_closed");
        seen
    }

    pub fn seen(&self, conn: ConnId) -> &Seen {
        &self.conns[&conn]
    }
}

impl Sink for Book {
    fn on_awake<B: Backend>(&mut self, io: &mut B) {
        self.awake += 1;
        self.in_turn = true;
        if let Some(conn) = self.pause_on_awake.take() {
            io.recv(conn, false);
            self.open(conn).paused = true;
        }
        if let Some(listener) = self.unlisten_on_awake.take() {
            io.unlisten(listener);
        }
    }

    fn on_accept<B: Backend>(&mut self, io: &mut B, listener: ListenerId, socket: OwnedFd) {
        assert!(self.in_turn, "callbacks come after on_awake");
        let over = self
            .listeners_closed
            .iter()
            .any(|(closed, _)| *closed == listener);
        assert!(!over, "nothing comes from a closed listener");
        self.accepted.push(listener);
        if self.unlisten_on_accept {
            io.unlisten(listener);
        }
        if self.refuse {
            return;
        }
        let stream = TcpStream::from(socket);
        self.nodelay.push(stream.nodelay().unwrap_or(false)); // A Unix socket has none.
        let socket = OwnedFd::from(stream);
        if let Some(kept) = &mut self.keep {
            kept.push(socket);
            return;
        }
        let peer = sys::peer_addr(socket.as_fd());
        match io.attach(socket) {
            Ok(conn) => {
                let old = self.conns.insert(conn, Seen::default());
                assert!(
                    old.is_none_or(|old| old.closed),
                    "a seat is not given twice"
                );
                if let Ok(peer) = peer {
                    self.by_peer.insert(peer, conn);
                }
            }
            Err(socket) => self.overfull.push(socket),
        }
    }

    fn on_data<B: Backend>(&mut self, io: &mut B, conn: ConnId, data: &mut [u8]) {
        let (echo, toggle) = (self.echo, self.toggle);
        let seen = self.open(conn);
        assert!(!data.is_empty(), "no empty data");
        assert!(seen.eof.is_none(), "no data after the end");
        assert!(!seen.paused, "no data while receiving is off");
        seen.data.extend_from_slice(data);
        seen.pieces += 1;
        if let Some((_, paused)) = self.resume_from.take_if(|(from, _)| *from == conn) {
            io.recv(paused, true);
            self.open(paused).paused = false;
        }
        if toggle {
            io.recv(conn, false);
            io.recv(conn, true);
        }
        if echo && io.send(conn, SendBuf::Owned(data.to_vec())).is_err() {
            panic!("an echo did not fit the send queue");
        }
    }

    fn on_eof<B: Backend>(&mut self, _: &mut B, conn: ConnId, broken: Option<Errno>) {
        let seen = self.open(conn);
        assert!(seen.eof.is_none(), "the end comes once");
        assert!(!seen.paused, "no end while receiving is off");
        seen.eof = Some(broken);
    }

    fn on_sent<B: Backend>(
        &mut self,
        io: &mut B,
        conn: ConnId,
        buf: SendBuf,
        result: Result<(), Errno>,
    ) {
        self.open(conn).sent.push((buf.as_slice().len(), result));
        let (times, length) = self.refill;
        if times > 0 && result.is_ok() {
            self.refill = (times - 1, length);
            io.send(conn, SendBuf::Owned(vec![b'.'; length])).unwrap();
        }
    }

    fn on_closed<B: Backend>(&mut self, io: &mut B, conn: ConnId) {
        self.open(conn).closed = true;
        self.closed += 1;
        assert!(
            io.socket(conn).is_none(),
            "a closed connection has no socket"
        );
    }

    fn on_listener_closed<B: Backend>(
        &mut self,
        _: &mut B,
        listener: ListenerId,
        broken: Option<Errno>,
    ) {
        let twice = self
            .listeners_closed
            .iter()
            .any(|(closed, _)| *closed == listener);
        assert!(!twice, "a listener ends once");
        self.listeners_closed.push((listener, broken));
    }

    fn on_wake<B: Backend>(&mut self, _: &mut B, wake: WakeId) {
        assert!(self.in_turn, "callbacks come after on_awake");
        self.wakes.push(wake);
    }
}

pub struct World<B> {
    pub io: B,
    pub book: Book,
}

impl<B: Backend> World<B> {
    pub fn new(io: B) -> World<B> {
        World {
            io,
            book: Book::default(),
        }
    }

    pub fn echoing(io: B) -> World<B> {
        World {
            io,
            book: Book {
                echo: true,
                ..Book::default()
            },
        }
    }

    pub fn listen(&mut self) -> (TcpListener, SocketAddr, ListenerId) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let id = self.io.listen(listener.as_fd(), Share::Exclusive).unwrap();
        (listener, address, id)
    }

    pub fn turn(&mut self) {
        self.turn_for(Wait::at_most(Duration::from_millis(1)));
    }

    pub fn turn_for(&mut self, wait: Wait) {
        self.book.in_turn = false;
        self.io.turn(&mut self.book, wait).unwrap();
    }

    /// Turns until the condition holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut World<B>) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < deadline,
                "never: {what}\n{:?}",
                self.io.stats()
            );
            self.turn();
        }
    }

    /// Turns until nothing happens any more: what needs nothing keeps nobody awake.
    pub fn until_quiet(&mut self) {
        let mut quiet = 0;
        for _ in 0..500 {
            let before = self.io.stats().completions;
            self.turn();
            let still = self.io.stats().completions == before;
            quiet = if still { quiet + 1 } else { 0 };
            if quiet == 10 {
                return;
            }
        }
        panic!("never quiet\n{:?}", self.io.stats());
    }

    /// Connects and waits until the connection is attached.
    pub fn connect(&mut self, address: SocketAddr) -> (Client, ConnId) {
        let client = Client::connect(address);
        let own = client.address();
        // The port may have been that of a client of another listener, long gone.
        self.book.by_peer.remove(&own);
        self.until("accepted", |world| world.book.by_peer.contains_key(&own));
        let conn = self.book.by_peer[&own];
        (client, conn)
    }

    /// As `connect`, on a listener of its own.
    pub fn pair(&mut self) -> (Client, ConnId) {
        let (_listener, address, _) = self.listen();
        self.connect(address)
    }

    pub fn recv(&mut self, conn: ConnId, on: bool) {
        self.io.recv(conn, on);
        self.book.conns.get_mut(&conn).unwrap().paused = !on;
    }

    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.io.send(conn, SendBuf::Owned(bytes.to_vec())).unwrap();
    }

    pub fn until_closed(&mut self, conn: ConnId) {
        self.until("closed", |world| world.book.seen(conn).closed);
    }

    pub fn until_data(&mut self, conn: ConnId, bytes: &[u8]) {
        self.until("data", |world| {
            world.book.seen(conn).data.len() >= bytes.len()
        });
        assert!(
            self.book.seen(conn).data == bytes,
            "other bytes than were sent"
        );
    }
}

/// How a client's connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Fin,
    Reset,
}

/// A client that never blocks.
pub struct Client {
    pub stream: TcpStream,
    pub heard: Vec<u8>,
    pub end: Option<End>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Client {
            stream,
            heard: Vec::new(),
            end: None,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Writes what fits; says how much that was.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match self.stream.write(bytes) {
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("client write: {error}"),
        }
    }

    /// Writes something small, which always fits.
    pub fn say(&mut self, bytes: &[u8]) {
        assert_eq!(self.write(bytes), bytes.len());
    }

    /// Reads what is there.
    pub fn listen(&mut self) -> &mut Client {
        self.listen_up_to(usize::MAX)
    }

    pub fn listen_up_to(&mut self, mut most: usize) -> &mut Client {
        let mut piece = [0; 65536];
        while self.end.is_none() && most > 0 {
            let room = piece.len().min(most);
            match self.stream.read(&mut piece[..room]) {
                Ok(0) => self.end = Some(End::Fin),
                Ok(n) => {
                    self.heard.extend_from_slice(&piece[..n]);
                    most -= n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.end = Some(End::Reset);
                }
                Err(error) => panic!("client read: {error}"),
            }
        }
        self
    }
}

/// Small pseudo-random numbers (xorshift), so that a failure repeats.
pub struct Dice(u64);

impl Dice {
    /// Prints its seed, which a failing test then shows. `SLUICE_SEED` takes the place of `seed`.
    pub fn new(seed: u64) -> Dice {
        let chosen = std::env::var("SLUICE_SEED").ok();
        let seed = chosen.and_then(|text| text.parse().ok()).unwrap_or(seed);
        println!("SLUICE_SEED={seed}");
        Dice(seed.max(1)) // Zero would stay zero.
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// What every case is given: how to make the backend, or why there is none.
pub type Make<B> = dyn Fn(&Options) -> Option<B> + Sync;
