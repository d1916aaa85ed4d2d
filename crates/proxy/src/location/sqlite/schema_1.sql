-- The location service (RFC 3261 section 10) as a log: each change of an address of record adds an entry
-- with all its bindings, a row each. The last entry counts; older ones are removed after a while.
CREATE TABLE bindings (
    -- The number of the entry times 65,536, plus the place among its bindings.
    id INTEGER PRIMARY KEY,
    -- user@domain
    address TEXT NOT NULL,
    -- 0: a binding; 1: known, without a binding; 2: not known any more.
    state INTEGER NOT NULL,
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

-- The bindings as they are.
CREATE VIEW current_bindings AS
    SELECT address, contact, parameters, q, datetime(expires / 1000, 'unixepoch') AS expires, lifetime, call_id,
        cseq, reg_id, gruus, flow, path, user_agent
    FROM bindings
    JOIN (SELECT address AS whose, max(id >> 16) AS last FROM bindings GROUP BY address)
        ON address = whose AND id >> 16 = last
    WHERE state = 0;

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
