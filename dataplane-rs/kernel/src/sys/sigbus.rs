//! Last words before a SIGBUS: a mapped file was cut short, or its file system ran full.
//!
//! Lanes are allocated up front so that this never happens; when it does, the process dies (the
//! frames survive it), and this line says where it was.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Error;

/// The line's beginning, made once so that the handler need not allocate.
static PREFIX: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());

/// On SIGBUS writes one line `<name>: SIGBUS at 0x...` to standard error, then dies by the same
/// signal, so that the exit status and a core dump are what they would have been.
pub fn report_sigbus(name: &str) -> Result<(), Error> {
    let prefix = Box::into_raw(Box::new(format!("{name}: SIGBUS at 0x")));
    // A former prefix is left to leak: a handler may be reading it right now.
    PREFIX.store(prefix, Ordering::Release);
    // SAFETY: sigaction is plain data, for which zero is valid (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_sigbus as extern "C" fn(_, _, _) as usize;
    // RESETHAND: the fault repeats after the handler and then kills. ONSTACK: an alternate
    // stack is used where a thread has one, as threads of the standard library do.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND | libc::SA_ONSTACK;
    // SAFETY: the handler below only does what a signal handler may do.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) } != 0 {
        return Err(Error::last("sigaction(SIGBUS)"));
    }
    Ok(())
}

/// Async-signal-safe: no allocation, no lock, only write(2).
extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let mut line = [0u8; 128];
    // SAFETY: either null or a String that is never freed.
    let prefix = unsafe { PREFIX.load(Ordering::Acquire).as_ref() };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo, and SIGBUS carries an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let length = compose(
        &mut line,
        prefix.map_or(b"", |text| text.as_bytes()),
        address,
    );
    // SAFETY: `line` is readable for `length`; nobody can be told if the write fails.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length) };
}

/// Puts `prefix`, `address` in hexadecimal and a newline into `line`; a long prefix is cut.
fn compose(line: &mut [u8; 128], prefix: &[u8], address: usize) -> usize {
    let digits = (usize::BITS as usize - address.leading_zeros() as usize)
        .div_ceil(4)
        .max(1);
    let length = prefix.len().min(line.len() - 17);
    line[..length].copy_from_slice(&prefix[..length]);
    for position in 0..digits {
        let nibble = (address >> (4 * (digits - 1 - position))) & 15;
        line[length + position] = b"0123456789abcdef"[nibble];
    }
    line[length + digits] = b'\n';
    length + digits + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_name_the_address() {
        let mut line = [0; 128];
        let n = compose(&mut line, b"worker: SIGBUS at 0x", 0x7f00_dead_beef);
        assert_eq!(&line[..n], b"worker: SIGBUS at 0x7f00deadbeef\n");
        let n = compose(&mut line, b"x", 0);
        assert_eq!(&line[..n], b"x0\n");
        let n = compose(&mut line, &[b'p'; 500], usize::MAX);
        assert_eq!(n, 128);
        assert!(line[..n].ends_with(b"pffffffffffffffff\n"));
    }
}
