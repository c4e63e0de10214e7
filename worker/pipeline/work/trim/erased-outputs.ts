import type { ContentId } from "../../../../protocol/content.ts";
import { bucketName } from "../../../../protocol/names.ts";
import type { Erasure } from "../../../branch/contract/erasures.ts";
import type { Tx } from "../../../objects/transaction.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { PipelineContext } from "../../context.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { type Definition, errorsOf } from "../../lifecycle/definition.ts";
import type { MakerRow } from "../../output/published-store.ts";

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
 * looked up in the turn of the call, and nothing names an upload later (given-up.ts).
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
    const { committed = 0 } = ledger.pipeline.row() ?? {};
    const { erasures, upTo } = await branch.erasures.list({ uid, after });
    for (const erasure of erasures) {
      ledger.transaction((tx) => {
        dropOne(tx, context, erasure);
        // Unless another output was committed since the branch was asked.
        const isAsItWas = ledger.pipeline.row()?.committed === committed;
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
  if (isPublished) published.replace(path, { now, committed: ledger.pipeline.row()?.committed ?? 0 });
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
