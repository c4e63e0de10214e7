import { z } from "zod";
import { parseDuration } from "../protocol/duration.ts";
import { rotationProblem, Settings } from "../protocol/settings.ts";
import type { Place } from "./core/places.ts";

/** What the platform binds to the Worker. Exactly one of BLOBS (R2) and DISK (embedded: workerd's disk service) is there. */
export type Env = Omit<Cloudflare.Env, "BLOBS" | "CONSOLE" | "VERSION"> &
  // VERSION: which upload this is; on Cloudflare alone.
  Partial<Pick<Cloudflare.Env, "BLOBS" | "VERSION">> & {
    /** The files of the console, by their names. Absent: the gateway is served without it. */
    readonly CONSOLE?: Fetcher;
    readonly DISK?: Fetcher;
    /** Embedded: the folders of the objects' own files (objects/made-objects.ts). */
    readonly BRANCH_FILES?: Fetcher;
    readonly PIPELINE_FILES?: Fetcher;
    /** Embedded: the host, which does what needs that the runtime does not run (embedded/scrub/scrubs.ts). */
    readonly HOST?: Fetcher;
  } & { readonly [Name in keyof z.input<typeof Vars>]: string };

/** The objects of a class, all of which are in the jurisdiction that the deployment is set to. A gateway on one machine has none. */
export function objectsOf<Class extends "BRANCH" | "PIPELINE" | "FLEET">(
  env: Pick<Env, Class> & JurisdictionEnv,
  name: Class,
): Env[Class] {
  const jurisdiction = jurisdictionOf(env);
  const objects = env[name];
  return jurisdiction === undefined
    ? objects
    : (objects.jurisdiction(jurisdiction as DurableObjectJurisdiction) as Env[Class]);
}

/** How an object is referred to that is to be in a place, if the reference is the first that is called. A jurisdiction places by itself. */
export function located(
  env: JurisdictionEnv,
  place: Place | null | undefined,
): DurableObjectNamespaceGetDurableObjectOptions | undefined {
  return place?.hint && jurisdictionOf(env) === undefined ? { locationHint: place.hint } : undefined;
}

function jurisdictionOf({
  DISK,
  SLUICE_JURISDICTION,
}: JurisdictionEnv): JurisdictionEnv["SLUICE_JURISDICTION"] {
  return DISK === undefined ? SLUICE_JURISDICTION : undefined;
}

type JurisdictionEnv = Partial<Pick<Env, "DISK" | "SLUICE_JURISDICTION">>;

/** A call to the host; it is a POST if it has a body, which is sent as JSON. */
export interface HostRequest {
  readonly path: `/${string}`;
  readonly body?: unknown;
}

/** Answers what the host's JSON says. */
export type AskHost = (request: HostRequest) => Promise<unknown>;

/** The host, if the gateway is one that has one. */
export function openHost({ HOST, SLUICE_HOST_TOKEN: token }: HostEnv): AskHost | undefined {
  if (!HOST || token === undefined) return undefined;
  return async ({ path, body }) => {
    const post = body !== undefined && { method: "POST", body: JSON.stringify(body) };
    const answer = await HOST.fetch(`http://host${path}`, { ...post, headers: { authorization: token } });
    if (!answer.ok) throw new Error(`the host answered ${answer.status} to ${path}`);
    return await answer.json();
  };
}

type HostEnv = Partial<Pick<Env, "HOST" | "SLUICE_HOST_TOKEN">>;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Of a variable that is a secret. */
const IS_MISSING = "is missing: set it ('wrangler secret put', or .dev.vars for 'wrangler dev')";

const Vars = z.object({
  SLUICE_ACCESS_KEY_ID: z.string({ error: IS_MISSING }).min(3, { error: "is too short" }),
  SLUICE_SECRET_ACCESS_KEY: z.string({ error: IS_MISSING }).min(8, { error: "is too short" }),
  /** The key of the runners that `sluice dev` starts, made anew at each start. */
  SLUICE_RUNNER_ACCESS_KEY_ID: z.string().optional(),
  SLUICE_RUNNER_SECRET_ACCESS_KEY: z.string().min(8, { error: "is too short" }).optional(),
  /** By it the host knows the Worker: others on the machine reach it as well. Made anew at each start. */
  SLUICE_HOST_TOKEN: z.string().optional(),
  ...Settings.shape,
});

/** A key of the environment. */
export interface NamedSecret {
  readonly id: string;
  readonly secret: string;
}

/** The variables of the Worker, checked. */
export interface Config {
  /** The root key, and while it is being changed the one before. */
  readonly rootKeys: readonly [NamedSecret, ...NamedSecret[]];
  /** A key of level `runner` that is not in D1. */
  readonly runnerKey: NamedSecret | undefined;
  /** Each the base64 of 32 bytes. The first seals; those that it did not seal are opened with the others. None: no keys can be made. */
  readonly encryptionKeys: readonly string[];
  /** The base domain of virtual-host addressing, with its port if it has one. */
  readonly domain: string | undefined;
  readonly uploadTtlMs: number;
  /** So many of the newest jobs of each pipeline are listed, and found by their ids. */
  readonly keptJobs: number;
  /** How long an open commit lives to which nothing is added: the default, and the most that a client may ask for. */
  readonly openCommitTtl: { readonly defaultMs: number; readonly maxMs: number };
  readonly lastModified: "branch" | "file";
  /** Whether what is stored lies encrypted with AES-256: by R2 and the objects' storage, or by a disk that is said to do it. */
  readonly isEncrypted: boolean;
  /** What a branch is set to that CreateBucket makes. No other branch: `keep` takes commits. */
  readonly newBuckets: {
    readonly keep: z.output<typeof Settings>["SLUICE_KEEP"];
    readonly emptyOnly: boolean;
  };
  /** What the database of one branch may have. */
  readonly branchBytes: number;
  /** Whether each request is a line of the log. */
  readonly requestLog: boolean;
  /** Whether the entry answers out of what the objects read (branch/tree/read-cache.ts). It must be in their process. */
  readonly sharesReads: boolean;
  /** Whether reads take blobs through the cache of the data center (blobs/near/near.ts). Only Cloudflare has one. */
  readonly cachesBlobs: boolean;
  /** Whether the entry keeps the rows of files that were read (near-files.ts). It too is for Cloudflare alone. */
  readonly keepsFiles: boolean;
  /** Whether it answers by those of commits for a while without asking. */
  readonly trustsCommits: boolean;
  /** The same of the newest state of branches that are set so. */
  readonly trustsNear: boolean;
  /** Whether a bucket is looked for before it is called: on one machine its file, on Cloudflare what D1 and R2 have of it. All are there first. */
  readonly probesBuckets: boolean;
  /** Whether nodes have sockets (fleet/fleet.ts). If not, they ask all the time. */
  readonly takesSockets: boolean;
}

type ReadConfig =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly problem: string };

const read = new WeakMap<Env, ReadConfig>();

/** Checks the variables, once per isolate. There is no default key, so that no gateway is open by accident. */
export function readConfig(env: Env): ReadConfig {
  const known = read.get(env);
  if (known) return known;
  const result = checkVars(env);
  read.set(env, result);
  return result;
}

function checkVars(env: Env): ReadConfig {
  const vars = Vars.safeParse(env);
  if (!vars.success) {
    const problem = vars.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`).join("; ");
    return { ok: false, problem };
  }
  const { data } = vars;
  const problem = rotationProblem(data);
  if (problem !== undefined) return { ok: false, problem };
  const maxOpenCommitMs = parseDuration(data.SLUICE_SESSION_MAX_TTL) ?? 0;
  const openCommitMs = parseDuration(data.SLUICE_SESSION_TTL) ?? 0;
  return {
    ok: true,
    config: {
      rootKeys: [
        { id: data.SLUICE_ACCESS_KEY_ID, secret: data.SLUICE_SECRET_ACCESS_KEY },
        ...secretOf(data.SLUICE_ACCESS_KEY_ID_PREVIOUS, data.SLUICE_SECRET_ACCESS_KEY_PREVIOUS),
      ],
      runnerKey: secretOf(data.SLUICE_RUNNER_ACCESS_KEY_ID, data.SLUICE_RUNNER_SECRET_ACCESS_KEY)[0],
      encryptionKeys: [data.SLUICE_ENCRYPTION_KEY, data.SLUICE_ENCRYPTION_KEY_PREVIOUS].filter(
        (key) => key !== undefined,
      ),
      domain: data.SLUICE_DOMAIN,
      uploadTtlMs: data.SLUICE_UPLOAD_DAYS * DAY_MS,
      keptJobs: data.SLUICE_KEEP_JOBS,
      openCommitTtl: { defaultMs: Math.min(openCommitMs, maxOpenCommitMs), maxMs: maxOpenCommitMs },
      lastModified: data.SLUICE_LAST_MODIFIED === "object" ? "file" : "branch",
      isEncrypted:
        data.SLUICE_DISK_ENCRYPTED === undefined
          ? env.DISK === undefined
          : data.SLUICE_DISK_ENCRYPTED === "on",
      newBuckets: { keep: data.SLUICE_KEEP, emptyOnly: data.SLUICE_DELETE === "empty-only" },
      branchBytes: data.SLUICE_BRANCH_BYTES,
      requestLog: data.SLUICE_REQUEST_LOG === "on",
      // On Cloudflare an object may be on another machine than the entry. There is no host.
      sharesReads: env.HOST !== undefined && data.SLUICE_READ_MEMORY === "on",
      cachesBlobs: env.DISK === undefined && data.SLUICE_BLOB_CACHE === "on",
      keepsFiles: env.DISK === undefined && data.SLUICE_ROW_CACHE === "on",
      trustsCommits: data.SLUICE_COMMIT_CACHE === "on",
      trustsNear: data.SLUICE_NEAR_CACHE === "on",
      probesBuckets: env.BRANCH_FILES !== undefined || data.SLUICE_BUCKET_PROBE === "on",
      takesSockets: data.SLUICE_NODE_SOCKETS === "on",
    },
  };
}

function secretOf(id: string | undefined, secret: string | undefined): NamedSecret[] {
  return id === undefined || secret === undefined ? [] : [{ id, secret }];
}
