//! The one system call of real time that no safe wrapper offers.
#![allow(unsafe_code)]

/// Puts the calling thread under `SCHED_FIFO` at this priority. Threads that it starts afterwards
/// are ordinary ones.
///
/// # Errors
/// As the kernel has them: `EPERM` without the right, `EINVAL` outside 1 to 99.
pub fn become_fifo(priority: u8) -> std::io::Result<()> {
    let param = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; `param` lives throughout the call, which only reads it.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
