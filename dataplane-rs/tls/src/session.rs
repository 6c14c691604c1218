//! One connection's TLS.
//!
//! ```text
//!             ClientHello … Finished            close_notify from the peer
//!  handshake ------------------------> traffic ----------------------------> half closed
//!      |                                  |                                      |
//!      '----------------------------------+------- any error -----> failed <-----'
//! ```
//!
//! What the peer sent moves it along. [`Session::close`] ends it in every state: afterwards nothing
//! is sent, and what comes is not even decrypted, as nobody will answer it. A session has no
//! resources besides memory: it is dropped in any state.
//!
//! Whole records are decrypted where the caller has them. What is left of an incomplete one is
//! kept, and so are the records of an incomplete handshake message: rustls has decrypted these in
//! place, remembers where they are, and wants to see the same bytes again with more behind them.

use std::fmt;
use std::mem;

use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{AlertDescription, HandshakeKind, InvalidMessage};

use crate::limits::{
    KEPT_BYTES_MAX, RECORD_HEADER_BYTES, RECORD_OVERHEAD_MAX, RECORD_PLAIN_BYTES_MAX,
};
use crate::{Acceptor, Error, client};

/// The server's end of one connection.
pub struct Session {
    tls: UnbufferedServerConnection,
    acceptor: Acceptor,
    phase: Phase,
    /// Whether what a ticket says about the client was looked at.
    vetted: bool,
    /// Whether the caller has closed it.
    closed: bool,
    client_names: Box<[u8]>,
    /// What rustls must see again. Without memory of its own while empty.
    kept: Vec<u8>,
    /// Where in `kept` the record begins that is not whole: at the end when all are.
    open: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Handshake,
    Traffic,
    HalfClosed,
    Failed,
}

impl Session {
    /// A session that waits for a ClientHello.
    pub fn new(acceptor: &Acceptor) -> Session {
        Session {
            tls: acceptor.connection(),
            acceptor: acceptor.clone(),
            phase: Phase::Handshake,
            vetted: false,
            closed: false,
            client_names: Box::default(),
            kept: Vec::new(),
            open: 0,
        }
    }

    /// Ciphertext came: decrypts it in place, so that `data` is worth nothing afterwards, and
    /// appends what it says to `plain` and what the peer must get (handshake, tickets, alerts) to
    /// `out`. The bytes in `plain` never exceed those that came.
    ///
    /// What comes after a close_notify of either side is ignored: after the peer's as RFC 8446 §6.1
    /// has it, after [`Session::close`] because it is only read to let the peer get the answer.
    ///
    /// # Errors
    /// [`Error::Peer`]: the session is over. `plain` has what was good before the fault, and `out`
    /// ends with the alert that the peer is to see, unless it sent one itself. Afterwards
    /// [`Error::Unready`].
    pub fn receive(
        &mut self,
        mut data: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if self.phase == Phase::Failed {
            return Err(Error::Unready);
        }
        while !self.closed && !data.is_empty() && self.phase != Phase::HalfClosed {
            if self.kept.is_empty() {
                let whole = whole_records(data);
                let used = self.advance(data, plain, out)?;
                let rest = &data[used..];
                if !rest.is_empty() {
                    self.keep(rest, out)?;
                    self.open = whole - used;
                }
                break;
            }
            // No more than the open record lacks is copied; of one that has not begun, and of one
            // without its length, the header.
            let missing = missing(&self.kept[self.open..]).min(data.len());
            let (piece, rest) = mem::take(&mut data).split_at_mut(missing);
            data = rest;
            self.keep(piece, out)?;
            self.process_kept(plain, out)?;
        }
        Ok(())
    }

    /// Appends the records that carry `plain` to `out`. At most [`RECORD_OVERHEAD_MAX`] for each
    /// [`RECORD_PLAIN_BYTES_MAX`] begun come on top, and once in a while a key update.
    ///
    /// # Errors
    /// [`Error::Unready`] during the handshake, after [`Session::close`] and after an error;
    /// [`Error::Spent`] when the keys are used up. Nothing of `plain` is in `out` then.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if self.closed || !self.may_send() {
            return Err(Error::Unready);
        }
        let mut result = Err(Error::Unready);
        self.write(out, |traffic, out| {
            result = encrypt(traffic, plain, out);
        });
        if result.is_err() {
            self.flush(out);
            self.fail();
        }
        result
    }

    /// Appends close_notify to `out`, once, and ends the session. Before the end of the handshake,
    /// and after an error, there is nothing to tell the peer.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if !mem::replace(&mut self.closed, true) && self.may_send() {
            self.write(out, |traffic, out| {
                append(out, 0, |room| match traffic.queue_close_notify(room) {
                    Ok(written) => Ok(written),
                    Err(EncryptError::InsufficientSize(error)) => Err(Some(error.required_size)),
                    Err(EncryptError::EncryptExhausted) => Err(None),
                });
            });
        }
        self.forget();
    }

    /// Whether the handshake is not over. Nothing can be sent until it is.
    pub fn is_handshaking(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// Whether close_notify came: the end of what the peer sends, like a FIN. Sending goes on.
    pub fn closed_by_peer(&self) -> bool {
        self.phase == Phase::HalfClosed
    }

    /// Whether a ticket made the handshake short; known when it is over.
    pub fn resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The names in the client certificate when the handshake is over, joined by line feeds:
    /// `sha256:` and the hexadecimal digest of the certificate, `subject:` and RFC 4514 §2, `cn:`,
    /// `dns:`, `uri:`, `email:`, `ip:`, at most
    /// [`CLIENT_NAMES_BYTES_MAX`](crate::limits::CLIENT_NAMES_BYTES_MAX) bytes. A name that does
    /// not fit, has a control character or is not text has no line. Empty: no client certificate.
    pub fn client_names(&self) -> &[u8] {
        &self.client_names
    }

    /// Bytes of memory for what came and is not whole: at most twice
    /// [`KEPT_BYTES_MAX`](crate::limits::KEPT_BYTES_MAX), none for a session that waits for the
    /// first byte of a record. What rustls has for each session, about 3 KiB and the client's
    /// certificates, is not counted.
    pub fn kept(&self) -> usize {
        self.kept.capacity()
    }

    fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Traffic | Phase::HalfClosed)
    }

    fn fail(&mut self) {
        self.phase = Phase::Failed;
        self.forget();
    }

    fn forget(&mut self) {
        self.kept = Vec::new();
        self.open = 0;
    }

    /// Keeps `piece` behind what is kept.
    fn keep(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let size = self.kept.len() + piece.len();
        if size > KEPT_BYTES_MAX {
            let error = InvalidMessage::HandshakePayloadTooLarge.into();
            return Err(self.refuse(error, size, out));
        }
        self.kept.extend_from_slice(piece);
        Ok(())
    }

    /// What is kept grew. It is looked at when a record is whole, and while there is no more of one
    /// than its header: what is no TLS is told so at once, and a long record is not gone over again
    /// with each of its bytes.
    fn process_kept(&mut self, plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Error> {
        if missing(&self.kept[self.open..]) == 0 {
            self.open = self.kept.len();
        } else if self.kept.len() - self.open > RECORD_HEADER_BYTES {
            return Ok(());
        }
        let mut kept = mem::take(&mut self.kept);
        let used = self.advance(&mut kept, plain, out)?;
        if used == kept.len() {
            self.forget();
            return Ok(());
        }
        if used > 0 {
            kept.drain(..used);
            kept.shrink_to_fit();
            self.open -= used;
        }
        self.kept = kept;
        Ok(())
    }

    /// Lets rustls process `data` as far as it can and returns how much of it is done with.
    fn advance(
        &mut self,
        data: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let sent = out.len();
        let mut used = 0;
        let peer_closed = loop {
            let status = self.tls.process_tls_records(&mut data[used..]);
            let UnbufferedStatus {
                mut discard, state, ..
            } = status;
            let mut end = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(chunk)) => encode(chunk, out),
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => end = Some(true),
                // The rest is BlockedHandshake and WriteTraffic; early data is off.
                Ok(_) => end = Some(false),
                Err(error) => {
                    let rest = data.len() - used - discard;
                    return Err(self.refuse(error, rest, out));
                }
            }
            used += discard;
            if let Some(peer_closed) = end {
                break peer_closed;
            }
        };
        if self.phase == Phase::Handshake {
            self.follow_handshake(sent, out)?;
        }
        if peer_closed {
            self.phase = Phase::HalfClosed;
            return Ok(data.len());
        }
        Ok(used)
    }

    /// The handshake may have come a step further.
    fn follow_handshake(&mut self, sent: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.resumed() && !self.vetted {
            self.vetted = true;
            if let Err(error) = self.vet_client() {
                // The client waits for a ServerHello, so what it can read is an alert in plain; the
                // answer by which it would go on is taken back.
                out.truncate(sent);
                out.extend_from_slice(&plain_alert(&error));
                self.fail();
                return Err(Error::Peer(error));
            }
        }
        if !self.tls.is_handshaking() {
            self.phase = Phase::Traffic;
            if let Some([leaf, ..]) = self.tls.peer_certificates() {
                self.client_names = client::names(leaf);
            }
        }
        Ok(())
    }

    /// Verifies the client certificate that a ticket holds as if it came now: it may have expired
    /// since, and rustls does not look again.
    fn vet_client(&self) -> Result<(), rustls::Error> {
        let clients = &self.acceptor.clients;
        if !clients.offer_client_auth() {
            return Ok(());
        }
        match self.tls.peer_certificates() {
            Some([leaf, chain @ ..]) => {
                let now = self.acceptor.config.time_provider.current_time();
                let now = now.ok_or(rustls::Error::FailedToGetCurrentTime)?;
                clients.verify_client_cert(leaf, chain, now).map(|_| ())
            }
            _ if clients.client_auth_mandatory() => Err(rustls::Error::NoCertificatesPresented),
            _ => Ok(()),
        }
    }

    /// Ends the session by `error`; rustls has seen at most `rest` bytes that it is not done with.
    fn refuse(&mut self, error: rustls::Error, rest: usize, out: &mut Vec<u8>) -> Error {
        let told = matches!(error, rustls::Error::AlertReceived(_));
        // Of its bounds rustls makes no alert. A record of no kind gets one: whatever keys are in
        // force, only rustls can write it. That may first be asked about messages that wait.
        let mut junk = Vec::new();
        for _ in 0..JUNK_RECORDS_MAX {
            if told || self.tls.wants_write() {
                break;
            }
            junk.resize(rest + RECORD_HEADER_BYTES, 0xff);
            let _ = self.tls.process_tls_records(&mut junk).state;
        }
        self.flush(out);
        self.fail();
        Error::Peer(error)
    }

    /// Writes what rustls has queued, which is the first that it does: this needs no data.
    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.tls.wants_write() {
            match self.tls.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(chunk)) => encode(chunk, out),
                _ => break,
            }
        }
    }

    /// Calls `write` when rustls lets it; it does, in the phases of [`Session::may_send`].
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>),
    ) {
        loop {
            // What is kept lacks something, so nothing is taken from it; rustls must see it, for it
            // looks behind the part that it knows.
            match self.tls.process_tls_records(&mut self.kept).state {
                Ok(ConnectionState::EncodeTlsData(chunk)) => encode(chunk, out),
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return write(&mut traffic, out);
                }
                _ => return,
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("phase", &self.phase)
            .field("closed", &self.closed)
            .field("kept", &self.kept.len())
            .finish_non_exhaustive()
    }
}

/// Records that are made up for an alert: a record of the peer's may hold so many short messages.
const JUNK_RECORDS_MAX: usize = 64;

/// Bytes that `record` lacks: of its header, or when that is there of all of it.
fn missing(record: &[u8]) -> usize {
    match record {
        [_, _, _, high, low, body @ ..] => {
            let size = usize::from(u16::from_be_bytes([*high, *low]));
            size.saturating_sub(body.len())
        }
        _ => RECORD_HEADER_BYTES - record.len(),
    }
}

/// Bytes of the whole records that `data` begins with.
fn whole_records(data: &[u8]) -> usize {
    let mut whole = 0;
    while let [_, _, _, high, low, body @ ..] = &data[whole..] {
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        if size > body.len() {
            break;
        }
        whole += RECORD_HEADER_BYTES + size;
    }
    whole
}

/// Grows `out` by `size`, and by more where `write` asks for it, and cuts it to what was written.
/// `write` gets the new part and returns the bytes that it used, or the number that it needs, or
/// none when it cannot write at all.
fn append(
    out: &mut Vec<u8>,
    size: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> bool {
    let start = out.len();
    out.resize(start + size, 0);
    loop {
        match write(&mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return true;
            }
            Err(Some(needed)) if needed > out.len() - start => out.resize(start + needed, 0),
            Err(_) => {
                out.truncate(start);
                return false;
            }
        }
    }
}

fn encode(mut chunk: EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) {
    append(out, 0, |room| match chunk.encode(room) {
        Ok(written) => Ok(written),
        Err(EncodeError::InsufficientSize(error)) => Err(Some(error.required_size)),
        Err(EncodeError::AlreadyEncoded) => Err(None),
    });
}

fn encrypt(
    traffic: &mut WriteTraffic<'_, ServerConnectionData>,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let records = plain.len().div_ceil(RECORD_PLAIN_BYTES_MAX);
    let size = plain.len() + records * RECORD_OVERHEAD_MAX;
    let written = append(out, size, |room| match traffic.encrypt(plain, room) {
        Ok(written) => Ok(written),
        Err(EncryptError::InsufficientSize(error)) => Err(Some(error.required_size)),
        Err(EncryptError::EncryptExhausted) => Err(None),
    });
    if written { Ok(()) } else { Err(Error::Spent) }
}

/// A fatal alert (RFC 8446 §6) for a client that has no keys yet.
fn plain_alert(error: &rustls::Error) -> [u8; 7] {
    let description = match error {
        rustls::Error::InvalidCertificate(error) => AlertDescription::from(error.clone()),
        rustls::Error::NoCertificatesPresented => AlertDescription::CertificateRequired,
        _ => AlertDescription::InternalError,
    };
    [21, 3, 3, 0, 2, 2, u8::from(description)]
}
