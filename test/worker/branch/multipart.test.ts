import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Content } from "../../../worker/blobs/content.ts";
import type { Branch } from "../../../worker/branch/branch.ts";
import { REST } from "../../support/suite.ts";
import {
  type BranchStub,
  begin,
  branchOf,
  chunked,
  completion,
  DAY_MS,
  finished,
  freshBranch,
  freshBucket,
  inline,
  inObject,
  joined,
  ledgerOf,
  listed,
  put,
  stage,
  startOpenCommit,
} from "./support.ts";

const REFUSED = { ok: false, reason: "no-such-upload" };
const WANTED = { algorithm: "CRC32", type: "COMPOSITE" } as const;

/** A part with a blob of its own. */
function part(name: string): Content {
  return chunked(name, [`b/${name}`]);
}

async function add(
  branch: BranchStub,
  { upload, parts }: { upload: string; parts: Record<number, Content> },
) {
  for (const [number, content] of Object.entries(parts)) {
    expect(await branch.multipart.addPart({ upload, number: Number(number), content })).toEqual({ ok: true });
  }
}

async function numbers(branch: BranchStub, upload: string): Promise<number[]> {
  const page = await branch.multipart.parts({ upload, after: 0, limit: 1000 });
  if (!page.ok) throw new Error(page.reason);
  return page.parts.map(({ number }) => number);
}

describe("a multipart upload into an open commit", () => {
  test.each<[string, (branch: BranchStub, openCommit: string) => Promise<unknown>]>([
    ["is finished", (branch, openCommit) => finished(branch, openCommit)],
    ["is aborted", (branch, openCommit) => branch.openCommits.abort({ openCommit })],
    [
      "runs out",
      async (branch) => {
        await runInDurableObject(branch, (object: Branch, { storage: { sql } }) => {
          sql.exec("UPDATE open_commits SET due = 1");
          return object.alarm();
        });
      },
    ],
  ])("ends when that %s, and gives back what it holds", async (_, end) => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    await stage(branch, openCommit, { puts: ["staged"] });
    const [into, beside] = [await begin(branch, { openCommit }), await begin(branch)];
    for (const upload of [into, beside]) await add(branch, { upload, parts: { 1: part("one") } });
    await add(branch, { upload: into, parts: { 2: part("two") } });
    await end(branch, openCommit);
    const upload = into;
    const content = part("three");
    expect(await branch.multipart.status({ upload })).toEqual(REFUSED);
    expect(await branch.multipart.addPart({ upload, number: 3, content })).toEqual(REFUSED);
    expect(await branch.multipart.parts({ upload, after: 0, limit: 1 })).toEqual(REFUSED);
    expect(await branch.multipart.complete(completion(upload, { 1: part("one") }))).toEqual(REFUSED);
    expect(await branch.multipart.list({ prefix: "", limit: 9, openCommit })).toMatchObject({ uploads: [] });
    expect(await numbers(branch, beside)).toEqual([1]);
    await expect.poll(async () => (await ledgerOf(branch)).uploads).toBe(1);
    expect(await ledgerOf(branch)).toMatchObject({ holds: 1, blobs: [["b/one", 1]] });
  });

  test("stays while that is applied, and is there if it can't be", async () => {
    const branch = await freshBranch();
    const openCommit = await startOpenCommit(branch);
    const upload = await begin(branch, { openCommit });
    await add(branch, { upload, parts: { 1: part("one") } });
    await runInDurableObject(
      branch,
      (_, { storage: { sql } }) => void sql.exec("UPDATE open_commits SET state = 1"),
    );
    expect(await numbers(branch, upload)).toEqual([1]);
    await runInDurableObject(
      branch,
      (_, { storage: { sql } }) => void sql.exec("UPDATE open_commits SET state = 0"),
    );
    expect(await branch.multipart.complete(completion(upload, { 1: part("one") }))).toMatchObject({
      ok: true,
    });
  });
});

describe("beginning a multipart upload", () => {
  test("its id is that of an upload, and what was said comes back", async () => {
    const bucket = freshBucket();
    const branch = await freshBranch(bucket);
    const attributes = { contentType: "video/mp4", metadata: { a: "1" }, cacheControl: "no-store" };
    const opened = await branch.multipart.create({
      path: "a/b",
      attributes,
      checksum: WANTED,
      ttlMs: DAY_MS,
    });
    if (!opened.ok) throw new Error(opened.reason);
    const { upload, uid } = opened;
    expect(upload.startsWith(`${bucket}.`)).toBe(true);
    expect(await branch.multipart.status({ upload })).toEqual({
      ok: true,
      path: "a/b",
      uid,
      attributes,
      checksum: WANTED,
      initiatedAt: expect.any(Number),
      progress: null,
      completed: null,
    });
    expect(await branch.uploads.renew({ upload })).toEqual({ ok: true, upload, uid });
  });

  test.each([
    ["", "empty"],
    ["a//b", "empty-segment"],
    ["a/./b", "dot-segment"],
    ["a/", "directory-with-bytes"],
  ])("the path %j is refused at once as %s", async (path, fault) => {
    const branch = await freshBranch();
    expect(await branch.multipart.create({ path, attributes: {}, ttlMs: DAY_MS })).toEqual({
      ok: false,
      reason: "bad-path",
      path,
      fault,
    });
  });

  test("a branch that is not there, and a pipeline's output, are refused", async () => {
    const request = { path: "a", attributes: {}, ttlMs: DAY_MS };
    const absent = branchOf(freshBucket());
    expect(await absent.multipart.create(request)).toEqual({ ok: false, reason: "no-such-branch" });
    const output = branchOf(freshBucket());
    await output.output.claim({ pipeline: "p", uid: "u" });
    expect(await output.multipart.create(request)).toEqual({ ok: false, reason: "pipeline-output" });
  });

  test("a name that was never created answers that there is no upload, and leaves no trace", async () => {
    const branch = branchOf(freshBucket());
    const upload = "x";
    const content = part("p");
    for (const answer of [
      await branch.multipart.status({ upload }),
      await branch.multipart.addPart({ upload, number: 1, content }),
      await branch.multipart.parts({ upload, after: 0, limit: 1 }),
      await branch.multipart.bodies({ upload, numbers: [1] }),
      await branch.multipart.saveProgress({ upload, progress: "" }),
      await branch.multipart.abort({ upload }),
    ]) {
      expect(answer).toEqual(REFUSED);
    }
    const noBranch = { ok: false, reason: "no-such-branch" };
    expect(await branch.multipart.complete(completion(upload, { 1: content }))).toEqual(noBranch);
    expect(await branch.multipart.list({ prefix: "", limit: 1 })).toEqual(noBranch);
    expect(await branch.files.versions({ prefix: "", limit: 1 })).toEqual(noBranch);
  });
});

describe("parts", () => {
  test("come in any order and at the same time, and are listed by number in pages", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { checksum: WANTED });
    const order = [7, 3, 10_000, 1, 5];
    await Promise.all(
      order.map((number) =>
        branch.multipart.addPart({ upload, number, content: part(`p${number}`), checksum: `c${number}` }),
      ),
    );
    const first = await branch.multipart.parts({ upload, after: 0, limit: 3 });
    expect(first).toMatchObject({ ok: true, path: "big", checksum: WANTED, truncated: true });
    if (!first.ok) throw new Error(first.reason);
    expect(first.parts.map(({ number, checksum }) => [number, checksum])).toEqual([
      [1, "c1"],
      [3, "c3"],
      [5, "c5"],
    ]);
    const { digest, size } = part("p7");
    expect(await branch.multipart.parts({ upload, after: 5, limit: 3 })).toMatchObject({
      truncated: false,
      parts: [{ number: 7, digest, size, modifiedAt: expect.any(Number) }, { number: 10_000 }],
    });
  });

  test("a part that comes again replaces the one that was there, whose blobs are condemned", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await add(branch, { upload, parts: { 1: part("old") } });
    await add(branch, { upload, parts: { 1: part("newer") } });
    expect(await numbers(branch, upload)).toEqual([1]);
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [[5, 1]],
      blobs: [["b/newer", 1]],
      condemned: ["b/old"],
      holds: 1,
    });
  });

  test("a replaced part's content stays while another part has it, and goes with the last one", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await add(branch, { upload, parts: { 1: part("same"), 2: chunked("same", ["b/again"]) } });
    await add(branch, { upload, parts: { 1: part("one") } });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/again"], holds: 2 });
    await add(branch, { upload, parts: { 2: part("two") } });
    expect(await ledgerOf(branch)).toMatchObject({
      blobs: [
        ["b/one", 1],
        ["b/two", 1],
      ],
      condemned: ["b/again", "b/same"],
      holds: 2,
    });
  });

  test("the same part sent twice keeps the first one's blobs", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await add(branch, { upload, parts: { 1: part("same") } });
    await add(branch, { upload, parts: { 1: chunked("same", ["b/again"]) } });
    expect(await ledgerOf(branch)).toMatchObject({
      refs: [[4, 1]],
      blobs: [["b/same", 1]],
      condemned: ["b/again"],
      holds: 1,
    });
  });

  test("a part whose bytes the branch has in a row takes them out of it, so that its blob is what is counted", async () => {
    const branch = await freshBranch();
    await put(branch, "small", "same");
    const upload = await begin(branch);
    const [first, last] = [part("first"), part("same")];
    await add(branch, { upload, parts: { 1: first, 2: last } });
    const bodies = await branch.multipart.bodies({ upload, numbers: [2] });
    expect(bodies).toMatchObject({ parts: [{ number: 2, body: { kind: "chunks" } }] });
    await branch.multipart.complete(completion(upload, { 1: first, 2: last }));
    await branch.files.commit({ operations: [{ delete: "small" }] });
    expect(await ledgerOf(branch)).toMatchObject({
      blobs: [
        ["b/first", 1],
        ["b/same", 1],
      ],
      condemned: [],
    });
    expect(await branch.files.read({ path: "small" })).toMatchObject({ reason: "no-such-file" });
  });

  test("a part copied from a file keeps the file's content, also when the file's upload is long gone", async () => {
    const branch = await freshBranch();
    const source = part("source");
    const { upload: first } = (await branch.uploads.open({})) as { upload: string };
    await branch.files.put({ path: "a", content: source, attributes: {}, upload: first });
    const upload = await begin(branch);
    const copy = { ...joined([source]), digest: "c".repeat(64) };
    await add(branch, { upload, parts: { 1: copy } });
    expect(await ledgerOf(branch)).toMatchObject({
      blobs: [["b/source", 1]],
      refs: [
        [6, 2],
        [6, 1],
      ],
    });
    await branch.multipart.abort({ upload });
    expect(await ledgerOf(branch)).toMatchObject({ blobs: [["b/source", 1]], refs: [[6, 1]], condemned: [] });
  });

  test("a part that is to keep a content which the branch does not have is refused, and nothing stays of it", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const content = joined([part("nowhere")]);
    expect(await branch.multipart.addPart({ upload, number: 1, content })).toEqual({
      ok: false,
      reason: "no-such-content",
    });
    const file = { path: "a", content, attributes: {} };
    expect(await branch.files.put(file)).toEqual({ ok: false, reason: "no-such-content", path: "a" });
    expect(await numbers(branch, upload)).toEqual([]);
    expect(await ledgerOf(branch)).toMatchObject({ refs: [], holds: 0 });
  });

  test("a part that went and came again in other blobs is not the one that was read", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const [one, two] = [part("one"), part("two")];
    await add(branch, { upload, parts: { 1: one, 2: two } });
    const read = await branch.multipart.bodies({ upload, numbers: [1, 2] });
    if (!read.ok) throw new Error(read.reason);
    const lives = read.parts.map(({ digest, size, life }) => ({ digest, size, life }));
    await add(branch, { upload, parts: { 1: part("other") } });
    await add(branch, { upload, parts: { 1: chunked("one", ["b/again"]) } });
    const named = completion(upload, { 1: one, 2: two });
    const request = { ...named, content: { ...named.content, keeps: lives } };
    expect(await branch.multipart.complete(request)).toEqual({ ok: false, reason: "part-changed" });
    const copy = { ...joined([one]), digest: "c".repeat(64), keeps: lives.slice(0, 1) };
    const third = { upload, number: 3, content: copy };
    expect(await branch.multipart.addPart(third)).toEqual({ ok: false, reason: "no-such-content" });
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/one", "b/other"] });
  });

  test("bodies come in the order asked, without those that are not there", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await add(branch, { upload, parts: { 1: part("one"), 2: part("two"), 3: part("three") } });
    const answer = await branch.multipart.bodies({ upload, numbers: [3, 9, 1] });
    const { digest, size, body } = part("three");
    expect(answer).toMatchObject({ ok: true, parts: [{ number: 3, digest, size, body }, { number: 1 }] });
  });

  test("bodies come in answers well below what one call carries, each with at least one", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const leaves = "x".repeat(1_500_000);
    for (let number = 1; number <= 8; number++) {
      const content = part(`p${number}`);
      const chunks = [{ blob: `b/${number}`, offset: 0, length: 2, leaves }];
      await add(branch, { upload, parts: { [number]: { ...content, body: { kind: "chunks", chunks } } } });
    }
    const asked = [1, 2, 3, 4, 5, 6, 7, 8];
    const seen: number[] = [];
    const answers: number[] = [];
    while (seen.length < asked.length) {
      const answer = await branch.multipart.bodies({ upload, numbers: asked.slice(seen.length) });
      if (!answer.ok) throw new Error(answer.reason);
      answers.push(answer.parts.length);
      seen.push(...answer.parts.map(({ number }) => number));
    }
    expect(seen).toEqual(asked);
    expect(answers).toEqual([5, 3]);
  });

  test("an upload of parts takes no contents and no reservations, and no put or commit closes it", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    expect(await branch.uploads.add({ upload, contents: [inline("x")] })).toEqual(REFUSED);
    expect(await branch.uploads.reserve({ upload, contents: [] })).toEqual(REFUSED);
    expect(await branch.files.put({ path: "a", content: inline("x"), attributes: {}, upload })).toEqual(
      REFUSED,
    );
    expect(await branch.files.commit({ operations: [{ delete: "a" }], upload })).toEqual(REFUSED);
    expect(await numbers(branch, upload)).toEqual([]);
  });
});

describe("completing", () => {
  test("makes the object of the parts named, with what was said at first and at the end, in one commit", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { attributes: { contentType: "a/b", metadata: { k: "v" } } });
    const [one, two, unused] = [part("one"), part("two"), part("unused")];
    await add(branch, { upload, parts: { 1: one, 2: unused, 3: two } });
    const request = completion(upload, { 1: one, 3: two }, "b/manifest");
    const checksum = { algorithm: "CRC32", type: "COMPOSITE", value: "AAAA-2" } as const;
    const parts = { sizes: [[3, 2]], checksums: ["x", "y"] } as const;
    const completed = await branch.multipart.complete({ ...request, attributes: { checksum, parts } });
    const { digest, size } = request.content;
    expect(completed).toEqual({ ok: true, path: "big", digest, size, commit: expect.any(String), checksum });
    expect(await branch.files.read({ path: "big" })).toMatchObject({
      digest,
      size,
      attributes: { contentType: "a/b", metadata: { k: "v" }, checksum, parts },
      body: request.content.body,
      commit: completed.ok && completed.commit,
    });
    expect(await ledgerOf(branch)).toEqual({
      refs: [
        [3, 1],
        [3, 1],
        [6, 1],
      ],
      blobs: [
        ["b/manifest", 1],
        ["b/one", 1],
        ["b/two", 1],
      ],
      condemned: ["b/unused"],
      holds: 0,
      uploads: 0,
    });
    expect(await branch.multipart.parts({ upload, after: 0, limit: 1 })).toEqual(REFUSED);
    expect(await branch.multipart.addPart({ upload, number: 1, content: one })).toEqual(REFUSED);
    expect(await branch.multipart.abort({ upload })).toEqual(REFUSED);
    expect(await branch.lifecycle.status()).toMatchObject({ head: completed.ok && completed.commit });
  });

  test("again, also after a restart, answers the same and makes no other commit", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { checksum: WANTED });
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    const request = completion(upload, { 1: one });
    const first = await branch.multipart.complete(request);
    await put(branch, "big", "overwritten since");
    const { head } = (await branch.lifecycle.status()) as { head: string };
    expect(await branch.multipart.complete(request)).toEqual(first);
    await evictDurableObject(branch);
    expect(await branch.multipart.complete(request)).toEqual(first);
    expect(await branch.multipart.status({ upload })).toMatchObject({
      path: "big",
      checksum: WANTED,
      completed: first,
    });
    expect(await branch.lifecycle.status()).toMatchObject({ head });
  });

  test("again with other parts is refused", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const [one, two] = [part("one"), part("two")];
    await add(branch, { upload, parts: { 1: one, 2: two } });
    await branch.multipart.complete(completion(upload, { 1: one }));
    expect(await branch.multipart.complete(completion(upload, { 1: one, 2: two }))).toEqual(REFUSED);
  });

  test("with a part that is missing, changed, or kept though it is nowhere is refused, and the upload stays", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const [one, two] = [part("one"), part("two")];
    await add(branch, { upload, parts: { 1: one, 2: two } });
    const changed = { ok: false, reason: "part-changed" };
    expect(await branch.multipart.complete(completion(upload, { 1: one, 3: two }))).toEqual(changed);
    expect(await branch.multipart.complete(completion(upload, { 1: two, 2: two }))).toEqual(changed);
    const keeping = { ...completion(upload, { 1: one }), content: joined([one, part("nowhere")]) };
    expect(await branch.multipart.complete(keeping)).toEqual(changed);
    expect(await numbers(branch, upload)).toEqual([1, 2]);
    expect(await branch.multipart.complete(completion(upload, { 1: one, 2: two }))).toMatchObject({
      ok: true,
    });
  });

  test("is refused if a file has come in the way meanwhile, and the upload stays", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch, { path: "a/b" });
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    await put(branch, "a");
    const request = completion(upload, { 1: one });
    const conflict = { ok: false, reason: "path-conflict", path: "a/b", other: "a" };
    expect(await branch.multipart.complete(request)).toEqual(conflict);
    await branch.files.commit({ operations: [{ delete: "a" }] });
    expect(await branch.multipart.complete(request)).toMatchObject({ ok: true, path: "a/b" });
  });

  test("asks its condition of what is there then", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    await put(branch, "big", "there");
    const request = completion(upload, { 1: one });
    const failed = { ok: false, reason: "condition-failed", path: "big" };
    expect(await branch.multipart.complete({ ...request, condition: { noneMatch: "any" } })).toEqual(failed);
    const { digest, size } = inline("there");
    const condition = { match: [{ digest, size }] };
    expect(await branch.multipart.complete({ ...request, condition })).toMatchObject({ ok: true });
  });

  test("an object that the key has already makes no commit, and what was brought for it is condemned", async () => {
    const branch = await freshBranch();
    const one = chunked("one", ["b/first"]);
    for (const [round, manifest] of ["b/m1", "b/m2"].entries()) {
      const upload = await begin(branch);
      await add(branch, { upload, parts: { 1: one } });
      const completed = await branch.multipart.complete(completion(upload, { 1: one }, manifest));
      expect(completed).toMatchObject({ ok: true, commit: round === 0 ? expect.any(String) : null });
    }
    expect(await ledgerOf(branch)).toMatchObject({ condemned: ["b/m2"], holds: 0, uploads: 0 });
  });

  test("an object whose content is there under another key refers to that one, and needs its own parts no more", async () => {
    const branch = await freshBranch();
    const [one, same] = [chunked("one", ["b/first"]), chunked("two", ["b/second"])];
    const uploads = [await begin(branch, { path: "x" }), await begin(branch, { path: "y" })];
    await add(branch, { upload: uploads[0] ?? "", parts: { 1: one } });
    await add(branch, { upload: uploads[1] ?? "", parts: { 1: same } });
    const first = completion(uploads[0] ?? "", { 1: one }, "b/m1");
    await branch.multipart.complete(first);
    const second = completion(uploads[1] ?? "", { 1: same }, "b/m2");
    const { digest, size } = first.content;
    await branch.multipart.complete({ ...second, content: { ...second.content, digest, size } });
    expect(await branch.files.read({ path: "y" })).toMatchObject({ digest, body: first.content.body });
    expect(await ledgerOf(branch)).toMatchObject({
      blobs: [
        ["b/first", 1],
        ["b/m1", 1],
      ],
      condemned: ["b/m2", "b/second"],
    });
  });

  test("an object of one part is that part's content", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    const { digest, size } = one;
    const content = { ...one, keeps: [{ digest, size }] };
    await branch.multipart.complete({ ...completion(upload, { 1: one }), content });
    expect(await ledgerOf(branch)).toMatchObject({ refs: [[3, 1]], blobs: [["b/one", 1]], condemned: [] });
    expect(await branch.files.read({ path: "big" })).toMatchObject({ body: one.body });
  });

  test("10,000 parts become one object, and nothing else stays of the upload", {
    ...REST,
    timeout: 60_000,
  }, async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const parts: Record<number, Content> = {};
    for (let number = 1; number <= 10_000; number++) parts[number] = part(`p${number}`);
    await inObject(branch, async (object) => {
      for (const [number, content] of Object.entries(parts)) {
        await object.multipart.addPart({ upload, number: Number(number), content });
      }
    });
    const completed = await branch.multipart.complete(completion(upload, parts, "b/manifest"));
    expect(completed).toMatchObject({ ok: true });
    // What the upload held is given up in slices.
    const held = async () => {
      await runDurableObjectAlarm(branch);
      return (await ledgerOf(branch)).holds;
    };
    await expect.poll(held, { timeout: 30_000 }).toBe(0);
    const { refs, blobs, ...rest } = await ledgerOf(branch);
    expect(refs.every(([, count]) => count === 1)).toBe(true);
    expect(blobs).toHaveLength(10_001);
    expect(rest).toEqual({ condemned: [], holds: 0, uploads: 0 });
    expect(await listed(branch)).toEqual(["big"]);
  });
});

describe("races", () => {
  test("of two completions at once both are answered the same, by one commit", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    const request = completion(upload, { 1: one });
    const [a, b] = await Promise.all([
      branch.multipart.complete(request),
      branch.multipart.complete(request),
    ]);
    expect(a).toMatchObject({ ok: true, commit: expect.any(String) });
    expect(b).toEqual(a);
    expect((await branch.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 10 })).events).toHaveLength(1);
  });

  test("of two completions that each brought a list of the chunks, the list of the later one is condemned", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    const first = completion(upload, { 1: one }, "b/m1");
    const completed = await branch.multipart.complete(first);
    expect(await branch.multipart.complete(completion(upload, { 1: one }, "b/m2"))).toEqual(completed);
    // One that is only asked again, because its answer got lost, takes nothing away.
    expect(await branch.multipart.complete(first)).toEqual(completed);
    expect(await ledgerOf(branch)).toMatchObject({
      blobs: [
        ["b/m1", 1],
        ["b/one", 1],
      ],
      condemned: ["b/m2"],
    });
  });

  test("a completion and an abort at once: one of them wins", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    const [completed, aborted] = await Promise.all([
      branch.multipart.complete(completion(upload, { 1: one })),
      branch.multipart.abort({ upload }),
    ]);
    expect(completed.ok).not.toBe(aborted.ok);
    expect(await listed(branch)).toEqual(completed.ok ? ["big"] : []);
  });

  test("a part that is replaced while its upload completes is either in the object or refused", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    const one = part("one");
    await add(branch, { upload, parts: { 1: one } });
    const [replaced, completed] = await Promise.all([
      branch.multipart.addPart({ upload, number: 1, content: part("other") }),
      branch.multipart.complete(completion(upload, { 1: one })),
    ]);
    expect(replaced.ok).not.toBe(completed.ok);
    const there = (await ledgerOf(branch)).blobs.map(([name]) => name);
    expect(there).toEqual(replaced.ok ? ["b/other"] : ["b/one"]);
  });

  test("of several completions of one key the last commit is what stays", async () => {
    const branch = await freshBranch();
    const uploads = await Promise.all(Array.from({ length: 5 }, () => begin(branch)));
    await Promise.all(
      uploads.map((upload, n) => branch.multipart.addPart({ upload, number: 1, content: part(`p${n}`) })),
    );
    const completed = await Promise.all(
      uploads.map((upload, n) => branch.multipart.complete(completion(upload, { 1: part(`p${n}`) }))),
    );
    const { head } = (await branch.lifecycle.status()) as { head: string };
    const last = completed.find((answer) => answer.ok && answer.commit === head);
    expect(await branch.files.read({ path: "big" })).toMatchObject({ digest: last?.ok && last.digest });
  });
});

describe("aborting", () => {
  test("forgets the parts, condemns their blobs, and is refused the second time", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await add(branch, { upload, parts: { 1: part("one"), 2: part("two") } });
    expect(await branch.multipart.abort({ upload })).toEqual({ ok: true });
    expect(await ledgerOf(branch)).toEqual({
      refs: [],
      blobs: [],
      condemned: ["b/one", "b/two"],
      holds: 0,
      uploads: 0,
    });
    expect(await branch.multipart.abort({ upload })).toEqual(REFUSED);
    expect(await branch.multipart.status({ upload })).toEqual(REFUSED);
  });

  test("abortUpload ends it, too", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await branch.uploads.abort({ upload });
    expect(await branch.multipart.status({ upload })).toEqual(REFUSED);
    expect(await branch.multipart.list({ prefix: "", limit: 10 })).toMatchObject({ uploads: [] });
  });

  test("progress is kept over a restart, and goes with the upload", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    expect(await branch.multipart.saveProgress({ upload, progress: "half" })).toEqual({ ok: true });
    await evictDurableObject(branch);
    expect(await branch.multipart.status({ upload })).toMatchObject({ progress: "half" });
    await branch.multipart.abort({ upload });
    expect(await branch.multipart.saveProgress({ upload, progress: "more" })).toEqual(REFUSED);
  });
});

describe("listing multipart uploads", () => {
  async function paged(branch: BranchStub, prefix: string): Promise<string[]> {
    const found: string[] = [];
    let after: { path: string; upload: string } | undefined;
    for (let more = true; more; ) {
      const page = await branch.multipart.list({ prefix, limit: 2, ...(after && { after }) });
      if (!page.ok) throw new Error(page.reason);
      found.push(...page.uploads.map(({ upload }) => upload));
      after = page.uploads.at(-1);
      more = page.truncated;
    }
    return found;
  }

  test("is by path in byte order, then by id, page by page", async () => {
    const branch = await freshBranch();
    const paths = ["b", "a/2", "\u{1F600}", "a/1", "\uFFFD", "b", "a-", "b"];
    const uploads: { path: string; upload: string }[] = [];
    for (const path of paths) uploads.push({ path, upload: await begin(branch, { path }) });
    const of = (...wanted: string[]) =>
      wanted.flatMap((path) => uploads.filter((one) => one.path === path).map(({ upload }) => upload));
    expect(await paged(branch, "")).toEqual(of("a-", "a/1", "a/2", "b", "\uFFFD", "\u{1F600}"));
    expect(await paged(branch, "a/")).toEqual(of("a/1", "a/2"));
    expect(await paged(branch, "c")).toEqual([]);
    expect(await branch.multipart.list({ prefix: "", limit: 9, after: { path: "b" } })).toMatchObject({
      uploads: [{ path: "\uFFFD" }, { path: "\u{1F600}" }],
    });
    expect(await branch.multipart.list({ prefix: "a/", limit: 1, after: { path: "a" } })).toMatchObject({
      uploads: [{ path: "a/1", checksum: null, initiatedAt: expect.any(Number) }],
      truncated: true,
    });
  });

  test("knows those of the branch as it is now, not of one that was deleted", async () => {
    const branch = await freshBranch();
    const upload = await begin(branch);
    await branch.lifecycle.destroy();
    expect(await branch.multipart.list({ prefix: "", limit: 9 })).toEqual({
      ok: false,
      reason: "no-such-branch",
    });
    await branch.lifecycle.create();
    expect(await branch.multipart.list({ prefix: "", limit: 9 })).toMatchObject({ uploads: [] });
    expect(await branch.multipart.status({ upload })).toEqual(REFUSED);
    const one = part("one");
    expect(await branch.multipart.addPart({ upload, number: 1, content: one })).toEqual(REFUSED);
    expect(await branch.multipart.complete(completion(upload, { 1: one }))).toEqual(REFUSED);
  });
});
