import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { contentName, parseContentName } from "../../../../protocol/content.ts";
import {
  AddInlineContents,
  ComposeContent,
  type FileEntry,
  OpenUpload,
  PART_BYTES,
  ReserveContents,
} from "../../../../protocol/files.ts";
import {
  type Assignment,
  type ErasedSince,
  erasedPlaceText,
  FinishRequest,
  GRANT_HEADER,
  Heartbeat,
  type LeasedDatum,
  LeaseRequest,
  type LogStream,
  LogsRequest,
  MAX_ERASED,
  type NodeBounds,
  type NodeWork,
  type Outcome,
  parseErasedPlace,
  RenewRequest,
  type Task,
  WIRE_HEADER,
  WIRE_VERSION,
} from "../../../../protocol/runner.ts";
import type { Transform } from "../../../../protocol/spec.ts";
import { TreeHash } from "../../../../runner/lib/tree-hash.ts";
import { freePort } from "../../../support/ports.ts";

export const KEY = { accessKeyId: "test-key", secretAccessKey: "test-secret" };

type Handler = (call: Call) => Promise<unknown> | unknown;

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: Buffer;
  readonly headers: IncomingMessage["headers"];
}

/** An answer other than 200 with JSON. */
export class Answer {
  readonly status: number;
  readonly body: Buffer | string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: Buffer | string, headers: Readonly<Record<string, string>> = {}) {
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}
export function refusal(status: number, message: string): Answer {
  return new Answer(status, JSON.stringify({ error: { code: "Refused", message }, requestId: "r" }));
}

/** A line as it was taken: `at` by the clock of this process, `dropped` what was left out before it. */
export interface ShippedLine {
  readonly lease: string;
  readonly at: number;
  readonly stream: LogStream;
  readonly text: string;
  readonly dropped: number;
}

interface Held {
  readonly datum?: LeasedDatum;
  readonly task?: Task;
  readonly worker: string;
}

/**
 * A gateway of one pipeline, called "edges", on a real socket. It keeps all in memory, holds every request to the
 * protocol's schemas, and lets tests break things on purpose.
 */
export class FakeGateway {
  /** Whether the key is a runner's: leases bring grants, without which nothing is read or uploaded. */
  withGrants = false;
  /** Grants that were made and are good. */
  readonly grants = new Set<string>();
  transform: Transform = { image: "none", cmd: ["true"] };
  /** How long a command may run; absent: as long as it likes. */
  datumTimeout: string | undefined;
  /** Whether the pipeline is said to be a limited key's. */
  limited = false;
  workers: Assignment["workers"] = [{ pipeline: "edges", count: 1 }];
  /** What waits to be leased, in order. */
  readonly queue: LeasedDatum[] = [];
  /** The same, of pipelines beside "edges". */
  readonly others = new Map<string, LeasedDatum[]>();
  /** Tasks that wait to be leased, in order; they go before the datums. */
  readonly tasks: Task[] = [];
  readonly held = new Map<string, Held>();
  readonly outcomes: Outcome[] = [];
  readonly lostOutcomes: Outcome[] = [];
  /** What commands printed, in the order in which it was taken. */
  readonly lines: ShippedLine[] = [];
  readonly contents = new Map<string, Buffer>();
  readonly files = new Map<string, FileEntry[]>();
  /** Bytes of the parts that contents are to come in. */
  partBytes = PART_BYTES;
  readonly uploads = new Map<string, { lease: string; contents: Set<string> }>();
  readonly nodes = new Set<string>();
  /** What each node said last of its work. */
  readonly work = new Map<string, readonly NodeWork[]>();
  /** What each node said last that it has room for. */
  readonly bounds = new Map<string, NodeBounds | undefined>();
  /** Names of contents that were erased, in order. The place of a node is how many of them it has heard of. */
  readonly erased: string[] = [];
  /** Most of them that one answer names. */
  erasedAtOnce = MAX_ERASED;
  /** A place with another one is not known. */
  erasedToken = "00000000000000aa";
  /** The places that heartbeats named, each change once; undefined: none was said. */
  readonly places: (string | null | undefined)[] = [];
  /** What workers said of their trouble, each change once. */
  readonly troubles: (string | null)[] = [];
  /** Workers that gave their slot back. */
  readonly left: string[] = [];
  /** `METHOD path` of every request, in order. */
  readonly requests: string[] = [];
  readonly leased: { worker: string; max: number; count: number }[] = [];
  /** What the protocol does not allow: to be empty. */
  readonly violations: string[] = [];
  /** Called first; what it returns is the answer. Throwing breaks the connection. */
  before: Handler = () => undefined;

  #server: Server | undefined;
  #port = 0;
  #serial = 0;
  /** The last entry that was taken of each lease. */
  readonly #logEntries = new Map<string, number>();
  readonly #wakers = new Set<() => void>();

  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    // Not one that the system gives out: while it is down, a connection could be given its port.
    if (this.#port === 0) this.#port = await freePort();
    this.#server = createServer((request, response) => void this.#serve(request, response));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(this.#port, "127.0.0.1", resolve);
    await promise;
  }

  /** Goes down as a killed process does; `start` brings it back on the same port. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    this.wake();
    server?.closeAllConnections();
    await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  }

  /** Queues datums of one file each, named and filled by `name`. */
  add(...names: string[]): void {
    for (const name of names)
      this.addDatum({ path: name, kind: "file", content: this.store(`content of ${name}`) });
  }

  addDatum(input: Partial<LeasedDatum["inputs"][number]>): void {
    this.#serial += 1;
    const whole = {
      name: "in",
      repo: "images",
      branch: "master",
      commit: "c1",
      path: "",
      kind: "dir" as const,
      content: null,
      lazy: false,
      from: null,
      ...input,
    };
    this.queue.push({ lease: "", job: "job-1", datum: `datum-${this.#serial}`, inputs: [whole] });
    this.wake();
  }

  addTask(task: Task): void {
    this.tasks.push(task);
    this.wake();
  }

  /** Keeps bytes as a content that inputs may name. */
  store(text: string | Buffer): { digest: string; size: number } {
    const bytes = Buffer.from(text);
    const hash = new TreeHash();
    hash.update(bytes);
    const content = hash.finish();
    this.contents.set(contentName(content), bytes);
    return content;
  }

  /** The leases are given to nobody any more, as after their time. */
  lose(...leases: string[]): void {
    for (const lease of leases) this.held.delete(lease);
  }

  wake(): void {
    for (const waker of this.#wakers) waker();
  }

  /** The bytes of an output that a successful outcome names. */
  outputBytes(outcome: Outcome, path: string): Buffer | undefined {
    const output = outcome.state === "success" ? outcome.outputs.find((one) => one.path === path) : undefined;
    if (!output) return undefined;
    if (output.bytes !== undefined) return Buffer.from(output.bytes, "base64");
    const upload = outcome.state === "success" ? this.uploads.get(outcome.upload ?? "") : undefined;
    return upload?.contents.has(contentName(output)) ? this.contents.get(contentName(output)) : undefined;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = new URL(request.url ?? "/", this.endpoint);
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method = "", headers } = request;
      const call = {
        method,
        path: url.pathname,
        query: url.searchParams,
        body: Buffer.concat(chunks),
        headers,
      };
      this.requests.push(`${method} ${url.pathname}`);
      const answer = (await this.before(call)) ?? this.#refused(call) ?? (await this.#route(call));
      const {
        status,
        body,
        headers: more,
      } = answer instanceof Answer ? answer : new Answer(200, JSON.stringify(answer));
      const wire = { [WIRE_HEADER]: String(WIRE_VERSION) };
      response.writeHead(status, { "content-length": Buffer.byteLength(body), ...wire, ...more }).end(body);
    } catch (error) {
      if (error instanceof Error && error.name === "ZodError") {
        this.violations.push(`${request.method} ${request.url}: ${error.message}`);
      }
      response.destroy();
    }
  }

  /** What is refused for its grant. */
  #refused({ path, headers }: Call): Answer | undefined {
    if (!this.withGrants || path.startsWith("/api/v1/runner/")) return undefined;
    const grant = headers[GRANT_HEADER];
    if (grant === undefined) return refusal(403, "no grant");
    if (this.grants.has(String(grant))) return undefined;
    const error = { code: "InvalidGrant", message: "the grant has expired" };
    return new Answer(403, JSON.stringify({ error, requestId: "r" }));
  }

  /** A new grant for each of the jobs. */
  #grantsFor(jobs: Iterable<string>): { grants?: Record<string, string> } {
    if (!this.withGrants) return {};
    const made = [...new Set(jobs)].map((job) => [job, `grant-${job}-${++this.#serial}`] as const);
    for (const [, grant] of made) this.grants.add(grant);
    return { grants: Object.fromEntries(made) };
  }

  #route(call: Call): unknown {
    if (!call.headers.authorization?.includes(`Credential=${KEY.accessKeyId}/`))
      return refusal(403, "unsigned");
    const json = () => JSON.parse(call.body.toString());
    const name = `${call.method} ${call.path.replace(/^\/api\/v1\//, "")}`;
    switch (name) {
      case "POST runner/heartbeat":
        return this.#beat(Heartbeat.parse(json()));
      case "DELETE runner/heartbeat":
        this.nodes.delete(call.query.get("node") ?? "");
        return {};
      case "POST runner/lease":
        return this.#lease(LeaseRequest.parse(json()));
      case "POST runner/renew":
        return this.#renew(RenewRequest.parse(json()));
      case "POST runner/finish":
        return {
          lost: FinishRequest.parse(json())
            .outcomes.filter((one) => !this.#finish(one))
            .map((one) => one.lease),
        };
      case "POST runner/logs":
        return { lost: this.#takeLogs(LogsRequest.parse(json())) };
      case "POST uploads":
        return this.#openUpload(OpenUpload.parse(json()));
      default:
        return this.#content(call, json) ?? this.#list(call) ?? refusal(404, `no route ${name}`);
    }
  }

  #beat({ node, work = [], bounds, erasedTo }: Heartbeat): unknown {
    this.nodes.add(node);
    this.work.set(node, work);
    this.bounds.set(node, bounds);
    if (this.places.length === 0 || this.places.at(-1) !== erasedTo) this.places.push(erasedTo);
    return { workers: this.workers, ...(erasedTo !== undefined && { erased: this.#erasedSince(erasedTo) }) };
  }

  #erasedSince(place: string | null): ErasedSince {
    const token = this.erasedToken;
    const known = parseErasedPlace(place ?? "");
    const { length } = this.erased;
    if (known?.token !== token || known.number > length) {
      return { upTo: erasedPlaceText({ number: length, token }), contents: [], everything: true };
    }
    const number = Math.min(known.number + this.erasedAtOnce, length);
    const contents = this.erased.slice(known.number, number);
    return { upTo: erasedPlaceText({ number, token }), contents, ...(number < length && { more: true }) };
  }

  #renew({ worker, leases, leaving, trouble }: ReturnType<typeof RenewRequest.parse>): unknown {
    if (leaving) this.left.push(worker);
    if (trouble !== undefined && trouble !== this.troubles.at(-1)) this.troubles.push(trouble);
    const kept = leases.flatMap((lease) => this.held.get(lease) ?? []);
    const jobs = kept.flatMap(({ datum, task }) => (datum ?? task)?.job ?? []);
    return { lost: leases.filter((lease) => !this.held.has(lease)), ...this.#grantsFor(jobs) };
  }

  #takeLogs({ entries }: LogsRequest): string[] {
    const now = Date.now();
    for (const { lease, seq, dropped, lines, streams = "" } of entries) {
      if (!this.held.has(lease) || seq <= (this.#logEntries.get(lease) ?? -1)) continue;
      this.#logEntries.set(lease, seq);
      // How long calls are on their way differs: a lease's lines never go back in time, as in the real one.
      let last = this.lines.findLast((line) => line.lease === lease)?.at ?? 0;
      const taken = lines.map(([age, text], place): ShippedLine => {
        last = Math.max(last, now - age);
        return { lease, at: last, stream: streams[place] === "2" ? "stderr" : "stdout", text, dropped: 0 };
      });
      const [first = { lease, at: now, stream: "stdout" as const, text: "" }, ...others] = taken;
      if (taken.length > 0 || dropped > 0) this.lines.push({ ...first, dropped }, ...others);
    }
    return entries.map(({ lease }) => lease).filter((lease) => !this.held.has(lease));
  }

  async #lease({ pipeline, worker, max, wait }: ReturnType<typeof LeaseRequest.parse>): Promise<unknown> {
    const queue = pipeline === "edges" ? this.queue : this.others.get(pipeline);
    if (!queue) return refusal(404, `no pipeline "${pipeline}"`);
    const waiting = pipeline === "edges" ? this.tasks : [];
    if (queue.length + waiting.length === 0 && wait !== "none") await this.#untilWoken();
    const looked = wait === "look" && { queued: queue.length + waiting.length > 0 };
    const most = looked ? 0 : max;
    const tasks = waiting.splice(0, most).map((task) => ({ ...task, lease: `lease-${++this.#serial}` }));
    for (const task of tasks) this.held.set(task.lease, { task, worker });
    const datums = queue.splice(0, most).map((datum) => ({ ...datum, lease: `lease-${++this.#serial}` }));
    for (const datum of datums) this.held.set(datum.lease, { datum, worker });
    if (datums.length > 0) this.leased.push({ worker, max, count: datums.length });
    const { datumTimeout, limited, transform } = this;
    return {
      slot: true,
      transform,
      datumTimeout,
      limited,
      output: { repo: "edges", branch: "master" },
      datums,
      tasks,
      ...this.#grantsFor([...tasks, ...datums].map(({ job }) => job)),
      ...looked,
    };
  }

  async #untilWoken(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, 5000);
    this.#wakers.add(resolve);
    await promise;
    clearTimeout(timer);
    this.#wakers.delete(resolve);
  }

  #finish(outcome: Outcome): boolean {
    const held = this.held.get(outcome.lease);
    if (!held) {
      this.lostOutcomes.push(outcome);
      return false;
    }
    this.held.delete(outcome.lease);
    this.outcomes.push(outcome);
    const queue = this.others.get(held.worker.split("/")[1] ?? "") ?? this.queue;
    if (outcome.state === "returned" && held.datum) queue.push(held.datum);
    if (outcome.state === "returned" && held.task) this.tasks.push(held.task);
    this.wake();
    return true;
  }

  #openUpload({ repo, branch, lease = "" }: ReturnType<typeof OpenUpload.parse>): unknown {
    const upload = `${branch}.${repo}.U${++this.#serial}`;
    this.uploads.set(upload, { lease, contents: new Set() });
    return { upload, partBytes: this.partBytes };
  }

  #content({ method, path, query, body }: Call, json: () => unknown): unknown {
    const asked = /^\/api\/v1\/repos\/[^/]+\/branches\/[^/]+\/contents\/([^/]+)$/.exec(path)?.[1];
    if (asked) {
      const bytes = parseContentName(asked) && this.contents.get(asked);
      return bytes ? new Answer(200, bytes) : refusal(404, `no content ${asked}`);
    }
    const [, id = "", action] = /^\/api\/v1\/uploads\/([^/]+)\/(reserve|contents|compose)$/.exec(path) ?? [];
    const upload = this.uploads.get(id);
    if (!upload) return undefined;
    if (action === "reserve") {
      const { contents } = ReserveContents.parse(json());
      for (const content of contents.map(contentName))
        if (this.contents.has(content)) upload.contents.add(content);
      return { missing: contents.filter((content) => !this.contents.has(contentName(content))) };
    }
    if (action === "compose") return this.#compose(upload.contents, ComposeContent.parse(json()));
    const inline = method === "POST" ? AddInlineContents.parse(json()).contents : [];
    const added = method === "POST" ? inline.map(({ bytes }) => Buffer.from(bytes, "base64")) : [body];
    for (const bytes of added) upload.contents.add(contentName(this.store(bytes)));
    if (method === "PUT" && !upload.contents.has(`${query.get("digest")}-${query.get("size")}`)) {
      this.violations.push(`PUT of ${query.get("digest")}-${query.get("size")} with other bytes`);
    }
    return {};
  }

  #compose(held: Set<string>, { parts, content }: ReturnType<typeof ComposeContent.parse>): unknown {
    const pieces = parts.map((part) =>
      held.has(contentName(part)) ? this.contents.get(contentName(part)) : undefined,
    );
    if (pieces.includes(undefined)) return refusal(400, "no such parts");
    const whole = this.store(Buffer.concat(pieces as Buffer[]));
    held.add(contentName(whole));
    if (content && contentName(content) !== contentName(whole)) {
      this.violations.push(`parts of ${contentName(whole)} were said to be ${contentName(content)}`);
    }
    return whole;
  }

  #list({ path, query }: Call): unknown {
    const commit = /\/commits\/([^/]+)\/files$/.exec(path)?.[1];
    const files = commit && this.files.get(commit);
    if (!files) return undefined;
    const after = query.get("after") ?? "";
    const rest = files.filter((file) => file.path.startsWith(query.get("prefix") ?? "") && file.path > after);
    const page = rest.slice(0, Math.min(Number(query.get("limit")), PAGE));
    return { files: page, next: rest.length > page.length ? page.at(-1)?.path : null };
  }
}

/** Small, so that tests see several pages. */
const PAGE = 100;
