BEGIN TRANSACTION;
CREATE TABLE claims (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        feature_id TEXT NOT NULL,
        text TEXT NOT NULL,
        is_pattern INTEGER NOT NULL,
        PRIMARY KEY (kind, is_pattern, key, feature_id, text)
    ) WITHOUT ROWID;
INSERT INTO "claims" VALUES('file','src/a.txt','one','src/a.txt',0);
INSERT INTO "claims" VALUES('file','src/*.txt','one','src/*.txt',1);
CREATE TABLE documents (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
INSERT INTO "documents" VALUES('note','a',2,'{"version":2,"text":"second"}');
CREATE TABLE journal (
        seq INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        at TEXT NOT NULL,
        actor TEXT NOT NULL,
        operation_id TEXT NOT NULL,
        feature_id TEXT,
        payload TEXT NOT NULL,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL
    );
INSERT INTO "journal" VALUES(1,'feature_initialised','2026-01-02T03:04:05.678Z','person:ada','op-1','one','{"branch":"one"}','0000000000000000000000000000000000000000000000000000000000000000','2ac4f2ce059af1513656031dc3383058153f5056c08307fe70040a584453ffea');
CREATE TABLE operations (
        number INTEGER PRIMARY KEY,
        operation_id TEXT NOT NULL UNIQUE,
        tool TEXT NOT NULL,
        payload_hash TEXT NOT NULL,
        actor TEXT NOT NULL,
        intent TEXT,
        answer TEXT
    );
INSERT INTO "operations" VALUES(1,'op-1','feature.init','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff','person:ada',NULL,'{"ok":true}');
INSERT INTO "operations" VALUES(2,'op-2','feature.init','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff','person:ada','{"to":"x"}',NULL);
CREATE TABLE shown (
        path TEXT PRIMARY KEY,
        sha256 TEXT NOT NULL
    ) WITHOUT ROWID;
INSERT INTO "shown" VALUES('agentic/features/index.json','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc');
CREATE TABLE unshown (
        stamp INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        UNIQUE (kind, key)
    );
INSERT INTO "unshown" VALUES(2,'feature','one');
CREATE TABLE writes (
        number INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        changes TEXT NOT NULL,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL
    );
INSERT INTO "writes" VALUES(1,1,'{"note a":"83480dd339d6cdab1d07a67b35334b7f1c957941a845866a5dcd346f7857fdcf","operation op-1":"4daf55141c934b1fbba27a8abd9ea32ac2eb4733ee8f927121fb360416f7b1c1"}','0000000000000000000000000000000000000000000000000000000000000000','64630d2eef06623a8ed196ec4a9a42ae0963516e162e76dc63273a54225bf705');
CREATE INDEX journal_by_feature ON journal (feature_id, seq);
CREATE INDEX operations_pending ON operations (number) WHERE answer IS NULL;
CREATE INDEX claims_by_feature ON claims (feature_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('unshown',2);
COMMIT;
PRAGMA user_version = 2;
