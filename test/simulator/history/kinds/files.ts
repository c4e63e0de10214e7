import type { WriteCondition } from "../../../../worker/branch/contract/files.ts";
import type { Random } from "../../platform/random.ts";
import { idOf, inBlob, inline } from "../bytes.ts";
import { type Answer, type Change, changed } from "../model.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame, type Tree } from "../states.ts";
import { refusal, writeAnswer } from "./answers.ts";

/** What some clients write again and again, so that the same bytes meet. */
const TEXTS = ["red", "green", "blue"];

/** Reads and writes of files at HEAD. */
export const FILE_KINDS = {
  put: { weight: 5, take: put },
  copy: { weight: 3, take: copy },
  delete: { weight: 2, take: remove },
  commit: { weight: 2, take: commit },
  read: { weight: 3, take: read },
  list: { weight: 1, take: list },
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
  const asked = {
    id,
    bucket,
    text: `put ${id} of ${path} = ${digest.slice(0, 6)}${expected ? ` if ${expected.text}` : ""}`,
    leads: ({ before, after }: Change) =>
      (expected?.holds(before.tree, path) ?? true) &&
      isSame(after.tree, changed(before.tree, [[path, digest]])),
  };
  const common = { path, attributes: {}, annotation: { message: id } };
  const request = { ...common, ...(expected && { condition: expected.condition }) };
  const answerOf = (answer: Awaited<ReturnType<typeof branch.files.put>>): Answer =>
    (!answer.ok && expected?.refused(answer.reason, path)) || writeAnswer(answer);
  if (random.chance(0.4)) {
    await stage.ask(asked, () => branch.files.put({ ...request, content: inline(text) }), answerOf);
    return;
  }
  const opened = await branch.uploads.open({});
  if (!opened.ok) return;
  const blob = await stage.writeBlob(text);
  const answer = await stage.ask(
    asked,
    () => branch.files.put({ ...request, content: inBlob(text, blob), upload: opened.upload }),
    answerOf,
  );
  if (answer?.ok) stage.known.add(blob);
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
  const asked = {
    id,
    bucket,
    text: `copy ${id} of ${digest.slice(0, 6)} to ${to}`,
    leads: ({ before, after }: Change) => isSame(after.tree, changed(before.tree, [[to, digest]])),
  };
  const operations = [{ put: to, digest, size }];
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

async function read(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
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
        of: ({ generation, tree }) => generation !== null && tree.get(path) === digest,
      };
    },
  );
}

async function list(stage: Stage, { id, bucket }: Turn): Promise<void> {
  await stage.ask(
    { id, bucket, text: `list ${id}` },
    () => stage.branch(bucket).files.list({ prefix: "", limit: 1000 }),
    (answer) => {
      if (!answer.ok) return refusal(answer);
      const tree = new Map(
        answer.entries.flatMap((entry) => (entry.kind === "file" ? [[entry.path, entry.digest]] : [])),
      );
      return {
        kind: "saw",
        what: `listed ${JSON.stringify([...tree])}`,
        of: (state) => state.generation !== null && isSame(state.tree, tree),
      };
    },
  );
}
