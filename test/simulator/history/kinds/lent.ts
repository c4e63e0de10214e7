import { inBlob } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import { changed } from "../model.ts";
import { BUCKETS, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame } from "../states.ts";
import { writeAnswer } from "./answers.ts";
import { destroyOne, forkOne } from "./branches.ts";
import { eraseOne } from "./erasures.ts";

/** A fork has bytes of its parent's at another path, when the parent erases them: they stay for it as long as it has them. */
export const LENT_KINDS = { "erase lent bytes": { weight: 2, take: lent } } satisfies Record<string, Kind>;

async function lent(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket: parent } = turn;
  const free = BUCKETS.filter((one) => one !== parent && stage.facts.get(one)?.last.generation === null);
  if (free.length === 0) return;
  const fork = random.pick(free);
  const texts = [`lent by ${id}`, `more by ${id}`];
  const versions: { path: string; version: string; digest: string }[] = [];
  for (const [n, text] of texts.entries()) {
    const path = PATHS[n] ?? "a";
    const version = await put(stage, { ...turn, id: `${id}.put.${n}` }, { path, text });
    if (version) versions.push({ path, version, digest: stage.text(text) });
  }
  await forkOne(stage, { id: `${id}.fork`, bucket: fork }, { parent });
  if (!(await isThere(stage, fork))) return;
  for (const [n, { path }] of versions.entries())
    await copy(stage, { ...turn, bucket: fork, id: `${id}.copy.${n}` }, { from: path, to: `kept-${n}` });
  for (const [n, version] of versions.entries())
    await eraseOne(stage, { ...turn, id: `${id}.erase.${n}` }, { ...version, mayErase: true });
  if (random.chance(0.4)) await remove(stage, { ...turn, bucket: fork, id: `${id}.remove` }, "kept-0");
  if (random.chance(0.5)) await destroyOne(stage, { id: `${id}.destroy`, bucket: fork });
}

/** Bytes in a blob. Answers the version that it is, if that is known. */
async function put(
  stage: Stage,
  { id, bucket }: Turn,
  { path, text }: { path: string; text: string },
): Promise<string | undefined> {
  const { uploads, files } = stage.branch(bucket);
  const opened = await insisted(() => uploads.open({}));
  if (!opened?.ok) return undefined;
  const digest = stage.text(text);
  const blob = await stage.writeBlob(text, opened);
  const request = { path, content: inBlob(text, blob), upload: opened.upload, attributes: {} };
  const answer = await stage.ask(
    {
      id,
      bucket,
      text: `put ${id} of ${path} = ${digest.slice(0, 6)}`,
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [[path, digest]])),
    },
    () => files.put({ ...request, annotation: { message: id } }),
    writeAnswer,
  );
  if (answer?.ok) stage.known.add(blob);
  return answer?.ok ? (answer.commit ?? undefined) : undefined;
}

/** How often somebody looks whether a fork has all of its rows, and how long in between; milliseconds. */
const LOOKS = 20;
const BETWEEN_LOOKS_MS = 50;

async function isThere(stage: Stage, bucket: string): Promise<boolean> {
  for (let n = 0; n < LOOKS; n++) {
    if (stage.facts.get(bucket)?.last.generation !== null) return true;
    await scheduler.wait(BETWEEN_LOOKS_MS);
  }
  return false;
}

async function copy(
  stage: Stage,
  { id, bucket }: Turn,
  { from, to }: { from: string; to: string },
): Promise<void> {
  const { files } = stage.branch(bucket);
  const found = await insisted(() => files.read({ path: from }));
  if (!found?.ok) return;
  const { digest, size } = found;
  const operations = [{ put: to, digest, size, attributes: {} }];
  await stage.ask(
    {
      id,
      bucket,
      text: `copy ${id} of ${digest.slice(0, 6)} to ${to}`,
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [[to, digest]])),
    },
    () => files.commit({ operations, annotation: { message: id } }),
    writeAnswer,
  );
}

async function remove(stage: Stage, { id, bucket }: Turn, path: string): Promise<void> {
  await stage.ask(
    {
      id,
      bucket,
      text: `delete ${id} of ${path}`,
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [[path, null]])),
    },
    () => stage.branch(bucket).files.commit({ operations: [{ delete: path }], annotation: { message: id } }),
    writeAnswer,
  );
}
