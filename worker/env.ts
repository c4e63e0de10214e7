import { z } from "zod";
import { parseDuration } from "../protocol/duration.ts";
import { Settings } from "../protocol/settings.ts";

/** What the platform binds to the Worker. Exactly one of BLOBS (R2) and DISK (embedded: workerd's disk service) is there. */
export type Env = Omit<Cloudflare.Env, "BLOBS"> &
  Partial<Pick<Cloudflare.Env, "BLOBS">> & {
    readonly DISK?: Fetcher;
  } & { readonly [Name in keyof z.input<typeof Vars>]: string };

const DAY_MS = 24 * 60 * 60 * 1000;

const Vars = z.object({
  SLUICE_ACCESS_KEY_ID: z.string().min(3, { error: "missing or too short" }),
  SLUICE_SECRET_ACCESS_KEY: z.string().min(8, { error: "missing or too short" }),
  ...Settings.shape,
});

/** The variables of the Worker, checked. */
export interface Config {
  readonly rootKey: { readonly id: string; readonly secret: string };
  /** Base64 of 32 bytes. */
  readonly encryptionKey: string | undefined;
  /** The base domain of virtual-host addressing, with its port if it has one. */
  readonly domain: string | undefined;
  readonly uploadTtlMs: number;
  /** How long an open commit lives to which nothing is added: the default, and the most that a client may ask for. */
  readonly openCommitTtl: { readonly defaultMs: number; readonly maxMs: number };
  readonly lastModified: "branch" | "file";
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
  const maxOpenCommitMs = parseDuration(data.SLUICE_SESSION_MAX_TTL) ?? 0;
  const openCommitMs = parseDuration(data.SLUICE_SESSION_TTL) ?? 0;
  return {
    ok: true,
    config: {
      rootKey: { id: data.SLUICE_ACCESS_KEY_ID, secret: data.SLUICE_SECRET_ACCESS_KEY },
      encryptionKey: data.SLUICE_ENCRYPTION_KEY,
      domain: data.SLUICE_DOMAIN,
      uploadTtlMs: data.SLUICE_UPLOAD_DAYS * DAY_MS,
      openCommitTtl: { defaultMs: Math.min(openCommitMs, maxOpenCommitMs), maxMs: maxOpenCommitMs },
      lastModified: data.SLUICE_LAST_MODIFIED === "object" ? "file" : "branch",
    },
  };
}
