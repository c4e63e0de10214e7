import { describe, expect, test } from "vitest";
import { credentialsFor, opensRegistry } from "../../../../runner/executors/container/images/pull-secrets.ts";
import { type ImageReference, parseImage } from "../../../../runner/executors/container/images/reference.ts";

const PASSWORD = "p:a:s:s";
const AUTH = Buffer.from(`me:${PASSWORD}`).toString("base64");

function image(text: string): ImageReference {
  const parsed = parseImage(text);
  if (!parsed.ok || "id" in parsed.image) throw new Error(text);
  return parsed.image;
}

function secret(name: string, keys: Record<string, unknown>) {
  const entries = Object.entries(keys).map(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return [key, Buffer.from(text)] as const;
  });
  return { name, secret: new Map(entries) };
}
const dockerSecret = (name: string, auths: unknown) => secret(name, { ".dockerconfigjson": { auths } });

describe("a key's address", () => {
  test.each([
    ["r.io", "r.io/x"],
    ["https://r.io", "r.io/x"],
    ["http://r.io/", "r.io/x"],
    ["https://r.io/v1/", "r.io/x"],
    ["r.io/v2/", "r.io/x"],
    ["R.IO", "r.io/x"],
    ["r.io/team", "r.io/team/x"],
    ["r.io/v2/team", "r.io/team/x"],
    ["r.io:5000", "r.io:5000/x"],
    ["https://index.docker.io/v1/", "busybox"],
    ["index.docker.io", "docker.io/a/b"],
    ["docker.io", "busybox"],
    ["docker.io/team", "team/x"],
    ["*.r.io", "eu.r.io/x"],
    ["*.*.io", "eu.r.io/x"],
    ["eu?.r.io", "eu1.r.io/x"],
    ["eu[0-9].r.io", "eu1.r.io/x"],
    ["127.0.0.1:5000", "127.0.0.1:5000/x"],
  ])("%s opens %s", (pattern, name) => {
    expect(opensRegistry(pattern, image(name))).toBe(true);
  });

  test.each([
    ["r.io", "other.io/x"],
    ["r.io", "r.io:5000/x"],
    ["r.io:5000", "r.io/x"],
    ["r.io/team", "r.io/x"],
    ["io", "r.io/x"],
    ["*.io", "eu.r.io/x"],
    ["*", "r.io/x"],
    ["r.io.evil.org", "r.io/x"],
    ["rxio", "r.io/x"],
    ["index.docker.io", "r.io/x"],
    ["eu[z-a].r.io", "eua.r.io/x"],
    ["", "r.io/x"],
  ])("%s does not open %s", (pattern, name) => {
    expect(opensRegistry(pattern, image(name))).toBe(false);
  });
});

describe("the credentials for an image", () => {
  const wanted = image("r.io/team/x");

  test("are a user and a password, decoded from auth, which goes before the two fields", () => {
    const found = credentialsFor(wanted, [
      dockerSecret("a", { "r.io": { auth: AUTH, username: "old", password: "old" } }),
      dockerSecret("b", { "r.io": { username: "you", password: "pw" } }),
    ]);
    expect(found).toEqual({
      problems: [],
      credentials: [
        { secret: "a", login: { username: "me", password: PASSWORD, serveraddress: "r.io" } },
        { secret: "b", login: { username: "you", password: "pw", serveraddress: "r.io" } },
      ],
    });
  });

  test("may be a token instead of a password", () => {
    const auth = Buffer.from("0000:").toString("base64");
    const found = credentialsFor(wanted, [dockerSecret("a", { "r.io": { auth, identitytoken: "t" } })]);
    expect(found.credentials).toEqual([
      { secret: "a", login: { username: "0000", identitytoken: "t", serveraddress: "r.io" } },
    ]);
  });

  test("come in the order of the secrets, in each the longest address first, and the same ones once", () => {
    const logins = {
      "r.io": { auth: AUTH },
      "r.io/team": { username: "team", password: "t" },
      "other.io": { auth: AUTH },
    };
    const found = credentialsFor(wanted, [dockerSecret("a", logins), dockerSecret("b", logins)]);
    expect(found.credentials.map(({ secret, login }) => [secret, login.username])).toEqual([
      ["a", "team"],
      ["a", "me"],
    ]);
  });

  test("may be in a secret of the older kind", () => {
    const found = credentialsFor(wanted, [
      secret("a", { ".dockercfg": { "https://r.io": { auth: AUTH, email: "x" } } }),
    ]);
    expect(found.credentials).toMatchObject([{ login: { username: "me", password: PASSWORD } }]);
  });

  test("of other registries are left out", () => {
    expect(credentialsFor(wanted, [dockerSecret("a", { "other.io": { auth: AUTH } })])).toEqual({
      credentials: [],
      problems: [],
    });
  });

  const HIDDEN = "hidden-bytes";
  test.each([
    ["without the key", { "config.json": HIDDEN }, 'has no key ".dockerconfigjson"'],
    ["that is no JSON", { ".dockerconfigjson": `{${HIDDEN}` }, 'holds no JSON in ".dockerconfigjson"'],
    ["that is not UTF-8", { ".dockerconfigjson": "\ufffd" }, "holds no JSON"],
    ["without auths", { ".dockerconfigjson": { [HIDDEN]: 1 } }, 'must hold {"auths"'],
    ["whose auths is a list", { ".dockerconfigjson": { auths: [HIDDEN] } }, 'must hold {"auths"'],
    [
      "with an auth that is a number",
      { ".dockerconfigjson": { auths: { [HIDDEN]: { auth: 1 } } } },
      "must hold",
    ],
    [
      "with an auth that is not base64",
      { ".dockerconfigjson": { auths: { "r.io": { auth: `!${HIDDEN}` } } } },
      "is not the base64",
    ],
    [
      "with an auth without a colon",
      { ".dockerconfigjson": { auths: { "r.io": { auth: btoa(HIDDEN) } } } },
      "is not the base64",
    ],
    ["with no entry", { ".dockerconfigjson": { auths: {} } }, "holds no credentials"],
    ["with an empty entry", { ".dockerconfigjson": { auths: { "r.io": {} } } }, "holds no credentials"],
    [
      "that points to a credential store",
      { ".dockerconfigjson": { auths: { "r.io": {} }, credsStore: HIDDEN } },
      "credential store of the machine",
    ],
  ])("a secret %s is named and not shown, and the others are used", (_, keys, words) => {
    const found = credentialsFor(wanted, [
      secret("bad", keys),
      dockerSecret("good", { "r.io": { auth: AUTH } }),
    ]);
    expect(found.credentials).toMatchObject([{ secret: "good" }]);
    expect(found.problems).toEqual([expect.stringContaining(`secret "bad" `)]);
    expect(found.problems[0]).toContain(words);
    expect(found.problems[0]).not.toContain(HIDDEN);
    expect(found.problems[0]).not.toContain(btoa(HIDDEN));
  });
});
