import type { ObjectTag } from "../../../../protocol/object-tags.ts";
import type { OpenCommitEnd } from "../../../../worker/branch/contract/open-commits.ts";
import type { Filling } from "../beside.ts";
import { idOf, inBlob, inline } from "../bytes.ts";
import { type Answer, type Change, changed } from "../model.ts";
import { ALL, isListingOf } from "../pages.ts";
import { type Asked, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { type Entries, type Filled, isSame, type State, type Tree } from "../states.ts";
import { refusal } from "./answers.ts";
import { conditionOf, type Expected, someText } from "./files.ts";
import { withTags } from "./lifecycle.ts";

/** Commits that several calls fill, of several clients: each finds those that are open by the list of them. */
export const OPEN_COMMIT_KINDS = {
  "open commit": { weight: 3, take: story },
  "fill open commit": { weight: 4, take: goOn },
  "end open commit": { weight: 3, take: endSome },
} satisfies Record<string, Kind>;

/** How long they live: so long that most are finished, and so short that some are over before. */
const TTLS_MS = [200, 2_000, 60_000];
/** How often a client asks for the end of a large one. */
const MOST_ASKED = 8;
/** More operations than one transaction takes: a commit with a count like this is applied in slices. */
const LARGE = 20_000;

/** One that this client begins, fills and mostly finishes. */
async function story(stage: Stage, turn: Turn): Promise<void> {
  const openCommit = await begin(stage, turn);
  if (openCommit === undefined) return;
  const calls = turn.random.below(4);
  for (let n = 0; n < calls; n++) await fill(stage, turn, { openCommit, id: `${turn.id}.${n}` });
  if (turn.random.chance(0.6)) await finish(stage, turn, { openCommit, id: `${turn.id}.end` });
}

export async function begin(stage: Stage, { id, random, bucket }: Turn): Promise<string | undefined> {
  const ttlMs = random.pick(TTLS_MS);
  // If whoever finishes it says nothing, its commit has what was said here.
  const leads = (change: Change) => {
    const name = finished(change);
    return name !== undefined && stage.silent.has(name);
  };
  stage.note({ id, bucket, text: `begin ${id}`, leads });
  const asked = { id: `${id}.begin`, bucket, text: `begin ${id}` };
  const answer = await stage.ask(
    asked,
    () => stage.branch(bucket).openCommits.start({ ttlMs, annotation: { message: id } }),
    (started) =>
      started.ok
        ? { kind: "saw", what: "begun", of: ({ beside }) => beside.has(started.openCommit) }
        : refusal(started),
  );
  return answer?.ok ? answer.openCommit : undefined;
}

/** One that somebody began. */
export async function pickOpen(stage: Stage, { id, random, bucket }: Turn): Promise<string | undefined> {
  const answer = await stage.ask(
    { id, bucket, text: `list ${id} of open commits` },
    () => stage.branch(bucket).openCommits.list({ limit: 100 }),
    (listed) => {
      if (!listed.ok) return refusal(listed);
      const ids = listed.openCommits.map(({ openCommit }) => openCommit).sort();
      return {
        kind: "saw",
        what: `listed ${ids}`,
        of: ({ generation, beside }) => generation !== null && String(openCommits(beside)) === String(ids),
      };
    },
  );
  const all = answer?.ok ? answer.openCommits : [];
  const open = all.filter(({ annotation }) => !annotation?.message?.startsWith("expired by"));
  return open.length > 0 ? random.pick(open).openCommit : undefined;
}

function openCommits(beside: State["beside"]): string[] {
  return [...beside.keys()].filter((name) => !isUpload(name)).sort();
}

export function isUpload(name: string): boolean {
  return name.includes(".");
}

async function goOn(stage: Stage, turn: Turn): Promise<void> {
  const openCommit = await pickOpen(stage, turn);
  if (openCommit === undefined) return;
  await turn.random.pick([fill, fill, look])(stage, turn, { openCommit, id: turn.id });
}

async function endSome(stage: Stage, turn: Turn): Promise<void> {
  const openCommit = await pickOpen(stage, turn);
  if (openCommit === undefined) return;
  await (turn.random.chance(0.25) ? abort : finish)(stage, turn, { openCommit, id: turn.id });
}

/** A call about one open commit, whose id is that of the step or begins with it. */
interface On {
  readonly openCommit: string;
  readonly id: string;
}

export async function fill(stage: Stage, turn: Turn, on: On): Promise<void> {
  await turn.random.pick([putOne, putOne, changeMany, tag])(stage, turn, on);
}

/** An operation as an entry of what is filled: the digest or nothing, what HEAD must still have there, whether only tags are set. */
function operationText({
  digest,
  precondition,
  isTagging = false,
}: {
  digest: string | null;
  precondition: number | null;
  isTagging?: boolean;
}): string {
  return `${digest ?? ""} ${precondition ?? ""} ${isTagging ? "tags" : ""}`;
}

interface StagedOperation {
  readonly digest: string | null;
  readonly precondition: number | null;
  readonly isTagging: boolean;
}

function operationOf(text: string): StagedOperation {
  const [digest, precondition, tags] = text.split(" ");
  return {
    digest: digest || null,
    precondition: precondition ? Number(precondition) : null,
    isTagging: tags === "tags",
  };
}

/** What is at a path: the open commit's own operation stands before HEAD. */
function shownAt(state: State, entries: Entries, path: string) {
  const text = entries.get(path);
  const staged = text === undefined ? undefined : operationOf(text);
  return { staged, digest: staged ? staged.digest : (state.tree.get(path) ?? null) };
}

interface Operation {
  readonly path: string;
  /** Null: it is deleted. */
  readonly digest: string | null;
  readonly isConditional?: boolean;
}

/** What holds after these operations. A condition about HEAD leaves what HEAD must still have; none takes that away. */
function staged(state: State, entries: Entries, changes: readonly Operation[]): Entries {
  const next = new Map(entries);
  for (const { path, digest, isConditional } of changes) {
    const before = shownAt(state, entries, path).staged;
    const version = before ? before.precondition : (state.born.get(path) ?? 0);
    next.set(path, operationText({ digest, precondition: isConditional ? version : null }));
  }
  return next;
}

/** Answers of calls that add something. */
function filledAnswer(
  answer: { readonly ok: boolean; readonly reason?: string },
  openCommit: string,
): Answer {
  if (answer.ok) return { kind: "filled" };
  return openRefusal({ reason: answer.reason ?? "" }, openCommit);
}

function openRefusal(answer: { readonly reason: string }, openCommit: string): Answer {
  if (answer.reason !== "no-such-open-commit") return refusal(answer);
  return { kind: "saw", what: answer.reason, of: (state) => !isOpen(state, openCommit) };
}

function isOpen({ beside }: State, openCommit: string): boolean {
  return beside.get(openCommit)?.isApplying === false;
}

/** What the bucket of an open commit shows. */
export function shownTree(state: State, openCommit: string): Tree | undefined {
  const filled = state.beside.get(openCommit);
  return filled && !filled.isApplying ? treeWith(state.tree, filled) : undefined;
}

function treeWith(tree: Tree, { entries }: Filled): Tree {
  return changed(
    tree,
    [...entries].map(([path, text]) => [path, operationOf(text).digest] as const),
  );
}

/** What a put into an open commit adds to it. */
export function putInto({
  openCommit,
  path,
  digest,
  expected,
}: {
  openCommit: string;
  path: string;
  digest: string;
  expected: Expected | undefined;
}): Filling {
  return {
    into: openCommit,
    after(state, entries) {
      if (expected && !expected.holds(oneFile(state, entries, path), path)) return undefined;
      return staged(state, entries, [{ path, digest, isConditional: expected !== undefined }]);
    },
  };
}

async function putOne(stage: Stage, turn: Turn, { openCommit, id }: On): Promise<void> {
  const { random, bucket } = turn;
  const branch = stage.branch(bucket);
  // Something may be in its way at the end.
  const path = random.chance(0.15) ? "dir/c/below" : random.pick(PATHS);
  const text = someText({ ...turn, id });
  const digest = stage.text(text);
  const expected = conditionOf(random);
  const asked: Asked = {
    id,
    bucket,
    text: `put ${id} of ${path} = ${digest.slice(0, 6)}${expected ? ` if ${expected.text}` : ""} into ${openCommit}`,
    fills: putInto({ openCommit, path, digest, expected }),
  };
  const common = { path, attributes: {}, annotation: { message: id }, openCommit };
  const request = { ...common, ...(expected && { condition: expected.condition }) };
  const answerOf = (answer: Awaited<ReturnType<typeof branch.files.put>>): Answer => {
    const refused = answer.ok ? undefined : expected?.refused(answer.reason, path);
    if (refused?.kind !== "saw") return filledAnswer(answer, openCommit);
    const of = (state: State) => {
      const filled = state.beside.get(openCommit);
      return filled !== undefined && refused.of({ ...state, tree: treeWith(state.tree, filled) });
    };
    return { ...refused, of };
  };
  if (random.chance(0.4)) {
    await stage.ask(asked, () => branch.files.put({ ...request, content: inline(text) }), answerOf);
    return;
  }
  const opened = await branch.uploads.open({ openCommit });
  if (!opened.ok) return;
  const blob = await stage.writeBlob(text, opened);
  const { upload } = opened;
  const content = inBlob(text, blob);
  const answer = await stage.ask(asked, () => branch.files.put({ ...request, content, upload }), answerOf);
  if (answer?.ok) stage.known.add(blob);
}

/** A tree that has what is at one path. */
function oneFile(state: State, entries: Entries, path: string): Tree {
  const { digest } = shownAt(state, entries, path);
  return new Map(digest === null ? [] : [[path, digest]]);
}

/** Several paths in one call, some only if they are as they were last read. */
async function changeMany(stage: Stage, turn: Turn, { openCommit, id }: On): Promise<void> {
  const { random, bucket } = turn;
  const branch = stage.branch(bucket);
  const opened = await branch.uploads.open({ openCommit });
  if (!opened.ok) return;
  const { upload } = opened;
  const expected = conditionOf(random);
  const changes = PATHS.filter(() => random.chance(0.5)).map((path) => ({
    path,
    text: random.chance(0.4) ? null : someText({ ...turn, id }),
    isConditional: expected !== undefined && random.chance(0.5),
  }));
  const contents = changes.flatMap(({ text }) => (text === null ? [] : [inline(text)]));
  const added = await branch.uploads.add({ upload, contents });
  if (!added.ok) return;
  const done = changes.map(({ path, text, isConditional }) => ({
    path,
    digest: text === null ? null : stage.text(text),
    isConditional,
  }));
  const holds = (state: State, entries: Entries) =>
    done.every(
      ({ path, isConditional }) => !isConditional || expected?.holds(oneFile(state, entries, path), path),
    );
  const asked: Asked = {
    id,
    bucket,
    text: `commit ${id} of ${JSON.stringify(changes)}${expected ? ` if ${expected.text}` : ""} into ${openCommit}`,
    fills: {
      into: openCommit,
      after: (state, entries) => (holds(state, entries) ? staged(state, entries, done) : undefined),
    },
  };
  const operations = changes.map(({ path, text, isConditional }) => ({
    ...(text === null ? { delete: path } : { put: path, ...idOf(text) }),
    ...(isConditional && expected && { condition: expected.condition }),
  }));
  await stage.ask(
    asked,
    () => branch.files.commit({ openCommit, upload, operations, annotation: { message: id } }),
    (answer) => {
      if (answer.ok || (answer.reason !== "condition-failed" && answer.reason !== "no-such-file"))
        return filledAnswer(answer, openCommit);
      const of = (state: State) => {
        const filled = state.beside.get(openCommit);
        return filled !== undefined && !holds(state, filled.entries);
      };
      return { kind: "saw", what: answer.reason, of };
    },
  );
}

/** Tags for what is there: if HEAD has it, it must still have it at the end. */
async function tag(stage: Stage, { random, bucket }: Turn, { openCommit, id }: On): Promise<void> {
  const path = random.pick(PATHS);
  const tags: readonly ObjectTag[] = [["by", random.chance(0.5) ? id : "all"]];
  const asked: Asked = {
    id,
    bucket,
    text: `tag ${id} ${path} in ${openCommit}`,
    fills: {
      into: openCommit,
      after(state, entries) {
        const { staged: own } = shownAt(state, entries, path);
        const isOfHead = !own || own.isTagging;
        const head = isOfHead ? state.tree.get(path) : undefined;
        const attributes = state.attributes.get(path);
        // It has these tags.
        if (!own && head !== undefined && (attributes ?? "") === withTags(attributes, tags)) return entries;
        const digest = head ?? own?.digest;
        if (digest === undefined || digest === null) return undefined;
        const precondition = (head === undefined ? own?.precondition : state.born.get(path)) ?? null;
        const isTagging = head !== undefined || own?.isTagging === true;
        return new Map(entries).set(path, operationText({ digest, precondition, isTagging }));
      },
    },
  };
  const request = { openCommit, path, tags, annotation: { message: id } };
  await stage.ask(
    asked,
    () => stage.branch(bucket).files.setTags(request),
    (answer) => {
      if (answer.ok || answer.reason !== "no-such-file") return filledAnswer(answer, openCommit);
      const of = (state: State) => shownTree(state, openCommit)?.has(path) === false;
      return { kind: "saw", what: answer.reason, of };
    },
  );
}

/** Reads what the bucket of an open commit shows, or what it would change. */
async function look(stage: Stage, { random, bucket }: Turn, { openCommit, id }: On): Promise<void> {
  const branch = stage.branch(bucket);
  const path = random.pick(PATHS);
  const what = random.pick(["read", "list", "changes", "status"]);
  if (what === "status") return await inspect(stage, { bucket, openCommit, id });
  const asked = { id, bucket, text: `${what} ${id} in ${openCommit}` };
  if (what === "read") {
    await stage.ask(
      asked,
      () => branch.files.read({ openCommit, path }),
      (answer) => {
        if (!answer.ok && answer.reason !== "no-such-file") return openRefusal(answer, openCommit);
        const digest = answer.ok ? answer.digest : undefined;
        const of = (state: State) => {
          const tree = shownTree(state, openCommit);
          return tree !== undefined && tree.get(path) === digest;
        };
        return { kind: "saw", what: `read ${digest?.slice(0, 6) ?? "nothing"}`, of };
      },
    );
  } else if (what === "list") {
    await stage.ask(
      asked,
      () => branch.files.list({ openCommit, ...ALL }),
      (answer) => {
        if (!answer.ok) return openRefusal(answer, openCommit);
        const of = (state: State) => {
          const tree = shownTree(state, openCommit);
          return tree !== undefined && isListingOf(tree, answer);
        };
        return { kind: "saw", what: `listed ${JSON.stringify(answer.entries)} ${answer.next}`, of };
      },
    );
  } else {
    await stage.ask(
      asked,
      () => branch.openCommits.changes({ openCommit, after: "", limit: 1000 }),
      (answer) => {
        if (!answer.ok) return openRefusal(answer, openCommit);
        // Of what is tagged alone, the bytes are the same.
        const listed = answer.changes.filter(({ before, after }) => before?.digest !== after?.digest);
        const pairs = new Map(listed.map((one) => [one.path, `${one.before?.digest} ${one.after?.digest}`]));
        const of = (state: State) => {
          const tree = shownTree(state, openCommit);
          return tree !== undefined && isSame(differences(state.tree, tree), pairs);
        };
        return { kind: "saw", what: `changes ${JSON.stringify([...pairs])}`, of };
      },
    );
  }
}

/** How many operations it has, and whether it still takes some. */
async function inspect(stage: Stage, { bucket, openCommit, id }: On & { bucket: string }): Promise<void> {
  await stage.ask(
    { id, bucket, text: `status ${id} of ${openCommit}` },
    () => stage.branch(bucket).openCommits.status({ openCommit }),
    (answer) => {
      // One that is finished is remembered for a while.
      if (!answer.ok)
        return { kind: "saw", what: answer.reason, of: (state) => !state.beside.has(openCommit) };
      const { state: is, commit, operations } = answer;
      if (is === "finished")
        return { kind: "saw", what: `finished as ${commit}`, of: (state) => !isOpen(state, openCommit) };
      const of = (state: State) => {
        const filled = state.beside.get(openCommit);
        return filled?.isApplying === (is === "applying") && operations >= filled.entries.size;
      };
      return { kind: "saw", what: `${is} with ${operations}`, of };
    },
  );
}

function differences(before: Tree, after: Tree): Map<string, string> {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return new Map(
    [...paths]
      .filter((path) => before.get(path) !== after.get(path))
      .map((path) => [path, `${before.get(path)} ${after.get(path)}`]),
  );
}

/** Whether a commit is one of what was open before it; if so, which. */
function finished({ before, after }: Change, name?: string): string | undefined {
  return [...before.beside]
    .filter(([id]) => !isUpload(id) && (name === undefined || id === name) && !after.beside.has(id))
    .find(
      ([, filled]) => holdsAtHead(before, filled) && isSame(after.tree, treeWith(before.tree, filled)),
    )?.[0];
}

/** Whether HEAD has what it had when conditions held. */
function holdsAtHead(state: State, filled: Filled): boolean {
  return changedSince(state, filled).length === 0;
}

function changedSince({ born }: State, { entries }: Filled): string[] {
  return [...entries]
    .filter(([path, text]) => {
      const { precondition } = operationOf(text);
      return precondition !== null && precondition !== (born.get(path) ?? 0);
    })
    .map(([path]) => path)
    .sort();
}

/** Asks for the end, again while it is applied. Some are made large first. */
export async function finish(stage: Stage, turn: Turn, { openCommit, id }: On): Promise<void> {
  const { random, bucket } = turn;
  if (random.chance(0.3)) await makeLarge(stage, { bucket, openCommit });
  const isSilent = random.chance(0.2);
  if (isSilent) stage.silent.add(openCommit);
  for (let n = 0; n < MOST_ASKED; n++) {
    const answer = await finishOnce(stage, { bucket, openCommit, id: n === 0 ? id : `${id}.${n}`, isSilent });
    // An answer that was lost is asked for again.
    if (answer && (!answer.ok || answer.state === "finished")) return;
    if (!answer && random.chance(0.3)) return;
  }
}

async function finishOnce(
  stage: Stage,
  { bucket, openCommit, id, isSilent }: { bucket: string; openCommit: string; id: string; isSilent: boolean },
) {
  const asked: Asked = {
    id,
    bucket,
    text: `finish ${id} of ${openCommit}`,
    leads: (change) => finished(change, openCommit) !== undefined,
    ends: { what: openCommit, may: (state) => changesNothing(state, openCommit) },
  };
  const askedAt = stage.simulation.world.clock;
  return await stage.ask(
    asked,
    () =>
      stage
        .branch(bucket)
        .openCommits.finish({ openCommit, ...(!isSilent && { annotation: { message: id } }) }),
    (answer): Answer => {
      const now = stage.simulation.world.clock;
      if (answer.ok) return endAnswer(stage, answer, { bucket, openCommit, id, askedAt });
      if (answer.reason === "conditions-changed") {
        const { changes, others } = answer;
        const paths = changes.map(({ path }) => path).sort();
        const of = ({ beside, ...state }: State) => {
          const filled = beside.get(openCommit);
          if (filled === undefined) return false;
          const all = changedSince({ ...state, beside }, filled);
          return String(all.slice(0, paths.length)) === String(paths) && all.length === paths.length + others;
        };
        return { kind: "saw", what: `${answer.reason} ${paths} and ${others}`, of };
      }
      if (answer.reason !== "no-such-open-commit") return refusal(answer);
      const of = (state: State) =>
        !state.beside.has(openCommit) && !stage.isMade(bucket, { name: openCommit, state, now });
      return { kind: "saw", what: answer.reason, of };
    },
  );
}

function changesNothing({ tree, beside }: State, openCommit: string): boolean {
  const filled = beside.get(openCommit);
  return filled !== undefined && isSame(treeWith(tree, filled), tree);
}

/** What the end of an open commit says: it is made once, for whoever asks. */
function endAnswer(
  stage: Stage,
  answer: OpenCommitEnd,
  { bucket, openCommit, id, askedAt }: On & { bucket: string; askedAt: number },
): Answer {
  if (answer.state === "applying") {
    const of = ({ beside }: State) => beside.get(openCommit)?.isApplying === true;
    return { kind: "saw", what: "applying", of };
  }
  const { commit } = answer;
  const known = stage.ends.get(openCommit);
  stage.ends.set(openCommit, { commit, at: askedAt });
  const isOther = known !== undefined && known.commit !== commit;
  if (commit !== null && stage.messageOf(bucket, commit) === id) return { kind: "made", commit };
  return {
    kind: "saw",
    what: `finished as ${commit}${isOther ? `, before as ${known.commit}` : ""}`,
    of: ({ beside }) => !isOther && !beside.has(openCommit),
  };
}

async function abort(stage: Stage, { bucket }: Turn, { openCommit, id }: On): Promise<void> {
  const asked: Asked = {
    id,
    bucket,
    text: `abort ${id} of ${openCommit}`,
    ends: { what: openCommit, may: () => true },
  };
  await stage.ask(
    asked,
    () => stage.branch(bucket).openCommits.abort({ openCommit }),
    (answer) => {
      if (answer.ok) return { kind: "saw", what: "aborted", of: ({ beside }) => !beside.has(openCommit) };
      if (answer.reason !== "applying") return refusal(answer);
      const of = ({ beside }: State) => beside.get(openCommit)?.isApplying === true;
      return { kind: "saw", what: answer.reason, of };
    },
  );
}

/** Has it count more operations than it has: it is then checked and written in slices, as one of that many is. */
export async function makeLarge(
  stage: Stage,
  of: { readonly bucket: string; readonly openCommit?: string; readonly origin?: string },
): Promise<void> {
  const { bucket, openCommit = "", origin = "" } = of;
  const object = stage.simulation.branches.object(bucket);
  await object.inside(({ storage }) => {
    storage.sql.exec(
      "UPDATE open_commits SET operations = operations + ? WHERE (id = ? OR origin = ?) AND state = 0",
      LARGE,
      openCommit,
      origin,
    );
  });
}
