-- The location service (RFC 3261 section 10) as a log: a row is all that one transaction has changed, an
-- entry for each change of an address of record, with all its bindings. The last entry counts; older rows
-- are removed after a while. How entries are written, log.rs says.
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
) STRICT;
