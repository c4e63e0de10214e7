import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { R2BlobStore } from "../../../../worker/blobs/stores.ts";
import {
  NAMELESS_GRACE_MS,
  READERS_GRACE_MS,
} from "../../../../worker/branch/contents/pending-deletion-store.ts";
import { REST, sampled } from "../../../support/suite.ts";
import { good as api, failed } from "../../api/support.ts";
import { crashAt, restarted } from "../../branch/large-support.ts";
import { branchOf } from "../../branch/support.ts";
import { openAgain } from "../open-commits/support.ts";
import { failure, good, s3, withManifestBound } from "../support.ts";
import {
  begin,
  bytes,
  complete,
  completed,
  expectedEtag,
  MIB,
  part,
  SMALLEST,
  sha256,
  type Upload,
} from "./support.ts";

const QUICK = { tags: [] };

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

let repo = "";
let bucket = "";
let buckets = 0;

beforeEach(async () => {
  repo = `given-back-${buckets++}`;
  bucket = `/master.${repo}`;
  await good(`PUT ${bucket}`);
});

afterEach(() => {
  vi.restoreAllMocks();
});

function branch() {
  return branchOf(`master.${repo}`);
}

/** The blobs of the branch that are in the store. */
async function stored(): Promise<string[]> {
  const status = await branch().lifecycle.status();
  if (!status.ok) throw new Error(status.reason);
  const { objects } = await env.BLOBS.list({ prefix: "b/" });
  return objects.map(({ key }) => key).filter((key) => key.includes(`/${status.uid}/`));
}

function alarmAt(): Promise<number | null> {
  return runInDurableObject(branch(), (_, { storage }) => storage.getAlarm());
}

/** Lets so much time pass for what is condemned and for uploads, before the alarm rings. */
async function later(ms: number): Promise<void> {
  await runInDurableObject(branch(), (_, { storage: { sql } }) => {
    for (const table of ["pending_deletions", "uploads"]) sql.exec(`UPDATE ${table} SET due = due - ?`, ms);
  });
}

/** More alarms than any test needs. Alarms one after another let no timer run: a test that waits for one would never end. */
const MAX_ALARMS = 100;

/** Lets so much time pass, and the alarm do what is due then. */
async function passed(ms: number): Promise<void> {
  await later(ms);
  for (let alarms = 0; alarms < MAX_ALARMS; alarms++) {
    const next = await runInDurableObject(branch(), (_, { storage: { sql } }) =>
      Number(sql.exec("SELECT ifnull(min(due), 9e15) AS due FROM pending_deletions").one().due),
    );
    const rang = await runDurableObjectAlarm(branch());
    if (next > Date.now()) return;
    if (!rang) throw new Error("something is due, and no alarm is set");
  }
  throw new Error(`something is still due after ${MAX_ALARMS} alarms`);
}

/** When the last condemned blob goes, counted from now; milliseconds. */
function goesIn(): Promise<number> {
  return runInDurableObject(branch(), (_, { storage: { sql } }) => {
    const { due } = sql.exec("SELECT ifnull(max(due), 0) AS due FROM pending_deletions").one();
    return Number(due) - Date.now();
  });
}

async function reads(key: string, whole: Uint8Array): Promise<void> {
  const read = new Uint8Array(await (await good(`GET ${bucket}/${key}`)).arrayBuffer());
  expect(sha256(read)).toEqual(sha256(whole));
}

/** Once what is remembered for clients that ask again is forgotten, after a day. */
async function isAtRest(): Promise<void> {
  await runInDurableObject(branch(), (_, { storage: { sql } }) => {
    for (const table of ["completions", "open_commits", "sweeps"])
      sql.exec(`UPDATE ${table} SET due = due - ?`, 2 * DAY_MS);
  });
  // An open commit that ended goes in two steps, and a sweep in a few more, which may ring by themselves.
  await expect
    .poll(async () => {
      await runDurableObjectAlarm(branch());
      return await alarmAt();
    })
    .toBeNull();
}

/** Three parts, of which one came twice and two are the same. */
async function someParts(upload: Upload): Promise<void> {
  await part(upload, 1, bytes(SMALLEST, 1));
  await part(upload, 1, bytes(SMALLEST, 2));
  await part(upload, 2, bytes(SMALLEST, 2));
  await part(upload, 3, "end");
}

describe("the bytes of parts that no file has", () => {
  test("go within a minute of the upload's abortion, and the object rests", async () => {
    const upload = await begin(`${bucket}/key`);
    await someParts(upload);
    await good(`DELETE ${upload.target}`);
    expect((await stored()).length).toBeGreaterThan(0);
    expect(await goesIn()).toBeLessThan(MINUTE_MS);
    expect((await alarmAt()) ?? Number.POSITIVE_INFINITY).toBeLessThan(Date.now() + MINUTE_MS);
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toEqual([]);
    await isAtRest();
  });

  test("go within a minute after the upload ran out", async () => {
    const upload = await begin(`${bucket}/key`);
    await someParts(upload);
    await passed(8 * DAY_MS);
    expect(await failure(s3(`GET ${upload.target}`))).toMatchObject({ status: 404 });
    expect(await goesIn()).toBeLessThan(MINUTE_MS);
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toEqual([]);
    await isAtRest();
  });

  test("go when the number is uploaded again, and when the completion leaves them out", async () => {
    const upload = await begin(`${bucket}/key`);
    const whole = [bytes(SMALLEST, 1), bytes(100, 2)] as const;
    await part(upload, 1, bytes(SMALLEST, 3));
    const first = await part(upload, 1, whole[0]);
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toHaveLength(2);
    await part(upload, 2, bytes(SMALLEST, 4));
    const last = await part(upload, 3, whole[1]);
    await completed(complete(upload, [first, last]));
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toHaveLength(3);
    await reads("key", new Uint8Array(await new Blob([...whole]).arrayBuffer()));
    await isAtRest();
  });

  test("go with an upload of the control API that is given up, or whose lease is lost", async () => {
    const opened = await branch().uploads.open({});
    if (!opened.ok) throw new Error(opened.reason);
    await env.BLOBS.put(`b/00/${opened.uid}/content.w.U`, "bytes");
    const chunks = [{ blob: `b/00/${opened.uid}/content.w.U`, offset: 0, length: 5, leaves: null }];
    const content = { digest: "0".repeat(64), size: 5, body: { kind: "chunks", chunks } } as const;
    await branch().uploads.add({ upload: opened.upload, contents: [content] });
    await branch().uploads.abort({ upload: opened.upload });
    expect(await goesIn()).toBeLessThan(MINUTE_MS);
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toEqual([]);
    await isAtRest();
  });

  test("go with the manifest that lists them, page by page", async () => {
    // A list of one chunk fits a row, one of two does not.
    const upload = await begin(`${bucket}/key`);
    await withManifestBound(500, () => part(upload, 1, bytes(9 * MIB, 1)));
    expect((await stored()).filter((name) => name.includes(".manifest."))).not.toEqual([]);
    await good(`DELETE ${upload.target}`);
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toEqual([]);
    await isAtRest();
  });
});

describe("bytes that are both a part's and a file's stay", () => {
  const SIZES = [
    ["in a row", 10, QUICK],
    ["as long as a row takes", 4096, REST],
    ["in a blob", 4097, QUICK],
    ["in several blobs", 9 * MIB, REST],
  ] as const;

  describe.each(SIZES)("%s", (_, size, suite) => {
    const whole = bytes(size, 7);

    test("if the file came first", suite, async () => {
      await good(`PUT ${bucket}/file`, { body: whole });
      const upload = await begin(`${bucket}/key`);
      await part(upload, 1, whole);
      await good(`DELETE ${upload.target}`);
      await passed(READERS_GRACE_MS);
      await reads("file", whole);
      await isAtRest();
    });

    test("if the part came first, and also if the file is gone from the newest commit", suite, async () => {
      const upload = await begin(`${bucket}/key`);
      await part(upload, 1, whole);
      const put = await good(`PUT ${bucket}/file`, { body: whole });
      await good(`DELETE ${upload.target}`);
      await passed(READERS_GRACE_MS);
      await reads("file", whole);
      await good(`DELETE ${bucket}/file`);
      await passed(READERS_GRACE_MS);
      await reads(`file?versionId=${put.headers.get("x-amz-version-id")}`, whole);
      await isAtRest();
    });

    test.each(["", `bytes=0-${size - 1}`, `bytes=1-${size - 2}`])(
      "if the part is a copy of it (%j)",
      suite,
      async (range) => {
        await good(`PUT ${bucket}/file`, { body: whole });
        const upload = await begin(`${bucket}/key`);
        const copied = {
          "x-amz-copy-source": `${bucket}/file`,
          ...(range && { "x-amz-copy-source-range": range }),
        };
        await good(`PUT ${upload.target}&partNumber=1`, { headers: copied });
        await good(`DELETE ${upload.target}`);
        await passed(READERS_GRACE_MS);
        await reads("file", whole);
        await isAtRest();
      },
    );
  });

  test("if the part is of another upload that is still open, or on its way", async () => {
    const whole = bytes(SMALLEST, 5);
    const [gone, open, late] = [
      await begin(`${bucket}/gone`),
      await begin(`${bucket}/open`),
      await begin(`${bucket}/late`),
    ];
    await part(gone, 1, whole);
    const done = await part(open, 1, whole);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const answer = good(`PUT ${late.target}&partNumber=1`, { body: readable });
    await writer.write(whole.slice(0, 4 * MIB + 1));
    await good(`DELETE ${gone.target}`);
    await passed(READERS_GRACE_MS);
    await completed(complete(open, [done]));
    await writer.write(whole.slice(4 * MIB + 1));
    await writer.close();
    const { headers } = await answer;
    await completed(complete(late, [{ number: 1, etag: headers.get("etag") ?? "" }]));
    await passed(READERS_GRACE_MS);
    for (const key of ["open", "late"]) await reads(key, whole);
    await isAtRest();
  });

  test("if an object is one part, copied from a file whose chunks a manifest lists", async () => {
    const whole = bytes(9 * MIB, 6);
    await withManifestBound(500, () => good(`PUT ${bucket}/file`, { body: whole }));
    const upload = await begin(`${bucket}/key`);
    const copied = {
      "x-amz-copy-source": `${bucket}/file`,
      "x-amz-copy-source-range": `bytes=0-${SMALLEST}`,
    };
    const text = await (await good(`PUT ${upload.target}&partNumber=1`, { headers: copied })).text();
    const [, etag = ""] = /<ETag>(?:&quot;|")(.*?)(?:&quot;|")<\/ETag>/.exec(text) ?? [];
    await completed(complete(upload, [{ number: 1, etag: `"${etag}"` }]));
    await passed(READERS_GRACE_MS);
    await reads("file", whole);
    await reads("key", whole.slice(0, SMALLEST + 1));
    await isAtRest();
  });
});

test("what the control API puts together out of parts keeps them, and goes with them if nothing names it", async () => {
  const pieces = [bytes(SMALLEST, 1), bytes(5000, 2)];
  const whole = new Uint8Array(await new Blob(pieces).arrayBuffer());
  const compose = async () => {
    const { upload } = await api("POST /uploads", { body: { repo, branch: "master" } });
    const parts = [];
    for (const body of pieces) {
      const [digest = "", size = ""] = expectedEtag(body).slice(1, -1).split("-");
      parts.push({ digest, size: Number(size) });
      await api(`PUT /uploads/${upload}/contents?digest=${digest}&size=${size}`, { body });
    }
    return { upload, parts, content: await api(`POST /uploads/${upload}/compose`, { body: { parts } }) };
  };
  const gone = await compose();
  const wrong = { parts: gone.parts, content: gone.parts[0] };
  await failed(`POST /uploads/${gone.upload}/compose`, { body: wrong });
  await branch().uploads.abort({ upload: gone.upload });
  await passed(NAMELESS_GRACE_MS);
  expect(await stored()).toEqual([]);
  const { upload, content } = await compose();
  const operations = [{ put: "file", ...content }];
  await api(`POST /repos/${repo}/branches/master/commits`, { body: { upload, operations } });
  await passed(READERS_GRACE_MS);
  await reads("file", whole);
  await isAtRest();
});

describe("bytes that had a name", () => {
  test("stay two minutes for those who read them in an open commit", async () => {
    const { bucket: open, openCommit, api } = await openAgain(repo);
    await good(`PUT ${open}/key`, { body: bytes(SMALLEST, 1) });
    await good(`PUT ${open}/key`, { body: "other" });
    expect(await goesIn()).toBeGreaterThan(MINUTE_MS);
    expect(await goesIn()).toBeLessThanOrEqual(READERS_GRACE_MS);
    await passed(MINUTE_MS);
    expect(await stored()).not.toEqual([]);
    await passed(MINUTE_MS);
    expect(await stored()).toEqual([]);
    await api.openCommits.abort({ openCommit });
    await passed(READERS_GRACE_MS);
    await isAtRest();
  });

  test("keep the parts that they are made of as long", async () => {
    const { bucket: open } = await openAgain(repo);
    const upload = await begin(`${open}/key`);
    const parts = [await part(upload, 1, bytes(SMALLEST, 1)), await part(upload, 2, "end")];
    await completed(complete(upload, parts));
    await good(`DELETE ${open}/key`);
    await passed(MINUTE_MS);
    expect(await stored()).toHaveLength(3);
    await passed(MINUTE_MS);
    expect(await stored()).toEqual([]);
  });
});

describe("a crash", () => {
  const POINTS: [what: string, statement: RegExp, ofAbort: boolean][] = [
    ["before the upload is closed", /^\s*DELETE FROM uploads/, true],
    ["before its parts are forgotten", /^\s*DELETE FROM parts/, true],
    ["before what it holds is released", /^\s*UPDATE contents SET refs = refs - released\.value/, true],
    ["before a dead content goes", /^\s*DELETE FROM contents/, true],
    ["before its blobs are condemned", /^\s*INSERT INTO pending_deletions/, true],
    [
      "before the condemned are looked up",
      /FROM pending_deletions INDEXED BY pending_deletions_by_due WHERE due <=/,
      false,
    ],
    ["before those that were deleted are forgotten", /^\s*DELETE FROM pending_deletions/, false],
  ];

  for (const [[what, statement, ofAbort], options] of sampled(POINTS, { every: 3 })) {
    test(`${what} leaves nothing behind and takes nothing that is needed`, options, async () => {
      const kept = bytes(SMALLEST, 2);
      await good(`PUT ${bucket}/file`, { body: kept });
      const upload = await begin(`${bucket}/key`);
      await someParts(upload);
      if (!ofAbort) await good(`DELETE ${upload.target}`);
      const crash = crashAt({ statement, nth: 1 });
      if (ofAbort) expect((await s3(`DELETE ${upload.target}`)).status).toBe(500);
      if (!ofAbort) {
        await later(NAMELESS_GRACE_MS);
        await runDurableObjectAlarm(branch());
      }
      await crash.reached();
      crash.resume();
      await restarted(branch());
      // An alarm that was to ring when the object died rings once it is there again.
      await runInDurableObject(branch(), (_, { storage }) => storage.setAlarm(Date.now() + DAY_MS));
      // What the crash undid is there as before: the client asks again.
      if (ofAbort) await good(`DELETE ${upload.target}`);
      await passed(READERS_GRACE_MS);
      await reads("file", kept);
      expect(await stored()).toHaveLength(2);
      await isAtRest();
    });
  }

  test("of the blob store is waited out", async () => {
    const upload = await begin(`${bucket}/key`);
    await part(upload, 1, bytes(SMALLEST, 1));
    await good(`DELETE ${upload.target}`);
    const down = vi.spyOn(R2BlobStore.prototype, "delete").mockRejectedValue(new Error("down"));
    await passed(NAMELESS_GRACE_MS);
    expect(down).toHaveBeenCalledOnce();
    expect(await stored()).not.toEqual([]);
    expect(await alarmAt()).not.toBeNull();
    down.mockRestore();
    await passed(NAMELESS_GRACE_MS);
    expect(await stored()).toEqual([]);
    await isAtRest();
  });
});
