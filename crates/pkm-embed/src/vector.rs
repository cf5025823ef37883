//! What a vector must be before it leaves this crate.

use crate::error::VectorFault;

/// Largest distance of a vector's length from 1: rounding of a few hundred additions stays far
/// below, a wrong pooling or a missing normalisation far above.
const LENGTH_TOLERANCE: f32 = 1e-3;

/// Scales `vector` to length 1; a zero vector stays as it is and is refused by [`check`].
pub(crate) fn normalize(vector: &mut [f32]) {
    let norm = length(vector);
    if norm > 0.0 {
        for value in vector {
            *value /= norm;
        }
    }
}

/// Says what is wrong with `vector`, if anything is.
pub(crate) fn check(vector: &[f32], dim: usize) -> Result<(), VectorFault> {
    if vector.len() != dim {
        return Err(VectorFault::Dimension {
            found: vector.len(),
            expected: dim,
        });
    }
    if !vector.iter().all(|value| value.is_finite()) {
        return Err(VectorFault::NotFinite);
    }
    if vector.iter().all(|value| *value == vector[0]) {
        return Err(VectorFault::Constant);
    }
    let norm = length(vector);
    if (norm - 1.0).abs() >= LENGTH_TOLERANCE {
        return Err(VectorFault::NotUnit { norm });
    }
    Ok(())
}

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|value| value * value).sum::<f32>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_unit_varied_vectors_of_the_right_length_pass() {
        assert_eq!(check(&[0.6, 0.8], 2), Ok(()));
        assert_eq!(
            check(&[0.6, 0.8], 3),
            Err(VectorFault::Dimension {
                found: 2,
                expected: 3
            })
        );
        assert_eq!(check(&[f32::NAN, 0.8], 2), Err(VectorFault::NotFinite));
        assert_eq!(check(&[f32::INFINITY, 0.8], 2), Err(VectorFault::NotFinite));
        assert_eq!(check(&[0.0, 0.0], 2), Err(VectorFault::Constant));
        assert_eq!(check(&[0.5, 0.5, 0.5, 0.5], 4), Err(VectorFault::Constant));
        assert!(matches!(
            check(&[0.6, 0.9], 2),
            Err(VectorFault::NotUnit { .. })
        ));
    }

    #[test]
    fn normalizing_keeps_the_direction_and_leaves_zero_alone() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut zero = [0.0, 0.0];
        normalize(&mut zero);
        assert_eq!(zero, [0.0, 0.0]);
    }
}
