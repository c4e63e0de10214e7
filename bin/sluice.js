#!/usr/bin/env node
// The door of the CLI. Runs the TypeScript directly where Node can (22.18 and later strip types); else runs itself
// again with the Node that was installed beside it. Plain JavaScript, so that every Node can read this far.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(import.meta.url);
const BUNDLED_NODE = join(dirname(HERE), "../node_modules/.bin/node");
const SECOND_RUN = "SLUICE_SECOND_RUN";

function canRunTypeScript() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 18);
}

function runAgain() {
  const child = spawn(BUNDLED_NODE, [HERE, ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: { ...process.env, [SECOND_RUN]: "1" },
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

if (canRunTypeScript()) {
  if (process.env[SECOND_RUN] && process.channel) {
    // The first run was killed: without it nobody could stop this one any more.
    process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
    process.channel.unref();
  }
  delete process.env[SECOND_RUN];
  const { main } = await import("../cli/main.ts");
  await main(process.argv.slice(2));
} else if (existsSync(BUNDLED_NODE) && !process.env[SECOND_RUN]) {
  runAgain();
} else {
  console.error(
    `error: Sluice needs Node 22.18 or newer and this is ${process.versions.node}; install one, or run npm ci`,
  );
  process.exit(1);
}
