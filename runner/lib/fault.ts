import type { Outcome } from "../../protocol/runner.ts";

/** Why a datum can't succeed, for the readers of its job: its command, its outputs or its inputs are at fault. */
export class DatumFault extends Error {
  override readonly name = "DatumFault";
}

/** A setting that can't be used. The message names it, its value unless that is a secret, and what it should be. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** The code of a failed system call, such as "ENOENT". */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const MAX_REASON_CHARACTERS = 2000;

/** A reason, no longer than the protocol allows. */
export function boundedReason(reason: string): string {
  return reason.slice(0, MAX_REASON_CHARACTERS).toWellFormed();
}

type Failed = Extract<Outcome, { state: "failed" }>;

/** The outcome of work that failed. */
export function failedOutcome(
  lease: string,
  { reason, ...rest }: Pick<Failed, "reason"> & Partial<Omit<Failed, "lease" | "state">>,
): Failed {
  const nothing = { exitCode: null, log: "", millis: 0, blame: "node" as const };
  return { lease, state: "failed", ...nothing, ...rest, reason: boundedReason(reason) };
}
