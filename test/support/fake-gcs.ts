import { verify } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createCRC32 } from "hash-wasm";

/** An object that the fake holds. */
export interface FakeObject {
  readonly bytes: Buffer;
  readonly contentType?: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** New with every write. */
  readonly generation: number;
}

interface Session {
  readonly key: string;
  readonly contentType?: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  /** `ifGenerationMatch` of its beginning, which holds for its end as well. */
  readonly condition: string | null;
  bytes: Buffer;
}

interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

interface Reply {
  readonly status: number;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The polynomial of CRC-32C, reversed (RFC 3720 §B.4). */
const CASTAGNOLI = 0x82f63b78;
const CHUNK_UNIT_BYTES = 256 * 1024;

/**
 * A FAKE of Google Cloud Storage: there is no server of it to run. One bucket, in memory, and of the JSON API only
 * the requests that `@google-cloud/storage` was seen to make for reading metadata, simple and resumable uploads and
 * removal, as https://cloud.google.com/storage/docs/json_api describes them. It holds every request to that: one
 * that it does not know is answered 501 and kept in `unknown`, which tests want empty. Beside it a token service
 * (RFC 8693) that knows one subject token, and self-signed tokens (RFC 7519) of one service account.
 */
export class FakeGcs {
  readonly bucket: string;
  readonly objects = new Map<string, FakeObject>();
  /** `METHOD path` of what was not understood, with the reason. */
  readonly unknown: string[] = [];
  /** What the token service takes for an access token. */
  readonly subjectToken = "subject-token-of-the-test";
  /** PEM of the service account whose own tokens are good. */
  readonly #publicKey: string;
  readonly #accessToken = "access-token-of-the-fake";
  readonly #sessions = new Map<string, Session>();
  #server: Server | undefined;
  #serial = 0;
  /** As Google's, far from the small numbers that nothing ever has. */
  #generation = 1_700_000_000_000_000;

  constructor({ bucket, publicKey }: { bucket: string; publicKey: string }) {
    this.bucket = bucket;
    this.#publicKey = publicKey;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server?.address() as AddressInfo).port}`;
  }

  async start(): Promise<void> {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(0, "127.0.0.1", resolve);
    await promise;
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => (this.#server ? this.#server.close(resolve) : resolve(undefined)));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = new URL(request.url ?? "/", `http://${request.headers.host}`);
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method = "", headers } = request;
      const body = Buffer.concat(chunks);
      const call = { method, path: url.pathname, query: url.searchParams, headers, body };
      const reply = await this.#answer(call);
      const text = reply.json === undefined ? "" : JSON.stringify(reply.json);
      response.writeHead(reply.status, {
        "content-type": "application/json; charset=UTF-8",
        "content-length": Buffer.byteLength(text),
        ...reply.headers,
      });
      response.end(text);
    } catch {
      // The client went away in the middle of its request.
      response.destroy();
    }
  }

  async #answer(call: Call): Promise<Reply> {
    const { method, path } = call;
    if (method === "POST" && path === "/token") return this.#token(call);
    // The address of an upload's session is what lets in.
    if (method === "PUT" && call.query.has("upload_id")) return this.#continueUpload(call);
    if (!this.#isKnown(call.headers.authorization ?? "")) {
      return refusal(401, "Invalid Credentials", "authError");
    }
    const [, upload, bucket, name] =
      /^(\/upload)?\/storage\/v1\/b\/([^/]+)\/o(?:\/([^/]+))?$/.exec(path) ?? [];
    if (bucket === undefined) return this.#refuse(call, "no such route");
    if (bucket !== this.bucket) return refusal(404, "The specified bucket does not exist.", "notFound");
    if (!upload) return this.#object(call, decodeURIComponent(name ?? ""));
    return method === "POST" ? this.#beginUpload(call) : this.#refuse(call, "no such route");
  }

  #refuse({ method, path, query }: Call, why: string): Reply {
    this.unknown.push(`${method} ${path}?${query}: ${why}`);
    return refusal(501, why, "notImplemented");
  }

  #token({ body }: Call): Reply {
    const form = new URLSearchParams(body.toString());
    if (form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:token-exchange") {
      return { status: 400, json: { error: "unsupported_grant_type" } };
    }
    if (form.get("subject_token") !== this.subjectToken) {
      return {
        status: 400,
        json: { error: "invalid_grant", error_description: "The subject token is not known." },
      };
    }
    const issued_token_type = "urn:ietf:params:oauth:token-type:access_token";
    return {
      status: 200,
      json: { access_token: this.#accessToken, issued_token_type, token_type: "Bearer", expires_in: 3600 },
    };
  }

  #isKnown(authorization: string): boolean {
    const token = /^Bearer (.+)$/.exec(authorization)?.[1] ?? "";
    if (token === this.#accessToken) return true;
    const [header = "", claims = "", signature = ""] = token.split(".");
    const signed = Buffer.from(`${header}.${claims}`);
    return verify("RSA-SHA256", signed, this.#publicKey, Buffer.from(signature, "base64url"));
  }

  async #object(call: Call, key: string): Promise<Reply> {
    const object = this.objects.get(key);
    if (key === "" || !["GET", "DELETE"].includes(call.method)) return this.#refuse(call, "no such route");
    if (call.query.has("alt")) return this.#refuse(call, "no downloads here");
    if (!object) return refusal(404, `No such object: ${this.bucket}/${key}`, "notFound");
    if (call.method === "GET") return { status: 200, json: await this.#resource(key, object) };
    if (!this.#holds(key, call.query.get("ifGenerationMatch"))) return CONDITION_NOT_MET;
    this.objects.delete(key);
    return { status: 204 };
  }

  /** Whether the object has the generation of a request's condition; 0: there is none. */
  #holds(key: string, condition: string | null): boolean {
    return condition === null || Number(condition) === (this.objects.get(key)?.generation ?? 0);
  }

  /** Writes an object as anybody would. */
  write(key: string, { bytes, contentType, metadata }: Omit<FakeObject, "generation">): FakeObject {
    this.#generation += 1;
    const object = { bytes, contentType, metadata, generation: this.#generation };
    this.objects.set(key, object);
    return object;
  }

  async #beginUpload(call: Call): Promise<Reply> {
    const key = call.query.get("name") ?? "";
    if (key === "") return this.#refuse(call, "an upload without a name");
    const condition = call.query.get("ifGenerationMatch");
    if (!this.#holds(key, condition)) return CONDITION_NOT_MET;
    if (call.query.get("uploadType") === "multipart") return this.#simpleUpload(call, key);
    if (call.query.get("uploadType") !== "resumable") return this.#refuse(call, "no such uploadType");
    const { metadata = {} } = JSON.parse(call.body.toString());
    const contentType = String(call.headers["x-upload-content-type"]);
    this.#serial += 1;
    const id = `session-${this.#serial}`;
    this.#sessions.set(id, { key, contentType, metadata, condition, bytes: Buffer.alloc(0) });
    const query = new URLSearchParams({ uploadType: "resumable", name: key, upload_id: id });
    return { status: 200, headers: { location: `http://${call.headers.host}${call.path}?${query}` } };
  }

  /** multipart/related of two parts: the resource's metadata, then the bytes. */
  #simpleUpload(call: Call, key: string): Promise<Reply> | Reply {
    const boundary = /^multipart\/related; boundary="?([^";]+)"?$/.exec(
      call.headers["content-type"] ?? "",
    )?.[1];
    if (boundary === undefined) return this.#refuse(call, "no multipart/related");
    const [, first, second] = splitParts(call.body, `--${boundary}`);
    if (!first || !second) return this.#refuse(call, "not two parts");
    const { contentType, metadata = {} } = JSON.parse(bodyOfPart(first).toString());
    return this.#keep(key, { bytes: bodyOfPart(second), contentType, metadata });
  }

  /** A chunk at its place: 308 while more is to come. All but the last are multiples of 256 KiB. */
  #continueUpload(call: Call): Promise<Reply> | Reply {
    const session = this.#sessions.get(call.query.get("upload_id") ?? "");
    if (!session) return refusal(404, "No such upload session.", "notFound");
    const range = call.headers["content-range"] ?? "";
    const [, from, to, total] = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/.exec(range) ?? [];
    if (total === undefined) return this.#refuse(call, `content-range "${range}"`);
    if (from !== undefined && to !== undefined) {
      const complete = call.body.length === Number(to) - Number(from) + 1;
      if (Number(from) > session.bytes.length || !complete)
        return this.#refuse(call, `content-range "${range}"`);
      if (total === "*" && call.body.length % CHUNK_UNIT_BYTES > 0) {
        return this.#refuse(call, "a chunk that is no multiple of 256 KiB");
      }
      session.bytes = Buffer.concat([session.bytes.subarray(0, Number(from)), call.body]);
    }
    if (Number(total) === session.bytes.length) {
      return this.#holds(session.key, session.condition)
        ? this.#keep(session.key, session)
        : CONDITION_NOT_MET;
    }
    const { length } = session.bytes;
    return { status: 308, headers: length === 0 ? {} : { range: `bytes=0-${length - 1}` } };
  }

  async #keep(key: string, object: Omit<FakeObject, "generation">): Promise<Reply> {
    return { status: 200, json: await this.#resource(key, this.write(key, object)) };
  }

  async #resource(name: string, { bytes, metadata, generation }: FakeObject): Promise<object> {
    const crc = (await createCRC32(CASTAGNOLI)).update(bytes).digest("hex");
    const crc32c = Buffer.from(crc, "hex").toString("base64");
    return {
      kind: "storage#object",
      ...{
        bucket: this.bucket,
        name,
        size: String(bytes.length),
        generation: String(generation),
        crc32c,
        metadata,
      },
    };
  }
}

function refusal(code: number, message: string, reason: string): Reply {
  return {
    status: code,
    json: { error: { code, message, errors: [{ message, domain: "global", reason }] } },
  };
}

const CONDITION_NOT_MET = refusal(
  412,
  "At least one of the pre-conditions you specified did not hold.",
  "conditionNotMet",
);

function splitParts(body: Buffer, delimiter: string): Buffer[] {
  const parts: Buffer[] = [];
  let start = 0;
  for (let at = body.indexOf(delimiter); at >= 0; at = body.indexOf(delimiter, start)) {
    parts.push(body.subarray(start, at));
    start = at + delimiter.length;
  }
  return parts;
}

/** Behind the empty line that ends its headers, without the line break that belongs to the delimiter. */
function bodyOfPart(part: Buffer): Buffer {
  return part.subarray(part.indexOf("\r\n\r\n") + 4, part.length - 2);
}
