//! Nearest keys to a vector, under a filter.
//!
//! [`VectorIndex`] holds unit vectors in memory and answers exactly: every search scores every
//! vector that the filter allows. It is a cache of what the store holds and may be dropped at any
//! time. How vectors are laid out, and which of them a search reads, is this crate's secret; a
//! faster arrangement replaces the inside of [`VectorIndex`] and nothing else.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// What went wrong with a vector that was handed in.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum Error {
    /// The vector's length is not the index's.
    #[error("vector has {found} dimensions, the index has {expected}")]
    Dimension {
        /// Dimensions of the index.
        expected: usize,
        /// Dimensions of the vector.
        found: usize,
    },
    /// The vector cannot be compared by cosine: NaN, infinite, or not of length 1.
    #[error("vector has length {norm}, a unit vector is needed")]
    NotUnit {
        /// Euclidean length; NaN where a component is not finite.
        norm: f32,
    },
}

/// How far a stored vector's length may be from 1.
pub const UNIT_TOLERANCE: f32 = 1e-3;

/// One search answer: a key and how near it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// The key the vector was inserted under.
    pub key: u64,
    /// Cosine similarity in -1..=1.
    pub similarity: f32,
}

/// Which keys a search may answer with.
#[derive(Debug, Clone, Copy)]
pub enum Filter<'a> {
    /// Every key.
    All,
    /// These keys, without duplicates; keys the index does not hold are passed over.
    Only(&'a [u64]),
}

/// Unit vectors by key, searched exactly.
#[derive(Debug, Clone)]
pub struct VectorIndex {
    dim: usize,
    /// Row-major, `dim` values a slot.
    rows: Vec<f32>,
    /// Key of each slot.
    keys: Vec<u64>,
    slots: HashMap<u64, usize>,
}

impl VectorIndex {
    /// An empty index of `dim`-dimensional vectors.
    pub fn new(dim: usize) -> Self {
        Self {
            dim,
            rows: Vec::new(),
            keys: Vec::new(),
            slots: HashMap::new(),
        }
    }

    /// The number of dimensions.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The vector under `key`.
    pub fn get(&self, key: u64) -> Option<&[f32]> {
        let slot = *self.slots.get(&key)?;
        Some(&self.rows[slot * self.dim..(slot + 1) * self.dim])
    }

    /// Memory held by vectors and keys, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<f32>()
            + self.keys.capacity() * size_of::<u64>()
            + self.slots.capacity() * size_of::<(u64, usize)>()
    }

    /// Puts `vector` under `key`, in place of the one that was there.
    ///
    /// # Errors
    ///
    /// [`Error`] when the vector has another dimension or is not of length 1; the index is unchanged.
    pub fn insert(&mut self, key: u64, vector: &[f32]) -> Result<(), Error> {
        self.check(vector)?;
        match self.slots.get(&key) {
            Some(&slot) => {
                self.rows[slot * self.dim..(slot + 1) * self.dim].copy_from_slice(vector);
            }
            None => {
                self.slots.insert(key, self.keys.len());
                self.keys.push(key);
                self.rows.extend_from_slice(vector);
            }
        }
        Ok(())
    }

    /// Takes `key` out; whether it was there.
    pub fn remove(&mut self, key: u64) -> bool {
        let Some(slot) = self.slots.remove(&key) else {
            return false;
        };
        // The last row moves into the gap, so rows stay dense.
        let last = self.keys.len() - 1;
        self.keys.swap_remove(slot);
        if slot != last {
            self.rows
                .copy_within(last * self.dim..(last + 1) * self.dim, slot * self.dim);
            self.slots.insert(self.keys[slot], slot);
        }
        self.rows.truncate(last * self.dim);
        true
    }

    /// The `k` keys nearest to `query` that `filter` allows, nearest first, ties by key: always
    /// `min(k, allowed)` of them.
    ///
    /// # Errors
    ///
    /// [`Error`] when `query` has another dimension or is not of length 1.
    pub fn search(
        &self,
        query: &[f32],
        k: usize,
        filter: Filter<'_>,
    ) -> Result<Vec<Neighbor>, Error> {
        self.check(query)?;
        let mut best = Best::new(k);
        match filter {
            Filter::All => {
                for (row, &key) in self.rows.chunks_exact(self.dim).zip(&self.keys) {
                    best.offer(Neighbor {
                        key,
                        similarity: cosine(query, row),
                    });
                }
            }
            Filter::Only(keys) => {
                for &key in keys {
                    if let Some(&slot) = self.slots.get(&key) {
                        let row = &self.rows[slot * self.dim..(slot + 1) * self.dim];
                        best.offer(Neighbor {
                            key,
                            similarity: cosine(query, row),
                        });
                    }
                }
            }
        }
        Ok(best.into_sorted())
    }

    fn check(&self, vector: &[f32]) -> Result<(), Error> {
        if vector.len() != self.dim {
            return Err(Error::Dimension {
                expected: self.dim,
                found: vector.len(),
            });
        }
        let norm = dot(vector, vector).sqrt();
        if norm.is_nan() || (norm - 1.0).abs() > UNIT_TOLERANCE {
            return Err(Error::NotUnit { norm });
        }
        Ok(())
    }
}

/// The `k` best of the neighbors offered, the worst of them on top of a heap.
struct Best {
    k: usize,
    heap: BinaryHeap<Worst>,
}

/// Orders neighbors so that the heap's greatest is the one to drop first.
struct Worst(Neighbor);

impl Best {
    fn new(k: usize) -> Self {
        Self {
            k,
            heap: BinaryHeap::new(),
        }
    }

    fn offer(&mut self, neighbor: Neighbor) {
        if self.heap.len() < self.k {
            self.heap.push(Worst(neighbor));
        } else if let Some(mut top) = self.heap.peek_mut()
            && by_rank(&neighbor, &top.0) == Ordering::Less
        {
            *top = Worst(neighbor);
        }
    }

    fn into_sorted(self) -> Vec<Neighbor> {
        self.heap
            .into_sorted_vec()
            .into_iter()
            .map(|Worst(neighbor)| neighbor)
            .collect()
    }
}

impl Ord for Worst {
    fn cmp(&self, other: &Self) -> Ordering {
        by_rank(&self.0, &other.0)
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Worst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Worst {}

/// Nearest first; ties break by key, so that the same notes rank the same way on every run.
fn by_rank(a: &Neighbor, b: &Neighbor) -> Ordering {
    b.similarity
        .total_cmp(&a.similarity)
        .then(a.key.cmp(&b.key))
}

/// Cosine of two unit vectors: clamped, because equal ones land a hair above 1 in `f32`.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    dot(a, b).clamp(-1.0, 1.0)
}

/// Sixteen running sums let the compiler keep the loop in vector registers.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_lanes
        .remainder()
        .iter()
        .zip(b_lanes.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in a_lanes.zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn unit(values: &[f32]) -> Vec<f32> {
        let norm = values.iter().map(|v| v * v).sum::<f32>().sqrt();
        values.iter().map(|v| v / norm).collect()
    }

    fn keys(neighbors: &[Neighbor]) -> Vec<u64> {
        neighbors.iter().map(|n| n.key).collect()
    }

    #[test]
    fn the_nearest_key_comes_first_and_ties_break_by_key() {
        let mut index = VectorIndex::new(2);
        for key in [9, 3, 5] {
            index.insert(key, &[1.0, 0.0]).unwrap();
        }
        index.insert(1, &unit(&[1.0, 1.0])).unwrap();
        let found = index.search(&[1.0, 0.0], 3, Filter::All).unwrap();
        assert_eq!(keys(&found), [3, 5, 9]);
        assert_eq!(found[0].similarity, 1.0);
    }

    #[test]
    fn a_unit_vector_finds_itself_whatever_its_rounding() {
        let mut index = VectorIndex::new(384);
        let vectors: Vec<Vec<f32>> = (0..500u32)
            .map(|i| {
                unit(
                    &(0..384)
                        .map(|j| ((i * 31 + j * 7) as f32).sin())
                        .collect::<Vec<_>>(),
                )
            })
            .collect();
        for (key, vector) in vectors.iter().enumerate() {
            index.insert(key as u64, vector).unwrap();
        }
        for (key, vector) in vectors.iter().enumerate() {
            let found = index.search(vector, 1, Filter::All).unwrap();
            assert_eq!(found[0].key, key as u64);
            assert!(found[0].similarity <= 1.0);
        }
    }

    #[test]
    fn many_equal_vectors_hide_nothing() {
        let mut index = VectorIndex::new(2);
        for key in 0..500 {
            index.insert(key, &[1.0, 0.0]).unwrap();
        }
        index.insert(500, &[0.0, 1.0]).unwrap();
        assert_eq!(
            keys(&index.search(&[0.0, 1.0], 1, Filter::All).unwrap()),
            [500]
        );
    }

    #[test]
    fn a_filter_is_applied_before_the_cut() {
        let mut index = VectorIndex::new(2);
        for key in 0..4200 {
            index.insert(key, &[1.0, 0.0]).unwrap();
        }
        let small = [4200, 4201, 4202, 4203, 4204];
        for &key in &small {
            index.insert(key, &[0.0, 1.0]).unwrap();
        }
        let found = index.search(&[1.0, 0.0], 3, Filter::Only(&small)).unwrap();
        assert_eq!(keys(&found), [4200, 4201, 4202]);
        assert_eq!(
            index
                .search(&[1.0, 0.0], 3, Filter::Only(&[77_777]))
                .unwrap(),
            []
        );
        assert_eq!(index.search(&[1.0, 0.0], 3, Filter::Only(&[])).unwrap(), []);
    }

    #[test]
    fn a_vector_that_cannot_be_compared_is_refused_and_changes_nothing() {
        let mut index = VectorIndex::new(2);
        for bad in [
            [f32::NAN, 0.0],
            [0.0, 0.0],
            [f32::INFINITY, 0.0],
            [2.0, 0.0],
        ] {
            assert!(
                matches!(index.insert(1, &bad), Err(Error::NotUnit { .. })),
                "{bad:?}"
            );
            assert!(index.search(&bad, 1, Filter::All).is_err());
        }
        assert_eq!(
            index.insert(1, &[1.0]),
            Err(Error::Dimension {
                expected: 2,
                found: 1
            })
        );
        assert!(index.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u64, [f32; 3]),
        Remove(u64),
        Search([f32; 3], usize, Option<Vec<u64>>),
    }

    fn op() -> impl Strategy<Value = Op> {
        // Few keys and few directions, so that replacing, ties and duplicates are common.
        let vector = prop::array::uniform3(-2i8..=2)
            .prop_filter("zero", |v| v.iter().any(|&x| x != 0))
            .prop_map(|v| {
                let v = unit(&v.map(f32::from));
                [v[0], v[1], v[2]]
            });
        let key = 0u64..12;
        prop_oneof![
            3 => (key.clone(), vector.clone()).prop_map(|(k, v)| Op::Insert(k, v)),
            1 => key.clone().prop_map(Op::Remove),
            2 => (vector, 0usize..15, prop::option::of(prop::collection::btree_set(0u64..14, 0..14)))
                .prop_map(|(v, k, f)| Op::Search(v, k, f.map(|f| f.into_iter().collect()))),
        ]
    }

    proptest! {
        #[test]
        fn any_sequence_answers_as_a_plain_map_does(ops in prop::collection::vec(op(), 1..80)) {
            let mut index = VectorIndex::new(3);
            let mut map: BTreeMap<u64, [f32; 3]> = BTreeMap::new();
            for op in ops {
                match op {
                    Op::Insert(key, vector) => {
                        index.insert(key, &vector).unwrap();
                        map.insert(key, vector);
                    }
                    Op::Remove(key) => {
                        prop_assert_eq!(index.remove(key), map.remove(&key).is_some());
                    }
                    Op::Search(query, k, only) => {
                        let mut expected: Vec<Neighbor> = map
                            .iter()
                            .filter(|(key, _)| only.as_ref().is_none_or(|only| only.contains(key)))
                            .map(|(&key, v)| Neighbor { key, similarity: cosine(&query, v) })
                            .collect();
                        expected.sort_by(by_rank);
                        expected.truncate(k);
                        let filter = only.as_deref().map_or(Filter::All, Filter::Only);
                        prop_assert_eq!(index.search(&query, k, filter).unwrap(), expected);
                    }
                }
                prop_assert_eq!(index.len(), map.len());
                for key in 0..12 {
                    prop_assert_eq!(index.get(key), map.get(&key).map(|v| v.as_slice()));
                }
            }
        }
    }
}
