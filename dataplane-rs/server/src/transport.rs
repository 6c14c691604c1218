//! What a connection speaks below HTTP, from its first byte: a PROXY header, TLS, one and then the
//! other, or nothing. Above it all is plaintext, in and out.
//!
//! ```text
//! accept ─▶ [ PROXY header ] ─▶ [ its turn ─▶ TLS handshake ] ─▶ requests
//! ```
//!
//! Nothing here is answered: a peer that breaks off or says the wrong thing gets what TLS has for
//! it (an alert), or the end. Handshakes are the one thing that costs before anybody has said who
//! they are, so they are bounded by a rate of the whole process, and those beyond it wait, first
//! come, first served.

use crate::conn::{Conn, Stage, mapped};
use crate::limits;
use crate::listeners::Listener;
use crate::worker::Worker;
use sluice_core::proxy::{self, Header};
use sluice_kernel::{Backend, Close, SendBuf};
use sluice_tls::{Acceptor, Session};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What is between the socket and the requests of one connection.
pub enum Transport {
    /// Nothing.
    Plain,
    /// A PROXY header comes first.
    Proxied {
        /// What has come of it, if it did not come whole.
        seen: Vec<u8>,
        /// What follows it.
        tls: Option<Acceptor>,
    },
    /// TLS.
    Tls(Box<Secure>),
}

/// One connection's TLS.
pub struct Secure {
    session: Session,
    phase: Phase,
}

/// How far a handshake is.
enum Phase {
    /// Not a byte of it has come.
    Silent,
    /// It waits for its turn; these bytes have come.
    Waiting(Vec<u8>),
    /// It goes on, or is over.
    Begun,
}

impl Transport {
    /// What a listener wants to hear first from a peer; `None`: one on a Unix socket.
    pub fn new(listener: &Listener, ip: Option<[u8; 16]>) -> Transport {
        match &listener.tls {
            tls if listener.is_proxied(ip) => Transport::Proxied {
                seen: Vec::new(),
                tls: tls.clone(),
            },
            Some(acceptor) => Transport::tls(acceptor),
            None => Transport::Plain,
        }
    }

    fn tls(acceptor: &Acceptor) -> Transport {
        Transport::Tls(Box::new(Secure {
            session: Session::new(acceptor),
            phase: Phase::Silent,
        }))
    }

    /// Whether requests are, or will be, encrypted.
    pub fn has_tls(&self) -> bool {
        match self {
            Transport::Plain => false,
            Transport::Proxied { tls, .. } => tls.is_some(),
            Transport::Tls(_) => true,
        }
    }

    /// Names in the client certificate, as frames have them.
    pub fn client_names(&self) -> &[u8] {
        match self {
            Transport::Tls(secure) => secure.session.client_names(),
            _ => b"",
        }
    }

    /// Whether its handshake waits for its turn.
    pub fn waits(&self) -> bool {
        matches!(self, Transport::Tls(secure) if matches!(secure.phase, Phase::Waiting(_)))
    }

    /// Bytes kept of what cannot be used yet.
    pub fn kept(&self) -> usize {
        match self {
            Transport::Plain => 0,
            Transport::Proxied { seen, .. } => seen.len(),
            Transport::Tls(secure) => match &secure.phase {
                Phase::Waiting(hello) => hello.len(),
                _ => secure.session.kept(),
            },
        }
    }

    /// Whether a byte of a handshake has come.
    fn has_begun(&self) -> bool {
        matches!(self, Transport::Tls(secure) if !matches!(secure.phase, Phase::Silent))
    }
}

/// The handshakes of one worker that wait for their turn.
#[derive(Default)]
pub struct Handshakes {
    /// By token, in the order in which they came; some may be gone.
    waiting: VecDeque<u64>,
    /// When the first of them may begin, boot clock.
    due_ns: u64,
    /// Begun in this turn.
    begun: usize,
}

impl Handshakes {
    /// When the first that waits may begin; `None`: none waits.
    pub fn due_ns(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.due_ns)
    }
}

impl Worker {
    /// Bytes came from a socket.
    pub(crate) fn received<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &mut [u8]) {
        match &conn.transport {
            Transport::Plain => self.data(io, conn, data),
            // Behind close_notify there is nothing to decrypt.
            _ if conn.eof => {}
            Transport::Proxied { .. } => self.proxied(io, conn, data),
            Transport::Tls(_) => self.secured(io, conn, data),
        }
    }

    /// When what comes first on a connection must be there: its PROXY header, its handshake, or the
    /// first byte of a request.
    pub(crate) fn first_deadline_ns(&self, conn: &Conn) -> u64 {
        let config = &self.config;
        let timeout_ns = match conn.transport {
            Transport::Proxied { .. } => config.header_timeout_ns,
            Transport::Tls(_) if matches!(conn.stage, Stage::Opening) => {
                config.handshake_timeout_ns
            }
            _ if conn.counted.is_none() => config.header_timeout_ns,
            _ if self.draining => self.quiet_ns(),
            _ => config.idle_timeout_ns,
        };
        self.now_ns + timeout_ns
    }

    fn proxied<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &mut [u8]) {
        let Transport::Proxied { seen, .. } = &mut conn.transport else {
            return;
        };
        let before = seen.len();
        let parsed = if before == 0 {
            proxy::parse(data)
        } else {
            let room = proxy::HEADER_BYTES_MAX - before; // or the header would have been judged
            seen.extend_from_slice(&data[..data.len().min(room)]);
            proxy::parse(seen)
        };
        match parsed {
            Ok(Some((length, header))) => {
                // Without the rest it was not whole, so it ends in these bytes.
                let rest = &mut data[length - before..];
                self.introduced(io, conn, header, rest);
            }
            Ok(None) if before == 0 => seen.extend_from_slice(data),
            Ok(None) => {}
            Err(_) => {
                self.tally.worker().add_proxy_refused(1);
                self.leave(io, conn, Close::Graceful);
            }
        }
    }

    /// A PROXY header said whose connection it is.
    fn introduced<B: Backend>(
        &mut self,
        io: &mut B,
        conn: &mut Conn,
        header: Header,
        rest: &mut [u8],
    ) {
        let Transport::Proxied { tls, .. } = &mut conn.transport else {
            return;
        };
        conn.transport = match tls.take() {
            Some(acceptor) => Transport::tls(&acceptor),
            None => Transport::Plain,
        };
        if let Header::Tcp(peer) = header
            && !self.rename(conn, peer)
        {
            return self.leave(io, conn, Close::Graceful);
        }
        if matches!(conn.transport, Transport::Plain) {
            conn.stage = Stage::Head;
        }
        let deadline_ns = self.first_deadline_ns(conn);
        self.set_deadline(conn, deadline_ns);
        if !rest.is_empty() {
            self.received(io, conn, rest);
        }
    }

    /// Gives a connection the address of who is behind the proxy, and counts it there; the proxy
    /// itself has as many as it likes. False: there is not even a seat to turn it away from.
    fn rename(&mut self, conn: &mut Conn, peer: SocketAddr) -> bool {
        conn.peer = Some(peer);
        conn.ip = mapped(peer.ip());
        let Some(counted) = conn.counted.take() else {
            return true;
        };
        conn.counted = self.plane.count_address(&self.config, counted, conn.ip);
        // From here on it has one of the seats for those that are turned away, if only to give it
        // back.
        conn.counted.is_some() || self.turn_away(conn.transport.has_tls())
    }

    /// Counts a connection that is beyond a bound. True: it may stay until it was told so.
    ///
    /// On a listener with TLS none may: its handshake would cost more than the answer is worth.
    pub(crate) fn turn_away(&mut self, has_tls: bool) -> bool {
        self.tally.worker().add_refused_connections(1);
        self.turned_away += 1;
        !has_tls && self.turned_away <= limits::TURNED_AWAY_MAX
    }

    fn secured<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &mut [u8]) {
        let Transport::Tls(secure) = &mut conn.transport else {
            return;
        };
        if matches!(secure.phase, Phase::Silent) && matches!(proxy::parse(data), Ok(Some(_))) {
            self.tally.worker().add_proxy_refused(1); // by the alert that answers it
        }
        match &mut secure.phase {
            Phase::Begun => {}
            Phase::Waiting(hello) => return hello.extend_from_slice(data),
            Phase::Silent if self.handshakes.waiting.is_empty() && self.may_begin() => {
                secure.phase = Phase::Begun;
            }
            Phase::Silent => {
                if self.handshakes.waiting.len() >= limits::HANDSHAKES_HELD_MAX {
                    secure.phase = Phase::Begun; // and broken off
                    return self.leave(io, conn, Close::Graceful);
                }
                if self.handshakes.due_ns > self.now_ns {
                    self.tally.worker().add_tls_held(1);
                }
                secure.phase = Phase::Waiting(data.to_vec());
                return self.handshakes.waiting.push_back(conn.token());
            }
        }
        self.decrypt(io, conn, data);
    }

    /// Whether another handshake may begin now.
    fn may_begin(&mut self) -> bool {
        if self.handshakes.begun >= limits::HANDSHAKES_PER_TURN {
            self.handshakes.due_ns = self.now_ns;
            return false;
        }
        match self.plane.begin_handshake(&self.config, self.now_ns) {
            Ok(()) => {
                self.handshakes.begun += 1;
                true
            }
            Err(wait_ns) => {
                self.handshakes.due_ns = self.now_ns + wait_ns;
                false
            }
        }
    }

    /// Begins those handshakes whose turn it is, once a turn.
    pub(crate) fn begin_handshakes<B: Backend>(&mut self, io: &mut B) {
        self.handshakes.begun = 0;
        while let Some(&token) = self.handshakes.waiting.front() {
            if self.waits_for_handshake(token) {
                if !self.may_begin() {
                    return;
                }
                self.with_token(io, token, |worker, io, conn| {
                    let Transport::Tls(secure) = &mut conn.transport else {
                        return;
                    };
                    let phase = std::mem::replace(&mut secure.phase, Phase::Begun);
                    if let Phase::Waiting(mut hello) = phase {
                        worker.decrypt(io, conn, &mut hello);
                    }
                });
            }
            self.handshakes.waiting.pop_front();
        }
    }

    fn waits_for_handshake(&self, token: u64) -> bool {
        let conn = self.conn_of(token);
        conn.is_some_and(|conn| conn.transport.waits())
    }

    fn decrypt<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, data: &mut [u8]) {
        let Transport::Tls(secure) = &mut conn.transport else {
            return;
        };
        let session = &mut secure.session;
        let mut plain = std::mem::take(&mut self.plain);
        let mut out = self.buffer();
        let result = session.receive(data, &mut plain, &mut out);
        let is_open = result.is_ok() && !session.is_handshaking();
        let (is_over, resumed) = (session.closed_by_peer(), session.resumed());
        self.push_raw(io, conn, SendBuf::Owned(out));
        if is_open && matches!(conn.stage, Stage::Opening) {
            self.tally.worker().add_tls_handshakes(1);
            self.tally.worker().add_tls_resumed(u64::from(resumed));
            conn.stage = Stage::Head;
            let deadline_ns = self.first_deadline_ns(conn);
            self.set_deadline(conn, deadline_ns);
        }
        if result.is_err() {
            self.close_transport(conn); // the alert was the last word
            self.leave(io, conn, Close::Graceful);
        } else {
            if !plain.is_empty() {
                self.data(io, conn, &plain);
            }
            if is_over {
                self.ended(io, conn, false);
            }
        }
        plain.clear();
        plain.shrink_to(limits::BUFFER_BYTES_KEPT);
        self.plain = plain;
    }

    /// Sends what belongs to a request, or puts it behind what is being sent.
    pub(crate) fn push_out<B: Backend>(&mut self, io: &mut B, conn: &mut Conn, buf: SendBuf) {
        let Transport::Tls(secure) = &mut conn.transport else {
            return self.push_raw(io, conn, buf);
        };
        let mut out = self.buffer();
        let sent = secure.session.send(buf.as_slice(), &mut out);
        self.take_back(buf);
        match sent {
            Ok(()) => self.push_raw(io, conn, SendBuf::Owned(out)),
            Err(_) => self.leave(io, conn, Close::Abort), // no answer before the handshake is done
        }
    }

    /// Says that nothing more comes, where there is a word for it.
    pub(crate) fn say_goodbye<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        if let Transport::Tls(secure) = &mut conn.transport
            && !secure.session.is_handshaking()
        {
            let mut out = self.buffer();
            secure.session.close(&mut out);
            self.push_raw(io, conn, SendBuf::Owned(out));
        }
    }

    /// What comes first on a connection did not come in time.
    pub(crate) fn opened_too_late<B: Backend>(&mut self, io: &mut B, conn: &mut Conn) {
        if matches!(conn.transport, Transport::Proxied { .. }) {
            self.tally.worker().add_proxy_refused(1);
        } else if conn.transport.has_begun() {
            self.tally.worker().add_tls_late(1);
        }
        self.leave(io, conn, Close::Graceful);
    }

    /// Gives back what a connection has below its requests. Nothing more is read from it or written
    /// to it.
    pub(crate) fn close_transport(&mut self, conn: &mut Conn) {
        if matches!(conn.stage, Stage::Opening) && conn.transport.has_begun() {
            self.tally.worker().add_tls_failed(1);
        }
        conn.transport = Transport::Plain;
    }
}
