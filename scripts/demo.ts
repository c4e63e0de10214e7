import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Client } from "../cli/gateway/client.ts";
import { findConnection } from "../cli/gateway/connection/connection.ts";
import { runnerConfig } from "../cli/local/runner-config.ts";
import { reportFailure } from "../cli/output/failure.ts";
import { terminalLog } from "../cli/output/log.ts";
import { stopRequests } from "../cli/stop-requests.ts";
import { type Gateway, startGateway } from "../embedded/host.ts";
import { type Runner, startRunner } from "../runner/main.ts";
import { DemoError, tellStory } from "./demo/story.ts";

/**
 * `npm run demo`: the whole service for a minute, on free ports and in a temporary folder, over real files. By default
 * with the process executor, which needs no image and so no network; `npm run demo -- --executor docker` runs the same
 * specifications in containers. `--endpoint` takes a gateway that runs already, such as that of `npm run dev:cloudflare`,
 * with its root key in the environment; what the demo makes stays there.
 */

/** Only against hanging: it takes seconds. */
const GIVE_UP_MS = 180_000;

const started = Date.now();

function say(line: string): void {
  const seconds = ((Date.now() - started) / 1000).toFixed(1).padStart(5);
  process.stdout.write(`[${seconds} s] ${line}\n`);
}

interface DemoOptions {
  readonly executor: string;
  /** Absent: a gateway is started for it. */
  readonly endpoint: string | undefined;
}

async function demo({ executor, endpoint }: DemoOptions): Promise<void> {
  const log = terminalLog({ SLUICE_LOG: process.env.SLUICE_LOG ?? "warn" });
  const dataDir = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  const stop = stopRequests();
  let gateway: Gateway | undefined;
  let runner: Runner | undefined;
  let client: Client | undefined;
  try {
    if (endpoint === undefined) {
      gateway = await startGateway({ host: "127.0.0.1", port: 0, dataDir, log });
    }
    const door = gateway
      ? { endpoint: gateway.endpoint, ...gateway.rootKey, endpointSource: "the demo", keySource: "the demo" }
      : findConnection({}, { ...process.env, SLUICE_ENDPOINT: endpoint });
    say(gateway ? `gateway at ${door.endpoint}, data in ${dataDir}` : `gateway at ${door.endpoint}`);
    const flags = { node: "demo", executor, data: join(dataDir, "runner"), hide: [dataDir] };
    // The root key leases, too.
    const runnerDoor = gateway ? { endpoint: gateway.endpoint, ...gateway.runnerKey } : door;
    runner = await startRunner(runnerConfig(flags, runnerDoor), { log });
    say(`one runner, executor ${executor}`);
    client = new Client(door);
    const interrupted = stop.drain.then(() => {
      throw new DemoError("interrupted");
    });
    await Promise.race([tellStory(client, { deadline: started + GIVE_UP_MS, say }), interrupted]);
  } finally {
    await client?.close();
    runner?.kill();
    await runner?.done;
    await gateway?.stop();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    stop.forget();
  }
}

try {
  const { values } = parseArgs({
    options: { executor: { type: "string", default: "process" }, endpoint: { type: "string" } },
  });
  await demo({ executor: values.executor, endpoint: values.endpoint });
  say(`done: ${values.endpoint === undefined ? "gateway and runner" : "runner"} stopped, data removed`);
  process.stdout.write(
    `next: 'npm run dev' starts a gateway that stays, with a console in the browser; README.md goes on at "By hand"\n`,
  );
} catch (error) {
  const { text, exitCode } = reportFailure(error, { json: false });
  process.stderr.write(text);
  process.exitCode = exitCode;
}
