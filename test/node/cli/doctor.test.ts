import { existsSync, readdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clockFinding, gatewayFindings, readyFindings } from "../../../cli/doctor/gateway.ts";
import {
  machineFindings,
  openTryingPlace,
  spaceFinding,
  userNamespacesFinding,
} from "../../../cli/doctor/machine.ts";
import { findConnection } from "../../../cli/gateway/connection/connection.ts";
import { type DevServer, ROOT, startDevServer } from "../../support/dev-server.ts";
import { FAULTS } from "../../support/faults.ts";
import { type Door, doorVariables } from "../../support/keys.ts";
import { freePort } from "../../support/ports.ts";
import { mustRun, run } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/** A gateway that gives these answers, and how the command line finds it. Anything else is 500. */
async function withGateway(
  answers: Readonly<Record<string, readonly [status: number, body: string]>>,
  act: (from: Parameters<typeof findConnection>) => Promise<void>,
): Promise<void> {
  const server = createServer(({ url = "" }, answer) => {
    const [status, body] = answers[url] ?? [500, ""];
    answer.writeHead(status).end(body);
  });
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
  const env = {
    SLUICE_ENDPOINT: `http://127.0.0.1:${port}`,
    SLUICE_ACCESS_KEY_ID: "some-key",
    SLUICE_SECRET_ACCESS_KEY: "some-secret",
  };
  await act([{}, env]);
  await new Promise((resolve) => server.close(resolve));
}

describe("sluice doctor says", () => {
  const HOUR_MS = 3_600_000;

  const NOON = Date.UTC(2026, 0, 31, 12);

  test.each([
    ["nothing where the second that was told lies in the exchange", NOON + 400, "ok", "as the gateway's"],
    ["how far this clock is behind, though a little is of no matter", NOON - 5300, "ok", "5 s behind"],
    ["that minutes are worth setting the clock", NOON - 120_300, "warn", "120 s behind"],
    [
      "that the gateway refuses all requests",
      NOON + HOUR_MS + 1000,
      "fail",
      "3600 s ahead of the gateway's: it refuses",
    ],
  ])("of clocks: %s", (_, sentAt, state, words) => {
    const finding = clockFinding({ sentAt, receivedAt: sentAt + 300, theirs: NOON });
    expect(finding).toMatchObject({ check: "clock", state });
    expect(finding.found).toContain(words);
  });

  test("what a gateway lacks: why and what mends it if the key may hear that, else the names", async () => {
    const causes = [{ check: "migrations", cause: "D1 lacks one.", fix: "Apply it." }];
    for (const [told, findings] of [
      [
        { ready: false, failed: ["migrations"], causes },
        [{ check: "ready", state: "fail", found: "migrations: D1 lacks one.", fix: "Apply it." }],
      ],
      [
        { ready: false, failed: ["blobs"] },
        [{ check: "ready", state: "fail", found: "the gateway can't serve: blobs", fix: expect.any(String) }],
      ],
      [
        { ready: true, failed: [] },
        [{ check: "ready", state: "ok", found: "the gateway has all that it needs" }],
      ],
      [
        FAULTS["a D1 that is away"],
        [
          {
            check: "ready",
            state: "fail",
            found: expect.stringContaining("catalogue: The catalogue (D1) can't be reached"),
            fix: expect.stringContaining("Look at the state of D1"),
          },
        ],
      ],
      [
        FAULTS["a forgotten migration"],
        [
          {
            check: "ready",
            state: "fail",
            found: expect.stringContaining("migrations: D1 lacks a migration"),
            fix: expect.stringContaining("Apply the migrations"),
          },
        ],
      ],
      [
        FAULTS["a missing secret"],
        [
          {
            check: "ready",
            state: "fail",
            found: "the gateway can't serve: configuration",
            fix: expect.stringContaining("look at the gateway's variables"),
          },
        ],
      ],
      [
        FAULTS["a missing encryption key"],
        [
          {
            check: "ready",
            state: "fail",
            found: expect.stringContaining("configuration: SLUICE_ENCRYPTION_KEY is missing"),
            fix: expect.stringContaining("Set it to what it was"),
          },
        ],
      ],
      [
        FAULTS["a full disk"],
        [
          {
            check: "ready",
            state: "fail",
            found: expect.stringMatching(/^disk: The disk of the gateway's data is full/),
            fix: expect.stringMatching(
              /branch keep BRANCH\.REPO --commits N.*file erase s3:.* --all-versions/,
            ),
          },
        ],
      ],
      [
        { ready: true, failed: ["disk"] },
        [
          {
            check: "ready",
            state: "fail",
            found: "the gateway takes no new files: disk",
            fix: expect.any(String),
          },
        ],
      ],
      [
        FAULTS["an object near its limit"],
        [
          { check: "ready", state: "ok", found: "the gateway has all that it needs" },
          {
            check: "space",
            state: "warn",
            found: "the database of the branch master.full is 97 % full",
            fix: expect.stringContaining("sluice branch keep"),
          },
        ],
      ],
      ["no gateway of this release", []],
    ] as const) {
      const ready = typeof told === "string" ? told : JSON.stringify(told);
      await withGateway({ "/healthz": [200, "ok\n"], "/readyz": [200, ready] }, async (from) => {
        expect(await readyFindings(findConnection(...from))).toEqual(findings);
      });
    }
  });

  test("which secret a gateway lacks, in its own words, and not that another key would help", async () => {
    const words =
      "The gateway is not set up: SLUICE_SECRET_ACCESS_KEY is missing: set it ('wrangler secret put', or .dev.vars for 'wrangler dev')";
    const answers = {
      "/healthz": [200, "ok\n"],
      "/readyz": [503, JSON.stringify(FAULTS["a missing secret"])],
      "/api/v1/runner/renew": [503, `${words}\n`],
    } as const;
    await withGateway(answers, async (from) => {
      const findings = await gatewayFindings(...from);
      expect(findings.filter(({ state }) => state === "fail")).toEqual([
        {
          check: "ready",
          state: "fail",
          found: "the gateway can't serve: configuration",
          fix: expect.any(String),
        },
        { check: "key", state: "fail", found: `the gateway answered 503: ${words}` },
      ]);
    });
  });

  test("that a disk is nearly full, or too small for the cache", () => {
    const gib = 1024 ** 3;
    const about = { dataDir: "/data", cacheBytes: 20 * gib };
    const states = [500, 10, 0.1].map((free) =>
      spaceFinding({ freeBytes: free * gib, totalBytes: 1000 * gib }, about),
    );
    expect(states.map(({ state }) => state)).toEqual(["ok", "warn", "fail"]);
    expect(states[1]?.fix).toContain("--cache-size");
    expect(states[2]?.fix).toContain("--data");
  });

  test("which setting of the kernel keeps a user from making namespaces, and that root needs none", async () => {
    const settings = new Map([
      ["user/max_user_namespaces", "63000"],
      ["kernel/apparmor_restrict_unprivileged_userns", "1"],
    ]);
    const setting = async (path: string) => settings.get(path);
    expect(await userNamespacesFinding({ uid: 1000, setting })).toEqual({
      check: "namespaces",
      state: "warn",
      found: "kernel.apparmor_restrict_unprivileged_userns is 1: users may not make namespaces",
      fix: "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    });
    expect(await userNamespacesFinding({ uid: 0, setting })).toMatchObject({ state: "ok" });
    settings.set("kernel/apparmor_restrict_unprivileged_userns", "0");
    expect(await userNamespacesFinding({ uid: 1000, setting })).toMatchObject({ state: "ok" });
  });

  test("that runners are for Linux", () => {
    const machine = { platform: "darwin", release: "24.0", arch: "arm64", nodeVersion: "v24.0.0" };
    expect(machineFindings(machine)).toContainEqual(
      expect.objectContaining({ check: "system", state: "fail", found: "darwin 24.0, arm64" }),
    );
  });
});

describe("sluice doctor", () => {
  let server: DevServer;
  let cwd: string;

  beforeAll(async () => {
    server = await startDevServer();
    cwd = scratchFolder();
  });

  afterAll(async () => {
    await server?.stop();
    removeScratch(cwd);
  });

  const NODE = [process.execPath, join(ROOT, "bin/sluice.js"), "doctor"];
  const has = (tool: string) => existsSync(join("/usr/bin", tool));

  interface Told {
    readonly code: number | null;
    readonly works: boolean;
    /** By what was looked at. */
    readonly states: Readonly<Record<string, string>>;
    readonly text: string;
  }

  async function doctor(
    door: Door | undefined,
    {
      args = [],
      through = [],
      env = {},
    }: { args?: string[]; through?: string[]; env?: Record<string, string> } = {},
  ): Promise<Told> {
    const command = [...through, ...NODE, "--json", ...args];
    const { code, stdout, stderr } = await run(command, {
      cwd,
      env: { HOME: cwd, ...(door && doorVariables(door)), ...env },
    });
    expect(stderr).toBe("");
    const { works, findings } = JSON.parse(stdout.toString()) as {
      works: boolean;
      findings: { check: string; state: string }[];
    };
    const states = Object.fromEntries(findings.map(({ check, state }) => [check, state]));
    return { code, works, states, text: stdout.toString() };
  }

  test("finds nothing wrong with a machine that runs datums, and leaves nothing behind", async () => {
    const { code, works, states, text } = await doctor(server, { args: ["--executor", "process"] });
    expect({ code, works, text }).toMatchObject({ code: 0, works: true });
    const checks = ["node", "system", "data", "process", "namespaces", "gateway", "clock", "ready", "key"];
    expect(Object.keys(states)).toEqual(checks);
    for (const check of ["process", "gateway", "clock", "ready", "key"])
      expect(states[check], text).toBe("ok");
    expect(readdirSync(cwd)).toEqual([]);
  });

  test("names the folder where a link leads, as in the image, whose .sluice is a link", async () => {
    const [folder, kept] = [scratchFolder(), scratchFolder()];
    symlinkSync(kept, join(folder, ".sluice"));
    const flags = { dataDir: join(folder, ".sluice/runner"), cacheBytes: 0 };
    const place = await openTryingPlace(flags.dataDir, flags);
    await place.remove();
    expect(place.finding.found).toMatch(`${join(kept, "runner")}: `);
    removeScratch(folder);
    removeScratch(kept);
  });

  test("prints a line for each finding, and what to do below those that are not ok", REST, async () => {
    const [DOCKER_HOST, CONTAINER_HOST] = ["unix:///nowhere.sock", "unix:///nowhere.sock"];
    const env = { HOME: cwd, ...doorVariables(server), DOCKER_HOST, CONTAINER_HOST };
    const { stdout, code } = await run(NODE, { cwd, env });
    const printed = stdout.toString();
    expect(printed).toMatch(/^ok {4}node {8}v\d+/m);
    expect(printed).toMatch(
      /^fail {2}docker {6}unix:\/\/\/nowhere\.sock \(DOCKER_HOST\): .*\n {18}install Docker/m,
    );
    // Processes would work, but a runner takes them only if it is told to.
    expect(printed).toMatch(/^warn {2}process {5}.*must be asked for\n {18}start .*--executor process/m);
    expect(code).toBe(1);
  });

  test("warns of no other way to run commands if an engine answers, as in a container with its socket", async () => {
    const folder = scratchFolder();
    const socket = join(folder, "docker.sock");
    const engine = createServer(({ url = "" }, answer) => {
      const said = url.endsWith("/version") ? { Version: "27.0", Components: [{ Name: "Engine" }] } : {};
      answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(said));
    });
    await new Promise<void>((resolve) => engine.listen(socket, resolve));
    // No tool for processes is found, as where the kernel refuses them.
    const env = { DOCKER_HOST: `unix://${socket}`, CONTAINER_HOST: "unix:///nowhere.sock", PATH: cwd };
    const { code, states, text } = await doctor(server, { env });
    await new Promise((resolve) => engine.close(resolve));
    removeScratch(folder);
    expect({ code, docker: states.docker, podman: states.podman, process: states.process }, text).toEqual({
      code: 0,
      docker: "ok",
      podman: "ok",
      process: "ok",
    });
    expect(states).not.toHaveProperty("namespaces");
    expect(text).toContain("not needed, since docker runs commands");
  });

  test("fails where the only executor that may be used is not there", REST, async () => {
    const env = { DOCKER_HOST: "unix:///nowhere.sock" };
    const { code, works, states } = await doctor(server, { args: ["--executor", "docker"], env });
    expect({ code, works, docker: states.docker }).toEqual({ code: 1, works: false, docker: "fail" });
    expect(states).not.toHaveProperty("process");
  });

  test("looks at everything else, too, where PATH leads to no tool", REST, async () => {
    const { states } = await doctor(server, { args: ["--executor", "process"], env: { PATH: cwd } });
    expect(states).toMatchObject({ node: "ok", process: expect.stringMatching(/ok|fail/), key: "ok" });
  });

  test("tries the limits that are asked for where a process would keep them", async () => {
    const args = ["--executor", "process", "--memory", "1g", "--pids", "100"];
    const { code, states, text } = await doctor(server, { args });
    // A machine may well lack control groups; then it says so.
    expect(code, text).toBe(states.limits === "ok" ? 0 : 1);
    expect(states.limits).toMatch(/ok|fail/);
  });

  test.skipIf(!has("bwrap"))("tells what to install where no tool can run commands", async () => {
    const hidden = ["bwrap", "unshare"]
      .filter(has)
      .flatMap((tool) => ["--ro-bind", "/dev/null", `/usr/bin/${tool}`]);
    const through = ["bwrap", "--dev-bind", "/", "/", ...hidden, "--"];
    const { code, states, text } = await doctor(server, { through, args: ["--executor", "process"] });
    expect({ code, process: states.process }).toEqual({ code: 1, process: "fail" });
    for (const words of [
      "there is no bwrap here",
      "there is no unshare here",
      "apt-get install bubblewrap",
    ]) {
      expect(text).toContain(words);
    }
  });

  test("tells a gateway that is down", REST, async () => {
    const down = { ...server, endpoint: `http://127.0.0.1:${await freePort()}` };
    const { code, states, text } = await doctor(down, { args: ["--executor", "process"] });
    expect({ code, gateway: states.gateway }).toEqual({ code: 1, gateway: "fail" });
    expect(text).toContain("ECONNREFUSED");
    expect(states).not.toHaveProperty("key");
  });

  test("tells a key that the gateway does not take", REST, async () => {
    const stranger = { ...server, secretAccessKey: "not-the-secret" };
    const { code, states, text } = await doctor(stranger, { args: ["--executor", "process"] });
    expect({ code, gateway: states.gateway, key: states.key }).toEqual({
      code: 1,
      gateway: "ok",
      key: "fail",
    });
    expect(text).not.toContain("not-the-secret");
  });

  /** The door with a key of this level. */
  async function doorOf(level: string): Promise<Door> {
    const env = { HOME: cwd, ...doorVariables(server) };
    const sluice = [process.execPath, join(ROOT, "bin/sluice.js")];
    const made = await mustRun([...sluice, "key", "create", "--level", level, "--json"], { cwd, env });
    const { id, secret } = JSON.parse(made) as { id: string; secret: string };
    return { ...server, accessKeyId: id, secretAccessKey: secret };
  }

  test("tells a key that is not a runner's, such as one for writing, and which one a runner needs", async () => {
    const { code, states, text } = await doctor(await doorOf("write"), { args: ["--executor", "process"] });
    expect({ code, key: states.key }).toEqual({ code: 1, key: "fail" });
    expect(text).toContain("allows write everywhere; this needs the level runner");
    expect(text).toContain("sluice key create --level runner");
    const own = await doctor(await doorOf("runner"), { args: ["--executor", "process"] });
    expect(own.states.key, own.text).toBe("ok");
  });

  test("only warns on a machine that is not told of its gateway yet", async () => {
    const { code, states } = await doctor(undefined, { args: ["--executor", "process"] });
    expect({ code, gateway: states.gateway }).toEqual({ code: 0, gateway: "warn" });
  });

  test("fails where the data folder can't be written to", REST, async () => {
    const { code, states, text } = await doctor(server, {
      args: ["--executor", "process", "--data", "/proc/x"],
    });
    expect({ code, data: states.data }).toEqual({ code: 1, data: "fail" });
    expect(text).toContain("--data");
  });

  test("refuses a flag that no runner would take", async () => {
    const { code, stderr } = await run([...NODE, "--memory", "much"], { cwd, env: { HOME: cwd } });
    expect(code).toBe(2);
    expect(stderr).toContain("--memory");
  });
});
