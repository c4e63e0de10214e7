import { existsSync, realpathSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { delimiter, join, resolve } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type KeptLog, openKeptLog } from "../../embedded/data/kept-log.ts";
import { AccessKey, readRootKey, rootKeyFile } from "../../embedded/data/keys.ts";
import { type Gateway, openGateway } from "../../embedded/host.ts";
import { type GatewaySettings, readSettings } from "../../embedded/settings.ts";
import { ownPath } from "../../protocol/names.ts";
import type { RunnerConfig } from "../../runner/agent/config.ts";
import { messageOf } from "../../runner/lib/fault.ts";
import type { ParentLog } from "../../runner/lib/log.ts";
import type { Runner } from "../../runner/main.ts";
import { ownVersion } from "../command.ts";
import { configFolder } from "../gateway/connection/contexts.ts";
import { UsageError } from "../output/failure.ts";
import { terminalLog } from "../output/log.ts";
import { count, printJson, printLine, shellWord } from "../output/output.ts";
import { Redactor } from "../output/redact.ts";
import { stopRequests } from "../stop-requests.ts";
import { howCommandsRun, type RunnerTerms, runnerConfig } from "./runner-config.ts";

export interface DevOptions extends RunnerTerms {
  readonly host: string;
  readonly port: number;
  readonly data: string;
  readonly runners: number;
  readonly bodyLimit?: number;
  readonly sync?: "on" | "off";
  readonly json?: true;
}

/** When nothing of the start is under way any more. */
const QUIET_MS = 500;

/** Runs a gateway and runners until a signal says to stop. */
export async function runDev(options: DevOptions): Promise<void> {
  const redactor = new Redactor();
  const kept = keptLog(options.data, redactor);
  const log = terminalLog(process.env, { kept });
  const rootKey = rootKeyFrom(process.env);
  const settings = { ...settingsFrom(process.env), ...(options.sync && { SLUICE_SYNC: options.sync }) };
  const stop = stopRequests();
  const gateway = await openGateway({
    host: options.host,
    port: options.port,
    dataDir: options.data,
    ...(rootKey ? { rootKey } : {}),
    settings,
    ...(options.bodyLimit !== undefined && { maxBodyBytes: options.bodyLimit }),
    log,
  });
  for (const { secretAccessKey } of [gateway.rootKey, gateway.runnerKey]) redactor.add(secretAccessKey);
  const runners: Runner[] = [];
  try {
    // The runners find out how to run commands while the gateway starts.
    const started = startRunners(gateway, { runners, options, log });
    await Promise.allSettled([started]);
    await gateway.ready;
    await started;
    greet(gateway, options, {
      runs: runners[0]?.runs,
      sync: settings.SLUICE_SYNC === "off" ? "off" : "on",
      key: rootKey ? "SLUICE_ACCESS_KEY_ID of the environment" : rootKeyFile(options.data),
    });
    setTimeout(clearUpAfterStart, QUIET_MS).unref();
    // A runner that ends unasked takes the rest with it: its failure is then told.
    await Promise.race([stop.drain, gateway.failed, ...runners.map(({ done }) => done)]);
    if (runners.length > 0) log.info("draining: running datums are finished; once more to stop them");
  } catch (error) {
    // It is printed when all is ended; whoever looks into the folder later hears of it, too.
    kept.write(`${JSON.stringify({ level: 60, time: Date.now(), msg: messageOf(error) })}\n`);
    throw error;
  } finally {
    await endRunners(runners, stop);
    await gateway.stop();
    stop.forget();
  }
}

/** The log that the data folder keeps, which has none of the secrets that this process knows. */
function keptLog(dataDir: string, redactor: Redactor): KeptLog {
  redactor.addVariables(process.env);
  const kept = openKeptLog(dataDir);
  return { write: (line) => kept.write(`${redactor.line(line.trimEnd())}\n`) };
}

interface LocalRunners {
  /** Those that have started are added. */
  readonly runners: Runner[];
  readonly options: DevOptions;
  readonly log: ParentLog;
}

async function startRunners(gateway: Gateway, { runners, options, log }: LocalRunners): Promise<void> {
  if (options.runners === 0) return;
  const { startRunner } = await import("../../runner/main.ts");
  for (let number = 1; number <= options.runners; number++) {
    const flags = {
      ...options,
      ...{ node: `local-${number}`, data: join(options.data, "runner") },
      // The one holds the root key, and the key that opens all others; the other, keys of other gateways.
      hide: [...(options.hide ?? []), options.data, configFolder(process.env)],
    };
    const config: RunnerConfig = {
      withoutEngine: "process",
      ...runnerConfig(flags, { endpoint: gateway.endpoint, ...gateway.runnerKey }),
    };
    runners.push(await startRunner(config, { log, gatewayReady: gateway.ready, version: ownVersion() }));
  }
}

/**
 * Keeps what Node compiled for the next start, even if this process is killed. Then frees the garbage of the start, some
 * 100 MiB, above all the configuration that workerd got: Node would keep it for as long as it has little to do.
 */
function clearUpAfterStart(): void {
  flushCompileCache();
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")({ type: "major", flavor: "last-resort" });
}

async function endRunners(runners: readonly Runner[], { kill }: { kill: Promise<void> }): Promise<void> {
  for (const runner of runners) runner.drain();
  void kill.then(() => {
    for (const runner of runners) runner.kill();
  });
  await Promise.allSettled(runners.map(({ done }) => done));
}

// Not the AWS names: if they are set, they are for another service.
function rootKeyFrom(env: NodeJS.ProcessEnv): AccessKey | undefined {
  const { SLUICE_ACCESS_KEY_ID: accessKeyId, SLUICE_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId && !secretAccessKey) return undefined;
  const key = AccessKey.safeParse({ accessKeyId, secretAccessKey });
  if (key.success) return key.data;
  throw new UsageError(
    "SLUICE_ACCESS_KEY_ID (3 characters at least) and SLUICE_SECRET_ACCESS_KEY (8 at least) must be set both or neither",
  );
}

function settingsFrom(env: NodeJS.ProcessEnv): GatewaySettings {
  const read = readSettings(env);
  if (read.ok) return read.settings;
  throw new UsageError(read.problem);
}

/** `key`: where the root key is. `runs`: how the runners run commands, if there are any. */
function greet(
  { endpoint }: Gateway,
  options: DevOptions,
  { key, runs, sync }: { key: string; runs: Runner["runs"] | undefined; sync: "on" | "off" },
): void {
  const { data, runners, executor: asked } = options;
  const consoleUrl = `${endpoint}${ownPath("console")}`;
  if (options.json) {
    const how = runs && { executor: runs.executor };
    printJson({ endpoint, console: consoleUrl, data, sync, key, runners, ...how });
    return;
  }
  printLine(`gateway  ${endpoint}`);
  printLine(`console  ${consoleUrl}`);
  printLine(`data     ${data}`);
  if (sync === "off")
    printLine("sync     off: a power cut may lose files of the last seconds that are over 4 KiB");
  printLine(`key      ${key}`);
  printLine(`runners  ${runners === 0 ? "none" : count(runners, "runner")}`);
  if (runs) printLine(`commands ${howCommandsRun(runs, { asked })}`);
  printLine(`In another terminal: ${forAnotherTerminal(options, endpoint)}`);
}

/** What leads its commands to this gateway, whatever was set there. The folder has no key that came from the environment. */
function forAnotherTerminal({ data }: DevOptions, endpoint: string): string {
  if (readRootKey(data)) return `eval "$(${ownCommand()} env --data ${shellWord(resolve(data))})"`;
  return `export SLUICE_ENDPOINT=${endpoint}, beside the same SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY`;
}

/**
 * What starts this program in any folder: its name if that leads to it, else the path of its file. Folders that npm puts on the
 * path for one command alone, as npx does, are not there in another terminal.
 */
function ownCommand(): string {
  const own = realpathSync(process.argv[1] ?? "");
  const leads = (process.env.PATH ?? "").split(delimiter).some((folder) => {
    if (folder.includes("node_modules")) return false;
    const file = join(folder, "sluice");
    return existsSync(file) && realpathSync(file) === own;
  });
  return leads ? "sluice" : shellWord(own);
}
