import { OUTBOX } from "../../objects/outbox-table.ts";

/**
 * The tables of a Branch object, a room after the other. `gen` counts the branch's generations, `seq` the commits of one.
 * What refers to a commit by `born`, `died`, `version` or `head` has its `seq`. Times are in milliseconds since 1970.
 */
const SCHEMA = `
  -- ledger: what the object is, and what it has promised

  -- One row: the bucket that the object is. The platform does not tell an object its name in every call.
  CREATE TABLE address (one INTEGER PRIMARY KEY CHECK (one = 1), bucket TEXT NOT NULL);
  -- One row: no feed was told a time after promised.
  CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), promised INTEGER NOT NULL);
  INSERT INTO clock (one, promised) VALUES (1, 0);
  -- One row while the database is to be written anew, since its free pages may have what is to be nowhere any more.
  CREATE TABLE rewrite (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Until then rows that live for a day or two may still name it: the database is written anew once more after that.
    until INTEGER NOT NULL,
    -- 1: it was written anew since the last time that something went, and waits for its time
    paid INTEGER NOT NULL
  );

  -- tree: generations, commits, files, and where their bytes are

  -- Each time the branch was created. Deleted ones stay: their rows are still read by jobs.
  CREATE TABLE generations (
    gen INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    createdAt INTEGER NOT NULL,
    deletedAt INTEGER,
    -- the bucket that it was forked from, once it is rid of it; null if it was no fork
    parent TEXT
  );
  CREATE INDEX generations_forked ON generations (parent) WHERE parent IS NOT NULL;

  -- Access keys that made commits, by a number of our own: a commit then keeps a byte or two, not the id.
  CREATE TABLE authors (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);

  -- The parent of a commit is the row of seq - 1. The last row of a deleted generation is the deletion.
  CREATE TABLE commits (
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- 0 commit, 1 deletion, 2 gone: only the id and the time are left, for the versions that it wrote or ended
    kind INTEGER NOT NULL,
    createdAt INTEGER NOT NULL,
    -- rows of files born and died up to here
    births INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    -- the job that made it
    origin TEXT,
    -- the number of the key that made it; null if that is not known, or a job made it
    author INTEGER,
    -- JSON: the message and the metadata that were given with it; null if there are none
    annotation TEXT,
    -- 1: its id does not say which commit it is (tree/commit-id.ts), so that it is looked for in an index; else null
    elsewhere INTEGER,
    PRIMARY KEY (gen, seq)
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX commits_by_id ON commits (id) WHERE elsewhere = 1;
  CREATE UNIQUE INDEX commits_by_origin ON commits (gen, origin) WHERE origin IS NOT NULL;

  -- What the commits of jobs descend from, from commit seq on. JSON, by the uid of a pipeline: its version.
  CREATE TABLE lineages (
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    lineage TEXT NOT NULL,
    PRIMARY KEY (gen, seq)
  ) WITHOUT ROWID;

  -- Commit n is what was born at n or before and had not died by n; HEAD is what has not died.
  CREATE TABLE files (
    gen INTEGER NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER,
    -- 0 file; 1 empty directory (the path ends in a slash); 2 placeholder: it was born and died at once, and has no content. It is
    -- a deletion whose row was erased, or with version 0 nothing but news for the feed
    kind INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    -- JSON; null if there are none
    attributes TEXT,
    -- when somebody last wrote again what is there already, while files expired; null: nobody did
    renewed INTEGER,
    -- the commit whose id the version has, if it is not the one that the row was born at: what an erasure made current again
    version INTEGER,
    -- 1: the row's death is no version of its path
    unmarked INTEGER,
    -- when the bytes were last written, if the commit that the row was born at set nothing but tags; null: then
    bytesAt INTEGER,
    PRIMARY KEY (gen, path, born)
  ) WITHOUT ROWID;
  -- What is at HEAD. To SQLite the plus makes a constant of the null, so that it knows what died is in here and need not look into
  -- the table for it. Each statement that goes by this index says it in the same way
  CREATE UNIQUE INDEX head ON files (gen, path) WHERE died IS +NULL;
  CREATE INDEX by_born ON files (gen, born, path);
  CREATE INDEX by_died ON files (gen, died, path) WHERE died IS NOT NULL;
  CREATE INDEX files_news ON files (gen, born) WHERE version = 0;

  -- Where bytes are. Rows of files and holds of uploads are counted in refs; at zero the row goes.
  CREATE TABLE contents (
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    gen INTEGER NOT NULL,
    refs INTEGER NOT NULL,
    -- 0 inline: the bytes; 1 chunks, 2 manifest: JSON
    kind INTEGER NOT NULL,
    body BLOB NOT NULL,
    -- JSON, ["<digest>-<size>", ...]: contents of the same generation that own the blobs of this one's chunks. Each is
    -- counted in the refs of the kept content as long as this row is here.
    keeps TEXT,
    -- 1: a file or an open commit has had this content, so that readers may be at its blobs, or it came without any; set once
    named INTEGER NOT NULL,
    -- tells the row from an earlier one of the same content, whose blobs were others; null if it has none
    life INTEGER,
    -- 1: the blobs belong to the parent that the row was copied from; they stay when it goes
    onLoan INTEGER NOT NULL DEFAULT 0,
    -- JSON: blobs among its chunks that were made for it, although others own the rest; null: none
    made TEXT
  );
  CREATE UNIQUE INDEX contents_by_id ON contents (digest, size, gen);
  -- Those that nothing has any more: they go in slices, with their blobs.
  CREATE INDEX contents_dead ON contents (refs) WHERE refs = 0;
  CREATE INDEX contents_on_loan ON contents (gen) WHERE onLoan = 1;
  CREATE INDEX contents_unkept ON contents (gen) WHERE onLoan = 1 AND refs = 0;
  -- Contents that name blobs which are not in the table of blobs for them: in manifests, or others' in a list.
  CREATE INDEX contents_manifests ON contents (kind) WHERE kind = 2;
  CREATE INDEX contents_keeping ON contents (kind) WHERE keeps IS NOT NULL;

  -- refs counts contents; at zero its deletion is pending. Blobs that a manifest names are not here, nor those that are the
  -- whole of a content: the content's row has them.
  CREATE TABLE blobs (name TEXT PRIMARY KEY, refs INTEGER NOT NULL) WITHOUT ROWID;
  -- Blobs that are deleted when they are due.
  CREATE TABLE pending_deletions (
    blob TEXT PRIMARY KEY,
    due INTEGER NOT NULL,
    -- 1: a manifest whose blobs other contents own: they stay when it goes
    borrowed INTEGER NOT NULL,
    -- how often its deletion has failed
    tries INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX pending_deletions_by_due ON pending_deletions (due);

  -- Names of commits.
  CREATE TABLE tags (
    gen INTEGER NOT NULL,
    name TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    -- when it was made or last moved
    createdAt INTEGER NOT NULL,
    PRIMARY KEY (gen, name)
  ) WITHOUT ROWID;
  CREATE INDEX tags_by_commit ON tags (gen, "commit");
  -- Names of the live generation whose tags the catalogue does not know as they are, gone ones too.
  CREATE TABLE tag_news (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
  -- One row: how often tags changed, and that number when a generation with tags was last deleted.
  CREATE TABLE tag_clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    ended INTEGER NOT NULL
  );
  INSERT INTO tag_clock (one, version, ended) VALUES (1, 0, 0);

  -- uploads

  -- Open uploads. Those of a pipeline's lease have no due: they end when the pipeline says so.
  CREATE TABLE uploads (
    -- 1: it was not renewed since it was opened, and is no lease's: such ones run out in the order of their ids
    isFresh INTEGER NOT NULL DEFAULT 0,
    id TEXT NOT NULL,
    gen INTEGER NOT NULL,
    lease TEXT,
    due INTEGER,
    -- how long it stays open since something was added; milliseconds
    ttl INTEGER NOT NULL DEFAULT 3600000,
    -- 1: it has a row of multiparts
    multipart INTEGER NOT NULL DEFAULT 0,
    -- 1: the lease ended without a result. Nothing more is uploaded here; the row stays for a while to say so.
    lost INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (isFresh, id)
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX uploads_by_lease ON uploads (lease) WHERE lease IS NOT NULL;
  CREATE INDEX uploads_by_due ON uploads (due) WHERE due IS NOT NULL AND isFresh = 0;
  -- Contents that they hold: one, or a list of what came in one call, whose digest is empty and whose size is its number.
  CREATE TABLE holds (
    upload TEXT NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    -- of a list, JSON: their names; a content that is in two lists is held twice
    names TEXT,
    PRIMARY KEY (upload, digest, size)
  ) WITHOUT ROWID;
  -- Uploads that ended, as far as anybody else can see, and still have rows of holds or parts: those go in slices.
  CREATE TABLE ended (upload TEXT PRIMARY KEY, gen INTEGER NOT NULL) WITHOUT ROWID;

  -- Multipart uploads in progress: what was said when they began.
  CREATE TABLE multiparts (
    upload TEXT PRIMARY KEY,
    gen INTEGER NOT NULL,
    path TEXT NOT NULL,
    initiatedAt INTEGER NOT NULL,
    -- JSON each; null if there are none
    checksum TEXT,
    attributes TEXT,
    -- how far a long completion came, in its own words
    progress TEXT,
    -- the open commit that it is for
    openCommit TEXT,
    -- JSON of an Annotation, for the commit that is to come
    annotation TEXT
  );
  CREATE UNIQUE INDEX multiparts_by_path ON multiparts (gen, openCommit, path, upload);
  -- A part's content is among the holds of its upload; parts with the same content share the hold.
  CREATE TABLE parts (
    upload TEXT NOT NULL,
    number INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    checksum TEXT,
    modifiedAt INTEGER NOT NULL,
    PRIMARY KEY (upload, number)
  ) WITHOUT ROWID;
  CREATE INDEX parts_by_content ON parts (upload, digest, size);
  -- Multipart uploads that were completed lately, for those who ask again. status: JSON of a MultipartStatus.
  CREATE TABLE completions (
    upload TEXT PRIMARY KEY,
    gen INTEGER NOT NULL,
    due INTEGER NOT NULL,
    status TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX completions_by_due ON completions (due);

  -- The look for blobs that no row and no manifest names, one for each generation (uid) that may have left some.
  CREATE TABLE sweeps (
    uid TEXT PRIMARY KEY,
    -- when it begins or goes on; null: there is nothing to look for
    due INTEGER,
    -- when somebody last asked for it
    askedAt INTEGER,
    -- when the one that is under way began; null: none is
    beganAt INTEGER,
    -- when another is to begin after it; null: none
    again INTEGER,
    -- 1: what is found is removed; 0: it is only counted
    removes INTEGER NOT NULL,
    -- 0 names are listed; what others name of it is spared: 1 lists of contents, 2 manifests of contents, 3 manifests that
    -- are pending deletion; 4 what is left of it goes
    phase INTEGER NOT NULL,
    -- the folder that is listed, of 256, and the last name that was
    folder INTEGER NOT NULL,
    listed TEXT NOT NULL,
    -- rowid of the content, or the manifest pending deletion, that is looked at next, and how many of its pages were
    content INTEGER NOT NULL,
    doomed TEXT NOT NULL,
    pages INTEGER NOT NULL,
    -- blobs that were seen; those that nothing names, and their bytes: of the one under way, else of the last one
    seen INTEGER NOT NULL,
    found INTEGER NOT NULL,
    foundBytes INTEGER NOT NULL,
    -- when the last one ended; null: none did
    endedAt INTEGER,
    -- how often orphans could not be deleted since it began
    tries INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX sweeps_by_due ON sweeps (due) WHERE due IS NOT NULL;
  CREATE INDEX sweeps_under_way ON sweeps (beganAt) WHERE beganAt IS NOT NULL;
  -- What the one that is under way has found in the store and in no table.
  CREATE TABLE orphans (blob TEXT PRIMARY KEY) WITHOUT ROWID;

  -- open-commits, large-commits

  -- Open commits, and the outputs of jobs that come in pieces.
  CREATE TABLE open_commits (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    gen INTEGER NOT NULL,
    -- 0 open, 1 being checked or applied, 2 finished, 3 ended: what it staged goes in slices
    state INTEGER NOT NULL,
    openedAt INTEGER NOT NULL,
    writtenAt INTEGER NOT NULL,
    -- how long it stays open since something was staged; milliseconds
    ttl INTEGER NOT NULL,
    -- when it ends or, finished, is forgotten; null if neither comes with time
    due INTEGER,
    -- rows of staged
    operations INTEGER NOT NULL,
    -- the job whose output it is
    origin TEXT,
    -- JSON of why it could not be applied, for whoever asks next
    refusal TEXT,
    -- what finishing it answers
    "commit" TEXT,
    modifiedAt INTEGER,
    -- JSON of an Annotation, for the commit that is to come
    annotation TEXT,
    -- HEAD when it began; null: a job or a revert began it
    base INTEGER
  );
  CREATE INDEX open_commits_by_due ON open_commits (due) WHERE due IS NOT NULL;
  CREATE INDEX open_commits_by_gen ON open_commits (gen);
  CREATE UNIQUE INDEX open_commits_by_origin ON open_commits (gen, origin) WHERE origin IS NOT NULL;
  CREATE INDEX open_commits_by_base ON open_commits (gen, base) WHERE base IS NOT NULL;

  -- The last operation on each path of an open commit. A put of a file is one of the refs of its content.
  CREATE TABLE staged (
    openCommit INTEGER NOT NULL,
    -- 0 put, 1 delete; a path has only one of them
    gone INTEGER NOT NULL,
    path TEXT NOT NULL,
    -- as in files; null if gone
    digest BLOB,
    size INTEGER,
    attributes TEXT,
    -- what HEAD had at the path when a condition was first checked there: the commit that wrote it, 0 if nothing was there;
    -- null if no condition stands
    precondition INTEGER,
    -- as in files; null: when the open commit is finished
    bytesAt INTEGER,
    PRIMARY KEY (openCommit, gone, path)
  ) WITHOUT ROWID;
  CREATE INDEX staged_preconditions ON staged (openCommit, path) WHERE precondition IS NOT NULL;

  -- One row while an open commit becomes a commit in slices: nobody else makes a commit then.
  CREATE TABLE applying (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    openCommit INTEGER NOT NULL,
    gen INTEGER NOT NULL,
    -- the commit that its rows are written for; null while it is checked, and then no row is written
    seq INTEGER,
    -- while it is checked: the last path that was, and how far the next one was looked below
    checked TEXT NOT NULL,
    below TEXT,
    -- rows of files that were born and that died so far
    births INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    -- while it is checked: the last path whose condition was looked at, and JSON of those where HEAD has changed
    comparedTo TEXT,
    changed TEXT,
    -- JSON of an Annotation: what was said when it was finished
    annotation TEXT
  );

  -- One row while it is worked out what a revert changes: nobody else makes a commit then.
  CREATE TABLE reverting (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    openCommit INTEGER NOT NULL,
    gen INTEGER NOT NULL,
    -- the commits that it goes back to, and from
    target INTEGER NOT NULL,
    head INTEGER NOT NULL,
    -- how far it came among what was born since the target, then (1) among what died since; 2: it is through
    walk INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    path TEXT NOT NULL
  );

  -- forks

  -- What this branch was made from, if it was made from a commit of another one: at most one row that has not to go.
  CREATE TABLE forks (
    uid TEXT PRIMARY KEY,
    -- null until the parent has written the fork down
    gen INTEGER,
    -- the bucket of the parent; of its commits the one that was asked for, then the one that it is made from
    parent TEXT NOT NULL,
    "commit" TEXT,
    -- 0 asked for, 1 its rows are being copied, 2 it can be read, 3 it is deleted and its rows go
    state INTEGER NOT NULL,
    createdAt INTEGER NOT NULL,
    -- the last path that was copied; files and empty directories so far, and of the parent's commit
    copied TEXT NOT NULL,
    files INTEGER NOT NULL,
    total INTEGER NOT NULL,
    -- JSON of an Annotation: of the commit that it begins with
    annotation TEXT
  ) WITHOUT ROWID;

  -- The forks of this branch, and the commit that each is made from: what that commit has must stay. A row that is gone
  -- stays for a while, so that a call that comes late does not bring it back.
  CREATE TABLE roots (
    fork TEXT PRIMARY KEY,
    bucket TEXT NOT NULL,
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    madeAt INTEGER NOT NULL,
    goneAt INTEGER,
    -- the highest number of a give-back of that fork that came here
    given INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX roots_standing ON roots (gen, seq) WHERE goneAt IS NULL;
  CREATE INDEX roots_gone ON roots (goneAt) WHERE goneAt IS NOT NULL;

  -- What a fork is to give back to its parent: contents whose rows are gone. The parent has not heard yet.
  CREATE TABLE give_backs (
    gen INTEGER NOT NULL,
    number INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (gen, number)
  ) WITHOUT ROWID;
  -- One row: the number of the last one that there ever was.
  CREATE TABLE give_back_clock (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL);
  INSERT INTO give_back_clock (one, number) VALUES (1, 0);

  -- retention

  -- How much of a generation was given back. Without a row, nothing was.
  CREATE TABLE horizons (
    gen INTEGER PRIMARY KEY,
    -- commits before this one are kept only if something names them
    horizon INTEGER NOT NULL,
    -- commits before this one are in held, or are of kind 2, or gone: no tree of theirs is left
    marked INTEGER NOT NULL,
    -- the first dead rows to look at next, by their death and path: those before went, unless a held commit has them
    diedFrom INTEGER NOT NULL,
    diedPath TEXT NOT NULL,
    -- of a deleted generation: the same of rows that lived at its end; null once there are none
    alivePath TEXT,
    -- 1: of a deleted generation nothing is left
    purged INTEGER NOT NULL DEFAULT 0
  );
  -- Marked commits that something named when they were: what they have stays.
  CREATE TABLE held (gen INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (gen, seq)) WITHOUT ROWID;
  -- Commits whose tag was deleted or moved: they are kept until they are due, whatever else names them. The name is the last tag's.
  CREATE TABLE untagged (
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    due INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (gen, seq)
  ) WITHOUT ROWID;
  CREATE INDEX untagged_by_due ON untagged (due);
  -- Commits that inputs of pipelines start after.
  CREATE TABLE starts (
    uid TEXT NOT NULL,
    "commit" TEXT NOT NULL,
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    -- 1: it was kept when the pipeline told of it, and is since
    holds INTEGER NOT NULL,
    -- 1: the pipeline is stopped, and no subscriber
    stopped INTEGER NOT NULL DEFAULT 0,
    -- the name of a pipeline that is stopped, which no subscriber tells any more; null if it is not stopped
    pipeline TEXT,
    PRIMARY KEY (uid, "commit")
  ) WITHOUT ROWID;
  CREATE INDEX starts_holding ON starts (gen, seq) WHERE holds = 1;
  CREATE INDEX starts_by_commit ON starts ("commit");

  -- erasures

  -- The rows of files that have a version, by it.
  CREATE TABLE revived (
    gen INTEGER NOT NULL,
    version INTEGER NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    PRIMARY KEY (gen, version, path, born)
  ) WITHOUT ROWID;
  -- Rows of files that were erased, until all pipelines have heard of them that read the branch or write to it. born, died:
  -- the commits that had them; version: the commit that named them.
  CREATE TABLE erasures (
    number INTEGER PRIMARY KEY,
    gen INTEGER NOT NULL,
    path TEXT NOT NULL,
    version INTEGER NOT NULL,
    born INTEGER NOT NULL,
    died INTEGER NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL
  );
  -- One row: the number of the last one that there ever was.
  CREATE TABLE erasure_clock (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL);
  INSERT INTO erasure_clock (one, number) VALUES (1, 0);
  -- How far each of those pipelines has heard.
  CREATE TABLE erasures_heard (uid TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
  -- Contents of versions that were erased, by name, which the catalogue has not heard of yet. A number never comes twice.
  CREATE TABLE erased_contents (number INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL);
  -- Contents of erased files that a fork still has on loan: each is one of the refs of the content.
  CREATE TABLE fork_holds (
    fork TEXT NOT NULL,
    gen INTEGER NOT NULL,
    digest BLOB NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (fork, digest, size)
  ) WITHOUT ROWID;
  -- When a fork that has holds is asked what it still has of them, and how long after that again; milliseconds.
  CREATE TABLE fork_hold_asks (
    fork TEXT PRIMARY KEY,
    due INTEGER NOT NULL,
    wait INTEGER NOT NULL,
    -- the last hold that it was asked for; empty: the first is next
    digest BLOB NOT NULL DEFAULT x'',
    size INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX fork_hold_asks_by_due ON fork_hold_asks (due);

  -- history: archives

  -- Exports that are under way: until one is due, nothing of the generation goes.
  CREATE TABLE exports (
    id TEXT PRIMARY KEY,
    gen INTEGER NOT NULL,
    -- what it reads up to
    seq INTEGER NOT NULL,
    due INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- Generations that come out of archives. Their rows are under the number gen, which is in no row of generations before
  -- the last of them is there.
  CREATE TABLE imports (
    uid TEXT PRIMARY KEY,
    gen INTEGER NOT NULL UNIQUE,
    -- what names the archive, so that an import is gone on with
    archive TEXT NOT NULL,
    -- 0 its rows come, 1 it is the branch, 2 it was given up and its rows go
    state INTEGER NOT NULL,
    -- when it is given up if nothing comes; null once that is decided
    due INTEGER,
    upload TEXT NOT NULL,
    createdAt INTEGER NOT NULL,
    -- the newest commit that it is to have
    head INTEGER NOT NULL,
    -- commits before this one are kept only if something names them
    horizon INTEGER NOT NULL,
    -- JSON of what the branch is to be set to
    settings TEXT NOT NULL,
    -- how far it came: commits, tags, rows of files; and how many there are
    seq INTEGER NOT NULL,
    tag TEXT NOT NULL,
    path TEXT NOT NULL,
    born INTEGER NOT NULL,
    commits INTEGER NOT NULL,
    tags INTEGER NOT NULL,
    files INTEGER NOT NULL,
    -- when it became the branch, and the access key that had it do so; null before that
    at INTEGER,
    "by" TEXT
  ) WITHOUT ROWID;
  CREATE INDEX imports_by_due ON imports (due) WHERE due IS NOT NULL;
  CREATE INDEX imports_by_state ON imports (state, gen);

  -- lifecycle: settings and claims, rules, and who is told what

  -- What a life of the branch was set to. Without a row, nothing was.
  CREATE TABLE settings (
    gen INTEGER PRIMARY KEY,
    -- grows with each change
    revision INTEGER NOT NULL,
    -- 1: it answers reads without a signature
    public INTEGER NOT NULL,
    -- JSON of the CORS rules; null if there are none
    cors TEXT,
    -- JSON of who alone may write, {"key": id} or {"pipeline": name}; null: all who may write in the repo
    writer TEXT,
    -- JSON of the lifecycle rules and of who put them; null if there are none
    lifecycle TEXT,
    -- JSON {"commits": n, "days": n}, one of them or both: the newest commits stay, and those that were replaced less than
    -- so many days ago; null: all of them
    keep TEXT,
    -- 'branch' or 'file': whose time Last-Modified is; null: what the gateway is set to
    modified TEXT,
    -- 1: DeleteBucket leaves the branch alone while HEAD has a file
    emptyOnly INTEGER NOT NULL
  );

  -- One row. epoch only grows, whoever claims; uid and pipeline are null while nobody does.
  CREATE TABLE writer (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,
    uid TEXT,
    pipeline TEXT
  );
  INSERT INTO writer (one, epoch) VALUES (1, 0);

  -- What the rules of the live generation have to do: a row for each of their actions.
  CREATE TABLE lifecycle_scans (
    gen INTEGER NOT NULL,
    rule TEXT NOT NULL,
    -- 0 files expire, 1 multipart uploads are aborted
    action INTEGER NOT NULL,
    -- when the next scan begins; null: nothing is there that can become due
    due INTEGER,
    -- the newest commit when the last scan ended
    seen INTEGER,
    -- while a scan goes on, the midnight that it is for; what was written before cutoff is due
    midnight INTEGER,
    cutoff INTEGER,
    -- it has looked at all up to here; 1: at everything
    path TEXT,
    upload TEXT,
    through INTEGER NOT NULL DEFAULT 0,
    -- when the oldest was written of what stays
    oldest INTEGER,
    -- the id of the open commit that the deletions are staged in
    openCommit TEXT,
    -- 1: tags alone were set somewhere since the scan began, so that it is not known what is due next
    retagged INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (gen, rule, action)
  ) WITHOUT ROWID;

  -- Pipelines that read the branch.
  CREATE TABLE subscribers (
    uid TEXT PRIMARY KEY,
    pipeline TEXT NOT NULL,
    -- its low-water mark: the oldest position that it needs, all since then included; null if it never told: it needs
    -- everything
    gen INTEGER,
    seq INTEGER,
    -- the oldest job that has not ended, which is why it needs that; null if there is none
    job TEXT
  ) WITHOUT ROWID;
${OUTBOX}`;

/** Uploads of what several outcomes share, of which nobody knows yet whether results name them. */
const SHARED_UPLOADS = `
  -- 1, of what outcomes share: the pipeline said that results name what it holds.
  ALTER TABLE uploads ADD COLUMN isNamed INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX uploads_shared ON uploads (id)
    WHERE isNamed = 0 AND lost = 0 AND lease >= 'shared.' AND lease < 'shared/';
`;

/** Copies of erased blobs, and of those of a branch that was deleted, which caches near readers are to forget. */
const CACHE_PURGES = `
  -- 1: a version that had it was erased
  ALTER TABLE contents ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE pending_deletions ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;

  -- What copies of deleted blobs are tagged with.
  CREATE TABLE cache_purges (
    tag TEXT PRIMARY KEY,
    due INTEGER NOT NULL,
    -- when it is purged for the last time
    last INTEGER NOT NULL,
    -- how often blobs with the tag were deleted since the row is there
    marks INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX cache_purges_by_due ON cache_purges (due);
`;

/** Whether what is read of the newest state may be some seconds old. */
const NEAR_READS = `
  ALTER TABLE settings ADD COLUMN nearReads INTEGER NOT NULL DEFAULT 0;
`;

/** Where the object was made. */
const PLACE = `
  -- One row if a region was named when the object was made, which stays where it is whatever is named later.
  CREATE TABLE place (one INTEGER PRIMARY KEY CHECK (one = 1), region TEXT NOT NULL, hint TEXT);
`;

/** Append only: an entry is never edited once it was released. */
export const MIGRATIONS: readonly string[] = [SCHEMA, SHARED_UPLOADS, CACHE_PURGES, NEAR_READS, PLACE];
