import { createHash } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import type Dockerode from "dockerode";
import { z } from "zod";
import { jsonOf } from "../../../../protocol/json.ts";
import { Stalled, unlessAborted, whileItGoesOn } from "../../../lib/concurrency.ts";
import { errorCode, messageOf } from "../../../lib/fault.ts";
import { type NamedSecret, NodeCondition } from "../../executor.ts";
import type { Engine } from "../engine/engine.ts";
import type { Login, PrivateImages } from "./private-images.ts";
import { type Credentials, credentialsFor } from "./pull-secrets.ts";
import { type ImageReference, parseImage } from "./reference.ts";

export interface EnsureImageOptions {
  /** As the spec names it. */
  readonly image: string;
  readonly pullSecrets: readonly NamedSecret[];
  readonly privates: PrivateImages;
  readonly signal: AbortSignal;
  /** How long a pull may go without a sign of life. Engines unpack large layers in silence. */
  readonly silenceMs?: number;
}

const SILENCE_MS = 10 * 60_000;
const underWay = new WeakMap<Dockerode, SharedWork>();

/** The engine: its kind, and its client for calls that may be silent for long. */
type ImageEngine = Pick<Engine, "kind" | "patient">;

/**
 * The id of the image to make containers from. An image that the engine has is taken as it is, whatever its tag; if
 * it was pulled with a key, only for who has one that opens its repository. Any other is pulled, once for all who ask at
 * the same time, with each of the credentials that fit and then with none. Throws NodeCondition, in the registry's words
 * and of secrets only with the names, and what `signal` is aborted with.
 */
export async function ensureImage(
  engine: ImageEngine,
  { image, pullSecrets, privates, signal, silenceMs = SILENCE_MS }: EnsureImageOptions,
): Promise<string> {
  const docker = engine.patient;
  const parsed = parseImage(image);
  if (!parsed.ok) throw new NodeCondition(`"${shortened(image)}" is no image: ${parsed.reason}`);
  const wanted = parsed.image;
  const shared = underWay.get(docker) ?? new SharedWork();
  underWay.set(docker, shared);
  return shared.get(keyOf("id" in wanted ? wanted.id : wanted.full, pullSecrets), {
    signal,
    work: async (signal) => {
      const terms = { engine, pullSecrets, privates, signal, silenceMs };
      if ("id" in wanted) return idIfOpen(wanted.id, terms);
      const found = await inspected(docker, wanted.short);
      if (found === undefined) return pulled(wanted, terms);
      const refusal = await refusalOf(wanted, { found, terms });
      if (refusal !== undefined) throw new NodeCondition(refusal);
      return found.id;
    },
  });
}

/** Only workers with the same keys share a pull, because it may fail by them. */
function keyOf(image: string, pullSecrets: readonly NamedSecret[]): string {
  const hash = createHash("sha256").update(image);
  for (const { name, secret } of pullSecrets) {
    for (const [key, bytes] of secret) hash.update(`\0${name}\0${key}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex");
}

/** What getting an image takes. */
interface Terms extends Omit<EnsureImageOptions, "image" | "silenceMs"> {
  readonly engine: ImageEngine;
  readonly silenceMs: number;
}

/** The image by its id. It is given away if one of its names is open to who asks, or if it has none. */
async function idIfOpen(id: string, terms: Terms): Promise<string> {
  const found = await inspected(terms.engine.patient, id);
  if (found === undefined) {
    throw new NodeCondition(`image "${id}" is not on this node, and by its id it can't be pulled`);
  }
  let refusal: string | undefined;
  for (const name of found.names) {
    refusal = await refusalOf(name, { found, terms });
    if (refusal === undefined) break;
  }
  if (refusal === undefined) return found.id;
  throw new NodeCondition(refusal);
}

/** An image that the engine has. */
interface Found {
  readonly id: string;
  /** By tags and by digests. */
  readonly names: readonly ImageReference[];
}

/** An image by its short name: Podman then looks among the images that were made on the node, too. */
async function inspected(docker: Dockerode, name: string): Promise<Found | undefined> {
  try {
    const { Id, RepoTags, RepoDigests } = await docker.getImage(name).inspect();
    const names = [...(RepoDigests ?? []), ...(RepoTags ?? [])].flatMap((name) => {
      const parsed = parseImage(name);
      return parsed.ok && !("id" in parsed.image) ? [parsed.image] : [];
    });
    return { id: Id, names };
  } catch (error) {
    if (error instanceof Error && "statusCode" in error && error.statusCode === 404) return undefined;
    const words =
      errorCode(error) === undefined ? engineMessage(error) : `it does not answer (${errorCode(error)})`;
    throw new NodeCondition(`the container engine can't be asked for image "${name}": ${shortened(words)}`);
  }
}

async function pulled(image: ImageReference, terms: Terms): Promise<string> {
  const { engine, pullSecrets, privates, signal, silenceMs } = terms;
  const docker = engine.patient;
  const { credentials, problems } = credentialsFor(image, pullSecrets);
  const attempts: Attempt[] = [];
  for (const { secret, login } of [...credentials, ANYBODY]) {
    const answer = await privates.pulling(image, {
      login,
      pull: () => pull(docker, { image: image.full, login, silenceMs, signal }),
    });
    if (answer.ok) {
      const there = await inspected(docker, image.full);
      if (there) return there.id;
      const what = `image "${image.short}" was pulled`;
      throw new NodeCondition(`${what}, but the container engine does not have it`);
    }
    attempts.push({ secret, reason: answer.reason });
    if (isUnreachable(answer.reason)) break;
  }
  throw new NodeCondition(
    failure(`image "${shortened(image.short)}" can't be pulled`, { attempts, problems }),
  );
}

/** Why an image that is on the node is not given to who asks; undefined: it is. */
async function refusalOf(
  image: ImageReference,
  { found, terms }: { found: Found; terms: Terms },
): Promise<string | undefined> {
  const { pullSecrets, privates } = terms;
  if (!(await privates.has(image))) return undefined;
  const { credentials, problems } = credentialsFor(image, pullSecrets);
  const keys = [...credentials, ANYBODY];
  if (keys.some(({ login }) => privates.isOpenTo(image, login))) return undefined;
  const attempts: Attempt[] = [];
  for (const { secret, login } of keys) {
    const answer = await openedByAny(login, { names: namesToAsk(image, found), terms });
    if (answer.ok) {
      privates.open(image, login);
      return undefined;
    }
    attempts.push({ secret, reason: answer.reason });
    if (isUnreachable(answer.reason)) break;
  }
  return failure(
    `image "${shortened(image.short)}" is on this node, pulled with another pipeline's key, and its registry does not give it to this one`,
    { attempts, problems },
  );
}

/**
 * What the engine has, by its digest: behind the tag there may be something else by now. If it has the same image from
 * several places, Podman names it by each digest in each repository, also where that digest is unknown.
 */
function namesToAsk({ registry, repository, full }: ImageReference, { names }: Found): [string, ...string[]] {
  if (full.includes("@")) return [full];
  const [first, ...others] = names
    .filter((name) => name.registry === registry && name.repository === repository && name.full.includes("@"))
    .map((name) => name.full)
    .slice(0, MAX_NAMES_ASKED);
  return first === undefined ? [full] : [first, ...others];
}

/** Whether a registry gives an image to who has this key, by one of its names. */
async function openedByAny(
  login: Login,
  { names: [first, ...others], terms }: { names: readonly [string, ...string[]]; terms: Terms },
): Promise<Pulled> {
  let answer = await openedBy(login, { name: first, terms });
  for (const name of others) {
    if (answer.ok || isUnreachable(answer.reason)) break;
    answer = await openedBy(login, { name, terms });
  }
  return answer;
}

/**
 * Whether a registry gives an image to who has this key. Docker asks for it; it would pull by digest what it has without
 * asking anybody. Podman can't ask, and pulls: that asks for the image's list of layers, and loads none that is there.
 */
async function openedBy(
  login: Login,
  { name, terms: { engine, silenceMs, signal } }: { name: string; terms: Terms },
): Promise<Pulled> {
  const docker = engine.patient;
  if (engine.kind === "podman") return pull(docker, { image: name, login, silenceMs, signal });
  const late = AbortSignal.timeout(silenceMs);
  const question = docker.getImage(name).distribution(login && { authconfig: login });
  try {
    await unlessAborted(question, AbortSignal.any([signal, late]));
    return { ok: true };
  } catch (error) {
    signal.throwIfAborted();
    return { ok: false, reason: late.aborted ? silent(silenceMs) : engineMessage(error) };
  }
}

const ANYBODY = { secret: undefined, login: undefined };

/** One try to pull, for the message about why it failed. */
interface Attempt {
  /** Whose credentials it was made with; undefined: as anybody. */
  readonly secret: string | undefined;
  readonly reason: string;
}

const MAX_NAMES_ASKED = 8;
const MAX_ATTEMPTS_TOLD = 3;
const MAX_REASON_CHARACTERS = 400;

/** What the job's reason shows if an image can't be had: the registry's words for each try, and of secrets only the names. */
function failure(
  what: string,
  { attempts, problems }: { attempts: readonly Attempt[]; problems: readonly string[] },
): string {
  const told = attempts.slice(-MAX_ATTEMPTS_TOLD).map(({ secret, reason }) => {
    const by = secret === undefined ? "without credentials" : `with the credentials of secret "${secret}"`;
    return `${by}: ${shortened(reason)}`;
  });
  const left = attempts.length - told.length;
  const more = left > 0 ? [`${left} more failed before`] : [];
  const wrong = problems.slice(0, MAX_ATTEMPTS_TOLD).map(shortened);
  return `${what} ${[...told, ...more, ...wrong].join("; ")}`;
}

/** On one line, and bounded. */
function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= MAX_REASON_CHARACTERS ? line : `${line.slice(0, MAX_REASON_CHARACTERS - 1)}…`;
}

/** Whether the registry was not even asked, so that other credentials are of no use. */
function isUnreachable(reason: string): boolean {
  return /\bdial tcp\b|connection refused|no such host|no route to host|network is unreachable|i\/o timeout|TLS handshake|x509:|nothing was heard/i.test(
    reason,
  );
}

interface Task {
  readonly result: Promise<string>;
  readonly abort: AbortController;
  waiting: number;
}

/** Work that several callers want at the same time, and that is done once for all of them. */
class SharedWork {
  readonly #tasks = new Map<string, Task>();

  /**
   * Returns what `work` returns, and starts it only if nobody waits for the same key already. A caller who aborts leaves;
   * the work is aborted when the last one has left.
   */
  async get(
    key: string,
    { signal, work }: { signal: AbortSignal; work: (signal: AbortSignal) => Promise<string> },
  ): Promise<string> {
    signal.throwIfAborted();
    const task = this.#tasks.get(key) ?? this.#start(key, work);
    task.waiting += 1;
    try {
      return await unlessAborted(task.result, signal);
    } finally {
      task.waiting -= 1;
      if (task.waiting === 0) this.#leave(key, task);
    }
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<string>): Task {
    const abort = new AbortController();
    const task: Task = { result: work(abort.signal), abort, waiting: 0 };
    // When it fails, nobody may be waiting any more.
    task.result.catch(() => undefined);
    this.#tasks.set(key, task);
    return task;
  }

  /** Forgets the work before it is aborted, so that a new call starts its own. */
  #leave(key: string, task: Task): void {
    if (this.#tasks.get(key) === task) this.#tasks.delete(key);
    task.abort.abort();
  }
}

interface PullOptions {
  /** The full name. */
  readonly image: string;
  /** Absent: as anybody. */
  readonly login: Credentials["login"] | undefined;
  /** How long an engine may say nothing. */
  readonly silenceMs: number;
  readonly signal: AbortSignal;
}

/** `reason` is what the registry or the engine said. */
type Pulled = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/**
 * Pulls an image, once. Docker tells a failure by its status, Podman by a record in a stream that began well, and
 * either may do both. Throws only what `signal` is aborted with.
 */
async function pull(docker: Dockerode, { image, login, silenceMs, signal }: PullOptions): Promise<Pulled> {
  try {
    return await whileItGoesOn(
      { stop: signal, stallMs: silenceMs },
      async ({ signal: abortSignal, alive }) => {
        const stream = await docker.createImage(login, { fromImage: image, abortSignal });
        const reader = new ProgressReader();
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          alive();
          reader.add(chunk);
        }
        const reason = reader.end();
        return reason === undefined ? { ok: true } : { ok: false, reason };
      },
    );
  } catch (error) {
    signal.throwIfAborted();
    const stalled = error instanceof Stalled;
    const reason = stalled ? silent(silenceMs) : engineMessage(error);
    return { ok: false, reason };
  }
}

/** What is said of a registry or an engine that says nothing. */
function silent(forMs: number): string {
  return `nothing was heard of it for ${forMs / 1000} s`;
}

/** The engine's own words, without what the client library puts around them. */
function engineMessage(error: unknown): string {
  return messageOf(error)
    .replace(/^\(HTTP code \d+\) .*? - /s, "")
    .trim();
}

/** No record is longer; what is would not be one that matters. */
const MAX_RECORD_CHARACTERS = 1024 * 1024;

const Failure = z.union([
  z.object({ errorDetail: z.object({ message: z.string().min(1) }) }),
  z.object({ error: z.string().min(1) }),
]);

/** Reads what an engine tells of a pull or a push, JSON records a line each, and keeps nothing but its first failure. */
export class ProgressReader {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #failure: string | undefined;

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split("\n");
    this.#rest = (lines.pop() ?? "").slice(0, MAX_RECORD_CHARACTERS);
    for (const line of lines) this.#read(line);
  }

  /** Why it failed, or undefined. */
  end(): string | undefined {
    this.#read(this.#rest);
    return this.#failure;
  }

  #read(line: string): void {
    // Progress comes by the thousand.
    if (this.#failure !== undefined || !line.includes('"error')) return;
    const { data } = Failure.safeParse(jsonOf(line));
    this.#failure = data && ("error" in data ? data.error : data.errorDetail.message);
  }
}
