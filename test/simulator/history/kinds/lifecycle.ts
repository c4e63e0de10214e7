import type { ObjectTag } from "../../../../protocol/object-tags.ts";
import { type LifecycleRule, midnightAfter, midnightOf } from "../../../../worker/core/lifecycle-rules.ts";
import type { Endings } from "../beside.ts";
import { idOf, inline } from "../bytes.ts";
import type { Expired, Facts } from "../facts.ts";
import type { Change } from "../model.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { attributesOf, isSame } from "../states.ts";
import { refusal, writeAnswer } from "./answers.ts";
import { changeSettings } from "./settings.ts";

/** Files that go with time, and what says which. */
export const LIFECYCLE_KINDS = {
  rules: { weight: 3, take: rules },
  retag: { weight: 3, take: retag },
  renew: { weight: 3, take: renew },
} satisfies Record<string, Kind>;

const DAY_MS = 24 * 60 * 60_000;
const TAGS = [["kind", "old"]] as const;

async function rules(stage: Stage, turn: Turn): Promise<void> {
  const { random } = turn;
  const some = Array.from({ length: random.below(3) }, (_, n) => someRule(stage, { random, id: `r${n}` }));
  const lifecycle = some.length === 0 ? null : { rules: some, ...(random.chance(0.3) && { key: "ann" }) };
  await changeSettings(stage, turn, { lifecycle });
}

function someRule({ simulation }: Stage, { random, id }: Pick<Turn, "random" | "id">): LifecycleRule {
  const now = simulation.world.clock;
  const common = { id, enabled: random.chance(0.9), filter: "and" as const };
  const expiration = random.chance(0.7)
    ? { days: 1 + random.below(3) }
    : { date: midnightAfter(now + random.below(3) * DAY_MS) };
  const which = random.next();
  if (which < 0.1) return { ...common, prefix: "", noncurrentDays: 1 + random.below(3) };
  if (which < 0.35)
    return {
      ...common,
      prefix: random.pick(["", "dir/", "a"]),
      abortDays: 1 + random.below(3),
      ...(random.chance(0.3) && { expiration }),
    };
  if (which < 0.45) return { ...common, prefix: "", expiration };
  if (which < 0.6) return { ...common, prefix: random.pick(["", "dir/"]), expiration, tags: TAGS };
  return { ...common, prefix: random.pick(["dir/", "a"]), expiration };
}

export function withTags(attributes: string | undefined, tags: readonly ObjectTag[]): string {
  return attributesOf({ ...JSON.parse(attributes || "{}"), tags });
}

/** Tags of what is there, by which its bytes become no younger. */
async function retag(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const path = random.pick(PATHS);
  const tags = random.chance(0.7) ? TAGS : [];
  await stage.ask(
    {
      id,
      bucket,
      text: `retag ${id} of ${path} = ${JSON.stringify(tags)}`,
      leads: ({ before, after }: Change) =>
        before.tree.has(path) &&
        isSame(before.tree, after.tree) &&
        (after.attributes.get(path) ?? "") === withTags(before.attributes.get(path), tags),
    },
    () => stage.branch(bucket).files.setTags({ path, tags, annotation: { message: id } }),
    (answer) => {
      if (answer.ok) return { kind: "made", commit: answer.commit };
      if (answer.reason !== "no-such-file") return refusal(answer);
      return {
        kind: "saw",
        what: answer.reason,
        of: ({ generation, tree }) => generation !== null && !tree.has(path),
      };
    },
  );
}

/** Writes again what is there, by which it becomes younger, and maybe no commit. */
async function renew(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const branch = stage.branch(bucket);
  const path = random.pick(PATHS);
  const found = await branch.files.read({ path });
  const text = found.ok ? stage.texts.get(found.digest) : undefined;
  if (!found.ok || text === undefined) return;
  const { attributes, digest } = found;
  const request = { path, content: inline(text), attributes, annotation: { message: id } };
  const { world } = stage.simulation;
  const askedAt = world.clock;
  await stage.ask(
    {
      id,
      bucket,
      text: `renew ${id} of ${path}`,
      leads: ({ before, after }: Change) => isSame(after.tree, new Map([...before.tree, [path, digest]])),
    },
    () => branch.files.put({ ...request, condition: { match: [idOf(text)] } }),
    (answer) => {
      if (!answer.ok && (answer.reason === "condition-failed" || answer.reason === "no-such-file"))
        return { kind: "saw", what: answer.reason, of: ({ tree }) => tree.get(path) !== digest };
      if (answer.ok && answer.commit === null) {
        // As of now it was written, or as of then if the clock jumped forward since.
        const at = Math.floor(world.clock - askedAt > LATEST_MS ? askedAt : world.clock);
        stage.renewed.push({ bucket, path, at, stamp: stage.stamp() });
      }
      return writeAnswer(answer);
    },
  );
}

/**
 * Whether a commit that nobody asked for is what a lifecycle rule does: it only deletes, and what it deletes is what the rule is
 * about, and old enough.
 */
export function isExpiry(stage: Stage, bucket: string, { before, after }: Change): boolean {
  const name = after.message?.match(/^expired by the lifecycle rule '(.*)'$/)?.[1];
  const facts = stage.facts.get(bucket);
  if (name === undefined || facts === undefined || after.commit === null) return false;
  const there = facts.between(before.since, after.since);
  const expired = facts.expired.get(after.commit) ?? [];
  const left = new Map([...before.tree].filter(([path]) => !expired.some((one) => one.path === path)));
  const writtenAt = (path: string) => writtenBefore(stage, { bucket, path, change: { before, after } });
  const madeAt = facts.madeAt(after.commit);
  return (
    expired.length > 0 &&
    isSame(left, after.tree) &&
    there.some(({ settled: { lifecycle } }) =>
      lifecycle?.rules.some(
        (rule) =>
          rule.id === name &&
          rule.enabled &&
          expired.every(
            (one) => isAbout(rule, one) && isDue(rule, { writtenAt: writtenAt(one.path), madeAt }),
          ),
      ),
    )
  );
}

function isAbout({ prefix, tags = [] }: LifecycleRule, { path, tags: has }: Expired): boolean {
  return (
    path.startsWith(prefix) && tags.every(([key, value]) => has.some(([k, v]) => k === key && v === value))
  );
}

/** Days are full ones, rounded up to midnight; a date is of what was written before the midnight. */
function isDue(
  { expiration }: LifecycleRule,
  { writtenAt, madeAt }: { writtenAt: number; madeAt: number },
): boolean {
  if (!expiration) return false;
  const midnight = midnightOf(madeAt);
  if ("date" in expiration) return expiration.date <= midnight && writtenAt < midnight;
  return writtenAt + expiration.days * DAY_MS < midnight;
}

/**
 * When the bytes at a path were written that were there before a change. What is there again since a newer version was erased is as
 * old as it was; tags make nothing younger, and leave the tree as it is.
 */
function writtenBefore(
  stage: Stage,
  { bucket, path, change: { before, after } }: { bucket: string; path: string; change: Change },
): number {
  const facts = stage.facts.get(bucket);
  const states = stage.observers.get(bucket)?.states ?? [];
  const digest = before.tree.get(path);
  let writtenAt = 0;
  for (let at = states.indexOf(before); at >= 0; at--) {
    const [now, earlier] = [states[at], states[at - 1]];
    if (!now || now.generation !== before.generation) break;
    const isWritten = now.tree.get(path) === digest && earlier?.tree.get(path) !== digest;
    if (!isWritten || now.commit === null || isErasure(stage, { bucket, message: now.message })) continue;
    writtenAt = facts?.madeAt(now.commit) ?? 0;
    // It was there with the same bytes all the time.
    const wasExpiring = (one: Facts | undefined) =>
      one?.settled.lifecycle?.rules.some(({ enabled, expiration }) => enabled && expiration !== undefined);
    for (const { bucket: other, path: written, at: time, stamp } of stage.renewed)
      if (other === bucket && written === path && stamp > now.since && stamp < after.since)
        if (wasExpiring(facts?.between(stamp, stamp)[0])) writtenAt = Math.max(writtenAt, time - LATEST_MS);
    break;
  }
  return writtenAt;
}

/** How much earlier than its answer a write was done at most; milliseconds. */
const LATEST_MS = 60_000;

/** Whether an upload that is no more may have been ended by a rule: it began so many full days before the last midnight. */
export function isAborted(
  { facts }: Stage,
  { bucket, filled: { path, initiatedAt, goesInto }, before, after }: Ended,
): boolean {
  if (path === null || initiatedAt === null || goesInto !== null) return false;
  const there = facts.get(bucket)?.between(before.since, after.since) ?? [];
  return there.some(({ settled: { lifecycle } }) =>
    lifecycle?.rules.some(
      ({ enabled, prefix, abortDays }) =>
        enabled &&
        abortDays !== undefined &&
        path.startsWith(prefix) &&
        initiatedAt + abortDays * DAY_MS < midnightOf(after.at),
    ),
  );
}

type Ended = Parameters<Endings["isByRule"]>[0];

function isErasure(
  { taken }: Stage,
  { bucket, message }: { bucket: string; message: string | null },
): boolean {
  return taken.some((one) => one.bucket === bucket && one.id === message && one.text.startsWith("erase "));
}

/** Files that rules should have deleted, and uploads that they should have ended, now that all is long due. */
export function dueFaults({ facts, observers }: Stage): string[] {
  return [...facts].flatMap(([bucket, observer]) => {
    const { settled } = observer.last;
    const aborting = settled.lifecycle?.rules.filter(({ enabled, abortDays }) => enabled && abortDays) ?? [];
    const uploads = [...(observers.get(bucket)?.last.beside ?? [])].filter(
      ([, { path, goesInto }]) =>
        path !== null && goesInto === null && aborting.some(({ prefix }) => path.startsWith(prefix)),
    );
    if (uploads.length > 0)
      return uploads.map(([name]) => `${bucket} still has the upload ${name}: ${JSON.stringify(aborting)}`);
    const rules = settled.lifecycle?.rules.filter(({ enabled, expiration }) => enabled && expiration) ?? [];
    if (settled.writer !== null || observer.last.generation === null) return [];
    return observer
      .filesAtHead()
      .filter((file) => rules.some((rule) => isAbout(rule, file)))
      .map(({ path }) => `${bucket} still has ${path}, which a rule is about: ${JSON.stringify(rules)}`);
  });
}
