import { exports as entrypoints } from "cloudflare:workers";
import { type BranchAddress, bucketName, parseBucketName } from "../protocol/names.ts";
import { branchMarker } from "./blobs/blob-name.ts";
import { type BlobCache, EntrypointCache, NearReads } from "./blobs/near/near.ts";
import type { BlobReader, BlobStore } from "./blobs/port.ts";
import { ReadHold } from "./blobs/read/read-hold.ts";
import { openBlobStore } from "./blobs/stores.ts";
import { refused } from "./branch/contract/answers.ts";
import type { BranchApi } from "./branch/contract/api.ts";
import { type SharedReads, sharedReads } from "./branch/tree/read-cache.ts";
import { type Catalogue, openCatalogue } from "./catalogue/catalogue.ts";
import type { KeyScope } from "./core/permissions.ts";
import type { Place } from "./core/places.ts";
import { DiskRoom, RoomyStore } from "./disk-room.ts";
import { type AskHost, type Config, type Env, located, objectsOf, openHost } from "./env.ts";
import { type FleetDoor, openFleet } from "./fleet/door.ts";
import { Handles } from "./handles.ts";
import { inTime } from "./in-time.ts";
import { type Grants, openGrants } from "./keys/grants.ts";
import { type HiddenRepos, openHiddenRepos } from "./keys/hidden-repos.ts";
import { type KeyRing, openKeyRing } from "./keys/key-ring.ts";
import { OpenBranches } from "./keys/open-branches.ts";
import { NearFiles } from "./near-files.ts";
import type { CallName } from "./objects/facets.ts";
import { madeObjects, onDisk } from "./objects/made-objects.ts";
import type { PipelineApi } from "./pipeline/contract.ts";
import { pipelineMarker } from "./pipeline/lifecycle/definition.ts";
import type { RequestEvent } from "./request-log.ts";

/** The sender of a request whose signature is good, or of one that needs none. */
export interface Caller {
  /** "" if nobody signed. Of a session, the id of the key as which it acts. */
  readonly keyId: string;
  /** The id of the session that signed; absent: the key itself did. */
  readonly session?: string;
  readonly scope: KeyScope;
  readonly payload: Payload;
  /** When its key expires; milliseconds since 1970. Absent: never. */
  readonly expiresAt?: number;
}

/** What a signature says of the body (SigV4's x-amz-content-sha256). */
export type Payload =
  /** As it is; `sha256` is what its SHA-256 must be, in hex, or null if it is not signed. */
  | { readonly form: "plain"; readonly sha256: string | null }
  /** In aws-chunked framing. */
  | {
      readonly form: "aws-chunked";
      /** What the chunks are signed with; null if they are not signed. */
      readonly signing: ChunkSigning | null;
      readonly trailer: "none" | "expected";
    };

/** A key that signs texts: derived from a secret, for one day and region. */
export interface SigningKey {
  /** 32 bytes. */
  sign(text: string): Uint8Array;
}

/** What the signature of the next chunk is made from ("Signature Calculations: Transferring Payload in Multiple Chunks"). */
export interface ChunkSigning {
  readonly key: SigningKey;
  /** `YYYYMMDDTHHMMSSZ` */
  readonly time: string;
  /** `<YYYYMMDD>/<region>/s3/aws4_request` */
  readonly scope: string;
  /** The request's own signature, in hex. */
  readonly seed: string;
}

/** Through this, S3 operations and control API handlers reach everything else. One per request. */
export interface Context {
  readonly requestId: string;
  /** What the log is to tell of the request. */
  readonly event: RequestEvent;
  readonly config: Config;
  readonly blobs: BlobStore;
  /** Files that were read lately; undefined: none are kept. */
  readonly nearFiles: NearFiles | undefined;
  /** Copies of blobs near the reader; undefined: there are none. */
  readonly blobCache: BlobCache | undefined;
  /** What is free on the disk of an embedded gateway; undefined elsewhere. */
  readonly room: DiskRoom | undefined;
  /** The file handles of an embedded gateway; undefined elsewhere. */
  readonly handles: Handles | undefined;
  readonly catalogue: Catalogue;
  readonly keys: KeyRing;
  readonly grants: Grants;
  readonly openBranches: OpenBranches;
  readonly hiddenRepos: HiddenRepos;
  /** The host, if the gateway is one that has one. It answers JSON. */
  readonly askHost: AskHost | undefined;
  /** Wakes nodes. */
  readonly fleet: FleetDoor;
  /** `place`: where the branch is to live if a call makes it. */
  branch(address: BranchAddress, place?: Place | null): BranchApi;
  /** What a branch's object has answered before of its newest state; undefined: none of it is here. */
  shared(address: BranchAddress): SharedReads | undefined;
  /** Keeps what is read of a branch, for one read. */
  hold(address: BranchAddress): ReadHold;
  /** The same of a pipeline. */
  pipeline(name: string, place?: Place | null): PipelineApi;
}

/** What the requests of an isolate share. */
type Shared = Omit<Context, "requestId" | "event">;

const shared = new WeakMap<Env, Shared>();

/** Puts the parts together over what the platform binds. The requests of an isolate share all but the id and the event. */
export function openContext(env: Env, config: Config): Context {
  let parts = shared.get(env);
  if (parts?.config !== config) {
    parts = openShared(env, config);
    shared.set(env, parts);
  }
  return { ...parts, requestId: crypto.randomUUID(), event: {} };
}

function openShared(env: Env, config: Config): Shared {
  const catalogue = openCatalogue(env.DB);
  const askHost = openHost(env);
  const room = askHost && new DiskRoom(() => askHost({ path: "/disks" }), Date.now);
  const handles = askHost && new Handles(() => askHost({ path: "/handles" }));
  const unmade = room && ((error: unknown) => room.unmade(error));
  const explain = handles && ((error: unknown) => handles.explain(error));
  const blobs = openBlobStore(env);
  const branches = madeObjects<BranchApi>(objectsOf(env, "BRANCH"), {
    isMade: env.BRANCH_FILES
      ? onDisk(env.BRANCH, env.BRANCH_FILES)
      : config.probesBuckets
        ? isKnownTo({ blobs, find: findBranch(catalogue) })
        : undefined,
    makers: ["lifecycle.create", "lifecycle.fork", "imports.begin", "feed.subscribe", "output.claim"],
    unasked: answerOfNoBranch,
    unmade,
    explain,
  });
  const pipelines = madeObjects<PipelineApi>(objectsOf(env, "PIPELINE"), {
    isMade: env.PIPELINE_FILES
      ? onDisk(env.PIPELINE, env.PIPELINE_FILES)
      : config.probesBuckets
        ? butForDeletions(isKnownTo({ blobs, find: findPipeline(catalogue) }))
        : undefined,
    makers: ["lifecycle.create"],
    unasked: answerOfNoPipeline,
    unmade,
    explain,
  });
  const branch: Context["branch"] = (address, place) => branches(bucketName(address), located(env, place));
  return {
    config,
    blobs: room ? new RoomyStore(blobs, room, { explain }) : blobs,
    nearFiles: config.keepsFiles ? new NearFiles(config) : undefined,
    blobCache: config.cachesBlobs ? new EntrypointCache(() => entrypoints.Blobs) : undefined,
    room,
    handles,
    catalogue,
    keys: openKeyRing(config, catalogue),
    grants: openGrants(secretsOf(config.rootKeys)),
    openBranches: new OpenBranches({
      catalogue,
      async rulesOf(address) {
        const settings = await branch(address).settings.read();
        return (settings.ok && settings.cors) || [];
      },
    }),
    hiddenRepos: openHiddenRepos(catalogue),
    askHost,
    fleet: openFleet(env),
    branch,
    shared: (address) => (config.sharesReads ? sharedReads(bucketName(address)) : undefined),
    hold: (address) =>
      new ReadHold({
        bucket: bucketName(address),
        keeper(bucket) {
          const owner = parseBucketName(bucket);
          return owner && branch(owner).files;
        },
      }),
    pipeline: (name, place) => pipelines(name, located(env, place)),
  };
}

/** D1 is near or it is away: an object's first call of an isolate waits for no more than this; milliseconds. */
const PROBE_MS = 2000;

/** What tells whether an object of some name was ever made. */
interface Traces {
  /** Whether the catalogue knows it. */
  readonly known: () => Promise<boolean>;
  /** The blob that is there for as long as the catalogue may not know it. */
  readonly marker: string;
}

const findBranch =
  ({ branches }: Catalogue) =>
  (bucket: string): Traces | undefined => {
    const address = parseBucketName(bucket);
    return address && { known: () => branches.isKnown(address), marker: branchMarker(address) };
  };

const findPipeline =
  ({ pipelines }: Catalogue) =>
  (name: string): Traces => ({ known: () => pipelines.isKnown(name), marker: pipelineMarker(name) });

/**
 * Whether a branch or a pipeline was ever made, by the catalogue, and if that does not know it, by its marker. That of a branch is
 * there before the first row of its object is (branch/calls/facet.ts): so no gateway finds missing what another one has found, also
 * while it is made or imported, and while D1 is lost and not rebuilt yet. That of a pipeline is there before its maker is told that it
 * is made. Undefined: one of the two can't be asked.
 */
function isKnownTo({
  blobs,
  find,
}: Pick<Shared, "blobs"> & { find: (name: string) => Traces | undefined }): IsMade {
  return async (name) => {
    const traces = find(name);
    if (!traces) return true;
    const ask = async (): Promise<boolean> => {
      if (await traces.known()) return true;
      const marker = await blobs.get(traces.marker, { offset: 0, length: 1 });
      await marker?.cancel();
      return marker !== null;
    };
    try {
      return await inTime(ask(), PROBE_MS);
    } catch (error) {
      console.warn(`whether ${name} was ever made can't be found out before it is called:`, error);
      return undefined;
    }
  };
}

type IsMade = (name: string, call: string) => Promise<boolean | undefined>;

/** A deletion is not asked about: a creation that stands still halfway, of which nobody else knows yet, can be taken back. */
function butForDeletions(isMade: IsMade): IsMade {
  return async (name, call) => (call === "lifecycle.destroy" ? undefined : await isMade(name, call));
}

/** What tools ask of buckets before they make them, and what they do with one that is gone. */
const OF_NO_BRANCH: readonly CallName<BranchApi>[] = [
  ...(["lifecycle.status", "lifecycle.inspect", "settings.read"] as const),
  ...(["files.read", "files.list", "files.versions", "files.put", "uploads.open"] as const),
];

/** What these calls answer of a branch that was never made; undefined for others, and of views, which have answers of their own. */
function answerOfNoBranch(call: CallName<BranchApi>, [request]: readonly unknown[]): unknown {
  const { publicOnly, openCommit, commit, lease } = (request ?? {}) as Partial<Record<string, unknown>>;
  const isOfHead = openCommit === undefined && commit === undefined && lease === undefined;
  if (!isOfHead || !OF_NO_BRANCH.includes(call)) return undefined;
  return refused(publicOnly ? "not-public" : "no-such-branch");
}

/** The same of a pipeline that was never made: tools ask for one before they make it. */
function answerOfNoPipeline(call: CallName<PipelineApi>): unknown {
  return call === "lifecycle.inspect" ? refused("no-such-pipeline") : undefined;
}

/** Through what a request reads the bytes of files: a cache near the reader, if there is one. The log is told where the first came from. */
export function blobsNear({
  blobs,
  blobCache,
  event,
}: Pick<Context, "blobs" | "blobCache" | "event">): BlobReader {
  if (!blobCache) return blobs;
  return new NearReads(blobs, blobCache, (from) => {
    event.bytesFrom ??= from;
  });
}

function secretsOf([first, ...others]: Config["rootKeys"]): [string, ...string[]] {
  return [first.secret, ...others.map(({ secret }) => secret)];
}

/**
 * A refusal tells the time. Clients whose clock is wrong, such as those of AWS, then sign by our clock. On Cloudflare every
 * answer has the time anyway; elsewhere none has.
 */
export function withTime(answer: Response, now: number): Response {
  if (answer.status === 403) answer.headers.set("date", new Date(now).toUTCString());
  return answer;
}
