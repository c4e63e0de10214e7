// @module-tag rest
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { healthy, ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/ports.ts";
import { run, type Started, start } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

// Keep wrangler off the network.
const QUIET = {
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
  X_LOCAL_EXPLORER: "false",
};

const SCRIPT = "scripts/dev-cloudflare.ts";

interface Running {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

function running(): Running[] {
  return readdirSync("/proc").flatMap((name) => {
    const pid = Number(name);
    if (!Number.isInteger(pid)) return [];
    try {
      // Behind the name, which may have spaces and brackets: the state and the parent.
      const [state, parent] = readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      if (state === "Z") return [];
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      return [{ pid, parent: Number(parent), command }];
    } catch {
      return [];
    }
  });
}

/** A process and all below it. */
function treeOf(root: number): Running[] {
  const all = running();
  const below = (pid: number): Running[] =>
    all.filter(({ parent }) => parent === pid).flatMap((child) => [child, ...below(child.pid)]);
  return [...all.filter(({ pid }) => pid === root), ...below(root)];
}

describe("npm run dev:cloudflare, from an empty HOME", { timeout: 180_000 }, () => {
  const folder = scratchFolder();
  const vars = join(folder, "vars");
  let started: Started;
  let endpoint: string;

  beforeAll(async () => {
    const port = await freePort();
    endpoint = `http://127.0.0.1:${port}`;
    writeFileSync(vars, "SLUICE_ACCESS_KEY_ID=mine");
    const options = ["--port", String(port), "--vars", vars, "--persist-to", join(folder, "state")];
    const command = ["npm", "run", "--silent", "dev:cloudflare", "--", ...options];
    started = start(command, { cwd: ROOT, env: { HOME: join(folder, "home"), ...QUIET } });
    await eventually("the database is migrated", () => started.output().includes("SLUICE_ENDPOINT="));
    await healthy(endpoint, started);
  }, 120_000);
  afterAll(async () => {
    await started.stop();
    removeScratch(folder);
  });

  test("adds the keys that its file of variables lacks, for nobody else to read, and keeps the others", () => {
    const { SLUICE_ACCESS_KEY_ID, ...made } = parseEnv(readFileSync(vars, "utf8"));
    expect(SLUICE_ACCESS_KEY_ID).toBe("mine");
    expect(Object.keys(made).sort()).toEqual([
      "SLUICE_DISK_ENCRYPTED",
      "SLUICE_ENCRYPTION_KEY",
      "SLUICE_SECRET_ACCESS_KEY",
    ]);
    expect(made.SLUICE_DISK_ENCRYPTED).toBe("off");
    expect(statSync(vars).mode & 0o077).toBe(0);
  });

  test("serves the console beside the Worker", async () => {
    const page = await (await fetch(`${endpoint}/console/jobs/1`)).text();
    const [script = ""] = /\/console\/assets\/main-[^"]+\.js/.exec(page) ?? [];
    const answer = await fetch(`${endpoint}${script}`);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([
      200,
      "text/javascript; charset=utf-8",
    ]);
    // None of its files is at its own name.
    expect((await fetch(`${endpoint}/index.html`)).status).toBe(403);
  });

  test("has migrated its database, and the demo runs on it", async () => {
    expect(await (await fetch(`${endpoint}/readyz`)).json()).toMatchObject({ ready: true });
    const command = ["npm", "run", "--silent", "demo", "--", "--endpoint", endpoint];
    const keys = parseEnv(readFileSync(vars, "utf8")) as Record<string, string>;
    const { code, stdout, stderr } = await run(command, {
      cwd: ROOT,
      env: { HOME: join(folder, "home"), ...keys },
    });
    expect(stderr).toBe("");
    expect(stdout.toString()).toMatch(/^7 files +15916$/m);
    expect(code).toBe(0);
  });

  test("says in one line that its port is in use, and makes nothing", async () => {
    const other = join(folder, "other");
    const options = ["--port", new URL(endpoint).port, "--vars", other, "--persist-to", join(folder, "none")];
    const { code, stdout, stderr } = await run([process.execPath, SCRIPT, ...options], { cwd: ROOT });
    expect({ code, stdout: stdout.toString(), stderr }).toEqual({
      code: 1,
      stdout: "",
      stderr: `error: port ${new URL(endpoint).port} is in use: end what has it, or take another one with --port\n`,
    });
    expect(existsSync(other)).toBe(false);
  });

  // The last one: it ends what the others ask.
  test("leaves no process behind if npm alone is sent SIGTERM, as a service manager does", async () => {
    const own = treeOf(started.pid);
    expect(own.some(({ command }) => command.includes("workerd"))).toBe(true);
    process.kill(started.pid, "SIGTERM");
    const left = () =>
      running().filter(({ pid, command }) => own.some((one) => one.pid === pid && one.command === command));
    await expect.poll(left).toEqual([]);
  });
});
