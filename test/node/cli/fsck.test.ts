// @module-tag rest
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { signatureHeaders } from "../../support/http.ts";
import { ROOT_KEY } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";
import { onTerminal } from "../../support/terminal.ts";

const MIB = 1024 * 1024;

let server: DevServer;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  s3 = new S3(server);
  await s3.createBucket("master.data");
  await s3.put("master.data", "small", "in a row");
  await s3.put("master.data", "large", Buffer.alloc(9 * MIB, 1));
  await s3.put("master.data", "large", Buffer.alloc(9 * MIB, 2));
  await sluiceOk(server, "branch", "create", "dev.data", "--from", "master.data");
});
afterAll(() => server?.stop());

/** The files of the blob folder that are blobs, those of a bucket's present generation first come, first served. */
function blobs(): string[] {
  const folder = join(server.data, "blobs", "b");
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile() && !path.includes("/."));
}

/** Sends most of a body, and kills the gateway when a blob of it is there. */
async function killInBody(target: string): Promise<void> {
  const before = blobs().length;
  const headers = { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" };
  const signed = await signatureHeaders(server, { method: "PUT", target, headers });
  const { hostname, port } = new URL(server.endpoint);
  const sending = request({
    hostname,
    port,
    method: "PUT",
    path: target,
    headers: { ...signed, "content-length": String(20 * MIB) },
  });
  sending.on("error", () => {});
  sending.write(Buffer.alloc(9 * MIB, 3));
  await eventually("a blob of the body is there", () => blobs().length > before);
  await server.kill9();
  sending.destroy();
  // What workerd has not written to its end when it dies; nothing can name it.
  writeFileSync(partial(), "the first half of a blob");
  await server.restart();
  await eventually("what was half written is gone", () => !existsSync(partial()));
}

function partial(): string {
  return join(server.data, "blobs", "b", ".half.4711.1.tmp");
}

interface Report {
  readonly ok: boolean;
  readonly branches: {
    bucket: string;
    names: number;
    orphans: { blobs: number; bytes: number; removed: boolean };
  }[];
}

async function report(...args: string[]): Promise<Report> {
  return JSON.parse(await sluiceOk(server, "fsck", "--json", ...args));
}

test("fsck proves every name of branches and forks, and ends with 0", async () => {
  const { ok, branches } = await report();
  expect(ok).toBe(true);
  expect(branches.map(({ bucket, names }) => [bucket, names])).toEqual([
    ["dev.data", 2],
    ["master.data", 3],
  ]);
  expect(await sluiceOk(server, "fsck", "master.data", "--sample", "50")).toMatch(
    /^master\.data: good; 3 names, /,
  );
});

test("blobs of a body in which the gateway was killed are told while the upload is open no more, and go by --sweep", async () => {
  const named = blobs();
  const begun = await s3.ask("POST", "/master.data/parts?uploads");
  const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.text)?.[1] ?? "";
  await killInBody(`/master.data/parts?partNumber=1&uploadId=${id}`);
  expect((await report("data")).branches.map(({ orphans }) => orphans.blobs)).toEqual([0, 0]);
  expect((await s3.ask("DELETE", `/master.data/parts?uploadId=${id}`)).status).toBe(204);
  const [, told] = (await report("data")).branches;
  expect(told?.orphans).toMatchObject({ removed: false });
  expect(told?.orphans.blobs).toBeGreaterThan(0);
  const [, removed] = (await report("data", "--sweep")).branches;
  expect(removed?.orphans).toEqual({ ...told?.orphans, removed: true });
  expect(blobs().sort()).toEqual(named.sort());
  expect((await report()).branches.map(({ orphans }) => orphans.blobs)).toEqual([0, 0]);
});

test("bytes that were altered, cut off or are gone end fsck with 1, with each name and its commit", async () => {
  const [damaged = ""] = blobs().filter((path) => statSync(path).size === 4 * MIB);
  writeFileSync(damaged, Buffer.alloc(4 * MIB, 9));
  const altered = await sluice(server, "fsck");
  expect(altered.code).toBe(1);
  expect(altered.stderr).toMatch(/master\.data: large\?versionId=[0-9A-Z]{26}: its bytes are /);
  // What a power cut may leave of a file that was not written through.
  writeFileSync(damaged, "");
  const empty = await sluice(server, "fsck");
  expect(empty.code).toBe(1);
  expect(empty.stderr).toMatch(
    /master\.data: large\?versionId=[0-9A-Z]{26}: blob \S+ does not have the bytes /,
  );
  const exported = await sluice(server, "repo", "export", "data", join(server.data, "data.tar"));
  expect(exported.code).toBe(1);
  expect(exported.stderr).toMatch(
    /a content of 'master\.data' can't be read: 'sluice fsck master\.data' says which files/,
  );
  rmSync(damaged);
  const gone = await sluice(server, "fsck", "master.data", "--json");
  expect(gone.code).toBe(1);
  expect(JSON.parse(gone.stdout.toString())).toMatchObject({ ok: false });
  expect(JSON.parse(gone.stderr)).toMatchObject({ error: { code: "Damaged" } });
});

test("a name that never was, and a share that is none, are refused", async () => {
  expect(await sluice(server, "fsck", "never")).toMatchObject({ code: 7 });
  expect(await sluice(server, "fsck", "--sample", "0")).toMatchObject({ code: 2 });
});

test("a person who looks on is told how far it is, first of the names and then of the blobs; nobody else is", async () => {
  // It is through with either when the person has seen how far it is.
  let screen = (): string => "";
  const gateway = createServer(async (asked, answer) => {
    const body = await text(asked);
    const { pathname } = new URL(asked.url ?? "", "http://gateway");
    const json = () => {
      if (pathname === "/api/v1/fsck") return { branches: [{ repo: "data", branch: "master" }], next: null };
      if (pathname.endsWith("/sweep")) {
        if (asked.method === "POST") return { since: 1 };
        return { done: screen().includes("looked up"), seen: 5, found: 0, foundBytes: 0 };
      }
      const found = body.includes("after")
        ? { names: 0, contents: 0, bytes: 0 }
        : { names: 3, contents: 2, bytes: 1 };
      return { ...found, faults: [], done: 0.4, next: screen().includes("40 %") ? null : "on" };
    };
    setTimeout(
      () => answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(json())),
      20,
    );
  });
  await new Promise<void>((resolve) => {
    gateway.listen(0, "127.0.0.1", resolve);
  });
  try {
    const { port } = gateway.address() as AddressInfo;
    const door = { ...ROOT_KEY, endpoint: `http://127.0.0.1:${port}` };
    const where = { env: sluiceEnv(door), cwd: ROOT };
    const piped = sluiceOk(door, "fsck");
    const forPrograms = onTerminal(sluiceCommand(["fsck", "--json"]), where);
    const terminal = onTerminal(sluiceCommand(["fsck"]), where);
    screen = terminal.screen;
    await terminal.shows("master.data: 3 names, 2 contents, 1 B, 40 %");
    await terminal.shows("master.data: 5 blobs looked up");
    expect(await Promise.all([terminal.ended, forPrograms.ended])).toEqual([0, 0]);
    expect(terminal.screen()).toContain("master.data: good; 3 names, 2 contents, 1 B");
    expect(forPrograms.screen()).not.toMatch(/40 %|looked up/);
    expect(await piped).toBe("master.data: good; 3 names, 2 contents, 1 B\n");
  } finally {
    gateway.close();
  }
});

test("a branch whose object is damaged or lost ends fsck with 1 and is named, and the others are checked all the same", async () => {
  const objects = join(server.data, "state/do/sluice-Branch");
  const before = new Set(readdirSync(objects));
  await s3.createBucket("master.broken");
  await s3.put("master.broken", "small", "in a row");
  await server.kill9();
  const files = readdirSync(objects).filter((name) => !before.has(name));
  const [file = ""] = files.filter((name) => name.endsWith(".sqlite"));
  for (const name of files) rmSync(join(objects, name));
  writeFileSync(join(objects, file), "no database ".repeat(1000));
  await server.restart();
  const damaged = await sluice(server, "fsck", "broken", "dev.data");
  expect(damaged.code).toBe(1);
  expect(damaged.stdout.toString()).toMatch(/^dev\.data: .*\n/m);
  expect(damaged.stdout.toString()).toMatch(/^master\.broken: can't be read$/m);
  expect(damaged.stderr).toMatch(/master\.broken: The gateway failed/);
  await server.kill9();
  for (const name of readdirSync(objects)) if (name.startsWith(file)) rmSync(join(objects, name));
  await server.restart();
  const lost = await sluice(server, "fsck", "broken", "--json");
  expect(lost.code).toBe(1);
  expect(JSON.parse(lost.stdout.toString())).toMatchObject({
    ok: false,
    failed: [
      {
        bucket: "master.broken",
        message: expect.stringMatching(/it was lost\. 'sluice repo import' brings it back/),
      },
    ],
  });
});
