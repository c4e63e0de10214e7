import { randomUUID } from "node:crypto";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { contentName } from "../../protocol/content.ts";
import { DEFAULT_CONTENT_TYPE, guessContentType } from "../../protocol/content-types.ts";
import type { Task } from "../../protocol/runner.ts";
import type { Failure } from "../gateway/client.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { ContentBroken, contentBytes } from "../gateway/resumable.ts";
import { retrying } from "../gateway/retry.ts";
import { forEachLimited, type Progress, whileItGoesOn } from "../lib/concurrency.ts";
import { contentIdOf } from "../lib/tree-hash.ts";
import type { SecretSource } from "../secrets/source.ts";
import { type Credentials, environmentCredentials, secretCredentials } from "./credentials.ts";
import {
  checkEnvironment,
  type Destination,
  type EgressTerms,
  objectKey,
  parseDestination,
  placeText,
} from "./destination.ts";
import type { TaskWork } from "./merge.ts";
import { checkHost, withNetworkPolicy } from "./network-policy.ts";
import { EgressFault, statusOf, storeFailureOf, storeMessage } from "./store-failure.ts";
import { openAzure } from "./stores/azure.ts";
import { openGcs } from "./stores/gcs.ts";
import { openS3 } from "./stores/s3.ts";
import {
  type ObjectPut,
  Outrun,
  type Seen,
  type Store,
  type StoreRequest,
  WHOLE_BYTES,
} from "./stores/store.ts";

/**
 * The fence of egress. A request that a runner sent may arrive after the runner lost its lease, even after it died, and
 * must then not undo what a later holder wrote. So each write says which version of the object it replaces, and the
 * store refuses it once there is another. The order makes it hold:
 *
 * 1. The holder asks the store what is there.
 * 2. It asks the gateway whether it still holds the lease. If so, whoever holds it later writes after the answer of 1.
 * 3. It writes on what it saw. If another holder has written meanwhile, the version is not that one any more.
 *
 * A holder that is refused begins again with 1: an earlier request of its own may have arrived, or a stranger wrote. All
 * objects of a task share step 2, as the order of 1 and 2 matters, and not the time between them.
 */

type EgressTask = Extract<Task, { kind: "egress" }>;
type Entry = EgressTask["entries"][number];

export interface EgressDeps {
  readonly gateway: Pick<Gateway, "content">;
  readonly secrets: SecretSource;
  /** Holds the credentials, unless the egress names a secret. */
  readonly env: NodeJS.ProcessEnv;
  /** What egress may do. */
  readonly terms: EgressTerms;
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean;
  /** Id of the key that the runner has for its gateway. */
  readonly gatewayKey: string;
  /** Resolves once the gateway has said that a lease is still held. Throws if it is lost. */
  readonly confirmLease: (lease: string, signal: AbortSignal) => Promise<void>;
  /** How long a store may take no byte and give no answer. */
  readonly stallMs?: number;
}

type EgressWork = TaskWork<EgressTask>;

// Small and large objects that are on their way at a time: both bounds bound memory.
const SMALL_AT_ONCE = 8;
const LARGE_AT_ONCE = 2;
const MAX_TRIES = 5;
const STALL_MS = 5 * 60_000;

/**
 * Makes the external store hold what the entries say. An object that an earlier try put there costs one question.
 * Removals come first: a store that is a tree, as Sluice is, can't hold a file as long as a folder has its name. Throws
 * EgressFault with the path, the store and what it said; SecretMissing; what `signal` is aborted with. Returns what the
 * readers of the job should know of the store; null: nothing.
 */
export async function egressEntries(deps: EgressDeps, work: EgressWork): Promise<string | null> {
  const { task, signal } = work;
  const destination = parseDestination(task.egress.URL);
  const credentials = await credentialsFor(deps, { ...work, destination });
  const store = await opened({ destination, endpoint: task.egress.endpoint, credentials }, deps.terms);
  const writer = new EntryWriter({ ...deps, ...work, store, destination, credentials });
  try {
    const left = await writer.lookAtAll(task.entries);
    if (left.length === 0) return null;
    await deps.confirmLease(task.lease, signal);
    signal.throwIfAborted();
    const remark = await writer.remarkOnStore();
    const large = ({ content }: Entry) => content !== null && content.size > WHOLE_BYTES;
    const write = (entry: Entry) => writer.write(entry);
    const removed = left.filter(({ content }) => content === null);
    const small = left.filter((entry) => entry.content !== null && !large(entry));
    await forEachLimited(removed, { limit: SMALL_AT_ONCE, work: write });
    await forEachLimited(small, { limit: SMALL_AT_ONCE, work: write });
    await forEachLimited(left.filter(large), { limit: LARGE_AT_ONCE, work: write });
    return store.takesConditions ? remark : unfencedRemark(destination);
  } finally {
    store.close();
  }
}

async function credentialsFor(
  { secrets, env, terms, limited, gatewayKey }: EgressDeps,
  { task: { egress }, destination, signal }: EgressWork & { readonly destination: Destination },
): Promise<Credentials> {
  const name = egress.secret;
  if (name !== undefined) return await secretCredentials(secrets, { name, signal, gatewayKey });
  checkEnvironment(terms, { egress, destination, limited });
  return environmentCredentials(env, { gatewayKey });
}

/** Each loads its vendor's SDK when it is called, so that only those who need it pay for it. */
const OPENERS = { s3: openS3, gs: openGcs, azure: openAzure };

/** Opens the store, which asks it nothing: a failure is the fault of how the egress is set up. */
async function opened(request: StoreRequest, terms: EgressTerms): Promise<Store> {
  const { destination, credentials } = request;
  try {
    const store = await OPENERS[destination.kind](request);
    // With credentials of the environment, the operator chose the addresses: the vendor's, and the machine's own services
    // that hand them out.
    if (terms.local || credentials.secret === null) return store;
    await checkHost(store.host);
    return fenced(store);
  } catch (error) {
    const said = storeMessage(error, credentials.redact);
    throw new EgressFault(`${placeText(destination)} can't be used: ${said}`);
  }
}

/** The store, with every connection under the egress network policy. */
function fenced(store: Store): Store {
  return {
    host: store.host,
    noVersion: store.noVersion,
    get takesConditions() {
      return store.takesConditions;
    },
    look: (object) => withNetworkPolicy(() => store.look(object)),
    put: (object) => withNetworkPolicy(() => store.put(object)),
    remove: (object) => withNetworkPolicy(() => store.remove(object)),
    close: () => store.close(),
  };
}

interface WriterOptions extends EgressDeps, EgressWork {
  readonly store: Store;
  readonly destination: Destination;
  readonly credentials: Credentials;
}

/** What is known of an object. `isKnown`: false if the credentials may not ask, so that it is taken not to be there. */
interface Looked extends Seen {
  readonly isKnown: boolean;
}

/** Brings single entries to the store, each with its tries. */
class EntryWriter {
  readonly #options: WriterOptions;
  /** What was seen at a path and is not used yet. It is good for one write. */
  readonly #seen = new Map<string, Looked>();

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /** Returns the entries that the store does not hold as they are to be. */
  async lookAtAll(entries: readonly Entry[]): Promise<Entry[]> {
    await forEachLimited(entries, {
      limit: SMALL_AT_ONCE,
      work: async (entry) => {
        const seen = await this.#tried(entry, ({ signal }) => this.#look(entry, signal));
        this.#seen.set(entry.path, seen);
      },
    });
    return entries.filter((entry) => !isDone(entry, this.#seen.get(entry.path)));
  }

  async write(entry: Entry): Promise<void> {
    await this.#tried(entry, async (progress) => {
      const seen = this.#seen.get(entry.path) ?? (await this.#lookAgain(entry, progress.signal));
      this.#seen.delete(entry.path);
      if (isDone(entry, seen)) return;
      try {
        await this.#replace(entry, seen, progress);
      } catch (error) {
        throw error instanceof Outrun && !seen.isKnown ? new EgressFault(UNKNOWN_OBJECT) : error;
      }
    });
  }

  /** What the readers of the job should know; null: nothing. */
  async remarkOnStore(): Promise<string | null> {
    const { store, destination, task, signal } = this.#options;
    const place = `${task.egress.endpoint ?? ""} ${placeText({ ...destination, dir: "" })}`;
    let keeps = KEEPS_CONDITIONS.get(place);
    if (keeps === undefined) {
      keeps = await whileItGoesOn({ stop: signal, stallMs: this.#stallMs }, (progress) =>
        keepsConditions(store, {
          key: objectKey(destination, `.sluice-probe-${randomUUID()}`),
          signal: progress.signal,
        }),
      ).catch(() => undefined);
      signal.throwIfAborted();
      // If the store refuses the question, the writes will say why.
      if (keeps !== undefined) KEEPS_CONDITIONS.set(place, keeps);
    }
    return keeps === false ? unfencedRemark(destination) : null;
  }

  get #stallMs(): number {
    return this.#options.stallMs ?? STALL_MS;
  }

  async #look({ path, content }: Entry, signal: AbortSignal): Promise<Looked> {
    const { store, destination } = this.#options;
    try {
      const key = objectKey(destination, path);
      return { ...(await store.look({ key, signal })), isKnown: true };
    } catch (error) {
      // If the key may not ask, the object is put as a new one: a refusal of that says what is wrong.
      const status = statusOf(error);
      const isRefusal = status !== undefined && status < 500 && storeFailureOf(error) === "final";
      if (content === null || !isRefusal) throw error;
      return { version: null, isKnown: false };
    }
  }

  async #lookAgain(entry: Entry, signal: AbortSignal): Promise<Looked> {
    const seen = await this.#look(entry, signal);
    await this.#options.confirmLease(this.#options.task.lease, signal);
    signal.throwIfAborted();
    return seen;
  }

  async #replace({ path, content }: Entry, { version }: Seen, progress: Progress): Promise<void> {
    const { gateway, store, destination, output, grant } = this.#options;
    const { signal } = progress;
    const key = objectKey(destination, path);
    if (content === null) return await store.remove({ key, version, signal });
    const source = { ...output, content, grant };
    const contentType = guessContentType(path);
    if (content.size <= WHOLE_BYTES) {
      const body = await buffer(contentBytes(gateway, source, signal));
      return await store.put({ key, content, contentType, version, body, signal });
    }
    await putStream(store, {
      put: { key, content, contentType, version, signal },
      bytes: contentBytes(gateway, source, signal),
      progress,
    });
  }

  async #tried<T>({ path, content }: Entry, work: (progress: Progress) => Promise<T>): Promise<T> {
    const { signal, destination, credentials } = this.#options;
    const once = () => whileItGoesOn({ stop: signal, stallMs: this.#stallMs }, work);
    try {
      return await retrying(once, { signal, classify: failureOf, maxTransient: MAX_TRIES });
    } catch (error) {
      signal.throwIfAborted();
      const said = storeMessage(error, credentials.redact);
      const what = content === null ? "removed from" : "put to";
      throw new EgressFault(`"${path}" could not be ${what} ${placeText(destination)}: ${said}`);
    }
  }
}

const UNKNOWN_OBJECT =
  "something is there, and the credentials may not ask what: let them read what is there, so that a write of a lost runner can be told from a new one";

function isDone({ content }: Entry, seen: Looked | undefined): boolean {
  if (!seen?.isKnown) return false;
  return content === null ? seen.version === null : seen.content === contentName(content);
}

/**
 * Puts a stream. Each piece that passes is a sign that the store takes them. The bytes are fetched by a loop that begins
 * out here: what fetches them is the runner's own business, and the policy does not apply to it.
 */
async function putStream(
  store: Store,
  {
    put,
    bytes,
    progress,
  }: { put: Omit<ObjectPut, "body">; bytes: AsyncIterable<Buffer>; progress: Progress },
): Promise<void> {
  const body = new PassThrough();
  const fetching = pipeline(
    bytes,
    async function* (pieces: AsyncIterable<Buffer>) {
      for await (const piece of pieces) {
        progress.alive();
        yield piece;
      }
    },
    body,
  );
  let broken: unknown;
  const fetched = fetching.catch((error: unknown) => {
    broken = error;
  });
  try {
    await store.put({ ...put, body });
  } catch (error) {
    // The store's client only hears that the stream broke off.
    throw broken instanceof ContentBroken ? broken : error;
  } finally {
    body.destroy();
    await fetched;
  }
}

/** Whether the store at an address keeps conditions, as far as this process has found out. */
const KEEPS_CONDITIONS = new Map<string, boolean>();

const NOTHING = Buffer.alloc(0);

/** Asks for a write on a version that is not there. A store that does it all the same does not look at conditions. */
async function keepsConditions(
  store: Store,
  { key, signal }: { key: string; signal: AbortSignal },
): Promise<boolean> {
  try {
    const nothing = { content: contentIdOf(NOTHING), contentType: DEFAULT_CONTENT_TYPE, body: NOTHING };
    await store.put({ key, ...nothing, version: store.noVersion, signal });
  } catch (error) {
    if (error instanceof Outrun) return true;
    throw error;
  }
  const { version } = await store.look({ key, signal });
  await store.remove({ key, version, signal });
  return false;
}

function unfencedRemark(destination: Destination): string {
  return (
    `${placeText({ ...destination, dir: "" })} ignores conditions on writes: ` +
    "a write of a runner that was lost may come late there and replace a newer one"
  );
}

function failureOf(error: unknown): Failure {
  if (error instanceof Outrun) return "transient";
  return error instanceof ContentBroken ? error.failure : storeFailureOf(error);
}
