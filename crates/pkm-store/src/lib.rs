//! Notes on disk, the one truth: SQLite schema, postings, vectors, jobs.
