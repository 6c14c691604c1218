//! OpenSSL's client over a real socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use sluice_tls::{Acceptor, Session};

use crate::pair::{
    CLIENTS, Listener, SERVERS, client_certificate, ecdsa, localhost, rsa, ticket_key,
};

/// Far more than any of it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there is an OpenSSL; without one the test is skipped.
fn installed(test: &str) -> bool {
    let version = Command::new("openssl").arg("version").output();
    let found = version.is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIP {test}: there is no openssl command");
    }
    found
}

/// Files that OpenSSL reads and writes.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Files {
        let name = format!("sluice-tls-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("servers.pem"), SERVERS.pem()).unwrap();
        Files(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One connection: the client sends a line and gets one, and the session's end of it.
fn talk(acceptor: &Acceptor, files: &Files, arguments: &[&str]) -> (Output, Session) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address, "-servername", "localhost"])
        .args([
            "-verify_return_error",
            "-CAfile",
            &files.path("servers.pem"),
        ])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Held until the end: at the end of its input the client would go.
    let mut input = client.stdin.take().unwrap();
    input.write_all(b"question\n").unwrap();
    let (stream, _) = listener.accept().unwrap();
    let session = serve(stream, Session::new(acceptor));
    let output = client.wait_with_output().unwrap();
    drop(input);
    (output, session)
}

/// The session's end: it answers the question and closes.
fn serve(mut stream: TcpStream, mut session: Session) -> Session {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut plain, mut answered) = (Vec::new(), false);
    let mut buffer = [0; 1500];
    loop {
        // The client resets the connection where it does not read the end.
        let Ok(size @ 1..) = stream.read(&mut buffer) else {
            return session;
        };
        let mut out = Vec::new();
        let verdict = session.receive(&mut buffer[..size], &mut plain, &mut out);
        if verdict.is_ok() && !answered && plain == b"question\n" {
            answered = true;
            session.send(b"answer\n", &mut out).unwrap();
            session.close(&mut out);
        }
        let _ = stream.write_all(&out);
        if verdict.is_err() || answered {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn got_answer(output: &Output) {
    let (out, told) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("answer\n"), "{out}\n{told}");
}

#[test]
fn openssl_talks_both_versions_with_both_kinds_of_key() {
    if !installed("versions") {
        return;
    }
    let files = Files::new("versions");
    for certificate in [ecdsa(&["localhost"]), rsa(&["localhost"])] {
        let acceptor = Listener::new(vec![certificate]).accept();
        for arguments in [
            &["-tls1_2"][..],
            &["-tls1_3"],
            &["-tls1_3", "-groups", "P-384"],
            &["-tls1_2", "-cipher", "CHACHA20", "-alpn", "h2,http/1.1"],
            // Several records for one message.
            &[
                "-tls1_3",
                "-split_send_frag",
                "512",
                "-max_send_frag",
                "512",
            ],
        ] {
            let (output, session) = talk(&acceptor, &files, arguments);
            got_answer(&output);
            assert!(!session.resumed());
        }
    }
}

#[test]
fn openssl_shows_its_certificate_and_goes_on_with_its_session() {
    if !installed("clients") {
        return;
    }
    let files = Files::new("clients");
    let owned = client_certificate(&CLIENTS, "sender", |_| {});
    let chain = files.write("client.pem", &owned.chain);
    let key = files.write("client.key", &owned.key);
    let kept = files.path("session");
    let listener = localhost().of_clients(&CLIENTS, true);
    let acceptor = listener.with_tickets(&[ticket_key(1)]).accept();
    for version in ["-tls1_2", "-tls1_3"] {
        let shown = [version, "-cert", &chain, "-key", &key];
        let first = [&shown[..], &["-sess_out", &kept]].concat();
        let (output, full) = talk(&acceptor, &files, &first);
        got_answer(&output);
        let second = [&shown[..], &["-sess_in", &kept]].concat();
        let (output, short) = talk(&acceptor, &files, &second);
        got_answer(&output);
        assert!(!full.resumed() && short.resumed(), "{version}");
        assert!(
            full.client_names()
                .ends_with(b"\nsubject:CN=sender\ncn:sender")
        );
        assert_eq!(full.client_names(), short.client_names());
    }
}

#[test]
fn openssl_is_told_why_it_is_turned_away() {
    if !installed("alerts") {
        return;
    }
    let files = Files::new("alerts");
    let open = localhost().accept();
    let closed = localhost().of_clients(&CLIENTS, true).accept();
    for (acceptor, arguments, expected) in [
        (
            &open,
            &["-tls1_3", "-alpn", "h2"][..],
            "no application protocol",
        ),
        (
            &open,
            &["-tls1_2", "-alpn", "h2"],
            "no application protocol",
        ),
        (&open, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "alert"),
        (
            &open,
            &["-tls1_2", "-cipher", "AES256-SHA"],
            "handshake failure",
        ),
        (&closed, &["-tls1_2"], "alert"),
        (&closed, &["-tls1_3"], "certificate required"),
    ] {
        let (output, session) = talk(acceptor, &files, arguments);
        let told = text(&output.stderr);
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert!(session.client_names().is_empty());
    }
}
