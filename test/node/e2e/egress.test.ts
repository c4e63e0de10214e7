// @module-tag rest
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { KeyCreated } from "../../../protocol/keys.ts";
import type { Job } from "../../../protocol/pipelines.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import type { Started } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { StoreProxy } from "../../support/store-proxy.ts";

const ARCHIVE = "master.archive";

let server: DevServer;
let s3: S3;
let control: Control;
/** The archive's address: all that runners push goes through it. */
let archive: StoreProxy;
let runner: Started;
let secrets: string;
beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  control = new Control(server);
  archive = new StoreProxy(server.endpoint);
  await archive.start();
  await s3.createBucket(ARCHIVE);
  const body = { level: "write", repos: ["archive"] };
  const key = await control.call("POST", "/keys", { body, answers: KeyCreated });
  secrets = scratchFolder();
  mkdirSync(join(secrets, "archive-key"));
  writeFileSync(join(secrets, "archive-key", "AWS_ACCESS_KEY_ID"), `${key.id}\n`);
  writeFileSync(join(secrets, "archive-key", "AWS_SECRET_ACCESS_KEY"), `${key.secret}\n`);
  const variables = { SLUICE_SECRETS: secrets, SLUICE_EGRESS_LOCAL: "true" };
  runner = startRunner(server, { node: "egress-node", variables });
});
afterEach(() => archive.reset());
afterAll(async () => {
  await runner?.stop();
  await archive?.stop();
  await server?.stop();
  if (secrets) removeScratch(secrets);
});

const shell = (name: string, repo: string, script: string): object => ({
  pipeline: { name },
  transform: { image: "busybox", cmd: ["sh"], stdin: [script] },
  inputs: [{ repo: { name: repo }, glob: "/*" }],
});

/** Copies its input, and pushes to a folder of the archive. */
const pushing = (name: string, repo: string, secret = "archive-key"): object => ({
  ...shell(name, repo, `cp /pfs/${repo}/* /pfs/out/`),
  egress: { URL: `s3://${ARCHIVE}/${name}`, endpoint: archive.endpoint, secret },
});

const archived = async (key: string) => (await s3.get(ARCHIVE, key))?.toString();
const written = () =>
  archive.requests.flatMap(({ method, target }) =>
    method === "PUT" || method === "DELETE" ? [`${method} ${target.split("?")[0]}`] : [],
  );
const lastEnded = async (name: string, count: number): Promise<Job | undefined> =>
  (await control.ended(name, { count })).at(-1);

describe("egress", () => {
  test("a job is successful once its results are in the external store, and the next one pushes what it changed", async () => {
    await s3.createBucket("master.photos");
    await s3.put("master.photos", "one", "1");
    await s3.put("master.photos", "two", "2");
    archive.trouble = () => "silence";
    await control.createPipeline(pushing("gallery", "photos"));
    const [job] = await eventually("the job pushes", async () => {
      const jobs = await control.jobs("gallery");
      return jobs[0]?.state === "egressing" && archive.requests.length > 0 && jobs;
    });
    expect(job?.outputCommit).not.toBeNull();
    expect(await s3.keys("master.gallery")).toEqual(["one", "two"]);
    expect(await s3.keys(ARCHIVE, "gallery/")).toEqual([]);
    archive.reset();
    // Breaks what waits for an answer.
    await archive.stop();
    await archive.start();
    expect(await lastEnded("gallery", 1)).toMatchObject({ state: "success", reason: null });
    expect(await archived("gallery/one")).toBe("1");
    expect(await archived("gallery/two")).toBe("2");

    archive.reset();
    await s3.put("master.photos", "two", "2!");
    expect(await lastEnded("gallery", 2)).toMatchObject({ state: "success" });
    expect(await archived("gallery/two")).toBe("2!");
    expect(written()).toEqual([`PUT /${ARCHIVE}/gallery/two`]);

    archive.reset();
    await s3.delete("master.photos", "one");
    expect(await lastEnded("gallery", 3)).toMatchObject({ state: "success" });
    expect(await s3.keys(ARCHIVE, "gallery/")).toEqual(["gallery/two"]);
    expect(written()).toEqual([`DELETE /${ARCHIVE}/gallery/one`]);
  });

  test("where the store refuses, the job fails with its code and keeps its output, and the next one pushes the rest", async () => {
    await s3.createBucket("master.scans");
    await s3.put("master.scans", "a", "A");
    await s3.put("master.scans", "b", "B");
    archive.trouble = ({ method, target }) =>
      method === "PUT" && target.includes("/register/b") ? { status: 403 } : undefined;
    await control.createPipeline(pushing("register", "scans"));
    const failed = await lastEnded("register", 1);
    expect(failed).toMatchObject({ state: "failure" });
    expect(failed?.outputCommit).not.toBeNull();
    for (const words of ['"b" could not be put to', `s3://${ARCHIVE}/register`, "403"]) {
      expect(failed?.reason).toContain(words);
    }
    expect(await s3.keys("master.register")).toEqual(["a", "b"]);
    expect(await archived("register/b")).toBeUndefined();

    archive.reset();
    await s3.put("master.scans", "c", "C");
    expect(await lastEnded("register", 2)).toMatchObject({
      state: "success",
      datums: { total: 3, processed: 1 },
    });
    for (const key of ["a", "b", "c"]) expect(await archived(`register/${key}`)).toBe(key.toUpperCase());
    // What was there already is not sent again.
    expect(written().sort()).toEqual([`PUT /${ARCHIVE}/register/b`, `PUT /${ARCHIVE}/register/c`]);
  });

  test("the credentials come from the secret that the spec names; one that is not there fails the job by name", async () => {
    await s3.createBucket("master.notes");
    await s3.put("master.notes", "n", "note");
    await control.createPipeline(pushing("secretive", "notes"));
    expect(await lastEnded("secretive", 1)).toMatchObject({ state: "success" });
    expect(await archived("secretive/n")).toBe("note");

    await control.createPipeline(pushing("careless", "notes", "lost-key"));
    const failed = await lastEnded("careless", 1);
    expect(failed).toMatchObject({ state: "failure" });
    expect(failed?.reason).toContain('"lost-key"');
    expect(failed?.outputCommit).not.toBeNull();
  });

  test("files of several parts arrive whole", async () => {
    await s3.createBucket("master.sizes");
    await s3.put("master.sizes", "large", "20000000");
    const script = "head -c $(cat /pfs/sizes/large) /dev/zero | tr '\\0' z > /pfs/out/large";
    const egress = { URL: `s3://${ARCHIVE}/whole`, endpoint: archive.endpoint, secret: "archive-key" };
    await control.createPipeline({ ...shell("whole", "sizes", script), egress });
    expect(await lastEnded("whole", 1)).toMatchObject({ state: "success" });
    expect((await s3.get(ARCHIVE, "whole/large"))?.equals(Buffer.alloc(20_000_000, "z"))).toBe(true);
  });
});

describe("one path written by several datums", () => {
  test("is their contents one after the other, in the order of the datums, and follows them", async () => {
    await s3.createBucket("master.lines");
    for (const name of ["a", "b", "c"]) await s3.put("master.lines", name, `${name}\n`);
    await control.createPipeline(shell("together", "lines", "cat /pfs/lines/* >> /pfs/out/all.txt"));
    expect(await lastEnded("together", 1)).toMatchObject({ state: "success" });
    expect((await s3.get("master.together", "all.txt"))?.toString()).toBe("a\nb\nc\n");

    await s3.put("master.lines", "b", "B\n");
    expect(await lastEnded("together", 2)).toMatchObject({ state: "success", datums: { processed: 1 } });
    expect((await s3.get("master.together", "all.txt"))?.toString()).toBe("a\nB\nc\n");

    await s3.delete("master.lines", "a");
    await lastEnded("together", 3);
    expect((await s3.get("master.together", "all.txt"))?.toString()).toBe("B\nc\n");

    await s3.delete("master.lines", "b");
    await lastEnded("together", 4);
    expect((await s3.get("master.together", "all.txt"))?.toString()).toBe("c\n");
  });

  test("may be larger than a message, and is pushed like any other", async () => {
    await s3.createBucket("master.blocks");
    for (const name of ["x", "y"]) await s3.put("master.blocks", name, name);
    const script =
      "for f in /pfs/blocks/*; do head -c 3000000 /dev/zero | tr '\\0' $(cat $f) >> /pfs/out/all; done";
    const egress = { URL: `s3://${ARCHIVE}/joined`, endpoint: archive.endpoint, secret: "archive-key" };
    await control.createPipeline({ ...shell("joined", "blocks", script), egress });
    expect(await lastEnded("joined", 1)).toMatchObject({ state: "success" });
    const whole = Buffer.concat([Buffer.alloc(3_000_000, "x"), Buffer.alloc(3_000_000, "y")]);
    expect((await s3.get("master.joined", "all"))?.equals(whole)).toBe(true);
    expect((await s3.get(ARCHIVE, "joined/all"))?.equals(whole)).toBe(true);
  });
});
