import { env } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { afterEach, describe, expect, test, vi } from "vitest";
import { ErrorBody } from "../../../protocol/errors.ts";
import {
  type Key,
  KeyCreated,
  KeyPage,
  KeysExported,
  KeysImported,
  KeysResealed,
} from "../../../protocol/keys.ts";
import { KeyTable } from "../../../worker/catalogue/keys.ts";
import type { KeyScope } from "../../../worker/core/permissions.ts";
import type { Env } from "../../../worker/env.ts";
import gateway from "../../../worker/index.ts";
import { api, configWith, failed, good, makeBranch, paths, testContext } from "./support.ts";

const camera = { level: "write", repos: ["images"], description: "camera" };

const ENV: Env = { ...env, SLUICE_ENCRYPTION_KEY: testContext().config.encryptionKeys[0] ?? "" };

async function made(body: object = camera): Promise<KeyCreated> {
  return KeyCreated.parse(await good("POST /keys", { body }));
}

const ROUTES = [
  "GET /keys",
  "POST /keys",
  "POST /keys/export",
  "POST /keys/import",
  "POST /keys/reseal",
  "DELETE /keys/SLUICE00000000000000",
];

describe("a request for keys", () => {
  test.each(ROUTES)("that is not signed is refused: %s", async (target) => {
    const [method = "", path = ""] = target.split(" ");
    const response = await gateway.fetch(request(`http://gateway/api/v1${path}`, { method }), ENV);
    expect(response.status).toBe(403);
    expect(ErrorBody.parse(await response.json()).error.code).toBe("AccessDenied");
  });

  test.each(ROUTES)("by a key that is not an admin's of everything is refused: %s", async (target) => {
    const scopes: KeyScope[] = [
      { level: "read", repos: null },
      { level: "write", repos: null },
      { level: "admin", repos: ["images"] },
      { level: "runner", repos: null },
    ];
    for (const scope of scopes) {
      const error = await failed(target, {
        caller: { scope },
        ...(target.startsWith("POST") && { body: camera }),
      });
      expect(error).toMatchObject({ status: 403, code: "AccessDenied" });
      expect(error.message).toContain(`allows ${scope.level}`);
      expect(error.message).toContain("needs admin");
    }
  });

  test("by an admin key of everything is as good as by the root key", async () => {
    const caller = { keyId: "SLUICE1", scope: { level: "admin", repos: null } } as const;
    expect((await api("GET /keys", { caller })).status).toBe(200);
  });
});

describe("POST /keys", () => {
  test("makes a key, shows its secret this once, and lets no cache keep it", async () => {
    const response = await api("POST /keys", { body: camera });
    expect(response.status).toBe(201);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const { secret, ...key } = KeyCreated.parse(await response.json());
    expect(key).toMatchObject(camera);
    const listed = await (await api("GET /keys?limit=1000")).text();
    expect(KeyPage.parse(JSON.parse(listed)).keys).toContainEqual(key);
    expect(listed).not.toContain(secret);
  });

  test("makes a key for all repos where none is named", async () => {
    expect(await made({ level: "read" })).toMatchObject({ level: "read", repos: null, description: "" });
    expect(await made({ level: "admin", repos: null })).toMatchObject({ level: "admin", repos: null });
    expect(await made({ level: "runner" })).toMatchObject({ level: "runner", repos: null });
  });

  test("tells whether a key may run pipelines: for all repos admin may, for some only with the right", async () => {
    const repos = ["images"];
    for (const [wish, pipelines] of [
      [{ level: "admin", repos: null }, true],
      [{ level: "admin", repos }, false],
      [{ level: "admin", repos, pipelines: true }, true],
      [{ level: "write", repos: null }, false],
    ] as const) {
      const { id, ...key } = await made(wish);
      expect(key.pipelines).toBe(pipelines);
      const { keys } = await good("GET /keys?limit=1000");
      expect(keys.find((listed: Key) => listed.id === id)).toMatchObject({ pipelines });
    }
  });

  test("a key of before the right to run pipelines, for some repos, does not have it", async () => {
    const { id } = await made({ level: "admin", repos: ["images"], pipelines: true });
    const columns = "sealedSecret, level, repos, description, createdAt";
    const old = "SLUICE0000000000000D";
    await env.DB.prepare(
      `INSERT INTO access_keys (id, ${columns}) SELECT ?1, ${columns} FROM access_keys WHERE id = ?2`,
    )
      .bind(old, id)
      .run();
    expect(await testContext().catalogue.keys.find(old)).toMatchObject({ level: "admin", pipelines: false });
  });

  test("says every problem of a wish, by its path", async () => {
    for (const [body, path] of [
      [{ repos: ["a"] }, "level"],
      [{ level: "owner" }, "level"],
      [{ level: "root" }, "level"],
      [{ level: "runner", repos: ["a"] }, "repos"],
      [{ level: "read", repos: [] }, "repos"],
      [{ level: "read", repos: ["ok", "a.b"] }, "repos[1]"],
      [{ level: "read", repos: Array.from({ length: 101 }, (_, n) => `r${n}`) }, "repos"],
      [{ level: "read", description: "x".repeat(201) }, "description"],
      [{ level: "read", secret: "mine" }, "secret"],
      [{ level: "admin", repos: ["a"], pipelines: "yes" }, "pipelines"],
      [{ level: "write", repos: ["a"], pipelines: true }, "pipelines"],
      [{ level: "read", expires: 30 }, "expires"],
      [{ level: "read", expires: "soon" }, "expires"],
      [{ level: "read", expires: "0d" }, "expires"],
      [{ level: "read", expires: "2020-01-01" }, "expires"],
      [{ level: "read", expires: "36501d" }, "expires"],
      [{ level: "read", expiresAt: 1 }, "expiresAt"],
    ] as const) {
      const error = await failed("POST /keys", { body });
      expect(error.status, path).toBe(400);
      expect(paths(error)).toEqual([path]);
    }
  });

  test("can't be where there is no encryption key, and says which variable to set", async () => {
    const config = configWith({ encryptionKeys: [] });
    const error = await failed("POST /keys", { body: camera, config });
    expect(error).toMatchObject({ status: 409, code: "NoEncryptionKey" });
    expect(error.message).toContain("SLUICE_ENCRYPTION_KEY");
    expect((await api("GET /keys", { config })).status).toBe(200);
  });
});

describe("a key that expires", () => {
  /** A key whose time is over: it was good, and nobody has it in memory. */
  async function expired(body: object = camera): Promise<KeyCreated> {
    const key = await made({ ...body, expires: "1d" });
    await env.DB.prepare("UPDATE access_keys SET expiresAt = ?2 WHERE id = ?1").bind(key.id, PAST).run();
    return key;
  }
  const PAST = Date.UTC(2026, 0, 31, 12, 30);

  const signed = (
    { id, secret }: KeyCreated,
    url: string,
    { signQuery = false, method = "GET" }: { signQuery?: boolean; method?: string } = {},
  ) => {
    const aws = { service: "s3", region: "auto", signQuery };
    const client = new AwsClient({ accessKeyId: id, secretAccessKey: secret, ...aws });
    return client.sign(url, { method, headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" }, aws });
  };
  const answerTo = async (...call: Parameters<typeof signed>) =>
    gateway.fetch(request(await signed(...call)), ENV);

  test("is made with a length of time by the gateway's clock, or with a time, and lists and whoami tell it", async () => {
    const before = Date.now();
    const key = await made({ ...camera, expires: "30d" });
    const ahead = 30 * 24 * 60 * 60 * 1000;
    expect(key.expiresAt).toBeGreaterThanOrEqual(before + ahead);
    expect(key.expiresAt).toBeLessThanOrEqual(Date.now() + ahead);
    const other = await made({ ...camera, expires: "2099-12-31T18:00Z" });
    expect(other.expiresAt).toBe(Date.UTC(2099, 11, 31, 18));
    const forever = await made();
    const { keys } = KeyPage.parse(await good("GET /keys?limit=1000"));
    const listed = (id: string) => keys.find((each) => each.id === id);
    expect(listed(key.id)).toMatchObject({ expiresAt: key.expiresAt });
    expect(listed(key.id)).not.toHaveProperty("expired");
    expect(listed(forever.id)).not.toHaveProperty("expiresAt");
    const own = await answerTo(key, "http://gateway/api/v1/whoami");
    expect(await own.json()).toMatchObject({ id: key.id, expiresAt: key.expiresAt });
  });

  test("is refused then as S3 refuses a key that is no more, whatever is signed, and hears when it expired", async () => {
    const key = await expired();
    const text = `The access key '${key.id}' expired at 2026-01-31T12:30:00.000Z: ask for another one ('sluice key create').`;
    for (const [url, options] of [
      ["http://gateway/", {}],
      ["http://gateway/master.images/cat", { method: "PUT" }],
      ["http://gateway/master.images/cat?X-Amz-Expires=604800", { signQuery: true }],
    ] as const) {
      const answer = await answerTo(key, url, options);
      const body = await answer.text();
      expect([answer.status, body]).toEqual([
        403,
        expect.stringContaining("<Code>InvalidAccessKeyId</Code>"),
      ]);
      expect(body.replaceAll("&apos;", "'").replaceAll("&#39;", "'")).toContain(text);
    }
    const runner = await expired({ level: "runner" });
    for (const [one, path, method] of [
      [key, "/repos", "GET"],
      [key, "/whoami", "GET"],
      [runner, "/runner/lease", "POST"],
    ] as const) {
      const answer = await answerTo(one, `http://gateway/api/v1${path}`, { method });
      expect(answer.status).toBe(403);
      const { error } = ErrorBody.parse(await answer.json());
      expect(error).toMatchObject({ code: "InvalidAccessKeyId", message: text.replace(key.id, one.id) });
    }
  });

  test("stays listed as expired until it is deleted, and no branch is left to it", async () => {
    const key = await expired();
    const { keys } = KeyPage.parse(await good("GET /keys?limit=1000"));
    expect(keys.find(({ id }) => id === key.id)).toMatchObject({ expiresAt: PAST, expired: true });
    await makeBranch({ repo: "guards", branch: "master" });
    const body = { writer: { key: key.id } };
    const error = await failed("PUT /repos/guards/branches/master/writer", { body });
    expect(error.message).toContain(`the access key '${key.id}' expired at 2026-01-31T12:30:00.000Z`);
    await good(`DELETE /keys/${key.id}`);
  });
});

describe("GET /keys", () => {
  test("comes in pages by id, without the root key", async () => {
    for (let n = 0; n < 3; n++) await made();
    const all: KeyPage["keys"] = [];
    let next: string | null = "";
    while (next !== null) {
      const page: KeyPage = KeyPage.parse(await good(`GET /keys?limit=2&after=${next}`));
      expect(page.keys.length).toBeLessThanOrEqual(2);
      all.push(...page.keys);
      next = page.next;
    }
    const ids = all.map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)].sort());
    expect(ids.length).toBeGreaterThanOrEqual(3);
    expect(ids).not.toContain(testContext().config.rootKeys[0].id);
    for (const limit of ["0", "1001", "x"])
      expect(await failed(`GET /keys?limit=${limit}`)).toMatchObject({
        status: 400,
        issues: [{ path: "limit" }],
      });
  });
});

describe("DELETE /keys/{id}", () => {
  test("ends a key, once", async () => {
    const { id } = await made();
    expect((await api(`DELETE /keys/${id}`)).status).toBe(204);
    const { keys } = await good("GET /keys?limit=1000");
    expect(keys.map((key: Key) => key.id)).not.toContain(id);
    const error = await failed(`DELETE /keys/${id}`);
    expect(error).toMatchObject({ status: 404, code: "NoSuchAccessKey" });
    expect(error.message).toContain(id);
  });

  test("does not end the root key, and says where that comes from", async () => {
    const error = await failed(`DELETE /keys/${testContext().config.rootKeys[0].id}`);
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(error.message).toContain("SLUICE_ACCESS_KEY_ID");
  });
});

describe("a change of the encryption key", () => {
  const [old = ""] = testContext().config.encryptionKeys;
  const fresh = btoa("n".repeat(32));
  const before: Env = ENV;
  const during: Env = { ...before, SLUICE_ENCRYPTION_KEY: fresh, SLUICE_ENCRYPTION_KEY_PREVIOUS: old };
  const after: Env = { ...before, SLUICE_ENCRYPTION_KEY: fresh };
  const config = configWith({ encryptionKeys: [fresh, old] });

  /** The status of a request that is signed with the key, at a gateway with these variables. */
  async function signedWith({ id, secret }: KeyCreated, variables: Env): Promise<number> {
    const client = new AwsClient({ accessKeyId: id, secretAccessKey: secret, service: "s3", region: "auto" });
    const signed = await client.sign("http://gateway/api/v1/repos", {
      headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
    });
    return (await gateway.fetch(request(signed), variables)).status;
  }

  test("leaves every key working while both are set, and without the old one when all are encrypted anew", async () => {
    const keys = await Promise.all([made(), made({ level: "read" }), made({ level: "runner" })]);
    const first = keys[0] as KeyCreated;
    expect(await signedWith(first, before)).toBe(200);
    expect(await signedWith(first, during)).toBe(200);
    const resealed: string[] = [];
    let next: string | null = "";
    while (next !== null) {
      const page: KeysResealed = KeysResealed.parse(
        await good(`POST /keys/reseal?limit=2&after=${next}`, { config }),
      );
      expect(keys.filter(({ id }) => page.unreadable.includes(id))).toEqual([]);
      expect(page.checked).toBeLessThanOrEqual(2);
      resealed.push(...page.resealed);
      next = page.next;
    }
    expect(resealed).toEqual(expect.arrayContaining(keys.map(({ id }) => id)));
    expect(await signedWith(first, during)).toBe(200);
    expect(await signedWith(first, after)).toBe(200);
    // Asked again, there is nothing left to do.
    expect(await good("POST /keys/reseal?limit=1000", { config })).toMatchObject({ resealed: [] });
  });

  test("names the keys that no encryption key opens", async () => {
    const { id } = await made();
    const others = configWith({ encryptionKeys: [btoa("x".repeat(32)), btoa("y".repeat(32))] });
    const done = KeysResealed.parse(await good("POST /keys/reseal?limit=1000", { config: others }));
    expect(done.unreadable).toContain(id);
    expect(done.resealed).toEqual([]);
  });

  test("does not bring back a key that is deleted meanwhile", async () => {
    const { id } = await made();
    const { catalogue } = testContext();
    const sealedSecret = (await catalogue.keys.find(id))?.sealedSecret ?? "";
    await catalogue.keys.remove(id);
    expect(await catalogue.keys.reseal({ id, from: sealedSecret, to: sealedSecret })).toBe(false);
    expect(await catalogue.keys.find(id)).toBeNull();
  });

  test("is told what is wrong with its variables", async () => {
    for (const [variables, words] of [
      [{ ...before, SLUICE_ACCESS_KEY_ID_PREVIOUS: "an-old-root" }, "both or neither"],
      [
        {
          ...before,
          SLUICE_ACCESS_KEY_ID_PREVIOUS: before.SLUICE_ACCESS_KEY_ID,
          SLUICE_SECRET_ACCESS_KEY_PREVIOUS: "an-old-secret",
        },
        "must differ from SLUICE_ACCESS_KEY_ID",
      ],
      [{ ...before, SLUICE_ENCRYPTION_KEY_PREVIOUS: "short" }, "SLUICE_ENCRYPTION_KEY_PREVIOUS must be"],
    ] as const) {
      const answer = await gateway.fetch(request("http://gateway/"), variables as Env);
      expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining(words)]);
    }
  });
});

describe("a change of the root key", () => {
  test("has both of them work, the new and the old, until the old one is taken away", async () => {
    const variables: Env = {
      ...ENV,
      SLUICE_ACCESS_KEY_ID: "a-new-root",
      SLUICE_SECRET_ACCESS_KEY: "the-secret-of-the-new-root",
      SLUICE_ACCESS_KEY_ID_PREVIOUS: ENV.SLUICE_ACCESS_KEY_ID,
      SLUICE_SECRET_ACCESS_KEY_PREVIOUS: ENV.SLUICE_SECRET_ACCESS_KEY,
    };
    const {
      SLUICE_ACCESS_KEY_ID_PREVIOUS: _,
      SLUICE_SECRET_ACCESS_KEY_PREVIOUS: __,
      ...afterwards
    } = variables;
    const ask = async (accessKeyId: string, secretAccessKey: string, at: Env) => {
      const client = new AwsClient({ accessKeyId, secretAccessKey, service: "s3", region: "auto" });
      const signed = await client.sign("http://gateway/api/v1/keys", {
        headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
      });
      return (await gateway.fetch(request(signed), at)).status;
    };
    const old = [ENV.SLUICE_ACCESS_KEY_ID, ENV.SLUICE_SECRET_ACCESS_KEY] as const;
    const fresh = ["a-new-root", "the-secret-of-the-new-root"] as const;
    expect(await ask(...old, variables)).toBe(200);
    expect(await ask(...fresh, variables)).toBe(200);
    expect(await ask(...fresh, afterwards as Env)).toBe(200);
    expect(await ask(...old, afterwards as Env)).toBe(403);
  });
});

describe("a request signed with a key", () => {
  test("is let in within the key's scope, and refused outside it and with a wrong secret", async () => {
    const { id, secret } = await made({ level: "read", repos: ["images"] });
    const ask = async (path: string, secretAccessKey = secret) => {
      const client = new AwsClient({ accessKeyId: id, secretAccessKey, service: "s3", region: "auto" });
      const signed = await client.sign(`http://gateway/api/v1${path}`, {
        headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
      });
      return await gateway.fetch(request(signed), ENV);
    };
    expect(await (await ask("/repos")).json()).toEqual({ repos: [] });
    expect((await ask("/repos/images/branches")).status).toBe(404);
    expect((await ask("/repos/labels/branches")).status).toBe(403);
    const wrong = await ask("/repos", `${secret}x`);
    expect(ErrorBody.parse(await wrong.json()).error.code).toBe("SignatureDoesNotMatch");
    expect(wrong.status).toBe(403);
  });
});

describe("the last use of a key", () => {
  async function ask({ id, secret }: Pick<KeyCreated, "id" | "secret">): Promise<number> {
    const client = new AwsClient({ accessKeyId: id, secretAccessKey: secret, service: "s3", region: "auto" });
    const signed = await client.sign("http://gateway/api/v1/whoami", {
      headers: { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
    });
    return (await gateway.fetch(request(signed), ENV)).status;
  }

  async function lastUse(id: string): Promise<string | undefined> {
    const { keys } = KeyPage.parse(await good("GET /keys?limit=1000"));
    return keys.find((key) => key.id === id)?.lastUsedOn;
  }

  afterEach(() => vi.restoreAllMocks());

  test("is shown by its day; a second request of the day writes nothing, and one that is signed wrong is no use", async () => {
    const key = await made();
    const write = vi.spyOn(KeyTable.prototype, "noteUse");
    expect(await ask({ ...key, secret: `${key.secret}x` })).toBe(403);
    expect(write).not.toHaveBeenCalled();
    expect(await lastUse(key.id)).toBeUndefined();
    for (let turn = 0; turn < 3; turn++) expect(await ask(key)).toBe(200);
    await expect.poll(() => lastUse(key.id)).toMatch(/^\d{4}-\d\d-\d\d$/);
    // One more at most, if midnight was in between.
    const days = write.mock.calls.map(([, day]) => day);
    expect(days).toEqual([...new Set(days)]);
  });

  test("harms no request if D1 does not take it, or takes for ever", async () => {
    const key = await made();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const write = vi.spyOn(KeyTable.prototype, "noteUse").mockRejectedValue(new Error("D1_ERROR: read-only"));
    expect(await ask(key)).toBe(200);
    expect(await ask(key)).toBe(200);
    expect(write).toHaveBeenCalledTimes(1);
    const another = await made();
    const { promise: never, resolve: end } = Promise.withResolvers<void>();
    write.mockReturnValue(never);
    expect(await ask(another)).toBe(200);
    end();
  });

  test("is not needed to be let in: a D1 that lacks its column refuses the list alone, and says what to do", async () => {
    const key = await made();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    await env.DB.exec("ALTER TABLE access_keys RENAME COLUMN lastUsedOn TO away");
    try {
      expect(await ask(key)).toBe(200);
      const { status, message } = await failed("GET /keys");
      expect({ status, message }).toEqual({
        status: 503,
        message: expect.stringContaining("lacks a migration"),
      });
      expect((await made()).id).toBeDefined();
    } finally {
      await env.DB.exec("ALTER TABLE access_keys RENAME COLUMN away TO lastUsedOn");
    }
  });
});

test("GET /keys is 304 to who has the list already, until there is another key", async () => {
  const etag = (await api("GET /keys?limit=1000")).headers.get("etag") ?? "";
  const headers = { "if-none-match": etag };
  expect((await api("GET /keys?limit=1000", { headers })).status).toBe(304);
  await made();
  expect((await api("GET /keys?limit=1000", { headers })).status).toBe(200);
});

function request(input: string | Request, init?: RequestInit): Request<unknown, IncomingRequestCfProperties> {
  return new Request(input, init) as Request<unknown, IncomingRequestCfProperties>;
}

describe("an export of keys", () => {
  const sealWith = btoa("s".repeat(32));
  const other = btoa("o".repeat(32));

  /** All pages; the keys of these ids. */
  async function exported(ids: readonly string[]): Promise<KeysExported["keys"]> {
    const keys: KeysExported["keys"] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const body: object = { sealWith, ...(after !== undefined && { after }) };
      const page: KeysExported = KeysExported.parse(await good("POST /keys/export", { body }));
      keys.push(...page.keys);
      after = page.next;
    }
    return keys.filter(({ id }) => ids.includes(id));
  }

  async function imported(keys: KeysExported["keys"], openWith = sealWith): Promise<KeysImported> {
    return KeysImported.parse(await good("POST /keys/import", { body: { openWith, keys } }));
  }

  test("has each sealed, with its secret and all that it may do", async () => {
    const key = await made({ ...camera, description: "for an export" });
    const keys = await exported([key.id]);
    expect(keys).toHaveLength(1);
    const text = JSON.stringify(keys.map(({ sealed }) => atob(sealed)));
    for (const hidden of [key.secret, "images", "for an export"]) expect(text).not.toContain(hidden);
    await good(`DELETE /keys/${key.id}`);
    const nothing = { added: [], there: [], taken: [], refused: [], expired: [] };
    expect(await imported(keys, other)).toEqual({ ...nothing, refused: [key.id] });
    // No seal opens under another id: nobody gives a key what another one may do.
    const stranger = "SLUICE0123456789ABCD";
    expect(await imported(keys.map((each) => ({ ...each, id: stranger })))).toEqual({
      ...nothing,
      refused: [stranger],
    });
    expect(await imported(keys)).toEqual({ ...nothing, added: [key.id] });
    const { secret, ...shown } = key;
    const listed = KeyPage.parse(await good("GET /keys?limit=1000")).keys.find(({ id }) => id === key.id);
    expect(listed).toEqual(shown);
    const found = await testContext().keys.find(key.id);
    expect(found).toMatchObject({ secret, scope: { level: "write", repos: ["images"] } });
    expect(await imported(keys)).toEqual({ ...nothing, there: [key.id] });
  });

  test("leaves what is there as it is", async () => {
    const key = await made();
    const keys = await exported([key.id]);
    await good(`DELETE /keys/${key.id}`);
    await env.DB.prepare(
      `INSERT INTO access_keys (id, sealedSecret, level, repos, pipelines, description, createdAt)
       VALUES (?1, 'another', 'read', NULL, 0, 'another', 1)`,
    )
      .bind(key.id)
      .run();
    expect(await imported(keys)).toMatchObject({ added: [], there: [], taken: [key.id] });
    const listed = KeyPage.parse(await good("GET /keys?limit=1000")).keys.find(({ id }) => id === key.id);
    expect(listed).toMatchObject({ level: "read", description: "another" });
    // Nothing opens its secret: an export names it and goes on with the others.
    const page = KeysExported.parse(await good("POST /keys/export", { body: { sealWith } }));
    expect(page.unreadable).toContain(key.id);
    await good(`DELETE /keys/${key.id}`);
  });

  test("has when each expires, and an import makes none that has expired", async () => {
    const [forever, ahead, over] = [await made(), await made({ ...camera, expires: "30d" }), await made()];
    const ids = [forever.id, ahead.id, over.id];
    await env.DB.prepare("UPDATE access_keys SET expiresAt = 1 WHERE id = ?1").bind(over.id).run();
    const keys = await exported(ids);
    expect(keys).toHaveLength(3);
    for (const id of ids) await good(`DELETE /keys/${id}`);
    const answer = await imported(keys);
    expect(answer).toEqual({
      ...{ added: [forever.id, ahead.id].sort(), there: [], taken: [], refused: [] },
      expired: [over.id],
    });
    const { find } = testContext().catalogue.keys;
    expect(await find.call(testContext().catalogue.keys, ahead.id)).toMatchObject({
      expiresAt: ahead.expiresAt,
    });
    expect(await find.call(testContext().catalogue.keys, forever.id)).not.toHaveProperty("expiresAt");
    expect(await find.call(testContext().catalogue.keys, over.id)).toBeNull();
  });

  test("needs an encryption key at both gateways, and 32 bytes to seal with", async () => {
    const config = configWith({ encryptionKeys: [] });
    for (const [target, body] of [
      ["POST /keys/export", { sealWith }],
      ["POST /keys/import", { openWith: sealWith, keys: [] }],
    ] as const) {
      expect(await failed(target, { body, config })).toMatchObject({ status: 409, code: "NoEncryptionKey" });
    }
    const error = await failed("POST /keys/export", { body: { sealWith: "short" } });
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(JSON.stringify(error)).toContain("the base64 of 32 bytes");
  });
});
