import type { Readable } from "node:stream";
import type { WebSocket } from "undici";
import type { z } from "zod";
import { type ContentId, contentName, type InlineContent } from "../../protocol/content.ts";
import {
  ContentComposed,
  ContentsReserved,
  FilePage,
  MAX_LIST_ENTRIES,
  UploadOpened,
} from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import { GatewayError } from "../../protocol/requests.ts";
import {
  Assignment,
  Finished,
  type FinishRequest,
  GRANT_HEADER,
  type Heartbeat,
  LEASE_MS,
  Lease,
  type LeaseRequest,
  type LogsRequest,
  LogsTaken,
  MAX_NODE_TROUBLE_CHARACTERS,
  type NodeWork,
  type Outcome,
  Renewed,
  type RenewRequest,
} from "../../protocol/runner.ts";
import { boundedReason } from "../lib/fault.ts";
import { type Client, type Request, STALE_GRANT } from "./client.ts";

/** What a call is made for. */
interface UnderLease {
  /** Absent: the call is made without one, which a key of level `runner` is refused. */
  readonly grant?: Grant | undefined;
}

/** A content and a branch that has it. */
export interface ContentSource extends BranchAddress, UnderLease {
  readonly content: ContentId;
}

export interface FilesRequest extends BranchAddress, UnderLease {
  readonly commit: string;
  /** "" is everything; a directory ends in `/`. */
  readonly prefix: string;
  /** A commit of the branch: only what was written after it. */
  readonly since?: string;
  /** `next` of the page before. */
  readonly after?: string;
}

// While a lease call waits, the gateway sends something every second.
const LEASE_SILENCE_MS = 15_000;
// Short enough for a second try within the lease, if the first one went into a dead connection.
const RENEW_SILENCE_MS = LEASE_MS / 4;

/** The calls of the control API that a runner makes. One try each. Those that read or upload present the grant of the lease that they are made for. */
export class Gateway {
  readonly #client: Client;
  readonly #hide: (words: string) => string;

  /** `hide`: takes out of words for the readers of jobs and nodes what is only for those who look after this machine. */
  constructor(client: Client, { hide = (words) => words }: { hide?: (words: string) => string } = {}) {
    this.#client = client;
    this.#hide = hide;
  }

  heartbeat({ work, ...rest }: Heartbeat, signal: AbortSignal): Promise<Assignment> {
    const body = { ...rest, ...(work && { work: work.map((each) => this.#hiddenIn(each)) }) };
    return this.#post(Assignment, { path: "/api/v1/runner/heartbeat", body, signal });
  }

  /** Asks for the socket over which the node is told to look. */
  socket(node: string): Promise<WebSocket> {
    return this.#client.socket({ path: "/api/v1/runner/socket", query: { node } });
  }

  /** Good-bye: the node takes no more work and is not to be counted. */
  async leave(node: string, signal: AbortSignal): Promise<void> {
    const path = "/api/v1/runner/heartbeat";
    const answer = await this.#client.send({ method: "DELETE", path, query: { node }, signal });
    await answer.body.dump();
  }

  lease(body: z.infer<typeof LeaseRequest>, signal: AbortSignal): Promise<Lease> {
    return this.#post(Lease, { path: "/api/v1/runner/lease", body, silenceMs: LEASE_SILENCE_MS, signal });
  }

  renew(
    { trouble, ...rest }: z.infer<typeof RenewRequest>,
    signal: AbortSignal,
  ): Promise<z.infer<typeof Renewed>> {
    const said = trouble == null ? trouble : boundedReason(this.#hide(trouble));
    const body = { ...rest, ...(said !== undefined && { trouble: said }) };
    return this.#post(Renewed, { path: "/api/v1/runner/renew", body, silenceMs: RENEW_SILENCE_MS, signal });
  }

  finish(
    { outcomes, ...request }: z.infer<typeof FinishRequest>,
    signal: AbortSignal,
  ): Promise<z.infer<typeof Finished>> {
    const body = { ...request, outcomes: outcomes.map((outcome) => this.#shown(outcome)) };
    return this.#post(Finished, { path: "/api/v1/runner/finish", body, signal });
  }

  #hiddenIn({ trouble, ...work }: NodeWork): NodeWork {
    if (trouble === undefined) return work;
    return { ...work, trouble: this.#hide(trouble).slice(0, MAX_NODE_TROUBLE_CHARACTERS) };
  }

  #shown(outcome: Outcome): Outcome {
    if (outcome.state === "failed") return { ...outcome, reason: boundedReason(this.#hide(outcome.reason)) };
    if (outcome.state !== "pushed" || outcome.remark === undefined) return outcome;
    return { ...outcome, remark: boundedReason(this.#hide(outcome.remark)) };
  }

  logs(body: LogsRequest, signal: AbortSignal): Promise<z.infer<typeof LogsTaken>> {
    return this.#post(LogsTaken, { path: "/api/v1/runner/logs", body, signal });
  }

  /** One page of the files under a prefix, in path order. */
  files(request: FilesRequest, signal: AbortSignal): Promise<FilePage> {
    const { repo, branch, commit, prefix, since, after, grant } = request;
    const path = `/api/v1/repos/${repo}/branches/${branch}/commits/${encodeURIComponent(commit)}/files`;
    const query = {
      prefix,
      limit: String(MAX_LIST_ENTRIES),
      ...(since !== undefined && { since }),
      ...(after !== undefined && { after }),
    };
    return granted(grant, (headers) =>
      this.#client.call(FilePage, { method: "GET", path, query, headers, signal }),
    );
  }

  /** The bytes of a content: a stream that must be read or destroyed. */
  async content({ repo, branch, content, grant }: ContentSource, signal: AbortSignal): Promise<Readable> {
    const path = `/api/v1/repos/${repo}/branches/${branch}/contents/${contentName(content)}`;
    const answer = await granted(grant, (headers) =>
      this.#client.send({ method: "GET", path, headers, signal }),
    );
    return answer.body;
  }

  /** Opens an upload that belongs to a datum's lease. */
  openUpload(
    { repo, branch, lease, grant }: BranchAddress & UnderLease & { lease: string },
    signal: AbortSignal,
  ): Promise<z.infer<typeof UploadOpened>> {
    const body = { repo, branch, lease };
    return this.#post(UploadOpened, { path: "/api/v1/uploads", body, grant, signal });
  }

  /** Reserves for the upload the contents that the branch has. Returns those that it lacks. */
  async reserve(
    { upload, contents, grant }: UnderLease & { upload: string; contents: readonly ContentId[] },
    signal: AbortSignal,
  ): Promise<ContentId[]> {
    const path = `/api/v1/uploads/${encodeURIComponent(upload)}/reserve`;
    return (await this.#post(ContentsReserved, { path, body: { contents }, grant, signal })).missing;
  }

  /** Adds small contents, many in one call. */
  async addInline(
    { upload, contents, grant }: UnderLease & { upload: string; contents: readonly InlineContent[] },
    signal: AbortSignal,
  ): Promise<void> {
    const path = `/api/v1/uploads/${encodeURIComponent(upload)}/contents`;
    const body = JSON.stringify({ contents });
    await this.#sendGranted(grant, { method: "POST", path, headers: JSON_HEADERS, body, signal });
  }

  /** Puts contents that the upload holds together into one. `content`: what must come of it. */
  compose(
    {
      upload,
      grant,
      ...body
    }: UnderLease & { upload: string; parts: readonly ContentId[]; content?: ContentId },
    signal: AbortSignal,
  ): Promise<ContentId> {
    const path = `/api/v1/uploads/${encodeURIComponent(upload)}/compose`;
    return this.#post(ContentComposed, { path, body, grant, signal });
  }

  /** Adds one content of any size, streaming. */
  async addContent(
    { upload, content, bytes, grant }: UnderLease & { upload: string; content: ContentId; bytes: Readable },
    signal: AbortSignal,
  ): Promise<void> {
    const path = `/api/v1/uploads/${encodeURIComponent(upload)}/contents`;
    const query = { digest: content.digest, size: String(content.size) };
    const headers = { "content-length": String(content.size), "content-type": "application/octet-stream" };
    await this.#sendGranted(grant, { method: "PUT", path, query, headers, body: bytes, signal });
  }

  async #sendGranted(grant: Grant | undefined, { headers, ...request }: Request): Promise<void> {
    const answer = await granted(grant, (presented) =>
      this.#client.send({ ...request, headers: { ...headers, ...presented } }),
    );
    await answer.body.dump();
  }

  #post<Schema extends z.ZodType>(
    answer: Schema,
    {
      body,
      grant,
      ...request
    }: UnderLease & Pick<Request, "path" | "silenceMs" | "signal"> & { body: unknown },
  ): Promise<z.infer<Schema>> {
    const text = JSON.stringify(body);
    return granted(grant, (presented) => {
      const headers = { ...JSON_HEADERS, ...presented };
      return this.#client.call(answer, { ...request, method: "POST", headers, body: text });
    });
  }
}

/** The calls that bring contents to a branch. */
export type UploadCalls = Pick<Gateway, "openUpload" | "reserve" | "addInline" | "addContent" | "compose">;

type Headers = Readonly<Record<string, string>>;

function granted<T>(grant: Grant | undefined, call: (headers: Headers) => Promise<T>): Promise<T> {
  return grant ? grant.presented(call) : call({});
}

const JSON_HEADERS = { "content-type": "application/json" };

/**
 * What the gateway lets the holder of a lease read and write, as a text that only the gateway can make. Each renewal of
 * the lease brings another. The gateway gives none and asks for none if the key may read all.
 */
export class Grant {
  readonly job: string;
  readonly #onStale: () => void;
  #text: string | undefined;

  constructor({ job, text, onStale }: { job: string; text: string | undefined; onStale: () => void }) {
    this.job = job;
    this.#text = text;
    this.#onStale = onStale;
  }

  renew(text: string): void {
    this.#text = text;
  }

  /** Makes a call that presents it. If it is good no more, has it renewed: the next try presents another. */
  async presented<T>(call: (headers: Headers) => Promise<T>): Promise<T> {
    try {
      return await call(this.#text === undefined ? {} : { [GRANT_HEADER]: this.#text });
    } catch (error) {
      if (isStale(error)) this.#onStale();
      throw error;
    }
  }
}

/** Whether a call failed for its grant. */
export function isStale(error: unknown): boolean {
  return error instanceof GatewayError && error.code === STALE_GRANT;
}
