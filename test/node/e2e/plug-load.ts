import { z } from "zod";
import { Control } from "../../support/control.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { signedExchange } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { objectTarget, S3 } from "../../support/s3.ts";
import { describeWhole, selfDescribing } from "../../support/self-describing.ts";

const REPO = "plug";
const BUCKET = `master.${REPO}`;
/** What all contents say that they are. */
const LABEL = "bytes";
/** In a row, and in a blob. */
const SIZES = { row: 900, blob: 60_000 } as const;
const PART_BYTES = 5 * 1024 * 1024;

/** What a key was to have from some time on: a content by its number, or nothing. */
interface Write {
  readonly value: number | null;
  /** Milliseconds since 1970. */
  readonly askedAt: number;
  acknowledgedAt: number;
}

const Opened = z.object({ session: z.string(), bucket: z.string() });

/** What clients ask of a gateway, each key by one client alone, and when it was acknowledged. */
export class PlugLoad {
  #door: Door = { endpoint: "http://127.0.0.1:1", accessKeyId: "", secretAccessKey: "" };
  #s3 = new S3(this.#door);
  #control = new Control(this.#door);
  readonly #writes = new Map<string, Write[]>();
  #values = 0;

  /** Where the gateway is from now on. */
  moveTo(door: Door): void {
    this.#door = door;
    this.#s3 = new S3(door);
    this.#control = new Control(door);
  }

  /** Makes the bucket, which keeps no history. */
  async begin(): Promise<void> {
    await this.#s3.createBucket(BUCKET);
    const path = `/repos/${REPO}/branches/master/keep`;
    await this.#control.call("PUT", path, { body: { keep: { commits: 1 } }, answers: z.unknown() });
  }

  /** Files whose bytes nobody keeps any more, once their grace is over. */
  async leaveGarbage(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      await this.#put(`garbage/${n}`, SIZES.blob);
      await this.#remove(`garbage/${n}`);
    }
  }

  /** Each kind of write, side by side, so many times. */
  async run(rounds: number): Promise<void> {
    const works = [
      (n: number) => this.#put(`small/${n}`, SIZES.row),
      (n: number) => this.#put(`large/${n}`, SIZES.blob),
      async (n: number) => {
        await this.#put(`deleted/${n}`, SIZES.blob);
        await this.#remove(`deleted/${n}`);
      },
      () => this.#put("again", SIZES.blob),
      (n: number) => this.#multipart(`parts/${n}`, n === 0 ? PART_BYTES + 1000 : 7000),
      (n: number) => this.#openCommit(`open/${n}`),
      (n: number) => this.#bulkCommit(`bulk/${n}`),
    ];
    await Promise.all(
      works.map(async (work) => {
        for (let n = 0; n < rounds; n++) await work(n);
      }),
    );
  }

  /** When all that was asked for was acknowledged; milliseconds since 1970. */
  acknowledgements(): number[] {
    return [...this.#writes.values()].flat().map(({ acknowledgedAt }) => acknowledgedAt);
  }

  /** Asks a gateway for each key. Returns what was acknowledged before a time and is not so. */
  async lost(door: Door, before: number): Promise<string[]> {
    const s3 = new S3(door);
    const found = await Promise.all(
      [...this.#writes].map(async ([key, writes]) => {
        const last = writes.findLastIndex(({ acknowledgedAt }) => acknowledgedAt < before);
        const nothing: Write = { value: null, askedAt: 0, acknowledgedAt: 0 };
        const allowed = [writes[last] ?? nothing, ...writes.slice(last + 1)]
          .filter(({ askedAt }) => askedAt < before + CLOCKS_MS)
          .map(({ value }) => value);
        const has = await this.#valueAt(s3, key).catch((error) => String(error));
        return allowed.includes(has as number | null) ? [] : [`${key} has ${has}, not one of ${allowed}`];
      }),
    );
    return found.flat();
  }

  async #valueAt(s3: S3, key: string): Promise<number | null> {
    const bytes = await s3.get(BUCKET, key);
    return bytes ? describeWhole(LABEL, bytes).nonce : null;
  }

  async #put(key: string, size: number): Promise<void> {
    const value = this.#values++;
    await this.#write([key], value, () => this.#s3.put(BUCKET, key, bytesOf(value, size)));
  }

  async #remove(key: string): Promise<void> {
    await this.#write([key], null, () => this.#s3.delete(BUCKET, key));
  }

  async #multipart(key: string, size: number): Promise<void> {
    const target = objectTarget(BUCKET, key);
    const { text } = await this.#good("POST", `${target}?uploads`);
    const upload = `${target}?uploadId=${encodeURIComponent(/<UploadId>([^<]+)</.exec(text)?.[1] ?? "")}`;
    const value = this.#values++;
    const body = bytesOf(value, size);
    const parts: string[] = [];
    for (let from = 0; from < size; from += PART_BYTES) {
      const number = parts.length + 1;
      const part = body.subarray(from, from + PART_BYTES);
      const { headers } = await this.#good("PUT", `${upload}&partNumber=${number}`, part);
      parts.push(`<Part><PartNumber>${number}</PartNumber><ETag>${headers.etag}</ETag></Part>`);
    }
    const xml = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
    await this.#write([key], value, () => this.#good("POST", upload, xml));
  }

  async #openCommit(folder: string): Promise<void> {
    const path = `/repos/${REPO}/branches/master/sessions`;
    const { session, bucket } = await this.#control.call("POST", path, { answers: Opened });
    const value = this.#values++;
    const keys = [SIZES.row, SIZES.blob].map((size) => ({ key: `${folder}/${size}`, size }));
    for (const { key, size } of keys) await this.#s3.put(bucket, key, bytesOf(value, size));
    await this.#write(
      keys.map(({ key }) => key),
      value,
      () => this.#control.call("POST", `${path}/${session}/finish`, { answers: z.unknown() }),
    );
  }

  async #bulkCommit(folder: string): Promise<void> {
    const value = this.#values++;
    const upload = await this.#control.openUpload(REPO);
    const operations: { put: string; digest: string; size: number }[] = [];
    for (const size of [SIZES.row, SIZES.blob]) {
      const body = bytesOf(value, size);
      const [digest = ""] = expectedEtag(body).slice(1, -1).split("-");
      await this.#control.addContent(upload, body, { digest, size });
      operations.push({ put: `${folder}/${size}`, digest, size });
    }
    await this.#write(
      operations.map(({ put }) => put),
      value,
      () => this.#control.commit(REPO, upload, operations),
    );
  }

  async #write(keys: readonly string[], value: number | null, ask: () => Promise<unknown>): Promise<void> {
    const writes = keys.map((key): Write => {
      const write = { value, askedAt: now(), acknowledgedAt: Number.POSITIVE_INFINITY };
      const before = this.#writes.get(key);
      if (before) before.push(write);
      else this.#writes.set(key, [write]);
      return write;
    });
    await ask();
    const acknowledgedAt = now();
    for (const write of writes) write.acknowledgedAt = acknowledgedAt;
  }

  async #good(method: string, target: string, body?: Uint8Array | string) {
    const asked = { method, target, ...(body !== undefined && { body }) };
    const answer = await signedExchange(this.#door, asked);
    if (answer.status >= 300 || answer.text.includes("<Error>")) {
      throw new Error(`${method} ${target}: ${answer.status} ${answer.text}`);
    }
    return answer;
  }
}

/** More than two clocks of one machine differ by. */
const CLOCKS_MS = 50;

/** Finer than the clock of dates; milliseconds since 1970. */
function now(): number {
  return performance.timeOrigin + performance.now();
}

function bytesOf(value: number, size: number): Buffer {
  return selfDescribing({ key: LABEL, nonce: value, size });
}
