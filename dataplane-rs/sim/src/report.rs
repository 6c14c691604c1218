//! What a run says at its end, as one line of JSON.

use crate::ledger::Ledger;
use crate::metrics::{self, Scope, groups, percentile};
use crate::scenario::{Compare, Scenario};
use sluice_core::admission::Class;
use std::fmt::Write;

/// JSON that grows. Its caller knows when to open and to close what.
#[derive(Default)]
struct Json(String);

impl Json {
    fn comma(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with(['{', '[', ':', ',']) {
            self.0.push(',');
        }
    }

    fn open(&mut self, bracket: char) {
        self.comma();
        self.0.push(bracket);
    }

    fn close(&mut self, bracket: char) {
        self.0.push(bracket);
    }

    fn key(&mut self, name: &str) {
        self.text(name);
        self.0.push(':');
    }

    fn text(&mut self, text: &str) {
        self.comma();
        self.0.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.0.extend(['\\', c]),
                c if u32::from(c) < 0x20 => self.0.push(' '),
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    /// What is not finite is null.
    fn number(&mut self, number: f64) {
        self.comma();
        if number.is_finite() {
            let _ = write!(self.0, "{number}"); // into a string: it cannot fail
        } else {
            self.0.push_str("null");
        }
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = f64>) {
        self.open('[');
        numbers.into_iter().for_each(|number| self.number(number));
        self.close(']');
    }

    fn truth(&mut self, truth: bool) {
        self.comma();
        self.0.push_str(if truth { "true" } else { "false" });
    }
}

/// What the control plane has to know before it begins.
pub fn hello(scenario: &Scenario) -> String {
    let mut json = Json::default();
    json.open('{');
    json.key("about");
    json.text(&scenario.about);
    json.key("soak");
    json.truth(scenario.soak);
    json.key("slots");
    json.number(scenario.sources.len() as f64);
    json.key("admission");
    json.open('{');
    for (key, value) in &scenario.admission {
        json.key(key);
        json.text(value);
    }
    json.close('}');
    json.close('}');
    json.0
}

/// Everything: metrics by phase, gates, classes, windows.
pub fn report(scenario: &Scenario, ledger: &Ledger) -> String {
    let mut json = Json::default();
    json.open('{');
    json.key("broken");
    json.open('[');
    for (at_ns, why) in &ledger.broken {
        json.text(&format!("{:.3} s: {why}", *at_ns as f64 / 1e9));
    }
    json.close(']');
    write_phases(&mut json, scenario, ledger);
    write_gates(&mut json, scenario, ledger);
    json.key("class_offered");
    json.numbers(ledger.class_offered.map(|count| count as f64));
    json.key("class_shed");
    json.numbers(ledger.class_shed.map(|count| count as f64));
    write_windows(&mut json, ledger);
    json.close('}');
    json.0
}

fn write_phases(json: &mut Json, scenario: &Scenario, ledger: &Ledger) {
    json.key("phases");
    json.open('[');
    let whole = (scenario.phases.len() > 1).then_some(None);
    for phase in (0..scenario.phases.len()).map(Some).chain(whole) {
        json.open('{');
        json.key("name");
        json.text(phase.map_or("all", |index| &scenario.phases[index].name));
        let last = scenario.phases.len() - 1;
        json.key("from_s");
        json.number(phase.map_or(0, |index| scenario.phases[index].from_ns) as f64 / 1e9);
        json.key("to_s");
        json.number(scenario.phases[phase.unwrap_or(last)].to_ns as f64 / 1e9);
        let scope = Scope::new(scenario, ledger, phase, None);
        json.key("service_ns");
        json.number(scope.service_ns());
        json.key("metrics");
        write_metrics(json, &scope);
        json.key("groups");
        json.open('{');
        for (index, name) in groups(scenario).iter().enumerate() {
            json.key(name);
            write_metrics(json, &Scope::new(scenario, ledger, phase, Some(index)));
        }
        json.close('}');
        json.close('}');
    }
    json.close(']');
}

fn write_metrics(json: &mut Json, scope: &Scope) {
    json.open('{');
    for name in metrics::names() {
        json.key(name);
        json.number(scope.value(name));
    }
    json.close('}');
}

fn write_gates(json: &mut Json, scenario: &Scenario, ledger: &Ledger) {
    json.key("gates");
    json.open('[');
    let names = groups(scenario);
    for gate in &scenario.gates {
        let of = |group: &String| names.iter().position(|name| name == group);
        let scope = Scope::new(
            scenario,
            ledger,
            gate.phase,
            gate.group.as_ref().and_then(of),
        );
        let bound = if gate.in_services {
            gate.bound * scope.service_ns()
        } else {
            gate.bound
        };
        json.open('{');
        json.key("line");
        json.number(gate.line as f64);
        json.key("text");
        json.text(&gate.text);
        json.key("unit");
        json.text(match metrics::unit(&gate.metric) {
            Some(metrics::Unit::Time) => "ns",
            Some(metrics::Unit::Share) => "share",
            _ => "count",
        });
        json.key("value");
        json.number(scope.value(&gate.metric));
        json.key("bound");
        json.number(bound);
        json.key("at_least");
        json.truth(gate.compare == Compare::AtLeast);
        json.key("mean");
        json.truth(gate.mean);
        json.close('}');
    }
    json.close(']');
}

fn write_windows(json: &mut Json, ledger: &Ledger) {
    json.key("classes");
    json.open('[');
    Class::ALL
        .iter()
        .for_each(|class| json.text(&format!("{class:?}")));
    json.close(']');
    json.key("windows");
    json.open('[');
    for window in &ledger.windows {
        json.open('{');
        let numbers = [
            ("offered", window.offered as f64),
            ("good", window.good as f64),
            ("capacity", window.capacity),
            ("limit", window.limit as f64),
            ("base", window.base),
            ("inflight", window.inflight as f64),
            ("held", window.held as f64),
            ("overloaded", window.overloaded as f64),
            ("hold_bound_ns", window.hold_bound_ns as f64),
            ("share_rate", window.share_rate),
            ("slot_p50_ns", percentile(&window.slot, 0.5)),
            ("slot_p99_ns", percentile(&window.slot, 0.99)),
            ("total_p99_ns", percentile(&window.total, 0.99)),
        ];
        for (name, number) in numbers {
            json.key(name);
            json.number(number);
        }
        json.key("shed");
        json.numbers(window.shed.map(|count| count as f64));
        json.close('}');
    }
    json.close(']');
}
