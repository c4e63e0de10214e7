import { createWriteStream } from "node:fs";
import { lstat, mkdir, mkdtemp, readdir, readlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { LeasedDatum, Outcome } from "../../protocol/runner.ts";
import type { Transform } from "../../protocol/spec.ts";
import { type NodeConfig, type OpenedNode, openNode } from "../agent/node.ts";
import type { Detected } from "../executors/detect.ts";
import { type Command, NodeCondition } from "../executors/executor.ts";
import { clearLeftovers, findEngines } from "../executors/open-executor.ts";
import { Client } from "../gateway/client.ts";
import { Gateway } from "../gateway/gateway.ts";
import { DatumFault, messageOf } from "../lib/fault.ts";
import type { Log } from "../lib/log.ts";
import { LineSplitter } from "../logs/datum-log.ts";
import { type Collected, collect, openPlain } from "../pfs/collect.ts";
import { agentName, isAgentAlive, killStrays } from "../pfs/folders.ts";
import { PipeStock } from "../pfs/lazy/pipe-stock.ts";
import { removeTree } from "../pfs/remove.ts";
import { openSecrets } from "../secrets/open.ts";
import { SecretMissing } from "../secrets/source.ts";
import { DatumRunner, type DatumWork, judged, type Ran } from "../worker/datum.ts";
import { prepareSandbox } from "../worker/sandboxes.ts";

/*
 * A datum that ran in some job, run again on this machine: by the same steps as a worker's, from the inputs as the job read
 * them to what is in `/pfs/out`. It opens the node (agent/node.ts), makes a sandbox (worker/sandboxes.ts), and has the datum
 * laid out, run and judged (worker/datum.ts). It has no lease and no scoped token. Inputs are read with the caller's own key,
 * nothing is sent, and nobody hears how it went. Whatever it makes on this machine is in one folder, which goes with it.
 */

export interface ReplayConfig extends Omit<NodeConfig, "dataDir"> {
  /** Origin of the gateway, and the key with which inputs are read. */
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** A datum, and the command of the version that its job was made for. */
export interface ReplayedDatum {
  readonly job: string;
  readonly id: string;
  readonly pipeline: string;
  readonly inputs: LeasedDatum["inputs"];
  readonly transform: Transform;
  readonly datumTimeout?: string | undefined;
  /** Whether the pipeline belongs to a limited key. */
  readonly limited: boolean;
  readonly output: DatumWork["output"];
}

export interface ReplayOptions {
  readonly log: Log;
  /** Stops it. */
  readonly signal: AbortSignal;
  /** Called when it is known how commands are run here. */
  readonly onFound: (runs: ReplayRuns) => void;
  /** Called when the command is about to begin. */
  readonly onBegin: () => void;
  /** Called with what the command prints, line by line. */
  readonly onLine: (line: string) => void;
  /** What a person is to have on the terminal in place of the command. */
  readonly terminal?: Pick<Command, "cmd" | "env"> | undefined;
  /** Given what is in `/pfs/out`, which goes when this returns. */
  readonly onOutputs: (outputs: readonly Collected[]) => Promise<void>;
}

/** How commands are run here, for people. */
export interface ReplayRuns {
  readonly executor: string;
  readonly tool: string;
}

/** `failed`: as a datum fails. */
export interface Replayed {
  readonly state: "success" | "failed";
  readonly exitCode: number | null;
  readonly reason: string | null;
  readonly millis: number;
}

/**
 * Runs a datum here, to its end, and clears up whatever happens. Throws NoExecutorError, ConfigError, NodeCondition,
 * SecretMissing, what `signal` is aborted with, and an error in words if inputs can't be laid out or the command can't be
 * started.
 */
export async function replay(
  config: ReplayConfig,
  datum: ReplayedDatum,
  options: ReplayOptions,
): Promise<Replayed> {
  const dataDir = await makeScratch(options.log);
  try {
    return await replayIn(dataDir, { config, datum, options });
  } finally {
    await removeTree(dataDir);
  }
}

async function replayIn(
  dataDir: string,
  { config, datum, options }: { config: ReplayConfig; datum: ReplayedDatum; options: ReplayOptions },
): Promise<Replayed> {
  const { log, signal, onFound } = options;
  const opened = await openNode({ ...config, dataDir }, { log });
  const client = new Client(config);
  try {
    signal.throwIfAborted();
    onFound({ executor: opened.executor.name, tool: opened.tool });
    checkSecrets(config, datum, opened);
    return await run({ config, opened, gateway: new Gateway(client) }, datum, options);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    await opened.close(() => client.close());
  }
}

/** Says before anything is fetched what it would say when a secret is read. */
function checkSecrets(
  { secrets }: ReplayConfig,
  { transform }: ReplayedDatum,
  { executor }: Pick<Detected, "executor">,
): void {
  if (secrets !== undefined) return;
  const pulls = executor.name === "process" ? [] : (transform.imagePullSecrets ?? []);
  const names = [...new Set([...(transform.secrets ?? []).map(({ name }) => name), ...pulls])];
  if (names.length === 0) return;
  const list = names.map((name) => `"${name}"`).join(", ");
  const which = names.length === 1 ? `the secret ${list}` : `the secrets ${list}`;
  throw new SecretMissing(
    `its specification asks for ${which}: name with --secrets a folder that holds <name>/<key> files of them`,
  );
}

interface Machine {
  readonly config: ReplayConfig;
  readonly opened: OpenedNode;
  readonly gateway: Gateway;
}

/** The cache goes with the folder: nothing in it is to make room for anything. */
const CACHE_BYTES = 2 ** 50;

async function run(
  { config, opened, gateway }: Machine,
  { job, id, pipeline, inputs, transform, datumTimeout, limited, output }: ReplayedDatum,
  { log, signal, onBegin, onLine, terminal, onOutputs }: ReplayOptions,
): Promise<Replayed> {
  const { executor, folders } = opened;
  const { secretAccessKey } = config;
  const secrets = openSecrets(config.secrets, { own: { secretAccessKey }, kill: signal });
  const untold = { maxBytes: CACHE_BYTES, erased: "untold" } as const;
  const cache = await opened.openCache({ ...untold, gateway, log, kill: signal });
  const pipes = new PipeStock(folders.pipes);
  const datums = new DatumRunner({ gateway, cache, executor, pipes, secrets, pipeline });
  const printed = new LineSplitter();
  const dir = join(folders.agent, "worker-1");
  await mkdir(dir);
  const work: DatumWork = {
    datum: { lease: "", job, datum: id, inputs },
    ...{ transform, limited, output, pfs: join(dir, "datum"), signal },
    onOutput: (bytes) => printed.all(bytes).forEach(onLine),
    // A person reads it, as on a terminal.
    joined: true,
    // A person takes the time that it takes.
    datumTimeout: terminal ? undefined : datumTimeout,
  };
  const { image, container, imagePullSecrets = [] } = transform;
  const terms = { image, container, pullSecrets: imagePullSecrets, limited };
  const wanted = { terms, dir: join(dir, "sandbox"), signal };
  const sandbox = await prepareSandbox({ executor, secrets, pipeline }, wanted);
  try {
    const staged = await datums.stage(work);
    signal.throwIfAborted();
    if (!staged.ok)
      throw staged.failure instanceof NodeCondition ? staged.failure : new Error(reasonOf(staged.failure));
    onBegin();
    const ran = await datums
      .run(work, { sandbox, lazy: staged.lazy, terminal })
      .finally(() => printed.finish().forEach(onLine));
    signal.throwIfAborted();
    if (ran.run.kind === "not-started" && ran.fault === undefined) throw new NodeCondition(ran.run.reason);
    return await concluded(work, ran, { terminal, onOutputs });
  } finally {
    await sandbox.close();
  }
}

function reasonOf(failure: Outcome): string {
  return failure.state === "failed" ? failure.reason : "";
}

/**
 * Unlike in a job, what a failed command left is looked at, too. Outputs that can't be stored fail it, as in a job. A person's
 * shell may end with any code.
 */
async function concluded(
  { transform, pfs, signal }: DatumWork,
  ran: Ran,
  { terminal, onOutputs }: Pick<ReplayOptions, "terminal" | "onOutputs">,
): Promise<Replayed> {
  const code = terminal && ran.run.kind === "exited" ? [ran.run.code] : [];
  const acceptReturnCode = [...(transform.acceptReturnCode ?? []), ...code];
  const verdict = judged(ran, { ...transform, acceptReturnCode });
  const { exitCode } = verdict;
  const { millis } = ran;
  const found = await collect({ out: join(pfs, "out"), signal }).catch((error: unknown) => {
    if (error instanceof DatumFault) return error;
    throw error;
  });
  if (!(found instanceof DatumFault)) await onOutputs(found);
  if (verdict.kind === "failed") return { state: "failed", exitCode, reason: verdict.reason, millis };
  if (!(found instanceof DatumFault)) return { state: "success", exitCode, reason: null, millis };
  return { state: "failed", exitCode, reason: `the outputs can't be stored: ${found.message}`, millis };
}

const PREFIX = "sluice-replay";

/**
 * Makes the folder of one replay, open to nobody else: `<temporary files>/sluice-replay-<processes>-<pid>-<start>-<random>`.
 * Its name says whose it is, since a replay that is killed can't clear up: the next one does, containers included. Process
 * ids mean something only among the processes that share them, so those of other containers are left alone.
 */
async function makeScratch(log: Log): Promise<string> {
  const space = (await readlink("/proc/self/ns/pid")).replace(/[^0-9]/g, "");
  await removeDead(space, log);
  return mkdtemp(join(tmpdir(), `${PREFIX}-${space}-${await agentName()}-`));
}

async function removeDead(space: string, log: Log): Promise<void> {
  for (const folder of await deadFolders(space)) {
    await clearLeftovers(await findEngines("auto", process.env), { dataDir: folder, log });
    await killStrays(folder);
    await removeTree(folder).catch((error: unknown) =>
      log.warn(
        { folder, reason: messageOf(error) },
        "the folder of a replay that was killed could not be removed",
      ),
    );
  }
}

async function deadFolders(space: string): Promise<string[]> {
  const dead: string[] = [];
  for (const name of await readdir(tmpdir())) {
    const [, owner] = new RegExp(`^${PREFIX}-${space}-([0-9]+-[0-9]+)-`).exec(name) ?? [];
    if (owner === undefined || (await isAgentAlive(owner))) continue;
    const folder = join(tmpdir(), name);
    // Anybody may put a link there, or a folder of his own.
    const found = await lstat(folder).catch(() => undefined);
    if (found?.isDirectory() && found.uid === process.getuid?.()) dead.push(folder);
  }
  return dead;
}

/** Puts an output into a folder of its user's, as a plain file. */
export async function putOutput(
  { path, source }: Collected,
  { folder, signal }: { folder: string; signal: AbortSignal },
): Promise<void> {
  const target = join(folder, path);
  if (path.endsWith("/")) return void (await mkdir(target, { recursive: true }));
  await mkdir(dirname(target), { recursive: true });
  const file = await openPlain(source);
  // The stream closes it.
  await pipeline(file.createReadStream(), createWriteStream(target, { flags: "wx" }), { signal });
}
