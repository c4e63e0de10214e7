import { env } from "cloudflare:test";
import { expect } from "vitest";
import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../../protocol/content.ts";
import { ErrorBody, type Issue } from "../../../protocol/errors.ts";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { handleApi } from "../../../worker/api/api.ts";
import { type Caller, type Context, openContext } from "../../../worker/app.ts";
import { type Config, readConfig } from "../../../worker/env.ts";

/** What the gateway under test is set up with. */
export const CONFIG: Config = configWith({ encryptionKeys: [btoa("k".repeat(32))] });

export function configWith(more: Partial<Config>): Config {
  const read = readConfig(env);
  if (!read.ok) throw new Error(read.problem);
  return { ...read.config, ...more };
}

/** Whoever holds the root key and sent a body that is not signed. */
export const ROOT: Caller = {
  keyId: CONFIG.rootKeys[0].id,
  scope: { level: "root", repos: null },
  payload: { form: "plain", sha256: null },
};

/** A body whose SHA-256 is signed. */
export function signedBody(sha256: string): Pick<Caller, "payload"> {
  return { payload: { form: "plain", sha256 } };
}

export function testContext(): Context {
  return openContext(env, CONFIG);
}

export interface Call {
  /** JSON, or the bytes themselves. */
  readonly body?: unknown;
  readonly caller?: Partial<Caller>;
  readonly config?: Config;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One request to the control API by a caller whose signature is good. `target`: `GET /jobs`. */
export async function api(
  target: string,
  { body, caller, headers, config = CONFIG }: Call = {},
): Promise<Response> {
  const [method = "GET", path = "/"] = target.split(" ");
  const payload = body === undefined ? null : body instanceof Uint8Array ? body : JSON.stringify(body);
  const request = new Request(`http://gateway/api/v1${path}`, {
    method,
    body: payload,
    headers: { ...headers },
  });
  const context = openContext(env, config);
  return await handleApi(request, { context, caller: { ...ROOT, ...caller } });
}

/** The JSON of an answer that must be good. */
// biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape.
export async function good(target: string, call: Call = {}): Promise<any> {
  const response = await api(target, call);
  const text = await response.text();
  expect(response.ok, `${target}: ${response.status} ${text}`).toBe(true);
  return text === "" ? undefined : JSON.parse(text);
}

export interface Failed {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly issues: readonly Issue[];
  readonly headers: Headers;
}

/** An answer that must be an error, as the protocol has it. */
export async function failed(target: string, call: Call = {}): Promise<Failed> {
  const response = await api(target, call);
  const { error, requestId } = ErrorBody.parse(await response.json());
  expect(requestId).toBe(response.headers.get("x-amz-request-id"));
  const { code, message, issues = [] } = error;
  return { status: response.status, code, message, issues, headers: response.headers };
}

/** The paths of an answer's issues. */
export function paths({ issues }: Failed): string[] {
  return issues.map(({ path }) => path).sort();
}

export async function makeBranch(address: BranchAddress): Promise<void> {
  const made = await testContext().branch(address).lifecycle.create();
  if (!made.ok) throw new Error(`${bucketName(address)}: ${made.reason}`);
}

export async function contentOf(text: string): Promise<{ id: ContentId; bytes: string }> {
  const bytes = new TextEncoder().encode(text);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const digest = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id: { digest, size: bytes.length }, bytes: btoa(String.fromCharCode(...bytes)) };
}

/** Files of small texts as one commit; answers its id. */
export async function commitFiles(
  { repo, branch }: BranchAddress,
  files: Readonly<Record<string, string>>,
  caller: Partial<Caller> = {},
): Promise<string> {
  const { upload } = await good("POST /uploads", { body: { repo, branch }, caller });
  const contents = await Promise.all(
    Object.entries(files).map(async ([path, text]) => ({ path, ...(await contentOf(text)) })),
  );
  const inline = contents.map(({ id, bytes }) => ({ ...id, bytes }));
  await good(`POST /uploads/${upload}/contents`, { body: { contents: inline }, caller });
  const operations = contents.map(({ path, id }) => ({ put: path, ...id }));
  const { commit } = await good(`POST /repos/${repo}/branches/${branch}/commits`, {
    body: { upload, operations },
    caller,
  });
  return commit;
}

export function contentPath({ repo, branch }: BranchAddress, id: ContentId): string {
  return `/repos/${repo}/branches/${branch}/contents/${contentName(id)}`;
}

/** More than travels inside a message. */
export const LARGE_BYTES = INLINE_LIMIT_BYTES + 1;
