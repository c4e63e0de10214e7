import { OTHER_FAMILY_CAUSE, OTHER_FAMILY_FIX } from "../protocol/family.ts";
import { parseBucketName } from "../protocol/names.ts";
import type { AlmostFull, Readiness, ReadyCause, ReadyCheck } from "../protocol/ready.ts";
import { type Space, TOLD_FROM } from "../protocol/repos.ts";
import { WIRE_VERSION } from "../protocol/runner.ts";
import type { Context } from "./app.ts";
import type { BlobStore } from "./blobs/port.ts";
import type { Catalogue } from "./catalogue/catalogue.ts";
import type { AlmostFullRow } from "./catalogue/space.ts";
import { CATALOGUE_WORDS } from "./core/catalogue-fault.ts";
import type { DiskRoom } from "./disk-room.ts";
import type { Config } from "./env.ts";
import type { Handles } from "./handles.ts";
import { inTime } from "./in-time.ts";

/** The newest file of `migrations/`: what D1 must have been through. */
export const NEWEST_MIGRATION = "0006_fleets.sql";

/** Anybody may ask, so the stores are asked at most so often; milliseconds. */
const KEPT_MS = 2000;
/** A blob that is never there: whether the store says so is what is asked. */
const NO_BLOB = "ready/none";

/** What is looked at. The variables are judged before there is any of it, each by itself. */
export interface ReadyStores {
  readonly config: Pick<Config, "encryptionKeys">;
  readonly catalogue: Pick<Catalogue, "fault" | "newestMigration"> & {
    readonly keys: Pick<Catalogue["keys"], "list">;
  };
  readonly blobs: Pick<BlobStore, "get">;
  readonly room?: Pick<DiskRoom, "shortage"> | undefined;
  readonly handles?: Pick<Handles, "shortage"> | undefined;
}

/** Most objects that are asked how full they are. */
const MOST_ALMOST_FULL = 100;

type SpaceParts = Pick<Context, "branch" | "pipeline"> & {
  readonly catalogue: Pick<Catalogue, "space" | "almostFull">;
};

interface Looked {
  readonly at: number;
  readonly causes: Promise<readonly ReadyCause[]>;
}

const looked = new WeakMap<ReadyStores["catalogue"], Looked>();

/**
 * Whether the stores can serve, and why not. What was found counts for two seconds in an isolate, so that a crowd that asks
 * costs what one caller does.
 */
export async function findCauses(stores: ReadyStores, now: number): Promise<readonly ReadyCause[]> {
  const known = looked.get(stores.catalogue);
  if (known && now >= known.at && now - known.at < KEPT_MS) return await known.causes;
  const checks = [keyCauses(stores), catalogueCauses(stores), blobCauses(stores), hostCauses(stores)];
  const causes = Promise.all(checks).then((found) => found.flat());
  looked.set(stores.catalogue, { at: now, causes });
  return await causes;
}

/** Checks that keep the gateway from taking new files, or clients at a time, and from nothing else. */
const GOES_ON_WITHOUT: readonly string[] = ["disk", "handles"] satisfies ReadyCheck[];

/** The answer for everybody: the names alone. */
export function readiness(causes: readonly Pick<ReadyCause, "check">[]): Readiness {
  const ready = causes.every(({ check }) => GOES_ON_WITHOUT.includes(check));
  return { ready, failed: causes.map(({ check }) => check) };
}

/** The same for who may know why. `upload`: which one of the Worker this is, on Cloudflare. */
export function readinessInFull(
  causes: readonly ReadyCause[],
  { upload, almostFull }: { upload: string | undefined; almostFull: readonly AlmostFull[] | undefined },
): Readiness {
  return {
    ...readiness(causes),
    causes: [...causes],
    versions: { wire: WIRE_VERSION, migration: NEWEST_MIGRATION, ...(upload !== undefined && { upload }) },
    ...(almostFull && { almostFull: [...almostFull] }),
  };
}

/**
 * What is near its limit. Only objects that said so are asked, and each says how it is now: so it costs nothing while there is
 * room. Undefined: it can't be told just now.
 */
export async function findAlmostFull(parts: SpaceParts): Promise<AlmostFull[] | undefined> {
  try {
    const [space, rows] = await inTime(
      Promise.all([parts.catalogue.space(), parts.catalogue.almostFull.list(MOST_ALMOST_FULL)]),
    );
    const objects = await inTime(Promise.all(rows.map((row) => lookAt(row, parts))));
    const fix = "Delete pipelines and branches that nobody needs.";
    const own = isAlmostFull(space) ? [{ kind: "catalogue", name: "D1", ...space, fix }] : [];
    return [...own, ...objects.filter((found) => found !== undefined)];
  } catch (error) {
    console.warn("what is almost full can't be told", error);
    return undefined;
  }
}

async function lookAt(row: AlmostFullRow, parts: SpaceParts): Promise<AlmostFull | undefined> {
  const { kind, name } = row;
  const space = await (kind === "branch" ? branchSpace(name, parts) : parts.pipeline(name).admin.space());
  if (space && isAlmostFull(space)) return { kind, name, ...space, fix: FIXES[kind](name) };
  await parts.catalogue.almostFull.forget(row);
  return undefined;
}

async function branchSpace(bucket: string, { branch }: SpaceParts): Promise<Space | undefined> {
  const address = parseBucketName(bucket);
  const found = address && (await branch(address).admin.usage({ sizes: true }));
  return found?.ok ? found.database : undefined;
}

const FIXES: Record<AlmostFullRow["kind"], (name: string) => string> = {
  branch: (bucket) =>
    `Keep less of its history: 'sluice branch keep ${bucket} --commits N'. From 95 % on it takes deletions alone.`,
  pipeline: (name) =>
    `Keep fewer commits of its output, or fewer jobs: 'sluice repo usage ${name}' shows what it keeps.`,
};

function isAlmostFull({ usedBytes, limitBytes }: Space): boolean {
  return usedBytes >= TOLD_FROM * limitBytes;
}

/** What is wrong if the variables are, which nobody can sign a request to hear more of. */
export const UNCONFIGURED: readonly Pick<ReadyCause, "check">[] = [{ check: "configuration" }];

/** Without an encryption key, the keys in D1 are refused as if they were not there. A gateway that has none needs no encryption key. */
async function keyCauses({ config, catalogue }: ReadyStores): Promise<ReadyCause[]> {
  if (config.encryptionKeys.length > 0) return [];
  // If D1 can't tell, that is a cause of its own.
  const keys = await inTime(catalogue.keys.list({ limit: 1 })).catch(() => []);
  if (keys.length === 0) return [];
  return [
    cause("configuration", {
      cause: "SLUICE_ENCRYPTION_KEY is missing, so that the access keys in D1 can't be used.",
      fix: "Set it to what it was when they were made ('wrangler secret put', or .dev.vars for 'wrangler dev').",
    }),
  ];
}

async function catalogueCauses({ catalogue }: ReadyStores): Promise<ReadyCause[]> {
  const fault = await inTime(catalogue.fault()).catch(() => "catalogue-unavailable" as const);
  if (fault === "catalogue-unavailable") {
    const fix = "Look at the state of D1, and at its binding DB; nothing is lost meanwhile.";
    return [cause("catalogue", { cause: CATALOGUE_WORDS[fault], fix })];
  }
  if (fault === "other-family")
    return [cause("migrations", { cause: OTHER_FAMILY_CAUSE, fix: OTHER_FAMILY_FIX })];
  const newest = await inTime(catalogue.newestMigration()).catch(() => undefined);
  // Newer ones are of a release that was rolled back: this one works with them.
  if (fault === undefined && newest !== undefined && newest >= NEWEST_MIGRATION) return [];
  const has = newest === undefined ? "none" : `'${newest}'`;
  return [
    cause("migrations", {
      cause: `D1 lacks a migration that this release needs: the newest that it has is ${has}, the newest of the release is '${NEWEST_MIGRATION}'.`,
      fix: "Apply the migrations ('wrangler d1 migrations apply'), then try again.",
    }),
  ];
}

async function blobCauses({ blobs }: ReadyStores): Promise<ReadyCause[]> {
  try {
    const found = await inTime(blobs.get(NO_BLOB, { offset: 0, length: 1 }));
    await found?.cancel();
    return [];
  } catch (error) {
    return [
      cause("blobs", {
        cause: `The blob store does not answer: ${error instanceof Error ? error.message : String(error)}`,
        fix: "Look at the state of R2 and at its binding BLOBS; of an embedded gateway, at the folder of its data.",
      }),
    ];
  }
}

async function hostCauses({ room, handles }: ReadyStores): Promise<ReadyCause[]> {
  // A host that does not answer is no reason to refuse anything.
  const short = [room, handles].map((each) => each && inTime(each.shortage()).catch(() => undefined));
  return (await Promise.all(short)).filter((each) => each !== undefined);
}

function cause(check: ReadyCheck, { cause, fix }: Omit<ReadyCause, "check">): ReadyCause {
  return { check, cause, fix };
}
