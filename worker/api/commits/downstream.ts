import { z } from "zod";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { type Downstream, FateState } from "../../../protocol/pipelines.ts";
import type { PipelineRow } from "../../catalogue/pipelines.ts";
import { outputsOf } from "../../core/circles.ts";
import type { Fate } from "../../pipeline/contract.ts";
import { type ApiRequest, branchInPath, mayRead, readQuery, waitMsFor } from "../request/api-request.ts";
import { commitInPath } from "./log.ts";

/** Readers of the commit itself that one page is about, and pipelines looked at that come after these. */
const MAX_READERS = 20;
const MAX_BEHIND = 50;
/** How long one request waits for the end of a job. */
const MAX_WAIT_SECONDS = 20;

const Query = z.strictObject({
  after: z.coerce.number().int().min(0).default(0),
  /** Seconds to wait for the end of one job, if some have not ended. */
  wait: z.coerce.number().min(0).max(MAX_WAIT_SECONDS).default(0),
});

/**
 * `GET …/commits/{id}/downstream`: what became of a commit at the pipelines that the caller may not see. One that is seen is
 * looked at only if one that is not comes before or after it. A page costs a query of the catalogue and at most 140 calls,
 * whatever there is; twice as many if it waits.
 */
export async function readDownstream(asked: ApiRequest): Promise<Response> {
  const { after, wait } = readQuery(asked, Query);
  const { id: commit } = await commitInPath(asked);
  const { address } = branchInPath(asked);
  const page = { start: { ...address, commit }, after };
  let walked = await walk(asked, page);
  const open = walked.looks.find(({ fate }) => fate.state === "running" && fate.job !== null);
  if (wait > 0 && open?.fate.job) {
    const pipeline = asked.context.pipeline(open.reader.name);
    await pipeline.jobs.wait({ id: open.fate.job, waitMs: waitMsFor(asked, wait * 1000) });
    walked = await walk(asked, page);
  }
  return Response.json(answerOf(asked, walked) satisfies Downstream);
}

/** A commit of a branch. */
interface Place extends BranchAddress {
  readonly commit: string;
}

/** What a pipeline says of a commit that it reads. */
interface Look {
  readonly reader: PipelineRow;
  readonly fate: Fate;
}

interface Walked extends Pick<Downstream, "more" | "next"> {
  readonly looks: readonly Look[];
}

/** One page: some readers of the commit, and all that comes after each of them. */
async function walk(asked: ApiRequest, { start, after }: { start: Place; after: number }): Promise<Walked> {
  if (asked.caller.scope.repos === null) return { looks: [], more: false, next: null };
  const around = surroundingsOf(asked, await asked.context.catalogue.pipelines.list());
  const readers = around.readersOf(start, { maker: undefined });
  const page = readers.slice(after, after + MAX_READERS);
  const nextAfter = (count: number) => (after + count < readers.length ? after + count : null);
  const first = await looksAt(asked, { place: start, readers: page });
  const done = new Set([textOf(start)]);
  const looks: Look[] = [];
  for (const [index, look] of first.entries()) {
    const limit = MAX_BEHIND - (looks.length - index);
    const behind = await looksBehind(asked, { around, first: look, done, limit });
    // The next page begins with this one, and has room for it.
    if (behind.isCut && index > 0) return { looks, more: false, next: nextAfter(index) };
    looks.push(look, ...behind.looks);
    if (behind.isCut) return { looks, more: true, next: nextAfter(1) };
  }
  return { looks, more: false, next: nextAfter(page.length) };
}

/** All that comes after a look, in breadth. `done`: the places whose readers were looked at, which grows. */
async function looksBehind(
  asked: ApiRequest,
  { around, first, done, limit }: { around: Surroundings; first: Look; done: Set<string>; limit: number },
): Promise<{ looks: Look[]; isCut: boolean }> {
  const looks: Look[] = [];
  for (let makers = [first]; makers.length > 0; ) {
    const steps = makers
      .flatMap(({ reader: maker, fate }) => fate.outputs.map((place) => ({ maker, place })))
      .filter(({ place }) => !done.has(textOf(place)))
      .map(({ maker, place }) => ({ place, readers: around.readersOf(place, { maker }) }));
    for (const { place } of steps) done.add(textOf(place));
    const count = steps.reduce((sum, { readers }) => sum + readers.length, 0);
    if (looks.length + count > limit) return { looks, isCut: true };
    makers = (await Promise.all(steps.map((step) => looksAt(asked, step)))).flat();
    looks.push(...makers);
  }
  return { looks, isCut: false };
}

/** What each of the readers says of a commit. One that is gone by now says nothing. */
async function looksAt(
  { context }: ApiRequest,
  { place, readers }: { place: Place; readers: readonly PipelineRow[] },
): Promise<Look[]> {
  if (readers.length === 0) return [];
  const { repo, branch, commit } = place;
  const at = await context.branch({ repo, branch }).feed.position({ commit });
  const looks = readers.map(async (reader): Promise<Look[]> => {
    const found = await context.pipeline(reader.name).lineage.fate({ repo, branch, commit, at });
    return found.ok ? [{ reader, fate: found }] : [];
  });
  return (await Promise.all(looks)).flat();
}

interface Surroundings {
  /** The pipelines that are to be asked of a commit there, by name. `maker`: of the commit; undefined: it is the first one. */
  readersOf(place: BranchAddress, by: { maker: PipelineRow | undefined }): PipelineRow[];
}

function surroundingsOf(asked: ApiRequest, rows: readonly PipelineRow[]): Surroundings {
  const outputs = new Map(rows.map((row) => [row, outputsOf(row).map(bucketName)]));
  const readers = new Map<string, PipelineRow[]>();
  const makers = new Map<string, PipelineRow[]>();
  for (const row of rows) {
    for (const bucket of new Set(row.inputs.map(bucketName))) add(readers, bucket, row);
    for (const bucket of outputs.get(row) ?? []) add(makers, bucket, row);
  }
  const unseen = new Set(rows.filter(({ name }) => !mayRead(asked, name)));
  // Those that lead to an unseen one, from there back to where data comes from.
  const leading = new Set(unseen);
  for (const row of leading) {
    for (const input of row.inputs)
      for (const maker of makers.get(bucketName(input)) ?? []) leading.add(maker);
  }
  return {
    readersOf(place, { maker }) {
      const all = readers.get(bucketName(place)) ?? [];
      return maker && unseen.has(maker) ? all : all.filter((row) => leading.has(row));
    },
  };
}

function add(rows: Map<string, PipelineRow[]>, bucket: string, row: PipelineRow): void {
  const there = rows.get(bucket);
  if (there) there.push(row);
  else rows.set(bucket, [row]);
}

/** What is told of a pipeline that has several jobs of it: the first of these that one of them is in. */
const BY_WEIGHT = ["running", "failure", "killed", "unknown", "success", "none"] satisfies FateState[];

function answerOf(asked: ApiRequest, { looks, more, next }: Walked): Downstream {
  const heaviest = new Map<string, Look>();
  for (const weight of BY_WEIGHT) {
    for (const look of looks) {
      const { name } = look.reader;
      if (look.fate.state === weight && !heaviest.has(name)) heaviest.set(name, look);
    }
  }
  const unseen = [...heaviest.values()]
    .filter(({ reader }) => !mayRead(asked, reader.name))
    .sort((a, b) => (a.reader.name < b.reader.name ? -1 : 1));
  const isNamed = ({ reader }: Look) =>
    looks
      .filter((look) => look.reader === reader)
      .every(({ fate }) => fate.reads.every((repo) => mayRead(asked, repo)));
  const silent = unseen.filter((look) => !isNamed(look));
  const counts = FateState.options.map((state) => [
    state,
    silent.filter(({ fate }) => fate.state === state).length,
  ]);
  return {
    unseen: Object.fromEntries(counts),
    named: unseen.filter(isNamed).map(({ reader, fate }) => ({
      ...{ pipeline: reader.name, state: fate.state, reason: fate.reason },
    })),
    seen: looks
      .filter(({ reader }) => mayRead(asked, reader.name))
      .map(({ reader, fate: { state, job, reason } }) => ({
        ...{ pipeline: reader.name, state, job, reason: job === null ? reason : null },
      })),
    ended: looks.every(({ fate }) => fate.state !== "running"),
    ...{ more, next },
  };
}

function textOf({ commit, ...address }: Place): string {
  return `${bucketName(address)}@${commit}`;
}
