import { beforeAll, describe, expect, test } from "vitest";
import type { BranchAddress } from "../../../protocol/names.ts";
import { GRANT_HEADER, LEASE_MS, type LeasedDatum, type Task } from "../../../protocol/runner.ts";
import { ROUTES } from "../../../worker/api/routes.ts";
import type { ScopeLevel } from "../../../worker/core/permissions.ts";
import type { Grant } from "../../../worker/keys/grants.ts";
import { randomBytes, referenceDigest } from "../blobs/reference.ts";
import {
  api,
  type Call,
  CONFIG,
  commitFiles,
  configWith,
  contentOf,
  contentPath,
  failed,
  good,
  LARGE_BYTES,
  makeBranch,
  testContext,
} from "./support.ts";

const KEY_ID = "SLUICE0000000000000A";
const as = (level: ScopeLevel, keyId = KEY_ID) => ({
  caller: { keyId, scope: { level, repos: null } },
});
const RUNNER = as("runner");

/** A request of a runner's key, with a grant if it has one. */
function presenting(grant: string | undefined, more: Call = {}): Call {
  return {
    ...RUNNER,
    ...more,
    headers: { ...more.headers, ...(grant !== undefined && { [GRANT_HEADER]: grant }) },
  };
}

interface Leased {
  readonly slot: boolean;
  readonly datums: readonly LeasedDatum[];
  readonly tasks: readonly Task[];
  readonly grants?: Readonly<Record<string, string>>;
}

const WORKER = "node-1/0";

async function leased(pipeline: string, caller: Call = RUNNER): Promise<Leased> {
  const body = { pipeline, node: "node-1", worker: WORKER, max: 8 };
  return await good("POST /runner/lease", { ...caller, body });
}

/** A pipeline over a branch of its own with one commit, whose datums a runner's key has leased. */
async function work(
  name: string,
  { files = { a: name }, input = {} }: { files?: Record<string, string>; input?: object } = {},
) {
  const source = { repo: `${name}-in`, branch: "master" };
  await makeBranch(source);
  await good("POST /pipelines", {
    body: {
      pipeline: { name },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: source.repo }, glob: "/*", ...input }],
    },
  });
  const commit = await commitFiles(source, files);
  const { datums, grants } = await leased(name);
  const [first] = datums;
  const grant = grants?.[first?.job ?? ""];
  if (!first || grant === undefined)
    throw new Error(`${datums.length} datums, grants ${JSON.stringify(grants)}`);
  const output = { repo: name, branch: "master" };
  return { source, commit, datums, first, grant, output };
}

const filesOf = ({ repo, branch }: BranchAddress, commit: string) =>
  `GET /repos/${repo}/branches/${branch}/commits/${commit}/files`;
const contentAt = async (branch: BranchAddress, text: string) =>
  `GET ${contentPath(branch, (await contentOf(text)).id)}`;

/** A lease that most of the tests share, with a grant that outlasts them. */
let shared: Awaited<ReturnType<typeof work>>;

/** What the shared lease lets its holder do, in a grant of the gateway's. */
function signed(terms: { readonly keyId?: string; readonly until?: number } = {}): string {
  const { source, commit, output } = shared;
  const grant: Grant = { pipeline: output.repo, inputs: [{ ...source, commit, from: null }], output };
  return testContext().grants.sign(grant, { keyId: KEY_ID, until: Date.now() + 600_000, ...terms });
}

beforeAll(async () => {
  await good("POST /runner/heartbeat", {
    ...RUNNER,
    body: { node: "node-1", executor: "process", capacity: 1 },
  });
  const leasedWork = await work("stolen");
  shared = leasedWork;
  shared = { ...leasedWork, grant: signed() };
});

describe("a runner's key", () => {
  test("reads its inputs and writes its output with the grant of its lease, to the end of the job", async () => {
    const { source, commit, first, grant, output } = await work("granted");
    const listed = await good(filesOf(source, commit), presenting(grant));
    expect(listed.files).toMatchObject([{ path: "a" }]);
    const content = await api(await contentAt(source, "granted"), presenting(grant));
    expect(await content.text()).toBe("granted");

    const bytes = randomBytes(LARGE_BYTES, 1);
    const large = { digest: await referenceDigest(bytes), size: bytes.length };
    const { lease, job } = first;
    const { upload } = await good("POST /uploads", presenting(grant, { body: { ...output, lease } }));
    const small = await contentOf("small");
    const contents = { contents: [{ ...small.id, bytes: small.bytes }] };
    await good(`POST /uploads/${upload}/contents`, presenting(grant, { body: contents }));
    const asked = { contents: [large, small.id] };
    const reserved = await good(`POST /uploads/${upload}/reserve`, presenting(grant, { body: asked }));
    expect(reserved).toEqual({ missing: [large] });
    const put = `PUT /uploads/${upload}/contents?digest=${large.digest}&size=${large.size}`;
    await good(put, presenting(grant, { body: bytes }));
    const outputs = [
      { path: "large", ...large },
      { path: "small", ...small.id },
    ];
    const outcomes = [
      {
        lease,
        state: "success",
        exitCode: 0,
        millis: 1,
        ran: { executor: "process", image: null },
        upload,
        outputs,
      },
    ];
    const body = { pipeline: "granted", worker: WORKER, outcomes };
    expect(await good("POST /runner/finish", { ...RUNNER, body })).toEqual({ lost: [] });
    expect(await good(`GET /jobs/${job}?wait=10`)).toMatchObject({ state: "success" });
  });

  test("reads with the grant of a lease that is over for 30 s from when it was made, and no longer", async () => {
    const before = Date.now();
    const { source, commit, first, grant } = await work("over");
    const made = Date.now();
    const outcomes = [{ lease: first.lease, state: "returned" }];
    await good("POST /runner/finish", { ...RUNNER, body: { pipeline: "over", worker: WORKER, outcomes } });
    expect((await api(filesOf(source, commit), presenting(grant))).status).toBe(200);
    const { grants } = testContext();
    const openAt = (now: number) => grants.open(grant, { keyId: KEY_ID, now });
    expect(openAt(before + LEASE_MS - 1)).toMatchObject({ ok: true });
    expect(openAt(made + LEASE_MS)).toEqual({ ok: false, fault: "expired" });
  });

  test("reads and uploads nothing without a grant", async () => {
    const { source, commit, first, output } = shared;
    for (const [target, body] of [
      [filesOf(source, commit)],
      [await contentAt(source, "stolen")],
      ["POST /uploads", { ...output, lease: first.lease }],
      ["POST /uploads/master.stolen.01ARZ3NDEKTSV4RRFFQ69G5FAV/reserve", { contents: [] }],
      ["POST /uploads/master.stolen.01ARZ3NDEKTSV4RRFFQ69G5FAV/contents", { contents: [] }],
    ] as const) {
      const error = await failed(target, { ...RUNNER, ...(body && { body }) });
      expect(error, target).toMatchObject({ status: 403, code: "AccessDenied" });
      expect(error.message).toContain(GRANT_HEADER);
    }
  });

  test("that is stolen reads no branch that its lease does not name, and uploads to no other", async () => {
    const { source, grant, output } = shared;
    const vault = { repo: "vault", branch: "master" };
    await makeBranch(vault);
    const hidden = await commitFiles(vault, { plan: "the plan" });
    const later = await commitFiles(source, { more: "more" });
    const elsewhere = { ...source, branch: "draft" };
    await makeBranch(elsewhere);
    for (const [target, body] of [
      [await contentAt(vault, "the plan")],
      [await contentAt(elsewhere, "stolen")],
      [filesOf(vault, hidden)],
      // A commit of the input that is not the lease's, and the output, which it only writes to.
      [filesOf(source, later)],
      [filesOf(source, "head")],
      [filesOf(output, "head")],
      ["POST /uploads", { ...vault, lease: "any" }],
      ["POST /uploads", { ...source, lease: "any" }],
      ["POST /uploads", { ...vault }],
      // Without a lease it would be a user's upload.
      ["POST /uploads", { ...output }],
      ["POST /uploads/master.vault.01ARZ3NDEKTSV4RRFFQ69G5FAV/reserve", { contents: [] }],
      ["POST /uploads/master.stolen-in.01ARZ3NDEKTSV4RRFFQ69G5FAV/contents", { contents: [] }],
    ] as const) {
      const error = await failed(target, presenting(grant, body && { body }));
      expect(error, `${target} ${JSON.stringify(body)}`).toMatchObject({ status: 403, code: "AccessDenied" });
    }
  });

  test("reads by digest what any commit of a branch of its lease holds", async () => {
    const { source, grant } = shared;
    await commitFiles(source, { later: "written later" });
    expect((await api(await contentAt(source, "written later"), presenting(grant))).status).toBe(200);
  });

  test("reads of an input that starts after a commit only what came after it", async () => {
    const source = { repo: "partly-in", branch: "master" };
    await makeBranch(source);
    const from = await commitFiles(source, { old: "old" });
    await good("POST /pipelines", {
      body: {
        pipeline: { name: "partly" },
        transform: { image: "busybox", cmd: ["true"] },
        inputs: [{ repo: { name: source.repo }, glob: "/", from: { repo: { name: source.repo }, ID: from } }],
      },
    });
    const commit = await commitFiles(source, { new: "new" });
    const { datums, grants } = await leased("partly");
    const grant = grants?.[datums[0]?.job ?? ""];
    const seen = await good(`${filesOf(source, commit)}?since=${from}`, presenting(grant));
    expect(seen.files).toMatchObject([{ path: "new" }]);
    for (const query of ["", `?since=${commit}`]) {
      expect((await failed(filesOf(source, commit) + query, presenting(grant))).status).toBe(403);
    }
    expect((await failed(filesOf(source, from), presenting(grant))).status).toBe(403);
  });

  test.each([
    ["of another key", { keyId: "SLUICE0000000000000B" }],
    ["that has expired", { until: 1 }],
  ])("is refused with a grant %s", async (_, terms) => {
    const target = filesOf(shared.source, shared.commit);
    expect((await api(target, presenting(signed()))).status).toBe(200);
    const error = await failed(target, presenting(signed(terms)));
    expect(error).toMatchObject({ status: 403, code: "InvalidGrant" });
    expect(error.message).toContain("renew the lease");
  });

  test("is refused with a grant that was altered, or that it made itself", async () => {
    const { source, commit, grant } = shared;
    const [version, payload = "", mac] = grant.split(".");
    const wider = btoa(atob(payload).replaceAll("stolen", "vaults"));
    for (const text of [`${version}.${wider}.${mac}`, `${grant}A`, grant.slice(0, -2), "anything"]) {
      const error = await failed(filesOf(source, commit), presenting(text));
      expect(error, text).toMatchObject({ status: 403, code: "InvalidGrant" });
    }
  });

  test("has no part of the API but the runner's, even with a grant", async () => {
    const ours = Object.entries(ROUTES).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, route]) => ({ path, method, route })),
    );
    // Whoever has a key may ask whose it is.
    const runners = (path: string): boolean => path.startsWith("/runner/") || path === "/whoami";
    const others = ours.filter(({ route, path }) => !route.granted && !runners(path));
    // The routes that a runner calls are few: a new one must be added here on purpose.
    expect(ours.length - others.length).toBe(15);
    for (const { path, method } of others) {
      const filled = path.replace(/:(\w+)/g, (_, name: string) => (name === "repo" ? "stolen" : "master"));
      const error = await failed(`${method} ${filled}`, presenting(shared.grant));
      expect(error, `${method} ${path}`).toMatchObject({ status: 403, code: "AccessDenied" });
    }
  });
});

describe("a renewal", () => {
  test("brings a new grant for each job whose lease is kept, and none for those that are lost", async () => {
    const { source, commit, first } = await work("kept");
    const renew = (leases: readonly string[]) =>
      good("POST /runner/renew", { ...RUNNER, body: { pipeline: "kept", worker: WORKER, leases } });
    const { lost, grants } = await renew([first.lease, "no-such-lease"]);
    expect(lost).toEqual(["no-such-lease"]);
    expect(Object.keys(grants)).toEqual([first.job]);
    const listed = await good(filesOf(source, commit), presenting(grants[first.job]));
    expect(listed.files).toMatchObject([{ path: "a" }]);
    expect(await renew(["no-such-lease"])).toEqual({ lost: ["no-such-lease"] });
  });
});

describe("a merge", () => {
  test("reads its parts from the output branch with its own grant, and nothing else", async () => {
    const { source, commit, datums } = await work("merged", { files: { a: "1", b: "2" } });
    const outcomes = await Promise.all(
      datums.map(async ({ lease }, index) => {
        const part = await contentOf(`part ${index}`);
        const outputs = [{ path: "all", ...part.id, bytes: part.bytes }];
        return {
          lease,
          state: "success",
          exitCode: 0,
          millis: 1,
          ran: { executor: "process", image: null },
          outputs,
        };
      }),
    );
    await good("POST /runner/finish", { ...RUNNER, body: { pipeline: "merged", worker: WORKER, outcomes } });
    const { tasks, grants } = await leased("merged");
    const grant = grants?.[tasks[0]?.job ?? ""];
    const output = { repo: "merged", branch: "master" };
    expect(await (await api(await contentAt(output, "part 0"), presenting(grant))).text()).toBe("part 0");
    expect((await failed(filesOf(source, commit), presenting(grant))).status).toBe(403);
    expect((await failed(await contentAt(source, "1"), presenting(grant))).status).toBe(403);
  });
});

describe("what a deleted branch held", () => {
  test("is read by runners with a grant, and by no other key but the root key", async () => {
    const { source, commit, grant } = await work("gone");
    expect(await testContext().branch(source).lifecycle.destroy()).toMatchObject({ ok: true });
    const targets = [filesOf(source, commit), await contentAt(source, "gone")];
    const reads = async (call: Call) => {
      const answers = await Promise.all(targets.map((target) => api(target, call)));
      return answers.map(({ status }) => status);
    };
    expect(await reads(presenting(grant))).toEqual([200, 200]);
    expect(await reads(as("root"))).toEqual([200, 200]);
    for (const level of ["read", "write", "admin"] as const)
      expect(await reads(as(level))).toEqual([404, 404]);
    // The branch is there again, but what it held before is not.
    await makeBranch(source);
    await commitFiles(source, { a: "another" });
    expect(await reads(as("admin"))).toEqual([404, 404]);
    const since = `${filesOf(source, commit)}?since=${commit}`;
    expect((await failed(since, as("admin"))).status).toBe(404);
    expect(await reads(presenting(grant))).toEqual([200, 200]);
  });
});

describe("leasing, beating and reporting", () => {
  const CALLS = [
    ["POST /runner/heartbeat", { node: "n", executor: "process", capacity: 1 }],
    ["DELETE /runner/heartbeat?node=n", undefined],
    ["GET /runner/socket?node=n", undefined],
    ["POST /runner/lease", { pipeline: "p", node: "n", worker: "w", max: 1 }],
    ["POST /runner/renew", { pipeline: "p", worker: "w", leases: [] }],
    ["POST /runner/finish", { pipeline: "p", worker: "w", outcomes: [{ lease: "l", state: "returned" }] }],
    ["POST /runner/logs", { pipeline: "p", worker: "w", entries: [] }],
  ] as const;

  test.each(
    CALLS,
  )("is refused to a key of any other level, which is told the one it takes: %s", async (target, body) => {
    for (const level of ["read", "write", "admin"] as const) {
      const error = await failed(target, { ...as(level), ...(body && { body }) });
      expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
      expect(error.message).toContain("sluice key create --level runner");
    }
    for (const level of ["runner", "root"] as const) {
      expect((await api(target, { ...as(level), ...(body && { body }) })).status).not.toBe(403);
    }
  });

  test("takes such a key for the upload of a lease, too, which nobody but its pipeline would end", async () => {
    const { output, first } = shared;
    for (const lease of ["made-up", first.lease]) {
      for (const level of ["write", "admin"] as const) {
        const error = await failed("POST /uploads", { ...as(level), body: { ...output, lease } });
        expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
        expect(error.message).toContain("sluice key create --level runner");
      }
    }
  });

  test("with the root key needs no grant, and brings none", async () => {
    const { source, commit } = await work("rooted");
    await commitFiles(source, { b: "rooted" });
    const { datums, grants } = await leased("rooted", as("root"));
    expect(datums).toHaveLength(1);
    expect(grants).toBeUndefined();
    expect((await api(filesOf(source, commit), as("root"))).status).toBe(200);
  });
});

test("while the root key is being changed, grants from before the change are good", async () => {
  const { source, commit, grant } = shared;
  const [old] = CONFIG.rootKeys;
  const fresh = { id: "a-new-root", secret: "a-new-root-secret" };
  const during = configWith({ rootKeys: [fresh, old] });
  const after = configWith({ rootKeys: [fresh] });
  const read = (config: typeof CONFIG) => api(filesOf(source, commit), presenting(grant, { config }));
  expect((await read(during)).status).toBe(200);
  expect((await read(after)).status).toBe(403);
});
