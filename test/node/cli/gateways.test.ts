import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Ended, mustRun, run, type Started, start } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";

const SLUICE = [process.execPath, join(ROOT, "bin/sluice.js")];
/** Keys as people have them in their shells, for Amazon. */
const REAL_AWS = {
  AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
  AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG",
};

/** A gateway that made its own key, in the folder `.sluice` of a folder of its own. */
interface Local {
  readonly cwd: string;
  readonly data: string;
  readonly process: Started;
  readonly variables: Record<"SLUICE_ENDPOINT" | "SLUICE_ACCESS_KEY_ID" | "SLUICE_SECRET_ACCESS_KEY", string>;
}

let one: Local;
let two: Local;

beforeAll(async () => {
  [one, two] = await Promise.all([startLocal("one"), startLocal("two")]);
});
afterAll(async () => {
  await Promise.all([one, two].map((local) => local?.process.stop()));
});

/** It has a bucket of this name, by which it is told from others. */
async function startLocal(bucket: string): Promise<Local> {
  const cwd = scratchFolder();
  const process = start([...SLUICE, "dev", "--port", "0", "--runners", "0", "--json"], { cwd });
  const greeting = await eventually(
    "it has greeted",
    () => /^\{"endpoint".*\}$/m.exec(process.output())?.[0],
  );
  const { endpoint } = JSON.parse(greeting);
  const data = join(cwd, ".sluice");
  const { accessKeyId, secretAccessKey } = JSON.parse(readFileSync(join(data, "root-key.json"), "utf8"));
  const variables = {
    SLUICE_ENDPOINT: endpoint,
    SLUICE_ACCESS_KEY_ID: accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
  };
  await mustRun([...SLUICE, "mb", `s3://${bucket}`], { cwd });
  return { cwd, data, process, variables };
}

interface Asked {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
}

/** Runs a command in a folder without a gateway, with nobody's configuration. */
async function sluice(
  args: readonly string[],
  { cwd = scratchFolder(), env = {}, input }: Asked = {},
): Promise<Ended & { readonly out: string }> {
  const ended = await run([...SLUICE, ...args], {
    cwd,
    env: { XDG_CONFIG_HOME: scratchFolder(), ...env },
    ...(input !== undefined && { input }),
  });
  return { ...ended, out: ended.stdout.toString() };
}

describe("the gateway that a command talks to", () => {
  test("is the one that --data names, whatever is exported, and what is passed over is said", async () => {
    const { code, out, stderr } = await sluice(["ls", "--data", two.data], { env: one.variables });
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining("master.two") });
    expect(stderr).toBe(
      `using ${two.variables.SLUICE_ENDPOINT}, from the gateway of ${two.data}; SLUICE_ENDPOINT names ${one.variables.SLUICE_ENDPOINT}, which is passed over\n`,
    );
  });

  test("is said in one line, if all else names another one: `sluice env` exports it twice", async () => {
    const exported = JSON.parse((await sluice(["env", "--json"], { cwd: one.cwd })).out);
    const { stderr } = await sluice(["ls", "--data", two.data], { cwd: one.cwd, env: exported });
    expect(stderr).toBe(
      `using ${two.variables.SLUICE_ENDPOINT}, from the gateway of ${two.data}; SLUICE_ENDPOINT, the gateway of .sluice, and AWS_ENDPOINT_URL name ${one.variables.SLUICE_ENDPOINT}, which is passed over\n`,
    );
  });

  test("is the one whose line was evaluated last: `env --data` prints that gateway's own", async () => {
    const env = { ...REAL_AWS, ...one.variables };
    const printed = JSON.parse((await sluice(["env", "--data", two.data, "--json"], { env })).out);
    expect(printed).toMatchObject({
      ...two.variables,
      AWS_ACCESS_KEY_ID: two.variables.SLUICE_ACCESS_KEY_ID,
      AWS_ENDPOINT_URL: two.variables.SLUICE_ENDPOINT,
    });
  });

  test("is that of the folder, also if the shell has keys for AWS", async () => {
    const { out, stderr } = await sluice(["env", "--json"], { cwd: one.cwd, env: REAL_AWS });
    expect(JSON.parse(out)).toMatchObject(one.variables);
    expect(stderr).toBe("");
  });

  test("is that of the variables before that of the folder, with the key that stands beside the address", async () => {
    const { out, stderr } = await sluice(["ls"], { cwd: one.cwd, env: two.variables });
    expect(out).toContain("master.two");
    expect(stderr).toContain(`the gateway of .sluice names ${one.variables.SLUICE_ENDPOINT}`);
  });

  test("takes a key of AWS only beside an endpoint that is no variable of Amazon's own", async () => {
    const { code, out, stderr } = await sluice(["ls"], { env: REAL_AWS });
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(stderr).toContain("no gateway is named");
    const env = {
      AWS_ENDPOINT_URL: one.variables.SLUICE_ENDPOINT,
      AWS_ACCESS_KEY_ID: one.variables.SLUICE_ACCESS_KEY_ID,
      AWS_SECRET_ACCESS_KEY: one.variables.SLUICE_SECRET_ACCESS_KEY,
    };
    expect((await sluice(["ls"], { env })).out).toContain("master.one");
    const beside = { ...env, AWS_ENDPOINT_URL: "https://s3.example.org", ...REAL_AWS };
    expect((await sluice(["ls"], { cwd: two.cwd, env: beside })).out).toContain("master.two");
  });

  test.each([
    ["--endpoint", (address: string) => ({ args: ["--endpoint", address], env: {} })],
    ["SLUICE_ENDPOINT alone", (address: string) => ({ args: [], env: { SLUICE_ENDPOINT: address } })],
  ])("by %s is asked with the key that is kept for its address, and with no other", async (_, asked) => {
    const known = asked(two.variables.SLUICE_ENDPOINT);
    const found = await sluice(["ls", ...known.args], { cwd: two.cwd, env: known.env });
    expect({ code: found.code, out: found.out }).toEqual({
      code: 0,
      out: expect.stringContaining("master.two"),
    });
    const strange = asked(one.variables.SLUICE_ENDPOINT);
    const refused = await sluice(["ls", ...strange.args], { cwd: two.cwd, env: strange.env });
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(`no key is known for ${one.variables.SLUICE_ENDPOINT}`);
  });

  test("is not one that a cloned repository brought, which is on another machine", async () => {
    const cwd = folderWith({ endpoint: "https://sluice.example.org" });
    const { code, stderr } = await sluice(["ls"], { cwd });
    expect(code).toBe(1);
    expect(stderr).toContain(
      "the folder .sluice names https://sluice.example.org, which is not this machine",
    );
    const beside = await sluice(["ls"], {
      cwd,
      env: {
        AWS_ENDPOINT_URL: one.variables.SLUICE_ENDPOINT,
        AWS_ACCESS_KEY_ID: one.variables.SLUICE_ACCESS_KEY_ID,
        AWS_SECRET_ACCESS_KEY: one.variables.SLUICE_SECRET_ACCESS_KEY,
      },
    });
    expect(beside.out).toContain("master.one");
    expect(beside.stderr).toContain("which is passed over");
  });

  test.skipIf(process.getuid?.() !== 0)(
    "is not one of another user, whose folder one stands in",
    async () => {
      const cwd = folderWith({ endpoint: one.variables.SLUICE_ENDPOINT });
      for (const path of ["", "root-key.json", "gateway.json"])
        chownSync(join(cwd, ".sluice", path), 65534, 65534);
      const { code, stderr } = await sluice(["ls"], { cwd });
      expect(code).toBe(1);
      expect(stderr).toContain("the folder .sluice has files of another user");
    },
  );

  test("that does not run is told as that, and no other one is asked in its place", async () => {
    const config = scratchFolder();
    const env = { XDG_CONFIG_HOME: config };
    await sluice(["context", "add", "one"], { env: { ...env, ...one.variables } });
    await sluice(["context", "use", "one"], { env });
    const { code, stderr } = await sluice(["ls"], { cwd: folderWith({ endpoint: undefined }), env });
    expect({ code, stderr }).toEqual({
      code: 8,
      stderr: "error: no gateway runs on .sluice: start it with 'sluice dev'\n",
    });
  });

  test.each([
    ["has a damaged key", (key: string) => writeFileSync(key, "{")],
    ["has a key that can't be read", (key: string) => mkdirSync(key)],
    ["names another machine and has no key", () => {}],
  ])("is not kept from a command by a folder .sluice that is not used and %s", async (_, leave) => {
    const cwd = folderWith({ endpoint: "https://sluice.example.org" });
    const key = join(cwd, ".sluice/root-key.json");
    rmSync(key);
    leave(key);
    const { code, out, stderr } = await sluice(["ls"], { cwd, env: one.variables });
    expect({ code, out, stderr }).toEqual({
      ...{ code: 0, stderr: "" },
      out: expect.stringContaining("master.one"),
    });
  });

  test("is said by a gateway whose key came from its environment, without a folder's key", async () => {
    const cwd = scratchFolder();
    const given = { SLUICE_ACCESS_KEY_ID: "given-root", SLUICE_SECRET_ACCESS_KEY: "given-root-secret" };
    const started = start([...SLUICE, "dev", "--port", "0", "--runners", "0"], { cwd, env: given });
    try {
      const line = await eventually(
        "it has greeted",
        () => /^In another terminal: (.*)$/m.exec(started.output())?.[1],
      );
      const [, endpoint = ""] = /^export SLUICE_ENDPOINT=([^,]+),/.exec(line) ?? [];
      const { code, stderr } = await sluice(["env", "--data", join(cwd, ".sluice")]);
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining(`set SLUICE_ENDPOINT=${endpoint}`),
      });
      // In its own folder, with another gateway exported.
      expect((await sluice(["ls"], { cwd, env: one.variables })).stderr).toBe(
        `using ${one.variables.SLUICE_ENDPOINT}, from SLUICE_ENDPOINT; the gateway of .sluice names ${endpoint}, which is passed over\n`,
      );
      expect((await sluice(["ls"], { env: { ...given, SLUICE_ENDPOINT: endpoint } })).code).toBe(0);
    } finally {
      await started.stop();
    }
  });

  test("is asked for by one option, not by two that may differ", async () => {
    for (const others of [
      ["--context", "one"],
      ["--endpoint", one.variables.SLUICE_ENDPOINT],
    ]) {
      const { code, stderr } = await sluice(["ls", "--data", two.data, ...others]);
      expect(code).toBe(2);
      expect(stderr).toContain(`cannot be used with option '${others[0]}`);
    }
  });
});

/** A folder that holds `.sluice` as a gateway leaves it. */
function folderWith({ endpoint }: { endpoint: string | undefined }): string {
  const cwd = scratchFolder();
  mkdirSync(join(cwd, ".sluice"));
  const key = { accessKeyId: "SLUICEFAKE", secretAccessKey: "a secret of nobody" };
  writeFileSync(join(cwd, ".sluice/root-key.json"), JSON.stringify(key));
  if (endpoint) writeFileSync(join(cwd, ".sluice/gateway.json"), JSON.stringify({ pid: 1, endpoint }));
  return cwd;
}

describe("sluice doctor and sluice runner", () => {
  test("keep --data for themselves: it names no gateway", async () => {
    const { out } = await sluice(["doctor", "--executor", "process", "--data", two.data, "--json"], {
      env: one.variables,
    });
    const { findings }: { findings: { check: string; found: string }[] } = JSON.parse(out);
    expect(findings).toContainEqual(
      expect.objectContaining({ check: "gateway", found: `${one.variables.SLUICE_ENDPOINT} answers` }),
    );
  });
});

describe("sluice env", () => {
  test("that fails fails a shell that evaluates it, so that nothing goes on with another gateway", async () => {
    const folder = scratchFolder();
    const [node = "", file = ""] = SLUICE;
    const line = `eval "$('${node}' '${file}' env --data '${folder}')" && '${node}' '${file}' context add two`;
    const env = { ...one.variables, XDG_CONFIG_HOME: scratchFolder() };
    const ended = await run(["bash", "-c", line], { cwd: folder, env });
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining("no key:") });
    expect(ended.stdout.toString()).toBe("");
    expect(JSON.parse((await sluice(["context", "list", "--json"], { env })).out)).toEqual({ contexts: [] });
    const asJson = await sluice(["env", "--data", folder, "--json"]);
    expect([asJson.code, asJson.out]).toEqual([1, ""]);
  });

  test.each([
    "--contxt prod",
    "prod",
    "--data",
    "--data here --context prod",
  ])("that was typed wrong fails a shell that evaluates it: %s", async (typed) => {
    const [node = "", file = ""] = SLUICE;
    const line = `eval "$('${node}' '${file}' env ${typed})" && echo went on`;
    const ended = await run(["sh", "-c", line], { env: one.variables });
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining("error:") });
    expect(ended.stdout.toString()).toBe("");
    const asJson = await sluice(["env", "--json", ...typed.split(" ")]);
    expect([asJson.code, asJson.out]).toEqual([2, ""]);
  });

  test("prints false for itself alone, and not with its help", async () => {
    expect(await sluice(["ls", "env", "--contxt", "prod"])).toMatchObject({ code: 2, out: "" });
    const help = await sluice(["env", "--help"]);
    expect(help).toMatchObject({ code: 0, out: expect.stringContaining("Usage: sluice env") });
    expect(help.out).not.toMatch(/^false$/m);
  });
});

describe("sluice context", () => {
  test("keeps gateways by name, takes the secret from standard input or the environment, and shows none", async () => {
    const config = scratchFolder();
    const env = { XDG_CONFIG_HOME: config };
    const {
      SLUICE_ENDPOINT: endpoint,
      SLUICE_ACCESS_KEY_ID: key,
      SLUICE_SECRET_ACCESS_KEY: secret,
    } = two.variables;
    expect((await sluice(["context", "add", "one"], { env: { ...env, ...one.variables } })).code).toBe(0);
    const added = await sluice(["context", "add", "two", "--endpoint", endpoint, "--key", key], {
      env: { ...env, ...one.variables },
      input: `${secret}\n`,
    });
    expect(added).toMatchObject({ code: 0, stderr: "" });
    expect((await sluice(["ls", "--context", "two"], { env: { ...env, ...one.variables } })).out).toContain(
      "master.two",
    );

    expect((await sluice(["context", "use", "two"], { env })).code).toBe(0);
    expect((await sluice(["ls"], { env })).out).toContain("master.two");
    expect((await sluice(["ls"], { cwd: one.cwd, env })).out).toContain("master.one");
    const listed = await sluice(["context", "list"], { env });
    expect(listed.out).toMatch(/^\s+one\s.*\n\*\s+two\s/m);
    const asJson = await sluice(["context", "list", "--json"], { env });
    expect(JSON.parse(asJson.out).contexts).toEqual([
      { name: "one", endpoint: one.variables.SLUICE_ENDPOINT, accessKeyId: expect.any(String), inUse: false },
      { name: "two", endpoint, accessKeyId: key, inUse: true },
    ]);
    expect(added.out + listed.out + asJson.out).not.toContain(secret);

    expect((await sluice(["context", "remove", "two"], { env })).code).toBe(0);
    expect((await sluice(["ls"], { env })).stderr).toContain("no gateway is named");
    expect((await sluice(["context", "remove", "two"], { env })).code).toBe(7);
    expect((await sluice(["ls", "--context", "two"], { env })).code).toBe(7);
  });

  test("is for its user alone: what others may read, or brought, is refused", async () => {
    const config = scratchFolder();
    const env = { XDG_CONFIG_HOME: config };
    await sluice(["context", "add", "one"], { env: { ...env, ...one.variables } });
    await sluice(["context", "use", "one"], { env });
    const file = join(config, "sluice/contexts/one.json");
    const modes = [file, join(config, "sluice"), join(config, "sluice/contexts")].map(
      (path) => statSync(path).mode & 0o777,
    );
    expect(modes).toEqual([0o600, 0o700, 0o700]);

    chmodSync(file, 0o644);
    for (const args of [["ls"], ["ls", "--context", "one"]]) {
      const { code, stderr } = await sluice(args, { env });
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining(`others may read or change ${file}`),
      });
    }
    expect((await sluice(["context", "list"], { env })).stderr).toContain("chmod go=");
    chmodSync(file, 0o600);
    chmodSync(join(config, "sluice"), 0o777);
    expect((await sluice(["ls"], { env })).stderr).toContain("others may read or change");
  });

  test.each([
    ["a name that leads elsewhere", ["../../etc/passwd"], {}],
    ["no address", ["x"], { SLUICE_ACCESS_KEY_ID: "some-key", SLUICE_SECRET_ACCESS_KEY: "some-secret" }],
    ["no key", ["x", "--endpoint", "http://127.0.0.1:1"], {}],
    ["an address with a path", ["x", "--endpoint", "http://127.0.0.1:1/x", "--key", "some-key"], {}],
    ["an empty secret", ["x", "--endpoint", "http://127.0.0.1:1", "--key", "some-key"], {}],
  ])("refuses %s, and keeps nothing", async (_, args, env) => {
    const config = scratchFolder();
    const { code } = await sluice(["context", "add", ...args], {
      env: { ...env, XDG_CONFIG_HOME: config },
      input: "",
    });
    expect(code).toBe(2);
    expect((await sluice(["context", "list"], { env: { XDG_CONFIG_HOME: config } })).out).toBe("");
  });
});
