import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, chmodSync, existsSync, readFileSync } from "node:fs";
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

/** What the gateway needs, and what makes each. */
const NEEDED = {
  SLUICE_ACCESS_KEY_ID: () => `dev-${randomBytes(8).toString("hex")}`,
  SLUICE_SECRET_ACCESS_KEY: () => randomBytes(32).toString("base64url"),
  SLUICE_ENCRYPTION_KEY: () => randomBytes(32).toString("base64"),
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
  { ...options, stdio: "inherit" },
);
// A terminal's Ctrl-C reaches it by itself; whoever sends a signal to this process alone means both.
for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => wrangler.kill(signal));
process.on("SIGINT", () => undefined);
wrangler.once("error", (error) => {
  process.stderr.write(`error: wrangler dev could not be started: ${error.message}\n`);
  process.exitCode = 1;
});
wrangler.once("close", (code) => {
  process.exitCode = code ?? 1;
});
