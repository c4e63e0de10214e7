import { constants } from "node:os";
import { dirname, join } from "node:path";
import { parseDuration } from "../../protocol/duration.ts";
import type { LeasedDatum, Outcome } from "../../protocol/runner.ts";
import type { Transform } from "../../protocol/spec.ts";
import type { Cache } from "../cache/cache.ts";
import { NoRoom } from "../cache/fetch.ts";
import {
  type Command,
  type Executor,
  type MountedSecret,
  NodeCondition,
  type Run,
  type Sandbox,
  type TakeOutput,
} from "../executors/executor.ts";
import type { Gateway, Grant, UploadCalls } from "../gateway/gateway.ts";
import { DatumFault, failedOutcome, lackOf, messageOf } from "../lib/fault.ts";
import { spaceOf } from "../lib/sizes.ts";
import { folderSize } from "../limits/free-space.ts";
import { collect } from "../pfs/collect.ts";
import type { PipeStock } from "../pfs/lazy/pipe-stock.ts";
import { type LazyFiles, PipeService } from "../pfs/lazy/serve-pipes.ts";
import { stage } from "../pfs/stage.ts";
import { sendOutputs } from "../pfs/upload.ts";
import type { Secrets } from "../secrets/open.ts";
import { SecretMissing } from "../secrets/source.ts";

export interface DatumDeps {
  readonly gateway: UploadCalls & Pick<Gateway, "files">;
  readonly cache: Pick<Cache, "place" | "readSmall" | "read">;
  readonly pipes: PipeStock;
  readonly secrets: Secrets;
  readonly pipeline: string;
  /** What runs its commands. */
  readonly executor: Pick<Executor, "name">;
}

export interface DatumWork {
  readonly datum: LeasedDatum;
  readonly transform: Transform;
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean;
  /** How long the command may run, as the specification says it. */
  readonly datumTimeout?: string | undefined;
  readonly output: { readonly repo: string; readonly branch: string };
  /** The folder that is `/pfs` to the command. */
  readonly pfs: string;
  /** With it inputs are read and outputs sent. */
  readonly grant?: Grant | undefined;
  /** Given what the command prints, as it comes. */
  readonly onOutput?: TakeOutput;
  /** What the command prints comes in order, all of it as stdout. */
  readonly joined?: boolean;
  /** Stops the work; its result is then of no interest. */
  readonly signal: AbortSignal;
}

/** The inputs are laid out, or can't be: a node condition is no failure of the datum. */
export type Staged =
  | { readonly ok: true; readonly lazy: LazyFiles }
  | { readonly ok: false; readonly failure: Outcome | NodeCondition };

/** Where a datum's command runs. */
interface RunPlace {
  readonly sandbox: Sandbox;
  readonly lazy: LazyFiles;
  /** What is to run on this process's terminal in place of the command, and its variables beside those of the datum. */
  readonly terminal?: Pick<Command, "cmd" | "env"> | undefined;
}

/** How a command went. */
export interface Ran {
  readonly run: Run;
  readonly millis: number;
  /** Why the datum has failed whatever the command says: it took too long, or a lazy input could not be served. */
  readonly fault?: { readonly reason: string; readonly failureClass: FailureClass } | undefined;
  /** The image that it ran in; null: there was none. */
  readonly image?: string | null;
}

/** Whose fault a failure is: the datum's, or that of the node and of what it needs. */
type FailureClass = Extract<Outcome, { state: "failed" }>["blame"];

/** The three steps of a datum of one pipeline: lay out its inputs, run its command, store its outputs. */
export class DatumRunner {
  readonly #deps: DatumDeps;

  constructor(deps: DatumDeps) {
    this.#deps = deps;
  }

  /** Lays out the inputs. Never fails. */
  async stage(work: DatumWork): Promise<Staged> {
    const { gateway, cache, pipes } = this.#deps;
    const { datum, pfs, grant, signal } = work;
    try {
      const lazy = await stage({ gateway, cache, pipes }, { pfs, inputs: datum.inputs, grant, signal });
      return { ok: true, lazy };
    } catch (error) {
      const reason = `the inputs could not be laid out: ${messageOf(error)}`;
      if (!signal.aborted && (await mayPass(error, pfs)))
        return { ok: false, failure: new NodeCondition(reason) };
      return { ok: false, failure: failedOutcome(datum.lease, { reason, blame: "node" }) };
    }
  }

  /** Runs the command to its end, or another one on the terminal instead. Throws NodeCondition. */
  async run(work: DatumWork, place: RunPlace): Promise<Ran> {
    const began = performance.now();
    const ran = await this.#mountedSecrets(work).then(
      (secrets) => this.#runWith(work, { ...place, secrets }),
      (error: unknown) => ({ run: withoutSecrets(error, work) }),
    );
    return { ...ran, millis: Math.round(performance.now() - began) };
  }

  /** Judges the run, and after a success brings what is in `/pfs/out` to the output branch. */
  async conclude(work: DatumWork, ended: Ran): Promise<Outcome> {
    const { run, millis, image = null } = ended;
    const { datum, output, pfs, grant, signal } = work;
    const { lease } = datum;
    const verdict = judged(ended, work.transform);
    const { exitCode } = verdict;
    const printed = { exitCode, log: run.log, millis };
    if (verdict.kind === "failed") {
      const { reason, failureClass: blame } = verdict;
      const endsJob = run.kind === "not-started" && run.hopeless && { endsJob: true as const };
      return failedOutcome(lease, { ...printed, reason, blame, ...endsJob });
    }
    try {
      const collected = await collect({ out: join(pfs, "out"), signal });
      const { gateway, executor } = this.#deps;
      const sent = await sendOutputs(gateway, { collected, output, lease, grant, signal });
      const ran = { executor: executor.name, image };
      return { lease, state: "success", exitCode: verdict.exitCode, millis, ...sent, ran };
    } catch (error) {
      const reason = `the outputs could not be stored: ${messageOf(error)}`;
      return failedOutcome(lease, {
        ...printed,
        reason,
        blame: error instanceof DatumFault ? "datum" : "node",
      });
    }
  }

  #mountedSecrets({ transform, limited, signal }: DatumWork): Promise<MountedSecret[]> {
    const { secrets, pipeline } = this.#deps;
    const source = secrets.for({ pipeline, limited });
    const wanted = (transform.secrets ?? []).map(async ({ name, mountPath }) => {
      return { name, mountPath, secret: await source.read(name, signal) };
    });
    return Promise.all(wanted);
  }

  async #runWith(
    work: DatumWork,
    { sandbox, lazy, terminal, secrets }: RunPlace & { readonly secrets: MountedSecret[] },
  ): Promise<Omit<Ran, "millis">> {
    const { cache, pipes, pipeline } = this.#deps;
    const { datum, transform, pfs, datumTimeout, onOutput, joined, signal: stop } = work;
    const { cmd, workingDir } = transform;
    const env = commandEnv({ pipeline, datum, transform, own: process.env });
    // Their values are only true of this machine: a container has its own PATH and HOME.
    const machineEnv = PASSED_ON.filter((name) => !(name in (transform.env ?? {})));
    const stdin = commandStdin(transform);
    const limit = timeLimit(datumTimeout, stop);
    const service = new PipeService({ lazy, cache, pipes });
    const signal = AbortSignal.any([limit.signal, service.failed]);
    let image: string | null = null;
    const onImage = (told: string): void => {
      image = told;
    };
    const command = {
      onImage,
      ...{ pfs, cmd, stdin, env, machineEnv, secrets, signal },
      ...(workingDir !== undefined && { workingDir }),
      ...(onOutput && { onOutput }),
      joined,
      ...(terminal && { cmd: terminal.cmd, stdin: null, env: { ...env, ...terminal.env }, terminal: true }),
    };
    const run = await sandbox.run(command).catch(broken);
    limit.clear();
    const unserved = await service.close();
    if (run instanceof NodeCondition) throw run;
    if (unserved !== undefined) return { run, image, fault: { reason: unserved, failureClass: "node" } };
    if (!limit.over() || stop.aborted) return { run, image };
    const reason = `the command ran longer than ${datumTimeout} (datumTimeout)`;
    return { run, image, fault: { reason, failureClass: "datum" } };
  }
}

/** A missing secret fails the job; a cluster that does not answer just now is no fault of the datum. */
function withoutSecrets(error: unknown, { signal }: DatumWork): Run {
  const reason = messageOf(error);
  if (error instanceof SecretMissing) return { kind: "not-started", reason, log: "", hopeless: true };
  if (signal.aborted) return { kind: "not-started", reason, log: "" };
  throw new NodeCondition(reason);
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

/** A datum that takes more than this share of the disk itself is too large for the node, whatever else is there. */
const LARGE_SHARE = 0.5;

/** Whether inputs could not be laid out for what the machine lacks just now, and may have again. */
async function mayPass(error: unknown, pfs: string): Promise<boolean> {
  const lack = lackOf(error);
  if (lack !== "disk") return lack !== undefined;
  const whole = {
    enough: Number.POSITIVE_INFINITY,
    command: "ended",
    signal: new AbortController().signal,
  } as const;
  const [{ taken }, space] = await Promise.all([
    folderSize(pfs, whole),
    spaceOf(dirname(pfs)).catch(() => undefined),
  ]);
  const own = taken + (error instanceof NoRoom ? error.sizeBytes : 0);
  return space === undefined || own < LARGE_SHARE * space.totalBytes;
}

function broken(error: unknown): Run | NodeCondition {
  if (error instanceof NodeCondition) return error;
  if (lackOf(error)) return new NodeCondition(`commands can't be run: ${messageOf(error)}`);
  return { kind: "not-started", reason: `the executor failed: ${messageOf(error)}`, log: "" };
}

export type Verdict =
  | { readonly kind: "success"; readonly exitCode: number }
  | {
      readonly kind: "failed";
      readonly exitCode: number | null;
      readonly reason: string;
      readonly failureClass: FailureClass;
    };

/** Whether a run counts as a success, whatever is in `/pfs/out`. */
export function judged({ run, fault }: Ran, transform: Transform): Verdict {
  return fault === undefined ? verdictOf(run, transform) : { kind: "failed", exitCode: null, ...fault };
}

/** Whether a run counts as a success, or why not. Code 0 always does, and so do the codes of `acceptReturnCode`. */
export function verdictOf(run: Run, { acceptReturnCode = [] }: Transform): Verdict {
  if (run.kind === "not-started") {
    return { kind: "failed", exitCode: null, reason: run.reason, failureClass: "node" };
  }
  const { code, fault, cause, failureClass = "datum" } = run;
  if (fault !== undefined) return { kind: "failed", exitCode: null, reason: fault, failureClass };
  if (code === 0 || acceptReturnCode.includes(code)) return { kind: "success", exitCode: code };
  return { kind: "failed", ...endOf(code), ...(cause !== undefined && { reason: cause }), failureClass };
}

function endOf(code: number): { exitCode: number | null; reason: string } {
  // An exit code of 128 + n stands for a signal.
  const [signal] = Object.entries(constants.signals).find(([, number]) => code === 128 + number) ?? [];
  if (!signal) return { exitCode: code, reason: `the command ended with exit code ${code}` };
  return { exitCode: null, reason: `the command was killed by ${signal} (exit code ${code})` };
}

// All that a command gets of the agent's own environment: above all not its keys.
const PASSED_ON = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface CommandEnvRequest {
  readonly pipeline: string;
  readonly datum: LeasedDatum;
  readonly transform: Transform;
  /** The agent's own environment. */
  readonly own: NodeJS.ProcessEnv;
}

type Variables = Record<string, string>;

/**
 * The environment of a datum's command: what every command has, then what the spec says, then what the datum is,
 * which wins as it does in Pachyderm. Only what every command has is safe from an input of the same name
 * (PATH, HOME, …). The `PACH_` names say the same as ours, for scripts that come from there.
 */
export function commandEnv({ pipeline, datum, transform, own }: CommandEnvRequest): Variables {
  const passedOn = PASSED_ON.flatMap((name) => (own[name] === undefined ? [] : [[name, own[name]]]));
  return {
    PATH: DEFAULT_PATH,
    ...Object.fromEntries(passedOn),
    ...transform.env,
    ...inputVariables(datum.inputs),
    SLUICE_PIPELINE: pipeline,
    SLUICE_JOB_ID: datum.job,
    SLUICE_DATUM_ID: datum.datum,
    PPS_PIPELINE_NAME: pipeline,
    PACH_JOB_ID: datum.job,
    PACH_DATUM_ID: datum.datum,
  };
}

/**
 * For each input the path of its match, under the input's name, and `<input>_COMMIT`. A shell can't use every name of
 * an input. So one with a dash, or with a digit in front, also has an alias with `_` for each dash, and with `_` before
 * the digit (`my-photos` as `my_photos`, `2024` as `_2024`), unless another input has that name.
 */
function inputVariables(inputs: LeasedDatum["inputs"]): Variables {
  const named = inputs.map(({ name, path, commit }) => ({
    name,
    value: path === "" ? `/pfs/${name}` : `/pfs/${name}/${path}`,
    commit,
  }));
  const aliases = named.map((input) => ({ ...input, name: shellName(input.name) }));
  // The names as they are come last: they win over an alias.
  const variables = [...aliases, ...named].flatMap(({ name, value, commit }) => [
    ...(PASSED_ON.includes(name) ? [] : [[name, value] as const]),
    [`${name}_COMMIT`, commit] as const,
  ]);
  return Object.fromEntries(variables);
}

function shellName(input: string): string {
  const name = input.replaceAll("-", "_");
  return /^[0-9]/.test(name) ? `_${name}` : name;
}

/** What the command reads: the lines of the spec, each with a newline at its end. Null if the spec gives no stdin. */
export function commandStdin({ stdin }: Transform): string | null {
  return stdin && stdin.length > 0 ? `${stdin.join("\n")}\n` : null;
}
