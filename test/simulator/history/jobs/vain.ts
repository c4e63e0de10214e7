import type { PipelineSpec } from "../../../../protocol/spec.ts";
import type { Random } from "../../platform/random.ts";
import type { JobsWorld } from "./clients.ts";

/** What an update may always come to. */
const NOT_NOW = ["unavailable", "catalogue-unavailable", "no-such-pipeline"];
/** The id of a commit that no branch has. */
const NO_COMMIT = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

/** Somebody wants of a pipeline what can't be. Nothing comes of it; answers what is wrong. */
export async function updateInVain(
  world: JobsWorld,
  { name, random }: { name: string; random: Random },
): Promise<string[]> {
  const found = await world.pipeline(name).lifecycle.inspect();
  const [first] = found.ok ? found.pipeline.spec.inputs : [];
  if (!found.ok || !first) return [];
  const { spec } = found.pipeline;
  if (random.chance(0.3)) return await takeErrors(world, { name, before: spec });
  if (random.chance(0.3)) return await closeCircle(world, { name, repo: first.repo.name });
  const changes: [reason: string, change: Partial<PipelineSpec>][] = [
    ["no-such-commit", { inputs: [{ ...first, from: { repo: first.repo, ID: NO_COMMIT } }] }],
    ["other-output", { outputBranch: "elsewhere" }],
  ];
  const last = world.pipelines.at(-1)?.name ?? name;
  const own = { name: "own", repo: { name: last }, branch: "master", glob: "/*", lazy: false };
  // One that is being deleted closes no circle.
  const isThere = last !== name && world.rows(last).state === "active";
  if (isThere) changes.push(["circle", { inputs: [first, own] }]);
  const [reason, change] = random.pick(changes);
  const answer = await updated(world, { name, spec: { ...spec, ...change } });
  if (answer === reason || NOT_NOW.includes(answer)) return [];
  return [`an update of ${name} that is a ${reason} came to ${answer}`];
}

/** Answers the reason why it was refused, or "done". */
async function updated(
  world: JobsWorld,
  { name, spec }: { name: string; spec: PipelineSpec },
): Promise<string> {
  const answer = await world.pipeline(name).specification.update({ spec, reprocess: false });
  const outcome = answer.ok ? "done" : answer.reason;
  world.tally.add(`outcome update in vain: ${outcome}`);
  return outcome;
}

/** A pipeline whose output would be what this one reads, and that reads this one's: none is made, and the branch stays. */
async function closeCircle(
  world: JobsWorld,
  { name, repo }: { name: string; repo: string },
): Promise<string[]> {
  if (!world.inputs.includes(repo) || world.rows(name).state !== "active") return [];
  const spec = world.spec({ name: repo, inputs: [{ repo: name, glob: "/*" }], skips: false });
  const answer = await world.pipeline(repo).lifecycle.create(spec);
  world.tally.add(`outcome update in vain: ${answer.ok ? "done" : answer.reason}`);
  return answer.ok ? [`a pipeline made ${repo} out of ${name}, which is made out of it`] : [];
}

/** Somebody has the branch that is to tell of bad datums: as long as that is so, no datum can be left out. */
async function takeErrors(
  world: JobsWorld,
  { name, before }: { name: string; before: PipelineSpec },
): Promise<string[]> {
  const errors = world.branch(name, "errors");
  const made = await errors.lifecycle.create();
  if (!made.ok) return [];
  const outcome = await updated(world, { name, spec: { ...before, onDatumFailure: "skip" } });
  const owner = await errors.lifecycle.status();
  const isOthers = owner.ok && owner.claimedBy !== name;
  if (isOthers) await errors.lifecycle.destroy({ withFiles: true });
  return outcome === "done" && isOthers
    ? [`${name} leaves datums out, and somebody else has the branch that tells of them`]
    : [];
}
