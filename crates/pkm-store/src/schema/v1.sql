-- Schema 1 of a store of notes.
--
-- Times are microseconds since 1970 in UTC. `*_key` columns hold what their neighbour is
-- compared by: NFKC and lower case. Hashes are 32 bytes. Lists are JSON arrays of strings.
--
-- A note in the trash (`deleted_at` set) keeps its row, tags and revisions and has no chunks
-- and no postings, so that no search can meet it; `trashed_passage` remembers which vectors
-- its restoration will want.

-- A note in its present state.
CREATE TABLE note (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    title       TEXT    NOT NULL,
    title_key   TEXT    NOT NULL,
    folder      TEXT    NOT NULL,
    folder_key  TEXT    NOT NULL,
    revision    INTEGER NOT NULL CHECK (revision >= 1),
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    -- Chunker and tokenizer that made the chunks.
    chunked_by  TEXT    NOT NULL,
    source_root TEXT,
    source_path TEXT,
    source_hash BLOB,
    size_bytes  INTEGER NOT NULL,
    -- Last, so that the columns before it are read without it.
    content     TEXT    NOT NULL,
    CHECK ((source_root IS NULL) = (source_path IS NULL)),
    CHECK ((source_root IS NULL) = (source_hash IS NULL))
) STRICT;
CREATE INDEX note_by_updated ON note (updated_at, id) WHERE deleted_at IS NULL;
CREATE INDEX note_by_created ON note (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX note_by_title   ON note (title_key, id)  WHERE deleted_at IS NULL;
CREATE INDEX note_by_folder  ON note (folder_key)     WHERE deleted_at IS NULL;
CREATE INDEX note_by_deleted ON note (deleted_at)     WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX note_by_source ON note (source_root, source_path)
    WHERE deleted_at IS NULL AND source_root IS NOT NULL;

CREATE TABLE note_tag (
    note_id INTEGER NOT NULL REFERENCES note (id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    tag     TEXT    NOT NULL,
    tag_key TEXT    NOT NULL,
    PRIMARY KEY (note_id, tag_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX note_tag_by_key ON note_tag (tag_key, note_id);

-- Every former state of a note; the present one is in `note`.
CREATE TABLE revision (
    note_id    INTEGER NOT NULL REFERENCES note (id) ON DELETE CASCADE,
    revision   INTEGER NOT NULL,
    title      TEXT    NOT NULL,
    tags       TEXT    NOT NULL,
    folder     TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    content    TEXT    NOT NULL,
    UNIQUE (note_id, revision)
) STRICT;

-- A piece of a live note. Every change of a note gives it chunks with new ids. A chunk
-- without `passage_hash` stands for a note that has no chunks: it carries the posting of
-- title and tags, and is never embedded.
CREATE TABLE chunk (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    note_id      INTEGER NOT NULL REFERENCES note (id) ON DELETE CASCADE,
    ordinal      INTEGER NOT NULL,
    heading_path TEXT    NOT NULL,
    start_byte   INTEGER NOT NULL,
    end_byte     INTEGER NOT NULL CHECK (end_byte >= start_byte),
    first_line   INTEGER NOT NULL,
    n_tokens     INTEGER NOT NULL,
    passage_hash BLOB,
    UNIQUE (note_id, ordinal)
) STRICT;
CREATE INDEX chunk_by_passage ON chunk (passage_hash, id) WHERE passage_hash IS NOT NULL;

CREATE TABLE trashed_passage (
    note_id      INTEGER NOT NULL REFERENCES note (id) ON DELETE CASCADE,
    passage_hash BLOB    NOT NULL,
    PRIMARY KEY (note_id, passage_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX trashed_passage_by_hash ON trashed_passage (passage_hash);

-- What made vectors. `dim` is unknown until the first one is stored; `since_seq` is the
-- position in `vector_change` when the row was made.
CREATE TABLE fingerprint (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    name      TEXT    NOT NULL UNIQUE,
    dim       INTEGER,
    since_seq INTEGER NOT NULL
) STRICT;

-- Little-endian f32, of length 1. A rowid table: a vector would not fit a key page.
CREATE TABLE vector (
    id             INTEGER PRIMARY KEY,
    passage_hash   BLOB    NOT NULL,
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprint (id) ON DELETE CASCADE,
    vector         BLOB    NOT NULL,
    UNIQUE (passage_hash, fingerprint_id)
) STRICT;
CREATE INDEX vector_by_fingerprint ON vector (fingerprint_id);

-- Passages that a model could not embed.
CREATE TABLE failed_passage (
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprint (id) ON DELETE CASCADE,
    passage_hash   BLOB    NOT NULL,
    reason         TEXT    NOT NULL,
    PRIMARY KEY (fingerprint_id, passage_hash)
) STRICT, WITHOUT ROWID;

-- A row says: look at this chunk again, its vector (of that fingerprint, or of any) came,
-- changed or went. What to do follows from what is there when the row is read.
CREATE TABLE vector_change (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    chunk_id       INTEGER NOT NULL,
    fingerprint_id INTEGER
) STRICT;

CREATE TABLE job (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    kind             TEXT    NOT NULL,
    scope            TEXT    NOT NULL,
    fingerprint      TEXT    NOT NULL,
    state            TEXT    NOT NULL
        CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    done             INTEGER NOT NULL,
    total            INTEGER NOT NULL,
    message          TEXT    NOT NULL,
    error            TEXT,
    cancel_requested INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    heartbeat_at     INTEGER,
    finished_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX job_live ON job (kind, scope, fingerprint)
    WHERE state IN ('queued', 'running');

-- Postings: the row id is the chunk's. The columns hold tokens that `analyze` made, with
-- blanks between them; all other ASCII is part of a token. Nothing but the index is kept.
CREATE VIRTUAL TABLE posting USING fts5 (
    title, headings, tags, body,
    content = '',
    contentless_delete = 1,
    tokenize = 'ascii tokenchars ''!"#$%&()*+,-./:;<=>?@[\]^_`{|}~'''
);
