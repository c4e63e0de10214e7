import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, chmodSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { parseArgs, parseEnv } from "node:util";

/**
 * `npm run dev:cloudflare`: the Worker on Cloudflare's simulators (R2, D1) by `wrangler dev`, with its keys and its database
 * made before. `npm run dev` is what to use for work: it is ten times as fast, and its data is in one folder.
 */

const ROOT = join(import.meta.dirname, "..");
const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
const HELP = `npm run dev:cloudflare [-- options]

Makes .dev.vars with keys if it lacks them, applies the migrations, and starts wrangler dev.

  --port <n>            8787
  --persist-to <folder> where the data is; .wrangler/state
  --vars <file>         where the keys are; .dev.vars
`;

/** How long it may take to end. */
const GRACE_MS = 10_000;
let giveUp: NodeJS.Timeout | undefined;

/** What the gateway needs, or is to know, and what makes each. */
const NEEDED = {
  SLUICE_ACCESS_KEY_ID: () => `dev-${randomBytes(8).toString("hex")}`,
  SLUICE_SECRET_ACCESS_KEY: () => randomBytes(32).toString("base64url"),
  SLUICE_ENCRYPTION_KEY: () => randomBytes(32).toString("base64"),
  // The simulator of R2 encrypts nothing.
  SLUICE_DISK_ENCRYPTED: () => "off",
};

/** Adds what a file of variables lacks. What it has stays: another encryption key could not open what is in the database. */
function makeVars(file: string): Record<string, string | undefined> {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const has = parseEnv(text);
  const made = Object.entries(NEEDED).filter(([name]) => !has[name]);
  if (made.length > 0) {
    const lines = made.map(([name, make]) => `${name}=${make()}\n`).join("");
    appendFileSync(file, `${text === "" || text.endsWith("\n") ? "" : "\n"}${lines}`, { mode: 0o600 });
    chmodSync(file, 0o600);
  }
  return parseEnv(readFileSync(file, "utf8"));
}

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8787" },
    "persist-to": { type: "string" },
    vars: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit(0);
}
if (await isTaken(Number(values.port))) {
  process.stderr.write(
    `error: port ${values.port} is in use: end what has it, or take another one with --port\n`,
  );
  process.exit(1);
}
const file = resolve(values.vars ?? join(ROOT, ".dev.vars"));
const { SLUICE_ACCESS_KEY_ID: id } = makeVars(file);
const persist = values["persist-to"] === undefined ? [] : ["--persist-to", resolve(values["persist-to"])];
const options = { cwd: ROOT, env: { ...process.env, WRANGLER_SEND_METRICS: "false" } };

const migrated = spawnSync(
  process.execPath,
  [WRANGLER, "d1", "migrations", "apply", "DB", "--local", "--env=", ...persist],
  { ...options, env: { ...options.env, CI: "1", WRANGLER_HIDE_BANNER: "true" }, encoding: "utf8" },
);
if (migrated.status !== 0) {
  process.stderr.write(`error: the migrations could not be applied:\n${migrated.stdout}${migrated.stderr}`);
  process.exit(1);
}
process.stdout.write(
  `http://127.0.0.1:${values.port} with the root key '${id}' of ${file}. For sluice in another terminal:\n` +
    `  set -a; . ${file}; SLUICE_ENDPOINT=http://127.0.0.1:${values.port}; set +a\n`,
);
const wrangler = spawn(
  process.execPath,
  [
    ...[WRANGLER, "dev", "--ip", "127.0.0.1", "--port", values.port, "--env=", ...persist],
    ...(values.vars === undefined ? [] : ["--env-file", file]),
  ],
  // In a group of its own, so that what it has started can be ended with it: it leaves its runtime behind.
  { ...options, stdio: "inherit", detached: true },
);
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) process.on(signal, () => end(signal));
wrangler.once("error", (error) => {
  process.stderr.write(`error: wrangler dev could not be started: ${error.message}\n`);
  process.exitCode = 1;
});
wrangler.once("exit", (code) => {
  clearTimeout(giveUp);
  signalAll("SIGKILL");
  process.exitCode = code ?? 1;
});

/** It is asked to end first, so that nothing is half written. */
function end(signal: NodeJS.Signals): void {
  signalAll(signal);
  giveUp ??= setTimeout(() => signalAll("SIGKILL"), GRACE_MS);
}

function signalAll(signal: NodeJS.Signals): void {
  if (wrangler.pid === undefined) return;
  try {
    process.kill(-wrangler.pid, signal);
  } catch (error) {
    // All of it has ended.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function isTaken(port: number): Promise<boolean> {
  const probe = createServer();
  return new Promise((resolve, reject) => {
    probe.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(true);
      else reject(error);
    });
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(false)));
  });
}
