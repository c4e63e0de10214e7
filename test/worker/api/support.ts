import { env } from "cloudflare:test";
import { expect } from "vitest";
import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../../protocol/content.ts";
import { ErrorBody, type Issue } from "../../../protocol/errors.ts";
import { type BranchAddress, bucketName } from "../../../protocol/names.ts";
import { handleApi } from "../../../worker/api/api.ts";
import { type Caller, openContext } from "../../../worker/app.ts";

export interface Call {
  /** JSON, or the bytes themselves. */
  readonly body?: unknown;
  readonly caller?: Partial<Caller>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One request to the control API by a caller whose signature is good. `target`: `GET /jobs`. */
export async function api(target: string, { body, caller, headers }: Call = {}): Promise<Response> {
  const [method = "GET", path = "/"] = target.split(" ");
  const payload = body === undefined ? null : body instanceof Uint8Array ? body : JSON.stringify(body);
  const request = new Request(`http://gateway/api/v1${path}`, {
    method,
    body: payload,
    headers: { ...headers },
  });
  const context = openContext(env);
  return await handleApi(request, { context, caller: { keyId: "root", bodySha256: null, ...caller } });
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
  const made = await openContext(env).branch(address).create();
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
): Promise<string> {
  const { upload } = await good("POST /uploads", { body: { repo, branch } });
  const contents = await Promise.all(
    Object.entries(files).map(async ([path, text]) => ({ path, ...(await contentOf(text)) })),
  );
  const inline = contents.map(({ id, bytes }) => ({ ...id, bytes }));
  await good(`POST /uploads/${upload}/contents`, { body: { contents: inline } });
  const operations = contents.map(({ path, id }) => ({ put: path, ...id }));
  const { commit } = await good(`POST /repos/${repo}/branches/${branch}/commits`, {
    body: { upload, operations },
  });
  return commit;
}

export function contentPath({ repo, branch }: BranchAddress, id: ContentId): string {
  return `/repos/${repo}/branches/${branch}/contents/${contentName(id)}`;
}

/** More than travels inside a message. */
export const LARGE_BYTES = INLINE_LIMIT_BYTES + 1;
