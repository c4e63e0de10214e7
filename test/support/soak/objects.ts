import { z } from "zod";
import { Control } from "../control.ts";
import { type Answer, signedExchange } from "../http.ts";
import type { Door } from "../keys.ts";
import { seededBytes } from "../random.ts";
import { objectTarget, S3 } from "../s3.ts";
import { type Operation, oneOf, Surprise, same } from "./operations.ts";

const KEYS = 40;
/** Versions of each key that are read again. */
const VERSIONS = 5;
const PART_BYTES = 5 * 1024 * 1024;

/** Bytes that can be made again. */
interface Body {
  readonly seed: number;
  readonly size: number;
}

interface Kept {
  /** Undefined: there is no such key. */
  body: Body | undefined;
  etag: string;
  readonly versions: { readonly id: string; readonly body: Body }[];
}

export interface ObjectsOptions {
  readonly door: Door;
  /** `master.<repo>`; others may write elsewhere in it. */
  readonly repo: string;
  /** All keys begin so, and nobody else writes there. */
  readonly prefix: string;
  readonly random: () => number;
}

const Opened = z.object({ session: z.string(), bucket: z.string() });

/** One client that works below a prefix of its own, and knows what must be there. */
export class Objects {
  readonly operations: readonly Operation[];
  readonly #options: ObjectsOptions;
  readonly #bucket: string;
  readonly #s3: S3;
  readonly #control: Control;
  readonly #kept = new Map<string, Kept>();

  constructor(options: ObjectsOptions) {
    this.#options = options;
    this.#bucket = `master.${options.repo}`;
    this.#s3 = new S3(options.door);
    this.#control = new Control(options.door);
    this.operations = [
      { name: "put", weight: 30, act: () => this.#put() },
      { name: "put-if", weight: 8, act: () => this.#putIf() },
      { name: "get", weight: 22, act: () => this.#get() },
      { name: "get-version", weight: 8, act: () => this.#getVersion() },
      { name: "delete", weight: 10, act: () => this.#delete() },
      { name: "copy", weight: 10, act: () => this.#copy() },
      { name: "list", weight: 4, act: () => this.#list() },
      { name: "multipart", weight: 3, act: () => this.#multipart() },
      { name: "multipart-large", weight: 0.2, act: () => this.#multipart({ large: true }) },
      { name: "multipart-abort", weight: 2, act: () => this.#multipartAborted() },
      { name: "open-commit", weight: 2, act: () => this.#openCommit("finish") },
      { name: "open-commit-abort", weight: 1, act: () => this.#openCommit("abort") },
    ];
  }

  /** Every key is there with its bytes, and no other; no upload is left. */
  async verify(): Promise<void> {
    await this.#list();
    for (const key of this.#kept.keys()) await this.#expectBytes(key);
    const uploads = await this.#ask("GET", `/${this.#bucket}?uploads&prefix=${this.#options.prefix}`);
    same(`uploads left in ${this.#bucket}`, { found: uploads.text.includes("<Upload>"), expected: false });
  }

  async #put(): Promise<void> {
    const key = this.#key();
    const body = this.#body();
    this.#record(key, body, this.#good(await this.#putBytes(key, body)));
  }

  async #putIf(): Promise<void> {
    const { random } = this.#options;
    const key = this.#key();
    const body = this.#body();
    const { body: there, etag } = this.#of(key);
    const wrong = random() < 0.3;
    const headers: Record<string, string> = {};
    if (random() < 0.5) headers["if-none-match"] = "*";
    else headers["if-match"] = wrong || !there ? '"00000000000000000000000000000000"' : etag;
    const holds = "if-none-match" in headers ? !there : there && !wrong;
    const answer = await this.#putBytes(key, body, headers);
    if (holds) return this.#record(key, body, this.#good(answer));
    // A key that is not there has nothing that If-Match could match.
    const expected = "if-match" in headers && !there ? 404 : 412;
    same(`PUT ${key} with ${JSON.stringify(headers)}`, { found: answer.status, expected });
  }

  #get(): Promise<void> {
    return this.#expectBytes(this.#key());
  }

  async #getVersion(): Promise<void> {
    const key = this.#key();
    const { versions } = this.#of(key);
    if (versions.length === 0) return this.#expectBytes(key);
    const { id, body } = oneOf(versions, this.#options.random);
    const answer = this.#good(await this.#ask("GET", `${objectTarget(this.#bucket, key)}?versionId=${id}`));
    this.#expectSame(`${key} of version ${id}`, { found: answer.body, body });
  }

  async #delete(): Promise<void> {
    const key = this.#key();
    same(`DELETE ${key}`, {
      found: (await this.#ask("DELETE", objectTarget(this.#bucket, key))).status,
      expected: 204,
    });
    this.#of(key).body = undefined;
  }

  async #copy(): Promise<void> {
    const [from, to] = [this.#key(), this.#key()];
    const source = this.#of(from);
    const headers = {
      "x-amz-copy-source": objectTarget(this.#bucket, from),
      "x-amz-metadata-directive": "REPLACE",
    };
    const answer = await this.#ask("PUT", objectTarget(this.#bucket, to), { headers });
    if (!source.body) {
      return same(`copy of ${from}, which is not there`, { found: answer.status, expected: 404 });
    }
    const { body, etag } = source;
    this.#record(to, body, this.#good(answer));
    this.#of(to).etag = etag;
  }

  async #list(): Promise<void> {
    const there = [...this.#kept].filter(([, { body }]) => body !== undefined).map(([key]) => key);
    same(`the list of ${this.#bucket}/${this.#options.prefix}`, {
      found: await this.#s3.keys(this.#bucket, this.#options.prefix),
      expected: there.toSorted(),
    });
  }

  async #multipart({ large = false } = {}): Promise<void> {
    const key = this.#key();
    const upload = await this.#begin(key);
    const parts: Body[] = [...(large ? [{ ...this.#body(), size: PART_BYTES }] : []), this.#body()];
    const sent = [];
    for (const [index, body] of parts.entries()) {
      const target = `${upload}&partNumber=${index + 1}`;
      const { headers } = this.#good(await this.#ask("PUT", target, { body: bytesOf(body) }));
      sent.push(`<Part><PartNumber>${index + 1}</PartNumber><ETag>${headers.etag}</ETag></Part>`);
    }
    const xml = `<CompleteMultipartUpload>${sent.join("")}</CompleteMultipartUpload>`;
    const answer = this.#good(await this.#ask("POST", upload, { body: xml }));
    const etag = /<ETag>(?:&quot;|")?([^<&"]+)/.exec(answer.text)?.[1];
    if (!etag) throw new Surprise(`the upload of ${key} was not completed: ${answer.text}`);
    const [first] = parts;
    // One part is one body; two are read as a whole, and not kept in the model.
    if (parts.length === 1 && first) {
      this.#record(key, first, answer);
      this.#of(key).etag = `"${etag}"`;
      return;
    }
    const found = this.#good(await this.#ask("GET", objectTarget(this.#bucket, key))).body;
    if (!found.equals(Buffer.concat(parts.map(bytesOf))))
      throw new Surprise(`${key} has other bytes than its parts`);
    await this.#ask("DELETE", objectTarget(this.#bucket, key));
    this.#of(key).body = undefined;
  }

  async #multipartAborted(): Promise<void> {
    const key = this.#key();
    const upload = await this.#begin(key);
    this.#good(await this.#ask("PUT", `${upload}&partNumber=1`, { body: bytesOf(this.#body()) }));
    same(`the end of an upload of ${key}`, {
      found: (await this.#ask("DELETE", upload)).status,
      expected: 204,
    });
    await this.#expectBytes(key);
  }

  async #begin(key: string): Promise<string> {
    const target = objectTarget(this.#bucket, key);
    const { text } = this.#good(await this.#ask("POST", `${target}?uploads`));
    const id = /<UploadId>([^<]+)</.exec(text)?.[1];
    if (!id) throw new Surprise(`no upload of ${key} was begun: ${text}`);
    return `${target}?uploadId=${encodeURIComponent(id)}`;
  }

  /** A few puts and a deletion that are seen all at once, or never. */
  async #openCommit(end: "finish" | "abort"): Promise<void> {
    const { repo, door } = this.#options;
    const path = `/repos/${repo}/branches/master/sessions`;
    const { session, bucket } = await this.#control.call("POST", path, { answers: Opened });
    const puts = new Map(Array.from({ length: 3 }, () => [this.#key(), this.#body()] as const));
    const etags = new Map<string, string>();
    for (const [key, body] of puts) {
      const ask = { method: "PUT", target: objectTarget(bucket, key), body: bytesOf(body) };
      etags.set(key, this.#good(await signedExchange(door, ask)).headers.etag ?? "");
    }
    const gone = this.#key();
    await this.#s3.delete(bucket, gone);
    await this.#expectBytes(gone);
    if (end === "abort") {
      await this.#control.call("DELETE", `${path}/${session}`, { answers: z.unknown() });
    } else {
      await this.#control.call("POST", `${path}/${session}/finish`, { answers: z.unknown() });
      for (const [key, body] of puts) {
        Object.assign(this.#of(key), { body, etag: etags.get(key) });
      }
      this.#of(gone).body = undefined;
    }
    for (const key of [...puts.keys(), gone]) await this.#expectBytes(key);
  }

  async #expectBytes(key: string): Promise<void> {
    const { body } = this.#of(key);
    const answer = await this.#ask("GET", objectTarget(this.#bucket, key));
    if (!body) return same(`GET ${key}, which is not there`, { found: answer.status, expected: 404 });
    this.#expectSame(key, { found: this.#good(answer).body, body });
  }

  #expectSame(key: string, { found, body }: { found: Buffer; body: Body }): void {
    if (!found.equals(bytesOf(body))) {
      throw new Surprise(
        `${this.#bucket}/${key} has ${found.length} other bytes than the ${body.size} of seed ${body.seed}`,
      );
    }
  }

  #putBytes(key: string, body: Body, headers: Record<string, string> = {}): Promise<Answer> {
    return this.#ask("PUT", objectTarget(this.#bucket, key), { body: bytesOf(body), headers });
  }

  #record(key: string, body: Body, { headers }: Answer): void {
    const kept = this.#of(key);
    kept.body = body;
    kept.etag = headers.etag ?? "";
    const id = headers["x-amz-version-id"];
    if (id) kept.versions.push({ id, body });
    if (kept.versions.length > VERSIONS) kept.versions.shift();
  }

  #ask(
    method: string,
    target: string,
    { headers = {}, body }: { headers?: Record<string, string>; body?: Uint8Array | string } = {},
  ): Promise<Answer> {
    return signedExchange(this.#options.door, {
      method,
      target,
      headers,
      ...(body !== undefined && { body }),
    });
  }

  #good(answer: Answer): Answer {
    if (answer.status !== 200) throw new Surprise(`expected 200, got ${answer.status}: ${answer.text}`);
    return answer;
  }

  #of(key: string): Kept {
    const kept = this.#kept.get(key) ?? { body: undefined, etag: "", versions: [] };
    this.#kept.set(key, kept);
    return kept;
  }

  #key(): string {
    return `${this.#options.prefix}key-${Math.floor(this.#options.random() * KEYS)}`;
  }

  /** Mostly small; some go by the blob store. */
  #body(): Body {
    const { random } = this.#options;
    const large = random() < 0.1;
    return { seed: Math.floor(random() * 2 ** 32), size: Math.floor(random() * (large ? 100_000 : 2000)) };
  }
}

function bytesOf({ seed, size }: Body): Buffer {
  return seededBytes(size, seed);
}
