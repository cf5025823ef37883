//! Hints for the cache.

/// Numbers in a line of the cache.
const LINE: usize = 16;

/// Asks for the numbers that begin `ahead` after those of `near`, as many as `near` has, to come
/// to the first-level cache; where there are none, nothing happens.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "an instruction that takes an address")
)]
pub(super) fn prefetch(near: &[f32], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..near.len()).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = near.as_ptr().wrapping_add(line + ahead);
        // SAFETY: a hint reads nothing and may be given for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (near, ahead, LINE);
}
