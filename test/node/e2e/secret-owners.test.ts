// @module-tag rest
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KeyCreated } from "../../../protocol/keys.ts";
import type { Job } from "../../../protocol/pipelines.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, sluice, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import type { Door } from "../../support/keys.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const VALUE = "the-value-of-the-secret";
/** The secret that the runner's own key comes from, by its word. */
const KEY_SECRET = "runner-key";

let server: DevServer;
let control: Control;
let s3: S3;
let runner: Started;
let secrets: string;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
  secrets = scratchFolder();
  for (const name of ["db", "named"]) {
    mkdirSync(join(secrets, name));
    writeFileSync(join(secrets, name, "password"), VALUE);
  }
  writeFileSync(join(secrets, "named.pipelines"), "taken\n");
  const variables = { SLUICE_SECRETS: secrets, SLUICE_KEY_SECRET: KEY_SECRET };
  runner = startRunner(server, { node: "owners", variables });
});
afterAll(async () => {
  await runner?.stop();
  await server?.stop();
  if (secrets) removeScratch(secrets);
});

/** A pipeline whose command writes the secret into its output: what whoever may change a command may do. */
const leaking = (name: string, { secret = "db", to = "password" } = {}): object => ({
  pipeline: { name },
  transform: {
    image: "busybox",
    cmd: ["sh", "-eu"],
    stdin: [`cp /secrets/db/password /pfs/out/${to}`],
    secrets: [{ name: secret, mountPath: "/secrets/db" }],
  },
  inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
});

async function keyFor(...repos: string[]): Promise<Door> {
  const body = { level: "admin", repos, pipelines: true };
  const { id, secret } = await control.call("POST", "/keys", { body, answers: KeyCreated });
  return { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
}

async function filled(name: string): Promise<void> {
  await s3.createBucket(`master.${name}-in`);
  await s3.put(`master.${name}-in`, "a", "1");
}

async function lastOf(name: string, count: number): Promise<Job | undefined> {
  return (await control.ended(name, { count })).at(-1);
}

async function update(door: Door, spec: object): Promise<void> {
  const { status, text } = await new Control(door).ask("POST", "/pipelines?update=true", spec);
  expect(status, text).toBe(200);
}

describe("a secret that says nothing", () => {
  test("serves a pipeline of the root key until a limited key updates its command, and is then refused by name", async () => {
    await filled("taken");
    await control.createPipeline(leaking("taken"));
    expect(await lastOf("taken", 1)).toMatchObject({ state: "success" });
    expect(String(await s3.get("master.taken", "password"))).toBe(VALUE);

    const scoped = await keyFor("taken", "taken-in");
    await update(scoped, leaking("taken", { to: "stolen" }));
    const refused = await lastOf("taken", 2);
    expect(refused).toMatchObject({ state: "failure", outputCommit: null });
    expect(refused?.reason).toContain('secret "db" does not serve the pipeline "taken"');
    expect(await s3.keys("master.taken")).toEqual(["password"]);

    // The owner of a secret may say that it serves this pipeline, whoever writes its command.
    await update(scoped, leaking("taken", { secret: "named", to: "given" }));
    expect(await lastOf("taken", 3)).toMatchObject({ state: "success" });
    expect(await s3.keys("master.taken")).toEqual(["given"]);
  });
});

describe("a key that may not read an input", () => {
  test("sees a pipeline without its variables, and is not given such a spec to update from", async () => {
    await s3.createBucket("master.veil-in");
    const spec = leaking("veil") as { transform: object };
    await control.createPipeline({ ...spec, transform: { ...spec.transform, env: { TOKEN: VALUE } } });
    const door = await keyFor("veil");
    const shown = await sluiceOk(door, "pipeline", "inspect", "veil");
    expect(shown).toContain("hidden   transform.env: this key may not read all of the inputs");
    expect(shown).not.toContain(VALUE);
    const { code, stdout, stderr } = await sluice(door, "pipeline", "inspect", "veil", "--spec");
    expect({ code, printed: stdout.toString() }).toEqual({ code: 1, printed: "" });
    expect(stderr).toContain("the spec of 'veil' is not shown whole: this key may not see transform.env");
    await control.deletePipeline("veil");
  });
});

describe("the runner's own key", () => {
  test.each([
    ["in a file of variables", "unit-env", () => `SLUICE_SECRET_ACCESS_KEY=${server.secretAccessKey}\n`],
    ["under the name that the runner was told", KEY_SECRET, () => "the next key"],
  ])("reaches no pipeline, though the root key asks for it: %s", async (_, secret, text) => {
    mkdirSync(join(secrets, secret));
    writeFileSync(join(secrets, secret, "password"), text());
    await filled(secret);
    await control.createPipeline(leaking(secret, { secret }));
    const refused = await lastOf(secret, 1);
    expect(refused).toMatchObject({ state: "failure", outputCommit: null });
    expect(refused?.reason).toContain(`secret "${secret}" holds the key of this runner`);
  });
});
