import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { MAX_COMMIT_OPERATIONS, SessionOpened, UploadOpened } from "../../../protocol/files.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Answer, exchange, signedExchange } from "../../support/http.ts";
import { seededRandom } from "../../support/random.ts";
import { REST } from "../../support/suite.ts";

/*
 * The embedded gateway answers GET, HEAD and listings out of what its objects have read. Here many clients read, write, delete, erase
 * and set things at the same time, and each answer must be one that a gateway could give that does one thing after the other.
 */

const BUCKET = "master.register";
/** It is deleted and made again. */
const TORN = "master.torn";
/** Its one key has versions that are erased. */
const ERASED = "master.erased";
const CLIENTS = 8;
const LARGE_COMMITS = 3;
type Four = [string, string, string, string];
const TAGS = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";
const KEYS = ["a", "b"];
/** What many ask for alike. */
const LISTING = "list-type=2&delimiter=%2F";

/** Something that gives a key another text, or takes it away (null), between two moments. */
interface Change {
  readonly key: string;
  readonly text: string | null;
  readonly begun: number;
  /** When it was answered; Infinity: it was not. */
  ended: number;
}

interface Seen {
  readonly key: string;
  readonly text: string | null;
  readonly begun: number;
  readonly ended: number;
}

/** The keys that a listing has, with the digests of what is there. */
function digestsIn(text: string): [key: string, digest: string][] {
  const rows = text.matchAll(/<Contents><Key>([^<]*)<.*?<ETag>&quot;([0-9a-f]{64})-/g);
  return [...rows].map(([, key = "", digest = ""]) => [key, digest]);
}

class History {
  readonly changes: Change[] = [];
  readonly reads: Seen[] = [];
  readonly wrong: string[] = [];
  /** What was not done since the gateway was away. */
  readonly mishaps: string[] = [];
  #moment = 0;

  moment(): number {
    return ++this.#moment;
  }

  /** The text of a digest that something was changed to. */
  textOf(digest: string): string {
    const texts = this.changes.flatMap(({ text }) => text ?? []);
    return texts.find((text) => createHash("sha256").update(text).digest("hex") === digest) ?? digest;
  }

  /** Notes what a request changes, unless it is refused. */
  async change(
    keys: readonly string[],
    text: string | null,
    request: () => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const begun = this.moment();
    const changes = keys.map((key) => ({ key, text, begun, ended: Number.POSITIVE_INFINITY }));
    this.changes.push(...changes);
    const answer = await request().catch(() => undefined);
    if (answer === undefined || answer.status >= 500) return undefined;
    const ended = this.moment();
    const isDone = answer.status < 300;
    for (const change of changes) {
      if (isDone) change.ended = ended;
      else this.changes.splice(this.changes.indexOf(change), 1);
    }
    return answer;
  }

  async read(
    key: string,
    request: () => Promise<Answer>,
    textOf: (answer: Answer) => string,
  ): Promise<Answer | undefined> {
    const begun = this.moment();
    const answer = await request().catch(() => undefined);
    if (answer === undefined || answer.status >= 500) return undefined;
    const text = answer.status === 200 ? textOf(answer) : null;
    this.reads.push({ key, text, begun, ended: this.moment() });
    return answer;
  }

  /** A listing is a read of each of its keys: `textsOf` says what it has. */
  async list(
    keys: readonly string[],
    request: () => Promise<Answer>,
    textsOf: (answer: Answer) => ReadonlyMap<string, string>,
  ): Promise<void> {
    const begun = this.moment();
    const answer = await request().catch(() => undefined);
    if (answer === undefined || answer.status >= 500) return;
    const texts = answer.status === 200 ? textsOf(answer) : new Map<string, string>();
    const ended = this.moment();
    for (const key of keys) this.reads.push({ key, text: texts.get(key) ?? null, begun, ended });
  }

  /** The reads that no order of the changes explains. */
  faults(): string[] {
    // What somebody has seen was done by then.
    for (const { key, text, ended } of this.reads) {
      const change = this.changes.find((one) => one.key === key && one.text === text);
      if (text !== null && change) change.ended = Math.min(change.ended, ended);
    }
    return [...this.wrong, ...this.reads.flatMap((read) => this.#faultOf(read))];
  }

  #faultOf({ key, text, begun, ended }: Seen): string[] {
    const changes = this.changes.filter((one) => one.key === key && one.begun < ended);
    const causes = changes.filter((one) => one.text === text);
    const isReplaced = (cause: { readonly ended: number }) =>
      changes.some((one) => one.text !== text && cause.ended < one.begun && one.ended < begun);
    // At first nothing was there.
    const beginning = text === null ? [{ ended: 0 }] : [];
    if ([...causes, ...beginning].some((cause) => !isReplaced(cause))) return [];
    return [`${key} was read as ${text} between ${begun} and ${ended}, and was not so`];
  }
}

/** A commit that is too large for one transaction, which gives all keys another text. What it deletes beside was never there. */
async function commitLarge(
  server: DevServer,
  { id, history }: { id: string; history: History },
): Promise<void> {
  const control = new Control(server);
  const branch = "/repos/register/branches/master";
  const text = `text ${id}`;
  const headers = { "x-amz-meta-text": text };
  const { session, bucket } = await control.call("POST", `${branch}/sessions`, { answers: SessionOpened });
  const named = { repo: "register", branch: "master" };
  const { upload } = await control.call("POST", "/uploads", { body: named, answers: UploadOpened });
  for (const key of KEYS)
    await signedExchange(server, { method: "PUT", target: `/${bucket}/${key}`, headers, body: text });
  const operations = Array.from({ length: MAX_COMMIT_OPERATIONS }, (_, n) => ({ delete: `none/${n}` }));
  const staged = await control.ask("POST", `${branch}/commits`, { upload, session, operations });
  if (staged.status !== 201) throw new Error(`${staged.status} ${staged.text}`);
  const keys = KEYS.map((key) => `${BUCKET}/${key}`);
  await history.change(keys, text, () => control.ask("POST", `${branch}/sessions/${session}/finish`, {}));
}

/** What a client does next: a number of steps, each chosen by `random`. */
type Step = (id: string) => Promise<unknown>;

async function clients(steps: number, choose: (random: () => number) => Step): Promise<void> {
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, client) => {
      const random = seededRandom(client + 1);
      for (let step = 0; step < steps; step++) await choose(random)(`${client}.${step}`);
    }),
  );
}

/** Requests of whoever has the key of the gateway, and of whoever has none. */
function doors(server: DevServer) {
  return {
    ask: (method: string, target: string, more: { body?: string; headers?: Record<string, string> } = {}) =>
      signedExchange(server, { method, target, ...more }),
    unsigned: (target: string) => exchange(server.endpoint, { method: "GET", target }),
  };
}

async function register(server: DevServer, steps: number): Promise<History> {
  const history = new History();
  const { ask, unsigned } = doors(server);
  const tags = new Map<string, string>();
  const get = (bucket: string, key: string) =>
    history.read(
      `${bucket}/${key}`,
      () => ask("GET", `/${bucket}/${key}`),
      ({ text }) => text,
    );
  const head = (bucket: string, key: string) =>
    history.read(
      `${bucket}/${key}`,
      () => ask("HEAD", `/${bucket}/${key}`),
      ({ headers }) => headers["x-amz-meta-text"] ?? "",
    );
  const list = (bucket: string) =>
    history.list(
      KEYS.map((key) => `${bucket}/${key}`),
      () => ask("GET", `/${bucket}?${LISTING}`),
      ({ text }) => {
        const listed = digestsIn(text).map(
          ([key, digest]) => [`${bucket}/${key}`, history.textOf(digest)] as const,
        );
        return new Map(listed);
      },
    );
  const put = (bucket: string, key: string, id: string, headers = {}) =>
    history.change([`${bucket}/${key}`], `text ${id}`, async () => {
      const meta = { "x-amz-meta-text": `text ${id}`, ...headers };
      const answer = await ask("PUT", `/${bucket}/${key}`, { body: `text ${id}`, headers: meta });
      if (answer.status === 200) tags.set(key, answer.headers.etag ?? "");
      return answer;
    });
  const published = new Publicity(history);
  const erased = new Erasures(history);
  const remove = (bucket: string, key: string) =>
    history.change([`${bucket}/${key}`], null, () => ask("DELETE", `/${bucket}/${key}`));
  const tear = async () => {
    const keys = KEYS.map((one) => `${TORN}/${one}`);
    await history.change(keys, null, () => ask("DELETE", `/${TORN}`));
    await ask("PUT", `/${TORN}`).catch(() => undefined);
  };
  const settle = (acl: "private" | "public-read") =>
    published.set(acl, () => ask("PUT", `/${BUCKET}?acl`, { headers: { "x-amz-acl": acl } }));
  const eraseOne = (id: string) =>
    erased.take((target, body) => ask(body ? "PUT" : "DELETE", `/${ERASED}/e${target}`, body), id);
  const large = async () => {
    // One that meets a gateway which was just killed does not come about.
    for (let n = 0; n < LARGE_COMMITS; n++)
      await commitLarge(server, { id: `large.${n}`, history }).catch((error) => {
        history.mishaps.push(String(error));
      });
  };
  const running = large();
  await clients(steps, (random) => {
    const key = pick(random, KEYS);
    const bucket = pick(random, [BUCKET, BUCKET, BUCKET, TORN]);
    const often: [times: number, step: Step][] = [
      [45, () => get(bucket, key)],
      [20, () => head(bucket, key)],
      [30, () => list(bucket)],
      [7, (id) => put(bucket, key, id)],
      [4, (id) => put(BUCKET, key, id, { "if-match": tags.get(key) ?? '"none"' })],
      [3, () => remove(bucket, key)],
      [2, tear],
      [2, () => settle(pick(random, ["private", "public-read"]))],
      [6, () => published.read(() => unsigned(`/${BUCKET}/${key}`))],
      [6, () => published.read(() => unsigned(`/${BUCKET}?${LISTING}`))],
      [7, () => erased.read(() => ask("GET", `/${ERASED}/e`))],
      [3, eraseOne],
    ];
    return pick(
      random,
      often.flatMap(([times, step]) => Array<Step>(times).fill(step)),
    );
  });
  await running;
  return history;
}

function pick<T>(random: () => number, from: readonly [T, ...T[]] | readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}

/** Whether a bucket answers those who have no key, and who has read without one. */
class Publicity {
  readonly #history: History;
  /** Since when it is surely private; null: it may be public. */
  #privateSince: number | null = null;
  /** How many requests to set it have begun, and how many are under way: of two at once, either may be the last one. */
  #begun = 0;
  #underWay = 0;

  constructor(history: History) {
    this.#history = history;
  }

  async set(acl: "private" | "public-read", request: () => Promise<Answer>): Promise<void> {
    const isOpening = acl === "public-read";
    this.#privateSince = null;
    const before = ++this.#begun;
    const others = this.#underWay++;
    const answer = await request().catch(() => undefined);
    this.#underWay--;
    const isAlone = others === 0 && before === this.#begun;
    if (!isOpening && isAlone && answer?.status === 200) this.#privateSince = this.#history.moment();
  }

  async read(request: () => Promise<Answer>): Promise<void> {
    const since = this.#privateSince;
    const answer = await request().catch(() => undefined);
    const isPrivate = since !== null && since === this.#privateSince;
    if (isPrivate && answer?.status === 200)
      this.#history.wrong.push("a private bucket was read without a key");
  }
}

/** Versions of one key that are erased, and reads that must not show them from then on. */
class Erasures {
  readonly #history: History;
  readonly #gone = new Set<string>();

  constructor(history: History) {
    this.#history = history;
  }

  async take(ask: (target: string, body?: { body: string }) => Promise<Answer>, id: string): Promise<void> {
    const made = await ask("", { body: `erased ${id}` }).catch(() => undefined);
    const version = made?.headers["x-amz-version-id"];
    if (made?.status !== 200 || version === undefined) return;
    const done = await ask(`?versionId=${version}`).catch(() => undefined);
    if (done?.status === 204) this.#gone.add(`erased ${id}`);
  }

  async read(request: () => Promise<Answer>): Promise<void> {
    const gone = new Set(this.#gone);
    const answer = await request().catch(() => undefined);
    if (answer?.status === 200 && gone.has(answer.text))
      this.#history.wrong.push(`'${answer.text}' was read, which was erased`);
  }
}

/** How often memory was asked, and how often it answered, by the log. */
function told(server: DevServer): { memory: number; call: number } {
  const count = (read: string) => server.output().split(`"read":"${read}"`).length - 1;
  return { memory: count("memory"), call: count("call") };
}

/** The same of all that was asked until now: lines of the log may come later than answers do, and come in the order of these. */
async function toldByNow(server: DevServer): Promise<ReturnType<typeof told>> {
  const { headers } = await doors(server).ask("GET", `/${BUCKET}?location`);
  const id = headers["x-amz-request-id"] ?? "";
  return await eventually("the log has the last line", () => server.output().includes(id) && told(server));
}

async function withServer(work: (server: DevServer) => Promise<void>): Promise<void> {
  const server = await startDevServer({ variables: { SLUICE_REQUEST_LOG: "on" } });
  try {
    for (const bucket of [BUCKET, TORN, ERASED]) await doors(server).ask("PUT", `/${bucket}`);
    await work(server);
  } finally {
    await server.stop({ mayHaveDied: true });
  }
}

test("reads out of memory are as if each branch did one thing after the other, and the log tells which they are", async () => {
  await withServer(async (server) => {
    const history = await register(server, 100);
    expect([...history.faults(), ...history.mishaps]).toEqual([]);
    const large = history.changes.filter(({ text }) => text?.startsWith("text large"));
    expect(large).toHaveLength(LARGE_COMMITS * KEYS.length);
    const { memory, call } = told(server);
    expect(memory).toBeGreaterThan(10);
    expect(call).toBeGreaterThan(10);
  });
});

test("so they are while the runtime is killed again and again", REST, async () => {
  await withServer(async (server) => {
    const running = register(server, 300);
    for (let kills = 0; kills < 4; kills++) await server.killRuntime();
    expect((await running).faults()).toEqual([]);
  });
});

/** Asks until memory answers, which it does once what was written is on the disk. */
async function answeredByMemory(server: DevServer, target: string): Promise<Answer> {
  const { ask } = doors(server);
  return await eventually(`memory answers ${target}`, async () => {
    const before = told(server).memory;
    const answer = await ask("GET", target);
    return told(server).memory > before && answer;
  });
}

test("what memory had answered before is never answered once it is so no more", async () => {
  await withServer(async (server) => {
    const { ask, unsigned } = doors(server);
    const [a, b, none, other] = ["a", "b", "none", "other"].map((key) => `/${BUCKET}/${key}`) as Four;
    const warm = (target: string) => answeredByMemory(server, target);
    // Once another key is read, memory has what an answer says of the branch again, and goes by its row of the key, if it has one.
    const next = async (target: string, method = "GET") => {
      await warm(other);
      return await ask(method, target);
    };
    const textOf = async (target: string) => (await next(target)).text;
    const statusOf = async (target: string) => (await next(target, "HEAD")).status;
    await ask("PUT", other, { body: "other" });

    await ask("PUT", a, { body: "first" });
    expect((await warm(a)).text).toBe("first");
    await ask("PUT", a, { body: "second" });
    expect(await textOf(a)).toBe("second");

    expect((await warm(none)).status).toBe(404);
    await ask("PUT", none, { body: "there" });
    expect(await textOf(none)).toBe("there");

    await warm(none);
    await ask("DELETE", none);
    expect(await statusOf(none)).toBe(404);

    // Last-Modified is the time of the newest commit, in seconds: writes go on until one is in another second.
    const later = await eventually("a commit has another time than the one before", async () => {
      const before = (await warm(a)).headers["last-modified"];
      await ask("PUT", b, { body: String(Math.random()) });
      const said = (await ask("HEAD", a)).headers["last-modified"];
      const newest = (await ask("HEAD", b)).headers["last-modified"];
      return newest !== before && { said, newest };
    });
    expect(later.said).toBe(later.newest);

    await warm(a);
    await ask("PUT", `${a}?tagging`, { body: TAGS });
    expect((await next(a, "HEAD")).headers["x-amz-tagging-count"]).toBe("1");

    const erased = (await ask("PUT", a, { body: "erased" })).headers["x-amz-version-id"];
    expect((await warm(a)).text).toBe("erased");
    await ask("DELETE", `${a}?versionId=${erased}`);
    expect(await textOf(a)).not.toBe("erased");

    await ask("PUT", `/${BUCKET}?acl`, { headers: { "x-amz-acl": "public-read" } });
    await eventually("whoever has no key reads", async () => (await unsigned(b)).status === 200);
    await warm(b);
    await ask("PUT", `/${BUCKET}?acl`, { headers: { "x-amz-acl": "private" } });
    await warm(b);
    expect((await unsigned(b)).status).toBe(403);

    for (const key of KEYS) await warm(`/${BUCKET}/${key}`);
    const history = new History();
    await commitLarge(server, { id: "large", history });
    await eventually("the large commit is made", async () => (await textOf(a)) === "text large");
    expect(await textOf(b)).toBe("text large");

    await warm(a);
    await ask("DELETE", `/${BUCKET}`);
    expect((await ask("HEAD", a)).status).toBe(404);
    await ask("PUT", `/${BUCKET}`);
    await ask("PUT", other, { body: "other" });
    expect(await statusOf(a)).toBe(404);

    await ask("PUT", a, { body: "before the kill" });
    await warm(a);
    await server.killRuntime();
    await eventually("it answers again", async () => (await ask("HEAD", a)).status === 200);
    await ask("PUT", a, { body: "after the kill" });
    expect(await textOf(a)).toBe("after the kill");
  });
});

test("what memory had listed before is never listed once it is so no more", async () => {
  await withServer(async (server) => {
    const { ask, unsigned } = doors(server);
    const listings = [`/${BUCKET}?${LISTING}`, `/${BUCKET}?versions`] as const;
    const answers: string[] = [];
    let asked = 1000;
    /** Whether memory has both listings now, and both are what a call says of another one that has as much. */
    const areTrue = async () => {
      for (const listing of listings) {
        const call = (await ask("GET", `${listing}&max-keys=${--asked}`)).text.replace(
          `>${asked}<`,
          ">1000<",
        );
        expect((await ask("GET", listing)).text).toBe(call);
        await answeredByMemory(server, `/${BUCKET}/other`);
        expect((await ask("GET", listing)).text).toBe(call);
        const { text } = await answeredByMemory(server, listing);
        expect(text).toBe(call);
        answers.push(text);
      }
    };
    const object = (key: string) => `/${BUCKET}/${key}`;
    let version = "";
    const changes: Record<string, () => Promise<unknown>> = {
      "a new key": () => ask("PUT", object("a"), { body: "first" }),
      "another body": async () => {
        version = (await ask("PUT", object("a"), { body: "second" })).headers["x-amz-version-id"] ?? "";
      },
      "a version that is erased": () => ask("DELETE", `${object("a")}?versionId=${version}`),
      "a new folder": () => ask("PUT", object("folder/b"), { body: "b" }),
      "many keys": async () => {
        await commitLarge(server, { id: "many", history: new History() });
        const isMade = async () => (await ask("GET", object("a"))).text === "text many";
        await eventually("the large commit is made", isMade);
      },
      "a key that is deleted": () => ask("DELETE", object("b")),
      "a runtime that was killed": async () => {
        await server.killRuntime();
        await eventually("it answers again", async () => (await ask("HEAD", object("a"))).status === 200);
        await ask("PUT", object("a"), { body: "after the kill" });
      },
      "a branch that was deleted and made again": async () => {
        await ask("DELETE", `/${BUCKET}`);
        expect((await ask("GET", listings[0])).status).toBe(404);
        await ask("PUT", `/${BUCKET}`);
        await ask("PUT", object("other"), { body: "other" });
      },
    };
    await ask("PUT", object("other"), { body: "other" });
    await areTrue();
    for (const [what, change] of Object.entries(changes)) {
      const before = answers.slice(-2);
      await change();
      await areTrue();
      expect(answers.slice(-2), what).not.toEqual(before);
    }

    await ask("PUT", `/${BUCKET}?acl`, { headers: { "x-amz-acl": "public-read" } });
    await answeredByMemory(server, listings[0]);
    expect((await unsigned(listings[0])).status).toBe(200);
    await ask("PUT", `/${BUCKET}?acl`, { headers: { "x-amz-acl": "private" } });
    await answeredByMemory(server, listings[0]);
    expect((await unsigned(listings[0])).status).toBe(403);
  });
});

test("an answer out of memory is that of a call, byte for byte, and SLUICE_READ_MEMORY=off is a call each time", async () => {
  const requests = [
    {},
    { headers: { range: "bytes=1-3" } },
    { headers: { range: "bytes=90-" } },
    { headers: { "if-none-match": "*" } },
    { headers: { "if-match": '"other"' } },
    { headers: { "x-amz-checksum-mode": "ENABLED" } },
    { query: "?response-content-type=text%2Fcsv" },
    { query: "?partNumber=1" },
    { key: "none" },
    { key: "large" },
    { key: "dir/" },
  ];
  const listings = [
    ...["?list-type=2", "?list-type=2&delimiter=%2F&encoding-type=url", "?list-type=2&fetch-owner=true"],
    ...["?list-type=2&prefix=l&max-keys=1", "?list-type=2&max-keys=1", "?list-type=2&start-after=b"],
    ...["", "?delimiter=%2F&marker=a&max-keys=1", "?versions", "?versions&delimiter=%2F&max-keys=1"],
  ];
  const answersOf = async (server: DevServer) => {
    const { ask } = doors(server);
    const answers: object[] = [];
    const add = async (method: string, target: string, headers = {}) => {
      const { status, headers: said, text } = await ask(method, `/${BUCKET}${target}`, { headers });
      const { date: _, "x-amz-request-id": id = "", ...same } = said;
      answers.push({ status, said: same, text: text.replaceAll(id, "ID") });
    };
    for (const { key = "a", query = "", headers = {} } of requests)
      for (const method of ["GET", "HEAD"]) await add(method, `/${key}${query}`, headers);
    for (const query of listings) await add("GET", query);
    return answers;
  };
  await withServer(async (server) => {
    const { ask } = doors(server);
    const headers = { "x-amz-meta-a": "1", "x-amz-tagging": "b=2", "cache-control": "no-store" };
    await ask("PUT", `/${BUCKET}/a`, { body: "0123456789", headers });
    await ask("PUT", `/${BUCKET}/large`, { body: "x".repeat(10_000) });
    await ask("PUT", `/${BUCKET}/dir/`);
    // The first answers are from calls, the next ones find that all is on the disk, or that a listing is asked for again, and
    // the last ones are from memory.
    for (let times = 0; times < 3; times++) await answersOf(server);
    const before = (await toldByNow(server)).call;
    const shared = await answersOf(server);
    expect((await toldByNow(server)).call).toBe(before);
    await server.kill9();
    await server.restart({ variables: { SLUICE_REQUEST_LOG: "on", SLUICE_READ_MEMORY: "off" } });
    await answersOf(server);
    expect(await answersOf(server)).toEqual(shared);
    const { memory, call } = await toldByNow(server);
    expect(memory).toBe(0);
    expect(call).toBeGreaterThan(0);
  });
});
