import { type ContentId, contentName } from "../../../../protocol/content.ts";
import { bucketName } from "../../../../protocol/names.ts";
import type { Erasure } from "../../../branch/contract/erasures.ts";
import type { Tx } from "../../../objects/transaction.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { type Definition, errorsOf } from "../../lifecycle/definition.ts";
import type { MakerRow } from "../../output/published-store.ts";

/** Leases that the branch is told of in one call. */
const LEASES = 500;

/**
 * Tells the output branch which leases ended without a result. What was uploaded under them would stay for ever: an
 * upload under a lease has no end of its own, because a result may keep it.
 *
 * The branch ends these uploads at once. That takes nothing from anybody:
 *  - No result names one. A lease is written down here in the transaction that takes it from its attempt or task, and an
 *    outcome is recorded only for a lease that one has (`AttemptStore.held`, `TaskStore.held`). No lease is given twice.
 *  - The same bytes that another upload or a file has are counted for that by itself.
 *  - A late call under the lease is refused, whether it adds to the upload or opens one: the branch remembers the lease
 *    for longer than a call can take. What such a call has brought is discarded with the refusal.
 *  - Small contents that come with the outcomes of several leases are kept under a name of their own
 *    (`worker/api/runner.ts`), which is never lost. Of one that no result names the branch learns by itself
 *    (`worker/branch/work/shared-uploads.ts`).
 * What is lost is only that the next try might have found some of its bytes there: it sends them again.
 */
export async function endLostUploads({ ledger, peers }: PipelineContext): Promise<void> {
  for (;;) {
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    const leases = definition ? ledger.lost.some(LEASES) : [];
    if (!definition || leases.length === 0) return;
    await peers.branch(definition.output).uploads.abortLeases({ leases });
    ledger.transaction(() => ledger.lost.forget(leases));
    await yieldToOthers();
  }
}

/** Uploads that the branch is told of in one call, and the most contents of them that are still named. */
const UPLOADS = 50;
const CONTENTS = 20_000;

/**
 * Tells the output branch what is left of uploads of which results or merges went: it lets go of everything else that they
 * hold, so that the bytes go which no file has. An upload may have brought the contents of several results, since small
 * ones that are reported together share one.
 *
 * What is named is looked up in the same turn in which the call is made, and nothing names an upload later: a result comes
 * with the outcome of a lease, in the one call that its upload was filled for (worker/api/runner.ts). If it did all
 * the same, its content would be missing when the job commits, and its datum would run again (work/finish/commit.ts): what is kept
 * is decided by the branch's own counts, never here.
 */
export async function endGivenUp({ ledger, peers }: PipelineContext): Promise<void> {
  for (;;) {
    const definition = ledger.exists ? ledger.pipeline.definition() : undefined;
    const given = definition ? ledger.givenUp.some(UPLOADS) : [];
    if (!definition || given.length === 0) return;
    const settled: typeof given = [];
    const uploads: { upload: string; keep: string[] }[] = [];
    let room = CONTENTS;
    for (const each of given) {
      const named = namedOf(ledger, each.upload);
      if (named.length > room && settled.length > 0) break;
      settled.push(each);
      room -= named.length;
      // Too much to be told: all of it stays.
      if (named.length > CONTENTS) continue;
      uploads.push({ upload: each.upload, keep: [...new Set(named.map(contentName))] });
    }
    if (uploads.length > 0) await peers.branch(definition.output).uploads.trim({ uploads });
    ledger.transaction(() => {
      ledger.givenUp.settle(settled);
      for (const { upload } of settled)
        if (!ledger.results.hasUpload(upload)) ledger.results.forgetUpload(upload);
    });
    await yieldToOthers();
  }
}

/** What results and merges still name of an upload. */
function namedOf({ results, merges }: Ledger, upload: string): ContentId[] {
  return [...results.contentsOf(upload, CONTENTS + 1), ...merges.contentsOf(upload)];
}

/** Contents that the output branch is told of at a time. */
const GIVEN_UP = 500;
/** Datums of one path that are read at a time. */
const MAKERS = 1000;

/**
 * What was erased in the output branch goes from the results that have it, and what merges made of them. A result stays one:
 * its datum does not run again because a file of it was erased. What other files of the output are made of stays.
 *
 * The next job builds upon what is published. So of a path that was erased at HEAD nothing is published any more or, if an
 * earlier version came back, that version: a datum that dies then takes it along.
 *
 * If no commit has the path any more, nothing is kept of what made it either, since that has its name.
 *
 * First our rows, then the branch: a crash in between leaves in `erased_outputs` what the branch is yet to be told. An upload
 * may have brought the same content for several results: what one of them has still, or a merge, the upload keeps. That is
 * looked up in the turn of the call, and nothing names an upload later.
 */
export async function dropErased(context: PipelineContext): Promise<void> {
  const { ledger, peers } = context;
  const definition = ledger.pipeline.definition();
  if (!definition) return;
  const { uid, output } = definition;
  const branch = peers.branch(output);
  const bucket = bucketName(output);
  for (let due = ledger.erasures.due(bucket); due > 0; due = ledger.erasures.due(bucket)) {
    const after = ledger.erasures.heard(bucket);
    const { committed } = ledger.pipeline.existing;
    const { erasures, upTo } = await branch.erasures.list({ uid, after });
    for (const erasure of erasures) {
      ledger.transaction((tx) => {
        dropOne(tx, context, erasure);
        // Unless another output was committed since the branch was asked.
        const isAsItWas = ledger.pipeline.existing.committed === committed;
        if (erasure.left === false && isAsItWas) ledger.makers.forget(erasure.path);
        ledger.oweRewrite(tx, peers.now());
        ledger.erasures.hear(bucket, erasure.number);
      });
      await yieldToOthers();
    }
    if (upTo > after) ledger.transaction(() => ledger.erasures.hear(bucket, upTo));
    else {
      await hearErrors(context, definition);
      ledger.transaction(() => ledger.erasures.settle(bucket, due));
    }
  }
  for (;;) {
    const rows = ledger.erasures.givenUp(GIVEN_UP);
    if (rows.length === 0) return;
    const contents = rows.filter((row) => !ledger.results.names(row) && !ledger.merges.names(row));
    await branch.uploads.letGo({ contents });
    ledger.transaction(() => ledger.erasures.forgetGivenUp(rows));
  }
}

/** Of the errors branch no result has anything. It is told all the same that this was heard, so that it forgets. */
async function hearErrors({ ledger, peers }: PipelineContext, { name, uid }: Definition): Promise<void> {
  if (!ledger.errorsClaim.get(uid)) return;
  const errors = errorsOf({ name });
  const bucket = bucketName(errors);
  for (let after = -1, upTo = ledger.erasures.heard(bucket); upTo > after; ) {
    after = upTo;
    ({ upTo } = await peers.branch(errors).erasures.list({ uid, after }));
    ledger.transaction(() => ledger.erasures.hear(bucket, upTo));
  }
}

function dropOne(_: Tx, { ledger }: PipelineContext, erasure: Erasure): void {
  const { path, origin, now } = erasure;
  const { makers, published, results, merges, erasures } = ledger;
  const job = origin === null ? undefined : ledger.jobs.byId(origin);
  const made: MakerRow[] = [];
  for (let after: string | null = null; job; ) {
    const page: MakerRow[] = makers.of(path, { job: job.n, after, limit: MAKERS });
    made.push(...page);
    after = page.at(-1)?.key ?? null;
    if (page.length < MAKERS) break;
  }
  const present = published.at(path);
  const nameOf = ({ id, salt, key }: Pick<MakerRow, "id" | "salt" | "key">): string =>
    JSON.stringify([id, salt, key]);
  const names = new Set(made.map(nameOf));
  // If HEAD has the same by another version, what is published stands.
  const isAtHead = isOf(erasure, now ? [now] : []);
  const isMade = present.length === made.length && present.every((one) => names.has(nameOf(one)));
  const isPublished = !isAtHead && (isMade || isOf(erasure, present));
  const shown = new Set(present.map(nameOf));
  // What is published may be of a job that nobody knows any more.
  const drops = isPublished
    ? [...made.filter((one) => !shown.has(nameOf(one))), ...present]
    : made.filter((one) => !shown.has(nameOf(one)));
  for (const one of drops) {
    const upload = results.dropOutput(one, path);
    if (upload) erasures.giveUp(upload);
  }
  for (const merge of merges.dropContent(erasure)) erasures.giveUp(merge);
  if (isPublished) published.replace(path, { now, committed: ledger.pipeline.existing.committed });
}

/** Whether a content is the only one of some. */
function isOf({ digest, size }: ContentId, [one, ...others]: readonly ContentId[]): boolean {
  return one?.digest === digest && one.size === size && others.length === 0;
}

/** Whether results have what was erased in the output branch. */
export function isErasing({ pipeline, erasures }: Ledger): boolean {
  const output = pipeline.definition()?.output;
  return (output && erasures.due(bucketName(output)) > 0) || erasures.givenUp(1).length > 0;
}
