//! Work for several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What `job` gives for 0 to `n_jobs`, in order, worked off by this thread and as many others as
/// make `n_threads`; or the first failure, after which no more are begun.
pub(crate) fn in_parallel<T: Send, E: Send>(
    n_threads: usize,
    n_jobs: usize,
    job: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n_jobs {
                return Ok(done);
            }
            match job(i) {
                Ok(result) => done.push((i, result)),
                Err(error) => {
                    next.store(n_jobs, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads.min(n_jobs))
            .map(|_| scope.spawn(work))
            .collect();
        let mut done = work()?;
        for other in others {
            let joined = other.join();
            done.extend(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(done)
    })?;
    done.sort_unstable_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
