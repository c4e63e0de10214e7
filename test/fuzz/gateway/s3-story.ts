import { SessionOpened } from "../../../protocol/files.ts";
import type { Tally } from "../tally.ts";
import { BOUNDARY, bytesOf, checksumsOf } from "./bytes.ts";
import { KEYS } from "./documents.ts";
import { decodedLength, type Framing, frame } from "./framing.ts";
import { type Ground, headOf, leave, mustBeSound, mustHave } from "./ground.ts";
import { faultOf } from "./rules.ts";
import type { S3Ask } from "./s3-ask.ts";
import { encode, type Key, presigned, sha256, signed } from "./signing.ts";
import { exchangeRaw, type RawAnswer, type RawRequest } from "./wire.ts";

/*
 * A story is a few requests to one branch, played one after the other. Beside it goes a naive model, which is a map of keys to
 * bytes. A request that is acknowledged does what it says; one that is refused leaves HEAD where it was; of one that had
 * something odd put to it, that was taken all the same, the keys that it names are read, and every other stays as it was.
 */

/**
 * So much of a body is taken when it is refused. The connection of a client that sends more may end while it does, and the answer
 * with it.
 */
const TAKEN_BYTES = 256 * 1024;

interface Upload {
  readonly id: string;
  readonly key: string;
  readonly parts: Map<string, { readonly etag: string; readonly bytes: Buffer | undefined }>;
}

/** Plays a story in a new repo. Throws at the first rule that does not hold. */
export async function playS3(ground: Ground, asks: readonly S3Ask[], tally: Tally): Promise<void> {
  const story = await S3Story.begin(ground, tally);
  for (const ask of asks) {
    await story.send(ask).catch((error: unknown) => {
      throw new Error(`${ask.kind}: ${error instanceof Error ? error.message : error}`, { cause: error });
    });
  }
  await story.end();
}

class S3Story {
  readonly #ground: Ground;
  readonly #repo: string;
  readonly #tally: Tally;
  readonly #files = new Map<string, Buffer>();
  readonly #etags = new Map<string, string>();
  readonly #versions: string[] = [];
  readonly #uploads: Upload[] = [];
  #head: string | null | undefined;
  #session = "";
  #token = "x";
  #turn = 0;
  /** A lifecycle rule may have a day that is over: what it ends is not in the model. */
  #mayExpire = false;

  private constructor(ground: Ground, tally: Tally) {
    this.#ground = ground;
    this.#repo = ground.nextName();
    this.#tally = tally;
  }

  static async begin(ground: Ground, tally: Tally): Promise<S3Story> {
    const story = new S3Story(ground, tally);
    const { s3, control } = ground;
    await s3.createBucket(story.#bucket);
    for (const key of KEYS.slice(0, 8)) {
      const bytes = Buffer.from(`of ${key}`.repeat(key === "a" ? 1000 : 1));
      const { etag, version } = await s3.put(story.#bucket, key, bytes);
      story.#files.set(key, bytes);
      story.#etags.set(key, etag);
      // The newest one has them all.
      story.#versions.splice(0, 1, version);
    }
    await story.#beginUpload("dir/one");
    const path = `/repos/${story.#repo}/branches/master`;
    await control.ask("PUT", `${path}/tags/v1`, {});
    const { session } = await control.call("POST", `${path}/sessions`, { answers: SessionOpened });
    story.#session = session.toLowerCase();
    story.#head = await headOf(ground, story.#repo);
    return story;
  }

  /** An upload with one part, so that not every story has to come to begin one. */
  async #beginUpload(key: string): Promise<void> {
    const { s3 } = this.#ground;
    const target = `/${this.#bucket}/${key}`;
    const begun = await s3.ask("POST", `${target}?uploads`);
    const [, id = ""] = /<UploadId>([^<]*)</.exec(begun.text) ?? [];
    const bytes = Buffer.from("a part");
    const part = await s3.ask("PUT", `${target}?partNumber=1&uploadId=${id}`, bytes);
    this.#uploads.push({ id, key, parts: new Map([["1", { etag: part.headers.etag ?? "", bytes }]]) });
  }

  get #bucket(): string {
    return `master.${this.#repo}`;
  }

  async send(ask: S3Ask): Promise<void> {
    const key = ask.key === "{key}" ? (this.#upload?.key ?? "a") : ask.key;
    const body = bytesOf(ask.body, {
      bucket: this.#told(ask.bucket ?? "{bucket}", key),
      signer: this.#ground.door,
      now: new Date(),
      told: (text) => this.#told(text, key),
    });
    const request = this.#request(ask, { key, body });
    const answer = await exchangeRaw(this.#ground.door.endpoint, request);
    this.#tally.add(ask.odd ? `${ask.kind}, odd` : ask.kind, answer?.status ?? "none");
    if (answer === undefined) {
      const mayBeLost = ask.transfer === "cut" || request.body.length > TAKEN_BYTES;
      if (!mayBeLost) throw new Error("the connection ended without an answer");
      return await this.#resync();
    }
    const fault = faultOf(answer, { method: ask.method, api: request.target.startsWith("/api/v1") });
    if (fault !== undefined) throw new Error(fault);
    if (isRefused(answer)) return await this.#mustBeUnchanged(ask);
    await this.#take(ask, { key, body, answer });
  }

  async end(): Promise<void> {
    const head = await headOf(this.#ground, this.#repo);
    if (head !== undefined && !this.#mayExpire) {
      if (head !== this.#head) throw new Error("a request that only reads made a commit");
      await mustHave(this.#ground, this.#repo, this.#files);
      await mustBeSound(this.#ground, this.#repo);
    }
    await leave(this.#ground, this.#repo);
  }

  get #upload(): Upload | undefined {
    return this.#uploads.at(-1);
  }

  /** A text with what this story has in the place of its words. */
  #told(text: string, key: string | undefined): string {
    return text.replace(
      /\{(bucket|repo|version|session|upload|etag|token|parts)\}/g,
      (whole, word: string) => {
        switch (word) {
          case "bucket":
            return this.#bucket;
          case "repo":
            return this.#repo;
          case "version":
            return this.#versions[this.#turn++ % this.#versions.length] ?? whole;
          case "session":
            return this.#session;
          case "upload":
            return this.#upload?.id ?? `${this.#bucket}.01BX5ZZKBKACTAV9WEVGEMMVRZ`;
          case "etag":
            return this.#etags.get(key ?? "") ?? '"none"';
          case "token":
            return this.#token;
          default:
            return partsOf(this.#upload);
        }
      },
    );
  }

  #request(ask: S3Ask, { key, body: plain }: { key: string | undefined; body: Buffer }): RawRequest {
    const told = (text: string): string => this.#told(text, key);
    const checksums = checksumsOf(plain);
    const valued = (text: string): string =>
      Object.entries(checksums).reduce((whole, [word, sum]) => whole.replaceAll(word, sum), told(text));
    const bucket = told(ask.bucket ?? "{bucket}");
    const path = `/${bucket}${key === undefined ? "" : `/${pathOf(key, ask.path)}`}${ask.behind ?? ""}`;
    const query = ask.query.map(([name, value]) =>
      value === undefined ? encode(name) : `${encode(name)}=${encode(told(value))}`,
    );
    const target = wire(query.length === 0 ? path : `${path}?${query.join("&")}`);
    const { framing } = ask;
    const headers: [string, string][] = ask.headers.map(([name, value]) => [name, valued(value)]);
    if (ask.body?.of === "form") headers.push(["content-type", `multipart/form-data; boundary=${BOUNDARY}`]);
    if (framing) headers.push(...framingHeaders(plain, framing));
    const { host } = new URL(this.#ground.door.endpoint);
    const signable = {
      method: ask.method,
      target,
      host,
      headers: headers.filter(([, value]) => /^[\t -~]*$/.test(value)),
    };
    const request = { method: ask.method, target, headers, body: plain, transfer: ask.transfer };
    switch (ask.auth) {
      case "none":
        return request;
      case "presigned":
      case "expired-url":
        if (framing) break;
        return {
          ...request,
          target: presigned(
            this.#ground.door,
            { ...signable, payload: "" },
            { now: timeOf(ask), expires: ask.auth === "presigned" ? "300" : "1" },
          ),
        };
    }
    const payload = framing ? payloadName(framing) : payloadOf(ask, plain);
    const signature = signed(this.#keyFor(ask), { ...signable, payload }, timeOf(ask));
    const body = framing
      ? frame(plain, framing, { chunks: signature.chunks, crc32: checksums["{crc32}"] })
      : plain;
    const spoil = ([name, value]: readonly [string, string]): [string, string] => [
      name,
      name === "authorization" && ask.auth === "spoiled" ? value.slice(0, -9) : value,
    ];
    return { ...request, body, headers: [...headers, ...signature.headers.map(spoil)] };
  }

  #keyFor({ auth }: S3Ask): Key {
    if (auth === "reader") return this.#ground.reader;
    if (auth === "other-secret") return { ...this.#ground.door, secretAccessKey: "other" };
    return auth === "unknown-key" ? { ...this.#ground.door, accessKeyId: "nobody" } : this.#ground.door;
  }

  async #mustBeUnchanged({ method }: S3Ask): Promise<void> {
    if (method === "GET" || method === "HEAD" || method === "OPTIONS" || this.#mayExpire) return;
    const head = await headOf(this.#ground, this.#repo);
    if (head !== this.#head) throw new Error(`it was refused, and HEAD went from ${this.#head} to ${head}`);
  }

  /** Of a request that was done: what it means for the model. */
  async #take(ask: S3Ask, done: Done): Promise<void> {
    const { key = "", answer } = done;
    this.#learn(ask, done);
    if (ask.kind === "PutBucketSetting" && ask.body?.of === "text")
      this.#mayExpire ||= /<Date>(?!2091)/.test(ask.body.text);
    const exact = !ask.odd && !key.endsWith("/") && ask.bucket === undefined;
    if (exact && ask.means === "get") this.#mustBeRead(ask, { key, answer });
    if (["GET", "HEAD", "OPTIONS"].includes(ask.method)) return;
    this.#head = await headOf(this.#ground, this.#repo);
    const known = exact && this.#acknowledged(ask, done);
    if (known) return;
    if (ask.behind !== undefined || ask.query.some(([name]) => name === "filepath"))
      return await this.#resync();
    await this.#adopt(touchedBy(ask, key));
  }

  /** Names that later requests are told. */
  #learn({ method }: S3Ask, { key, answer }: Done): void {
    const { headers, body } = answer;
    const version = headers.get("x-amz-version-id");
    if (version !== undefined && version !== "null" && method !== "DELETE") this.#versions.push(version);
    const etag = headers.get("etag");
    if (etag !== undefined && key !== undefined) this.#etags.set(key, etag);
    const [, token] = /<NextContinuationToken>([^<]*)</.exec(body.toString("latin1", 0, 20_000)) ?? [];
    if (token !== undefined) this.#token = token;
  }

  /** Whether the model knows by itself what was done. */
  #acknowledged(ask: S3Ask, { key = "", body, answer }: Done): boolean {
    switch (ask.means) {
      case "put":
        this.#files.set(key, body);
        return true;
      case "delete":
        if (ask.query.length === 0) this.#files.delete(key);
        return ask.query.length === 0;
      case "copy": {
        const copied = this.#named(ask);
        if (copied) this.#files.set(key, copied);
        return copied !== undefined;
      }
      case "upload": {
        const [, id] = /<UploadId>([^<]*)</.exec(answer.body.toString()) ?? [];
        if (id === undefined) throw new Error("an upload without an id");
        this.#uploads.push({ id, key, parts: new Map() });
        return true;
      }
      case "part":
        this.#addPart(ask, { body, answer });
        return true;
      case "complete":
        return this.#complete(ask, key);
      default:
        return false;
    }
  }

  #addPart(ask: S3Ask, { body, answer }: Pick<Done, "body" | "answer">): void {
    const number = ask.query.find(([name]) => name === "partNumber")?.[1] ?? "";
    const [, copied] = /<ETag>(?:&quot;|")?([^<"&]*)/.exec(answer.body.toString()) ?? [];
    const etag = answer.headers.get("etag") ?? `"${copied}"`;
    this.#upload?.parts.set(number, { etag, bytes: ask.body === undefined ? undefined : body });
  }

  #complete(ask: S3Ask, key: string): boolean {
    const upload = this.#uploads.pop();
    const text = ask.body?.of === "text" ? ask.body.text : "";
    if (
      !upload ||
      !/^(<\?xml[^>]*\?>\n)?<CompleteMultipartUpload[^<>]*>\{parts\}<\/CompleteMultipartUpload>$/.test(text)
    )
      return false;
    const parts = [...upload.parts]
      .sort(([one], [other]) => Number(one) - Number(other))
      .map(([, part]) => part.bytes);
    if (parts.length === 0) throw new Error("an upload without parts was completed");
    if (parts.some((bytes) => bytes === undefined)) return false;
    this.#files.set(key, Buffer.concat(parts.filter((bytes) => bytes !== undefined)));
    return true;
  }

  /** The bytes of the source of a copy, if that is a key of the branch's HEAD. */
  #named({ headers }: S3Ask): Buffer | undefined {
    const value = headers.findLast(([name]) => name === "x-amz-copy-source")?.[1] ?? "";
    const [, source] = /^\/\{bucket\}\/([^?]+)$/.exec(value) ?? [];
    return source === undefined ? undefined : this.#files.get(decodeURIComponent(source));
  }

  #mustBeRead(
    ask: S3Ask,
    { key, answer: { status, headers, body } }: { key: string; answer: RawAnswer },
  ): void {
    if (
      status === 304 ||
      ask.method === "HEAD" ||
      ask.query.some(([name]) => name !== "partNumber" && !name.startsWith("response-"))
    )
      return;
    const bytes = this.#files.get(key);
    if (bytes === undefined) throw new Error(`'${key}' is read, and was never put`);
    const [, from = "0", to = String(bytes.length - 1)] =
      /^bytes (\d+)-(\d+)\//.exec(headers.get("content-range") ?? "") ?? [];
    if (!body.equals(bytes.subarray(Number(from), Number(to) + 1)))
      throw new Error(`'${key}' has not the bytes that were put`);
  }

  async #adopt(keys: readonly string[]): Promise<void> {
    for (const key of new Set(keys)) {
      const answer = await this.#ground.s3.ask(
        "GET",
        `/${this.#bucket}/${key.split("/").map(encode).join("/")}`,
      );
      if (answer.status === 200 && !key.endsWith("/")) this.#files.set(key, answer.body);
      else this.#files.delete(key);
    }
  }

  /** Of what may have touched anything: everything is looked at anew. */
  async #resync(): Promise<void> {
    this.#head = await headOf(this.#ground, this.#repo);
    if (this.#head !== undefined)
      await this.#adopt([...this.#files.keys(), ...KEYS, ...(await this.#ground.s3.keys(this.#bucket))]);
  }
}

interface Done {
  readonly key: string | undefined;
  readonly body: Buffer;
  readonly answer: RawAnswer;
}

/** Answers that begin before their work is done have their refusal in a body of 200. */
function isRefused({ status, body }: RawAnswer): boolean {
  return (
    status >= 400 ||
    (status === 200 && /^\s*(<\?xml[^>]*\?>)?\s*<Error>/.test(body.toString("latin1", 0, 500)))
  );
}

function touchedBy({ body }: S3Ask, key: string): readonly string[] {
  const inPath = key === "" ? [] : [key];
  if (body?.of === "form") return [...inPath, body.fields.find(([name]) => name === "key")?.[1] ?? ""];
  return body?.of === "text" ? [...inPath, ...KEYS] : inPath;
}

function pathOf(key: string, how: S3Ask["path"]): string {
  switch (how) {
    case "usual":
      return key.split("/").map(encode).join("/");
    case "all":
      return [...Buffer.from(key)]
        .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`)
        .join("");
    case "lower":
      return key
        .split("/")
        .map(encode)
        .join("/")
        .replace(/%../g, (digits) => digits.toLowerCase());
    case "bare":
      return key.replace(/[%?#\s]/g, encode);
  }
}

/** What a line of a request can't bear is encoded; anything else goes as it is. */
function wire(target: string): string {
  return target.replace(
    /[\0-\u0020\u007f]/g,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}

function partsOf(upload: Upload | undefined): string {
  const parts = [...(upload?.parts ?? [])].sort(([one], [other]) => Number(one) - Number(other));
  return parts
    .map(
      ([number, { etag }]) =>
        `<Part><PartNumber>${number}</PartNumber><ETag>${etag.replaceAll('"', "&quot;")}</ETag></Part>`,
    )
    .join("");
}

function framingHeaders(body: Buffer, framing: Framing): [string, string][] {
  const announced: [string, string][] = framing.trailer ? [["x-amz-trailer", framing.trailer.announced]] : [];
  return [
    ["content-encoding", "aws-chunked"],
    ["x-amz-decoded-content-length", String(decodedLength(body, framing))],
    ...announced,
  ];
}

function payloadName({ signed: isSigned, trailer }: Framing): string {
  if (!isSigned) return "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
  return `STREAMING-AWS4-HMAC-SHA256-PAYLOAD${trailer ? "-TRAILER" : ""}`;
}

function payloadOf({ auth }: S3Ask, body: Buffer): string {
  if (auth === "unsigned-payload") return "UNSIGNED-PAYLOAD";
  return sha256(auth === "wrong-hash" ? "other" : body);
}

function timeOf({ auth }: S3Ask): Date {
  const late = auth === "late" ? 16 * 60_000 : auth === "expired-url" ? 10_000 : 0;
  return new Date(Date.now() - late);
}
