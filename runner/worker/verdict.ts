import { constants } from "node:os";
import type { Transform } from "../../protocol/spec.ts";
import type { Run } from "../executors/executor.ts";

export type Verdict =
  | { readonly kind: "success"; readonly exitCode: number }
  | { readonly kind: "failed"; readonly exitCode: number | null; readonly reason: string };

/** Whether a run counts as a success (spec §2.2: 0 always does, and what acceptReturnCode names), or why not. */
export function verdictOf(run: Run, { acceptReturnCode = [] }: Transform): Verdict {
  if (run.kind === "not-started") return { kind: "failed", exitCode: null, reason: run.reason };
  const { code, fault, cause } = run;
  if (fault !== undefined) return { kind: "failed", exitCode: null, reason: fault };
  if (code === 0 || acceptReturnCode.includes(code)) return { kind: "success", exitCode: code };
  return { kind: "failed", ...endOf(code), ...(cause !== undefined && { reason: cause }) };
}

function endOf(code: number): { exitCode: number | null; reason: string } {
  const signal = signalOf(code);
  if (!signal) return { exitCode: code, reason: `the command ended with exit code ${code}` };
  return { exitCode: null, reason: `the command was killed by ${signal} (exit code ${code})` };
}

/** The signal that an exit code of 128 + n stands for, or undefined. */
function signalOf(code: number): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => code === 128 + number)?.[0];
}

const MAX_REASON_CHARACTERS = 2000;

/** A reason, no longer than the protocol allows. */
export function boundedReason(reason: string): string {
  return reason.slice(0, MAX_REASON_CHARACTERS).toWellFormed();
}
