import { chmodSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { claimPort } from "../../embedded/port.ts";
import { type Door, doorVariables } from "../../test/support/keys.ts";
import { type Started, start } from "../../test/support/processes.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import { type BenchGateway, HOST, ROOT, startBenchGateway } from "./servers.ts";

/** Names the workerd that Miniflare, and so the embedded host, starts. */
const WORKERD = "MINIFLARE_WORKERD_PATH";

/** The embedded gateway, with the inspector of its workerd at a port. */
export async function startInspectedGateway(): Promise<BenchGateway & { readonly inspector: number }> {
  const inspector = await claimPort(HOST, 0);
  const dir = scratchFolder();
  const wrapper = join(dir, "workerd");
  writeFileSync(
    wrapper,
    `#!/bin/sh\ncommand=$1\nshift\nexec '${workerdBinary()}' "$command" --inspector-addr=${HOST}:${inspector} "$@"\n`,
  );
  chmodSync(wrapper, 0o755);
  process.env[WORKERD] = wrapper;
  try {
    return { ...(await startBenchGateway()), inspector };
  } finally {
    delete process.env[WORKERD];
  }
}

/** `sluice runner` with the process executor and its inspector at a port; its data folder goes when it is stopped. */
export async function startInspectedRunner(
  door: Door,
  { node }: { node: string },
): Promise<Started & { readonly inspector: number }> {
  const inspector = await claimPort(HOST, 0);
  const data = scratchFolder();
  const command = ["runner", "--node", node, "--executor", "process", "--data", data];
  const inspected = [process.execPath, `--inspect=${HOST}:${inspector}`, join(ROOT, "bin/sluice.js")];
  const started = start([...inspected, ...command], {
    cwd: ROOT,
    env: { HOME: data, ...doorVariables(door) },
  });
  void started.ended.then(() => removeScratch(data));
  return { ...started, inspector };
}

/** The binary that Miniflare itself would take. */
function workerdBinary(): string {
  const miniflare = createRequire(createRequire(import.meta.url).resolve("miniflare"));
  const workerd: { default: string } = miniflare("workerd");
  return workerd.default;
}
