//! The matrix product of the `gemm` crate, which candle uses too: for processors that we have no
//! kernel of our own for.

use gemm::Parallelism;

/// `y = x·w`, or `y += x·w` if `add`: `x` is `[n, n_in]`, `w` `[n_in, n_out]`, `y` `[n, n_out]`,
/// none empty.
#[expect(unsafe_code, reason = "the crate takes pointers and strides")]
pub(super) fn multiply(x: &[f32], w: &[f32], n_out: usize, add: bool, y: &mut [f32]) {
    let (n_rows, n_in) = (y.len() / n_out, w.len() / n_out);
    assert_eq!(
        (x.len(), w.len(), y.len()),
        (n_rows * n_in, n_in * n_out, n_rows * n_out)
    );
    let stride = |width: usize| isize::try_from(width).expect("no slice is that long");
    // SAFETY: the lengths checked above are those of dense row-major matrices of the shapes and
    // strides given, `y` is borrowed mutably and so lies apart from `x` and `w`, and `y` is
    // initialized, as it must be when it is read.
    unsafe {
        gemm::gemm(
            n_rows,
            n_out,
            n_in,
            y.as_mut_ptr(),
            1,
            stride(n_out),
            add,
            x.as_ptr(),
            1,
            stride(n_in),
            w.as_ptr(),
            1,
            stride(n_out),
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
