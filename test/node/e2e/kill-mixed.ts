import { z } from "zod";
import { Control } from "../../support/control.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { type Answer, isGone, signedExchange } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { objectTarget, S3 } from "../../support/s3.ts";
import { describeWhole, selfDescribing } from "../../support/self-describing.ts";

const REPO = "mixed";
const BUCKET = `master.${REPO}`;
const OTHER = `other.${REPO}`;
/** What all contents say that they are: a copy has the bytes of another key. */
const LABEL = "bytes";
/** Inline, and one blob. */
const SIZES = [900, 60_000] as const;
const PART_BYTES = 5 * 1024 * 1024;
/** How much of the history stays. */
const KEPT = { commits: 10 };
/** Names that one writer writes over and over. */
const NAMES = 6;

/** A content by its number; null: the name is deleted. */
type Value = number | null;

interface Write {
  readonly value: Value;
  acknowledged: boolean;
}

/** A name that one writer alone writes, one write after the other, and all that was asked of it since it was last read. */
class Name {
  #writes: Write[] = [{ value: null, acknowledged: true }];

  /** Asks for a value; what `ask` resolves is acknowledged. */
  async write<T>(value: Value, ask: () => Promise<T>): Promise<T> {
    const write: Write = { value, acknowledged: false };
    this.#writes.push(write);
    const answer = await ask();
    write.acknowledged = true;
    return answer;
  }

  /**
   * Whether a value may be what is found: the last that was acknowledged, or one that was asked for later. From then on it
   * is what must be there. Returns what is wrong.
   */
  settle(found: Value): string | undefined {
    const last = this.#writes.findLastIndex(({ acknowledged }) => acknowledged);
    const isAllowed = this.#writes.slice(Math.max(last, 0)).some(({ value }) => value === found);
    if (!isAllowed) {
      const allowed = this.#writes.slice(Math.max(last, 0)).map(({ value }) => value);
      return `has ${found ?? "nothing"}, and should have one of ${allowed.map((value) => value ?? "nothing")}`;
    }
    this.#writes = [{ value: found, acknowledged: true }];
    return undefined;
  }
}

const Opened = z.object({ session: z.string(), bucket: z.string() });

/** One kind of work, done again and again by one client until the gateway is gone. */
type Work = (load: MixedLoad) => Promise<void>;

/**
 * What clients do side by side. Whatever gives bytes back or holds them has an entry here, with names that nobody else
 * writes.
 */
export const WORKS: Readonly<Record<string, Work>> = {
  async puts(load) {
    await load.put(load.own("puts"), load.oneOf(SIZES));
  },
  async deletes(load) {
    const key = load.own("deletes");
    await load.put(key, load.oneOf(SIZES));
    await load.remove(key);
  },
  async copies(load) {
    const source = load.own("copies");
    const value = await load.put(source, load.oneOf(SIZES));
    for (const bucket of [BUCKET, OTHER]) await load.copy(source, { bucket, key: load.own("copied"), value });
  },
  async uploads(load) {
    await load.multipart(load.own("uploads"), { large: load.random() < 0.2, end: "complete" });
    await load.multipart(load.own("uploads"), { large: false, end: "abort" });
    // Nobody comes back for this one.
    await load.multipart(load.own("uploads"), { large: false, end: "leave" });
  },
  async openCommits(load) {
    await load.openCommit(load.random() < 0.7 ? "finish" : "abort");
  },
  async commits(load) {
    await load.bulkCommit();
  },
  async forks(load) {
    await load.fork();
  },
  async tags(load) {
    await load.tag();
  },
};

/** Parallel clients against a gateway that dies under them, and what they were promised. */
export class MixedLoad {
  readonly random: () => number;
  readonly #door: Door;
  readonly #s3: S3;
  readonly #control: Control;
  readonly #names = new Map<string, Name>();
  /** Files that one commit writes or none: they always have the same value. */
  readonly #groups = new Map<string, readonly string[]>();
  /** What the tag's commit has at the tagged key. */
  readonly #tagged = new Name();
  #values = 0;
  acknowledged = 0;

  constructor(door: Door, { random }: { random: () => number }) {
    this.#door = door;
    this.#s3 = new S3(door);
    this.#control = new Control(door);
    this.random = random;
  }

  /** Of the history, only the newest commits and what has a name stay. */
  async begin(): Promise<void> {
    for (const bucket of [BUCKET, OTHER]) await this.#s3.createBucket(bucket);
    for (const branch of ["master", "other"]) {
      const path = `/repos/${REPO}/branches/${branch}/keep`;
      await this.#control.call("PUT", path, { body: { keep: KEPT }, answers: z.unknown() });
    }
  }

  /** Every client works until the gateway is gone. */
  async run(): Promise<void> {
    await Promise.all(Object.values(WORKS).map((work) => this.#untilGone(work)));
  }

  /** Holds what is there to what was promised; an error says what is lost, and what is mixed. */
  async verify(): Promise<void> {
    const found = new Map<string, Value>();
    for (const name of this.#names.keys()) found.set(name, await this.#valueAt(name));
    const wrong: string[] = [];
    for (const [name, history] of this.#names) {
      const fault = history.settle(found.get(name) ?? null);
      if (fault !== undefined) wrong.push(`${name} ${fault}`);
    }
    for (const [group, names] of this.#groups) {
      const values = new Set(names.map((name) => found.get(name)));
      if (values.size > 1) wrong.push(`${group} is mixed of ${[...values]}`);
    }
    const tagged = await this.#valueAt(`pin.${BUCKET}/tagged`);
    const fault = this.#tagged.settle(tagged);
    if (fault !== undefined) wrong.push(`the tag ${fault}`);
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  }

  /** One of a few names of a kind of work. */
  own(work: string): string {
    return `${work}/${Math.floor(this.random() * NAMES)}`;
  }

  oneOf<T>(items: readonly [T, ...T[]]): T {
    return items[Math.floor(this.random() * items.length)] ?? items[0];
  }

  async put(key: string, size: number, bucket = BUCKET): Promise<number> {
    const value = this.#value();
    const body = bytesOf(value, size);
    await this.#write(`${bucket}/${key}`, value, async () => {
      const { etag } = await this.#s3.put(bucket, key, body);
      if (etag !== expectedEtag(body)) throw new Error(`${key} was acknowledged with ${etag}`);
    });
    return value;
  }

  async remove(key: string): Promise<void> {
    await this.#write(`${BUCKET}/${key}`, null, () => this.#s3.delete(BUCKET, key));
  }

  async copy(
    source: string,
    { bucket, key, value }: { bucket: string; key: string; value: number },
  ): Promise<void> {
    const headers = { "x-amz-copy-source": objectTarget(BUCKET, source) };
    const target = objectTarget(bucket, key);
    await this.#write(`${bucket}/${key}`, value, () => this.#good("PUT", target, { headers }));
  }

  async multipart(
    key: string,
    { large, end }: { large: boolean; end: "complete" | "abort" | "leave" },
  ): Promise<void> {
    const target = objectTarget(BUCKET, key);
    const { text } = await this.#good("POST", `${target}?uploads`);
    const upload = `${target}?uploadId=${encodeURIComponent(/<UploadId>([^<]+)</.exec(text)?.[1] ?? "")}`;
    const value = this.#value();
    const body = bytesOf(value, large ? PART_BYTES + 1000 : 7000);
    const parts = large ? [body.subarray(0, PART_BYTES), body.subarray(PART_BYTES)] : [body];
    const sent: string[] = [];
    for (const [index, part] of parts.entries()) {
      const { headers } = await this.#good("PUT", `${upload}&partNumber=${index + 1}`, { body: part });
      sent.push(`<Part><PartNumber>${index + 1}</PartNumber><ETag>${headers.etag}</ETag></Part>`);
    }
    if (end === "leave") return;
    if (end === "abort") return void (await this.#good("DELETE", upload));
    const xml = `<CompleteMultipartUpload>${sent.join("")}</CompleteMultipartUpload>`;
    await this.#write(`${BUCKET}/${key}`, value, async () => {
      const answer = await this.#good("POST", upload, { body: xml });
      if (!answer.text.includes("<CompleteMultipartUploadResult")) throw gone(answer.text);
    });
  }

  async openCommit(end: "finish" | "abort"): Promise<void> {
    const path = `/repos/${REPO}/branches/master/sessions`;
    const { session, bucket } = await this.#control.call("POST", path, { answers: Opened });
    const value = this.#value();
    const keys = [0, 1, 2].map((n) => `open/${n}`);
    for (const [n, key] of keys.entries()) await this.#s3.put(bucket, key, bytesOf(value, 800 + n * 30_000));
    if (end === "abort") {
      await this.#control.call("DELETE", `${path}/${session}`, { answers: z.unknown() });
    } else {
      await this.#writeAll("open", { keys, value }, () =>
        this.#control.call("POST", `${path}/${session}/finish`, { answers: z.unknown() }),
      );
    }
  }

  async bulkCommit(): Promise<void> {
    const value = this.#value();
    const files = [0, 1, 2, 3].map((n) => ({ key: `together/${n}`, body: bytesOf(value, 700 + n * 20_000) }));
    const upload = await this.#control.openUpload(REPO);
    const operations: object[] = [];
    for (const { key, body } of files) {
      const [digest = "", size] = expectedEtag(body).slice(1, -1).split("-");
      const id = { digest, size: Number(size) };
      await this.#control.addContent(upload, body, id);
      operations.push({ put: key, ...id });
    }
    const keys = files.map(({ key }) => key);
    await this.#writeAll("together", { keys, value }, () => this.#control.commit(REPO, upload, operations));
  }

  /** A branch made from this one, whose files read; then it is deleted, now and then not. */
  async fork(): Promise<void> {
    const name = `fork-${Math.floor(this.random() * 3)}`;
    const from = { repo: REPO, branch: "master" };
    const made = await this.#control.ask("POST", `/repos/${REPO}/branches`, { name, from });
    if (made.status >= 300 && made.status !== 409) throw gone(made.text);
    const bucket = `${name}.${REPO}`;
    for (const key of (await this.#keysOf(bucket)).slice(0, 5)) await this.#valueAt(`${bucket}/${key}`);
    if (this.random() < 0.7) await this.#s3.ask("DELETE", `/${bucket}`);
  }

  /** The tag follows a key that is written over and over. */
  async tag(): Promise<void> {
    const value = await this.put("tagged", this.oneOf(SIZES));
    const path = `/repos/${REPO}/branches/master/tags/pin`;
    await this.#tagged.write(value, async () => {
      const answer = await this.#control.ask("PUT", path, { force: true });
      if (answer.status >= 300) throw gone(`${path}: ${answer.status} ${answer.text}`);
    });
    // Commits that nothing keeps but the tag.
    for (let n = 0; n < 3; n++) await this.put("tagged", this.oneOf(SIZES));
  }

  async #keysOf(bucket: string): Promise<string[]> {
    const answer = await this.#s3.ask("GET", `/${bucket}?list-type=2`);
    return [...answer.text.matchAll(/<Key>([^<]+)</g)].map(([, key = ""]) => key);
  }

  async #untilGone(work: Work): Promise<void> {
    try {
      for (;;) {
        await work(this);
        this.acknowledged++;
      }
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  }

  async #writeAll(
    group: string,
    { keys, value }: { keys: readonly string[]; value: number },
    ask: () => Promise<unknown>,
  ): Promise<void> {
    const names = keys.map((key) => `${BUCKET}/${key}`);
    this.#groups.set(group, names);
    const [first, ...others] = names;
    const all = others.reduce((inner, name) => () => this.#write(name, value, inner), ask);
    await this.#write(first ?? "", value, all);
  }

  #write(name: string, value: Value, ask: () => Promise<unknown>): Promise<unknown> {
    const history = this.#names.get(name) ?? new Name();
    this.#names.set(name, history);
    return history.write(value, ask);
  }

  /** What a name has; throws if its bytes are not those of one write. */
  async #valueAt(name: string): Promise<Value> {
    const [bucket = "", ...key] = name.split("/");
    const bytes = await this.#s3.get(bucket, key.join("/"));
    return bytes ? describeWhole(LABEL, bytes).nonce : null;
  }

  async #good(
    method: string,
    target: string,
    { headers = {}, body }: { headers?: Record<string, string>; body?: Uint8Array | string } = {},
  ): Promise<Answer> {
    const asked = { method, target, headers, ...(body !== undefined && { body }) };
    const answer = await signedExchange(this.#door, asked);
    if (answer.status >= 300) throw new Error(`${method} ${target}: ${answer.status} ${answer.text}`);
    return answer;
  }

  #value(): number {
    return this.#values++;
  }
}

function bytesOf(value: number, size: number): Buffer {
  return selfDescribing({ key: LABEL, nonce: value, size });
}

function gone(text: string): Error {
  return new Error(`not acknowledged: ${text}`);
}
