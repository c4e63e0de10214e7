import { MAX_BATCH } from "../../protocol/runner.ts";

/** A batch that takes longer than this is too long: others could have had its datums meanwhile. */
export const LONG_BATCH_MS = 1000;
const SHORT_BATCH_MS = 500;

export interface BatchDone {
  /** How many datums were asked for. */
  readonly asked: number;
  /** How many came. */
  readonly leased: number;
  readonly millis: number;
}

/** How many datums to ask for next: twice as many while a full batch is short, half as many after a long one. */
export function nextBatchSize({ asked, leased, millis }: BatchDone): number {
  if (millis > LONG_BATCH_MS) return Math.max(1, Math.floor(asked / 2));
  if (millis < SHORT_BATCH_MS && leased === asked) return Math.min(MAX_BATCH, asked * 2);
  return asked;
}
