// @module-tag rest
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Key, KeyCreated, KeyPage } from "../../../protocol/keys.ts";
import { SessionCreated } from "../../../protocol/sessions.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner } from "../../support/fake-runner.ts";
import type { Door } from "../../support/keys.ts";
import type { Ended } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { onTerminal } from "../../support/terminal.ts";

let server: DevServer;
const folder = scratchFolder();

beforeAll(async () => {
  server = await startDevServer();
  for (const bucket of ["master.images", "master.labels"]) await new S3(server).createBucket(bucket);
  await new S3(server).put("master.labels", "file", "theirs");
});
afterAll(() => server.stop());
afterAll(() => removeScratch(folder));

function ok(...args: string[]): Promise<string> {
  return sluiceOk(server, ...args);
}

async function create(...args: string[]): Promise<KeyCreated> {
  const { code, stdout, stderr } = await sluice(server, "key", "create", ...args, "--json");
  expect(code, stderr).toBe(0);
  return KeyCreated.parse(parseCliJson(stdout.toString()));
}

function doorOf({ id, secret }: KeyCreated): Door {
  return { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
}

/** The status of one signed request, and the code of its error. */
async function outcome(door: Door, method: string, target: string, body?: string): Promise<string> {
  const { status, text } = await new S3(door).ask(method, target, body);
  return `${status} ${/<Code>(.*?)<\/Code>/.exec(text)?.[1] ?? ""}`.trim();
}

describe("sluice key create", () => {
  test("warns of a repo that is not there, and makes the key for the day that it is", async () => {
    const args = ["key", "create", "--repo", "images", "--repo", "imagse", "--json"];
    const { code, stdout, stderr } = await sluice(server, ...args);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "Warning: there is no repo imagse: the key works in it once it is made\n",
    });
    const { id, repos } = KeyCreated.parse(parseCliJson(stdout.toString()));
    expect(repos).toEqual(["images", "imagse"]);
    await ok("key", "delete", id);
  });

  test("makes a key that works in its repo, and nowhere else, until it is deleted", async () => {
    const key = await create("--level", "write", "--repo", "images", "--description", "camera");
    expect(key).toMatchObject({ level: "write", repos: ["images"], description: "camera" });
    const door = doorOf(key);
    expect(await outcome(door, "PUT", "/master.images/cat", "meow")).toBe("200");
    expect((await new S3(door).get("master.images", "cat"))?.toString()).toBe("meow");
    expect(await outcome(door, "GET", "/master.labels/file")).toBe("403 AccessDenied");
    expect(await outcome(door, "PUT", "/master.labels/file", "mine")).toBe("403 AccessDenied");
    expect(await outcome(door, "DELETE", "/master.images")).toBe("403 AccessDenied");
    expect(await outcome(door, "PUT", "/master.others")).toBe("403 AccessDenied");
    expect(await new S3(door).buckets()).toEqual(["master.images"]);

    expect(await ok("key", "delete", key.id)).toBe(`deleted ${key.id}\n`);
    await eventually("the deleted key is refused", async () => {
      return (await outcome(door, "GET", "/master.images/cat")) === "403 InvalidAccessKeyId";
    });
    expect((await new S3(server).get("master.labels", "file"))?.toString()).toBe("theirs");
  });

  test("by itself makes one that reads everything, and prints what to export", async () => {
    const printed = await ok("key", "create");
    expect(printed).toMatch(
      /^export SLUICE_ENDPOINT=\S+\nexport SLUICE_ACCESS_KEY_ID=SLUICE[0-9A-F]{14}\nexport SLUICE_SECRET_ACCESS_KEY=[\w-]{40}\n/,
    );
    expect(printed).toMatch(/\n# read in all repos; .*\n$/);
    const [, id = "", secret = ""] = [...printed.matchAll(/=(\S+)/g)].map(([, value]) => value);
    const door: Door = { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
    expect((await new S3(door).get("master.labels", "file"))?.toString()).toBe("theirs");
    expect(await outcome(door, "PUT", "/master.labels/file", "mine")).toBe("403 AccessDenied");
  });

  test("and the other commands, by a key that may not handle keys, end with 1 and say what was needed", async () => {
    const door = doorOf(await create("--level", "admin", "--repo", "images"));
    for (const args of [["create"], ["list"], ["delete", "SLUICE00000000000000"]]) {
      const { code, stderr } = await sluice(door, "key", ...args);
      expect(stderr).toMatch(
        /^error: The access key allows admin in the repo 'images'; this needs admin on what belongs to no repo/,
      );
      expect(code).toBe(1);
    }
  });
});

describe("sluice key create --pipelines", () => {
  const spec = join(folder, "shrunk.json");
  const submit = (door: Door) => sluice(door, "pipeline", "create", "-f", spec);

  test("makes an admin key that creates pipelines in its repos, which one without it may not", async () => {
    const repos = ["--repo", "images", "--repo", "shrunk"];
    const transform = { image: "busybox", cmd: ["true"] };
    const inputs = [{ repo: { name: "images" }, glob: "/*" }];
    writeFileSync(spec, JSON.stringify({ pipeline: { name: "shrunk" }, transform, inputs }));
    const without = await create("--level", "admin", ...repos);
    const refused = await submit(doorOf(without));
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(
      "this needs the right to run pipelines ('sluice key create --pipelines')",
    );

    const key = await create(...repos, "--pipelines");
    expect(key).toMatchObject({ level: "admin", pipelines: true });
    expect((await submit(doorOf(key))).code).toBe(0);
    const list = await ok("key", "list");
    expect(list).toMatch(new RegExp(`^${key.id} +admin +yes +images shrunk`, "m"));
    expect(list).toMatch(new RegExp(`^${without.id} +admin +no +images shrunk`, "m"));
    await ok("pipeline", "delete", "shrunk");
  });

  test("with a level below admin is refused, and the problem is at its field", async () => {
    const { code, stderr } = await sluice(server, "key", "create", "--level", "write", "--pipelines");
    expect(stderr).toContain("pipelines: is for level admin");
    expect(code).toBe(1);
  });
});

/**
 * The end of a command that followed the logs of a job with a key which expired meanwhile, and the key. If the command took
 * longer to begin than the key was good for, another key is good for longer.
 */
async function followedUntilExpiry(job: string, line: string): Promise<{ key: KeyCreated; ended: Ended }> {
  for (let seconds = 3; ; seconds *= 2) {
    const key = await create("--level", "read", "--expires", `${seconds}s`);
    const ended = await sluice(doorOf(key), "job", "logs", "--follow", job);
    if (ended.stdout.toString().includes(line)) return { key, ended };
    expect(ended.stderr).toContain(`'${key.id}' expired at`);
    await ok("key", "delete", key.id);
  }
}

describe("sluice key create --expires", () => {
  test("makes a key that ends by itself, and says in lists and to itself when", async () => {
    const printed = await ok("key", "create", "--repo", "images", "--expires", "30d");
    expect(printed).toMatch(
      /\n# read in images, until \d{4}-\d\d-\d\d [\d:]{8} [+-][\d:]{5}; the secret is not/,
    );
    const key = await create("--expires", "2099-12-31T18:00Z");
    expect(key).toMatchObject({ expiresAt: Date.UTC(2099, 11, 31, 18) });
    expect(await ok("key", "list")).toMatch(
      new RegExp(`^${key.id} +read +all repos +\\S+ \\S+ \\S+ +2099-12-31 `, "m"),
    );
    expect(await sluiceOk(doorOf(key), "whoami")).toMatch(/^expires {4}2099-12-31 /m);
  });

  test("refuses what is no time, and what is none to come", async () => {
    const wrong = await sluice(server, "key", "create", "--expires", "1month");
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain(
      "option '--expires <when>' argument '1month' is invalid. It must be a length of time such as 30d",
    );
    const past = await sluice(server, "key", "create", "--expires", "2020-01-31");
    expect(past.code).toBe(1);
    expect(past.stderr).toMatch(
      /expires: is '2020-01-31', which is not ahead of the gateway's clock, \d{4}-.*: give a length/,
    );
  });

  test("ends what follows a log with its key, which says so; the list has it as expired, and it is not imported", async () => {
    const s3 = new S3(server);
    await s3.createBucket("master.followed");
    await s3.put("master.followed", "one", "1");
    writeFileSync(
      join(folder, "follows.json"),
      JSON.stringify({
        pipeline: { name: "follows" },
        transform: { image: "busybox", cmd: ["true"] },
        inputs: [{ repo: { name: "followed" }, glob: "/*" }],
      }),
    );
    await ok("pipeline", "create", "-f", join(folder, "follows.json"));
    const runner = new FakeRunner(server, { node: "keys-test" });
    const { lease, job } = await eventually("the pipeline has a datum", async () => {
      return (await runner.lease("follows")).datums[0];
    });
    await runner.print("follows", { lease, seq: 0, lines: ["printed before"] });
    await eventually("the job is found by its id", () => new Control(server).job(job));
    const { key, ended } = await followedUntilExpiry(job, "printed before");
    const { code, stderr } = ended;
    expect(stderr).toMatch(
      new RegExp(
        `error: The access key '${key.id}' expired at \\S+: ask for another one \\('sluice key create'\\)`,
      ),
    );
    expect(code).toBe(1);
    expect(await outcome(doorOf(key), "GET", "/master.images/cat")).toBe("403 InvalidAccessKeyId");
    expect(await ok("key", "list")).toMatch(
      new RegExp(`^${key.id} +read +all repos +\\S+ \\S+ \\S+ +expired  `, "m"),
    );

    const [file, seal] = [join(folder, "keys.json"), join(folder, "seal")];
    writeFileSync(seal, "a passphrase");
    await ok("key", "export", file, "--passphrase-file", seal);
    await ok("key", "delete", key.id);
    const imported = await sluice(server, "key", "import", file, "--passphrase-file", seal);
    expect(imported).toMatchObject({ code: 0, stderr: `1 key has expired and was not made: ${key.id}\n` });
    expect(await ok("key", "list")).not.toContain(key.id);
    await ok("pipeline", "delete", "follows");
  });
});

describe("sluice key list", () => {
  test("shows the keys without their secrets, page by page", async () => {
    const { secret, ...key } = await create("--level", "read", "--repo", "labels", "--repo", "images");
    const text = await ok("key", "list", "--json");
    expect(KeyPage.parse(parseCliJson(text)).keys).toContainEqual(Key.parse(key));
    expect(text).not.toContain(secret);
    expect(await ok("key", "list")).toMatch(new RegExp(`^${key.id} +read +labels images +\\d{4}-`, "m"));
    await create();
    const control = new Control({ ...doorOf({ ...key, secret }) });
    const session = await control.call("POST", "/console/sessions", { answers: SessionCreated });
    expect(await ok("key", "list")).toMatch(
      new RegExp(`^${key.id} .*\n${session.id} +session +.* of ${key.id}$`, "m"),
    );
    await ok("key", "delete", session.id);
    expect(await ok("key", "list")).not.toContain(session.id);
    const first = await sluice(server, "key", "list", "--limit", "1");
    const after = /^more with --after (\S+)$/m.exec(first.stderr)?.[1] ?? "";
    expect(after).not.toBe("");
    expect(await ok("key", "list", "--after", after)).not.toContain(after);
  });
});

test("sluice key list has short times and whole descriptions on a terminal, and all on a line in a pipe", async () => {
  await ok("key", "create", "--description", "for one of us", "--expires", "2099-12-31T18:00Z");
  const terminal = onTerminal(sluiceCommand(["key", "list"]), { env: { ...sluiceEnv(server), TZ: "UTC" } });
  expect(await terminal.ended).toBe(0);
  expect(terminal.screen()).toMatch(/ 2099-12-31 .*\r?\n {4}for one of us/);
  expect(terminal.screen()).not.toContain("+00:00");
  expect(await ok("key", "list")).toMatch(/ 2099-12-31 18:00:00 \+00:00 {2}- +for one of us$/m);
});

describe("sluice whoami", () => {
  test("shows the key, what it may do, the gateway, and where each was read from", async () => {
    const { secret, id } = await create("--level", "admin", "--repo", "images", "--pipelines");
    const door = { endpoint: server.endpoint, accessKeyId: id, secretAccessKey: secret };
    expect(await sluiceOk(door, "whoami")).toBe(
      [
        `key        ${id} (from SLUICE_ACCESS_KEY_ID)`,
        "level      admin",
        "repos      images",
        "pipelines  creates, updates and starts them",
        `gateway    ${server.endpoint} (from SLUICE_ENDPOINT)\n`,
      ].join("\n"),
    );
    const { secret: runner, id: node } = await create("--level", "runner");
    const told = await sluiceOk({ ...door, accessKeyId: node, secretAccessKey: runner }, "whoami", "--json");
    expect(JSON.parse(told)).toMatchObject({ id: node, level: "runner", keySource: "SLUICE_ACCESS_KEY_ID" });
  });
});

describe("sluice branch protect", () => {
  test("takes a key by how its id begins, and refuses what begins several", async () => {
    const { id } = await create("--level", "write");
    await ok("mb", "s3://master.guarded");
    const begin = id.slice(0, -3).toLowerCase();
    expect(await ok("branch", "protect", "master.guarded", "--key", begin)).toBe(
      `s3://master.guarded is protected: only the key ${id} may write to it\n`,
    );
    const { code, stderr } = await sluice(server, "branch", "protect", "master.guarded", "--key", "SLUICE");
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining("the ids of several keys begin with 'SLUICE'"),
    ]);
  });
});

describe("sluice key delete", () => {
  async function refused(...args: string[]): Promise<Ended> {
    const ended = await sluice(server, "key", "delete", ...args);
    expect(ended.code).toBe(1);
    return ended;
  }

  test("deletes all that are there, and names with 1 those that are not", async () => {
    const [one, two] = [await create(), await create()];
    const { stdout, stderr } = await refused(one.id, "SLUICE00000000000000", two.id);
    expect(stdout.toString()).toBe(`deleted ${one.id}\ndeleted ${two.id}\n`);
    expect(stderr).toMatch(
      /^error: 1 key could not be deleted\n {2}SLUICE00000000000000: There is no access key 'SLUICE00000000000000'/,
    );
    const json = await refused(one.id, "--json");
    expect(JSON.parse(json.stdout.toString())).toEqual({ deleted: [] });
    expect(JSON.parse(json.stderr).error).toMatchObject({ code: "NotDeleted", issues: [{ path: one.id }] });
  });

  test("takes whole ids alone: how one begins deletes nothing", async () => {
    const { id } = await create();
    const begin = id.slice(0, -1);
    expect((await refused(begin)).stderr).toContain(`There is no access key '${begin}'`);
    expect(await ok("key", "list")).toContain(id);
  });

  test("does not delete the root key", async () => {
    expect((await refused(server.accessKeyId)).stderr).toContain("is the root key");
  });
});

test("sluice key reseal looks at every key and says whether the encryption key from before is needed", async () => {
  const { id } = await create("--level", "runner");
  const told = JSON.parse(await ok("key", "reseal", "--json"));
  expect(told).toMatchObject({ resealed: [], unreadable: [] });
  expect(told.checked).toBeGreaterThan(0);
  expect(await ok("key", "reseal")).toMatch(
    /^\d+ keys? checked, 0 encrypted anew\nSLUICE_ENCRYPTION_KEY_PREVIOUS is not needed any more\n$/,
  );
  expect(await ok("key", "list")).toMatch(new RegExp(`^${id} +runner `, "m"));
});
