import type { Operation } from "../../../../worker/branch/contract/files.ts";
import { digestOf, idOf, inBlob, inline } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import { type Answer, type Change, changed } from "../model.ts";
import { type Asked, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { attributesOf, isSame, type State } from "../states.ts";
import { refusal, writeAnswer } from "./answers.ts";
import { conditionOf, someText } from "./files.ts";

/** Writes that are refused, or are done in part, and bytes that nobody names in the end. */
export const ODD_KINDS = {
  "odd write": { weight: 4, take: odd },
  bytes: { weight: 3, take: bytes },
} satisfies Record<string, Kind>;

async function odd(stage: Stage, turn: Turn): Promise<void> {
  await turn.random.pick([
    inTheWay,
    inTheWay,
    emptyDirectory,
    unfit,
    unfit,
    leaveOut,
    leaveOut,
    tagVersion,
    tagVersion,
  ])(stage, turn);
}

/** A file below a file, or where files have a directory; with nothing in its way it is there. */
async function inTheWay(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const path = random.pick(["a/below", "dir", "dir/c/below", "dir/sub"]);
  const text = someText(turn);
  const digest = stage.text(text);
  const isInTheWay = (other: string) => path.startsWith(`${other}/`) || other.startsWith(`${path}/`);
  const isDeleted = random.chance(0.4);
  const asked: Asked = {
    id,
    bucket,
    text: `${isDeleted ? "delete" : "put"} ${id} of ${path}`,
    leads: ({ before, after }: Change) =>
      isSame(after.tree, changed(before.tree, [[path, isDeleted ? null : digest]])),
  };
  const common = { annotation: { message: id } };
  const { files } = stage.branch(bucket);
  await stage.ask(
    asked,
    () =>
      isDeleted
        ? files.commit({ ...common, operations: [{ delete: path }] })
        : files.put({ ...common, path, content: inline(text), attributes: {} }),
    (answer): Answer => {
      if (answer.ok || answer.reason !== "path-conflict") return writeAnswer(answer);
      const of = ({ tree }: State) => !isDeleted && [...tree.keys()].some(isInTheWay);
      return { kind: "saw", what: answer.reason, of };
    },
  );
}

/** A directory that has nothing below it is a path of its own. */
async function emptyDirectory(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = "empty/";
  const digest = stage.text("");
  const isDeleted = random.chance(0.5);
  const asked: Asked = {
    id,
    bucket,
    text: `${isDeleted ? "delete" : "make"} ${id} ${path}`,
    leads: ({ before, after }: Change) =>
      isSame(after.tree, changed(before.tree, [[path, isDeleted ? null : digest]])),
  };
  const operations: readonly Operation[] = isDeleted ? [{ delete: path }] : [{ put: path, ...idOf("") }];
  await stage.ask(
    asked,
    () => stage.branch(bucket).files.commit({ operations, annotation: { message: id } }),
    writeAnswer,
  );
}

/** What can't be: paths that are none, contents that nobody brought, uploads that nobody opened. Nothing comes of it. */
async function unfit(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = random.pick(PATHS);
  if (random.chance(0.3)) return await unfitPut(stage, { id, random, bucket });
  const unknown = idOf(`nobody wrote ${id}`);
  const none = `${bucket}.01K0000000000000000000000Z`;
  const [reason, request] = random.pick([
    ["bad-path", { operations: [{ put: random.pick(["/a", "a//b", "a/../b"]), ...unknown }] }],
    ["bad-path", { operations: [{ put: "directory/", ...unknown }] }],
    ["no-such-content", { operations: [{ put: path, ...unknown }] }],
    ["no-such-upload", { operations: [{ put: path, ...unknown }], upload: none }],
    ["no-such-open-commit", { operations: [{ delete: path }], openCommit: "01K0000000000000000000000Z" }],
  ] as const);
  await stage.ask(
    { id, bucket, text: `write ${id} that is ${reason}` },
    () => stage.branch(bucket).files.commit({ ...request, annotation: { message: id } }),
    (answer): Answer => {
      const isRight = !answer.ok && answer.reason === reason;
      if (isRight) return { kind: "saw", what: reason, of: () => true };
      return answer.ok ? { kind: "saw", what: "done", of: () => false } : refusal(answer);
    },
  );
}

/** A put of what keeps a content that is not there, or into a commit that is made. */
async function unfitPut(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = random.pick(PATHS);
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  const openCommit = random.chance(0.5) && commits.length > 0 ? random.pick(commits.slice(-3)) : undefined;
  const { files, uploads } = stage.branch(bucket);
  const opened = await insisted(() => uploads.open({ ...(openCommit !== undefined && { openCommit }) }));
  if (opened?.ok && openCommit !== undefined)
    stage.wrong.push(`${bucket}: ${id} can bring something for ${openCommit}, which is made`);
  const text = `unfit ${id}`;
  const blob = `${digestOf(text)}-${idOf(text).size}.${bucket}.none`;
  const content = { ...inBlob(text, blob), keeps: [idOf(`nobody wrote ${id}`)] };
  const common = { path, attributes: {}, annotation: { message: id } };
  await stage.ask(
    { id, bucket, text: `put ${id} of ${path} that is unfit` },
    () =>
      openCommit === undefined
        ? files.put({ ...common, content })
        : files.put({ ...common, content: inline(text), openCommit }),
    (answer): Answer => (answer.ok ? { kind: "saw", what: "done", of: () => false } : refusal(answer)),
  );
}

/** Several paths, of which those are left out whose condition does not hold. */
async function leaveOut(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const { uploads, files } = stage.branch(bucket);
  const expected = conditionOf(random);
  const opened = await uploads.open({});
  if (!opened.ok || !expected) return;
  const { upload } = opened;
  const changes = PATHS.filter(() => random.chance(0.5)).map((path) => ({
    path,
    text: random.chance(0.3) ? null : someText(turn),
    isConditional: random.chance(0.6),
  }));
  const digests = changes.map(({ path, text }) => [path, text === null ? null : stage.text(text)] as const);
  const contents = changes.flatMap(({ text }) => (text === null ? [] : [inline(text)]));
  const added = await uploads.add({ upload, contents });
  if (!added.ok) return;
  const out = ({ tree }: State) =>
    changes.filter(({ path, isConditional }) => isConditional && !expected.holds(tree, path));
  const done = (state: State) => {
    const left = new Set(out(state).map(({ path }) => path));
    return changed(
      state.tree,
      digests.filter(([path]) => !left.has(path)),
    );
  };
  const operations = changes.map(({ path, text, isConditional }) => ({
    ...(text === null ? { delete: path } : { put: path, ...idOf(text) }),
    ...(isConditional && { condition: expected.condition }),
  }));
  await stage.ask(
    {
      id,
      bucket,
      text: `commit ${id} of ${JSON.stringify(changes)} where ${expected.text}`,
      leads: ({ before, after }) => isSame(after.tree, done(before)),
    },
    () => files.commit({ upload, operations, onFailedCondition: "leave-out", annotation: { message: id } }),
    (answer): Answer => {
      if (!answer.ok || answer.commit !== null) return writeAnswer(answer);
      const left = String((answer.leftOut ?? []).map(({ path }) => path).sort());
      const of = (state: State) =>
        state.generation !== null &&
        isSame(done(state), state.tree) &&
        String(out(state).map(({ path }) => path)) === left;
      return { kind: "saw", what: `left out ${left}`, of };
    },
  );
}

/** Tags of what is there, if it is of a version that somebody names. */
async function tagVersion(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const states = stage.observers.get(bucket)?.states ?? [];
  const version = random.pick([...states.flatMap(({ commit }) => commit ?? []), "no version"]);
  const path = random.pick(PATHS);
  const made = stage.stateOf(bucket, version);
  const isOfHead = ({ born }: State) =>
    made?.born.has(path) === true && made.born.get(path) === born.get(path);
  const tags = random.chance(0.5) ? [["kind", id] as const] : [];
  await stage.ask(
    {
      id,
      bucket,
      text: `tag ${id} ${path} of ${version}`,
      leads: ({ before, after }: Change) =>
        before.tree.has(path) &&
        isSame(before.tree, after.tree) &&
        (stage.erased.length > 0 || isOfHead(before)) &&
        (after.attributes.get(path) ?? "") ===
          attributesOf({ ...JSON.parse(before.attributes.get(path) || "{}"), tags }),
    },
    () => stage.branch(bucket).files.setTags({ path, tags, version, annotation: { message: id } }),
    (answer): Answer => {
      if (answer.ok) return { kind: "made", commit: answer.commit };
      const { reason } = answer;
      if (reason !== "not-newest" && reason !== "no-such-version" && reason !== "is-deletion")
        return refusal(answer);
      // What was erased, or is kept no more, is named by nothing.
      const of = (state: State) =>
        state.generation !== null &&
        (stage.erased.length > 0 || !isOfHead(state) || reason === "no-such-version");
      return { kind: "saw", what: reason, of };
    },
  );
}

/** An upload that brings contents, some of which the branch has already, and that names none of them in the end. */
async function bytes(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const { uploads } = stage.branch(bucket);
  const generation = stage.facts.get(bucket)?.last.generation;
  const opened = await insisted(() => uploads.open({}));
  if (!opened?.ok) return;
  const { upload } = opened;
  const texts = [`bytes ${id}`, someText(turn), "red"];
  const some = texts.filter(() => random.chance(0.7));
  for (const text of some) stage.text(text);
  const reserved = await insisted(() => uploads.reserve({ upload, contents: some.map(idOf) }));
  if (!reserved?.ok) return;
  const missing = new Set(reserved.missing.map(({ digest }) => digest));
  for (const text of some.filter((one) => missing.has(digestOf(one)))) {
    const blob = random.chance(0.5) ? await stage.writeBlob(text, opened) : undefined;
    const content = blob === undefined ? inline(text) : inBlob(text, blob);
    const added = await insisted(() => uploads.add({ upload, contents: [content] }));
    if (!added?.ok) return;
    if (blob !== undefined) stage.known.add(blob);
  }
  await bodies(stage, turn, { upload, some, generation });
  await random.pick([renew, letGo, trim, trim, abort, leave])(stage, turn, { upload, some });
}

/** An upload holds what it brought or reserved, as long as its branch is there. */
async function bodies(
  stage: Stage,
  { id, bucket }: Turn,
  { upload, some, generation }: Brought & { readonly generation: number | null | undefined },
): Promise<void> {
  const { world } = stage.simulation;
  const generationOf = () => stage.facts.get(bucket)?.last.generation;
  const begun = world.forwardClock;
  for (let rest = some; rest.length > 0; ) {
    const contents = rest.map(idOf);
    const found = await insisted(() => stage.branch(bucket).uploads.bodies({ upload, contents }));
    if (!found || generationOf() !== generation || world.forwardClock > begun + SOON_MS) return;
    const count = found.ok ? found.bodies.length : 0;
    if (count === 0) {
      stage.wrong.push(`${bucket}: the upload of ${id} has lost contents: ${JSON.stringify(found)}`);
      return;
    }
    // One answer holds so much.
    rest = rest.slice(count);
  }
}

interface Brought {
  readonly upload: string;
  readonly some: readonly string[];
}

async function renew(stage: Stage, { bucket }: Turn, { upload }: Brought): Promise<void> {
  await insisted(() => stage.branch(bucket).uploads.renew({ upload }));
}

async function letGo(stage: Stage, { bucket }: Turn, { upload, some }: Brought): Promise<void> {
  const contents = some.map((text) => ({ ...idOf(text), upload }));
  await insisted(async () => [await stage.branch(bucket).uploads.letGo({ contents })]);
}

async function trim(stage: Stage, { bucket, random }: Turn, { upload, some }: Brought): Promise<void> {
  const keep = random.chance(0.5)
    ? some.slice(0, 1).map((text) => `${digestOf(text)}-${idOf(text).size}`)
    : [];
  await insisted(async () => [await stage.branch(bucket).uploads.trim({ uploads: [{ upload, keep }] })]);
}

async function abort(stage: Stage, { bucket, random }: Turn, { upload }: Brought): Promise<void> {
  const leaves = random.chance(0.5);
  await insisted(async () => [await stage.branch(bucket).uploads.abort({ upload, leaves })]);
}

/** It ends by itself. */
async function leave(): Promise<void> {}

/** Sooner than an upload ends to which nothing is added; milliseconds. */
const SOON_MS = 10 * 60_000;
