//! What a run has seen, as text for people and JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::conn::Fault;

/// Latencies from 1 µs to 1 h, three digits.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these bounds are valid")
}

/// One second of the schedule.
pub struct Second {
    /// Requests that were due in it.
    pub due: u64,
    /// 2xx.
    pub ok: u64,
    /// 2xx within `--good-within`.
    pub good: u64,
    /// Other codes.
    pub refused: u64,
    /// Requests that got no answer.
    pub failed: u64,
    /// Latency of the 2xx.
    pub latency: Histogram<u64>,
}

impl Second {
    fn new() -> Self {
        let latency =
            Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("these bounds are valid");
        Self {
            due: 0,
            ok: 0,
            good: 0,
            refused: 0,
            failed: 0,
            latency,
        }
    }
}

/// How one request ended.
pub enum Outcome {
    /// With this status code.
    Code(u16),
    /// Without an answer.
    Lost(Fault),
}

/// The counts of one run.
pub struct Report {
    /// `open` or `closed`.
    pub mode: &'static str,
    /// Where it went.
    pub url: String,
    /// Requests per second asked for; 0 in the closed loop.
    pub asked: f64,
    /// Connections.
    pub connections: usize,
    /// Bytes of the largest body.
    pub body_bytes: usize,
    /// From the first due time to the last answer or the end of the schedule.
    pub elapsed: Duration,
    /// Requests written.
    pub sent: u64,
    /// Due, but never written.
    pub unsent: u64,
    /// Repeats that were due after the end of the schedule.
    pub after_end: u64,
    /// Answers by code.
    pub codes: BTreeMap<u16, u64>,
    /// Requests without an answer, by fault.
    pub errors: BTreeMap<&'static str, u64>,
    /// Connections that could not be made; no request was out on them.
    pub connect_failures: u64,
    /// Sockets that were made again.
    pub reconnects: u64,
    /// Latency of 2xx in µs.
    pub latency: Histogram<u64>,
    /// CPU seconds of the generator itself.
    pub cpu_s: f64,
    /// A row for each second, if asked for.
    pub seconds: Option<Vec<Second>>,
    /// What is good in a row.
    pub good_within: Duration,
}

impl Report {
    /// Notes how a request ended.
    pub fn note(&mut self, due_ns: u64, took_ns: u64, outcome: &Outcome) {
        let took_us = (took_ns / 1000).max(1);
        let ok = matches!(outcome, Outcome::Code(200..=299));
        match outcome {
            Outcome::Code(code) => *self.codes.entry(*code).or_default() += 1,
            Outcome::Lost(fault) => *self.errors.entry(fault.name()).or_default() += 1,
        }
        if ok {
            self.latency.saturating_record(took_us);
        }
        let good = ok && took_ns <= self.good_within.as_nanos() as u64;
        if let Some(second) = self.second(due_ns) {
            second.due += 1;
            second.ok += u64::from(ok);
            second.good += u64::from(good);
            second.refused += u64::from(!ok && matches!(outcome, Outcome::Code(_)));
            second.failed += u64::from(matches!(outcome, Outcome::Lost(_)));
            if ok {
                second.latency.saturating_record(took_us);
            }
        }
    }

    /// Notes a request that was due and never written.
    pub fn note_unsent(&mut self, due_ns: u64) {
        self.unsent += 1;
        if let Some(second) = self.second(due_ns) {
            second.due += 1;
            second.failed += 1;
        }
    }

    /// How many requests got an answer of any kind.
    pub fn answered(&self) -> u64 {
        self.codes.values().sum()
    }

    fn ok(&self) -> u64 {
        self.codes.range(200..300).map(|(_, count)| count).sum()
    }

    fn rate_ok(&self) -> f64 {
        self.ok() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn second(&mut self, due_ns: u64) -> Option<&mut Second> {
        let seconds = self.seconds.as_mut()?;
        let at = (due_ns / 1_000_000_000) as usize;
        while seconds.len() <= at {
            seconds.push(Second::new());
        }
        seconds.get_mut(at)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let asked = if self.asked > 0.0 {
            format!("{:.0}/s asked, ", self.asked)
        } else {
            "".into()
        };
        let _ = writeln!(
            out,
            "{} loop to {}\n{} connections, {} byte bodies, {asked}{:.2} s",
            self.mode,
            self.url,
            self.connections,
            self.body_bytes,
            self.elapsed.as_secs_f64()
        );
        let _ = writeln!(
            out,
            "sent {}  2xx {} ({:.0}/s)  other {}  lost {}  unsent {}",
            self.sent,
            self.ok(),
            self.rate_ok(),
            self.answered() - self.ok(),
            self.errors.values().sum::<u64>(),
            self.unsent
        );
        for (code, count) in self
            .codes
            .iter()
            .filter(|(code, _)| !(200..300).contains(*code))
        {
            let _ = writeln!(out, "  {code}: {count}");
        }
        for (fault, count) in self.errors.iter().filter(|(_, count)| **count > 0) {
            let _ = writeln!(out, "  {fault}: {count}");
        }
        let ms = |q: f64| self.latency.value_at_quantile(q) as f64 / 1000.0;
        let _ = writeln!(
            out,
            "latency ms  p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}",
            ms(0.5),
            ms(0.9),
            ms(0.99),
            ms(0.999),
            self.latency.max() as f64 / 1000.0
        );
        let _ = writeln!(
            out,
            "generator {:.2} CPU s, {:.1} µs a request, {} reconnects, {} refused connections",
            self.cpu_s,
            self.cpu_s * 1e6 / self.sent.max(1) as f64,
            self.reconnects,
            self.connect_failures
        );
        for (at, second) in self.seconds.iter().flatten().enumerate() {
            let _ = writeln!(
                out,
                "{at:>4} s  due {:>6}  2xx {:>6}  good {:>6}  other {:>6}  lost {:>6}  \
                 p50 {:>9.3}  p99 {:>9.3} ms",
                second.due,
                second.ok,
                second.good,
                second.refused,
                second.failed,
                second.latency.value_at_quantile(0.5) as f64 / 1000.0,
                second.latency.value_at_quantile(0.99) as f64 / 1000.0
            );
        }
        if self.unsent > 0 {
            let _ = writeln!(
                out,
                "saturated: {} due requests were never sent",
                self.unsent
            );
        }
        out
    }

    /// For programs: one object in one line.
    pub fn json(&self) -> String {
        let codes: Vec<String> = self
            .codes
            .iter()
            .map(|(code, count)| format!("\"{code}\":{count}"))
            .collect();
        let errors: Vec<String> = self
            .errors
            .iter()
            .map(|(fault, count)| format!("\"{fault}\":{count}"))
            .collect();
        let q = |q: f64| self.latency.value_at_quantile(q);
        let mut out = format!(
            "{{\"mode\":\"{}\",\"asked_per_s\":{:.3},\"connections\":{},\"body_bytes\":{},\
             \"elapsed_s\":{:.6},\"sent\":{},\"unsent\":{},\
             \"after_end\":{},\"ok\":{},\"ok_per_s\":{:.3},\
             \"codes\":{{{}}},\"errors\":{{{}}},\"reconnects\":{},\
             \"connect_failures\":{},\"latency_us\":{{\"p50\":{},\
             \"p90\":{},\"p99\":{},\"p999\":{},\"max\":{},\"mean\":{:.1}}},\"cpu_s\":{:.6}",
            self.mode,
            self.asked,
            self.connections,
            self.body_bytes,
            self.elapsed.as_secs_f64(),
            self.sent,
            self.unsent,
            self.after_end,
            self.ok(),
            self.rate_ok(),
            codes.join(","),
            errors.join(","),
            self.reconnects,
            self.connect_failures,
            q(0.5),
            q(0.9),
            q(0.99),
            q(0.999),
            self.latency.max(),
            self.latency.mean(),
            self.cpu_s
        );
        if let Some(seconds) = &self.seconds {
            let rows: Vec<String> = seconds
                .iter()
                .map(|row| {
                    format!(
                        "{{\"due\":{},\"ok\":{},\"good\":{},\"refused\":{},\"failed\":{},\
                         \"p50_us\":{},\"p99_us\":{}}}",
                        row.due,
                        row.ok,
                        row.good,
                        row.refused,
                        row.failed,
                        row.latency.value_at_quantile(0.5),
                        row.latency.value_at_quantile(0.99)
                    )
                })
                .collect();
            let _ = write!(out, ",\"seconds\":[{}]", rows.join(","));
        }
        out.push_str("}\n");
        out
    }
}
