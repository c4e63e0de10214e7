import { env } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { CreateKey } from "../../../protocol/keys.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { KEY_MEMORY_MS, type KeyRing, openKeyRing } from "../../../worker/keys/key-ring.ts";
import { makeKey } from "../../../worker/keys/make-key.ts";
import { newSessionId, sessionSecret } from "../../../worker/keys/sessions.ts";

const catalogue = openCatalogue(env.DB);
const encryptionKey = btoa("k".repeat(32));
const rootKey = { id: "the-root", secret: "root-secret" };
const before = { id: "the-root-before", secret: "root-secret-before" };
const runnerKey = { id: "a-runner", secret: "runner-secret" };
/** What the environment says, without an encryption key. */
const given = { rootKeys: [rootKey, before], runnerKey, encryptionKeys: [] } as const;
const wish: CreateKey = {
  level: "write",
  repos: ["images"],
  pipelines: false,
  description: "camera",
};

/** A ring with a clock that stands still until it is moved. */
function ringAt(
  { encryptionKeys }: { encryptionKeys: readonly string[] } = { encryptionKeys: [encryptionKey] },
): {
  ring: KeyRing;
  clock: { now: number };
} {
  const clock = { now: 1_000_000 };
  const config = { ...given, encryptionKeys };
  return { ring: openKeyRing(config, catalogue, { now: () => clock.now }), clock };
}

const made = () => makeKey(wish, { catalogue, encryptionKey, now: 5 });

afterEach(() => vi.restoreAllMocks());

describe("a key that was made", () => {
  test("is found with its secret and scope; then at once, from memory", async () => {
    const { id, secret } = await made();
    const { ring } = ringAt();
    const key = { id, secret, scope: { level: "write", repos: ["images"] } };
    expect(await ring.find(id)).toEqual(key);
    expect(ring.find(id)).toEqual(key);
  });

  test("has an id and a secret of its own, and is for each repo once", async () => {
    const twice = { ...wish, repos: ["b", "a", "b"] };
    const keys = await Promise.all([1, 2].map(() => makeKey(twice, { catalogue, encryptionKey, now: 5 })));
    expect(new Set(keys.flatMap(({ id, secret }) => [id, secret])).size).toBe(4);
    expect(keys[0]).toEqual({
      id: expect.stringMatching(/^SLUICE[0-9A-F]{14}$/),
      secret: expect.stringMatching(/^[A-Za-z0-9_-]{40}$/),
      level: "write",
      repos: ["b", "a"],
      pipelines: false,
      description: "camera",
      createdAt: 5,
    });
  });

  test("with the right to run pipelines is found with it", async () => {
    const right = { ...wish, level: "admin", pipelines: true } as const;
    const { id } = await makeKey(right, { catalogue, encryptionKey, now: 5 });
    const key = await ringAt().ring.find(id);
    expect(key?.scope).toEqual({ level: "admin", repos: ["images"], pipelines: true });
  });

  test("is encrypted at rest: no column of its row holds the secret", async () => {
    const { id, secret } = await made();
    const row = await env.DB.prepare("SELECT * FROM access_keys WHERE id = ?1").bind(id).first();
    expect(row).not.toBeNull();
    expect(JSON.stringify(row)).not.toContain(secret);
    expect(atob(String(row?.sealedSecret))).not.toContain(secret);
  });

  test("that is revoked is gone when its time in memory is over, also where it is used all the time", async () => {
    const { id } = await made();
    const { ring, clock } = ringAt();
    await ring.find(id);
    await catalogue.keys.remove(id);
    for (let used = 0; used < KEY_MEMORY_MS; used += KEY_MEMORY_MS / 5) {
      expect(await ring.find(id)).toBeDefined();
      clock.now += KEY_MEMORY_MS / 5;
    }
    expect(await ring.find(id)).toBeUndefined();
  });

  test("counts its time in memory from when it was asked for, not from when D1 answered", async () => {
    const { id } = await made();
    const { ring, clock } = ringAt();
    const found = ring.find(id);
    clock.now += KEY_MEMORY_MS;
    expect(await found).toBeDefined();
    await catalogue.keys.remove(id);
    expect(await ring.find(id)).toBeUndefined();
  });
});

describe("a key that expires", () => {
  const expiresAt = 1_000_000 + 60 * KEY_MEMORY_MS;
  const madeToExpire = () => makeKey(wish, { catalogue, encryptionKey, now: 5, expiresAt });

  test("is found with the time at which it does, until then", async () => {
    const { id } = await madeToExpire();
    const { ring, clock } = ringAt();
    expect(await ring.find(id)).toMatchObject({ id, expiresAt });
    expect(ring.expiryOf?.(id)).toBeUndefined();
    clock.now = expiresAt;
    expect(await ring.find(id)).toBeUndefined();
    expect(ring.expiryOf?.(id)).toBe(expiresAt);
  });

  test("is gone at that time from memory, too: the ring need not ask D1", async () => {
    const { id } = await madeToExpire();
    const { ring, clock } = ringAt();
    clock.now = expiresAt - 1;
    await ring.find(id);
    const look = vi.spyOn(catalogue.keys, "find");
    expect(ring.find(id)).toMatchObject({ id });
    clock.now = expiresAt;
    expect(ring.find(id)).toBeUndefined();
    expect(look).not.toHaveBeenCalled();
  });

  test("and one that does not are told apart from those that are not there", async () => {
    const { id } = await made();
    const { ring } = ringAt();
    expect(await ring.find(id)).not.toHaveProperty("expiresAt");
    for (const each of [id, "SLUICE00000000000000", "the-root"]) {
      await ring.find(each);
      expect(ring.expiryOf?.(each)).toBeUndefined();
    }
  });
});

describe("a session", () => {
  const HOUR_MS = 60 * 60 * 1000;

  /** One of a key, which begins when the clock of a ring does. */
  async function begun(key: string, { isGiven = false } = {}): Promise<string> {
    const id = newSessionId();
    const row = { id, key, createdAt: 1_000_000, expiresAt: 1_000_000 + HOUR_MS };
    expect(await catalogue.sessions.add(row, { isGiven })).toBe(true);
    return id;
  }

  test("is the key that made it, under a secret of its own, until it is over", async () => {
    const { id, secret } = await made();
    const session = await begun(id);
    const { ring, clock } = ringAt();
    const found = await ring.find(session);
    const scope = { level: "write", repos: ["images"] };
    expect(found).toEqual({ id, session, scope, secret: expect.any(String), expiresAt: 1_000_000 + HOUR_MS });
    expect(found?.secret).not.toBe(secret);
    expect(ring.find(id)).toEqual({ id, secret, scope });
    clock.now += HOUR_MS;
    expect(await ring.find(session)).toBeUndefined();
    expect(ring.expiryOf?.(session)).toBe(1_000_000 + HOUR_MS);
  });

  test("has a secret that is in no row, and another one under each key and id", async () => {
    const { id, secret } = await made();
    const session = await begun(id);
    const row = await env.DB.prepare("SELECT * FROM sessions WHERE id = ?1").bind(session).first();
    const found = (await ringAt().ring.find(session))?.secret ?? "";
    expect(found).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(JSON.stringify(row)).not.toContain(found);
    expect(sessionSecret(session, secret)).toBe(found);
    expect(sessionSecret(session, `${secret}x`)).not.toBe(found);
    expect(sessionSecret(newSessionId(), secret)).not.toBe(found);
  });

  test.each([
    ["it is ended", (_: string, session: string) => catalogue.sessions.remove(session)],
    ["its key is deleted", (id: string) => catalogue.keys.remove(id)],
  ])("is gone within the time in memory once %s, also if it is used all the time", async (_, end) => {
    const { id } = await made();
    const session = await begun(id);
    const { ring, clock } = ringAt();
    await ring.find(session);
    await end(id, session);
    for (let used = 0; used < KEY_MEMORY_MS; used += KEY_MEMORY_MS / 5) {
      expect(await ring.find(session)).toBeDefined();
      clock.now += KEY_MEMORY_MS / 5;
    }
    expect(await ring.find(session)).toBeUndefined();
  });

  test("hears of the end of its key by the key's own time in memory, whenever it was looked for itself", async () => {
    const { id } = await made();
    const session = await begun(id);
    const { ring, clock } = ringAt();
    await ring.find(id);
    clock.now += KEY_MEMORY_MS - 1;
    await ring.find(session);
    await catalogue.keys.remove(id);
    clock.now += 1;
    expect(await ring.find(session)).toBeUndefined();
  });

  test("ends when its key expires", async () => {
    const expiresAt = 1_000_000 + HOUR_MS / 2;
    const { id } = await makeKey(wish, { catalogue, encryptionKey, now: 5, expiresAt });
    const session = await begun(id);
    const { ring, clock } = ringAt();
    expect(await ring.find(session)).toMatchObject({ expiresAt });
    clock.now = expiresAt;
    expect(await ring.find(session)).toBeUndefined();
  });

  test("of a root key ends with it, also if another secret takes its place under the same id", async () => {
    const session = await begun("the-root", { isGiven: true });
    const { ring } = ringAt();
    const found = await ring.find(session);
    expect(found).toMatchObject({ id: "the-root", session, scope: { level: "root", repos: null } });
    const ringOf = (rootKeys: [typeof rootKey]) =>
      openKeyRing({ ...given, rootKeys }, catalogue, { now: () => 1_000_000 });
    expect(await ringOf([rootKey]).find(session)).toEqual(found);
    const changed = await ringOf([{ id: "the-root", secret: "another-one" }]).find(session);
    expect(changed).toBeDefined();
    expect(changed?.secret).not.toBe(found?.secret);
    expect(await ringOf([before]).find(session)).toBeUndefined();
  });

  test("comes to life for no key that is gone, and to no second one: D1 is asked once for an id that is not there", async () => {
    const late = { id: newSessionId(), key: "SLUICE00000000000000", createdAt: 1, expiresAt: 2 };
    expect(await catalogue.sessions.add(late, { isGiven: false })).toBe(false);
    const { ring } = ringAt();
    const look = vi.spyOn(catalogue.sessions, "find");
    for (let turn = 0; turn < 3; turn++) expect(await ring.find(late.id)).toBeUndefined();
    expect(look).toHaveBeenCalledTimes(1);
    expect(ring.obstacle?.(late.id)).toContain("log in again");
  });

  test("can't be looked for while D1 does not answer: another try may help, and nothing of it is remembered", async () => {
    const { id } = await made();
    const session = await begun(id);
    const { ring } = ringAt();
    vi.spyOn(catalogue.sessions, "find").mockRejectedValueOnce(new Error("D1_ERROR: down"));
    const failure = await Promise.resolve(ring.find(session)).catch((error: unknown) => error);
    expect(failure).toMatchObject({ retryable: true });
    expect(await ring.find(session)).toBeDefined();
  });
});

describe("the root key", () => {
  test("is found at once, may do everything, and is never looked for in D1", () => {
    const ring = openKeyRing(given, nowhere);
    expect(ring.find("the-root")).toEqual({ ...rootKey, scope: { level: "root", repos: null } });
  });

  test("that it replaces is as good while both are set, and none afterwards", () => {
    const ring = openKeyRing(given, nowhere);
    expect(ring.find("the-root-before")).toEqual({ ...before, scope: { level: "root", repos: null } });
    const alone = openKeyRing({ ...given, rootKeys: [rootKey] }, nowhere);
    expect(alone.find("the-root-before")).toBeUndefined();
  });
});

test("the key of the runners that start with the gateway is no more than a runner's", () => {
  const ring = openKeyRing(given, nowhere);
  expect(ring.find("a-runner")).toEqual({ ...runnerKey, scope: { level: "runner", repos: null } });
});

describe("an id that is not there", () => {
  test("is no key, and is remembered for a while", async () => {
    const { ring, clock } = ringAt();
    const look = vi.spyOn(catalogue.keys, "find");
    const id = "SLUICE00000000000000";
    for (let turn = 0; turn < 3; turn++) expect(await ring.find(id)).toBeUndefined();
    expect(look).toHaveBeenCalledTimes(1);
    clock.now += KEY_MEMORY_MS;
    expect(await ring.find(id)).toBeUndefined();
    expect(look).toHaveBeenCalledTimes(2);
  });

  test("and can't be there, for its form, is not looked for", () => {
    const ring = openKeyRing({ ...given, encryptionKeys: [encryptionKey] }, nowhere);
    for (const id of [
      "",
      "AKIAIOSFODNN7EXAMPLE",
      "sluice00000000000000",
      "SLUICE0000000000000X",
      "the-root2",
    ])
      expect(ring.find(id)).toBeUndefined();
  });
});

describe("a key whose secret can't be read", () => {
  test.each([
    ["another", [btoa("x".repeat(32))], "is not the one that it was made with"],
    ["no", [], "is not set"],
  ])("because there is %s encryption key is no key, and the log says why", async (_, other, why) => {
    const { id } = await made();
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const { ring } = ringAt({ encryptionKeys: other });
    expect(await ring.find(id)).toBeUndefined();
    expect(log).toHaveBeenCalledWith(`the access key ${id} can't be used: SLUICE_ENCRYPTION_KEY ${why}`);
  });
});

test("a key that was sealed with the encryption key from before is found while both are set", async () => {
  const { id, secret } = await made();
  const { ring } = ringAt({ encryptionKeys: [btoa("n".repeat(32)), encryptionKey] });
  expect(await ring.find(id)).toMatchObject({ id, secret });
});

test("where D1 does not answer, looking for a key fails in a way that another try may help, and is not remembered", async () => {
  const { id } = await made();
  const { ring } = ringAt();
  const look = vi.spyOn(catalogue.keys, "find").mockRejectedValueOnce(new Error("D1_ERROR: down"));
  const failure = await Promise.resolve(ring.find(id)).catch((error: unknown) => error);
  expect(failure).toMatchObject({ retryable: true, message: "the access keys can't be read from D1" });
  expect(await ring.find(id)).toBeDefined();
  expect(look).toHaveBeenCalledTimes(2);
});

describe("the day of a key's last use", () => {
  const DAY_MS = 24 * 60 * 60 * 1000;
  const noon = Date.UTC(2026, 0, 31, 12);

  /** A ring of which every write after an answer can be waited for. */
  function ringOfUses(): { ring: KeyRing; clock: { now: number }; written: () => Promise<unknown> } {
    const clock = { now: noon };
    const work: Promise<void>[] = [];
    const config = { ...given, encryptionKeys: [encryptionKey] };
    const later = (more: Promise<void>) => void work.push(more);
    const ring = openKeyRing(config, catalogue, { now: () => clock.now, later });
    return { ring, clock, written: () => Promise.all(work) };
  }

  async function lastUse(id: string): Promise<string | undefined> {
    return (await catalogue.keys.list({ limit: 1000 })).find((key) => key.id === id)?.lastUsedOn;
  }

  test("is written down once a day, however many requests there are", async () => {
    const { id } = await made();
    expect(await lastUse(id)).toBeUndefined();
    const write = vi.spyOn(catalogue.keys, "noteUse");
    const { ring, clock, written } = ringOfUses();
    for (let request = 0; request < 5; request++) ring.used(id);
    clock.now += DAY_MS / 2 - 1;
    ring.used(id);
    await written();
    expect(write.mock.calls).toEqual([[id, "2026-01-31"]]);
    expect(await lastUse(id)).toBe("2026-01-31");
    clock.now += 1;
    for (let request = 0; request < 5; request++) ring.used(id);
    await written();
    expect(write).toHaveBeenCalledTimes(2);
    expect(await lastUse(id)).toBe("2026-02-01");
  });

  test("is written by each isolate, the later of which change nothing, nor does one whose clock is behind", async () => {
    const { id } = await made();
    const [one, other] = [ringOfUses(), ringOfUses()];
    one.ring.used(id);
    await one.written();
    other.clock.now -= DAY_MS;
    other.ring.used(id);
    await other.written();
    expect(await lastUse(id)).toBe("2026-01-31");
  });

  test("that D1 does not take is tried again, minutes later and not with each request", async () => {
    const { id } = await made();
    const log = vi.spyOn(console, "warn").mockImplementation(() => {});
    const write = vi.spyOn(catalogue.keys, "noteUse").mockRejectedValueOnce(new Error("D1_ERROR: down"));
    const { ring, clock, written } = ringOfUses();
    ring.used(id);
    await written();
    expect(log).toHaveBeenCalledTimes(1);
    for (let request = 0; request < 5; request++) ring.used(id);
    await written();
    expect(write).toHaveBeenCalledTimes(1);
    clock.now += 5 * 60 * 1000;
    ring.used(id);
    await written();
    expect(write).toHaveBeenCalledTimes(2);
    expect(await lastUse(id)).toBe("2026-01-31");
  });

  test("of a key of the environment is written nowhere", async () => {
    const write = vi.spyOn(catalogue.keys, "noteUse");
    const { ring, written } = ringOfUses();
    for (const { id } of [rootKey, before, runnerKey]) ring.used(id);
    await written();
    expect(write).not.toHaveBeenCalled();
  });

  test("does not bring back a key that was deleted meanwhile", async () => {
    const { id } = await made();
    await catalogue.keys.remove(id);
    const { ring, written } = ringOfUses();
    ring.used(id);
    await written();
    expect(await catalogue.keys.find(id)).toBeNull();
  });
});

function unasked(): never {
  throw new Error("not to be asked");
}

const nowhere = { keys: { find: unasked }, sessions: { find: unasked } } as unknown as typeof catalogue;
