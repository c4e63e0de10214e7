import { ulid } from "ulid";
import type { Operation } from "../../../../worker/branch/contract/files.ts";
import type { OutputCalls } from "../../../../worker/branch/contract/pipelines.ts";
import { askAside, refusedAside, type Said } from "../asides.ts";
import { digestOf, idOf, inBlob, inline } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import { type Answer, changed } from "../model.ts";
import { BUCKETS, type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isSame } from "../states.ts";
import { refusal } from "./answers.ts";
import { someText } from "./files.ts";
import { makeLarge } from "./open-commits.ts";
import { changeSettings } from "./settings.ts";

/** Branches that a pipeline holds, by somebody who does what a pipeline does; clients take them for theirs meanwhile. */
export const CLAIM_KINDS = { hold: { weight: 3, take: hold } } satisfies Record<string, Kind>;

/** Who holds a branch. */
interface Holder {
  readonly bucket: string;
  readonly pipeline: string;
  readonly uid: string;
  readonly epoch: number;
}

/** An id like those of pipelines and leases, later than those that were made before. */
export function laterId({ simulation }: Stage, { random }: Turn): string {
  return ulid(Math.floor(simulation.world.forwardClock), () => random.next());
}

/** Takes a branch, commits the outputs of some jobs, and lets it go. */
async function hold(stage: Stage, turn: Turn): Promise<void> {
  const { id, random } = turn;
  const free = BUCKETS.filter((one) => stage.facts.get(one)?.last.generation === null);
  const bucket = free.length > 0 && random.chance(0.95) ? random.pick(free) : turn.bucket;
  const claim = { pipeline: `jobs-${id}`, uid: laterId(stage, turn) };
  const { output } = stage.branch(bucket);
  stage.leaving.push(() => output.release({ uid: claim.uid, destroy: false }));
  const first = await take(stage, { ...turn, bucket }, claim);
  if (!first) return;
  let holder = first;
  for (let n = 0; n < 1 + random.below(4); n++) {
    const job = { ...turn, bucket, id: `${id}.${n}` };
    // One that came up again takes it anew; what an earlier one does is refused from then on.
    if (random.chance(0.3)) holder = (await take(stage, { ...job, id: `${job.id}.take` }, claim)) ?? holder;
    if (random.chance(0.2)) await stale(stage, job, first);
    await random.pick([commit, commit, commit, brought, others])(stage, job, holder);
    if (random.chance(0.3)) await scheduler.wait(random.next() * 200);
  }
  const destroy = random.chance(0.6);
  await insisted(async () => [await output.release({ uid: claim.uid, destroy }).catch(busy)]);
}

/** A branch with a large commit under way is not deleted yet: who wants that is to try again. */
function busy(error: unknown): void {
  if (!/is being applied/.test(String(error))) throw error;
}

async function take(
  stage: Stage,
  { id, bucket }: Turn,
  claim: Pick<Holder, "pipeline" | "uid">,
): Promise<Holder | undefined> {
  const answer = await askAside(
    stage,
    { id, bucket, text: `claim ${id} for ${claim.pipeline}` },
    {
      call: () => stage.branch(bucket).output.claim(claim),
      saidOf: (claimed): Said => {
        if (claimed.ok)
          return { kind: "saw", what: "claimed", of: ({ holder }) => holder === claim.pipeline };
        if (claimed.reason === "already-claimed")
          return {
            kind: "saw",
            what: claimed.reason,
            of: ({ holder }) => holder !== null && holder !== claim.pipeline,
          };
        return refusedAside(claimed);
      },
    },
  );
  return answer?.ok ? { bucket, ...claim, epoch: answer.epoch } : undefined;
}

/** Who holds it no more commits nothing, once another one took it. */
async function stale(stage: Stage, { id, bucket }: Turn, { uid, epoch }: Holder): Promise<void> {
  const { output } = stage.branch(bucket);
  const old = { uid, epoch: epoch - 1, origin: `${id}.stale`, operations: [] };
  const answers = [
    await insisted(() => output.commit(old)),
    await insisted(() => output.stage({ ...old, anew: false })),
  ];
  for (const answer of answers) {
    if (!answer?.ok) continue;
    stage.wrong.push(`${bucket}: who held it before ${id} committed: ${JSON.stringify(answer)}`);
  }
}

/** What a job changes: texts by paths; null: it deletes. */
type Changes = readonly (readonly [path: string, text: string | null])[];

function someChanges(turn: Turn): Changes {
  const { random } = turn;
  return [...PATHS, "dir/f", "z"]
    .filter(() => random.chance(0.5))
    .map((path) => [path, random.chance(0.25) ? null : someText(turn)] as const);
}

function operationsOf(changes: Changes): Operation[] {
  return changes.map(([path, text]) =>
    text === null ? { delete: path } : { put: path, ...idOf(text), attributes: {} },
  );
}

function contentsOf(changes: Changes) {
  return changes.flatMap(([, text]) => (text === null ? [] : [inline(text)]));
}

/** The commit of a job, which is made once however often it is asked for, whether it changes anything or not. */
async function commit(stage: Stage, turn: Turn, holder: Holder): Promise<void> {
  const { id, random } = turn;
  const changes = someChanges(turn);
  const isStaged = random.chance(0.5);
  if (isStaged && !(await stageSome(stage, turn, { holder, changes }))) return;
  const asked = isStaged
    ? { operations: [], staged: true as const }
    : { operations: operationsOf(changes), contents: contentsOf(changes) };
  const answer = await commitOnce(stage, turn, { holder, changes, asked });
  // A refusal is true only of a commit that is never made: asked for again, it might be.
  if (random.chance(0.3) && answer?.ok !== false)
    await commitOnce(stage, { ...turn, id: `${id}.again` }, { holder, changes, asked, origin: id });
}

interface Committing {
  readonly holder: Holder;
  readonly changes: Changes;
  readonly asked: { readonly operations: readonly Operation[]; readonly staged?: true };
  /** Of a commit that was asked for before. */
  readonly origin?: string;
}

async function commitOnce(
  stage: Stage,
  { id }: Turn,
  { holder, changes, asked, origin = id }: Committing,
): Promise<Awaited<ReturnType<OutputCalls["commit"]>> | undefined> {
  const { bucket, uid, epoch } = holder;
  const digests = changes.map(([path, text]) => [path, text === null ? null : stage.text(text)] as const);
  const request = { uid, epoch, origin, lineage: { [uid]: epoch }, ...asked };
  const { output } = stage.branch(bucket);
  const committed = () =>
    stage.observers.get(bucket)?.states.find((state) => state.origin === origin)?.commit;
  return await stage.ask(
    {
      id,
      bucket,
      text: `job ${id} commits ${JSON.stringify(changes)}`,
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, digests)),
    },
    async () => {
      // One that is large goes on by itself.
      for (let n = 0; ; n++) {
        const answer = await output.commit(request);
        if (answer.ok || answer.reason !== "applying" || n === MOST_ASKED) return answer;
      }
    },
    (answer): Answer => {
      if (!answer.ok) return refusal(answer);
      if (origin === id) return { kind: "made", commit: answer.commit };
      return { kind: "saw", what: `committed ${answer.commit}`, of: () => answer.commit === committed() };
    },
  );
}

/** How often somebody asks for the end of a large commit. */
const MOST_ASKED = 8;

/** Some calls bring what one commit is made of; what was staged before may be forgotten first. */
async function stageSome(
  stage: Stage,
  { id, random, bucket }: Turn,
  { holder, changes }: { holder: Holder; changes: Changes },
): Promise<boolean> {
  const { output } = stage.branch(bucket);
  const { uid, epoch } = holder;
  const common = { uid, epoch, origin: id };
  const wasStaged = random.chance(0.3);
  const parts: readonly { readonly changes: Changes; readonly anew: boolean }[] = [
    ...(wasStaged ? [{ changes: [["zz", "forgotten"]] as const, anew: false }] : []),
    { changes: changes.slice(0, 2), anew: wasStaged },
    { changes: changes.slice(2), anew: false },
  ];
  for (const part of parts) {
    const operations = operationsOf(part.changes);
    const request = { ...common, operations, contents: contentsOf(part.changes), anew: part.anew };
    const answer = await insisted(() => output.stage(request));
    if (!answer?.ok) return false;
    if (part.anew && random.chance(0.2)) await insisted(() => output.stage(request));
  }
  if (random.chance(0.3)) await makeLarge(stage, { bucket, origin: id });
  return true;
}

/** What a datum writes comes by an upload of its lease, and a commit names it. A lease that is lost brings nothing any more. */
async function brought(stage: Stage, turn: Turn, holder: Holder): Promise<void> {
  const { id, random, bucket } = turn;
  const { uploads } = stage.branch(bucket);
  const lease = `${random.chance(0.4) ? "shared." : ""}${laterId(stage, turn)}`;
  const isLost = random.chance(0.3);
  const opened = await insisted(() => uploads.open({ lease }));
  if (!opened?.ok) return;
  const { upload } = opened;
  const again = await insisted(() => uploads.open({ lease }));
  if (again?.ok && again.upload !== upload) stage.wrong.push(`${bucket}: the lease of ${id} has two uploads`);
  const text = `brought by ${id}`;
  stage.text(text);
  const blob = random.chance(0.5) ? await stage.writeBlob(text, opened) : undefined;
  const content = blob === undefined ? inline(text) : inBlob(text, blob);
  const added = await insisted(() => uploads.add({ upload, contents: [content] }));
  if (added?.ok && blob !== undefined) stage.known.add(blob);
  if (isLost) {
    await insisted(async () => [await uploads.abortLeases({ leases: [lease] })]);
    const late = await insisted(() => uploads.open({ lease }));
    if (late?.ok) stage.wrong.push(`${bucket}: the lost lease of ${id} has an upload`);
    return;
  }
  const changes: Changes = [[random.pick(PATHS), text]];
  if (added?.ok)
    await commitOnce(stage, turn, { holder, changes, asked: { operations: operationsOf(changes) } });
  const keep = random.chance(0.3) ? [`${digestOf(text)}-${idOf(text).size}`] : [];
  await insisted(async () => [await uploads.trim({ uploads: [{ upload, keep }] })]);
  await insisted(async () => [await uploads.abortLeases({ leases: [lease] })]);
}

/** What nobody may do while a pipeline holds the branch. */
async function others(stage: Stage, turn: Turn, { bucket, pipeline, uid }: Holder): Promise<void> {
  const { random } = turn;
  const { uploads, output } = stage.branch(bucket);
  // A lease of an earlier pipeline of the name, and somebody else who wants to have the branch.
  await insisted(() => uploads.open({ lease: "01K0000000000000000000000Z" }));
  const other = await insisted(() =>
    output.claim({ pipeline, uid: `${uid.slice(0, -1)}${uid.endsWith("0") ? "1" : "0"}` }),
  );
  if (other?.ok) stage.wrong.push(`${bucket}: two hold it: ${turn.id}`);
  const change = random.pick([
    { writer: { pipeline: "another" } },
    { writer: { key: "ann" } },
    { writer: { pipeline } },
    { keep: { commits: 1 } },
  ] as const);
  await changeSettings(stage, turn, change);
  for (let n = 0; n < 3 && "writer" in change; n++)
    if (await changeSettings(stage, turn, { writer: null })) return;
}
