import type { CreateBranch } from "../../../../worker/branch/contract/lifecycle.ts";
import type { SettingsChange } from "../../../../worker/branch/contract/settings.ts";
import type { LifecycleRule } from "../../../../worker/core/lifecycle-rules.ts";
import { askAside, type FactsChange, isSameOf, refusedAside } from "../asides.ts";
import { inline } from "../bytes.ts";
import { type Facts, inOrder } from "../facts.ts";
import { type Change, changed } from "../model.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame } from "../states.ts";
import { writeAnswer } from "./answers.ts";

/** What a branch is set to. */
export const SETTING_KINDS = {
  set: { weight: 3, take: set },
  protect: { weight: 3, take: protect },
  inspect: { weight: 3, take: inspect },
} satisfies Record<string, Kind>;

/** The key that a branch is protected for. */
const KEYS = ["ann", "ben"];

/** Whether the settings of one moment are others with a change. */
function isSet(facts: Facts, change: SettingsChange): boolean {
  return Object.entries(change).every(
    ([name, value]) =>
      JSON.stringify(facts.settled[name as keyof Facts["settled"]]) === JSON.stringify(value),
  );
}

/** What rules say of how much stays, if they say or said anything. */
function keptBy({ settled }: Facts, { lifecycle }: SettingsChange): Pick<SettingsChange, "keep"> {
  if (lifecycle === undefined) return {};
  const daysOf = (rules: readonly LifecycleRule[] = []) =>
    rules.flatMap(({ enabled, noncurrentDays }) => (enabled && noncurrentDays) || []);
  const [before, after] = [daysOf(settled.lifecycle?.rules), daysOf(lifecycle?.rules)];
  if (after.length > 0) return { keep: { days: Math.min(...after) } };
  const isTheirs =
    before.length > 0 && JSON.stringify(settled.keep) === JSON.stringify({ days: Math.min(...before) });
  return isTheirs ? { keep: null } : {};
}

/** Sets something, and notes that it was asked. Answers whether it is done. */
export async function changeSettings(
  stage: Stage,
  { id, bucket }: Pick<Turn, "id" | "bucket">,
  change: SettingsChange,
): Promise<boolean> {
  const leads = (facts: FactsChange) =>
    isSameOf("tags", facts) &&
    // Nothing else is another one.
    JSON.stringify({ ...facts.before.settled, ...keptBy(facts.before, change), ...change }) ===
      JSON.stringify(facts.after.settled);
  const answer = await askAside(
    stage,
    { id, bucket, text: `set ${id} ${JSON.stringify(change)}`, leads },
    {
      call: () => stage.branch(bucket).settings.change(change),
      saidOf: (done) =>
        done.ok ? { kind: "saw", what: "set", of: (facts) => isSet(facts, change) } : refusedAside(done),
    },
  );
  return answer?.ok ?? false;
}

/** A creation of which nobody was told is finished by the next one, and the branch is as that one wants it. */
export function noteCreation(
  stage: Stage,
  { id, bucket }: Pick<Turn, "id" | "bucket">,
  wants: CreateBranch = {},
): void {
  const { public: isPublic = false, emptyOnly = false, modified = null } = wants;
  const leads = ({ before, after }: FactsChange) => {
    const { keep } = after.settled;
    const wanted = { ...before.settled, public: isPublic, emptyOnly, modified, keep };
    const keeps = [before.settled.keep, wants.keep ?? null].map((one) => JSON.stringify(one));
    return (
      isSameOf("tags", { before, after }) &&
      keeps.includes(JSON.stringify(keep)) &&
      JSON.stringify(wanted) === JSON.stringify(after.settled)
    );
  };
  const [begun, ended] = [stage.stamp(), Number.POSITIVE_INFINITY];
  stage.asides.push({ bucket, text: `create ${id}`, begun, ended, said: { kind: "unknown" }, leads });
}

/** Who may read from a page of another origin. */
const CORS = [{ origins: ["https://a.example"], methods: ["GET"], headers: [], exposed: [] }];

/** What has no effect on writes. */
async function set(stage: Stage, turn: Turn): Promise<void> {
  const { random } = turn;
  const change = random.pick<SettingsChange>([
    { public: random.chance(0.5) },
    { emptyOnly: random.chance(0.5) },
    { modified: random.pick(["file", "branch", null] as const) },
    { cors: random.chance(0.5) ? CORS : null },
    // No pipeline holds it that is called so.
    { writer: { pipeline: "none" } },
  ]);
  await changeSettings(stage, turn, change);
}

async function inspect(stage: Stage, { id, bucket }: Turn): Promise<void> {
  await askAside(
    stage,
    { id, bucket, text: `inspect ${id}` },
    {
      call: () => stage.branch(bucket).settings.read(),
      saidOf: (answer) => {
        if (!answer.ok) return refusedAside(answer);
        const read = inOrder(answer);
        return {
          kind: "saw",
          what: `settings ${JSON.stringify(read)}`,
          of: (facts) => facts.generation !== null && isSet(facts, read),
        };
      },
    },
  );
}

/** One key alone may write for a while, and does, while others try to. */
async function protect(stage: Stage, turn: Turn): Promise<void> {
  const { random, bucket } = turn;
  const key = random.pick(KEYS);
  await changeSettings(stage, turn, { writer: { key } });
  for (let n = random.below(3); n >= 0; n--)
    await putAs(stage, { ...turn, id: `${turn.id}.${n}` }, random.pick([...KEYS, undefined]));
  // Nobody else comes after it, so the others could write no more.
  for (let tries = 0; tries < 20; tries++) {
    if (await changeSettings(stage, turn, { writer: null })) return;
    if (stage.facts.get(bucket)?.last.settled.writer === null) return;
  }
}

async function putAs(stage: Stage, { id, random, bucket }: Turn, key: string | undefined): Promise<void> {
  const path = random.pick(PATHS);
  const digest = stage.text(`text ${id}`);
  const asked = {
    id,
    bucket,
    text: `put ${id} of ${path} by ${key ?? "somebody"}`,
    leads: ({ before, after }: Change) => isSame(after.tree, changed(before.tree, [[path, digest]])),
  };
  const annotation = { message: id, ...(key !== undefined && { key }) };
  const request = { path, content: inline(`text ${id}`), attributes: {}, annotation };
  await stage.ask(asked, () => stage.branch(bucket).files.put(request), writeAnswer);
}
