import type { Refused } from "../../branch/contract/answers.ts";
import { within } from "../../objects/engine.ts";
import type { Facet } from "../../objects/facets.ts";
import type { PipelineContext } from "../context.ts";

/** What every call of a Pipeline object can reach. */
export interface Reach extends PipelineContext {
  /** What the object was found by. */
  readonly objectName: string | undefined;
}

/** The calls of one subject (objects/facets.ts), typed by the contract. */
export type PipelineFacet<Calls> = Facet<Calls, Reach>;

/** Longest time that a call waits for a loop. */
const ANSWER_MS = 20_000;

/**
 * Goes on with a change of the pipeline's state until it is done or can't go on. If that takes long, because a great
 * many jobs end with it, it goes on by itself: the caller is to be answered.
 */
export async function changeState({ engine }: Reach): Promise<void> {
  await within(ANSWER_MS, engine.wake("state"));
}

/** The loop that reads the inputs is at rest, or it takes long. */
export async function inputsRest({ engine }: Reach): Promise<void> {
  await within(ANSWER_MS, engine.resting("inputs") ?? Promise.resolve());
}

/** What was found, or the reason why nothing was, as a call answers it. */
export function answered<Found extends object | string>(
  found: Found,
): ({ readonly ok: true } & Exclude<Found, string>) | Refused<Extract<Found, string>>;
export function answered(found: object | string): object {
  return typeof found === "string" ? { ok: false, reason: found } : { ok: true, ...found };
}
