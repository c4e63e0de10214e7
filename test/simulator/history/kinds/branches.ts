import type { CreateBranch } from "../../../../worker/branch/contract/lifecycle.ts";
import { type Answer, type Change, UNKNOWN } from "../model.ts";
import { BRANCHES, bucketOf, type Kind, type Stage, type Turn } from "../stage.ts";
import { isSame } from "../states.ts";
import { refusal } from "./answers.ts";
import { noteCreation } from "./settings.ts";

/** Branches come and go. */
export const BRANCH_KINDS = {
  create: { weight: 3, take: create },
  fork: { weight: 3, take: fork },
  destroy: { weight: 3, take: destroy },
} satisfies Record<string, Kind>;

const THERE: Answer = { kind: "saw", what: "there", of: ({ generation }) => generation !== null };

async function create(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const wants: CreateBranch = {
    ...(random.chance(0.2) && { public: true }),
    ...(random.chance(0.2) && { emptyOnly: true }),
    ...(random.chance(0.2) && { keep: { commits: 5 } }),
    ...(random.chance(0.2) && { modified: "file" }),
  };
  noteCreation(stage, { id, bucket }, wants);
  await stage.ask(
    { id, bucket, text: `create ${id} ${JSON.stringify(wants)}` },
    () => stage.branch(bucket).lifecycle.create(wants),
    // One that is still being forked has its name.
    (answer) => (answer.ok ? THERE : answer.reason === "already-exists" ? UNKNOWN : refusal(answer)),
  );
}

/** A branch from what is newest in another one, or in an earlier commit of it. */
async function fork(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const parent = bucketOf(random.pick(BRANCHES));
  const before = random.chance(0.3) ? random.next() : undefined;
  const log = before === undefined ? undefined : await stage.branch(parent).history.list({ limit: 100 });
  const commits = log?.ok ? log.commits : [];
  const commit = commits[Math.floor((before ?? 0) * commits.length)]?.id;
  await forkOne(stage, { id, bucket }, { parent, commit });
}

/** Makes a branch of another one, as it is or was at a commit. */
export async function forkOne(
  stage: Stage,
  { id, bucket }: Pick<Turn, "id" | "bucket">,
  { parent, commit }: { readonly parent: string; readonly commit?: string | undefined },
): Promise<void> {
  const origin = stage.observers.get(parent);
  const from = stage.stamp();
  const asked = {
    id,
    bucket,
    text: `fork ${id} of ${parent}${commit ? ` at ${commit}` : ""}`,
    leads: ({ before: earlier, after }: Change) =>
      earlier.commit === null &&
      ((commit ? origin?.states : origin?.between(from, after.since)) ?? []).some(
        (state) => (!commit || state.commit === commit) && stage.isButErased(state.tree, after.tree),
      ),
  };
  await stage.ask(
    asked,
    () =>
      stage.branch(bucket).lifecycle.fork({ parent, annotation: { message: id }, ...(commit && { commit }) }),
    // It is there when its rows are, which it does not wait for.
    (answer) => (answer.ok || answer.reason === "already-exists" ? UNKNOWN : refusal(answer)),
  );
}

async function destroy(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  // The first one is mostly there, so that there is something to fork.
  if (bucket === bucketOf("master") && !random.chance(0.2)) return;
  await destroyOne(stage, { id, bucket, onlyEmpty: random.chance(0.3) });
}

/** Deletes a branch, empty or not. */
export async function destroyOne(
  stage: Stage,
  { id, bucket, onlyEmpty = false }: Pick<Turn, "id" | "bucket"> & { readonly onlyEmpty?: boolean },
): Promise<void> {
  await stage.ask(
    { id, bucket, text: `destroy ${id}` },
    () => stage.branch(bucket).lifecycle.destroy({ withFiles: !onlyEmpty }),
    (answer) => {
      if (answer.ok) return { kind: "saw", what: "destroyed", of: ({ generation }) => generation === null };
      if (answer.reason !== "not-empty") return refusal(answer);
      return {
        kind: "saw",
        what: answer.reason,
        of: ({ generation, tree }) => generation !== null && !isSame(tree, new Map()),
      };
    },
  );
}
