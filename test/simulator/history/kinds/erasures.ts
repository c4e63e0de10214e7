import { eraseThroughForks } from "../../../../worker/erase.ts";
import { type Change, changed, UNKNOWN } from "../model.ts";
import { addressOf, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame, type State } from "../states.ts";

export const ERASURE_KINDS = { erase: { weight: 3, take: erase } } satisfies Record<string, Kind>;

/** A version of some path goes for good, in forks too or, if a fork has it, not at all. */
async function erase(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const page = await stage.branch(bucket).files.versions({ prefix: "", limit: 100 });
  const versions = page.ok ? page.entries.flatMap((entry) => (entry.kind === "prefix" ? [] : [entry])) : [];
  if (versions.length === 0) return;
  const some = random.pick(versions);
  const { path, version } = some;
  // A deletion is a version, too, and has no bytes.
  const digest = some.kind === "version" ? some.digest : "";
  if (random.chance(0.3)) await stage.branch(bucket).erasures.spans({ versions: [{ path, version }] });
  const deletes = random.chance(0.2) ? random.pick(PATHS) : undefined;
  const mayErase = random.chance(0.7);
  await eraseOne(stage, { id, random, bucket }, { path, version, digest, mayErase, deletes });
  if (random.chance(0.2)) await eraseOfEarlier(stage, { id: `${id}.earlier`, random, bucket });
}

/** Something of an earlier life of the branch goes, which forks may still have. */
async function eraseOfEarlier(stage: Stage, turn: Turn): Promise<void> {
  const { random, bucket } = turn;
  const states = stage.observers.get(bucket)?.states ?? [];
  const live = stage.facts.get(bucket)?.last.generation ?? 0;
  const earlier = states.filter(
    ({ generation, commit, born }) => commit && generation !== live && born.size > 0,
  );
  if (earlier.length === 0) return;
  const { commit: version, tree, generation } = random.pick(earlier);
  const [path, digest] = random.pick([...tree]);
  const { storage } = stage.simulation.branches.object(bucket);
  const [row] = storage.read<{ uid: string }>("SELECT uid FROM generations WHERE gen = ?", generation);
  if (version === null || row === undefined) return;
  await eraseOne(stage, turn, { path, version, digest, mayErase: true, uid: row.uid });
}

interface Erasing {
  readonly path: string;
  readonly version: string;
  /** Empty: it is a deletion. */
  readonly digest: string;
  /** In forks, too. */
  readonly mayErase: boolean;
  /** A path that is deleted together with that, by a commit of its own. */
  readonly deletes?: string | undefined;
  /** Of the generation of this uid, which is over; absent: of the one that lives. */
  readonly uid?: string;
}

/** Erases a version, and notes that somebody wanted it. */
export async function eraseOne(
  stage: Stage,
  { id, bucket }: Turn,
  { path, version, digest, mayErase, deletes, uid }: Erasing,
): Promise<void> {
  const forks = mayErase ? { mayErase: () => true } : ("refuse" as const);
  const asked = {
    id,
    bucket,
    text: `erase ${id} of ${path} of ${version}`,
    leads: (change: Change) =>
      wentBack(stage.observers.get(bucket)?.states ?? [], path, change) ||
      (deletes !== undefined && isSame(change.after.tree, changed(change.before.tree, [[deletes, null]]))),
    isTwofold: deletes !== undefined,
  };
  // Copies go in forks by commits of theirs, whatever becomes of the answer.
  for (const other of stage.observers.keys()) {
    if (other === bucket) continue;
    const leads = (change: Change) => wentBack(stage.observers.get(other)?.states ?? [], path, change);
    stage.note({ ...asked, bucket: other, leads });
  }
  const noted = stage.erased.push({ bucket, path, digest, version, goneFrom: null }) - 1;
  const answer = await stage.ask(
    asked,
    () =>
      eraseThroughForks((address) => stage.branch(`${address.branch}.${address.repo}`), {
        address: addressOf(bucket),
        versions: [{ path, version }],
        annotation: { message: id },
        forks,
        ...(deletes !== undefined && { deletions: [{ delete: deletes }] }),
        ...(uid !== undefined && { uid }),
      }),
    (done) => {
      if (deletes !== undefined) return UNKNOWN;
      // It may be said of a fork.
      if (!done.ok) return { kind: "saw", what: `not erased: ${done.reason}`, of: () => true };
      if (done.commit !== null) return { kind: "made", commit: done.commit };
      return {
        kind: "saw",
        what: "erased",
        of: ({ generation }) => uid !== undefined || generation !== null,
      };
    },
  );
  // Of what is over nothing is shown in any case.
  const generation = uid === undefined ? (stage.facts.get(bucket)?.last.generation ?? null) : null;
  const went = answer?.ok && answer.erased.some((one) => one.path === path && one.version === version);
  if (went)
    stage.erased[noted] = { bucket, path, digest, version, goneFrom: generation, goneAt: stage.stamp() };
}

/** Whether HEAD went back to what it had at the path before, and to nothing else; maybe to the same bytes with other tags. */
function wentBack(states: readonly State[], path: string, { before, after }: Change): boolean {
  const others = ({ tree }: State) => JSON.stringify([...tree].filter(([other]) => other !== path).sort());
  const now = after.tree.get(path);
  const hadIt = states.some(
    ({ generation, since, tree }) =>
      generation === before.generation && since < before.since && tree.get(path) === now,
  );
  // Of two versions that differ in their tags alone, the bytes are the same.
  const isOther = before.born.get(path) !== after.born.get(path);
  return others(before) === others(after) && isOther && hadIt;
}
