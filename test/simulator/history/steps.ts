import { createHash } from "node:crypto";
import type { ContentId } from "../../../protocol/content.ts";
import type { Content } from "../../../worker/blobs/content.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import type { CommitRequest, WriteCondition } from "../../../worker/branch/contract/files.ts";
import type { Random } from "../platform/random.ts";

/** What a client asks of a branch; `id` is in the annotation of the commit that comes of it, if any does. */
export type Step =
  | {
      readonly kind: "put";
      readonly id: string;
      readonly path: string;
      readonly text: string;
      readonly condition?: Condition;
    }
  | { readonly kind: "delete"; readonly id: string; readonly paths: readonly string[] }
  | {
      readonly kind: "commit";
      readonly id: string;
      readonly puts: readonly Put[];
      readonly deletes: readonly string[];
    }
  | { readonly kind: "read"; readonly path: string }
  | { readonly kind: "list" };

export interface Put {
  readonly path: string;
  readonly text: string;
}

/** Nothing is to be there; or this text. */
export type Condition = { readonly absent: true } | { readonly text: string };

/** What came of a step. `unknown`: the answer was lost, and it may have been done or not, or be done yet. */
export type Outcome =
  | { readonly kind: "done"; readonly commit: string | null }
  | { readonly kind: "failed-condition" }
  | { readonly kind: "read"; readonly digest: string | null }
  | { readonly kind: "listed"; readonly files: ReadonlyMap<string, string> }
  | { readonly kind: "unknown" };

const PATHS = ["a", "b", "dir/c", "dir/d", "dir/sub/e", "f"];
const TEXTS = ["red", "green", "blue", "x".repeat(5000)];
const KINDS = ["put", "put", "put", "delete", "commit", "read", "read", "list"] as const;

/** A step, as the seed has it. */
export function chooseStep(random: Random, id: string): Step {
  const kind = random.pick(KINDS);
  const path = random.pick(PATHS);
  const some = () => PATHS.filter(() => random.chance(0.3));
  if (kind === "put") {
    const condition = conditionOf(random);
    return { kind, id, path, text: random.pick(TEXTS), ...(condition && { condition }) };
  }
  if (kind === "delete") return { kind, id, paths: [path] };
  if (kind === "commit") {
    const puts = some().map((each) => ({ path: each, text: random.pick(TEXTS) }));
    return { kind, id, puts, deletes: some().filter((each) => !puts.some((put) => put.path === each)) };
  }
  return kind === "read" ? { kind, path } : { kind };
}

function conditionOf(random: Random): Condition | undefined {
  if (random.chance(0.6)) return undefined;
  return random.chance(0.5) ? { absent: true } : { text: random.pick(TEXTS) };
}

/** Asks a branch to do a step. */
export async function take(branch: BranchApi, step: Step): Promise<Outcome> {
  switch (step.kind) {
    case "put": {
      const { path, text, condition } = step;
      const when = condition && conditionFor(condition);
      const request = { path, content: inline(text), attributes: {}, annotation: { message: step.id } };
      return outcomeOf(await branch.files.put({ ...request, ...(when && { condition: when }) }));
    }
    case "delete":
      return await commit(branch, {
        operations: step.paths.map((path) => ({ delete: path })),
        annotation: { message: step.id },
      });
    case "commit":
      return await commitMany(branch, step);
    case "read":
      return await read(branch, step.path);
    case "list":
      return { kind: "listed", files: await filesOf(branch) };
  }
}

async function commitMany(
  branch: BranchApi,
  { id, puts, deletes }: Extract<Step, { kind: "commit" }>,
): Promise<Outcome> {
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(`an upload could not be opened: ${opened.reason}`);
  const { upload } = opened;
  const contents = puts.map(({ text }) => inline(text));
  const added = await branch.uploads.add({ upload, contents });
  if (!added.ok) throw new Error(`contents could not be added: ${added.reason}`);
  const operations = [
    ...deletes.map((path) => ({ delete: path })),
    ...puts.map(({ path, text }) => ({ put: path, ...idOf(text) })),
  ];
  return await commit(branch, { upload, operations, annotation: { message: id } });
}

async function commit(branch: BranchApi, request: CommitRequest): Promise<Outcome> {
  return outcomeOf(await branch.files.commit(request));
}

function outcomeOf(answer: Awaited<ReturnType<BranchApi["files"]["put"]>>): Outcome {
  if (answer.ok) return { kind: "done", commit: answer.commit };
  const { reason } = answer;
  if (reason === "condition-failed" || reason === "no-such-file") return { kind: "failed-condition" };
  if (reason === "busy") return { kind: "unknown" };
  throw new Error(`a step was refused: ${JSON.stringify(answer)}`);
}

async function read(branch: BranchApi, path: string): Promise<Outcome> {
  const answer = await branch.files.read({ path });
  if (answer.ok) return { kind: "read", digest: answer.digest };
  if (answer.reason === "no-such-file") return { kind: "read", digest: null };
  throw new Error(`a read was refused: ${answer.reason}`);
}

/** The digests of the files of a commit, or of HEAD, by their paths. */
export async function filesOf(branch: BranchApi, at?: string): Promise<ReadonlyMap<string, string>> {
  const page = await branch.files.list({ prefix: "", limit: 1000, ...(at !== undefined && { commit: at }) });
  if (!page.ok) throw new Error(`a list was refused: ${page.reason}`);
  return new Map(
    page.entries.flatMap((entry) => (entry.kind === "file" ? [[entry.path, entry.digest]] : [])),
  );
}

function conditionFor(condition: Condition): WriteCondition {
  return "absent" in condition ? { noneMatch: "any" } : { match: [idOf(condition.text)] };
}

const ids = new Map<string, ContentId>();

export function idOf(text: string): ContentId {
  const known = ids.get(text);
  if (known) return known;
  const bytes = Buffer.from(text);
  const id = { digest: createHash("sha256").update(bytes).digest("hex"), size: bytes.length };
  ids.set(text, id);
  return id;
}

/** Bytes in a row, however many: where bytes are is no matter of the rules that histories are about. */
function inline(text: string): Content {
  return { ...idOf(text), body: { kind: "inline", bytes: new TextEncoder().encode(text) } };
}
