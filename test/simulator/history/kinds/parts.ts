import { chunkBlobName, manifestBlobName } from "../../../../worker/blobs/blob-name.ts";
import type { Chunk, Content } from "../../../../worker/blobs/content.ts";
import type { StoredAttributes } from "../../../../worker/branch/contract/files.ts";
import type { Completed, Part, PartBody } from "../../../../worker/branch/contract/multipart.ts";
import { digestOf, idOf } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import { type Answer, changed } from "../model.ts";
import { byBytes } from "../pages.ts";
import { type Asked, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { attributesOf, isSame, type State } from "../states.ts";
import { refusal } from "./answers.ts";
import { conditionOf, type Expected, someText } from "./files.ts";
import { isUpload, putInto } from "./open-commits.ts";

/** Uploads of one object in parts: each client goes on with any of them. */
export const PART_KINDS = {
  "upload in parts": { weight: 3, take: story },
  "go on with upload": { weight: 4, take: goOn },
} satisfies Record<string, Kind>;

/** How long one lives to which nothing is added: some are left behind, and end by themselves. */
const TTLS_MS = [200, 2_000, 60_000, ...Array<number>(3).fill(100 * 24 * 60 * 60_000)];
/** A clock of the object may say less than the one by which it is seen; milliseconds. */
const SLACK_MS = 50;
const NUMBERS = [1, 2, 3];

/** A call about one upload, whose id is that of the step or begins with it. */
interface On {
  readonly upload: string;
  readonly path: string;
  readonly goesInto: string | null;
  readonly uid: string;
  readonly id: string;
}

/** One that this client begins, fills and mostly completes. */
async function story(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const begun = await create(stage, turn);
  if (begun === undefined) return;
  for (let n = 0; n < 1 + random.below(3); n++) await addPart(stage, turn, { ...begun, id: `${id}.${n}` });
  if (random.chance(0.6)) await complete(stage, { ...turn, bucket }, { ...begun, id: `${id}.end` });
}

async function create(stage: Stage, { id, random, bucket }: Turn): Promise<On | undefined> {
  const branch = stage.branch(bucket);
  const path = random.pick(PATHS);
  const open = random.chance(0.2) ? await branch.openCommits.list({ limit: 100 }) : undefined;
  const all = open?.ok ? open.openCommits : [];
  const some = all.filter(({ annotation }) => !annotation?.message?.startsWith("expired by"));
  const into = some.length > 0 ? random.pick(some).openCommit : undefined;
  const asked = { id, bucket, text: `begin upload ${id} of ${path}${into ? ` into ${into}` : ""}` };
  const ttlMs = random.pick(TTLS_MS);
  const request = { path, attributes: attributesFor(path), ttlMs, annotation: { message: `${id}.begun` } };
  const answer = await stage.ask(
    asked,
    () => branch.multipart.create({ ...request, ...(into !== undefined && { openCommit: into }) }),
    (created) =>
      created.ok
        ? { kind: "saw", what: "begun", of: ({ beside }) => beside.has(created.upload) }
        : refusal(created),
  );
  if (!answer?.ok) return undefined;
  const { upload, uid } = answer;
  stage.ttls.set(upload, ttlMs - SLACK_MS);
  return { upload, path, goesInto: into ?? null, uid, id };
}

/** Goes on with one that somebody began. */
async function goOn(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const { multipart } = stage.branch(bucket);
  const listed = await stage.ask(
    { id: `${id}.list`, bucket, text: `list ${id} of uploads` },
    () => multipart.list({ prefix: "", limit: 1000 }),
    (answer) => {
      if (!answer.ok) return refusal(answer);
      const ids = answer.uploads.map(({ upload }) => upload).sort();
      return {
        kind: "saw",
        what: `listed ${ids}`,
        of: ({ generation, beside }) => generation !== null && String(uploads(beside)) === String(ids),
      };
    },
  );
  if (random.chance(0.3)) await page(stage, turn);
  const found = listed?.ok ? listed.uploads : [];
  // Now and then one of which only the list of a while ago tells.
  for (const { upload } of found) stage.uploads.add(upload);
  const known = [...(random.chance(0.8) ? found.map(({ upload }) => upload) : stage.uploads)];
  if (known.length === 0) return;
  const upload = random.pick(known);
  const status = await multipart.status({ upload });
  if (!status.ok) return;
  const { path, uid, openCommit = null } = status;
  const on = { upload, path, uid, goesInto: openCommit, id };
  const act = random.pick([addPart, addPart, complete, complete, complete, abort, list, save]);
  await act(stage, turn, on);
}

/** Some of the uploads, of some paths, behind a place; into one of the open commits, or into none. */
async function page(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const prefix = random.pick(["", "dir/", "b"]);
  const path = random.pick(PATHS);
  const limit = 1 + random.below(3);
  const known = [...stage.uploads];
  const mark = random.pick<string | undefined>([undefined, ...known.slice(-3)]);
  const after = random.chance(0.6) ? { path, ...(mark !== undefined && { upload: mark }) } : undefined;
  const states = stage.observers.get(bucket)?.last.beside ?? new Map();
  const open = [...states.keys()].filter((name) => !isUpload(name));
  const into = random.chance(0.3) ? random.pick([...open, "01K0000000000000000000000Z"]) : null;
  const request = { prefix, limit, ...(after && { after }), ...(into !== null && { openCommit: into }) };
  await stage.ask(
    { id: `${id}.page`, bucket, text: `page ${id} of uploads ${JSON.stringify(request)}` },
    () => stage.branch(bucket).multipart.list(request),
    (answer) => {
      if (!answer.ok) return refusal(answer);
      const ids = String(answer.uploads.map(({ upload }) => upload));
      const of = ({ generation, beside }: State) => {
        const all = [...beside]
          .flatMap(([name, { goesInto, path: at }]) =>
            isUpload(name) && goesInto === into && at?.startsWith(prefix) ? [{ at, name }] : [],
          )
          .filter(({ at, name }) => after === undefined || isBehind({ at, name }, after))
          .sort((one, other) => byBytes(one.at, other.at) || byBytes(one.name, other.name));
        const some = String(all.slice(0, limit).map(({ name }) => name));
        return generation !== null && some === ids && all.length > limit === answer.truncated;
      };
      return { kind: "saw", what: `page ${ids} ${answer.truncated}`, of };
    },
  );
}

function isBehind(
  { at, name }: { at: string; name: string },
  { path, upload }: { path: string; upload?: string },
): boolean {
  if (at !== path) return byBytes(at, path) > 0;
  return upload !== undefined && byBytes(name, upload) > 0;
}

/** What the object of an upload has beside its bytes. */
function attributesFor(path: string): StoredAttributes {
  return { contentType: "text/plain", metadata: { at: path } };
}

function uploads(beside: State["beside"]): string[] {
  return [...beside]
    .flatMap(([name, { goesInto }]) => (isUpload(name) && goesInto === null ? [name] : []))
    .sort();
}

/** Bytes first, row second. */
async function addPart(stage: Stage, turn: Turn, { upload, uid, id }: On): Promise<void> {
  const { random, bucket } = turn;
  const number = random.pick(NUMBERS);
  const text = someText({ ...turn, id });
  const digest = stage.text(text);
  const blob = chunkBlobName(idOf(text), { uid, upload, write: write() });
  await stage.simulation.blobs.put(blob, new TextEncoder().encode(text));
  const chunk = { blob, offset: 0, length: idOf(text).size, leaves: "" };
  const content = { ...idOf(text), body: { kind: "chunks" as const, chunks: [chunk] } };
  const asked: Asked = {
    id,
    bucket,
    text: `part ${id} ${number} = ${digest.slice(0, 6)} of ${upload}`,
    fills: { into: upload, after: (_, entries) => new Map(entries).set(String(number), digest) },
  };
  const answer = await stage.ask(
    asked,
    () => stage.branch(bucket).multipart.addPart({ upload, number, content }),
    (added) => (added.ok ? { kind: "filled" } : uploadRefusal(added, upload)),
  );
  if (answer?.ok) stage.known.add(blob);
}

function write(): string {
  return crypto.randomUUID().slice(0, 8);
}

/** An upload is not there, or not any more. */
function uploadRefusal(answer: { readonly reason: string }, upload: string): Answer {
  if (answer.reason !== "no-such-upload") return refusal(answer);
  return { kind: "saw", what: answer.reason, of: ({ beside }) => !beside.has(upload) };
}

async function list(stage: Stage, { bucket }: Turn, { upload, id }: On): Promise<readonly Part[]> {
  const answer = await stage.ask(
    { id: `${id}.parts`, bucket, text: `parts ${id} of ${upload}` },
    () => stage.branch(bucket).multipart.parts({ upload, after: 0, limit: 1000 }),
    (listed) => {
      if (!listed.ok) return uploadRefusal(listed, upload);
      const parts = new Map(listed.parts.map(({ number, digest }) => [String(number), digest]));
      const of = ({ beside }: State) => {
        const filled = beside.get(upload);
        return filled !== undefined && isSame(filled.entries, parts);
      };
      return { kind: "saw", what: `listed ${JSON.stringify([...parts])}`, of };
    },
  );
  return answer?.ok ? answer.parts : [];
}

/** How far a long completion is, for whoever goes on with it. */
async function save(stage: Stage, { bucket }: Turn, { upload, id }: On): Promise<void> {
  const { multipart } = stage.branch(bucket);
  const saved = await insisted(() => multipart.saveProgress({ upload, progress: `at ${id}` }));
  if (!saved?.ok) return;
  const status = await insisted(() => multipart.status({ upload }));
  if (status?.ok && status.completed === null && !status.progress?.startsWith("at "))
    stage.wrong.push(`${bucket}: the upload ${upload} has forgotten how far it is: ${status.progress}`);
}

/** As the gateway does it: an object whose chunks are those of the parts, which it keeps. If the answer is lost, it asks again. */
async function complete(stage: Stage, turn: Turn, on: On): Promise<void> {
  const { random, bucket } = turn;
  const { upload, id } = on;
  const parts = (await list(stage, turn, on)).filter(() => random.chance(0.9));
  if (parts.length === 0) return;
  const bodies = await bodiesOf(stage, { bucket, upload, numbers: parts.map(({ number }) => number) });
  // A part that was replaced since it was listed is not what was asked for.
  const isAsListed = parts.every(({ digest }, index) => bodies[index]?.digest === digest);
  if (!isAsListed) return;
  const made = await objectOf(stage, bodies, { ...on, asManifest: random.chance(0.3) });
  const condition = conditionOf(random);
  for (let n = 0; n < 2; n++) {
    const again = n === 0 ? id : `${id}.${n}`;
    const done = await completeOnce(stage, { bucket, on: { ...on, id: again }, made, condition });
    if (done && random.chance(0.8)) break;
  }
}

/** Where the bytes of parts are, of which one answer may hold some. */
async function bodiesOf(
  stage: Stage,
  { bucket, upload, numbers }: { bucket: string; upload: string; numbers: readonly number[] },
): Promise<readonly PartBody[]> {
  const bodies: PartBody[] = [];
  while (bodies.length < numbers.length) {
    const rest = numbers.slice(bodies.length);
    const answer = await stage.branch(bucket).multipart.bodies({ upload, numbers: rest });
    if (!answer.ok || answer.parts.length === 0) break;
    bodies.push(...answer.parts);
  }
  return bodies;
}

interface MadeObject {
  readonly text: string;
  readonly content: Content;
  readonly parts: readonly Pick<Part, "number" | "digest" | "size">[];
  /** Blobs that were made for it. */
  readonly blobs: readonly string[];
}

async function objectOf(
  stage: Stage,
  parts: readonly PartBody[],
  { uid, upload, asManifest }: On & { readonly asManifest: boolean },
): Promise<MadeObject> {
  const text = parts.map(({ digest }) => stage.texts.get(digest) ?? "").join("");
  const made = stage.madeOf.get(stage.text(text)) ?? new Set();
  stage.madeOf.set(digestOf(text), made);
  for (const { digest } of parts) made.add(digest);
  const named = parts.map(({ number, digest, size }) => ({ number, digest, size }));
  const [only] = parts;
  if (only && parts.length === 1 && !asManifest) {
    const { digest, size, body, life } = only;
    return {
      text,
      parts: named,
      blobs: [],
      content: { digest, size, body, keeps: [{ digest, size, life }] },
    };
  }
  const chunks: Chunk[] = parts.flatMap(({ body }) => (body.kind === "chunks" ? body.chunks : []));
  const lives = new Map(parts.map(({ digest, size, life }) => [digest, { digest, size, life }]));
  const common = { ...idOf(text), keeps: [...lives.values()] };
  if (!asManifest)
    return { text, parts: named, blobs: [], content: { ...common, body: { kind: "chunks", chunks } } };
  const size = chunks.reduce((sum, { length }) => sum + length, 0);
  const page = await writeJson(stage, chunks, { uid, upload });
  const manifest = await writeJson(stage, [{ blob: page.blob, length: page.length, size }], { uid, upload });
  const blobs = [page.blob, manifest.blob];
  made.add(page.digest).add(manifest.digest);
  return {
    text,
    parts: named,
    blobs,
    content: { ...common, body: { kind: "manifest", blob: manifest.blob, length: manifest.length } },
  };
}

/** A manifest or a page of one, as a blob. */
async function writeJson(
  stage: Stage,
  items: readonly unknown[],
  { uid, upload }: { uid: string; upload: string },
): Promise<{ blob: string; length: number; digest: string }> {
  const text = JSON.stringify(items);
  const blob = manifestBlobName(idOf(text), { uid, upload, write: write() });
  await stage.simulation.blobs.put(blob, new TextEncoder().encode(text));
  return { blob, length: idOf(text).size, digest: digestOf(text) };
}

async function completeOnce(
  stage: Stage,
  {
    bucket,
    on: { upload, path, goesInto, id },
    made: { text, content, parts, blobs },
    condition: expected,
  }: { bucket: string; on: On; made: MadeObject; condition: Expected | undefined },
): Promise<Completed | undefined> {
  const digest = digestOf(text);
  const hasParts = ({ beside }: State) => {
    const entries = beside.get(upload)?.entries;
    return parts.every((part) => entries?.get(String(part.number)) === part.digest);
  };
  const isHeld = (state: State) => hasParts(state) && (expected?.holds(state.tree, path) ?? true);
  const common = {
    id,
    bucket,
    text: `complete ${id} of ${upload} = ${digest.slice(0, 6)} at ${path}${expected ? ` if ${expected.text}` : ""}`,
  };
  const sizes = parts.map(({ size }) => [size, 1] as const);
  const attributes = { ...attributesFor(path), parts: { sizes } };
  const hasAttributes = ({ attributes: all }: State) => all.get(path) === attributesOf(attributes);
  const asked: Asked =
    goesInto === null
      ? {
          ...common,
          leads: ({ before, after }) =>
            isHeld(before) &&
            hasAttributes(after) &&
            isSame(after.tree, changed(before.tree, [[path, digest]])),
          ends: {
            what: upload,
            may: (state) => isHeld(state) && hasAttributes(state) && state.tree.get(path) === digest,
          },
        }
      : {
          ...common,
          fills: putInto({ openCommit: goesInto, path, digest, expected }),
          ends: { what: upload, may: hasParts },
        };
  const request = { upload, parts, content, attributes: { parts: { sizes } }, annotation: { message: id } };
  const askedAt = stage.simulation.world.clock;
  const answer = await stage.ask(
    asked,
    () =>
      stage
        .branch(bucket)
        .multipart.complete({ ...request, ...(expected && { condition: expected.condition }) }),
    (done): Answer => {
      if (done.ok) return completedAnswer(stage, done, { bucket, upload, id, digest, askedAt });
      if (done.reason === "part-changed") return { kind: "saw", what: done.reason, of: () => true };
      const refused = goesInto === null ? expected?.refused(done.reason, path) : undefined;
      if (refused || done.reason !== "no-such-upload") return refused ?? refusal(done);
      const now = stage.simulation.world.clock;
      const of = (state: State) =>
        !state.beside.has(upload) && !stage.isMade(bucket, { name: upload, state, digest, now });
      return { kind: "saw", what: done.reason, of };
    },
  );
  if (!answer?.ok) return undefined;
  for (const blob of blobs) stage.known.add(blob);
  return answer;
}

/** What a completion says: the object is made once, for whoever asks. */
function completedAnswer(
  stage: Stage,
  { commit, digest: made }: Completed,
  {
    bucket,
    upload,
    id,
    digest,
    askedAt,
  }: { bucket: string; upload: string; id: string; digest: string; askedAt: number },
): Answer {
  const known = stage.ends.get(upload);
  stage.ends.set(upload, { commit, digest, at: askedAt });
  if (commit !== null && stage.messageOf(bucket, commit) === id) return { kind: "made", commit };
  const isRight = made === digest && (known === undefined || known.commit === commit);
  return {
    kind: "saw",
    what: `completed as ${commit}`,
    of: ({ beside }) => isRight && !beside.has(upload),
  };
}

async function abort(stage: Stage, { bucket }: Turn, { upload, id }: On): Promise<void> {
  const asked: Asked = {
    id,
    bucket,
    text: `abort ${id} of ${upload}`,
    ends: { what: upload, may: () => true },
  };
  await stage.ask(
    asked,
    () => stage.branch(bucket).multipart.abort({ upload }),
    (answer) =>
      answer.ok
        ? { kind: "saw", what: "aborted", of: ({ beside }) => !beside.has(upload) }
        : uploadRefusal(answer, upload),
  );
}
