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

/** What a machine may be out of for a while, through no fault of any datum. */
export type Lack = "disk" | "handles";

interface LackFacts {
  /** Absent: it is a quota of this user's, which nobody else empties. */
  readonly lack?: Lack;
  readonly words: string;
}

const LACKS: Readonly<Record<string, LackFacts>> = {
  EMFILE: {
    lack: "handles",
    words: "no file handles are left: raise the limit that this program is started with ('ulimit -n')",
  },
  ENFILE: { lack: "handles", words: "this machine has no file handles left ('sysctl fs.file-max')" },
  ENOSPC: { lack: "disk", words: "the disk of this node is full" },
  EDQUOT: { words: "this user's quota of the disk is used up" },
};

/** What the machine lacked when a system call failed; undefined if it failed for another reason. */
export function lackOf(error: unknown): Lack | undefined {
  return LACKS[errorCode(error) ?? ""]?.lack;
}

/** The message of an error. That of a system call that found no room says so in words, since not everybody knows its codes. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = errorCode(error) ?? "";
  const facts = LACKS[code];
  return facts && error.message.includes(code) ? `${facts.words} (${error.message})` : error.message;
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
