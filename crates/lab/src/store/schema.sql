-- One row a run, a topology, a configuration file, a cell, a slice, a process of a slice, a piece of evidence.
-- Columns that are asked for on their own are columns; the rest is JSON, as in meshtoll_lab::record.
CREATE TABLE run (
    id      TEXT PRIMARY KEY,
    header  TEXT NOT NULL,
    ended   TEXT
) STRICT;

CREATE TABLE topology (
    run       TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    ordinal   INTEGER NOT NULL,
    topology  TEXT NOT NULL,
    hops      TEXT NOT NULL,
    PRIMARY KEY (run, ordinal)
) STRICT;

CREATE TABLE config (
    run       TEXT NOT NULL,
    ordinal   INTEGER NOT NULL,
    hop       TEXT NOT NULL,
    file      TEXT NOT NULL,
    contents  TEXT NOT NULL,
    PRIMARY KEY (run, ordinal, hop, file),
    FOREIGN KEY (run, ordinal) REFERENCES topology (run, ordinal) ON DELETE CASCADE
) STRICT;

CREATE TABLE cell (
    id         INTEGER PRIMARY KEY,
    run        TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    case_name  TEXT NOT NULL,
    subject    TEXT NOT NULL,
    level      TEXT NOT NULL,
    UNIQUE (run, ordinal)
) STRICT;

CREATE TABLE slice (
    id                   INTEGER PRIMARY KEY,
    cell                 INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    round                INTEGER NOT NULL,
    position             INTEGER NOT NULL,
    started_unix_ns      INTEGER NOT NULL,
    transactions         INTEGER NOT NULL,
    elapsed_ns           INTEGER NOT NULL,
    window_transactions  INTEGER NOT NULL,
    window_ns            INTEGER NOT NULL,
    response_body_bytes  INTEGER NOT NULL,
    errors               TEXT NOT NULL,
    operations           TEXT NOT NULL,
    latency              TEXT NOT NULL, -- HDR histogram of ns, V2 deflate, base64
    lateness             TEXT NOT NULL, -- the same
    machine              TEXT NOT NULL,
    UNIQUE (cell, round)
) STRICT;

CREATE TABLE slice_hop (
    slice           INTEGER NOT NULL REFERENCES slice (id) ON DELETE CASCADE,
    ordinal         INTEGER NOT NULL,
    hop             TEXT NOT NULL,
    role            TEXT NOT NULL,
    cpu_ns          INTEGER NOT NULL,
    user_ns         INTEGER NOT NULL,
    system_ns       INTEGER NOT NULL,
    resident_bytes  INTEGER NOT NULL,
    PRIMARY KEY (slice, ordinal)
) STRICT;

CREATE TABLE slice_proof (
    slice     INTEGER NOT NULL REFERENCES slice (id) ON DELETE CASCADE,
    ordinal   INTEGER NOT NULL,
    claim     TEXT NOT NULL,
    evidence  TEXT NOT NULL,
    holds     INTEGER NOT NULL,
    PRIMARY KEY (slice, ordinal)
) STRICT;
