import { askAside, type Said } from "../asides.ts";
import { digestOf } from "../bytes.ts";
import type { Facts } from "../facts.ts";
import type { Answer } from "../model.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import type { State } from "../states.ts";
import { BETWEEN_MS, MOST_TIMES, refusedBy, send } from "./entry.ts";
import { eraseOne } from "./erasures.ts";
import { begin, fill, pickOpen, shownTree } from "./open-commits.ts";
import { changeSettings } from "./settings.ts";
import { NAMES, tag } from "./tags.ts";

/** Requests of S3 clients for what a branch has beside HEAD, by the entry of the Worker. */
export const ENTRY_VIEW_KINDS = {
  "S3 read of a commit": { weight: 0, take: getPast },
  "S3 read of a tag": { weight: 0, take: getTagged },
  "S3 read of an open commit": { weight: 0, take: getOpen },
  "near reads": { weight: 0, take: setNear },
} satisfies Record<string, Kind>;

/** How old what is answered of a commit may be, to whoever has a key. */
const LASTING_MS = 5000;
/** How long after a read of a commit the next one comes, at least: what was answered before may count no more. */
const LATER_MS = [0, 0, LASTING_MS / 2, LASTING_MS];

/** Reads of a file of a commit, by the commit's bucket or by the version's id, for somebody who may have no key. */
async function getPast(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  if (commits.length === 0) return;
  // Others read the newest ones, too.
  const commit = random.pick(random.chance(0.5) ? commits.slice(-2) : commits);
  const written = [...(stage.stateOf(bucket, commit)?.tree.keys() ?? [])];
  const key = random.pick(written.length > 0 ? written : PATHS);
  const of = random.chance(0.7)
    ? { bucket: `${commit.toLowerCase()}.${bucket}` }
    : { bucket, query: { versionId: commit } };
  for (let left = 2 + Math.floor(random.next() * MOST_TIMES); left > 0; left--) {
    const isUnsigned = random.chance(0.3);
    const since = isUnsigned ? stage.stamp() : stage.stampOf(LASTING_MS);
    const text = `GetObject ${id}.${left} of ${key} at ${commit}${isUnsigned ? " without a signature" : ""}`;
    await askAside(
      stage,
      { id: `${id}.${left}`, bucket, text, since },
      {
        call: () => send(stage, { method: "GET", key, ...of, ...(isUnsigned && { isUnsigned }) }),
        saidOf({ status, code, text }): Said {
          if (status !== 200) return { kind: "saw", what: code ?? String(status), of: () => true };
          const read = { bucket, key, commit, digest: digestOf(text), since };
          return {
            kind: "saw",
            what: `read ${read.digest.slice(0, 6)} at ${commit}`,
            of: (facts) => (!isUnsigned || facts.settled.public) && isOfCommit(stage, { ...read, facts }),
          };
        },
      },
    );
    await changePast(stage, { id: `${id}.${left}`, random, bucket }, { key, commit });
    await scheduler.wait(random.pick(LATER_MS) + random.next() * BETWEEN_MS);
  }
}

/** Now and then, what is read of a commit goes, or the branch is public no more, or is so again. */
async function changePast(
  stage: Stage,
  turn: Turn,
  { key: path, commit: version }: { key: string; commit: string },
): Promise<void> {
  const { random, bucket } = turn;
  const digest = stage.stateOf(bucket, version)?.tree.get(path);
  const change = random.next();
  if (change < 0.25) await changeSettings(stage, turn, { public: change < 0.15 });
  else if (digest !== undefined && change < 0.45)
    await eraseOne(stage, turn, { path, version, digest, mayErase: true });
}

interface PastRead {
  readonly bucket: string;
  readonly key: string;
  readonly commit: string;
  readonly digest: string;
  readonly facts: Facts;
  readonly since: number;
}

/** Whether a commit had this, it was not erased before, and the branch still was the one that had it. */
function isOfCommit(stage: Stage, { bucket, key, commit, digest, facts, since }: PastRead): boolean {
  const observer = stage.facts.get(bucket);
  const at = stage.stateOf(bucket, commit);
  const wasMade = observer?.seqIn(facts, commit);
  if (!observer || wasMade === undefined || at?.tree.get(key) !== digest) return false;
  const born = at.born.get(key);
  // A version is read by its own commit as long as anything else has it.
  if (!observer.shows(facts, commit) && born !== wasMade) return false;
  return !stage.erased.some(
    ({ goneAt, goneFrom, ...one }) =>
      one.bucket === bucket &&
      one.path === key &&
      goneFrom === facts.generation &&
      goneAt !== undefined &&
      goneAt < since &&
      observer.seqIn(facts, one.version) === born,
  );
}

/** Reads by the name of a commit, which others get meanwhile: each time it is what that names. */
async function getTagged(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const [name, key] = [random.pick(NAMES), random.pick(PATHS)];
  for (let left = 2 + Math.floor(random.next() * MOST_TIMES); left > 0; left--) {
    const since = stage.stamp();
    await askAside(
      stage,
      { id: `${id}.${left}`, bucket, text: `GetObject ${id}.${left} of ${key} at ${name}` },
      {
        call: () => send(stage, { method: "GET", bucket: `${name}.${bucket}`, key }),
        saidOf({ status, code, text }): Said {
          if (status !== 200 && code !== "NoSuchKey")
            return { kind: "saw", what: code ?? String(status), of: () => true };
          const digest = status === 200 ? digestOf(text) : undefined;
          return {
            kind: "saw",
            what: `read ${digest?.slice(0, 6) ?? "nothing"} at ${name}`,
            of(facts) {
              const commit = facts.tags.get(name);
              if (commit === undefined) return false;
              if (digest !== undefined)
                return isOfCommit(stage, { bucket, key, commit, digest, facts, since });
              const wasErased = stage.erased.some(({ path }) => path === key);
              return wasErased || !stage.stateOf(bucket, commit)?.tree.has(key);
            },
          };
        },
      },
    );
    if (random.chance(0.5)) await tag(stage, { id: `${id}.${left}.tag`, random, bucket });
    await scheduler.wait(random.next() * BETWEEN_MS);
  }
}

/** Reads what an open commit shows, which others fill meanwhile. */
async function getOpen(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const openCommit = (await pickOpen(stage, turn)) ?? (await begin(stage, turn));
  if (openCommit === undefined) return;
  const key = random.pick(PATHS);
  for (let left = 2 + Math.floor(random.next() * MOST_TIMES); left > 0; left--) {
    await stage.ask(
      { id: `${id}.${left}`, bucket, text: `GetObject ${id}.${left} of ${key} in ${openCommit}` },
      () => send(stage, { method: "GET", bucket: `${openCommit.toLowerCase()}.${bucket}`, key }),
      (heard): Answer => {
        const tree = (state: State) => shownTree(state, openCommit);
        if (heard.code === "NoSuchBucket")
          return { kind: "saw", what: heard.code, of: (state) => !tree(state) };
        const refused = refusedBy(heard);
        if (refused && heard.code !== "NoSuchKey") return refused;
        const digest = heard.status === 200 ? digestOf(heard.text) : undefined;
        const what = `read ${digest?.slice(0, 6) ?? "nothing"} in ${openCommit}`;
        const of = (state: State) => {
          const shown = tree(state);
          return shown !== undefined && shown.get(key) === digest;
        };
        return { kind: "saw", what, of };
      },
    );
    if (random.chance(0.5)) await fill(stage, turn, { openCommit, id: `${id}.${left}.fill` });
    await scheduler.wait(random.next() * BETWEEN_MS);
  }
}

/** Lets reads of the newest state be old, or no more. */
async function setNear(stage: Stage, turn: Turn): Promise<void> {
  await changeSettings(stage, turn, { nearReads: turn.random.chance(0.8) });
}
