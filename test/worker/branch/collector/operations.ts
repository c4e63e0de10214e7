import { pipelineOf, workOnce } from "../../pipeline/support.ts";
import { xml } from "../../s3/support.ts";
import { branchOf, DAY_MS } from "../support.ts";
import {
  ask,
  type BranchState,
  bytesOf,
  EMPTY,
  joinedName,
  type KnownCommit,
  nameOf,
  overlay,
  type State,
  TAGS,
  type Tree,
  type Upload,
  uploadTarget,
  viewOf,
  withBranch,
  withPath,
} from "./world.ts";

const PATHS = ["a", "b", "d/c"];
const PART_NUMBERS = [1, 2, 3];
/** S3's smallest part that is not the last. */
const LARGE_PART = 5 * 1024 * 1024;

/** Something that may be done now. */
export interface Attempt {
  readonly what: string;
  /** What holds when it is done. */
  readonly after: State;
  /** Does it. Throws if it is not acknowledged. */
  act(): Promise<void>;
  /** What holds when it is acknowledged, if its answer names something that was made. Absent: `after`. */
  made?(): State;
  /** If it is cut off, it goes on by itself. */
  readonly settles?: true;
  /** It may be refused without any fault. */
  readonly mayFail?: true;
  /** A version that it erases: no commit has it at its path afterwards. */
  readonly erases?: Version;
  /** Whether it was done, if what HEAD has does not tell. */
  isDone?(): Promise<boolean>;
}

/** What a commit wrote at a path, or that it deleted it. */
export interface Version {
  readonly bucket: string;
  readonly path: string;
  readonly commit: string;
}

/** What an operation may look at. */
export interface Scene {
  readonly state: State;
  readonly random: () => number;
  /** The commits of a branch's present life. */
  history(bucket: string): readonly KnownCommit[];
  /** The versions that a branch has for sure, with what HEAD has when each is erased. */
  versions(bucket: string): readonly (Version & { readonly left: Tree })[];
  /** A pipeline whose input is the first bucket; absent: there is none. */
  readonly pipeline?: string;
  /** Time passes. */
  pass(ms: number): Promise<void>;
}

/** A kind of thing that a history does, and how often beside the others. Returns nothing if it can't be done now. */
export interface Operation {
  readonly name: string;
  readonly weight: number;
  readonly attempt: (scene: Scene) => Attempt | undefined;
}

/** Bytes that files have: two kept in rows, the others in blobs; few, so that the same bytes come again and again. */
const BODIES = [300, 301, 5000, 5001, 5002, 5003].map((size, seed) => nameOf(fill(size, seed)));
const LARGE_BODY = nameOf(fill(LARGE_PART, 99));

function fill(size: number, seed: number): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`content ${seed} `.repeat(Math.ceil(size / 10))).slice(0, size);
}

/** Contents that files have with the layout of their parts, or without: the same bytes are then another version. */
export const withLayout = new Set<string>();

/** Everything that a history is made of. Whatever gives bytes back or holds them has an entry here. */
export const OPERATIONS: readonly Operation[] = [
  { name: "put", weight: 12, attempt: put },
  { name: "delete", weight: 5, attempt: deleteFile },
  { name: "delete several", weight: 2, attempt: deleteFiles },
  { name: "copy", weight: 6, attempt: copy },
  { name: "begin an upload", weight: 4, attempt: beginUpload },
  { name: "put a part", weight: 8, attempt: putPart },
  { name: "copy a part", weight: 3, attempt: copyPart },
  { name: "complete an upload", weight: 5, attempt: completeUpload },
  { name: "abort an upload", weight: 2, attempt: abortUpload },
  { name: "begin an open commit", weight: 3, attempt: beginOpenCommit },
  { name: "put into an open commit", weight: 6, attempt: stagePut },
  { name: "copy into an open commit", weight: 3, attempt: stageCopy },
  { name: "delete in an open commit", weight: 2, attempt: stageDeletion },
  { name: "finish an open commit", weight: 3, attempt: finishOpenCommit },
  { name: "abort an open commit", weight: 2, attempt: abortOpenCommit },
  { name: "tag a commit", weight: 3, attempt: tag },
  { name: "delete a tag", weight: 2, attempt: deleteTag },
  { name: "revert", weight: 2, attempt: revert },
  { name: "say how much is kept", weight: 4, attempt: keep },
  { name: "erase a version", weight: 5, attempt: erase },
  { name: "create a branch", weight: 3, attempt: createBranch },
  { name: "fork", weight: 5, attempt: fork },
  { name: "delete a branch", weight: 3, attempt: deleteBranch },
  { name: "run datums", weight: 4, attempt: runDatums },
  { name: "let time pass", weight: 6, attempt: letTimePass },
];

function put({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found) return undefined;
  const { bucket, branch } = found;
  const [path, name] = [one(PATHS, random), one(BODIES, random)];
  return {
    what: `put ${bucket}/${path}`,
    after: withBranch(state, bucket, { tree: withPath(branch.tree, path, name) }),
    act: () => done(`PUT /${bucket}/${path}`, bytesOf(name)),
  };
}

function deleteFile({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found) return undefined;
  const { bucket, branch } = found;
  const path = one(PATHS, random);
  return {
    what: `delete ${bucket}/${path}`,
    after: withBranch(state, bucket, { tree: withPath(branch.tree, path, null) }),
    act: () => done(`DELETE /${bucket}/${path}`),
  };
}

function deleteFiles({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found) return undefined;
  const { bucket, branch } = found;
  const paths = PATHS.filter(() => random() < 0.6);
  if (paths.length === 0) return undefined;
  const objects = paths.map((path) => `<Object><Key>${path}</Key></Object>`).join("");
  const tree = paths.reduce<Tree>((left, path) => withPath(left, path, null), branch.tree);
  return {
    what: `delete ${paths} of ${bucket}`,
    after: withBranch(state, bucket, { tree }),
    act: () => done(`POST /${bucket}?delete`, `<Delete>${objects}</Delete>`),
  };
}

/** Bytes of the branch or of another one, of HEAD or of a commit. */
function copy(scene: Scene): Attempt | undefined {
  const { state, random } = scene;
  const [found, source] = [anyBranch(state, random), anySource(scene)];
  if (!found || !source) return undefined;
  const { bucket, branch } = found;
  const path = one(PATHS, random);
  return {
    what: `copy ${source.target} to ${bucket}/${path}`,
    after: withBranch(state, bucket, { tree: withPath(branch.tree, path, source.name) }),
    act: () => copied(source, `PUT /${bucket}/${path}`),
  };
}

function beginUpload({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found || found.branch.uploads.size > 1) return undefined;
  const { bucket, branch } = found;
  const openCommit = random() < 0.3 ? anyKey(branch.openCommits, random) : undefined;
  const [key, into] = [one(PATHS, random), openCommit === undefined ? bucket : viewOf(openCommit, bucket)];
  let id = "";
  return {
    what: `begin an upload of ${into}/${key}`,
    after: state,
    async act() {
      const { InitiateMultipartUploadResult: begun } = await xml(ask(`POST /${into}/${key}?uploads`));
      id = begun.UploadId;
    },
    made() {
      const upload = { key, parts: new Map(), ...(openCommit !== undefined && { openCommit }) };
      return withBranch(state, bucket, { uploads: new Map(branch.uploads).set(id, upload) });
    },
  };
}

function putPart({ state, random }: Scene): Attempt | undefined {
  const found = anyUpload(state, random);
  if (!found) return undefined;
  const name = random() < 0.15 ? LARGE_BODY : one(BODIES, random);
  const number = one(PART_NUMBERS, random);
  return {
    what: `put part ${number} of ${found.target}`,
    after: withPart(state, found, { number, name }),
    act: () => done(`PUT ${found.target}&partNumber=${number}`, bytesOf(name)),
  };
}

function copyPart(scene: Scene): Attempt | undefined {
  const { state, random } = scene;
  const [found, source] = [anyUpload(state, random), anySource(scene)];
  if (!found || !source) return undefined;
  const number = one(PART_NUMBERS, random);
  return {
    what: `copy ${source.target} to part ${number} of ${found.target}`,
    after: withPart(state, found, { number, name: source.name }),
    act: () => copied(source, `PUT ${found.target}&partNumber=${number}`, {}),
  };
}

function completeUpload({ state, random }: Scene): Attempt | undefined {
  const found = anyUpload(state, random);
  if (!found) return undefined;
  const { bucket, branch, id, upload, target } = found;
  const named = [...upload.parts]
    .sort(([a], [b]) => a - b)
    .filter(([, name], index, all) => index === all.length - 1 || bytesOf(name).length >= LARGE_PART);
  if (named.length === 0) return undefined;
  const parts = named.map(
    ([number, etag]) => `<Part><PartNumber>${number}</PartNumber><ETag>"${etag}"</ETag></Part>`,
  );
  const name = joinedName(named.map(([, part]) => part));
  withLayout.add(name);
  const uploads = without(branch.uploads, id);
  const { key, openCommit } = upload;
  const written =
    openCommit === undefined
      ? { tree: withPath(branch.tree, key, name) }
      : { openCommits: withStaged(branch, openCommit, { path: key, name }) };
  const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
  return {
    what: `complete ${target} of ${named.map(([number]) => number)}`,
    after: withBranch(state, bucket, { uploads, ...written }),
    act: () => done(`POST ${target}`, body),
  };
}

function abortUpload({ state, random }: Scene): Attempt | undefined {
  const found = anyUpload(state, random);
  if (!found) return undefined;
  const { bucket, branch, id, target } = found;
  return {
    what: `abort ${target}`,
    after: withBranch(state, bucket, { uploads: without(branch.uploads, id) }),
    act: () => done(`DELETE ${target}`),
  };
}

function beginOpenCommit({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found || found.branch.openCommits.size > 1) return undefined;
  const { bucket, branch } = found;
  let id = "";
  return {
    what: `begin an open commit of ${bucket}`,
    after: state,
    async act() {
      const opened = await branchOf(bucket).openCommits.start({ ttlMs: 6 * DAY_MS });
      if (!opened.ok) throw new Error(opened.reason);
      id = opened.openCommit;
    },
    made: () => withBranch(state, bucket, { openCommits: new Map(branch.openCommits).set(id, new Map()) }),
  };
}

function stagePut({ state, random }: Scene): Attempt | undefined {
  const found = anyOpenCommit(state, random);
  if (!found) return undefined;
  const { bucket, branch, id } = found;
  const [path, name] = [one(PATHS, random), one(BODIES, random)];
  return {
    what: `put ${path} into ${viewOf(id, bucket)}`,
    after: withBranch(state, bucket, { openCommits: withStaged(branch, id, { path, name }) }),
    act: () => done(`PUT /${viewOf(id, bucket)}/${path}`, bytesOf(name)),
  };
}

function stageCopy(scene: Scene): Attempt | undefined {
  const { state, random } = scene;
  const [found, source] = [anyOpenCommit(state, random), anySource(scene)];
  if (!found || !source) return undefined;
  const { bucket, branch, id } = found;
  const [path, { name, target }] = [one(PATHS, random), source];
  return {
    what: `copy ${target} to ${path} of ${viewOf(id, bucket)}`,
    after: withBranch(state, bucket, { openCommits: withStaged(branch, id, { path, name }) }),
    act: () => copied(source, `PUT /${viewOf(id, bucket)}/${path}`),
  };
}

function stageDeletion({ state, random }: Scene): Attempt | undefined {
  const found = anyOpenCommit(state, random);
  if (!found) return undefined;
  const { bucket, branch, id } = found;
  const path = one(PATHS, random);
  return {
    what: `delete ${path} in ${viewOf(id, bucket)}`,
    after: withBranch(state, bucket, { openCommits: withStaged(branch, id, { path, name: null }) }),
    act: () => done(`DELETE /${viewOf(id, bucket)}/${path}`),
  };
}

/** Uploads into an open commit end with it. */
function withoutOpenCommit({ openCommits, uploads }: BranchState, id: string): Partial<BranchState> {
  const left = new Map([...uploads].filter(([, { openCommit }]) => openCommit !== id));
  return { openCommits: without(openCommits, id), uploads: left };
}

function finishOpenCommit({ state, random }: Scene): Attempt | undefined {
  const found = anyOpenCommit(state, random);
  if (!found) return undefined;
  const { bucket, branch, id, staged } = found;
  return {
    what: `finish ${viewOf(id, bucket)}`,
    after: withBranch(state, bucket, {
      tree: overlay(branch.tree, staged),
      ...withoutOpenCommit(branch, id),
    }),
    async act() {
      for (;;) {
        const end = await branchOf(bucket).openCommits.finish({ openCommit: id });
        if (!end.ok) throw new Error(end.reason);
        if (end.state === "finished") return;
        await scheduler.wait(1);
      }
    },
    settles: true,
  };
}

function abortOpenCommit({ state, random }: Scene): Attempt | undefined {
  const found = anyOpenCommit(state, random);
  if (!found) return undefined;
  const { bucket, branch, id } = found;
  return {
    what: `abort ${viewOf(id, bucket)}`,
    after: withBranch(state, bucket, withoutOpenCommit(branch, id)),
    async act() {
      const aborted = await branchOf(bucket).openCommits.abort({ openCommit: id });
      if (!aborted.ok) throw new Error(aborted.reason);
    },
  };
}

function tag({ state, random, history }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  const commit = found && pick(history(found.bucket), random);
  if (!found || !commit) return undefined;
  const { bucket, branch } = found;
  const name = one(TAGS, random);
  return {
    what: `tag ${viewOf(commit.id, bucket)} ${name}`,
    after: withBranch(state, bucket, { tags: new Map(branch.tags).set(name, commit.id) }),
    async act() {
      const made = await branchOf(bucket).tags.create({ name, commit: commit.id, force: true });
      if (!made.ok) throw new Error(made.reason);
    },
  };
}

function deleteTag({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  const name = found && anyKey(found.branch.tags, random);
  if (!found || name === undefined) return undefined;
  const { bucket, branch } = found;
  return {
    what: `delete the tag ${name} of ${bucket}`,
    after: withBranch(state, bucket, { tags: without(branch.tags, name) }),
    async act() {
      const gone = await branchOf(bucket).tags.delete({ name });
      if (!gone.ok) throw new Error(gone.reason);
    },
  };
}

function revert({ state, random, history }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  const commit = found && pick(history(found.bucket), random);
  if (!found || !commit) return undefined;
  const { bucket } = found;
  return {
    what: `revert ${bucket} to ${commit.id}`,
    after: withBranch(state, bucket, { tree: commit.tree }),
    async act() {
      const begun = await branchOf(bucket).openCommits.revert({ commit: commit.id });
      if (!begun.ok) throw new Error(begun.reason);
      for (;;) {
        const end = await branchOf(bucket).openCommits.finish({ openCommit: begun.openCommit });
        if (!end.ok) throw new Error(end.reason);
        if (end.state === "finished") return;
        await scheduler.wait(1);
      }
    },
    settles: true,
  };
}

const KEEPS = [null, { commits: 1 }, { commits: 3 }, { days: 1 }, { commits: 2, days: 1 }] as const;

function keep({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found) return undefined;
  const { bucket } = found;
  const kept = one(KEEPS, random);
  return {
    what: `keep ${JSON.stringify(kept)} of ${bucket}`,
    after: withBranch(state, bucket, { keep: kept }),
    async act() {
      const set = await branchOf(bucket).settings.change({ keep: kept });
      if (!set.ok) throw new Error(set.reason);
    },
  };
}

/** Refused while a fork holds it. */
function erase({ state, random, versions }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  const version = found && pick(versions(found.bucket), random);
  if (!version) return undefined;
  const { bucket, path, commit, left } = version;
  return {
    what: `erase ${bucket}/${path} of ${commit}`,
    after: withBranch(state, bucket, { tree: left }),
    act: () => done(`DELETE /${bucket}/${path}?versionId=${commit}`),
    erases: version,
    mayFail: true,
    async isDone() {
      const listed = await ask(`GET /${bucket}?versions&prefix=${path}`);
      return !(await listed.text()).includes(`<VersionId>${commit}</VersionId>`);
    },
  };
}

function createBranch({ state, random }: Scene): Attempt | undefined {
  const bucket = anyAbsent(state, random);
  if (bucket === undefined) return undefined;
  return {
    what: `create ${bucket}`,
    after: withBranch(state, bucket, EMPTY),
    act: () => done(`PUT /${bucket}`),
    settles: true,
  };
}

function fork({ state, random, history }: Scene): Attempt | undefined {
  const [bucket, found] = [anyAbsent(state, random), anyBranch(state, random)];
  const commit = found && pick(history(found.bucket), random);
  if (bucket === undefined || !found || !commit) return undefined;
  return {
    what: `make ${bucket} from ${viewOf(commit.id, found.bucket)}`,
    after: withBranch(state, bucket, {
      ...EMPTY,
      tree: commit.tree,
      from: { bucket: found.bucket, commit: commit.id },
    }),
    async act() {
      for (;;) {
        const made = await branchOf(bucket).lifecycle.fork({ parent: found.bucket, commit: commit.id });
        if (!made.ok) throw new Error(made.reason);
        if (made.ready) return;
        await scheduler.wait(1);
      }
    },
    settles: true,
  };
}

function deleteBranch({ state, random }: Scene): Attempt | undefined {
  const found = anyBranch(state, random);
  if (!found) return undefined;
  const { bucket } = found;
  return {
    what: `delete ${bucket}`,
    after: withBranch(state, bucket, null),
    async act() {
      const gone = await branchOf(bucket).lifecycle.destroy();
      if (!gone.ok) throw new Error(gone.reason);
    },
  };
}

/** A worker of the pipeline reads what its datums are made of, and sends their outputs. Its leases may be lost. */
function runDatums({ state, pipeline }: Scene): Attempt | undefined {
  if (pipeline === undefined) return undefined;
  return {
    what: `run datums of ${pipeline}`,
    after: state,
    mayFail: true,
    async act() {
      await workOnce(pipelineOf(pipeline), { max: 3 });
    },
  };
}

function letTimePass({ state, random, pass }: Scene): Attempt {
  const ms = one([15_000, 150_000, 600_000], random);
  return { what: `let ${ms / 1000} s pass`, after: state, act: () => pass(ms) };
}

interface FoundBranch {
  readonly bucket: string;
  readonly branch: BranchState;
}

interface FoundUpload extends FoundBranch {
  readonly id: string;
  readonly upload: Upload;
  /** Its address with its key. */
  readonly target: string;
}

interface Source {
  readonly target: string;
  readonly name: string;
}

export function anyBranch(state: State, random: () => number): FoundBranch | undefined {
  return pick(
    [...state].flatMap(([bucket, branch]) => (branch ? [{ bucket, branch }] : [])),
    random,
  );
}

function anyAbsent(state: State, random: () => number): string | undefined {
  return pick(
    [...state].flatMap(([bucket, branch]) => (branch ? [] : [bucket])),
    random,
  );
}

function anyUpload(state: State, random: () => number): FoundUpload | undefined {
  const all = [...state].flatMap(([bucket, branch]) =>
    [...(branch?.uploads ?? [])].map(([id, upload]) => {
      const target = uploadTarget(bucket, { id, upload });
      return { bucket, branch: branch ?? EMPTY, id, upload, target };
    }),
  );
  return pick(all, random);
}

function anyOpenCommit(state: State, random: () => number) {
  const all = [...state].flatMap(([bucket, branch]) =>
    [...(branch?.openCommits ?? [])].map(([id, staged]) => ({ bucket, branch: branch ?? EMPTY, id, staged })),
  );
  return pick(all, random);
}

/** A file of any branch, at HEAD or at a commit. */
function anySource({ state, random, history }: Scene): Source | undefined {
  const found = anyBranch(state, random);
  if (!found) return undefined;
  const { bucket, branch } = found;
  const commit = random() < 0.3 ? pick(history(bucket), random) : undefined;
  const file = pick([...(commit?.tree ?? branch.tree)], random);
  if (!file) return undefined;
  const [path, name] = file;
  return { target: `/${commit ? viewOf(commit.id, bucket) : bucket}/${path}`, name };
}

function withStaged(
  { openCommits }: BranchState,
  id: string,
  { path, name }: { path: string; name: string | null },
): BranchState["openCommits"] {
  return new Map(openCommits).set(id, new Map(openCommits.get(id)).set(path, name));
}

function withPart(
  state: State,
  { bucket, branch, id, upload }: FoundUpload,
  { number, name }: { number: number; name: string },
): State {
  const parts = new Map(upload.parts).set(number, name);
  return withBranch(state, bucket, { uploads: new Map(branch.uploads).set(id, { ...upload, parts }) });
}

function without<V>(map: ReadonlyMap<string, V>, key: string): ReadonlyMap<string, V> {
  return new Map([...map].filter(([other]) => other !== key));
}

async function done(line: string, body?: Uint8Array<ArrayBuffer> | string): Promise<void> {
  const response = await ask(line, body ? { body } : {});
  const text = await response.text();
  // A copy or a completion may fail after its answer has begun.
  if (text.includes("<Error>") && !text.includes("<DeleteResult")) throw new Error(`${line}: ${text}`);
}

async function copied(
  { target }: Source,
  line: string,
  headers: Record<string, string> = { "x-amz-metadata-directive": "REPLACE" },
): Promise<void> {
  const response = await ask(line, { headers: { ...headers, "x-amz-copy-source": target } });
  const text = await response.text();
  if (text.includes("<Error>")) throw new Error(`${line}: ${text}`);
}

export function pick<T>(items: readonly T[], random: () => number): T | undefined {
  return items[Math.floor(random() * items.length)];
}

function one<T>(items: readonly T[], random: () => number): T {
  return pick(items, random) as T;
}

function anyKey(map: ReadonlyMap<string, unknown>, random: () => number): string | undefined {
  return pick([...map.keys()], random);
}
