//! Feeds a connection from a few reads and prints what came of it.
//!
//! `cargo run -p sluice-core --example receive`

mod connection;

use connection::Connection;

fn main() {
    let mut connection = Connection::new();
    let reads: [&[u8]; 4] = [
        b"POST /hooks/a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\n{}POST /hooks/b HT",
        b"TP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]",
        b"\r\n0\r\n\r\nDELETE /hooks/a HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a.test\n\n",
    ];
    for read in reads {
        connection.on_data(read);
        println!("{} bytes read, idle: {}", read.len(), connection.is_idle());
    }
    for outcome in &connection.outcomes {
        println!("{outcome:?}");
    }
    println!(
        "interim: {}, closed: {}",
        connection.interim, connection.is_closed
    );
}
