-- The location service (RFC 3261 section 10): a row is a binding.
CREATE TABLE bindings (
    -- The number of the address of record times 65,536, plus the place among its bindings: those of one
    -- address of record stand together, in the order in which they were registered.
    id INTEGER PRIMARY KEY,
    -- user@domain
    address TEXT NOT NULL,
    -- NULL: the address of record is known and has no binding.
    contact TEXT,
    -- The other parameters of the Contact value, each with its semicolon.
    parameters TEXT,
    -- In thousandths.
    q INTEGER,
    -- The end, in milliseconds since 1970-01-01T00:00Z, and the interval granted, in seconds.
    expires INTEGER,
    lifetime INTEGER,
    call_id TEXT,
    cseq INTEGER,
    -- RFC 5626.
    reg_id INTEGER,
    -- What valid temporary GRUUs have in them (RFC 5627).
    gruus INTEGER,
    -- transport, our address, the peer's address
    flow TEXT,
    -- RFC 3327.
    path TEXT,
    user_agent TEXT
) STRICT;

-- Who may authenticate (RFC 7616): hashes of username, realm and password, never the password.
CREATE TABLE users (
    realm TEXT NOT NULL,
    username TEXT NOT NULL,
    md5 BLOB,
    sha256 BLOB,
    sha512_256 BLOB,
    PRIMARY KEY (realm, username)
) STRICT, WITHOUT ROWID;

-- Keys under which things are signed that user agents keep for longer than a process lives.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Counts the changes of users, so that a running proxy sees cheaply that there were some.
CREATE TABLE changes (users INTEGER NOT NULL) STRICT;
INSERT INTO changes VALUES (0);
CREATE TRIGGER user_added AFTER INSERT ON users BEGIN UPDATE changes SET users = users + 1; END;
CREATE TRIGGER user_changed AFTER UPDATE ON users BEGIN UPDATE changes SET users = users + 1; END;
CREATE TRIGGER user_removed AFTER DELETE ON users BEGIN UPDATE changes SET users = users + 1; END;
