import type {
  ReadAnswer,
  StoredAttributes,
  WriteCondition,
} from "../../../../worker/branch/contract/files.ts";
import type { Random } from "../../platform/random.ts";
import { askAside, type Said } from "../asides.ts";
import { idOf, inBlob, inline } from "../bytes.ts";
import { type Answer, type Change, changed } from "../model.ts";
import { ALL, isListingOf } from "../pages.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { attributesOf, isSame, type State, type Tree } from "../states.ts";
import { refusal, writeAnswer } from "./answers.ts";
import { viewRefused } from "./pages.ts";

/** What some clients write again and again, so that the same bytes meet. */
const TEXTS = ["red", "green", "blue"];

/** Reads and writes of files at HEAD. */
export const FILE_KINDS = {
  put: { weight: 5, take: put },
  copy: { weight: 3, take: copy },
  delete: { weight: 3, take: remove },
  commit: { weight: 3, take: commit },
  read: { weight: 3, take: read },
  list: { weight: 3, take: list },
} satisfies Record<string, Kind>;

/** What a client writes: its own text, or one that others write, too. */
export function someText({ id, random }: Turn): string {
  return random.chance(0.4) ? random.pick(TEXTS) : `text ${id}`;
}

/** As PutObject: bytes before names. */
async function put(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const branch = stage.branch(bucket);
  const path = random.pick(PATHS);
  const text = someText(turn);
  const digest = stage.text(text);
  const expected = conditionOf(random);
  const attributes = someAttributes(random);
  const asked = {
    id,
    bucket,
    text: `put ${id} of ${path} = ${digest.slice(0, 6)}${expected ? ` if ${expected.text}` : ""}`,
    leads: ({ before, after }: Change) =>
      (expected?.holds(before.tree, path) ?? true) &&
      isSame(after.tree, changed(before.tree, [[path, digest]])) &&
      hasAttributes(after, path, attributes),
  };
  const common = { path, attributes, annotation: { message: id } };
  const request = { ...common, ...(expected && { condition: expected.condition }) };
  const answerOf = (answer: Awaited<ReturnType<typeof branch.files.put>>): Answer =>
    (!answer.ok && expected?.refused(answer.reason, path)) || writeAnswer(answer);
  if (random.chance(0.4)) {
    await stage.ask(asked, () => branch.files.put({ ...request, content: inline(text) }), answerOf);
    return;
  }
  const opened = await branch.uploads.open({});
  if (!opened.ok) return;
  const blob = await stage.writeBlob(text, opened);
  const answer = await stage.ask(
    asked,
    () => branch.files.put({ ...request, content: inBlob(text, blob), upload: opened.upload }),
    answerOf,
  );
  if (answer?.ok) stage.known.add(blob);
}

/** What a client says of a file beside its bytes, if anything. */
export function someAttributes(random: Random): StoredAttributes {
  if (random.chance(0.5)) return {};
  return {
    ...(random.chance(0.5) && { contentType: random.pick(["text/plain", "image/png"]) }),
    ...(random.chance(0.3) && { cacheControl: "no-cache", contentLanguage: "en" }),
    ...(random.chance(0.5) && { metadata: { b: random.pick(["1", "2"]), a: "0" } }),
    ...(random.chance(0.3) && { tags: [["kind", random.pick(["old", "new"])]] as const }),
    ...(random.chance(0.2) && {
      checksum: { algorithm: "CRC32" as const, type: "FULL_OBJECT" as const, value: "AAAAAA==" },
    }),
  };
}

export function hasAttributes(
  { attributes: all }: State,
  path: string,
  attributes: StoredAttributes,
): boolean {
  return (all.get(path) ?? "") === attributesOf(attributes);
}

export interface Expected {
  readonly text: string;
  readonly condition: WriteCondition;
  readonly holds: (tree: Tree, path: string) => boolean;
  /** What a refusal for that reason says. */
  readonly refused: (reason: string, path: string) => Answer | undefined;
}

export function conditionOf(random: Random): Expected | undefined {
  if (random.chance(0.6)) return undefined;
  const text = random.chance(0.5) ? undefined : random.pick(TEXTS);
  const holds = (tree: Tree, path: string) =>
    text === undefined ? !tree.has(path) : tree.get(path) === idOf(text).digest;
  return {
    text: text ?? "nothing is there",
    condition: text === undefined ? { noneMatch: "any" } : { match: [idOf(text)] },
    holds,
    refused: (reason, path) =>
      reason === "condition-failed" || reason === "no-such-file"
        ? {
            kind: "saw",
            what: reason,
            of: ({ generation, tree }) =>
              generation !== null && !holds(tree, path) && tree.has(path) === (reason === "condition-failed"),
          }
        : undefined,
  };
}

/** As CopyObject: what is read is named again, at the same branch. */
async function copy(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const branch = stage.branch(bucket);
  const [from, to] = [random.pick(PATHS), random.pick(PATHS)];
  const found = await branch.files.read({ path: from });
  if (!found.ok) return;
  const { digest, size } = found;
  const attributes = random.chance(0.5) ? found.attributes : {};
  const asked = {
    id,
    bucket,
    text: `copy ${id} of ${digest.slice(0, 6)} to ${to}`,
    leads: ({ before, after }: Change) =>
      isSame(after.tree, changed(before.tree, [[to, digest]])) && hasAttributes(after, to, attributes),
  };
  const operations = [{ put: to, digest, size, attributes }];
  await stage.ask(asked, () => branch.files.commit({ operations, annotation: { message: id } }), writeAnswer);
}

async function remove(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = random.pick(PATHS);
  const asked = {
    id,
    bucket,
    text: `delete ${id} of ${path}`,
    leads: ({ before, after }: Change) => isSame(after.tree, changed(before.tree, [[path, null]])),
  };
  const request = { operations: [{ delete: path }], annotation: { message: id } };
  await stage.ask(asked, () => stage.branch(bucket).files.commit(request), writeAnswer);
}

/** Several paths in one commit. */
async function commit(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const branch = stage.branch(bucket);
  const opened = await branch.uploads.open({});
  if (!opened.ok) return;
  const { upload } = opened;
  const changes = PATHS.filter(() => random.chance(0.5)).map(
    (path) => [path, random.chance(0.3) ? null : someText(turn)] as const,
  );
  const contents = changes.flatMap(([, text]) => (text === null ? [] : [inline(text)]));
  const added = await branch.uploads.add({ upload, contents });
  if (!added.ok) return;
  const after = changes.map(([path, text]) => [path, text === null ? null : stage.text(text)] as const);
  const asked = {
    id,
    bucket,
    text: `commit ${id} of ${JSON.stringify(changes)}`,
    leads: (change: Change) => isSame(change.after.tree, changed(change.before.tree, after)),
  };
  const operations = changes.map(([path, text]) =>
    text === null ? { delete: path } : { put: path, ...idOf(text) },
  );
  const request = { upload, operations, annotation: { message: id } };
  await stage.ask(asked, () => branch.files.commit(request), writeAnswer);
}

async function read(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  if (random.chance(0.5)) return await readPast(stage, turn);
  const path = random.pick(PATHS);
  const asked = { id, bucket, text: `read ${id} of ${path}` };
  await stage.ask(
    asked,
    () => stage.branch(bucket).files.read({ path }),
    (answer) => {
      const digest = answer.ok ? answer.digest : undefined;
      if (!answer.ok && answer.reason !== "no-such-file") return refusal(answer);
      return {
        kind: "saw",
        what: `read ${digest?.slice(0, 6) ?? "nothing"}`,
        of: (state) =>
          state.generation !== null &&
          state.tree.get(path) === digest &&
          (!answer.ok || hasAttributes(state, path, answer.attributes)),
      };
    },
  );
}

/** Whether an answer is what was at a path, but for what was to be erased. */
function isReadOf(
  stage: Stage,
  { at, path, answer }: { at: State | undefined; path: string; answer: ReadAnswer },
): boolean {
  const there = at?.tree.get(path);
  if (!at || !answer.ok) return there === undefined || stage.erased.some((one) => one.path === path);
  return there === answer.digest && (stage.erased.length > 0 || hasAttributes(at, path, answer.attributes));
}

/** One file at a commit that the branch made once, by its id or as a view, for somebody who may have no key. */
async function readPast(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = random.pick(PATHS);
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  const commit = commits.length > 0 && random.chance(0.8) ? random.pick(commits) : undefined;
  const publicOnly = random.chance(0.2);
  const isByView = random.chance(0.3);
  const view = commit === undefined ? {} : isByView ? { openCommit: commit } : { commit };
  const request = { path, ...view, publicOnly, ...(random.chance(0.3) && { modified: "file" as const }) };
  await askAside(
    stage,
    { id, bucket, text: `read ${id} ${JSON.stringify(request)}` },
    {
      call: () => stage.branch(bucket).files.read(request),
      saidOf: (answer): Said => {
        const isNone = !answer.ok && (answer.reason === "no-such-file" || answer.reason === "is-deletion");
        // At a commit, what is not there is no version.
        const isNoVersion = !answer.ok && answer.reason === "no-such-version" && !isByView;
        if (!answer.ok && !isNone && !isNoVersion)
          return viewRefused(answer.reason, { commit, publicOnly, isByView });
        const digest = answer.ok ? answer.digest : undefined;
        return {
          kind: "saw",
          what: `read ${digest?.slice(0, 6) ?? answer}`,
          of(facts, observer, state) {
            if (facts.generation === null || (publicOnly && !facts.settled.public)) return false;
            const at = commit === undefined ? state : stage.stateOf(bucket, commit);
            if (commit !== undefined && !observer.shows(facts, commit)) {
              // What a commit wrote or deleted can be read by it as long as another one has it.
              const isItsOwn = !isByView && at?.born.get(path) === observer.seqIn(facts, commit);
              return answer.ok
                ? isItsOwn && at?.tree.get(path) === digest
                : isNoVersion || !at?.tree.has(path);
            }
            return isReadOf(stage, { at, path, answer });
          },
        };
      },
    },
  );
}

async function list(stage: Stage, { id, bucket }: Turn): Promise<void> {
  await stage.ask(
    { id, bucket, text: `list ${id}` },
    () => stage.branch(bucket).files.list(ALL),
    (answer) => {
      if (!answer.ok) return refusal(answer);
      return {
        kind: "saw",
        what: `listed ${JSON.stringify(answer.entries)} ${answer.next}`,
        of: (state) => state.generation !== null && isListingOf(state.tree, answer),
      };
    },
  );
}
