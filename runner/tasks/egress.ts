import { Transform } from "node:stream";
import type { ContentId } from "../../protocol/content.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Task } from "../../protocol/runner.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Grant } from "../gateway/grant.ts";
import { type Failure, retrying } from "../gateway/retry.ts";
import { forEachLimited, type Progress, whileItGoesOn } from "../lib/concurrency.ts";
import type { SecretSource } from "../secrets/source.ts";
import { ContentBroken, contentBuffer, contentStream } from "./contents.ts";
import { type Credentials, environmentCredentials, secretCredentials } from "./credentials.ts";
import { type Destination, objectKey, parseDestination, placeText } from "./destination.ts";
import { EgressFault, statusOf, storeFailureOf, storeMessage } from "./store-failure.ts";
import { openAzure } from "./stores/azure.ts";
import { openGcs } from "./stores/gcs.ts";
import { openS3 } from "./stores/s3.ts";
import { type Store, type StoreRequest, WHOLE_BYTES } from "./stores/store.ts";

type EgressTask = Extract<Task, { kind: "egress" }>;
type Entry = EgressTask["entries"][number];

export interface EgressDeps {
  readonly gateway: Pick<Gateway, "content">;
  readonly secrets: SecretSource;
  /** Holds the credentials, unless the egress names a secret. */
  readonly env: NodeJS.ProcessEnv;
  /** How long a store may take no byte and give no answer. */
  readonly stallMs?: number | undefined;
}

export interface EgressRequest {
  readonly task: EgressTask;
  /** The branch that has the contents. */
  readonly output: BranchAddress;
  readonly grant?: Grant | undefined;
  readonly signal: AbortSignal;
}

// Small and large objects that are on their way at a time: both bounds bound memory.
const SMALL_AT_ONCE = 8;
const LARGE_AT_ONCE = 2;
const MAX_TRIES = 5;
const STALL_MS = 5 * 60_000;

/**
 * Makes the external store hold what the entries say. An object that an earlier try put there costs one question.
 * Removals come first: a store that is a tree, as Sluice is, can't hold a file as long as a folder has its name. Throws
 * EgressFault with the path, the store and what it said; SecretMissing; what `signal` is aborted with.
 */
export async function egressEntries(
  { gateway, secrets, env, stallMs = STALL_MS }: EgressDeps,
  { task, output, grant, signal }: EgressRequest,
): Promise<void> {
  const { egress, entries } = task;
  const destination = parseDestination(egress.URL);
  const name = egress.secret;
  const credentials =
    name === undefined ? environmentCredentials(env) : await secretCredentials(secrets, { name, signal });
  const store = await opened({ destination, endpoint: egress.endpoint, credentials });
  const writer = new EntryWriter({
    gateway,
    stallMs,
    store,
    destination,
    credentials,
    output,
    grant,
    signal,
  });
  const large = (entry: Entry) => entry.content !== null && entry.content.size > WHOLE_BYTES;
  const removed = entries.filter(({ content }) => content === null);
  const small = entries.filter((entry) => !large(entry));
  try {
    const put = (entry: Entry) => writer.put(entry);
    await forEachLimited(removed, { limit: SMALL_AT_ONCE, work: (entry) => writer.remove(entry) });
    await forEachLimited(small, { limit: SMALL_AT_ONCE, work: put });
    await forEachLimited(entries.filter(large), { limit: LARGE_AT_ONCE, work: put });
  } finally {
    store.close();
  }
}

/** Each loads its vendor's SDK when it is called, so that only those who need it pay for it. */
const OPENERS = { s3: openS3, gs: openGcs, azure: openAzure };

/** Opens the store. That asks nobody, so a failure is the fault of how the egress is set up. */
async function opened(request: StoreRequest): Promise<Store> {
  const { destination, credentials } = request;
  try {
    return await OPENERS[destination.kind](request);
  } catch (error) {
    const said = storeMessage(error, credentials.redact);
    throw new EgressFault(`${placeText(destination)} can't be used: ${said}`);
  }
}

interface WriterOptions {
  readonly gateway: EgressDeps["gateway"];
  readonly stallMs: number;
  readonly store: Store;
  readonly destination: Destination;
  readonly credentials: Credentials;
  readonly output: BranchAddress;
  readonly grant: Grant | undefined;
  readonly signal: AbortSignal;
}

/** Brings single entries to the store, each with its tries. */
class EntryWriter {
  readonly #options: WriterOptions;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  async remove({ path }: Entry): Promise<void> {
    const { store, destination } = this.#options;
    const key = objectKey(destination, path);
    await this.#tried({ path, what: "removed from" }, ({ signal }) => store.remove({ key, signal }));
  }

  async put({ path, content }: Entry): Promise<void> {
    if (content === null) return;
    const key = objectKey(this.#options.destination, path);
    await this.#tried({ path, what: "put to" }, (progress) => this.#put({ key, content }, progress));
  }

  async #put({ key, content }: { key: string; content: ContentId }, progress: Progress): Promise<void> {
    const { gateway, store, output: address, grant } = this.#options;
    const { signal } = progress;
    if (await isThere(store, { key, content, signal })) return;
    const request = { address, content, grant, signal };
    if (content.size <= WHOLE_BYTES) {
      const body = await contentBuffer(gateway, request);
      return store.put({ key, content, body, signal });
    }
    const source = contentStream(gateway, request);
    const body = told(progress);
    source.on("error", (error) => body.destroy(error)).pipe(body);
    try {
      await store.put({ key, content, body, signal });
    } finally {
      source.destroy();
      body.destroy();
    }
  }

  async #tried(
    { path, what }: { path: string; what: string },
    work: (progress: Progress) => Promise<void>,
  ): Promise<void> {
    const { signal, stallMs, destination, credentials } = this.#options;
    const once = () => whileItGoesOn({ stop: signal, stallMs }, work);
    try {
      await retrying(once, { signal, classify: failureOf, maxTransient: MAX_TRIES });
    } catch (error) {
      signal.throwIfAborted();
      const said = storeMessage(error, credentials.redact);
      throw new EgressFault(`"${path}" could not be ${what} ${placeText(destination)}: ${said}`);
    }
  }
}

/** Passes bytes on. Each piece that passes is a sign that the store takes them. */
function told({ alive }: Progress): Transform {
  return new Transform({
    transform(chunk, _encoding, done) {
      alive();
      done(null, chunk);
    },
  });
}

/** Whether the object is there. If the key may not ask, it is put again: a refusal of that says what is wrong. */
async function isThere(store: Store, object: Parameters<Store["has"]>[0]): Promise<boolean> {
  try {
    return await store.has(object);
  } catch (error) {
    const status = statusOf(error);
    if (status !== undefined && status < 500 && storeFailureOf(error) === "final") return false;
    throw error;
  }
}

function failureOf(error: unknown): Failure {
  return error instanceof ContentBroken ? error.failure : storeFailureOf(error);
}
