import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { ContentId } from "../../../../protocol/content.ts";
import type { Outcome } from "../../../../protocol/runner.ts";
import { environmentCredentials } from "../../../../runner/tasks/credentials.ts";
import { parseDestination } from "../../../../runner/tasks/destination.ts";
import { performTask } from "../../../../runner/tasks/perform-task.ts";
import { openAzure } from "../../../../runner/tasks/stores/azure.ts";
import { openGcs } from "../../../../runner/tasks/stores/gcs.ts";
import { openS3 } from "../../../../runner/tasks/stores/s3.ts";
import { ForgetfulStore } from "../../../support/forgetful-store.ts";
import type { Seen } from "../../../support/store-proxy.ts";
import { REST, sampled } from "../../../support/suite.ts";
import { MemoryGateway } from "./support/memory-gateway.ts";
import { azureStore, gcsStore, noAzurite, sluiceStore, type TestStore } from "./support/stores.ts";

type Entry = { readonly path: string; readonly content: ContentId | null };

interface PushOptions {
  readonly url?: string;
  /** Keys of the secret. */
  readonly values?: Readonly<Record<string, string>>;
  readonly stallMs?: number;
  readonly signal?: AbortSignal;
  /** Asked for the lease; what it throws says that it is lost. */
  readonly confirmLease?: () => Promise<void>;
}

const MB = 1024 * 1024;
const PUSHED = { lease: "L", state: "pushed", millis: expect.any(Number) };

const STORES = [
  { name: "s3:// (Sluice)", open: sluiceStore, absent: undefined },
  { name: "wasb:// (Azurite)", open: azureStore, absent: noAzurite },
  { name: "gs:// (a fake)", open: gcsStore, absent: undefined },
];
for (const [{ name, open, absent }, options] of sampled(STORES, { every: 3 }))
  describe.skipIf(absent)(`egress to ${name}`, options, () => {
    let store: TestStore;
    let gateway: MemoryGateway;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store?.stop());
    beforeEach(() => {
      gateway = new MemoryGateway();
    });
    afterEach(() => {
      store.proxy.reset();
      vi.unstubAllEnvs();
    });

    /** One egress task, as a runner does it. */
    function push(entries: readonly Entry[], options: PushOptions = {}): Promise<Outcome> {
      const {
        url = store.url,
        values = store.credentials,
        stallMs,
        signal = new AbortController().signal,
        confirmLease = async () => undefined,
      } = options;
      const endpoint = `${store.proxy.endpoint}${store.endpointPath}`;
      const egress = { URL: url, endpoint, secret: "keys" };
      const secrets = {
        read: async () => new Map(Object.entries(values).map(([key, text]) => [key, Buffer.from(text)])),
      };
      const terms = { environment: [], local: true };
      const access = {
        gateway: gateway as never,
        secrets,
        env: process.env,
        terms,
        gatewayKey: "gateway",
        limited: false,
      };
      const deps = { ...access, confirmLease, ...(stallMs && { stallMs }) };
      const task = { kind: "egress" as const, lease: "L", job: "J", egress, entries: [...entries] };
      return performTask(deps, { task, output: { repo: "p", branch: "master" }, file: "/none", signal });
    }

    const put = (path: string, bytes: string | Buffer): Entry => ({ path, content: gateway.store(bytes) });
    const reasonOf = (outcome: Outcome): string => {
      if (outcome.state !== "failed") throw new Error(`not failed: ${JSON.stringify(outcome)}`);
      return outcome.reason;
    };
    const isRead = ({ method }: Seen) => ["GET", "HEAD"].includes(method);
    const isUpload = ({ method, target }: Seen) =>
      ["PUT", "POST"].includes(method) && !target.startsWith("/token") && !target.includes("sluice-probe");
    const uploads = () => store.proxy.requests.filter(isUpload);

    test("puts small and empty files into a nested folder and into the root", async () => {
      const small = put("out/small.txt", "small");
      const empty = put("out/empty", "");
      expect(await push([small, empty], { url: `${store.url}/deep/er/` })).toEqual(PUSHED);
      expect(await push([put("at-root", "root")], { url: `${store.url}/` })).toEqual(PUSHED);
      expect((await store.get("deep/er/out/small.txt"))?.toString()).toBe("small");
      expect(await store.get("deep/er/out/empty")).toHaveLength(0);
      expect((await store.get("at-root"))?.toString()).toBe("root");
    });

    test("puts names as they are, whatever characters they hold", async () => {
      const names = [
        "with space",
        "50%",
        "%20",
        "a+b",
        "q?x=1&y#z",
        "naïve/日本語/😀",
        "quote'\"(1)",
        "~tilde*",
      ];
      expect(await push(names.map((name) => put(name, `content of ${name}`)))).toEqual(PUSHED);
      for (const name of names) expect((await store.get(name))?.toString()).toBe(`content of ${name}`);
    });

    test("puts files of one and of several parts whole", async () => {
      const files = [4 * MB, 4 * MB + 1, 20 * MB].map((size) => ({
        path: `sized/${size}`,
        bytes: randomBytes(size),
      }));
      expect(await push(files.map(({ path, bytes }) => put(path, bytes)))).toEqual(PUSHED);
      for (const { path, bytes } of files) expect((await store.get(path))?.equals(bytes), path).toBe(true);
    });

    test("gives each the Content-Type of its extension", async () => {
      const types = {
        "typed/a.csv": "text/csv",
        "typed/large.PARQUET": "application/vnd.apache.parquet",
        "typed/none": "binary/octet-stream",
      };
      const files = Object.keys(types).map((path) =>
        put(path, path.includes("large") ? Buffer.alloc(5 * MB) : path),
      );
      expect(await push(files)).toEqual(PUSHED);
      for (const [path, type] of Object.entries(types)) expect(await store.typeOf(path), path).toBe(type);
    });

    test("reads no more of a large file at a time than a few of its parts", REST, async () => {
      const bytes = randomBytes(100 * MB + 7);
      let ahead = 0;
      gateway.onChunk = () => {
        ahead = Math.max(ahead, gateway.given - store.proxy.received);
      };
      expect(await push([put("large", bytes)])).toEqual(PUSHED);
      expect(ahead).toBeLessThan(64 * MB);
      expect((await store.get("large"))?.equals(bytes)).toBe(true);
    });

    test("removes what is there, and does not mind what is not", async () => {
      await push([put("goes", "1"), put("stays", "2")]);
      expect(
        await push([
          { path: "goes", content: null },
          { path: "never-was", content: null },
        ]),
      ).toEqual(PUSHED);
      expect(await store.get("goes")).toBeUndefined();
      expect((await store.get("stays"))?.toString()).toBe("2");
    });

    test("replaces a file by a folder, and a folder by a file, in one task each", REST, async () => {
      await push([put("turn", "file")]);
      expect(await push([put("turn/into", "folder"), { path: "turn", content: null }])).toEqual(PUSHED);
      expect((await store.get("turn/into"))?.toString()).toBe("folder");
      expect(await push([put("turn", "file again"), { path: "turn/into", content: null }])).toEqual(PUSHED);
      expect((await store.get("turn"))?.toString()).toBe("file again");
    });

    test("sends nothing a second time", async () => {
      const entries = [
        put("twice/small", "small"),
        put("twice/empty", ""),
        put("twice/large", randomBytes(9 * MB)),
      ];
      await push(entries);
      store.proxy.reset();
      const asked = gateway.asked;
      expect(await push(entries)).toEqual(PUSHED);
      expect(uploads()).toEqual([]);
      expect(gateway.asked).toBe(asked);
    });

    test("puts a file again that somebody else has overwritten, with as many bytes", async () => {
      const entry = put("contested", "ours");
      await push([entry]);
      await store.put("contested", "them");
      expect(await push([entry])).toEqual(PUSHED);
      expect((await store.get("contested"))?.toString()).toBe("ours");
    });

    test("puts the new content where the old one is", async () => {
      await push([put("changes", "before")]);
      expect(await push([put("changes", "after!")])).toEqual(PUSHED);
      expect((await store.get("changes"))?.toString()).toBe("after!");
    });

    test("takes the credentials of the environment where the egress names no secret", async () => {
      for (const [name, value] of Object.entries(store.environment)) vi.stubEnv(name, value);
      const destination = parseDestination(store.url);
      const open = { s3: openS3, gs: openGcs, azure: openAzure }[destination.kind];
      const endpoint = `${store.proxy.endpoint}${store.endpointPath}`;
      const opened = await open({ destination, endpoint, credentials: environmentCredentials(process.env) });
      const [key, body] = ["by-environment", Buffer.from("in")];
      const { signal } = new AbortController();
      // Google's client first looks for its project at Google, in vain; it goes on without the next time.
      await opened.look({ key, signal }).catch(() => undefined);
      const content = gateway.store(body);
      await opened.put({ key, content, contentType: "text/plain", body, version: null, signal });
      opened.close();
      expect((await store.get(key))?.toString()).toBe("in");
    });

    test("takes every kind of credentials that its documentation names", REST, async () => {
      for (const [index, values] of store.others.entries()) {
        expect(await push([put(`kinds/${index}`, "in")], { values })).toEqual(PUSHED);
      }
      expect((await store.get("kinds/0"))?.toString()).toBe("in");
    });

    test("fails with the store's code where it is not let in, and shows nothing of the credentials", async () => {
      for (const { values, words, hidden } of store.refused) {
        const reason = reasonOf(await push([put("forbidden", "x")], { values, url: `${store.url}/dir` }));
        expect(reason).toMatch(words);
        expect(reason).toContain('"forbidden" could not be put to');
        expect(reason).toContain(`${store.url}/dir`);
        for (const part of hidden) expect(reason).not.toContain(part);
      }
      expect(await store.get("dir/forbidden")).toBeUndefined();
    });

    test("fails with the store's code where there is no such bucket", async () => {
      const { url, words } = store.absent;
      const reason = reasonOf(await push([put("lost", "x")], { url }));
      expect(reason).toMatch(words);
      expect(reason).toContain(url);
    });

    test("fails after some tries where the store is down", REST, async () => {
      await store.proxy.stop();
      try {
        const reason = reasonOf(await push([put("down", "x")]));
        expect(reason).toContain('"down" could not be put to');
        expect(reason).toMatch(/ECONNREFUSED/);
      } finally {
        await store.proxy.start();
      }
    });

    test("tries again where the store is busy, and puts all", REST, async () => {
      const busy = new Set<string>();
      store.proxy.trouble = (seen) => {
        const name = `${seen.method} ${seen.target.split("?")[0]}`;
        if (!isUpload(seen) || busy.has(name)) return undefined;
        busy.add(name);
        return { status: 503 };
      };
      expect(await push([put("busy/1", "one"), put("busy/2", "two")])).toEqual(PUSHED);
      expect(busy.size).toBeGreaterThan(0);
      expect((await store.get("busy/2"))?.toString()).toBe("two");
    });

    test("puts a file whole whose connection was cut in the middle", REST, async () => {
      const bytes = randomBytes(20 * MB);
      let cuts = 0;
      store.proxy.trouble = (seen) => {
        if (!isUpload(seen) || cuts === 2) return undefined;
        cuts += 1;
        return { cutAfterBytes: 300_000 };
      };
      const entries = [put("cut/large", bytes), put("cut/small", randomBytes(3 * MB))];
      expect(await push(entries)).toEqual(PUSHED);
      expect(cuts).toBe(2);
      expect((await store.get("cut/large"))?.equals(bytes)).toBe(true);
    });

    test("puts a file whole whose content broke off or came damaged on its way from the gateway", async () => {
      const bytes = randomBytes(20 * MB);
      const entry = put("broken/off", bytes);
      let pieces = 0;
      gateway.onChunk = () => {
        pieces += 1;
        if (pieces === 100) throw new Error("the connection broke");
      };
      expect(await push([entry])).toEqual(PUSHED);
      expect(pieces).toBeGreaterThan(100);
      expect((await store.get("broken/off"))?.equals(bytes)).toBe(true);
    });

    test("leaves nothing where the content stays damaged, and says so", REST, async () => {
      const small = put("damaged/small", "right");
      if (small.content) gateway.damage(small.content, "wrong");
      const reason = reasonOf(await push([small]));
      expect(reason).toMatch(/"damaged\/small" could not be put to .* came damaged/);
      expect(await store.get("damaged/small")).toBeUndefined();
    });

    describe("a write that comes late", () => {
      const lost = async () => {
        throw new Error("the lease is lost");
      };

      const isAt =
        (path: string) =>
        ({ target }: Seen) =>
          decodeURIComponent(target).includes(path);

      /** The lease is confirmed once, and lost when it is asked for again, which stops the work. */
      function confirmedOnce(): Pick<PushOptions, "confirmLease" | "signal"> {
        const stopped = new AbortController();
        let asked = 0;
        const confirmLease = async () => {
          asked += 1;
          if (asked === 1) return;
          stopped.abort("lost");
          await lost();
        };
        return { confirmLease, signal: stopped.signal };
      }

      test.each([
        { what: "put", path: "late/put", before: "old", first: () => put("late/put", "first") },
        { what: "put of a new file", path: "late/new", before: null, first: () => put("late/new", "first") },
        {
          what: "put of several parts",
          path: "late/large",
          before: "old",
          first: () => put("late/large", randomBytes(9 * MB)),
        },
        {
          what: "removal",
          path: "late/removal",
          before: "old",
          first: () => ({ path: "late/removal", content: null }),
        },
      ])("a $what of a runner that lost its lease does not undo what the next one wrote", async ({
        path,
        before,
        first,
      }) => {
        if (before !== null) await push([put(path, before)]);
        const entry = first();
        const isLarge = (entry.content?.size ?? 0) > 4 * MB;
        const isWrite = isLarge ? store.makesLarge : (seen: Seen) => isAt(path)(seen) && !isRead(seen);
        const late = store.proxy.holdFirst(isWrite);
        const frozen = push([entry], confirmedOnce());
        await late.arrived;
        expect(await push([put(path, "second")])).toEqual(PUSHED);
        late.release();
        expect(await frozen).toMatchObject({ state: "failed" });
        expect((await store.get(path))?.toString()).toBe("second");
        expect(await store.unfinished()).toBe(0);
      });

      test("is asked for again and done by a runner that has its lease", async () => {
        await push([put("late/again", "old")]);
        const late = store.proxy.holdFirst((seen) => isAt("late/again")(seen) && !isRead(seen));
        const pushing = push([put("late/again", "ours")]);
        await late.arrived;
        await store.put("late/again", "a stranger's");
        late.release();
        expect(await pushing).toEqual(PUSHED);
        expect((await store.get("late/again"))?.toString()).toBe("ours");
      });

      test("is not even sent if the lease is lost by the time the store has said what is there", async () => {
        await push([put("late/unsent", "newer")]);
        store.proxy.reset();
        expect(await push([put("late/unsent", "older")], { confirmLease: lost })).toMatchObject({
          state: "failed",
        });
        expect(store.proxy.requests.length).toBeGreaterThan(0);
        expect(uploads()).toEqual([]);
        expect((await store.get("late/unsent"))?.toString()).toBe("newer");
      });
    });

    test("puts 500 files a few at a time", REST, async () => {
      const entries = Array.from({ length: 500 }, (_, i) => put(`many/${i}`, `file ${i}`));
      expect(await push(entries)).toEqual(PUSHED);
      expect(store.proxy.peak).toBeLessThanOrEqual(8);
      expect(gateway.peak).toBeLessThanOrEqual(8);
      for (const i of [0, 250, 499]) expect((await store.get(`many/${i}`))?.toString()).toBe(`file ${i}`);
    });

    test("gives up a store that takes a request and never answers", REST, async () => {
      store.proxy.trouble = () => "silence";
      const reason = reasonOf(await push([put("silent", "x")], { stallMs: 300 }));
      expect(reason).toContain("nothing went on for");
    });

    test.each([
      { what: "small", size: 10 },
      { what: "large", size: 30 * MB },
    ])("stops in the middle of a $what file when its lease is lost, and leaves nothing of it", async ({
      size,
    }) => {
      const lost = new AbortController();
      store.proxy.trouble = (seen) => {
        if (seen.method !== "PUT" && size > MB) return undefined;
        lost.abort();
        return "silence";
      };
      const outcome = await push([put("stopped", randomBytes(size))], { signal: lost.signal });
      expect(outcome.state).toBe("failed");
      store.proxy.reset();
      expect(await store.get("stopped")).toBeUndefined();
      expect(await store.unfinished()).toBe(0);
    });
  });

describe("egress to an S3 store that ignores conditions", () => {
  test("is done, is said to be without a fence, and one request found that out", REST, async () => {
    const store = await sluiceStore();
    const { AWS_ACCESS_KEY_ID: accessKeyId = "", AWS_SECRET_ACCESS_KEY: secretAccessKey = "" } =
      store.credentials;
    const forgetful = new ForgetfulStore(store.proxy.endpoint, { accessKeyId, secretAccessKey });
    await forgetful.start();
    const gateway = new MemoryGateway();
    const values = Object.entries(store.credentials).map(([key, text]) => [key, Buffer.from(text)] as const);
    const push = (path: string, text: string) => {
      const egress = { URL: `${store.url}/dir`, endpoint: forgetful.endpoint, secret: "keys" };
      const entries = [{ path, content: gateway.store(text) }];
      const task = { kind: "egress", lease: "L", job: "J", egress, entries } as const;
      const deps = {
        gateway: gateway as never,
        secrets: { read: async () => new Map(values) },
        env: {},
        terms: { environment: [], local: true },
        gatewayKey: "gateway",
        limited: false,
        confirmLease: async () => undefined,
      };
      const { signal } = new AbortController();
      return performTask(deps, { task, output: { repo: "p", branch: "master" }, file: "/none", signal });
    };
    try {
      const noted = { ...PUSHED, remark: expect.stringContaining("s3://master.results ignores conditions") };
      expect(await push("one", "1")).toEqual(noted);
      expect(await push("one", "one")).toEqual(noted);
      expect((await store.get("dir/one"))?.toString()).toBe("one");
      const probes = store.proxy.requests.filter(
        ({ method, target }) => method === "PUT" && target.includes("sluice-probe"),
      );
      expect(probes).toHaveLength(1);
      const [probe = { target: "" }] = probes;
      const key = decodeURIComponent(probe.target.replace(/^\/[^/]+\/|\?.*$/g, ""));
      expect(await store.get(key)).toBeUndefined();
    } finally {
      await forgetful.stop();
      await store.stop();
    }
  });
});
