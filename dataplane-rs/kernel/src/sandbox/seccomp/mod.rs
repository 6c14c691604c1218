//! The list of system calls, put in force for all threads at once.
//!
//! A call that is not on it fails with EPERM and is reported, once per call, on standard error. It
//! does not kill: a call that this table forgot, or that a newer C library makes instead of an old
//! one, must not take an ingress down in the middle of the night, and to somebody who broke in, a
//! call that fails is worth no more than a process that ends and is started anew. What is reported
//! is a fault of ours or a break-in; nothing else.
//!
//! The report is a SIGSYS that the kernel sends in the call's place. It would kill a thread that
//! has the signal blocked, so the calls that the C library makes so fail without one.

mod calls;
mod report;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use crate::sandbox::{Lacking, Layer};
use calls::{CALLS, Call, OLDER, REFUSED_QUIETLY, RINGS, When};

/// Leaves every thread of the process (and those to come) the calls of the table, for good;
/// `rings`: also those on rings that are there. None can be made any more.
///
/// If a thread cannot be bound, none is.
pub fn filter_calls(rings: bool) -> Result<(), Lacking> {
    let programs = programs(rings).map_err(lacking)?;
    report::on_refused_call().map_err(lacking)?;
    for program in programs {
        seccompiler::apply_filter_all_threads(&program).map_err(|error| match error {
            Error::Seccomp(errno) => lacking(errno),
            error => lacking(error),
        })?;
    }
    Ok(())
}

/// Two filters, the stricter answer of which counts: the first one refuses without a word, and the
/// other one, which refuses loudly, leaves those calls to it.
fn programs(rings: bool) -> Result<[BpfProgram; 2], Error> {
    let quiet = rules(REFUSED_QUIETLY)?;
    let rings = if rings { RINGS } else { &[] };
    let mut allowed = rules(CALLS.iter().chain(OLDER).chain(rings))?;
    allowed.extend(quiet.clone());
    let refusal = SeccompAction::Errno(libc::EPERM as u32);
    Ok([
        compile(quiet, SeccompAction::Allow, refusal)?,
        compile(allowed, SeccompAction::Trap, SeccompAction::Allow)?,
    ])
}

fn lacking(cause: impl ToString) -> Lacking {
    Lacking {
        layer: Layer::Seccomp,
        cause: cause.to_string(),
        mend: "run a kernel with CONFIG_SECCOMP_FILTER, and allow seccomp(2) where a container \
               forbids it",
    }
}

/// Uses of calls, any of which is meant; none: all are.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    meant: SeccompAction,
) -> Result<BpfProgram, Error> {
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, meant, architecture)?.try_into()?)
}

fn rules<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Result<Rules, Error> {
    let each = calls.into_iter().map(|call| Ok((call.number, uses(call)?)));
    each.collect()
}

fn uses(call: &Call) -> Result<Vec<SeccompRule>, Error> {
    let rule = |argument, operator, value| -> Result<SeccompRule, Error> {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        Ok(SeccompRule::new(vec![condition])?)
    };
    let one = match call.when {
        When::Always => return Ok(vec![]),
        When::OneOf(argument, values) => {
            let each = values
                .iter()
                .map(|&value| rule(argument, SeccompCmpOp::Eq, value));
            return each.collect();
        }
        When::Ourselves(argument) => {
            rule(argument, SeccompCmpOp::Eq, u64::from(std::process::id()))
        }
        When::Without(argument, bit) => rule(argument, SeccompCmpOp::MaskedEq(bit), 0),
    };
    Ok(vec![one?])
}
