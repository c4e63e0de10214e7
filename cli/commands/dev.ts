import { join } from "node:path";
import type { Command } from "commander";
import { type Gateway, startGateway } from "../../embedded/host.ts";
import { RootKey, rootKeyFile } from "../../embedded/root-key.ts";
import { EXECUTORS } from "../../runner/config.ts";
import type { Log } from "../../runner/log.ts";
import { type Runner, startRunner } from "../../runner/main.ts";
import { DEFAULT_DATA } from "../door.ts";
import { UsageError } from "../failure.ts";
import { terminalLog } from "../log.ts";
import { wholeNumber, withExamples, withJson } from "../options.ts";
import { count, printJson, printLine } from "../output.ts";
import { runnerConfig } from "../runner-config.ts";
import { stopRequests } from "../stop-requests.ts";

interface Options {
  readonly host: string;
  readonly port: number;
  readonly data: string;
  readonly runners: number;
  readonly executor: string;
  readonly json?: true;
}

const MAX_RUNNERS = 64;

/** `sluice dev` */
export function addDev(program: Command): void {
  const command = program
    .command("dev")
    .summary("run a gateway and runners on this machine")
    .description(
      "Runs the whole service in the foreground: the gateway, its data in a folder, and runners for pipelines. The first Ctrl-C lets the runners finish the datums at work and stops, the second stops those too.\n\nThe root key is SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY; where they are not set, one is made at the first start and kept in the data folder.",
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--port <number>",
      "port to listen on; 0 takes a free one",
      wholeNumber({ min: 0, max: 65535 }),
      8787,
    )
    .option("--data <folder>", "everything that lasts is in this folder", DEFAULT_DATA)
    .option(
      "--runners <number>",
      "how many; 0 is the gateway alone",
      wholeNumber({ min: 0, max: MAX_RUNNERS }),
      1,
    )
    .option("--executor <name>", `how commands are run: ${EXECUTORS.join(", ")}`, "auto")
    .action(dev);
  withExamples(
    withJson(command),
    "sluice dev",
    "sluice dev --port 9000 --data /srv/sluice",
    "sluice dev --runners 0",
  );
}

async function dev(options: Options): Promise<void> {
  const log = terminalLog(process.env);
  const rootKey = rootKeyFrom(process.env);
  const stop = stopRequests();
  const gateway = await startGateway({
    host: options.host,
    port: options.port,
    dataDir: options.data,
    ...(rootKey ? { rootKey } : {}),
    log,
  });
  const runners: Runner[] = [];
  try {
    for (let number = 1; number <= options.runners; number++) {
      runners.push(await startLocalRunner(gateway, { number, options, log }));
    }
    greet(gateway, {
      options,
      key: rootKey ? "SLUICE_ACCESS_KEY_ID of the environment" : rootKeyFile(options.data),
    });
    await stop.drain;
    if (runners.length > 0) log.info("draining: running datums are finished; once more to stop them");
  } finally {
    await endRunners(runners, stop);
    await gateway.stop();
    stop.forget();
  }
}

function startLocalRunner(
  gateway: Gateway,
  { number, options, log }: { number: number; options: Options; log: Log },
): Promise<Runner> {
  const flags = { node: `local-${number}`, executor: options.executor, data: join(options.data, "runner") };
  return startRunner(runnerConfig(flags, { endpoint: gateway.endpoint, ...gateway.rootKey }), { log });
}

async function endRunners(runners: readonly Runner[], { kill }: { kill: Promise<void> }): Promise<void> {
  for (const runner of runners) runner.drain();
  void kill.then(() => {
    for (const runner of runners) runner.kill();
  });
  await Promise.all(runners.map(({ done }) => done));
}

// Not the AWS names: who has set those has them for another service.
function rootKeyFrom(env: NodeJS.ProcessEnv): RootKey | undefined {
  const { SLUICE_ACCESS_KEY_ID: accessKeyId, SLUICE_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId && !secretAccessKey) return undefined;
  const key = RootKey.safeParse({ accessKeyId, secretAccessKey });
  if (key.success) return key.data;
  throw new UsageError(
    "SLUICE_ACCESS_KEY_ID (3 characters at least) and SLUICE_SECRET_ACCESS_KEY (8 at least) must be set both or neither",
  );
}

function greet(gateway: Gateway, { options, key }: { options: Options; key: string }): void {
  const { endpoint } = gateway;
  if (options.json) {
    printJson({ endpoint, data: options.data, key, runners: options.runners });
    return;
  }
  const folder = options.data === DEFAULT_DATA ? "" : ` --data ${options.data}`;
  printLine(`gateway  ${endpoint}`);
  printLine(`data     ${options.data}`);
  printLine(`key      ${key}`);
  printLine(`runners  ${options.runners === 0 ? "none" : count(options.runners, "runner")}`);
  printLine(`In another terminal: eval "$(npx sluice env${folder})"`);
}
