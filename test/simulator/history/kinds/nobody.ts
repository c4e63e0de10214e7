import { isDeepStrictEqual } from "node:util";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { idOf, inline } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import type { Kind, Stage, Turn } from "../stage.ts";

/**
 * Whoever asks for a branch that never was is told so, and nothing is made by that. Nor has any branch what is asked for by an id
 * of nothing.
 */
export const NOBODY_KINDS = {
  "ask nobody": { weight: 2, take: ask },
} satisfies Record<string, Kind>;

const BUCKET = "nobody.photos";
const UPLOAD = `${BUCKET}.01K0000000000000000000000Z`;
const ID = "01K0000000000000000000000Z";
const PLACE = { generation: 1, seq: 1 };
const CONTENT = idOf("nobody wrote this");

const refused = (reason: string) => ({ ok: false, reason });
const NO_BRANCH = refused("no-such-branch");
const NO_UPLOAD = refused("no-such-upload");
const NO_EXPORT = refused("no-such-export");
const NO_IMPORT = refused("no-such-import");
const NOT_OPEN = refused("no-such-open-commit");
const NONE = undefined;

type Question = readonly [ask: (branch: BranchApi) => Promise<unknown>, answer: unknown];

/** All that can be asked, and what is answered. What makes a branch, or is kept for one that may come, is not among it. */
const QUESTIONS: Readonly<Record<string, Question>> = {
  "its state": [({ lifecycle }) => lifecycle.inspect(), NO_BRANCH],
  "its status": [({ lifecycle }) => lifecycle.status(), NO_BRANCH],
  "its public status": [({ lifecycle }) => lifecycle.status({ publicOnly: true }), refused("not-public")],
  "its end": [({ lifecycle }) => lifecycle.destroy({ withFiles: true }), NO_BRANCH],
  "its settings": [({ settings }) => settings.read(), NO_BRANCH],
  "other settings": [({ settings }) => settings.change({ public: true }), NO_BRANCH],
  "a view": [({ files }) => files.view({ view: ID }), NOT_OPEN],
  "a tag as a view": [({ files }) => files.view({ view: "v1" }), NOT_OPEN],
  "a file": [({ files }) => files.read({ path: "a" }), NO_BRANCH],
  "a file of a commit": [({ files }) => files.read({ path: "a", commit: ID }), NO_BRANCH],
  "a file in an open commit": [({ files }) => files.read({ path: "a", openCommit: ID }), NOT_OPEN],
  "its files": [({ files }) => files.list({ prefix: "", limit: 10 }), NO_BRANCH],
  "its versions": [({ files }) => files.versions({ prefix: "", limit: 10 }), NO_BRANCH],
  "a content": [({ files }) => files.content(CONTENT), refused("no-such-content")],
  "blobs to be kept": [
    ({ files }) => files.keepBlobs({ blobs: [] }),
    { ok: true, borrowed: false, parents: [] },
  ],
  "a put": [({ files }) => files.put({ path: "a", content: inline("red"), attributes: {} }), NO_BRANCH],
  "a commit": [({ files }) => files.commit({ operations: [{ delete: "a" }] }), NO_BRANCH],
  tags: [({ files }) => files.setTags({ path: "a", tags: [] }), NO_BRANCH],
  "an upload": [({ uploads }) => uploads.open({}), NO_BRANCH],
  "an upload of a lease": [({ uploads }) => uploads.open({ lease: ID }), NO_BRANCH],
  "an upload to go on": [({ uploads }) => uploads.renew({ upload: UPLOAD }), NO_UPLOAD],
  "contents to come": [({ uploads }) => uploads.add({ upload: UPLOAD, contents: [] }), NO_UPLOAD],
  "contents to be reserved": [
    ({ uploads }) => uploads.reserve({ upload: UPLOAD, contents: [CONTENT] }),
    NO_UPLOAD,
  ],
  "contents of an upload": [
    ({ uploads }) => uploads.bodies({ upload: UPLOAD, contents: [CONTENT] }),
    NO_UPLOAD,
  ],
  "contents to go": [({ uploads }) => uploads.letGo({ contents: [{ ...CONTENT, upload: UPLOAD }] }), NONE],
  "uploads to be trimmed": [({ uploads }) => uploads.trim({ uploads: [{ upload: UPLOAD, keep: [] }] }), NONE],
  "the end of an upload": [({ uploads }) => uploads.abort({ upload: UPLOAD }), NONE],
  "the end of leases": [({ uploads }) => uploads.abortLeases({ leases: [ID] }), NONE],
  "an upload in parts": [
    ({ multipart }) => multipart.create({ path: "a", attributes: {}, ttlMs: 1000 }),
    NO_BRANCH,
  ],
  "an upload in parts into an open commit": [
    ({ multipart }) => multipart.create({ path: "a", attributes: {}, ttlMs: 1000, openCommit: ID }),
    NOT_OPEN,
  ],
  "the status of an upload in parts": [({ multipart }) => multipart.status({ upload: UPLOAD }), NO_UPLOAD],
  "a part": [
    ({ multipart }) => multipart.addPart({ upload: UPLOAD, number: 1, content: inline("red") }),
    NO_UPLOAD,
  ],
  parts: [({ multipart }) => multipart.parts({ upload: UPLOAD, after: 0, limit: 10 }), NO_UPLOAD],
  "bodies of parts": [({ multipart }) => multipart.bodies({ upload: UPLOAD, numbers: [1] }), NO_UPLOAD],
  "uploads in parts": [({ multipart }) => multipart.list({ prefix: "", limit: 10 }), NO_BRANCH],
  progress: [({ multipart }) => multipart.saveProgress({ upload: UPLOAD, progress: "1" }), NO_UPLOAD],
  "the object of parts": [
    ({ multipart }) => multipart.complete({ upload: UPLOAD, parts: [], content: inline(""), attributes: {} }),
    NO_BRANCH,
  ],
  "the end of parts": [({ multipart }) => multipart.abort({ upload: UPLOAD }), NO_UPLOAD],
  "an open commit": [({ openCommits }) => openCommits.start({ ttlMs: 1000 }), NO_BRANCH],
  "the status of an open commit": [({ openCommits }) => openCommits.status({ openCommit: ID }), NOT_OPEN],
  "open commits": [({ openCommits }) => openCommits.list({ limit: 10 }), NO_BRANCH],
  "changes of an open commit": [
    ({ openCommits }) => openCommits.changes({ openCommit: ID, after: "", limit: 10 }),
    NOT_OPEN,
  ],
  "the finish of an open commit": [({ openCommits }) => openCommits.finish({ openCommit: ID }), NO_BRANCH],
  "the end of an open commit": [({ openCommits }) => openCommits.abort({ openCommit: ID }), { ok: true }],
  "a revert": [({ openCommits }) => openCommits.revert({ commit: ID }), NO_BRANCH],
  "the log": [({ history }) => history.list({ limit: 10 }), NO_BRANCH],
  "a commit of the log": [({ history }) => history.commit({ commit: ID }), NO_BRANCH],
  "a difference": [({ history }) => history.diff({ from: null, to: ID, after: "", limit: 10 }), NO_BRANCH],
  "a redaction": [({ history }) => history.redact({ commit: ID, key: "ann" }), NO_BRANCH],
  "a tag": [({ tags }) => tags.find({ name: "v1" }), NO_BRANCH],
  "a new tag": [({ tags }) => tags.create({ name: "v1", force: true }), NO_BRANCH],
  "the end of a tag": [({ tags }) => tags.delete({ name: "v1" }), NO_BRANCH],
  "an erasure": [
    ({ erasures }) => erasures.erase({ versions: [{ path: "a", version: ID }], forks: [] }),
    NO_BRANCH,
  ],
  spans: [
    ({ erasures }) => erasures.spans({ versions: [{ path: "a", version: ID }] }),
    { files: [], readers: [] },
  ],
  holders: [({ erasures }) => erasures.holders({ contents: [CONTENT] }), NO_BRANCH],
  "what was erased": [({ erasures }) => erasures.list({ uid: ID, after: 3 }), { erasures: [], upTo: 3 }],
  "a root": [({ forks }) => forks.addRoot({ fork: ID, bucket: "one.photos" }), refused("no-such-parent")],
  "what a root has": [({ forks }) => forks.rootPage({ fork: ID, after: "" }), refused("no-such-root")],
  "the end of a root": [({ forks }) => forks.dropRoot({ fork: ID }), NONE],
  "what a fork has": [
    ({ forks }) => forks.copies({ fork: ID, paths: ["a"], contents: [CONTENT] }),
    { ok: true, versions: [], has: [] },
  ],
  "what a fork gives back": [
    ({ forks }) => forks.giveBack({ fork: ID, contents: [CONTENT], number: 1 }),
    { ok: true },
  ],
  "that a pipeline reads no more": [({ feed }) => feed.unsubscribe({ uid: ID }), NONE],
  "how far a pipeline has read": [
    ({ feed }) => feed.setMark({ ...PLACE, uid: ID, job: null, starts: [] }),
    NONE,
  ],
  "its feed": [
    async ({ feed }) => ({ ...(await feed.read({ cursor: PLACE, limit: 10 })), now: 0 }),
    { events: [], more: false, now: 0 },
  ],
  "changes of a commit": [
    ({ feed }) => feed.changes({ ...PLACE, after: "", limit: 10 }),
    { changes: [], next: null },
  ],
  "files at a place": [
    ({ feed }) => feed.filesAt({ ...PLACE, prefix: "", after: "", limit: 10 }),
    { files: [], next: null },
  ],
  "a fingerprint": [({ feed }) => feed.fingerprint({ ...PLACE, path: "" }), null],
  "a comparison": [({ feed }) => feed.compare({ from: PLACE, to: PLACE, paths: [""] }), null],
  "what is kept": [({ feed }) => feed.kept({ commits: [ID] }), { kept: [ID] }],
  "a place": [({ feed }) => feed.position({ commit: ID }), null],
  "the end of a claim": [({ output }) => output.release({ uid: ID, destroy: true }), NONE],
  "a job's commit": [
    ({ output }) => output.commit({ uid: ID, epoch: 1, origin: "job", operations: [] }),
    NO_BRANCH,
  ],
  "a part of a job's commit": [
    ({ output }) => output.stage({ uid: ID, epoch: 1, origin: "job", operations: [], anew: false }),
    NO_BRANCH,
  ],
  "an export": [({ exports }) => exports.begin(), NO_BRANCH],
  "commits of an export": [({ exports }) => exports.commits({ export: ID, after: 0 }), NO_EXPORT],
  "tags of an export": [({ exports }) => exports.tags({ export: ID, after: "" }), NO_EXPORT],
  "files of an export": [
    ({ exports }) => exports.files({ export: ID, after: { path: "", born: 0 } }),
    NO_EXPORT,
  ],
  "the end of an export": [({ exports }) => exports.end({ export: ID }), NONE],
  "commits for an import": [
    ({ imports }) => imports.commits({ import: ID, after: 0, commits: [] }),
    NO_IMPORT,
  ],
  "tags for an import": [({ imports }) => imports.tags({ import: ID, after: "", tags: [] }), NO_IMPORT],
  "files for an import": [
    ({ imports }) => imports.files({ import: ID, after: { path: "", born: 0 }, files: [], contents: [] }),
    NO_IMPORT,
  ],
  "the finish of an import": [
    ({ imports }) => imports.finish({ import: ID, counts: { commits: 0, tags: 0, files: 0 } }),
    NO_IMPORT,
  ],
  "the end of an import": [({ imports }) => imports.abort({ import: ID }), NONE],
  "its loops": [({ admin }) => admin.loops(), null],
  "to be announced": [({ admin }) => admin.announce(), NO_BRANCH],
  "its usage": [({ admin }) => admin.usage({}), NO_BRANCH],
  "its size": [({ admin }) => admin.usage({ sizes: true }), NO_BRANCH],
  "a scan": [({ admin }) => admin.sweep({ remove: true }), NO_BRANCH],
  "how a scan stands": [({ admin }) => admin.sweepStatus({ since: 0 }), NO_BRANCH],
  "its names": [({ admin }) => admin.checkNames({ after: null }), NO_BRANCH],
  "its contents": [({ admin }) => admin.checkContents({ after: 0 }), NO_BRANCH],
  "names of a content": [({ admin }) => admin.namesOf({ ...CONTENT, gen: 1, limit: 10 }), []],
  "forks that hold a content": [({ admin }) => admin.forksHolding(CONTENT), []],
};

/** Most questions of one step. */
const MOST = 6;

async function ask(stage: Stage, turn: Turn): Promise<void> {
  const { id, random } = turn;
  if (random.chance(0.3)) return await askSomebody(stage, turn);
  const branch = stage.branch(BUCKET);
  for (let n = 0; n < MOST; n++) {
    const what = random.pick(Object.keys(QUESTIONS));
    const [question, answer] = QUESTIONS[what] as Question;
    const heard = await insisted(async () => ({ answer: await question(branch) }));
    if (heard && !isDeepStrictEqual(heard.answer, answer))
      stage.wrong.push(`${BUCKET}: asked for ${what} by ${id}, it answers ${JSON.stringify(heard.answer)}`);
  }
  if (stage.simulation.branches.object(BUCKET).storage.has("generations"))
    stage.wrong.push(`${BUCKET} was made by who asked for it`);
}

/** What is asked for by an id is refused so if that is of nothing. */
const BY_ID = [NO_UPLOAD, NO_EXPORT, NO_IMPORT, NOT_OPEN, refused("no-such-root")];

async function askSomebody(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const branch = stage.branch(bucket);
  const byId = Object.keys(QUESTIONS).filter((what) =>
    BY_ID.some((refusal) => isDeepStrictEqual(refusal, QUESTIONS[what]?.[1])),
  );
  for (let n = 0; n < MOST; n++) {
    const what = random.pick(byId.filter((one) => one !== "a tag as a view"));
    const [question] = QUESTIONS[what] as Question;
    const heard = await insisted(async () => ({ answer: (await question(branch)) as { ok: boolean } }));
    if (heard?.answer.ok)
      stage.wrong.push(`${bucket}: asked for ${what} by ${id}, it answers ${JSON.stringify(heard.answer)}`);
  }
}
