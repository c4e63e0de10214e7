import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { ContentId } from "../../../protocol/content.ts";
import { randomBytes, referenceDigest, sameBytes } from "../blobs/reference.ts";
import {
  api,
  commitFiles,
  contentOf,
  contentPath,
  failed,
  good,
  LARGE_BYTES,
  makeBranch,
  paths,
  signedBody,
  testContext,
} from "./support.ts";

async function newBranch(repo: string): Promise<{ repo: string; branch: string; upload: string }> {
  const address = { repo, branch: "master" };
  await makeBranch(address);
  const { upload } = await good("POST /uploads", { body: address });
  return { ...address, upload };
}

describe("files by content", () => {
  test("small and large go up, become one commit, and come back", async () => {
    const { upload, ...address } = await newBranch("whole");
    const small = await contentOf("hello");
    const bytes = randomBytes(5 * 1024 * 1024 + 7, 1);
    const large = { digest: await referenceDigest(bytes), size: bytes.length };
    const both = { contents: [small.id, large] };
    expect(await good(`POST /uploads/${upload}/reserve`, { body: both })).toEqual({ missing: both.contents });

    await good(`POST /uploads/${upload}/contents`, {
      body: { contents: [{ ...small.id, bytes: small.bytes }] },
    });
    const query = `digest=${large.digest}&size=${large.size}`;
    expect(await good(`PUT /uploads/${upload}/contents?${query}`, { body: bytes })).toEqual(large);
    expect(await good(`POST /uploads/${upload}/reserve`, { body: both })).toEqual({ missing: [] });

    const operations = [
      { put: "a/small.txt", ...small.id, attributes: { contentType: "text/plain", metadata: { by: "me" } } },
      { put: "large.bin", ...large },
      { put: "empty/", ...(await contentOf("")).id },
    ];
    const commits = "/repos/whole/branches/master/commits";
    const made = await api(`POST ${commits}`, { body: { upload, operations } });
    expect(made.status).toBe(201);
    const { commit } = await made.json<{ commit: string }>();
    expect(await good(`GET ${commits}/${commit}/files`)).toEqual({
      files: [
        { path: "a/small.txt", kind: "file", ...small.id },
        { path: "empty/", kind: "dir", ...(await contentOf("")).id },
        { path: "large.bin", kind: "file", ...large },
      ],
      next: null,
    });
    const back = await api(`GET ${contentPath(address, large)}`);
    expect(back.headers.get("content-length")).toBe(String(large.size));
    expect(sameBytes(new Uint8Array(await back.arrayBuffer()), bytes)).toBe(true);
    const inline = await (await api(`GET ${contentPath(address, small.id)}`)).arrayBuffer();
    expect(new TextDecoder().decode(inline)).toBe("hello");
  });

  test("of a commit are listed folder by folder, with the time of each file's own last change", async () => {
    const address = { repo: "folders", branch: "master" };
    await makeBranch(address);
    await good("PUT /repos/folders/branches/master/last-modified", { body: { lastModified: "branch" } });
    const commits = "/repos/folders/branches/master/commits";
    const first = await commitFiles(address, { "a/b/1": "1", "a/c": "2", d: "3" });
    const second = await commitFiles(address, { "a/c": "44", "a/d": "5" });
    const { commits: log } = await good(`GET ${commits}`);
    const timeOf = (commit: string) => log.find(({ id }: { id: string }) => id === commit).createdAt;
    const page = (commit: string, query: string) => good(`GET ${commits}/${commit}/files?${query}`);
    expect(await page(second, "delimiter=/&prefix=a/&times=true")).toMatchObject({
      folders: ["a/b/"],
      files: [
        { path: "a/c", size: 2, modifiedAt: timeOf(second) },
        { path: "a/d", size: 1, modifiedAt: timeOf(second) },
      ],
      next: null,
    });
    const top = await page(second, "delimiter=/&times=true&limit=1");
    expect(top).toEqual({ folders: ["a/"], files: [], next: "a/" });
    const rest = await page(second, "delimiter=/&times=true&limit=1&after=a/");
    expect(rest).toMatchObject({
      folders: [],
      files: [{ path: "d", modifiedAt: timeOf(first) }],
      next: null,
    });
    // Who does not ask for either hears of neither.
    const plain = await page(second, "");
    expect(Object.keys(plain)).toEqual(["files", "next"]);
    expect(plain.files.some((file: object) => "modifiedAt" in file)).toBe(false);
    for (const query of ["delimiter=.", "times=yes", `since=${first}&times=true`])
      expect(await failed(`GET ${commits}/${second}/files?${query}`)).toMatchObject({ status: 400 });
  });

  test("of a commit are listed by prefix and in pages", async () => {
    const address = { repo: "pages", branch: "master" };
    await makeBranch(address);
    const commit = await commitFiles(address, { "a/1": "1", "a/2": "2", "a/3": "3", b: "4" });
    await commitFiles(address, { "a/4": "later" });
    const files = `/repos/pages/branches/master/commits/${commit}/files`;
    const names = (page: { files: { path: string }[] }) => page.files.map(({ path }) => path);
    const first = await good(`GET ${files}?prefix=a/&limit=2`);
    expect(names(first)).toEqual(["a/1", "a/2"]);
    const second = await good(`GET ${files}?prefix=a/&limit=2&after=${encodeURIComponent(first.next)}`);
    expect({ names: names(second), next: second.next }).toEqual({ names: ["a/3"], next: null });
    for (const limit of ["0", "1001", "many"])
      expect(await failed(`GET ${files}?limit=${limit}`)).toMatchObject({
        status: 400,
        issues: [{ path: "limit" }],
      });
    expect(await failed("GET /repos/pages/branches/master/commits/none/files")).toMatchObject({
      status: 404,
      code: "NoSuchCommit",
    });
    expect(await failed("GET /repos/none/branches/master/commits/none/files")).toMatchObject({ status: 404 });
  });
});

describe("a content in parts", () => {
  const MIB = 1024 * 1024;
  const put = async (upload: string, bytes: Uint8Array<ArrayBuffer>): Promise<ContentId> => {
    const id = { digest: await referenceDigest(bytes), size: bytes.length };
    const query = `digest=${id.digest}&size=${id.size}`;
    return await good(`PUT /uploads/${upload}/contents?${query}`, { body: bytes });
  };

  test("is put together from what the upload holds, and reads as a whole once the upload is over", async () => {
    const { upload, ...address } = await newBranch("parts");
    const opened = await good("POST /uploads", { body: address });
    expect(opened.partBytes).toBe(64 * MIB);
    const pieces = [
      randomBytes(5 * MIB, 1),
      randomBytes(MIB, 2),
      randomBytes(5 * MIB, 1),
      randomBytes(5000, 3),
    ];
    const whole = new Uint8Array(await new Blob(pieces).arrayBuffer());
    const content = { digest: await referenceDigest(whole), size: whole.length };
    const parts: ContentId[] = [];
    for (const piece of pieces) parts.push(await put(upload, piece));
    const ask = { body: { parts, content } };
    expect(await good(`POST /uploads/${upload}/compose`, ask)).toEqual(content);
    // An answer that was lost is asked for again.
    expect(await good(`POST /uploads/${upload}/compose`, ask)).toEqual(content);
    const operations = [{ put: "whole", ...content }];
    await good("POST /repos/parts/branches/master/commits", { body: { upload, operations } });
    const back = await api(`GET ${contentPath(address, content)}`);
    expect(sameBytes(new Uint8Array(await back.arrayBuffer()), whole)).toBe(true);
  });

  test("may be put together in several steps", async () => {
    const { upload } = await newBranch("steps");
    const pieces = [randomBytes(MIB, 1), randomBytes(MIB, 2), randomBytes(4097, 3)];
    const whole = new Uint8Array(await new Blob(pieces).arrayBuffer());
    const [first, second, last] = await Promise.all(pieces.map((piece) => put(upload, piece)));
    const group = await good(`POST /uploads/${upload}/compose`, { body: { parts: [first, second] } });
    expect(await good(`POST /uploads/${upload}/compose`, { body: { parts: [group, last] } })).toEqual({
      digest: await referenceDigest(whole),
      size: whole.length,
    });
  });

  test("is refused if its parts are none, are not there, or make up something else", async () => {
    const { upload, ...address } = await newBranch("no-parts");
    const large = await put(upload, randomBytes(MIB, 1));
    const odd = await put(upload, randomBytes(5000, 2));
    const absent = { digest: "0".repeat(64), size: MIB };
    const other = await good("POST /uploads", { body: address });
    const refused = (of: string, body: unknown) => failed(`POST /uploads/${of}/compose`, { body });
    const cases = [
      [upload, { parts: [odd, large] }, "parts[0].size"],
      [upload, { parts: [large, { ...odd, size: 4096 }] }, "parts[1].size"],
      [upload, { parts: [large] }, "parts"],
      [upload, { parts: [large, absent] }, "parts[1]"],
      [other.upload, { parts: [large, odd] }, "parts[0]"],
    ] as const;
    for (const [of, body, path] of cases) {
      expect(await refused(of, body)).toMatchObject({ status: 400, issues: [{ path }] });
    }
    const message = expect.stringContaining(`content says ${absent.digest}-${MIB}`);
    expect(await refused(upload, { parts: [large, odd], content: absent })).toMatchObject({
      status: 400,
      message,
    });
    expect(
      await refused("master.no-parts.01ARZ3NDEKTSV4RRFFQ69G5FAV", { parts: [large, odd] }),
    ).toMatchObject({
      status: 404,
      code: "NoSuchUpload",
    });
  });
});

describe("a content that is not what it says it is", () => {
  test("inside a message is refused by its path, and none of the message is kept", async () => {
    const { upload, ...address } = await newBranch("lies");
    const [honest, other] = [await contentOf("honest"), await contentOf("other")];
    const contents = [
      { ...honest.id, bytes: honest.bytes },
      { ...honest.id, bytes: other.bytes },
    ];
    const error = await failed(`POST /uploads/${upload}/contents`, { body: { contents } });
    expect(error).toMatchObject({ status: 400, issues: [{ path: "contents[1]" }] });
    expect(await failed(`GET ${contentPath(address, honest.id)}`)).toMatchObject({ status: 404 });
  });

  test("inside a message must be small and base64", async () => {
    const { upload } = await newBranch("shapes");
    const { id, bytes } = await contentOf("x".repeat(LARGE_BYTES));
    const error = await failed(`POST /uploads/${upload}/contents`, {
      body: {
        contents: [
          { ...id, bytes },
          { digest: id.digest, size: 1, bytes: "?" },
          { digest: "AB", size: -1, bytes: "" },
        ],
      },
    });
    expect(error.status).toBe(400);
    expect(paths(error)).toEqual([
      "contents[0].size",
      "contents[1].bytes",
      "contents[2].digest",
      "contents[2].size",
    ]);
  });

  test("as a body is refused, and leaves no blob: other bytes, too few, too many", async () => {
    const { upload, ...address } = await newBranch("bodies");
    for (const size of [100, LARGE_BYTES]) {
      const bytes = randomBytes(size, 1);
      const digest = await referenceDigest(bytes);
      for (const [body, said] of [
        [randomBytes(size, 2), size],
        [bytes.slice(1), size],
        [bytes, size - 1],
        [bytes, size + 1],
      ] as const) {
        const query = `digest=${digest}&size=${said}`;
        expect(await failed(`PUT /uploads/${upload}/contents?${query}`, { body })).toMatchObject({
          status: 400,
          code: "InvalidRequest",
        });
      }
      expect(await failed(`GET ${contentPath(address, { digest, size })}`)).toMatchObject({ status: 404 });
    }
    const status = await testContext().branch(address).lifecycle.status();
    const { objects } = await env.BLOBS.list({ prefix: "b/" });
    const uid = status.ok ? status.uid : "";
    expect(objects.filter(({ key }) => key.includes(`/${uid}/`))).toEqual([]);
  });

  test("as a body must have the SHA-256 that was signed", async () => {
    const { upload } = await newBranch("signed-body");
    const body = randomBytes(100, 1);
    const query = `digest=${await referenceDigest(body)}&size=100`;
    const caller = signedBody("0".repeat(64));
    expect(await failed(`PUT /uploads/${upload}/contents?${query}`, { body, caller })).toMatchObject({
      status: 400,
    });
  });

  test("is asked for by digest and size, and nothing else", async () => {
    const { upload } = await newBranch("asked");
    for (const query of [
      "",
      `digest=${"0".repeat(64)}`,
      "digest=x&size=1",
      `digest=${"0".repeat(64)}&size=-1`,
    ])
      expect(
        await failed(`PUT /uploads/${upload}/contents?${query}`, { body: new Uint8Array(1) }),
      ).toMatchObject({
        status: 400,
      });
    for (const name of ["x", "0".repeat(64), `${"0".repeat(64)}-01`])
      expect(await failed(`GET /repos/asked/branches/master/contents/${name}`)).toMatchObject({
        status: 400,
      });
    expect(await failed(`GET /repos/asked/branches/master/contents/${"0".repeat(64)}-1`)).toMatchObject({
      status: 404,
    });
  });
});

describe("an upload", () => {
  test("is opened for a branch that is there, and known by its id alone", async () => {
    expect(await failed("POST /uploads", { body: { repo: "none", branch: "master" } })).toMatchObject({
      status: 404,
      code: "NoSuchBranch",
    });
    await newBranch("known");
    const { id, bytes } = await contentOf("x");
    for (const upload of ["nonsense", "master.known.01ARZ3NDEKTSV4RRFFQ69G5FAV", "a.b.c.d"]) {
      for (const [target, body] of [
        [`POST /uploads/${upload}/reserve`, { contents: [id] }],
        [`POST /uploads/${upload}/contents`, { contents: [{ ...id, bytes }] }],
        [`PUT /uploads/${upload}/contents?digest=${id.digest}&size=1`, new Uint8Array(1)],
      ] as const)
        expect(await failed(target, { body })).toMatchObject({ status: 404, code: "NoSuchUpload" });
    }
  });
});

describe("a commit", () => {
  const commits = (repo: string) => `POST /repos/${repo}/branches/master/commits`;

  test("puts and deletes at once, closes its upload, and is null where nothing changes", async () => {
    const address = { repo: "edit", branch: "master" };
    await makeBranch(address);
    await commitFiles(address, { old: "1", kept: "2" });
    const { upload } = await good("POST /uploads", { body: address });
    const { id, bytes } = await contentOf("3");
    await good(`POST /uploads/${upload}/contents`, { body: { contents: [{ ...id, bytes }] } });
    const operations = [{ delete: "old" }, { put: "new", ...id }];
    const { commit } = await good(commits("edit"), { body: { upload, operations } });
    const { files } = await good(`GET /repos/edit/branches/master/commits/${commit}/files`);
    expect(files.map(({ path }: { path: string }) => path)).toEqual(["kept", "new"]);
    expect(await failed(commits("edit"), { body: { upload, operations } })).toMatchObject({
      code: "NoSuchUpload",
    });

    const { upload: again } = await good("POST /uploads", { body: address });
    const nothing = { upload: again, operations: [{ delete: "not-there" }] };
    expect(await good(commits("edit"), { body: nothing })).toEqual({ commit: null });
  });

  test("is refused whole where one operation can't be", async () => {
    const { upload } = await newBranch("strict");
    const { id, bytes } = await contentOf("x");
    await good(`POST /uploads/${upload}/contents`, { body: { contents: [{ ...id, bytes }] } });
    for (const [operations, code, word] of [
      [
        [
          { put: "a", ...id },
          { put: "a/b", ...id },
        ],
        "PathConflict",
        "a",
      ],
      [
        [
          { put: "ok", ...id },
          { put: "/lead", ...id },
        ],
        "InvalidRequest",
        "/lead",
      ],
      [
        [
          { put: "ok", ...id },
          { put: "a/../b", ...id },
        ],
        "InvalidRequest",
        "a/../b",
      ],
      [
        [
          { put: "ok", ...id },
          { put: "gone", digest: "0".repeat(64), size: 1 },
        ],
        "NoSuchContent",
        "gone",
      ],
    ] as const) {
      const error = await failed(commits("strict"), { body: { upload, operations } });
      expect(error).toMatchObject({ status: 400, code });
      expect(error.message).toContain(`'${word}`);
    }
    expect(await failed(commits("strict"), { body: { upload, operations: [] } })).toMatchObject({
      status: 400,
      issues: [{ path: "operations" }],
    });
    expect(await failed(commits("none"), { body: { upload, operations: [{ delete: "a" }] } })).toMatchObject({
      status: 404,
    });
  });
});
