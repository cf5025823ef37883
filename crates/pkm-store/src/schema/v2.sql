-- Schema 2: what happens to notes can be watched, from another process too.

-- A row says that a note was written. Only the newest rows are kept, so a watcher that is behind
-- the first of them knows that it has missed something.
CREATE TABLE note_change (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    note_id  INTEGER NOT NULL,
    -- Whether a list of the notes' titles reads otherwise since then.
    relisted INTEGER NOT NULL
) STRICT;
