//! The bytes of every answer, as senders see them.

use sluice_core::Refusal;
use sluice_core::answers::{
    self, Backpressure, Manner, Success, accepted, canned, duplicate, inline, queued, refused, shed,
};
use sluice_core::http1::Method;

const ID: [u8; 16] = [1, 0x93, 0x7a, 0x5c, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const OPEN: Manner = Manner {
    keep_alive: true,
    head_only: false,
    date: None,
};

const USUAL: Success = Success {
    accepted: 200,
    queued: 202,
    has_body: true,
};

type Answer<'a> = dyn Fn(&mut Vec<u8>, &Manner) + 'a;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_promise_names_its_event() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    assert_eq!(
        text(|out| accepted(out, &ID, USUAL, &OPEN)),
        format!(
            "{head}Content-Length: 55\r\nX-Event-Id: 01JDX5R000000G40R40M30E209\r\n\r\n\
             {{\"status\":\"accepted\",\"id\":\"01JDX5R000000G40R40M30E209\"}}"
        )
    );
    assert_eq!(
        text(|out| duplicate(out, &ID, USUAL, &OPEN)),
        format!(
            "{head}Content-Length: 56\r\nX-Event-Id: 01JDX5R000000G40R40M30E209\r\n\r\n\
             {{\"status\":\"duplicate\",\"id\":\"01JDX5R000000G40R40M30E209\"}}"
        )
    );
    let degraded = text(|out| queued(out, &ID, USUAL, &OPEN));
    assert!(degraded.starts_with(
        "HTTP/1.1 202 Accepted\r\nX-Execution-Mode: Queued-Async\r\nX-System-Degraded: true\r\n\
         X-Execution-Path: Queue-Only\r\n"
    ));
}

#[test]
fn a_sender_hears_of_success_in_its_own_way() {
    let discord = Success {
        accepted: 204,
        queued: 204,
        ..USUAL
    };
    let own = "X-Event-Id: 01JDX5R000000G40R40M30E209\r\n\r\n";
    assert_eq!(
        text(|out| accepted(out, &ID, discord, &OPEN)),
        format!("HTTP/1.1 204 No Content\r\n{own}")
    );
    let xero = Success {
        queued: 200,
        has_body: false,
        ..USUAL
    };
    assert_eq!(
        text(|out| duplicate(out, &ID, xero, &OPEN)),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{own}")
    );
    let answer = text(|out| queued(out, &ID, xero, &OPEN));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nX-Execution-Mode: Queued-Async\r\n"));
    assert!(answer.ends_with(&format!("Content-Length: 0\r\n{own}")));
}

#[test]
fn a_shed_request_is_told_why_and_when_to_come_again() {
    for (reason, name) in [
        (Backpressure::RateLimited, "Rate-Limited"),
        (Backpressure::Overloaded, "Overloaded"),
        (Backpressure::IngestionQueueFull, "Ingestion-Queue-Full"),
    ] {
        let answer = text(|out| shed(out, reason, 429, 17, &OPEN));
        assert!(
            answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
            "{answer}"
        );
        let lines = format!("\r\nRetry-After: 17\r\nX-Backpressure-Reason: {name}\r\n\r\n");
        assert!(answer.contains(&lines), "{answer}");
    }
}

#[test]
fn a_refusal_closes_where_the_next_request_is_in_doubt() {
    let not_found = text(|out| refused(out, &Refusal::NotFound, &OPEN));
    assert_eq!(
        not_found,
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n\
         {\"error\":\"not found\"}"
    );
    let allow = [Method::Post, Method::Get].into_iter().collect();
    let method = text(|out| refused(out, &Refusal::MethodNotAllowed { allow }, &OPEN));
    assert!(method.contains("\r\nAllow: GET, POST\r\n"), "{method}");
    assert!(!method.contains("Connection"), "{method}");
    let close = text(|out| refused(out, &Refusal::BadChunk, &OPEN));
    assert!(close.contains("\r\nConnection: close\r\n"), "{close}");
}

#[test]
fn every_answer_is_framed_by_its_length_and_head_gets_no_body() {
    let date = answers::http_date(784_111_777);
    for keep_alive in [true, false] {
        for date in [None, Some(&date)] {
            let manner = Manner {
                keep_alive,
                head_only: false,
                date,
            };
            let head_only = Manner {
                head_only: true,
                ..manner
            };
            let kinds: [&Answer; 6] = [
                &|out, manner| accepted(out, &ID, USUAL, manner),
                &|out, manner| queued(out, &ID, USUAL, manner),
                &|out, manner| refused(out, &Refusal::TooSlow, manner),
                &|out, manner| canned(out, 401, 0, manner),
                &|out, manner| shed(out, Backpressure::Overloaded, 503, 5, manner),
                &|out, manner| inline(out, 418, b"X-A: b\r\n", b"tea", manner),
            ];
            for kind in kinds {
                let whole = text(|out| kind(out, &manner));
                let (head, body) = whole.split_once("\r\n\r\n").unwrap();
                let length = format!("\r\nContent-Length: {}", body.len());
                assert!(head.contains(&length), "{whole}");
                assert_eq!(
                    head.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT"),
                    date.is_some()
                );
                assert_eq!(text(|out| kind(out, &head_only)), format!("{head}\r\n\r\n"));
            }
        }
    }
}

#[test]
fn an_answer_fits_a_buffer_with_room_without_growing_it() {
    let mut out = Vec::with_capacity(1024);
    let before = out.as_ptr();
    queued(&mut out, &ID, USUAL, &OPEN);
    shed(&mut out, Backpressure::IngestionQueueFull, 503, 300, &OPEN);
    assert_eq!(out.as_ptr(), before);
}

#[test]
fn an_interim_code_never_ends_a_request() {
    for code in [0, 100, 101, 199, 1000] {
        assert!(text(|out| inline(out, code, b"", b"", &OPEN)).starts_with("HTTP/1.1 502 "));
    }
}
