import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import { contentIdOf } from "../../../runner/lib/tree-hash.ts";
import { ROOT, sluice, sluiceCommand, sluiceEnv } from "../../support/dev-server.ts";
import { run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";

const BYTES = Buffer.from("from the gateway");
const ETAG = contentName(contentIdOf(BYTES));
const NOBODY = 65534;
const isRoot = process.getuid?.() === 0;
const JOB = "01KAR0000000000000000000ZZ";

/** A gateway that sends whatever it likes. */
interface Hostile {
  /** The keys that every listing has. */
  readonly keys: readonly string[];
  /** A file is answered when this has resolved. */
  readonly before?: Promise<void>;
  /** What it says of a datum. */
  readonly datum?: object;
}

const stops: (() => void)[] = [];
afterAll(() => {
  for (const stop of stops) stop();
});

async function hostile(terms: Hostile) {
  const server = createServer((request, response) => void answer(terms, request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { endpoint, accessKeyId: "key", secretAccessKey: "secret" };
}

async function answer({ keys, before, datum }: Hostile, request: IncomingMessage, response: ServerResponse) {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://x");
  if (pathname.startsWith("/api/")) {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(datum));
  } else if (searchParams.has("list-type")) {
    response.writeHead(200, { "content-type": "application/xml" }).end(listingOf(keys));
  } else if (request.method === "HEAD") {
    response.writeHead(404).end();
  } else {
    await before;
    response.writeHead(200, { etag: `"${ETAG}"`, "content-length": BYTES.length }).end(BYTES);
  }
}

function listingOf(keys: readonly string[]): string {
  const escaped = (text: string) =>
    text.replaceAll("&", "&amp;").replace(/[\0-\x1f]/g, (one) => `&#${one.charCodeAt(0)};`);
  const entries = keys.map(
    (key) =>
      `<Contents><Key>${escaped(key)}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>"${ETAG}"</ETag><Size>${BYTES.length}</Size></Contents>`,
  );
  return `<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join("")}</ListBucketResult>`;
}

/** A folder in one that has nothing else. */
function target(): { readonly outer: string; readonly into: string } {
  const outer = scratchFolder();
  const into = join(outer, "deep", "into");
  mkdirSync(into, { recursive: true });
  return { outer, into };
}

const COMMANDS: Readonly<Record<string, (into: string) => string[]>> = {
  "cp -r": (into) => ["cp", "-r", "s3://master.b/ab", into],
  "cp of a pattern": (into) => ["cp", "-r", "s3://master.b/ab/*", into],
  "mv -r": (into) => ["mv", "-r", "s3://master.b/ab", into],
  sync: (into) => ["sync", "s3://master.b/ab", into],
};

/** What a listing of what is below `ab/` must not have. */
const NAMES = [
  "ab/../out",
  // Cut at the length of what was asked for, it would begin with `../`.
  "ab.../out",
  "ab/x/../../../out",
  "ab/..",
  "ab//out",
  "ab/./out",
  "/ab/out",
  "out",
];

describe("a gateway that sends names which lead out of the folder", () => {
  for (const [command, words] of Object.entries(COMMANDS)) {
    test.concurrent.each(
      command === "cp -r" ? NAMES : NAMES.slice(0, 2),
    )(`writes nothing by ${command}: %j`, async (name) => {
      const { outer, into } = target();
      const { code, stderr } = await sluice(
        await hostile({ keys: ["ab/good", name].sort() }),
        ...words(into),
      );
      expect(stderr).toMatch(/^error: .*the gateway lists "/m);
      expect(code).toBe(1);
      expect(readdirSync(outer)).toEqual(["deep"]);
      expect(readdirSync(join(outer, "deep"))).toEqual(["into"]);
    });
  }

  test("what is a name like any other here stays one", async () => {
    const { outer, into } = target();
    const keys = ["ab/..\\out", "ab/...", "ab/C:x"].sort();
    const { code, stderr } = await sluice(await hostile({ keys }), "cp", "-r", "s3://master.b/ab", into);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(readdirSync(into).sort()).toEqual(["..\\out", "...", "C:x"].sort());
    expect(readdirSync(outer)).toEqual(["deep"]);
  });
});

test("a download writes through no link that was laid at the name of its draft", async () => {
  const { outer, into } = target();
  writeFileSync(join(outer, "mine"), "mine");
  const laid = Promise.withResolvers<void>();
  const door = await hostile({ keys: [], before: laid.promise });
  const [program = "", ...words] = sluiceCommand(["cp", "s3://master.b/file", join(into, "file")]);
  const child = spawn(program, words, { cwd: ROOT, env: sluiceEnv(door), stdio: "ignore" });
  // Whoever sees the process knows this much.
  symlinkSync(join(outer, "mine"), join(into, `file.sluice-${child.pid}`));
  laid.resolve();
  expect(await new Promise((resolve) => child.once("exit", resolve))).toBe(0);
  expect(readFileSync(join(outer, "mine"), "utf8")).toBe("mine");
  expect(lstatSync(join(into, "file")).isFile()).toBe(true);
  expect(readFileSync(join(into, "file"))).toEqual(BYTES);
});

describe("a folder that is a link", () => {
  const linked = (owner: number | undefined) => {
    const { outer, into } = target();
    mkdirSync(join(outer, "other"));
    chmodSync(into, 0o1777);
    symlinkSync(join(outer, "other"), join(into, "sub"));
    if (owner !== undefined) lchownSync(join(into, "sub"), owner, owner);
    return { outer, into };
  };
  const COPIES = [
    ["cp -r", ["cp", "-r"]],
    ["sync", ["sync"]],
  ] as const;

  test.each(COPIES)("is written through by %s if it is one's own", async (_, command) => {
    const { outer, into } = linked(undefined);
    const door = await hostile({ keys: ["ab/sub/x"] });
    expect(await sluice(door, ...command, "s3://master.b/ab", into)).toMatchObject({ code: 0 });
    expect(readFileSync(join(outer, "other/x"))).toEqual(BYTES);
  });

  test.skipIf(!isRoot).each(COPIES)(
    "root: is not written through by %s if another user laid it where all may write",
    async (_, command) => {
      for (const key of ["ab/sub/x", "ab/sub/deeper/x", "ab/sub/folder/"]) {
        const { outer, into } = linked(NOBODY);
        const door = await hostile({ keys: [key] });
        const { code, stderr } = await sluice(door, ...command, "s3://master.b/ab", into);
        expect(stderr).toContain(`${join(into, "sub")} is a link that another user laid`);
        expect(code).toBe(1);
        expect(readdirSync(join(outer, "other"))).toEqual([]);
      }
    },
  );

  test.skipIf(!isRoot)("root: nor is a pipe of another user written into", async () => {
    const { into } = target();
    chmodSync(into, 0o1777);
    await run(["mkfifo", join(into, "x")]);
    lchownSync(join(into, "x"), NOBODY, NOBODY);
    const door = await hostile({ keys: ["ab/x"] });
    const { code } = await sluice(door, "cp", "-r", "s3://master.b/ab", into);
    expect(code).toBe(0);
    expect(readFileSync(join(into, "x"))).toEqual(BYTES);
  });
});

test.each([
  "/../../../x",
  "../x",
  "A".repeat(64),
])("a gateway that calls a datum %j makes no folder by that", async (id) => {
  const { outer, into } = target();
  const spec = { image: "any", cmd: ["true"] };
  const of = { id, state: "success", tries: 0, exitCode: 0, reason: null, node: null, inputs: [] };
  const job = { job: JOB, pipeline: "p", version: 1, datum: of, transform: spec, limited: false, inputs: [] };
  const output = { output: { repo: "p", branch: "master" }, outputCommit: null, outputs: "none" };
  const door = await hostile({ keys: [], datum: { ...job, ...output } });
  const words = ["datum", "run", JOB, "0".repeat(64), "--executor", "process"];
  const { code, stderr } = await run(sluiceCommand(words), {
    cwd: ROOT,
    env: { ...sluiceEnv(door), TMPDIR: into, PATH: process.env.PATH ?? "" },
  });
  expect(stderr).toContain("datum.id");
  expect(code).toBe(1);
  expect([readdirSync(outer), readdirSync(join(outer, "deep")), readdirSync(into)]).toEqual([
    ["deep"],
    ["into"],
    [],
  ]);
  expect(existsSync("/x")).toBe(false);
});
