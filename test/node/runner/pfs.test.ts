import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import { MAX_OUTPUTS_PER_DATUM } from "../../../protocol/runner.ts";
import type { Cache } from "../../../runner/cache/cache.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { partRanges, sendInParts } from "../../../runner/lib/in-parts.ts";
import { collect } from "../../../runner/pfs/collect.ts";
import { PipeStock } from "../../../runner/pfs/lazy/pipe-stock.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import { type LeasedInput, stage as stageInputs } from "../../../runner/pfs/stage.ts";
import { INLINE_BUDGET_BYTES, sendOutputs } from "../../../runner/pfs/upload.ts";
import { REST } from "../../support/suite.ts";
import { openCache } from "./support/caches.ts";
import { KEY } from "./support/fake-gateway.ts";
import { Stage } from "./support/running.ts";

const MIB = 1024 * 1024;
const signal = new AbortController().signal;
let dir: string;

beforeEach(async () => {
  dir = await realpath(await mkdtemp(join(tmpdir(), "sluice-pfs-")));
});
afterEach(async () => {
  await removeTree(dir);
});

describe("laying out inputs", () => {
  let stage: Stage;
  let client: Client;
  let cache: Cache;
  let gateway: Gateway;
  const from = { name: "in", repo: "images", branch: "master", commit: "c1", lazy: false, from: null };

  beforeEach(async () => {
    stage = await Stage.open();
    client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
    gateway = new Gateway(client);
    cache = openCache(dir, { gateway });
  });
  afterEach(async () => {
    await client.close();
    await stage.close();
  });

  const layOut = (...inputs: LeasedInput[]) =>
    stageInputs(
      { cache, gateway, pipes: new PipeStock(join(dir, "pipes")) },
      { pfs: join(dir, "pfs"), inputs, signal },
    );
  const file = (path: string, text: string) => ({
    path,
    kind: "file" as const,
    content: stage.gateway.store(text),
  });

  test("a file lies at its full path, as a link to the cache that can't be written", async () => {
    const input = file("a/b c/d.txt", "text");
    await layOut({ ...from, ...input });
    const path = join(dir, "pfs/in/a/b c/d.txt");
    expect(await readFile(path, "utf8")).toBe("text");
    expect((await stat(path)).ino).toBe((await stat(cache.pathOf(input.content))).ino);
    expect((await stat(path)).mode & 0o222).toBe(0);
    expect(await readdir(join(dir, "pfs/out"))).toEqual([]);
  });

  test("an empty file needs no fetch", async () => {
    await layOut({ ...from, ...file("empty", "") });
    expect(await readFile(join(dir, "pfs/in/empty"), "utf8")).toBe("");
    expect(stage.gateway.requests).toEqual([]);
  });

  test("a directory comes whole, over several pages, with empty directories, and no more than it", async () => {
    const names = Array.from(
      { length: 250 },
      (_, i) => `dir/sub-${i % 7}/file-${String(i).padStart(3, "0")}`,
    ).sort();
    const files = [...names, "dirt", "other/x"].map((path) => ({
      path,
      kind: "file" as const,
      ...stage.gateway.store(path),
    }));
    const empty = { path: "dir/zz/", kind: "dir" as const, ...stage.gateway.store("") };
    stage.gateway.files.set(
      "c1",
      [...files, empty].sort((a, b) => (a.path < b.path ? -1 : 1)),
    );
    await layOut({ ...from, path: "dir", kind: "dir", content: null });
    expect(await filesBelow(join(dir, "pfs/in"))).toEqual(names);
    expect(await readdir(join(dir, "pfs/in/dir/zz"))).toEqual([]);
    expect(await readFile(join(dir, "pfs/in", names[99] ?? ""), "utf8")).toBe(names[99]);
  });

  test("the root comes whole, also where it is empty", async () => {
    stage.gateway.files.set("c1", [{ path: "x", kind: "file", ...stage.gateway.store("x") }]);
    stage.gateway.files.set("c2", []);
    const root = { path: "", kind: "dir" as const, content: null };
    await layOut({ ...from, ...root }, { ...from, ...root, name: "none", commit: "c2" });
    expect(await readdir(join(dir, "pfs/in"))).toEqual(["x"]);
    expect(await readdir(join(dir, "pfs/none"))).toEqual([]);
  });

  test("what is cached is not fetched again", async () => {
    const input = { ...from, ...file("a", "text") };
    await layOut(input);
    await removeTree(join(dir, "pfs"));
    await layOut(input);
    expect(stage.gateway.requests).toHaveLength(1);
  });

  test("paths that lead elsewhere are refused by name", async () => {
    for (const path of ["../../x", "a/../../x", "/etc/x", "a//b"]) {
      await expect(layOut({ ...from, ...file(path, "x") })).rejects.toThrow(JSON.stringify(path));
      await removeTree(join(dir, "pfs"));
    }
    for (const name of ["..", "out", "a/b"]) {
      await expect(layOut({ ...from, ...file("x", "x"), name })).rejects.toThrow(`input name "${name}"`);
      await removeTree(join(dir, "pfs"));
    }
  });

  test("a name that this machine can't hold fails, saying so", async () => {
    const words = "longer than this machine allows";
    const name = "n".repeat(300);
    await expect(layOut({ ...from, ...file(name, "x") })).rejects.toThrow(words);
    await removeTree(join(dir, "pfs"));
    stage.gateway.files.set("c1", [{ path: `${name}/`, kind: "dir", ...stage.gateway.store("") }]);
    await expect(layOut({ ...from, path: "", kind: "dir", content: null })).rejects.toThrow(words);
  });
});

describe("collecting outputs", () => {
  let out: string;
  beforeEach(async () => {
    out = join(dir, "out");
    await mkdir(out);
  });
  const collected = async () => (await collect({ out, signal })).sort((a, b) => (a.path < b.path ? -1 : 1));

  test("files come with their paths, digests and, when small, their bytes; empty directories end in a slash", async () => {
    await mkdir(join(out, "a/empty/deep"), { recursive: true });
    await writeFile(join(out, "a/ü.txt"), "small");
    await writeFile(join(out, "large"), "x".repeat(4097));
    await writeFile(join(out, "none"), "");
    const found = await collected();
    expect(found.map(({ path, content, bytes }) => [path, content.size, bytes?.length])).toEqual([
      ["a/empty/deep/", 0, 0],
      ["a/ü.txt", 5, 5],
      ["large", 4097, undefined],
      ["none", 0, 0],
    ]);
  });

  test("a command that wrote nothing has no outputs", async () => {
    expect(await collected()).toEqual([]);
  });

  test("what is no file and no directory fails, naming it, and is not opened", async () => {
    const makers: [string, (path: string) => unknown][] = [
      ["link to a file", (path) => symlink("/etc/shadow", path)],
      ["link to a directory", (path) => symlink("/etc", path)],
      ["dangling link", (path) => symlink("/no/such", path)],
      ["pipe", (path) => execFileSync("mkfifo", [path])],
      ["socket", (path) => execFileSync("python3", ["-c", `import socket;socket.socket(1).bind("${path}")`])],
    ];
    for (const [name, make] of makers) {
      await make(join(out, name));
      await expect(collected(), name).rejects.toThrow(`output "${name}" is a symbolic link, a pipe`);
      await rm(join(out, name));
    }
  });

  test.skipIf(process.getuid?.() !== 0)("root: a device fails", async () => {
    execFileSync("mknod", [join(out, "zero"), "c", "1", "5"]);
    await expect(collected()).rejects.toThrow('"zero"');
  });

  test("names that can't be stored fail, printed so that they can be read", async () => {
    const bad: [Buffer, string][] = [
      [Buffer.from("new\nline"), "new\\nline\" can't be stored: a path must not hold control characters"],
      [Buffer.from([0x62, 0xff, 0x61]), '"b\\xffa" has a name that is not valid UTF-8'],
      [Buffer.from([0xc0, 0xaf]), "not valid UTF-8"],
    ];
    for (const [name, message] of bad) {
      const path = Buffer.concat([Buffer.from(`${out}/`), name]);
      await writeFile(path, "x");
      await expect(collected()).rejects.toThrow(message);
      await rm(path);
    }
  });

  test("a path that is too long fails, naming it", async () => {
    const deep = join(out, ...Array<string>(5).fill("d".repeat(250)));
    await mkdir(deep, { recursive: true });
    await expect(collected()).rejects.toThrow("a path must be at most 1024 bytes");
  });

  test("a byte order mark and other odd but lawful names survive", async () => {
    const names = ["\ufeffbom", " space ", "*", "%2F", "a\\b", "'\"", "emoji-😀"];
    for (const name of names) await writeFile(join(out, name), name);
    expect((await collected()).map(({ path }) => path).sort()).toEqual([...names].sort());
  });

  test("more files than a datum may write fail", REST, async () => {
    for (let i = 0; i <= MAX_OUTPUTS_PER_DATUM; i += 1) await writeFile(join(out, String(i)), "");
    await expect(collected()).rejects.toThrow(`more than ${MAX_OUTPUTS_PER_DATUM} files`);
  });

  test("permissions that the command took away keep nothing from being collected", async () => {
    await mkdir(join(out, "d"));
    await writeFile(join(out, "d/f"), "x", { mode: 0o000 });
    await chmod(join(out, "d"), 0o000);
    expect((await collected()).map(({ path }) => path)).toEqual(["d/f"]);
  });

  test("an abort ends the collecting", async () => {
    await writeFile(join(out, "f"), "x");
    await expect(collect({ out, signal: AbortSignal.abort() })).rejects.toThrow("aborted");
  });
});

describe("sending outputs", () => {
  let stage: Stage;
  let client: Client;
  beforeEach(async () => {
    stage = await Stage.open();
    client = new Client({ endpoint: stage.gateway.endpoint, ...KEY });
  });
  afterEach(async () => {
    await client.close();
    await stage.close();
  });

  const send = async () => {
    const collected = await collect({ out: join(dir, "out"), signal });
    const output = { repo: "edges", branch: "master" };
    return sendOutputs(new Gateway(client), { collected, output, lease: "lease-1", signal });
  };
  const write = async (files: Record<string, string>) => {
    await mkdir(join(dir, "out"));
    for (const [name, text] of Object.entries(files)) await writeFile(join(dir, "out", name), text);
  };

  test("small ones travel in the outcome and need no call", async () => {
    await write({ a: "one", b: "" });
    const { outputs, upload } = await send();
    expect(upload).toBeUndefined();
    expect(outputs.map(({ path, bytes }) => [path, bytes]).sort()).toEqual([
      ["a", Buffer.from("one").toString("base64")],
      ["b", ""],
    ]);
    expect(stage.gateway.requests).toEqual([]);
  });

  test("large ones are uploaded under the lease, each content once, and not where the branch has it", async () => {
    const [known, fresh] = ["k".repeat(10_000), "f".repeat(3_000_000)];
    stage.gateway.store(known);
    await write({ known, fresh, again: fresh, small: "s" });
    const { outputs, upload = "" } = await send();
    expect(stage.gateway.uploads.get(upload)).toMatchObject({ lease: "lease-1", contents: { size: 2 } });
    expect(stage.gateway.requests.filter((request) => request.startsWith("PUT"))).toHaveLength(1);
    expect(outputs.filter(({ bytes }) => bytes !== undefined).map(({ path }) => path)).toEqual(["small"]);
  });

  test("many small ones together are sent beforehand, so that the outcome stays small", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 1500 }, (_, i) => [`f${i}`, `${i}`.padEnd(1000, "x")]),
    );
    await write(files);
    const { outputs, upload = "" } = await send();
    const carried = outputs.filter(({ bytes }) => bytes !== undefined);
    expect(carried.reduce((sum, { size }) => sum + size, 0)).toBeLessThanOrEqual(INLINE_BUDGET_BYTES);
    expect(stage.gateway.uploads.get(upload)?.contents.size).toBe(1500 - carried.length);
    expect(stage.gateway.requests.length).toBeLessThan(10);
  });

  test("an upload that breaks off is sent again from its start", async () => {
    await write({ large: "x".repeat(2_000_000) });
    let breaks = 2;
    stage.gateway.before = ({ method }) => {
      if (method === "PUT" && breaks-- > 0) throw new Error("cut");
    };
    const { upload = "" } = await send();
    expect(stage.gateway.uploads.get(upload)?.contents.size).toBe(1);
  });

  test("those that are too large for one body go in parts, each tried again by itself", async () => {
    stage.gateway.partBytes = 2 * MIB;
    const bytes = randomBytes(9 * MIB + 17);
    await mkdir(join(dir, "out"));
    await writeFile(join(dir, "out", "large"), bytes);
    let breaks = 2;
    let longest = 0;
    stage.gateway.before = ({ method, body }) => {
      if (method !== "PUT") return;
      longest = Math.max(longest, body.length);
      if (breaks-- > 0) throw new Error("cut");
    };
    const { outputs, upload = "" } = await send();
    const [output] = outputs;
    const name = output && contentName(output);
    expect(stage.gateway.uploads.get(upload)?.contents).toContain(name);
    expect(stage.gateway.contents.get(name ?? "")?.equals(bytes)).toBe(true);
    expect(longest).toBe(2 * MIB);
    expect(stage.gateway.requests.filter((request) => request.startsWith("PUT"))).toHaveLength(5 + 2);
  });

  test("one that is no larger than a part goes in one body", async () => {
    const bytes = randomBytes(9 * MIB);
    await mkdir(join(dir, "out"));
    await writeFile(join(dir, "out", "large"), bytes);
    await send();
    expect(stage.gateway.requests.filter((request) => /^PUT|compose/.test(request))).toHaveLength(1);
  });
});

describe("the parts of a content", () => {
  test.each([
    [65 * MIB, [64 * MIB, MIB]],
    [128 * MIB, [64 * MIB, 64 * MIB]],
    [128 * MIB + 4096, [64 * MIB, 63 * MIB, MIB + 4096]],
    [64 * MIB + 1, [63 * MIB, MIB + 1]],
    [64 * MIB + 4097, [64 * MIB, 4097]],
  ])("of %i bytes are whole MiB, and none is so small that it would be kept in a row", (size, lengths) => {
    const ranges = partRanges(size, 64 * MIB);
    expect(ranges.map(({ length }) => length)).toEqual(lengths);
    expect(ranges.map(({ offset }) => offset)).toEqual(
      lengths.map((_, index) => lengths.slice(0, index).reduce((sum, length) => sum + length, 0)),
    );
  });

  test("are put together in several steps if they are too many for one call", async () => {
    const asked: number[] = [];
    const content = { digest: "d".repeat(64), size: (2 * 512 + 1) * 2 * MIB };
    await sendInParts(
      { content, partBytes: 2 * MIB },
      {
        send: async ({ offset, length }) => ({ digest: String(offset), size: length }),
        compose: async ({ parts, content: expected }) => {
          asked.push(parts.length);
          return expected ?? { digest: "group", size: parts.reduce((sum, { size }) => sum + size, 0) };
        },
      },
    );
    expect(asked).toEqual([512, 512, 3]);
  });
});

describe("clearing up", () => {
  test("follows no link, and minds neither odd names nor modes", async () => {
    const kept = join(dir, "kept");
    await mkdir(kept);
    await writeFile(join(kept, "file"), "x");
    const gone = join(dir, "gone");
    await mkdir(join(gone, "closed/inner"), { recursive: true });
    await symlink(kept, join(gone, "link"));
    await writeFile(Buffer.concat([Buffer.from(`${gone}/`), Buffer.from([0xff, 0x0a])]), "x");
    execFileSync("mkfifo", [join(gone, "pipe")]);
    await chmod(join(gone, "closed"), 0o000);
    await removeTree(gone);
    expect(await readdir(dir)).toEqual(["kept"]);
    expect(await readdir(kept)).toEqual(["file"]);
  });

  test("does nothing if the folder is gone", async () => {
    await removeTree(join(dir, "never"));
  });
});

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
}
