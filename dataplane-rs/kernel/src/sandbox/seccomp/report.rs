//! What a refused call gets: EPERM, and a line in the log the first time.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Calls that were reported, a bit each. Numbers beyond share the last bit.
static REPORTED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// `si_code` of a call that a filter refused (asm-generic/siginfo.h).
const SYS_SECCOMP: libc::c_int = 1;

/// siginfo_t of a SIGSYS (signal(7); asm-generic/siginfo.h on 64 bits).
#[repr(C)]
struct RefusedCall {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    _pad: libc::c_int,
    address: *mut libc::c_void,
    number: libc::c_int,
    architecture: libc::c_uint,
}

const _: () = assert!(size_of::<RefusedCall>() <= size_of::<libc::siginfo_t>());

/// Puts the handler of SIGSYS in place, by which the kernel tells of a refused call.
pub(super) fn on_refused_call() -> Result<(), Error> {
    // SAFETY: sigaction is plain data, for which zero is valid (an empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_sigsys as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler below only does what a signal handler may do.
    if unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) } != 0 {
        return Err(Error::last("sigaction(SIGSYS)"));
    }
    Ok(())
}

/// Async-signal-safe: no allocation, no lock, only write(2), which is on the list. It runs in the
/// place of the call, so whatever that left in `errno` is overwritten by our result.
extern "C" fn on_sigsys(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a siginfo, which for SIGSYS is laid out so.
    let refused = unsafe { &*info.cast::<RefusedCall>() };
    if refused.code != SYS_SECCOMP {
        return; // somebody sent the signal: no call was interrupted that could be answered
    }
    let number = refused.number;
    // SAFETY: with SA_SIGINFO the kernel passes the thread's context, to which it returns.
    unsafe { answer(&mut *context.cast::<libc::ucontext_t>(), -libc::EPERM) };
    if !first_time(number) {
        return;
    }
    let mut line = [0u8; LINE];
    let length = compose(&mut line, number.unsigned_abs());
    // SAFETY: `line` is readable for `length`; nobody can be told if the write fails.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length) };
}

/// Makes the interrupted call return this.
fn answer(context: &mut libc::ucontext_t, result: libc::c_int) {
    #[cfg(target_arch = "x86_64")]
    {
        context.uc_mcontext.gregs[libc::REG_RAX as usize] = i64::from(result);
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.uc_mcontext.regs[0] = i64::from(result) as u64;
    }
}

fn first_time(number: libc::c_int) -> bool {
    let bits = 64 * REPORTED.len();
    let place = usize::try_from(number).map_or(bits - 1, |number| number.min(bits - 1));
    let bit = 1 << (place % 64);
    REPORTED[place / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0
}

const HEAD: &[u8] = b"level=ERROR component=dataplane msg=\"the sandbox refused system call ";
const TAIL: &[u8] = b": a fault of sluice, or somebody broke in\"\n";
const LINE: usize = HEAD.len() + 10 + TAIL.len();

/// Puts the line into `line` and says how long it is.
fn compose(line: &mut [u8; LINE], mut number: u32) -> usize {
    let digits = number
        .checked_ilog10()
        .map_or(1, |power| power as usize + 1);
    let (head, rest) = line.split_at_mut(HEAD.len());
    head.copy_from_slice(HEAD);
    for place in (0..digits).rev() {
        rest[place] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    rest[digits..digits + TAIL.len()].copy_from_slice(TAIL);
    HEAD.len() + digits + TAIL.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_call() {
        for number in [0, 41, u32::MAX] {
            let mut line = [0; LINE];
            let length = compose(&mut line, number);
            let text = std::str::from_utf8(&line[..length]).unwrap();
            assert!(text.contains(&format!("system call {number}: ")), "{text}");
            assert!(text.ends_with("\"\n"));
        }
    }

    #[test]
    fn a_call_is_reported_once_however_large_its_number() {
        for number in [900, 901, 1 << 30] {
            assert!(first_time(number));
            assert!(!first_time(number));
        }
        assert!(!first_time(-1), "it shares the last bit");
    }
}
