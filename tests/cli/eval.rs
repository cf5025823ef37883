//! `pkm eval` on sets small enough to score by hand, without a model.

use crate::support::{Home, text};

fn set(home: &Home) {
    home.write(
        "set/queries.jsonl",
        concat!(
            "{\"id\": \"q1\", \"text\": \"quartz\", \"class\": \"one\"}\n",
            "{\"id\": \"q2\", \"text\": \"basalt\", \"class\": \"two\"}\n",
            "{\"id\": \"q3\", \"text\": \"zzzz\", \"class\": \"nonsense\"}\n",
        ),
    );
    home.write(
        "set/qrels.tsv",
        "query-id\tcorpus-id\tscore\nq1\tdir/a.md\t2\nq2\tdir/b\t2\nq2\tc\t1\n",
    );
}

#[test]
fn a_folder_of_notes_is_scored_by_path() {
    let home = Home::new();
    set(&home);
    home.write("set/notes/dir/a.md", "# A\nquartz\n");
    home.write("set/notes/dir/b.md", "# B\nnothing of the kind\n");
    home.write("set/notes/c.md", "# C\nbasalt\n");
    let run = home.pkm(&["eval", text(&home.path("set")), "--json"]);
    assert!(
        run.stderr.contains("only words are measured: "),
        "{}",
        run.stderr
    );
    let json = run.json();
    assert_eq!(
        (&json["notes"], json["results"].as_array().map(Vec::len)),
        (&3.into(), Some(3))
    );
    let row = |i: usize| &json["results"][i];
    assert_eq!(
        (&row(0)["class"], &row(0)["ndcg_at_10"]),
        (&"one".into(), &1.0.into())
    );
    assert_eq!(
        (&row(1)["class"], &row(1)["recall_at_10"]),
        (&"two".into(), &0.5.into())
    );
    // 1 of 2 + 1/log2(3).
    let ndcg = row(1)["ndcg_at_10"].as_f64().expect("a number");
    assert!(
        (ndcg - 1.0 / (2.0 + 1.0 / 3f64.log2())).abs() < 1e-9,
        "{ndcg}"
    );
    assert_eq!(
        (&row(2)["class"], &row(2)["n"], &row(2)["recall_at_10"]),
        (&"all".into(), &2.into(), &0.75.into())
    );
    assert_eq!(json["unanswerable"][0]["n"], 1);
    assert_eq!(json["unanswerable"][0]["n_with_hits"], 0);
    assert!(
        !home.path("share/pkm").exists(),
        "the notes of the user are not touched"
    );
}

#[test]
fn a_corpus_file_is_scored_by_id_and_kept_between_runs_when_asked() {
    let home = Home::new();
    set(&home);
    home.write("set/corpus.jsonl", concat!(
        "{\"id\": \"dir/a\", \"title\": \"A\", \"text\": \"quartz\"}\n",
        "{\"id\": \"dir/b.md\", \"title\": \"B\", \"text\": \"basalt basalt\"}\n",
        "{\"id\": \"c\", \"title\": \"\", \"text\": \"a longer text that also names basalt somewhere\"}\n",
    ));
    let (folder, cache) = (home.path("set"), home.path("cache"));
    let arguments = [
        "eval",
        text(&folder),
        "--data-cache",
        text(&cache),
        "--mode",
        "keyword",
        "--misses",
    ];
    let first = home.ok(&arguments);
    assert!(
        first.starts_with("3 notes, 3 passages, no model\n"),
        "{first}"
    );
    assert!(
        first.contains(
            "keyword  all               2    1.000      1.000   1.000  1.000  1.000  1.000"
        ),
        "{first}"
    );
    assert!(
        first.contains("keyword  answers 0 of 1 questions that nothing answers"),
        "{first}"
    );
    let second = home.ok(&arguments);
    assert_eq!(second.lines().next(), first.lines().next());
    home.write(
        "set/corpus.jsonl",
        "{\"id\": \"dir/a\", \"title\": \"A\", \"text\": \"other\"}\n",
    );
    let stderr = home.pkm(&arguments).fails(1);
    assert!(stderr.contains("holds other notes"), "{stderr}");
}

#[test]
fn a_judgement_of_a_note_that_is_not_there_is_an_error() {
    let home = Home::new();
    set(&home);
    home.write("set/notes/c.md", "# C\nbasalt\n");
    let stderr = home.pkm(&["eval", text(&home.path("set"))]).fails(1);
    assert_eq!(
        stderr,
        "error: `qrels.tsv` judges the note `dir/a`, which the set does not have\n"
    );
}
