import { env } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { describe, expect, test } from "vitest";
import { ErrorBody } from "../../../protocol/errors.ts";
import { KeyCreated, KeyPage, KeysExported, type KeyWish, WhoAmI } from "../../../protocol/keys.ts";
import { MAX_SESSIONS, SESSION_MS, SessionCreated, SessionList } from "../../../protocol/sessions.ts";
import type { Caller } from "../../../worker/app.ts";
import type { Env } from "../../../worker/env.ts";
import gateway from "../../../worker/index.ts";
import { api, commitFiles, configWith, failed, good, makeBranch, paths, testContext } from "./support.ts";

const ENV: Env = { ...env, SLUICE_ENCRYPTION_KEY: testContext().config.encryptionKeys[0] ?? "" };

async function keyOf(wish: KeyWish): Promise<KeyCreated> {
  return KeyCreated.parse(await good("POST /keys", { body: wish }));
}

/** Whoever signs with a key, or with one of its sessions. */
function callerOf({ id, level, repos, pipelines }: KeyCreated, session?: string): Partial<Caller> {
  return { keyId: id, scope: { level, repos, pipelines }, ...(session !== undefined && { session }) };
}

async function begun(key: KeyCreated): Promise<SessionCreated> {
  return SessionCreated.parse(await good("POST /console/sessions", { caller: callerOf(key) }));
}

async function sessionsOf(key: KeyCreated): Promise<string[]> {
  const { sessions } = SessionList.parse(await good("GET /console/sessions", { caller: callerOf(key) }));
  return sessions.map(({ id }) => id);
}

/** The gateway's answer to what a key or a session signs. */
async function answerTo(
  { id, secret }: { id: string; secret: string },
  target: string,
  init: RequestInit = {},
): Promise<Response> {
  const aws = { service: "s3", region: "auto" };
  const client = new AwsClient({ accessKeyId: id, secretAccessKey: secret, ...aws });
  const [method = "GET", path = "/"] = target.split(" ");
  const headers = { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" };
  const signed = await client.sign(`http://gateway${path}`, { method, headers, ...init, aws });
  return await gateway.fetch(signed as Request<unknown, IncomingRequestCfProperties>, ENV);
}

describe("a session", () => {
  test("that is asked for without a signature is refused", async () => {
    const asked = new Request("http://gateway/api/v1/console/sessions", { method: "POST" });
    const answer = await gateway.fetch(asked as Request<unknown, IncomingRequestCfProperties>, ENV);
    expect(answer.status).toBe(403);
    expect(ErrorBody.parse(await answer.json()).error.code).toBe("AccessDenied");
  });

  test("of 12 hours is made with a signature, and its secret is told this once", async () => {
    const key = await keyOf({ level: "read", repos: ["images"], description: "night shift" });
    const answer = await answerTo(key, "POST /api/v1/console/sessions");
    expect(answer.status).toBe(201);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const { secret, ...session } = SessionCreated.parse(await answer.json());
    const id = expect.stringMatching(/^SLUICES[0-9A-F]{14}$/);
    expect(session).toMatchObject({ id, key: key.id, description: "night shift" });
    expect(session.expiresAt - session.createdAt).toBe(SESSION_MS);
    const own = await answerTo({ id: session.id, secret }, "GET /api/v1/whoami");
    const may = { level: "read", repos: ["images"], pipelines: false };
    expect(WhoAmI.parse(await own.json())).toEqual({
      ...{ id: key.id, session: session.id, ...may, expiresAt: session.expiresAt },
    });
    for (const told of ["GET /console/sessions", "GET /keys?limit=1000"]) {
      expect(JSON.stringify(await good(told))).not.toContain(secret);
    }
  });

  test.each([
    "read",
    "write",
    "admin",
  ] as const)("may what its key of level %s may, and no more", async (level) => {
    const repo = `own-${level}`;
    await makeBranch({ repo, branch: "master" });
    await commitFiles({ repo, branch: "master" }, { cat: "meow" });
    const key = await keyOf({ level, repos: [repo] });
    const session = await begun(key);
    for (const [name, signer] of Object.entries({ key, session })) {
      const asks = {
        [`GET /master.${repo}/cat`]: 200,
        [`PUT /master.${repo}/${name}`]: level === "read" ? 403 : 200,
        [`PUT /${name}.${repo}`]: level === "admin" ? 200 : 403,
        "GET /api/v1/keys": 403,
        "GET /master.elsewhere/cat": 403,
      };
      const statuses: Record<string, number> = {};
      for (const target of Object.keys(asks)) {
        const answer = await answerTo(signer, target, target.endsWith(`/${name}`) ? { body: "meow" } : {});
        await answer.body?.cancel();
        statuses[target] = answer.status;
      }
      expect(statuses).toEqual(asks);
    }
  });

  test("of the root key may everything but be a runner's", async () => {
    const root = testContext().config.rootKeys[0];
    const session = SessionCreated.parse(
      await (await answerTo(root, "POST /api/v1/console/sessions")).json(),
    );
    const own = WhoAmI.parse(await (await answerTo(session, "GET /api/v1/whoami")).json());
    expect(own).toMatchObject({ id: root.id, level: "root", repos: null, session: session.id });
    expect((await answerTo(session, "GET /api/v1/keys")).status).toBe(200);
  });

  test("writes as its key: commits have that one's id, and a branch that is protected for the key takes them", async () => {
    const address = { repo: "authored", branch: "master" };
    await makeBranch(address);
    const key = await keyOf({ level: "write", repos: [address.repo] });
    const session = await begun(key);
    await good("PUT /repos/authored/branches/master/writer", { body: { writer: { key: key.id } } });
    expect((await answerTo(session, "PUT /master.authored/cat", { body: "meow" })).status).toBe(200);
    const { commits } = await good("GET /repos/authored/branches/master/commits");
    expect(commits[0]).toMatchObject({ key: key.id });
    expect(JSON.stringify(commits)).not.toContain(session.id);
  });

  test("is no branch's writer", async () => {
    await makeBranch({ repo: "unheld", branch: "master" });
    const key = await keyOf({ level: "write", repos: ["unheld"] });
    const { id } = await begun(key);
    const error = await failed("PUT /repos/unheld/branches/master/writer", { body: { writer: { key: id } } });
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(paths(error)).toEqual(["writer.key"]);
    expect(error.message).toContain(`is a session of the access key '${key.id}'`);
  });

  test("makes no session, and neither does a runner's key", async () => {
    const key = await keyOf({ level: "admin" });
    const { id } = await begun(key);
    const denied = { status: 403, code: "AccessDenied" };
    expect(await failed("POST /console/sessions", { caller: callerOf(key, id) })).toMatchObject(denied);
    const runner = await keyOf({ level: "runner" });
    expect(await failed("POST /console/sessions", { caller: callerOf(runner) })).toMatchObject(denied);
    expect(await sessionsOf(key)).toEqual([id]);
  });

  test("can't be where there is no encryption key, and says which variable to set", async () => {
    const error = await failed("POST /console/sessions", { config: configWith({ encryptionKeys: [] }) });
    expect(error).toMatchObject({ status: 409, code: "NoEncryptionKey" });
    expect(error.message).toContain("SLUICE_ENCRYPTION_KEY");
  });

  test(`is one of ${MAX_SESSIONS} of its key at most: the oldest goes, and no other key's`, async () => {
    const [key, other] = [await keyOf({ level: "read" }), await keyOf({ level: "read" })];
    const theirs = await begun(other);
    const made: string[] = [];
    for (let count = 0; count < MAX_SESSIONS + 2; count++) made.push((await begun(key)).id);
    expect(await sessionsOf(key)).toEqual(made.slice(2).reverse());
    expect(await sessionsOf(other)).toEqual([theirs.id]);
  });

  test("lasts no longer than its key", async () => {
    const key = await keyOf({ level: "read", expires: "1h" });
    expect((await begun(key)).expiresAt).toBe(key.expiresAt);
  });

  test("is listed under its key, in no export, and goes with its key", async () => {
    const key = await keyOf({ level: "read" });
    const { secret: _, key: of, description: __, ...session } = await begun(key);
    const listed = async () => KeyPage.parse(await good("GET /keys?limit=1000")).keys;
    expect((await listed()).find(({ id }) => id === of)?.sessions).toEqual([session]);
    expect((await listed()).map(({ id }) => id)).not.toContain(session.id);
    const exported = KeysExported.parse(
      await good("POST /keys/export", { body: { sealWith: btoa("s".repeat(32)) } }),
    );
    expect(JSON.stringify(exported)).not.toContain(session.id);
    expect((await api(`DELETE /keys/${key.id}`)).status).toBe(204);
    const left = await env.DB.prepare("SELECT id FROM sessions WHERE key = ?1").bind(key.id).all();
    expect(left.results).toEqual([]);
  });

  test("that has expired is listed no more, and goes when another one begins", async () => {
    const key = await keyOf({ level: "read" });
    const { id } = await begun(key);
    await env.DB.prepare("UPDATE sessions SET expiresAt = 1 WHERE id = ?1").bind(id).run();
    expect(await sessionsOf(key)).toEqual([]);
    await begun(await keyOf({ level: "read" }));
    expect(await testContext().catalogue.sessions.find(id)).toBeNull();
  });

  test("is ended by itself, by its key, and by a key that handles keys; by no other", async () => {
    const [key, other] = [await keyOf({ level: "write" }), await keyOf({ level: "write" })];
    const [first, second, third, fourth] = await Promise.all([1, 2, 3, 4].map(() => begun(key)));
    if (!first || !second || !third || !fourth) throw new Error("no sessions");
    const end = (id: string, caller?: Partial<Caller>) =>
      api(`DELETE /console/sessions/${id}`, caller && { caller });
    const error = await failed(`DELETE /console/sessions/${first.id}`, { caller: callerOf(other) });
    expect(error).toMatchObject({ status: 404, code: "NoSuchSession" });
    expect(new Set(await sessionsOf(key)).size).toBe(4);
    expect((await end(first.id, callerOf(key, first.id))).status).toBe(204);
    expect((await end(second.id, callerOf(key))).status).toBe(204);
    expect((await end(third.id)).status).toBe(204);
    expect((await api(`DELETE /keys/${fourth.id}`)).status).toBe(204);
    expect(await sessionsOf(key)).toEqual([]);
    expect((await end(first.id)).status).toBe(404);
  });

  test("that has ended is told so, as S3 refuses a key that is no more", async () => {
    const key = await keyOf({ level: "read" });
    const session = await begun(key);
    await good(`DELETE /console/sessions/${session.id}`);
    const answer = await answerTo(session, "GET /api/v1/whoami");
    const { error } = ErrorBody.parse(await answer.json());
    expect([answer.status, error.code]).toEqual([403, "InvalidAccessKeyId"]);
    expect(error.message).toContain("log in again");
  });
});
