import { join } from "node:path";
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
}

/** Runs the command to its end. */
export async function runDatum({ sandbox }: DatumDeps, work: DatumWork): Promise<Ran> {
  const { transform, pfs, signal } = work;
  const began = performance.now();
  const env = commandEnv({ ...work, own: process.env });
  const stdin = commandStdin(transform);
  const run = await sandbox.run({ pfs, cmd: transform.cmd, stdin, env, signal }).catch(broken);
  return { run, millis: Math.round(performance.now() - began) };
}

function broken(error: unknown): Run {
  return { kind: "not-started", reason: `the executor failed: ${messageOf(error)}`, log: "" };
}

/** Judges the run, and after a success brings what is in `/pfs/out` to the output branch. */
export async function concludeDatum(
  deps: DatumDeps,
  work: DatumWork,
  { run, millis }: Ran,
): Promise<Outcome> {
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
