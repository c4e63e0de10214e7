import { z } from "zod";
import { EXPIRY_FORMS, isExpiryText } from "./key-expiry.ts";
import { Name } from "./names.ts";
import { Session } from "./sessions.ts";

const LEVELS = ["read", "write", "admin", "runner"] as const;
/** What an access key may do: of read, write and admin each includes those before it; `runner` is apart, for runners alone. */
export const KeyLevel = z.enum(LEVELS, { error: `must be one of ${LEVELS.join(", ")}` });
export type KeyLevel = z.infer<typeof KeyLevel>;

/** Most repos that one key can be limited to. */
const MAX_KEY_REPOS = 100;
/** Longest description of a key, in characters. */
export const MAX_KEY_DESCRIPTION = 200;
/** Most keys in one page of a list. */
export const MAX_LIST_KEYS = 1000;

const WISHED = {
  level: KeyLevel,
  /** Null: all, and what belongs to none. */
  repos: z
    .array(Name)
    .min(1, { error: "must name a repo, or be null for all of them" })
    .max(MAX_KEY_REPOS, { error: `must name at most ${MAX_KEY_REPOS} repos` })
    .nullable()
    .default(null),
  /** It may create, update and start pipelines in its repos, which run code on the nodes. For all repos, admin may anyway. */
  pipelines: z.boolean().default(false),
  description: z
    .string()
    .max(MAX_KEY_DESCRIPTION, { error: `must be at most ${MAX_KEY_DESCRIPTION} characters long` })
    .default(""),
};
type Wished = z.infer<z.ZodObject<typeof WISHED>>;

/** What the fields of a key must be to each other. */
function fitting<Shape extends z.ZodType<Wished>>(shape: Shape): Shape {
  return shape
    .refine(({ level, pipelines }) => level === "admin" || !pipelines, {
      path: ["pipelines"],
      error: "is for level admin: take that level, or leave this out",
    })
    .refine(({ level, repos }) => level !== "runner" || repos === null, {
      path: ["repos"],
      error:
        "must be null for the level runner: a runner works for all pipelines, and reads what its leases name",
    });
}

/** `POST /api/v1/keys`: makes an access key. */
export const CreateKey = fitting(
  z.strictObject({
    ...WISHED,
    /** When it expires, as protocol/key-expiry.ts reads it, by the gateway's clock. Absent: never. */
    expires: z
      .string()
      .refine(isExpiryText, { error: ({ input }) => `must be ${EXPIRY_FORMS}, not '${String(input)}'` })
      .optional(),
  }),
);
export type CreateKey = z.infer<typeof CreateKey>;
/** As it is sent: what has a default may be left out. */
export type KeyWish = z.input<typeof CreateKey>;

/** An access key as it is shown: without its secret. */
export const Key = z.object({
  id: z.string(),
  level: KeyLevel,
  repos: z.array(z.string()).nullable(),
  /** Whether it may create, update and start pipelines. */
  pipelines: z.boolean(),
  description: z.string(),
  /** Milliseconds since 1970. */
  createdAt: z.int(),
  /** From when on it is refused; milliseconds since 1970. Absent: never. */
  expiresAt: z.int().optional(),
  /** True if that time has come by the gateway's clock: the key stays in lists until it is deleted. */
  expired: z.boolean().optional(),
  /** The last day on which it signed a request, of UTC: `2026-01-31`. Absent: it has signed none. */
  lastUsedOn: z.string().optional(),
  /** Of the console, made with it, that have not ended; newest first. Absent: there are none. */
  sessions: z.array(Session).optional(),
});
export type Key = z.infer<typeof Key>;

/** The answer to the creation of a key: the only one that ever holds its secret. */
export const KeyCreated = z.object({ ...Key.shape, secret: z.string() });
export type KeyCreated = z.infer<typeof KeyCreated>;

/**
 * `GET /api/v1/keys?limit=&after=`: keys by id; `next` goes into `after`. The root key is not among them. A gateway of a
 * later release may have further levels.
 */
export const KeyPage = z.object({
  keys: z.array(z.object({ ...Key.shape, level: z.string() })),
  next: z.string().nullable(),
});
export type KeyPage = z.infer<typeof KeyPage>;

/** `GET /api/v1/whoami`: the key that signed the request, and what it may do. A gateway of a later release may have further levels. */
export const WhoAmI = z.object({
  id: z.string(),
  /** Of the key; `root` of the root key. */
  level: z.string(),
  /** Null: all repos, and what belongs to none. */
  repos: z.array(z.string()).nullable(),
  /** Whether it may create, update and start pipelines. */
  pipelines: z.boolean(),
  /** When it expires; milliseconds since 1970. Absent: never. */
  expiresAt: z.int().optional(),
  /** The id of the session that signed the request in its place. Absent: the key did. */
  session: z.string().optional(),
});
export type WhoAmI = z.infer<typeof WhoAmI>;

/**
 * `POST /api/v1/keys/reseal?limit=&after=`: encrypts the secrets of a page of the keys with SLUICE_ENCRYPTION_KEY. When no
 * page has an unreadable one, SLUICE_ENCRYPTION_KEY_PREVIOUS is not needed any more.
 */
export const KeysResealed = z.object({
  /** So many keys were looked at. */
  checked: z.int(),
  /** The ids of those that were encrypted anew: with the key from before till now. */
  resealed: z.array(z.string()),
  /** The ids of those that none of the gateway's encryption keys opens. They don't work. */
  unreadable: z.array(z.string()),
  next: z.string().nullable(),
});
export type KeysResealed = z.infer<typeof KeysResealed>;

/** A key of 32 bytes that an export is sealed with, in base64. It comes from the operator and is not kept. */
const SealingKey = z.string().regex(/^[A-Za-z0-9+/]{43}=$/, { error: "must be the base64 of 32 bytes" });
/** Most keys in one call of an export or import. */
export const MAX_MOVED_KEYS = 100;

/** `POST /api/v1/keys/export`: a page of the keys with their secrets, each sealed with `sealWith`; `next` goes into `after`. */
export const ExportKeys = z.strictObject({ sealWith: SealingKey, after: z.string().max(128).optional() });
/** A key with all that is known of it, sealed. */
export const SealedKey = z.strictObject({
  id: z.string().min(1).max(128),
  /** Base64: a nonce of 12 bytes, then JSON under AES-256-GCM with the id as additional data. */
  sealed: z.base64().max(32 * 1024),
});
export type SealedKey = z.infer<typeof SealedKey>;
export const KeysExported = z.object({
  keys: z.array(SealedKey),
  /** The ids of those that none of the gateway's encryption keys opens: they are not in the export, and don't work. */
  unreadable: z.array(z.string()),
  next: z.string().nullable(),
});
export type KeysExported = z.infer<typeof KeysExported>;

/** What is sealed of a key. */
export const MovedKey = fitting(
  z.strictObject({
    ...WISHED,
    createdAt: z.int().nonnegative(),
    /** Absent: never. */
    expiresAt: z.int().nonnegative().optional(),
    secret: z.string().min(8).max(128),
  }),
);

/** `POST /api/v1/keys/import`: makes keys again as an export has them. */
export const ImportKeys = z.strictObject({
  openWith: SealingKey,
  keys: z.array(SealedKey).max(MAX_MOVED_KEYS),
});
/** By their ids. */
export const KeysImported = z.object({
  added: z.array(z.string()),
  /** They are there already, as the export has them. */
  there: z.array(z.string()),
  /** There is another key of the id, which stays as it is. */
  taken: z.array(z.string()),
  /** They do not open with the key, or say what this gateway does not know. */
  refused: z.array(z.string()),
  /** They have expired, and were not made. */
  expired: z.array(z.string()),
});
export type KeysImported = z.infer<typeof KeysImported>;
