import { z } from "zod";
import { Duration } from "./duration.ts";
import { Keep } from "./repos.ts";

const EncryptionKey = z
  .string()
  .regex(/^[A-Za-z0-9+/_-]{43}=?$/, { error: "must be the base64 of 32 bytes" });

/** `all`, `commits:<n>`, `days:<n>`, or the last two with a comma between. */
const KeepText = z.string().transform((text, context) => {
  if (text === "all") return null;
  const parts = text.split(",").map((part) => /^(commits|days):(\d{1,10})$/.exec(part));
  const keep = Keep.safeParse(Object.fromEntries(parts.map((part) => [part?.[1], Number(part?.[2])])));
  if (!keep.success || Object.keys(keep.data).length !== parts.length) {
    const message =
      "must be 'all', 'commits:<n>', 'days:<n>', or the last two with a comma between, each of at least 1";
    context.addIssue({ code: "custom", message });
    return z.NEVER;
  }
  const { commits, days } = keep.data;
  return { ...(commits !== undefined && { commits }), ...(days !== undefined && { days }) };
});

/** Those of Cloudflare (https://developers.cloudflare.com/durable-objects/reference/data-location/#supported-locations). */
const JURISDICTIONS = ["eu", "us", "fedramp", "fedramp-high"] as const;

const BRANCH_BYTES = "must be a number of bytes from 1000000 on";

/** The variables that say how a gateway behaves, all of them optional. The host checks them when it starts, the Worker when it runs. */
export const Settings = z.object({
  /** Encrypts the secrets of access keys at rest; 32 bytes in base64 or base64url. Without it no keys can be made. */
  SLUICE_ENCRYPTION_KEY: EncryptionKey.optional(),
  /** Opens what was encrypted before SLUICE_ENCRYPTION_KEY was changed, until `sluice key reseal` says that nothing is left. */
  SLUICE_ENCRYPTION_KEY_PREVIOUS: EncryptionKey.optional(),
  /** The root key before this one, which is good as well while both are set. */
  SLUICE_ACCESS_KEY_ID_PREVIOUS: z.string().min(3, { error: "must have 3 characters at least" }).optional(),
  SLUICE_SECRET_ACCESS_KEY_PREVIOUS: z
    .string()
    .min(8, { error: "must have 8 characters at least" })
    .optional(),
  /** `<bucket>.<domain>` addresses a bucket too; absent: only paths do. */
  SLUICE_DOMAIN: z
    .string()
    .regex(/^[a-z0-9.-]+(:[0-9]+)?$/, { error: "must be a host name in lower case" })
    .optional(),
  /** Days after which a multipart upload that nobody adds to is given up. */
  SLUICE_UPLOAD_DAYS: z.coerce
    .number({ error: "must be a number of days above 0" })
    .positive({ error: "must be a number of days above 0" })
    .default(7),
  /** How long an open commit to which nothing is added is kept, if its opener does not say. */
  SLUICE_SESSION_TTL: Duration.default("24h"),
  /** The longest that its opener may ask for. */
  SLUICE_SESSION_MAX_TTL: Duration.default("168h"),
  /** So many of the newest jobs of each pipeline are listed, and found by their ids. */
  SLUICE_KEEP_JOBS: z.coerce
    .number({ error: "must be a whole number above 0" })
    .int({ error: "must be a whole number above 0" })
    .positive({ error: "must be a whole number above 0" })
    .default(10_000),
  /** Whose time Last-Modified is: the branch's newest commit (docs/contract.md, Listings), or the last write of the object. */
  SLUICE_LAST_MODIFIED: z
    .enum(["branch", "object"], { error: "must be 'branch' or 'object'" })
    .default("branch"),
  /** How much of its history a branch keeps that CreateBucket makes. A branch that is there keeps what it is set to. */
  SLUICE_KEEP: KeepText.default(null),
  /** Whether DeleteBucket deletes buckets that CreateBucket makes from now on only while they are empty. */
  SLUICE_DELETE: z.enum(["any", "empty-only"], { error: "must be 'any' or 'empty-only'" }).default("any"),
  /** Whether each request is told in the log, as one line of JSON. `sluice dev` tells none unless it is asked to. */
  SLUICE_REQUEST_LOG: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** Whether an embedded gateway answers GET, HEAD and listings out of memory where it can, without asking the branch. */
  SLUICE_READ_MEMORY: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** Whether a gateway on Cloudflare takes the bytes of files through the cache of the reader's data center. No other has one. */
  SLUICE_BLOB_CACHE: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** Whether it keeps the rows of files that were read, and asks the branch only whether they are still so. */
  SLUICE_ROW_CACHE: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** Whether it answers of files of commits by those rows for five seconds, without asking. */
  SLUICE_COMMIT_CACHE: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** The same of the newest state of branches that are set to near reads. */
  SLUICE_NEAR_CACHE: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /**
   * Whether a gateway on Cloudflare looks whether a bucket is there before it calls that for the first time, so as not to place it, and
   * then begins reads while the key is looked up.
   */
  SLUICE_BUCKET_PROBE: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** Whether nodes may have a socket over which they are told to look. If not, each asks every two seconds, also if it has nothing to do. */
  SLUICE_NODE_SOCKETS: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /**
   * The jurisdiction that all objects of a gateway on Cloudflare run and are kept in, from its first deploy on: an object of another
   * one is another object.
   */
  SLUICE_JURISDICTION: z
    .enum(JURISDICTIONS, { error: `must be one of ${JURISDICTIONS.join(", ")}` })
    .optional(),
  /**
   * Whether what the gateway keeps lies encrypted. Not set: on R2 it does, and of a disk nobody knows. Then a client that
   * asks for S3's own encryption (AES256) asks for what is so.
   */
  SLUICE_DISK_ENCRYPTED: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).optional(),
  /**
   * Whether bytes are flushed to the disk of an embedded gateway before anything names them. If not, a power cut may take files
   * that were acknowledged. R2 keeps what it took in any case.
   */
  SLUICE_SYNC: z.enum(["on", "off"], { error: "must be 'on' or 'off'" }).default("on"),
  /** What the rows of one branch may take up: from 95 % of it on, its history takes deletions alone. An object holds 10 GB. */
  SLUICE_BRANCH_BYTES: z.coerce
    .number({ error: BRANCH_BYTES })
    .int({ error: BRANCH_BYTES })
    .min(1_000_000, { error: BRANCH_BYTES })
    .default(10_000_000_000),
});

type Rotated =
  | "SLUICE_ACCESS_KEY_ID"
  | "SLUICE_ACCESS_KEY_ID_PREVIOUS"
  | "SLUICE_SECRET_ACCESS_KEY_PREVIOUS"
  | "SLUICE_ENCRYPTION_KEY"
  | "SLUICE_ENCRYPTION_KEY_PREVIOUS";

/** What is wrong with the keys of the past beside those of the present, if anything. */
export function rotationProblem(
  vars: Readonly<Partial<Record<Rotated, string | undefined>>>,
): string | undefined {
  const { SLUICE_ACCESS_KEY_ID_PREVIOUS: id, SLUICE_SECRET_ACCESS_KEY_PREVIOUS: secret } = vars;
  if ((id === undefined) !== (secret === undefined)) {
    return "SLUICE_ACCESS_KEY_ID_PREVIOUS and SLUICE_SECRET_ACCESS_KEY_PREVIOUS must be set both or neither";
  }
  // A signature names its key by the id.
  if (id !== undefined && id === vars.SLUICE_ACCESS_KEY_ID) {
    return "SLUICE_ACCESS_KEY_ID_PREVIOUS must differ from SLUICE_ACCESS_KEY_ID: give the new root key an id of its own";
  }
  if (vars.SLUICE_ENCRYPTION_KEY_PREVIOUS !== undefined && vars.SLUICE_ENCRYPTION_KEY === undefined) {
    return "SLUICE_ENCRYPTION_KEY_PREVIOUS is set though SLUICE_ENCRYPTION_KEY is not: set the new key, too";
  }
  return undefined;
}
