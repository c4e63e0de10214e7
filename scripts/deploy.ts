import { spawn } from "node:child_process";
import { createInterface } from "node:readline/promises";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { DeployError, deploy } from "./deploy/deploy.ts";
import { ConfigProblem, readResources } from "./deploy/resources.ts";
import { runWrangler } from "./deploy/wrangler.ts";

/** `npm run deploy`: the gateway to Cloudflare. What it does, in which order and why: deploy/deploy.ts. */

const HELP = `npm run deploy [-- options]

Makes what the account lacks (D1, R2), applies migrations, makes the secrets that the Worker lacks, uploads the code and
tests it. Can be run again at any time.

  --env <name>   an environment of wrangler.toml, such as staging
  --dry-run      checks what can be checked without an account, and says what would be done
  --yes          does not ask whether to begin

Taken from the environment, if set:
  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID   in place of a login with 'npx wrangler login'
  SLUICE_ACCESS_KEY_ID, SLUICE_SECRET_ACCESS_KEY   the root key: set at the first deploy, later only used for the test
  SLUICE_ENCRYPTION_KEY   set at the first deploy
  SLUICE_ENDPOINT   the address for the test, if it is not what wrangler tells
`;

/** A new name of workers.dev may take a minute to be known. */
const PATIENCE_MS = 120_000;
const PAUSE_MS = 2000;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

async function ask(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return await terminal.question(question);
  } finally {
    terminal.close();
  }
}

function login(): Promise<void> {
  const child = spawn("npx", ["wrangler", "login"], { stdio: "inherit" });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", () => resolve());
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      env: { type: "string", default: "" },
      "dry-run": { type: "boolean", default: false },
      yes: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return say(HELP.trimEnd());
  const until = Date.now() + PATIENCE_MS;
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  await deploy(
    {
      environment: values.env,
      resources: readResources(values.env),
      dryRun: values["dry-run"],
      yes: values.yes,
    },
    {
      run: runWrangler,
      env: process.env,
      ask: isTerminal ? ask : undefined,
      login,
      fetch,
      async again() {
        if (Date.now() > until) return false;
        await pause(PAUSE_MS);
        return true;
      },
      say,
    },
  );
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
try {
  await main();
} catch (error) {
  const isUsage = error instanceof ConfigProblem || (error instanceof DeployError && error.kind === "usage");
  const isBadOption =
    error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
  if (!isUsage && !isBadOption && !(error instanceof DeployError)) throw error;
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = isUsage || isBadOption ? 2 : 1;
}
