//! The system calls of real time that no safe wrapper offers.
#![allow(unsafe_code)]

/// Puts a thread of this process (0: the calling one) under `SCHED_FIFO` at this priority. Threads
/// that it starts afterwards are ordinary ones.
///
/// # Errors
/// As the kernel has them: `EPERM` without the right, `EINVAL` outside 1 to 99.
pub fn fifo(thread: libc::pid_t, priority: u8) -> std::io::Result<()> {
    let param = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` lives throughout the call, which only reads it; a number that is no thread's
    // is an error.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The calling thread's `SCHED_FIFO` priority; 0 in any other class.
pub fn own_priority() -> u8 {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread; `param` lives throughout the call, which writes it whole.
    let known = unsafe {
        libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO
            && libc::sched_getparam(0, &raw mut param) == 0
    };
    if known {
        u8::try_from(param.sched_priority).unwrap_or(0)
    } else {
        0
    }
}
