import { withClient } from "../command.ts";
/*
 * A datum run again: `sluice datum run`. It asks the pipeline's object for one datum (pipeline/views/datums.ts): what its
 * lease would say, by the version of the specification that its job has, which is kept for good. Entries that are trimmed
 * are looked up in the branch, at the position that the job read.
 *
 * The runner then does what a worker does with a lease (runner/replay/replay.ts), and stops where a worker would send
 * outputs. The files are put into the user's folder and compared with the datum's result. Once that is trimmed, with its
 * salt, the history of outputs still says which paths came from the datum, and the output commit has their contents, if no
 * other datum wrote there.
 *
 * All that it makes on the machine is in one temporary folder, whose name says which process it belongs to. A killed one
 * can't clear up; the next one does (runner/replay/replay.ts).
 */

import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isatty } from "node:tty";
import { readHolder } from "../../embedded/data/holder.ts";
import type { ContentId } from "../../protocol/content.ts";
import { DatumDetail } from "../../protocol/pipelines.ts";
import {
  putOutput,
  type ReplayConfig,
  type Replayed,
  type ReplayedDatum,
  type ReplayOptions,
  type ReplayRuns,
  replay,
} from "../../runner/replay/replay.ts";
import type { Client } from "../gateway/client.ts";
import { type Connection, DEFAULT_DATA } from "../gateway/connection/connection.ts";
import { configFolder } from "../gateway/connection/contexts.ts";
import { jobId } from "../gateway/ids/ids.ts";
import { howCommandsRun, type RunnerTerms, runnerConfig } from "../local/runner-config.ts";
import type { ClientOptions } from "../options.ts";
import { type CliError, EXIT, errnoOf, InterruptedError, UsageError } from "../output/failure.ts";
import { terminalLog } from "../output/log.ts";
import { printJson, printLine, printNote, printOutput, printTable, shellWord } from "../output/output.ts";
import { stopRequests } from "../stop-requests.ts";
import { type ComparedPath, compareOutputs, datumPath, isSame, madeByJob, type Output } from "./compare.ts";

export interface RunDatumOptions extends ClientOptions, RunnerTerms {
  readonly image?: string;
  readonly shell?: true;
  readonly out?: string;
}

/** Exit codes beside 0 and those of every failure. */
const { jobFailed: COMMAND_FAILED, differs: DIFFERS } = EXIT;

/** How it went. */
interface Report {
  readonly detail: DatumDetail;
  readonly runs: ReplayRuns;
  /** The folder with the outputs. */
  readonly out: string;
  readonly ran: Replayed;
  readonly outputs: readonly Output[];
  /** Null: nothing was compared, for the reason `why`. */
  readonly compared: readonly ComparedPath[] | null;
  readonly why: string | null;
}

/** Runs a datum of a job here, and compares what it makes with what the job has of it. Sets the exit code. */
export async function runDatum(asked: string, datum: string, options: RunDatumOptions): Promise<void> {
  checkOptions(options);
  await withClient(options, async (client) => {
    const secrets = await secretsFolder(options);
    const job = await jobId(client, asked);
    const detail = await client.get(DatumDetail, datumPath(job, datum));
    const stop = stopRequests({ terminal: options.shell ? "lent" : "own" });
    const aborted = new AbortController();
    void stop.drain.then((signal) => aborted.abort(interrupted(signal)));
    try {
      const report = await perform(client, detail, { ...options, secrets }, aborted.signal);
      if (options.json) printJson(jsonOf(report, options));
      else print(report);
      process.exitCode = exitCodeOf(report, options);
    } finally {
      stop.forget();
    }
  });
}

function interrupted(signal: NodeJS.Signals): CliError {
  return new InterruptedError("stopped by a signal; nothing is left of it", signal);
}

function checkOptions({ shell, json, image, executor }: RunDatumOptions): void {
  if (shell && json) throw new UsageError("--shell has the terminal for itself: leave out --json");
  if (shell && !(isatty(0) && isatty(1))) {
    throw new UsageError("--shell is for a terminal: neither its input nor its output may go elsewhere");
  }
  if (image !== undefined && executor === "process") throw noImage();
}

function noImage(): UsageError {
  return new UsageError(
    "--image is for containers, and here commands run as processes, with this machine's tools: take --executor docker or podman, or leave it out",
  );
}

/** Absolute: a folder that is called `kubernetes` is a folder here. */
async function secretsFolder({ secrets }: RunDatumOptions): Promise<string | undefined> {
  if (secrets === undefined) return undefined;
  const folder = resolve(secrets);
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory()) return folder;
  throw new UsageError(`--secrets is "${secrets}", which is no folder: it must hold <name>/<key> files`);
}

async function perform(
  client: Client,
  detail: DatumDetail,
  options: RunDatumOptions,
  signal: AbortSignal,
): Promise<Report> {
  const log = terminalLog({ SLUICE_LOG: process.env.SLUICE_LOG ?? "warn" });
  const out = await openOutFolder(options.out, detail.datum.id);
  const outputs: Output[] = [];
  let runs: ReplayRuns = { executor: "", tool: "" };
  const to = options.json ? process.stderr : process.stdout;
  // What is laid out must be readable to the users of images. What is kept is the user's as always.
  const umask = process.umask(0o022);
  try {
    const ran = await replay(configOf(client.connection, options), replayedDatum(detail, options), {
      ...{ log, signal, onLine: (line) => printOutput("", line, { to }) },
      onFound(found) {
        runs = found;
        if (found.executor === "process" && options.image !== undefined) throw noImage();
        printNote(`runs     ${howCommandsRun(found, { asked: options.executor })}`);
      },
      onBegin: () => announce(detail, options),
      terminal: options.shell && SHELL,
      async onOutputs(found) {
        process.umask(umask);
        await out.fill(found, signal);
        outputs.push(...found.map(({ path, content }) => ({ path, content })));
      },
    });
    const compared = await comparison(client, { detail, ran, outputs });
    return { detail, runs, out: out.path, ran, outputs, ...compared };
  } catch (error) {
    await out.undo();
    throw error;
  } finally {
    process.umask(umask);
  }
}

/** As for a runner. Whatever `sluice dev` takes on this machine, this takes: the pipelines of that gateway run here anyway. */
function configOf(connection: Connection, options: RunDatumOptions): ReplayConfig {
  const { executor, device, network, secrets, memory, cpus, pids, disk } = options;
  const { data = DEFAULT_DATA } = options;
  const hide = [...(options.hide ?? []), data, configFolder(process.env)];
  const flags = { executor, device, network, secrets, memory, cpus, pids, disk, hide };
  return {
    ...runnerConfig(flags, connection),
    ...(isOwnGateway(connection, data) && { withoutEngine: "process" as const }),
  };
}

/** Whether the gateway is the one that `sluice dev` runs on this machine, over that data folder. */
function isOwnGateway({ endpoint }: Connection, data: string): boolean {
  const { hostname } = new URL(endpoint);
  const isHere = /^127\.|^localhost$|^\[::1\]$/.test(hostname);
  return isHere && readHolder(data)?.endpoint === endpoint;
}

/** With `--image`, what the pipeline pulls its own image with is asked for only if there are secrets. */
function replayedDatum(detail: DatumDetail, { image, secrets }: RunDatumOptions): ReplayedDatum {
  const { job, pipeline, datum, inputs, transform, datumTimeout, limited, output } = detail;
  const { imagePullSecrets: _, ...unkeyed } = transform;
  const other = image !== undefined && { ...(secrets === undefined ? unkeyed : transform), image };
  return {
    job,
    id: datum.id,
    pipeline,
    inputs,
    transform: other || transform,
    datumTimeout,
    limited,
    output,
  };
}

/** What a person gets in place of the command: bash if it is there. */
const SHELL: NonNullable<ReplayOptions["terminal"]> = {
  cmd: ["sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh"],
  env: { TERM: process.env.TERM ?? "xterm" },
};

/** Digits of a datum's id that tell it from others, for people. */
const SHOWN_DIGITS = 12;

function announce(
  { job, pipeline, version, datum, transform }: DatumDetail,
  { image, shell }: RunDatumOptions,
): void {
  const { cmd } = transform;
  printNote(`datum    ${datum.id.slice(0, SHOWN_DIGITS)} of job ${job} (${pipeline}, version ${version})`);
  printNote(`image    ${image ?? transform.image}`);
  printNote(`command  ${cmd.map(shellWord).join(" ")}`);
  if (!shell) return;
  const { stdin = [] } = transform;
  if (stdin.length > 0) printNote("its standard input:");
  for (const line of stdin) printNote(`  ${line}`);
  printNote("It is not run: this is a shell in its place. What is in /pfs/out at its end is kept.");
}

async function comparison(
  client: Client,
  { detail, ran, outputs }: Pick<Report, "detail" | "ran" | "outputs">,
): Promise<Pick<Report, "compared" | "why">> {
  if (ran.state === "failed") return { compared: null, why: "the command failed" };
  if (detail.outputs === "none") {
    const why = `the job has nothing of this datum, which is ${detail.datum.state} there`;
    return { compared: null, why };
  }
  if (detail.outputs === "gone") {
    return { compared: null, why: "what the job has of this datum is kept no more" };
  }
  return { compared: compareOutputs(await madeByJob(client, detail), outputs), why: null };
}

/** What a person has tried at a shell need not be what the job made. */
function exitCodeOf({ ran, compared }: Report, { shell }: RunDatumOptions): number {
  if (ran.state === "failed") return COMMAND_FAILED;
  if (shell) return 0;
  return compared === null || isSame(compared) ? 0 : DIFFERS;
}

function resultOf({ ran, compared }: Report): "same" | "differs" | "failed" | "not-compared" {
  if (ran.state === "failed") return "failed";
  if (compared === null) return "not-compared";
  return isSame(compared) ? "same" : "differs";
}

function jsonOf(report: Report, { image }: RunDatumOptions): object {
  const { detail, runs, out, ran, outputs, compared, why } = report;
  const { job, pipeline, version, datum, transform } = detail;
  return {
    ...{ job, datum: datum.id, pipeline, version, executor: runs.executor, tool: runs.tool },
    image: runs.executor === "process" ? null : (image ?? transform.image),
    ...{ result: resultOf(report), exitCode: ran.exitCode, reason: ran.reason, millis: ran.millis },
    inJob: { state: datum.state, exitCode: datum.exitCode, reason: datum.reason },
    ...{ out, notCompared: why },
    outputs:
      compared ??
      outputs.map(({ path, content }) => ({ path, state: null, merged: false, here: content, made: null })),
  };
}

function print(report: Report): void {
  const { detail, out, ran, outputs, compared, why } = report;
  const { state, exitCode, reason } = detail.datum;
  if (ran.state === "failed") printLine(`failed   ${ran.reason}`);
  if (state === "failed") {
    const isSaid = exitCode === null || reason?.includes(`exit code ${exitCode}`);
    printLine(`in job   failed${isSaid ? "" : ` (exit ${exitCode})`}: ${reason ?? "for an unknown reason"}`);
  }
  const rows =
    compared?.map(rowOf) ?? outputs.map(({ path, content }) => ["made", path, `${content.size} B`]);
  if (rows.length > 0) printTable([["STATE", "PATH", "CONTENT"], ...rows]);
  printLine(`outputs  ${out}`);
  printLine(`result   ${why === null ? totals(compared ?? []) : `not compared: ${why}`}`);
}

function rowOf({ path, state, merged, here, made }: ComparedPath): string[] {
  const sizes = state === "differs" ? `${shown(here)} here, ${shown(made)} in the job` : shown(here ?? made);
  return [state, path, [sizes, ...(merged ? [mergedWords(state)] : [])].join("; ")];
}

/** A digest's start tells two contents of one size apart. */
function shown(content: ContentId | null): string {
  return content === null ? "-" : `${content.size} B ${content.digest.slice(0, SHOWN_DIGITS)}`;
}

function mergedWords(state: ComparedPath["state"]): string {
  const others = "other datums of the job wrote there, too";
  return state === "unknown"
    ? `${others}: this one's part is not known`
    : `${others}: compared with this one's part`;
}

function totals(compared: readonly ComparedPath[]): string {
  const counts = new Map<string, number>();
  for (const { state } of compared) counts.set(state, (counts.get(state) ?? 0) + 1);
  const list = [...counts].map(([state, number]) => `${number} ${state}`).join(", ");
  const words = isSame(compared) ? "the same as in the job" : "not the same as in the job";
  return `${words}: ${list === "" ? "nothing was made" : list}`;
}

/** The folder that shows a person what a datum made. */
interface OutFolder {
  /** Absolute. */
  readonly path: string;
  /** Puts what is in `/pfs/out` there, as plain files of the user. */
  fill(outputs: Parameters<ReplayOptions["onOutputs"]>[0], signal: AbortSignal): Promise<void>;
  /** Leaves it as it was found. */
  undo(): Promise<void>;
}

/**
 * The folder that the user named, or a fresh one among the temporary files, by the datum's id. Throws UsageError if the one
 * that was named is none, or has something in it: what is there could pass for an output.
 */
async function openOutFolder(given: string | undefined, datum: string): Promise<OutFolder> {
  const found = given === undefined ? "fresh" : await stateOf(given);
  const path =
    given === undefined
      ? await mkdtemp(join(tmpdir(), `sluice-out-${datum.slice(0, SHOWN_DIGITS)}-`))
      : resolve(given);
  if (found === "absent") await mkdir(path, { recursive: true });
  return {
    path,
    fill: async (outputs, signal) => {
      for (const output of outputs) {
        signal.throwIfAborted();
        await putOutput(output, { folder: path, signal });
      }
    },
    async undo() {
      if (found === "empty") {
        for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, force: true });
      } else await rm(path, { recursive: true, force: true });
    },
  };
}

async function stateOf(given: string): Promise<"absent" | "empty"> {
  try {
    const [first] = await readdir(given);
    if (first === undefined) return "empty";
    throw new UsageError(
      `--out is "${given}", which is not empty (it holds "${first}"): name a folder that is empty or not there yet`,
    );
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return "absent";
    if (error instanceof UsageError) throw error;
    throw new UsageError(`--out is "${given}", which can't be a folder of outputs (${errnoOf(error)})`);
  }
}
