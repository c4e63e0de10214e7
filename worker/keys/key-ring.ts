import { waitUntil } from "cloudflare:workers";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { KeyRow } from "../catalogue/keys.ts";
import type { SessionRow } from "../catalogue/sessions.ts";
import type { KeyScope } from "../core/permissions.ts";
import type { Config, NamedSecret } from "../env.ts";
import { ExpiringMap } from "./expiring-map.ts";
import { hasExpired } from "./expiry.ts";
import { isMadeId } from "./make-key.ts";
import { openSecret } from "./sealed-secret.ts";
import { isSessionId, sessionSecret } from "./sessions.ts";

/** How long a key is used, and an unknown id refused, without asking D1 again; milliseconds. So long a revoked key may still work. */
export const KEY_MEMORY_MS = 5_000;
/** Most keys, and most unknown ids, that an isolate remembers. */
const MAX_REMEMBERED = 1000;

/** A key that signs requests. */
export interface AccessKey {
  /** Of a session, that of the key as which it acts. */
  readonly id: string;
  /** The id of the session that it is. Absent: it is the key itself. */
  readonly session?: string;
  readonly secret: string;
  readonly scope: KeyScope;
  /** From when on it is refused; milliseconds since 1970. Absent: never. */
  readonly expiresAt?: number;
}

/** Finds the access keys: those of the environment (one or two root keys, which may do everything, and the key of the runners of `sluice dev`) and those in D1, with their sessions. */
export interface KeyRing {
  /**
   * The key of an id; undefined if there is no such key (any more), or if it has expired. Answers at once for keys of the environment and for
   * keys in memory. Rejects, for another try, if D1 does not answer.
   */
  find(id: string): AccessKey | undefined | Promise<AccessKey | undefined>;
  /** What keeps a key of this id from being found, though it may be there; undefined: nothing does. */
  obstacle?(id: string): string | undefined;
  /** If a key was not found just now because it has expired: when that was, in milliseconds since 1970. */
  expiryOf?(id: string): number | undefined;
  /** A request with a good signature came from the key of this id. Keys of the environment are not written down. */
  used(id: string): void;
}

/** One per isolate: what it remembers serves all requests. */
export function openKeyRing(
  config: RingConfig,
  catalogue: Pick<Catalogue, "keys" | "sessions">,
  { now = Date.now, later }: Partial<Pick<KeyUsesParts, "now" | "later">> = {},
): KeyRing {
  const uses = new KeyUses({ catalogue, now, ...(later && { later }) });
  return new CatalogueKeyRing({ config, catalogue, uses, now });
}

type RingConfig = Pick<Config, "rootKeys" | "runnerKey" | "encryptionKeys">;

interface KeyRingParts {
  readonly config: RingConfig;
  readonly catalogue: Pick<Catalogue, "keys" | "sessions">;
  readonly uses: KeyUses;
  readonly now: () => number;
}

class CatalogueKeyRing implements KeyRing {
  readonly #parts: KeyRingParts;
  /** Those of the environment. */
  readonly #given: ReadonlyMap<string, AccessKey>;
  readonly #known = new ExpiringMap<AccessKey>({ ttlMs: KEY_MEMORY_MS, maxEntries: MAX_REMEMBERED });
  readonly #sessions = new ExpiringMap<SessionRow>({ ttlMs: KEY_MEMORY_MS, maxEntries: MAX_REMEMBERED });
  /** Kept apart: made-up ids must not push known keys out. */
  readonly #unknown = new ExpiringMap<true>({ ttlMs: KEY_MEMORY_MS, maxEntries: MAX_REMEMBERED });

  constructor(parts: KeyRingParts) {
    this.#parts = parts;
    const { rootKeys, runnerKey } = parts.config;
    const given = [
      ...(runnerKey ? [keyOf(runnerKey, "runner")] : []),
      ...rootKeys.map((key) => keyOf(key, "root")),
    ];
    this.#given = new Map(given.map((key) => [key.id, key]));
  }

  find(id: string): AccessKey | undefined | Promise<AccessKey | undefined> {
    const given = this.#given.get(id);
    if (given !== undefined) return given;
    if (isSessionId(id)) return this.#findSession(id);
    if (!isMadeId(id)) return undefined;
    const now = this.#parts.now();
    const known = this.#known.get(id, now);
    // What is remembered says by itself when it ends: no isolate needs to hear of that.
    if (known !== undefined) return hasExpired(known, now) ? undefined : known;
    return this.#unknown.get(id, now) ? undefined : this.#lookUp(id, now);
  }

  obstacle(id: string): string | undefined {
    if (isSessionId(id)) return "its session has ended, or its key is no longer good: log in again";
    if (this.#parts.config.encryptionKeys.length > 0 || !isMadeId(id)) return undefined;
    return "no access key but the root key can be used, since the gateway has no SLUICE_ENCRYPTION_KEY: its operator has to set it to what it was";
  }

  expiryOf(id: string): number | undefined {
    const now = this.#parts.now();
    const known = this.#known.get(id, now) ?? this.#sessions.get(id, now);
    return known && hasExpired(known, now) ? known.expiresAt : undefined;
  }

  used(id: string): void {
    if (!this.#given.has(id)) this.#parts.uses.note(id);
  }

  // Each of several requests looks for itself: the platform may end the one that the others would wait for.
  async #lookUp(id: string, since: number): Promise<AccessKey | undefined> {
    const row = await this.#parts.catalogue.keys.find(id).catch(unavailable);
    const key = row === null ? undefined : await this.#open(row);
    if (key === undefined) this.#unknown.set(id, { value: true, since });
    else this.#known.set(id, { value: key, since });
    return key && hasExpired(key, this.#parts.now()) ? undefined : key;
  }

  /**
   * A session is what its key is at this moment, under another secret. Each of the two is remembered from when it was asked for:
   * the end of either is heard of within KEY_MEMORY_MS.
   */
  async #findSession(id: string): Promise<AccessKey | undefined> {
    const now = this.#parts.now();
    const session = this.#sessions.get(id, now) ?? (await this.#lookUpSession(id, now));
    if (session === undefined || hasExpired(session, this.#parts.now())) return undefined;
    const key = await this.find(session.key);
    if (key === undefined) return undefined;
    const expiresAt = Math.min(session.expiresAt, key.expiresAt ?? Number.POSITIVE_INFINITY);
    return { ...key, session: id, secret: sessionSecret(id, key.secret), expiresAt };
  }

  async #lookUpSession(id: string, since: number): Promise<SessionRow | undefined> {
    if (this.#unknown.get(id, since)) return undefined;
    const row = await this.#parts.catalogue.sessions.find(id).catch(unavailable);
    if (row === null) this.#unknown.set(id, { value: true, since });
    else this.#sessions.set(id, { value: row, since });
    return row ?? undefined;
  }

  /** A key whose secret can't be read counts as unknown, until the operator of the gateway reads this line. */
  async #open({
    id,
    sealedSecret,
    level,
    repos,
    pipelines,
    expiresAt,
  }: KeyRow): Promise<AccessKey | undefined> {
    const { encryptionKeys } = this.#parts.config;
    const opened = await openSecret(sealedSecret, { id, encryptionKeys });
    if (opened) {
      const scope = { level, repos, ...(pipelines && { pipelines }) };
      return { id, secret: opened.secret, scope, ...(expiresAt !== undefined && { expiresAt }) };
    }
    const why = encryptionKeys.length > 0 ? "is not the one that it was made with" : "is not set";
    console.error(`the access key ${id} can't be used: SLUICE_ENCRYPTION_KEY ${why}`);
    return undefined;
  }
}

function keyOf(key: NamedSecret, level: "root" | "runner"): AccessKey {
  return { ...key, scope: { level, repos: null } };
}

function unavailable(cause: unknown): never {
  throw new KeysUnavailable("the access keys can't be read from D1", { cause });
}

/** Marked as the platform marks its own: another try may help. */
class KeysUnavailable extends Error {
  override readonly name = "KeysUnavailable";
  readonly retryable = true;
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** After a write that failed, the next one of the key is this long in coming; milliseconds. */
const RETRY_MS = 5 * 60 * 1000;
/** Most keys of which an isolate remembers that their day is written down. */
const MAX_WRITTEN = 20_000;

interface KeyUsesParts {
  readonly catalogue: Pick<Catalogue, "keys">;
  readonly now: () => number;
  /** Lets work go on after the answer. */
  readonly later?: (work: Promise<void>) => void;
}

/**
 * Writes down on which day a key was last used, so that its owner sees what nobody needs any more. An isolate writes it once
 * for each key and day, and no request waits for it or fails with it. If the isolate ends first, or D1 does not take it, a
 * later request writes it. Other isolates may have written the day already: the statement then changes no row.
 */
class KeyUses {
  readonly #parts: KeyUsesParts;
  /** Counted from 1970. */
  #day = -1;
  /** By the id of a key: until when there is nothing to write. Of the present day alone. */
  readonly #written = new Map<string, number>();

  constructor(parts: KeyUsesParts) {
    this.#parts = parts;
  }

  /** The key of the id has signed a request just now. */
  note(id: string): void {
    const { now, later = waitUntil } = this.#parts;
    const at = now();
    const day = Math.floor(at / DAY_MS);
    if (day !== this.#day) {
      this.#day = day;
      this.#written.clear();
    }
    const until = this.#written.get(id);
    if (until !== undefined && at < until) return;
    this.#remember(id, Number.POSITIVE_INFINITY);
    later(this.#write(id, at));
  }

  async #write(id: string, at: number): Promise<void> {
    try {
      await this.#parts.catalogue.keys.noteUse(id, new Date(at).toISOString().slice(0, 10));
    } catch (error) {
      this.#remember(id, at + RETRY_MS);
      console.warn(`the use of the access key ${id} is not written down yet`, error);
    }
  }

  #remember(id: string, until: number): void {
    this.#written.delete(id);
    this.#written.set(id, until);
    if (this.#written.size <= MAX_WRITTEN) return;
    const [oldest] = this.#written.keys();
    if (oldest !== undefined) this.#written.delete(oldest);
  }
}
