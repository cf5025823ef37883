//! How long a search takes: `cargo bench -p pkm --bench search`.
//!
//! The exact index over made-up unit vectors of 384 dimensions, and the keyword arm over notes made
//! of the corpus' paragraphs in another order. Both are deterministic.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pkm_engine::{
    DryRun, Engine, Filter, ImportRequest, ModelSource, NoteDraft, Prune, SearchMode,
    SearchRequest, Settings, Worker,
};
use pkm_index::{Filter as Keys, VectorIndex};

const DIM: usize = 384;

fn index(c: &mut Criterion) {
    let mut group = c.benchmark_group("exact index, 10 nearest");
    for n in [1_000u64, 10_000, 50_000] {
        let mut index = VectorIndex::new(DIM);
        for key in 0..n {
            index.insert(key, &unit(key)).expect("a unit vector");
        }
        let query = unit(n);
        group.bench_with_input(BenchmarkId::from_parameter(n), &n, |b, _| {
            b.iter(|| index.search(black_box(&query), 10, Keys::All));
        });
    }
    group.finish();
}

fn keyword(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let engine = notes(dir.path(), 2_000);
    let mut group = c.benchmark_group("keyword search, 2000 notes");
    for query in ["인증", "how do I restore the backup", "v1.2.3-rc.4"] {
        let request = SearchRequest {
            query: query.to_owned(),
            mode: SearchMode::Keyword,
            filter: Filter::default(),
            limit: 10,
            cursor: None,
            min_score: None,
        };
        group.bench_with_input(
            BenchmarkId::from_parameter(query),
            &request,
            |b, request| {
                b.iter(|| engine.search(black_box(request)).expect("an answer"));
            },
        );
    }
    group.finish();
}

/// The corpus, and `n` notes more of its paragraphs.
fn notes(dir: &Path, n: usize) -> Engine {
    let engine = Engine::open(Settings {
        data_dir: dir.to_owned(),
        model: ModelSource::Absent {
            name: "none".to_owned(),
            reason: "a benchmark of words".to_owned(),
        },
        worker: Worker::Off,
        trash_retention_days: 30,
    })
    .expect("a new folder");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/notes");
    let request = ImportRequest {
        root: corpus,
        into: String::new(),
        prune: Prune::Keep,
        dry_run: DryRun::No,
    };
    engine
        .import_folder(&request, &mut |_| ControlFlow::Continue(()))
        .expect("the corpus");
    let mut paragraphs = Vec::new();
    for id in 1..=70 {
        let note = engine.get_note(pkm_engine::NoteId(id)).expect("a note");
        paragraphs.extend(note.content.split("\n\n").map(str::to_owned));
    }
    for i in 0..n {
        let pick = |k: usize| paragraphs[(i * 31 + k * 977) % paragraphs.len()].as_str();
        let draft = NoteDraft {
            title: format!("note {i}"),
            content: [pick(0), pick(1), pick(2), pick(3)].join("\n\n"),
            ..NoteDraft::default()
        };
        engine.add_note(draft).expect("a note");
    }
    engine
}

/// A unit vector that differs for every `seed` (xorshift).
fn unit(seed: u64) -> Vec<f32> {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
    };
    let values: Vec<f32> = (0..DIM).map(|_| next()).collect();
    let norm = values.iter().map(|v| v * v).sum::<f32>().sqrt();
    values.iter().map(|v| v / norm).collect()
}

criterion_group!(benches, index, keyword);
criterion_main!(benches);
