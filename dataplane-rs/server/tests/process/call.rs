//! One unary gRPC call over a Unix socket, by hand: HTTP/2 with one stream, headers that need no
//! table, and trailers that nobody reads.

use crate::plane::PATIENCE;
use prost::Message;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Calls a method of the data plane's service. An error: it is not there, or refuses the call.
pub fn call<Reply: Message + Default>(
    socket: &Path,
    method: &str,
    request: &impl Message,
) -> Result<Reply, String> {
    let mut stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bytes = exchange(&mut stream, method, &request.encode_to_vec())?;
    // Uncompressed, and the length: then the message.
    let message = bytes.get(5..).ok_or("the call was refused")?;
    Reply::decode(message).map_err(|error| error.to_string())
}

fn exchange(stream: &mut UnixStream, method: &str, request: &[u8]) -> Result<Vec<u8>, String> {
    let mut headers = vec![0x83, 0x86]; // :method POST, :scheme http
    let path = format!("/sluice.v1.DataPlane/{method}");
    for (name, value) in [
        (&[0x04][..], path.as_str()),            // :path
        (&[0x01][..], "localhost"),              // :authority
        (&[0x0f, 0x10][..], "application/grpc"), // content-type
        (&[0x00, 0x02, b't', b'e'][..], "trailers"),
    ] {
        headers.extend_from_slice(name);
        headers.push(value.len() as u8);
        headers.extend_from_slice(value.as_bytes());
    }
    let length = (request.len() as u32).to_be_bytes();
    let body = [&[0][..], &length, request].concat();
    let all = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &headers),
        frame(DATA, END_STREAM, 1, &body),
    ];
    let lost = |error: std::io::Error| error.to_string();
    stream.write_all(&all.concat()).map_err(lost)?;
    let mut got = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).map_err(lost)?;
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).map_err(lost)?;
        match kind {
            DATA => got.extend_from_slice(&payload),
            SETTINGS | PING if flags & ACK == 0 => {
                let echo = if kind == PING { &payload[..] } else { &[] };
                stream.write_all(&frame(kind, ACK, 0, echo)).map_err(lost)?;
            }
            RST_STREAM | GOAWAY => return Err(format!("the call was cut: {payload:?}")),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            return Ok(got);
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}
