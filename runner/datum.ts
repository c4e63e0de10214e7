import { join } from "node:path";
import { parseDuration } from "../protocol/duration.ts";
import type { LeasedDatum, Outcome } from "../protocol/runner.ts";
import type { Transform } from "../protocol/spec.ts";
import { commandEnv, commandStdin } from "./command-env.ts";
import type { Run, Sandbox } from "./executors/executor.ts";
import { messageOf } from "./fault.ts";
import type { Gateway } from "./gateway.ts";
import { collect } from "./pfs/collect.ts";
import { type StageDeps, stage } from "./pfs/stage.ts";
import { sendOutputs } from "./pfs/upload.ts";
import { boundedReason, verdictOf } from "./verdict.ts";

export interface DatumDeps extends StageDeps {
  readonly gateway: Pick<Gateway, "files" | "openUpload" | "reserve" | "addInline" | "addContent">;
  readonly sandbox: Sandbox;
}

export interface DatumWork {
  readonly pipeline: string;
  readonly datum: LeasedDatum;
  readonly transform: Transform;
  /** As in the specification: how long the command may run. */
  readonly datumTimeout?: string | undefined;
  readonly output: { readonly repo: string; readonly branch: string };
  /** The folder that is `/pfs` to the command. */
  readonly pfs: string;
  /** Stops the work; its result is then of no interest. */
  readonly signal: AbortSignal;
}

/** Lays out the inputs. Answers the failure where that can't be done. */
export async function stageDatum(deps: DatumDeps, work: DatumWork): Promise<Outcome | undefined> {
  const { datum, pfs, signal } = work;
  try {
    await stage(deps, { pfs, inputs: datum.inputs, signal });
    return undefined;
  } catch (error) {
    return failed(work, { reason: `the inputs could not be laid out: ${messageOf(error)}` });
  }
}

/** How a command went. */
export interface Ran {
  readonly run: Run;
  readonly millis: number;
  /** Set where it was killed because it took longer than this (datumTimeout). */
  readonly timedOut?: string | undefined;
}

/** Runs the command to its end. */
export async function runDatum({ sandbox }: DatumDeps, work: DatumWork): Promise<Ran> {
  const { transform, pfs, datumTimeout, signal: stop } = work;
  const { cmd, workingDir = "/" } = transform;
  const began = performance.now();
  const env = commandEnv({ ...work, own: process.env });
  const stdin = commandStdin(transform);
  const { signal, over, clear } = timeLimit(datumTimeout, stop);
  const run = await sandbox.run({ pfs, cmd, workingDir, stdin, env, signal }).catch(broken);
  clear();
  const late = over() && !stop.aborted;
  return { run, millis: Math.round(performance.now() - began), ...(late && { timedOut: datumTimeout }) };
}

/** A signal that is aborted with `stop`, or when a run has taken as long as it may. */
function timeLimit(
  datumTimeout: string | undefined,
  stop: AbortSignal,
): { signal: AbortSignal; over: () => boolean; clear: () => void } {
  const limitMs = datumTimeout === undefined ? undefined : parseDuration(datumTimeout);
  if (limitMs === undefined) return { signal: stop, over: () => false, clear: () => {} };
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), limitMs);
  return {
    signal: AbortSignal.any([stop, late.signal]),
    over: () => late.signal.aborted,
    clear: () => clearTimeout(timer),
  };
}

function broken(error: unknown): Run {
  return { kind: "not-started", reason: `the executor failed: ${messageOf(error)}`, log: "" };
}

/** Judges the run, and after a success brings what is in `/pfs/out` to the output branch. */
export async function concludeDatum(
  deps: DatumDeps,
  work: DatumWork,
  { run, millis, timedOut }: Ran,
): Promise<Outcome> {
  if (timedOut !== undefined) {
    const reason = `the command ran longer than ${timedOut} (datumTimeout)`;
    return failed(work, { reason, log: run.log, millis });
  }
  const verdict = verdictOf(run, work.transform);
  if (verdict.kind === "failed") return failed(work, { ...verdict, log: run.log, millis });
  const { datum, output, pfs, signal } = work;
  const { lease } = datum;
  try {
    const collected = await collect({ out: join(pfs, "out"), signal });
    const sent = await sendOutputs(deps.gateway, { collected, output, lease, signal });
    return { lease, state: "success", exitCode: verdict.exitCode, millis, ...sent };
  } catch (error) {
    const reason = `the outputs could not be stored: ${messageOf(error)}`;
    return failed(work, { exitCode: verdict.exitCode, reason, log: run.log, millis });
  }
}

interface Failure {
  readonly reason: string;
  readonly exitCode?: number | null;
  readonly log?: string;
  readonly millis?: number;
}

function failed({ datum }: DatumWork, { reason, exitCode = null, log = "", millis = 0 }: Failure): Outcome {
  return { lease: datum.lease, state: "failed", exitCode, reason: boundedReason(reason), log, millis };
}
