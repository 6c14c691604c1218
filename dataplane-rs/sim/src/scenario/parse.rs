//! The text form of a scenario: a statement a line, words and numbers between blanks.

use super::line::{Line, Result};
use super::{Compare, Gate, Ids, Nature, Phase, Retries, Scenario, Source, Store};
use crate::metrics;
use sluice_core::admission::Priority;
use sluice_core::limits::SOURCES_MAX;

const SECOND_NS: u64 = 1_000_000_000;

/// Workers that a data plane may have.
const WORKERS_MAX: usize = 64;

/// Reads a scenario; a fault is named with file and line.
pub fn parse(file: &str, text: &str) -> Result<Scenario> {
    let mut scenario = Scenario {
        about: String::new(),
        soak: false,
        spread: vec![1.0],
        admission: Vec::new(),
        lane_frames: 32_768,
        wake_ns: 20_000,
        good_ns: SECOND_NS,
        store: Store::Slots {
            count: 8,
            service_ns: 4_000_000,
            sigma: 0.0,
        },
        sources: Vec::new(),
        phases: Vec::new(),
        away: Vec::new(),
        restarts: Vec::new(),
        replaced: Vec::new(),
        gates: Vec::new(),
    };
    let mut has_store = false;
    for (index, text) in text.lines().enumerate() {
        let mut line = Line::new(file, index + 1, text);
        let Some(word) = line.next() else {
            continue;
        };
        match word {
            "about" => {
                scenario.about = line.rest();
                continue;
            }
            "soak" => scenario.soak = true,
            "workers" => scenario.spread = workers(&mut line)?,
            "admission" => {
                let key = line.word("a key")?;
                scenario
                    .admission
                    .push((key.to_string(), line.word("a value")?.to_string()));
            }
            "lane" => scenario.lane_frames = line.count("number of frames")?,
            "wake" => scenario.wake_ns = line.time("time")?,
            "good" => {
                line.expect("within")?;
                scenario.good_ns = line.time("time")?;
            }
            "store" => {
                scenario.store = store(&mut line)?;
                has_store = true;
            }
            "source" => sources(&mut line, &mut scenario.sources)?,
            "phase" if !has_store => return line.fault("a store has to come before the phases"),
            "phase" => {
                let next = phase(&mut line, &scenario)?;
                scenario.phases.push(next);
            }
            "away" => {
                let from = line.time("time")?;
                line.expect("for")?;
                scenario.away.push((from, from + line.time("time")?));
            }
            "restart" => scenario.restarts.push(line.time("time")?),
            "replace" => scenario.replaced.push(line.time("time")?),
            "gate" => {
                let gate = gate(&mut line, &scenario)?;
                scenario.gates.push(gate);
            }
            _ => return line.fault(format!("{word:?} is no statement")),
        }
        line.end()?;
    }
    let whole = |what: &str| Err(format!("{file}: there is no {what}"));
    if !has_store {
        return whole("store");
    }
    if scenario.sources.is_empty() {
        return whole("source");
    }
    if scenario.phases.is_empty() {
        return whole("phase");
    }
    let spread = &scenario.spread;
    for source in &scenario.sources {
        if source.worker.is_some_and(|worker| worker >= spread.len()) {
            return whole(&format!("worker that {} could be on", source.name));
        }
    }
    Ok(scenario)
}

/// `workers N [spread W…]`
fn workers(line: &mut Line) -> Result<Vec<f64>> {
    let count = line.count("number of workers")? as usize;
    if !(1..=WORKERS_MAX).contains(&count) {
        return line.fault(format!("1 to {WORKERS_MAX} workers, not {count}"));
    }
    if !line.take("spread") {
        return Ok(vec![1.0; count]);
    }
    (0..count).map(|_| line.number("weight")).collect()
}

/// `store slots K x TIME [sigma S]`, `store commit TIME + TIME [tail P TIME TIME]`,
/// `store collapse K x TIME beyond N timeout TIME`
fn store(line: &mut Line) -> Result<Store> {
    match line.word("a kind of store")? {
        "slots" => {
            let count = line.count("number of slots")?;
            line.expect("x")?;
            let service_ns = line.time("time")?;
            let sigma = if line.take("sigma") {
                line.number("sigma")?
            } else {
                0.0
            };
            if count == 0 || service_ns == 0 {
                return line.fault("a store of nothing");
            }
            Ok(Store::Slots {
                count,
                service_ns,
                sigma,
            })
        }
        "commit" => {
            let sync_ns = line.time("time")?;
            line.expect("+")?;
            let event_ns = line.time("time")?;
            let (mut tail, mut tail_ns) = (0.0, (0, 0));
            if line.take("tail") {
                tail = line.number("share")?;
                tail_ns = (line.time("time")?, line.time("time")?);
            }
            if event_ns == 0 || tail_ns.0 > tail_ns.1 {
                return line.fault("a store without bounds");
            }
            Ok(Store::Commit {
                sync_ns,
                event_ns,
                tail,
                tail_ns,
            })
        }
        "collapse" => {
            let count = line.count("number of slots")?;
            line.expect("x")?;
            let service_ns = line.time("time")?;
            line.expect("beyond")?;
            let beyond = line.number("number of jobs")?;
            line.expect("timeout")?;
            let timeout_ns = line.time("time")?;
            if count == 0 || service_ns == 0 || beyond == 0.0 {
                return line.fault("a store of nothing");
            }
            Ok(Store::Collapse {
                count,
                service_ns,
                beyond,
                timeout_ns,
            })
        }
        other => line.fault(format!("{other:?} is no store: slots, commit, collapse")),
    }
}

/// `source NAME[*N] …`
fn sources(line: &mut Line, into: &mut Vec<Source>) -> Result<()> {
    let word = line.word("a name")?;
    let (group, count) = match word.split_once('*') {
        Some((group, count)) => (group, count.parse().ok()),
        None => (word, Some(1)),
    };
    let Some(count @ 1..=SOURCES_MAX) = count else {
        return line.fault(format!("{word:?}: 1 to {SOURCES_MAX} of them"));
    };
    if into.iter().any(|other| other.group == group) {
        return line.fault(format!("{group:?} was there before"));
    }
    let mut source = Source {
        name: String::new(),
        group: group.to_string(),
        priority: Priority::Default,
        weight: 1.0,
        deadline_ns: 5 * SECOND_NS,
        leaves_ns: u64::MAX,
        retries: Retries::Never,
        ids: Ids::Header,
        nature: Nature::Event,
        rate: None,
        delete_after: 0,
        guard_after: 0,
        unauthorized: 0.0,
        connections: 8,
        worker: None,
    };
    while let Some(word) = line.next() {
        match word {
            "priority" => {
                source.priority = match line.word("a priority")? {
                    "high" => Priority::High,
                    "default" => Priority::Default,
                    "low" => Priority::Low,
                    other => return line.fault(format!("{other:?} is no priority")),
                }
            }
            "weight" => source.weight = line.number("weight")? / count as f64,
            "deadline" => source.deadline_ns = line.time("time")?,
            "leaves" => source.leaves_ns = line.time("time")?,
            "retries" => source.retries = retries(line)?,
            "ids" => {
                source.ids = match line.word("a place")? {
                    "header" => Ids::Header,
                    "body" => Ids::Body,
                    "retry-header" => Ids::RetryHeader,
                    "none" => Ids::None,
                    other => return line.fault(format!("{other:?} is no place of ids")),
                }
            }
            "ring" => source.nature = Nature::Ring,
            "handshakes" => source.nature = Nature::Handshake,
            "probes" => source.nature = Nature::Probe,
            "rate" => source.rate = Some(line.unit("rate", &[("/s", 1.0)])?),
            "deleted" => {
                line.expect("after")?;
                source.delete_after = line.count("number of refusals")?;
                source.guard_after = source.delete_after.div_ceil(2) as u32;
            }
            "unguarded" => source.guard_after = 0,
            "unauthorized" => source.unauthorized = line.number("share")?,
            "connections" => source.connections = line.count("number of connections")? as usize,
            "on" => source.worker = Some(line.count("worker")? as usize),
            other => return line.fault(format!("{other:?} says nothing of a source")),
        }
    }
    if into.len() + count > SOURCES_MAX || source.connections == 0 {
        return line.fault(format!(
            "at most {SOURCES_MAX} sources, of a connection at least"
        ));
    }
    into.extend((1..=count).map(|number| Source {
        name: if count == 1 {
            group.to_string()
        } else {
            format!("{group}-{number}")
        },
        ..source.clone()
    }));
    Ok(())
}

/// `retries never`, `retries after N tries`, `retries at TIME…` (to the end of the line)
fn retries(line: &mut Line) -> Result<Retries> {
    match line.word("a way to retry")? {
        "never" => Ok(Retries::Never),
        "after" => {
            let tries = line.count("number of tries")?.max(1);
            line.expect("tries")?;
            Ok(Retries::After(tries as usize))
        }
        "at" => {
            let mut times = Vec::new();
            while line
                .peek()
                .is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            {
                times.push(line.time("time")?);
            }
            Ok(Retries::At(times))
        }
        other => line.fault(format!("{other:?} is no way to retry: never, after, at")),
    }
}

/// `phase NAME TIME load L [to L] …`
fn phase(line: &mut Line, scenario: &Scenario) -> Result<Phase> {
    let name = line.word("a name")?.to_string();
    if scenario.phases.iter().any(|other| other.name == name) {
        return line.fault(format!("{name:?} was there before"));
    }
    let from_ns = scenario.phases.last().map_or(0, |last| last.to_ns);
    let to_ns = from_ns + line.time("time")?;
    if to_ns == from_ns {
        return line.fault("a phase of no time");
    }
    let mut phase = Phase {
        name,
        from_ns,
        to_ns,
        load: (0.0, 0.0),
        slow: (1.0, 1.0),
        stopped: false,
        burst_ns: None,
        wobble: None,
        weights: Vec::new(),
    };
    let capacity = scenario.store.capacity();
    while let Some(word) = line.next() {
        match word {
            "load" => phase.load = line.ramp("load", &[("C", capacity), ("/s", 1.0)])?,
            "slow" => {
                phase.slow = line.ramp("factor", &[("x", 1.0)])?;
                if phase.slow.0 == 0.0 || phase.slow.1 == 0.0 {
                    return line.fault("a store that takes no time");
                }
            }
            "stopped" => phase.stopped = true,
            "burst" => {
                let (on, off) = (line.time("time")?, line.time("time")?);
                if on == 0 || off == 0 {
                    return line.fault("a burst of no time");
                }
                phase.burst_ns = Some((on, off));
            }
            "wobble" => {
                let sigma = line.number("sigma")?;
                line.expect("every")?;
                let every = line.time("time")?;
                if every == 0 {
                    return line.fault("a wobble in no time");
                }
                phase.wobble = Some((sigma, every));
            }
            "weight" => {
                let group = line.word("a group")?;
                if !scenario.sources.iter().any(|source| source.group == group) {
                    return line.fault(format!("there is no source {group:?} above"));
                }
                phase
                    .weights
                    .push((group.to_string(), line.number("weight")?));
            }
            other => return line.fault(format!("{other:?} says nothing of a phase")),
        }
    }
    Ok(phase)
}

/// `gate METRIC [of GROUP] >=|<= BOUND [x service] [in PHASE] [mean]`
fn gate(line: &mut Line, scenario: &Scenario) -> Result<Gate> {
    let metric = line.word("a metric")?;
    let Some(unit) = metrics::unit(metric) else {
        let all = metrics::names().collect::<Vec<_>>().join(", ");
        return line.fault(format!("{metric:?} is no metric: {all}"));
    };
    let group = if line.take("of") {
        Some(line.word("a group")?.to_string())
    } else {
        None
    };
    if let Some(group) = &group
        && !scenario.sources.iter().any(|source| source.group == *group)
    {
        return line.fault(format!("there is no source {group:?} above"));
    }
    let compare = match line.word("a comparison")? {
        ">=" => Compare::AtLeast,
        "<=" => Compare::AtMost,
        other => return line.fault(format!("{other:?} is no comparison: >=, <=")),
    };
    let mut in_services = false;
    let bound = match unit {
        metrics::Unit::Time => {
            let in_word = line.peek().and_then(|word| word.parse::<f64>().ok());
            if let Some(factor) = in_word {
                line.next();
                line.expect("x")?;
                line.expect("service")?;
                in_services = true;
                factor
            } else {
                line.time("time")? as f64
            }
        }
        metrics::Unit::Share | metrics::Unit::Count => line.number("number")?,
    };
    let phase = if line.take("in") {
        let name = line.word("a phase")?;
        let found = scenario.phases.iter().position(|phase| phase.name == name);
        if found.is_none() {
            return line.fault(format!("there is no phase {name:?} above"));
        }
        found
    } else {
        None
    };
    Ok(Gate {
        line: line.number,
        text: line.rest(),
        metric: metric.to_string(),
        group,
        phase,
        compare,
        bound,
        in_services,
        mean: line.take("mean"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "store slots 8 x 4ms sigma 0.3\nsource a*2 weight 20%\n";

    #[test]
    fn a_scenario_is_what_it_says() {
        let text = format!(
            "about What it shows. # and a note\nworkers 2 spread 3 1\n{HEAD}\
             source b priority low retries at 1s 5m ids body deleted after 7 deadline 3s on 1\n\
             phase one 5s load 0.5C\nphase two 1m load 10/s to 20/s slow 1x to 3x weight a 2\n\
             away 3s for 500ms\nrestart 7s\ngate slot_p99 of a <= 3 x service in two mean\n\
             gate total_p50 >= 2ms\n"
        );
        let scenario = parse("f", &text).unwrap();
        assert_eq!(scenario.about, "What it shows.");
        assert_eq!(scenario.spread, [3.0, 1.0]);
        assert_eq!(scenario.sources.len(), 3);
        assert_eq!(scenario.sources[1].name, "a-2");
        assert_eq!(scenario.sources[1].weight, 0.1);
        let b = &scenario.sources[2];
        assert_eq!(b.retries, Retries::At(vec![1_000_000_000, 300_000_000_000]));
        assert_eq!((b.delete_after, b.guard_after, b.worker), (7, 4, Some(1)));
        let two = &scenario.phases[1];
        assert_eq!((two.from_ns, two.to_ns), (5_000_000_000, 65_000_000_000));
        assert_eq!((two.load, two.slow), ((10.0, 20.0), (1.0, 3.0)));
        assert_eq!(scenario.phases[0].load, (1000.0, 1000.0));
        assert_eq!(scenario.away, [(3_000_000_000, 3_500_000_000)]);
        let gate = &scenario.gates[0];
        assert_eq!((gate.bound, gate.in_services, gate.mean), (3.0, true, true));
        assert_eq!((gate.phase, gate.group.as_deref()), (Some(1), Some("a")));
        assert_eq!(scenario.gates[1].bound, 2e6);
    }

    #[test]
    fn a_fault_is_named_with_its_file_and_line() {
        for (text, fault) in [
            ("nonsense", "f:3: \"nonsense\" is no statement"),
            ("soak now", "f:3: \"now\" is not expected here"),
            ("phase p 1", "f:3: \"1\" is no time"),
            ("phase p", "f:3: expected time, found the end of the line"),
            ("phase p 1s load 3", "f:3: \"3\" is no load"),
            ("phase p 1s loud 3", "f:3: \"loud\" says nothing of a phase"),
            (
                "phase p 1s weight z 3",
                "f:3: there is no source \"z\" above",
            ),
            ("source a", "f:3: \"a\" was there before"),
            ("source z*0", "f:3: \"z*0\": 1 to 1024 of them"),
            ("source z priority urgent", "f:3: \"urgent\" is no priority"),
            ("source z fast", "f:3: \"fast\" says nothing of a source"),
            ("gate goodput = 1", "f:3: \"=\" is no comparison: >=, <="),
            ("gate goodput >= x", "f:3: \"x\" is no number"),
            (
                "gate goodput >= 1 in p",
                "f:3: there is no phase \"p\" above",
            ),
            (
                "gate slot_p99 <= 3 services",
                "f:3: expected \"x\", found \"services\"",
            ),
            (
                "store tape",
                "f:3: \"tape\" is no store: slots, commit, collapse",
            ),
            ("workers 65", "f:3: 1 to 64 workers, not 65"),
            (
                "workers 2 spread 1",
                "f:3: expected weight, found the end of the line",
            ),
            (
                "source z retries sometimes",
                "f:3: \"sometimes\" is no way to retry",
            ),
            ("phase p 1s load -1/s", "f:3: \"-1/s\" is no load"),
        ] {
            let found = parse("f", &format!("{HEAD}{text}\n")).unwrap_err();
            assert!(found.starts_with(fault), "{text}: {found}");
        }
        let found = parse("f", &format!("{HEAD}gate speed >= 1")).unwrap_err();
        assert!(
            found.starts_with("f:3: \"speed\" is no metric: "),
            "{found}"
        );
        for (text, fault) in [
            (
                "source a\nphase p 1s",
                "f:2: a store has to come before the phases",
            ),
            (HEAD, "f: there is no phase"),
            ("store slots 1 x 1s\nphase p 1s", "f: there is no source"),
            ("", "f: there is no store"),
            (
                "store slots 1 x 1s\nsource a on 1\nphase p 1s",
                "f: there is no worker",
            ),
        ] {
            let found = parse("f", text).unwrap_err();
            assert!(found.starts_with(fault), "{text}: {found}");
        }
    }
}
