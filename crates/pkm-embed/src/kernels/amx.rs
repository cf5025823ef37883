//! The tile registers of AMX, which the compiler does not know on stable Rust: what is `unsafe`
//! about them stays here.
//!
//! Tile registers 0 to 3 hold sums, 4 and 5 two tiles of the left matrix, 6 and 7 two of the
//! right one.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::marker::PhantomData;
use std::sync::LazyLock;

use half::bf16;

/// Rows of a tile, and 32-bit columns.
pub(super) const TILE: usize = 16;
/// Rows and columns of the block of sums that fills four tiles.
pub(crate) const BLOCK: usize = 2 * TILE;

/// A row of a tile.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Row(pub(super) [bf16; BLOCK]);

impl Row {
    pub(super) const ZERO: Row = Row([bf16::ZERO; BLOCK]);
}

/// Whether processor and system let this process use AMX with bf16.
pub(super) fn is_available() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        // AMX-BF16 and AMX-TILE in the features of leaf 7.
        const FEATURES: u32 = 1 << 22 | 1 << 24;
        __cpuid_count(7, 0).edx & FEATURES == FEATURES
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
            && request_permission()
    });
    *AVAILABLE
}

/// Asks Linux, once a process, for the right to use tile data; it refuses where the processor has
/// none or the system is too old.
#[expect(unsafe_code, reason = "a system call that no crate here wraps")]
fn request_permission() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call reads no memory of ours and only widens what this process may do; the
    // kernel changes no registers but the three named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// The tile registers of this thread, set up for whole tiles; given back when dropped.
pub(crate) struct Tiles {
    /// Registers cannot go to another thread.
    thread: PhantomData<*const ()>,
}

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

#[expect(unsafe_code, reason = "instructions that the compiler does not know")]
impl Tiles {
    /// # Panics
    ///
    /// Where AMX is not available.
    pub(crate) fn new() -> Tiles {
        assert!(is_available(), "AMX is chosen where there is AMX");
        let mut configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        configuration.row_bytes[..8].fill(64);
        configuration.rows[..8].fill(16);
        // SAFETY: AMX is available, and the 64 bytes read are a valid configuration.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly));
        }
        Tiles {
            thread: PhantomData,
        }
    }

    /// Sets all sums to zero.
    #[inline(always)]
    pub(super) fn zero(&mut self) {
        // SAFETY: `self` proves that the tiles are set up. No compiled code uses tile registers,
        // so they keep their contents from one of these functions to the next.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                options(nostack, nomem),
            );
        }
    }

    /// Adds the products of two tiles of the left matrix, 16 rows of 32 each, with two of the
    /// right one, 32 rows of 16 columns each, of which two rows lie interleaved in a [`Row`].
    #[inline(always)]
    pub(super) fn multiply(&mut self, left: [&[Row; TILE]; 2], right: [&[Row; TILE]; 2]) {
        // SAFETY: as in `zero`; each load reads 16 rows of 64 bytes, 64 bytes apart, which are
        // the array behind the reference.
        unsafe {
            asm!(
                "tileloaddt1 tmm4, [{left} + {stride}]",
                "tileloadd tmm6, [{right} + {stride}]",
                "tileloadd tmm7, [{right_2} + {stride}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloaddt1 tmm5, [{left_2} + {stride}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                left = in(reg) left[0],
                left_2 = in(reg) left[1],
                right = in(reg) right[0],
                right_2 = in(reg) right[1],
                stride = in(reg) size_of::<Row>(),
                options(nostack, readonly),
            );
        }
    }

    /// As [`Tiles::multiply`] with one tile of the left matrix.
    #[inline(always)]
    pub(super) fn multiply_one(&mut self, left: &[Row; TILE], right: [&[Row; TILE]; 2]) {
        // SAFETY: as in `multiply`.
        unsafe {
            asm!(
                "tileloaddt1 tmm4, [{left} + {stride}]",
                "tileloadd tmm6, [{right} + {stride}]",
                "tileloadd tmm7, [{right_2} + {stride}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                left = in(reg) left,
                right = in(reg) right[0],
                right_2 = in(reg) right[1],
                stride = in(reg) size_of::<Row>(),
                options(nostack, readonly),
            );
        }
    }

    /// Writes the block of sums, rows of `to` being `stride` numbers apart.
    #[inline(always)]
    pub(super) fn store(&self, to: &mut [f32], stride: usize) {
        assert!(stride >= BLOCK && to.len() >= (BLOCK - 1) * stride + BLOCK);
        let lower = &raw mut to[TILE * stride];
        // SAFETY: as in `zero`; the stores write 32 numbers in each of 32 rows `stride` apart,
        // which the slice has as checked above.
        unsafe {
            asm!(
                "tilestored [{upper} + {stride}], tmm0",
                "tilestored [{upper} + {stride} + 64], tmm1",
                "tilestored [{lower} + {stride}], tmm2",
                "tilestored [{lower} + {stride} + 64], tmm3",
                upper = in(reg) to.as_mut_ptr(),
                lower = in(reg) lower,
                stride = in(reg) stride * size_of::<f32>(),
                options(nostack),
            );
        }
    }
}

#[expect(unsafe_code, reason = "an instruction that the compiler does not know")]
impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: AMX is available. Without tile data in use a switch of threads costs less.
        unsafe {
            asm!("tilerelease", options(nostack, nomem));
        }
    }
}
