import { beforeEach, describe, expect, test } from "vitest";
import { openAgain } from "../open-commits/support.ts";
import { type Ask, failure, good, s3, scopedKey, testContext, xml } from "../support.ts";
import { anybody, putAll } from "./support.ts";

const REPO = "switch";
const BUCKET = `/master.${REPO}`;
const OWNER_ID = "0".repeat(32);
const ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers";
const XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"';

const branch = () => testContext().branch({ repo: REPO, branch: "master" });

beforeEach(async () => {
  await s3(`PUT ${BUCKET}`);
  await putAll(BUCKET, { key: "x" });
  await branch().settings.change({ public: false });
  testContext().openBranches.forget();
});

function statement(action: unknown, resource: unknown, more: object = {}): object {
  return { Effect: "Allow", Principal: "*", Action: action, Resource: resource, ...more };
}
function policy(...statements: readonly object[]): string {
  return JSON.stringify({ Version: "2012-10-17", Statement: statements });
}
const bucketArn = (name = `master.${REPO}`) => `arn:aws:s3:::${name}`;
const objectsArn = (name = `master.${REPO}`) => `arn:aws:s3:::${name}/*`;
const BOTH = ["s3:GetObject", "s3:ListBucket"];
/** As S3's examples of a public bucket have it. */
const PLAIN = policy(statement("s3:GetObject", objectsArn()), statement("s3:ListBucket", bucketArn()));
/** What `mc anonymous set download` sends (minio-go's policy.SetPolicy). */
const FROM_MC = JSON.stringify({
  Version: "2012-10-17",
  Statement: [
    {
      Action: ["s3:GetBucketLocation"],
      Effect: "Allow",
      Principal: { AWS: ["*"] },
      Resource: [bucketArn()],
      Sid: "",
    },
    {
      Action: ["s3:ListBucket"],
      Effect: "Allow",
      Principal: { AWS: ["*"] },
      Resource: [bucketArn()],
      Sid: "",
    },
    {
      Action: ["s3:GetObject"],
      Effect: "Allow",
      Principal: { AWS: ["*"] },
      Resource: [objectsArn()],
      Sid: "",
    },
  ],
});

const owner = `<Owner><ID>${OWNER_ID}</ID><DisplayName>sluice</DisplayName></Owner>`;
const ownersGrant = `<Grant><Grantee ${XSI} xsi:type="CanonicalUser"><ID>${OWNER_ID}</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant>`;
const everybodysGrant = `<Grant><Grantee ${XSI} xsi:type="Group"><URI>${ALL_USERS}</URI></Grantee><Permission>READ</Permission></Grant>`;
function list(...grants: readonly string[]): string {
  return `<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${owner}<AccessControlList>${grants.join("")}</AccessControlList></AccessControlPolicy>`;
}

async function isPublic(): Promise<boolean> {
  const settings = await branch().settings.read();
  const [read, listed, located] = await Promise.all([
    anybody(`GET ${BUCKET}/key`),
    anybody(`GET ${BUCKET}?list-type=2`),
    anybody(`GET ${BUCKET}?location`),
  ]);
  const statuses = new Set([read.status, listed.status, located.status]);
  expect(statuses.size, "reads, lists and its location are let in together").toBe(1);
  expect(settings).toMatchObject({ ok: true, public: statuses.has(200) });
  return statuses.has(200);
}

/** What S3's three ways to ask say of the bucket. */
async function shown(bucket = BUCKET): Promise<"private" | "public-read"> {
  const acl = await aclOf(`${bucket}?acl`);
  const [policied, status] = await Promise.all([
    s3(`GET ${bucket}?policy`),
    s3(`GET ${bucket}?policyStatus`),
  ]);
  if (acl === "private") {
    for (const answer of [policied, status]) {
      expect(await failure(answer)).toMatchObject({ status: 404, Code: "NoSuchBucketPolicy" });
    }
  } else {
    expect(await policied.json()).toEqual({
      Version: "2012-10-17",
      Statement: [
        {
          Effect: "Allow",
          Principal: { AWS: ["*"] },
          Action: ["s3:GetBucketLocation", "s3:ListBucket"],
          Resource: [bucketArn(bucket.slice(1))],
        },
        {
          Effect: "Allow",
          Principal: { AWS: ["*"] },
          Action: ["s3:GetObject"],
          Resource: [objectsArn(bucket.slice(1))],
        },
      ],
    });
    expect(policied.headers.get("content-type")).toBe("application/json");
    expect((await xml(status)).PolicyStatus.IsPublic).toBe("true");
  }
  return acl;
}

async function aclOf(target: string): Promise<"private" | "public-read"> {
  const text = await (await good(`GET ${target}`)).text();
  const { AccessControlPolicy: found } = await xml(new Response(text));
  expect(found.Owner).toEqual({ ID: OWNER_ID, DisplayName: "sluice" });
  const grants = [found.AccessControlList.Grant].flat();
  expect(grants[0]).toEqual({
    Grantee: { ID: OWNER_ID, DisplayName: "sluice" },
    Permission: "FULL_CONTROL",
  });
  expect(text).toContain(`<Grantee ${XSI} xsi:type="CanonicalUser"><ID>`);
  if (grants.length === 1) return "private";
  expect(grants.slice(1)).toEqual([{ Grantee: { URI: ALL_USERS }, Permission: "READ" }]);
  expect(text).toContain(`<Grantee ${XSI} xsi:type="Group"><URI>`);
  return "public-read";
}

describe("a branch is made public", () => {
  const grant = { "x-amz-grant-full-control": `id="${OWNER_ID}"`, "x-amz-grant-read": `uri="${ALL_USERS}"` };
  test.each([
    ["by x-amz-acl", "acl", { headers: { "x-amz-acl": "public-read" } }],
    ["by headers that grant", "acl", { headers: grant }],
    [
      "by headers that grant without quotes, and twice",
      "acl",
      {
        headers: {
          "x-amz-grant-full-control": `id=${OWNER_ID}`,
          "x-amz-grant-read": `uri=${ALL_USERS}, uri="${ALL_USERS}"`,
        },
      },
    ],
    ["by a list", "acl", { body: list(ownersGrant, everybodysGrant) }],
    ["by a list in another order", "acl", { body: list(everybodysGrant, ownersGrant) }],
    ["by a policy", "policy", { body: PLAIN }],
    ["by the policy of `mc anonymous set download`", "policy", { body: FROM_MC }],
    [
      "by a policy of one statement, which is no list",
      "policy",
      {
        body: JSON.stringify({
          Statement: statement(BOTH, [bucketArn(), objectsArn()], { Sid: "x" }),
          Id: "y",
        }),
      },
    ],
    [
      "by a policy that names the bucket without its branch, in an older version, with wild case",
      "policy",
      {
        body: JSON.stringify({
          Version: "2008-10-17",
          Statement: [
            statement(["S3:getobject", "s3:GetObject"], objectsArn(REPO), { Principal: { AWS: "*" } }),
            statement(["s3:GetBucketLocation", "s3:ListBucket"], bucketArn(REPO), { Condition: {} }),
          ],
        }),
      },
    ],
  ])("%s", async (_, query, ask) => {
    expect(await isPublic()).toBe(false);
    expect((await good(`PUT ${BUCKET}?${query}`, ask)).status).toBe(query === "acl" ? 200 : 204);
    expect(await isPublic()).toBe(true);
    expect(await shown()).toBe("public-read");
  });
});

describe("there is one switch:", () => {
  const ON: readonly [string, () => Promise<unknown>][] = [
    ["`sluice branch public`", async () => branch().settings.change({ public: true })],
    ["an ACL", () => good(`PUT ${BUCKET}?acl`, { headers: { "x-amz-acl": "public-read" } })],
    ["a policy", () => good(`PUT ${BUCKET}?policy`, { body: PLAIN })],
  ];
  const OFF: readonly [string, () => Promise<unknown>][] = [
    ["DeleteBucketPolicy", () => good(`DELETE ${BUCKET}?policy`)],
    ["the ACL `private`", () => good(`PUT ${BUCKET}?acl`, { headers: { "x-amz-acl": "private" } })],
    ["a list for the owner alone", () => good(`PUT ${BUCKET}?acl`, { body: list(ownersGrant) })],
    ["`sluice branch public … off`", async () => branch().settings.change({ public: false })],
  ];

  test.each(OFF)("%s turns it off, whatever turned it on", async (_, off) => {
    for (const [, on] of ON) {
      await on();
      testContext().openBranches.forget();
      expect(await isPublic()).toBe(true);
      await off();
      expect(await isPublic()).toBe(false);
      expect(await shown()).toBe("private");
    }
  });

  test("to set what is set changes nothing", async () => {
    const revision = async () => {
      const rows = await testContext().catalogue.settings.ofRepo(REPO);
      return rows;
    };
    await good(`PUT ${BUCKET}?acl`, { headers: { "x-amz-acl": "public-read" } });
    const before = [await branch().settings.read(), await revision()];
    await good(`PUT ${BUCKET}?policy`, { body: FROM_MC });
    await good(`PUT ${BUCKET}?acl`, { body: list(ownersGrant, everybodysGrant) });
    expect([await branch().settings.read(), await revision()]).toEqual(before);
  });

  test("DeleteBucketPolicy of a branch that is not public is 204, and an ACL that is so is 200", async () => {
    expect((await good(`DELETE ${BUCKET}?policy`)).status).toBe(204);
    expect((await good(`PUT ${BUCKET}?acl`, { headers: { "x-amz-acl": "private" } })).status).toBe(200);
    expect(await isPublic()).toBe(false);
  });

  test("the policy and the ACL that a client reads are taken again as they are", async () => {
    await branch().settings.change({ public: true });
    const [read, listed] = await Promise.all([good(`GET ${BUCKET}?policy`), good(`GET ${BUCKET}?acl`)]);
    const [readText, listedText] = [await read.text(), await listed.text()];
    await branch().settings.change({ public: false });
    await good(`PUT ${BUCKET}?policy`, { body: readText });
    expect(await shown()).toBe("public-read");
    await branch().settings.change({ public: false });
    await good(`PUT ${BUCKET}?acl`, { body: listedText });
    expect(await shown()).toBe("public-read");
  });
});

describe("what asks for less or for more is refused with what public means here, and changes nothing", () => {
  const one = (more: object, action: unknown = BOTH, resource: unknown = [bucketArn(), objectsArn()]) =>
    policy(statement(action, resource, more));
  test.each([
    ["reads without lists", policy(statement("s3:GetObject", objectsArn()))],
    ["lists without reads", policy(statement("s3:ListBucket", bucketArn()))],
    [
      "some objects",
      policy(statement("s3:GetObject", `${bucketArn()}/a/*`), statement("s3:ListBucket", bucketArn())),
    ],
    ["one object", one({}, BOTH, [bucketArn(), `${bucketArn()}/key`])],
    ["many buckets", one({}, BOTH, ["arn:aws:s3:::*", objectsArn()])],
    ["buckets by a pattern", one({}, BOTH, [bucketArn(), "arn:aws:s3:::master.*/*"])],
    ["all actions", one({}, "s3:*")],
    ["really all actions", one({}, "*")],
    ["actions by a pattern", one({}, ["s3:Get*", "s3:ListBucket"])],
    ["writes", one({}, [...BOTH, "s3:PutObject"])],
    ["versions", one({}, [...BOTH, "s3:GetObjectVersion", "s3:ListBucketVersions"])],
    [
      "replication",
      one({}, [...BOTH, "s3:ReplicateObject", "s3:InitiateReplication", "s3:GetObjectVersionForReplication"]),
    ],
    ["S3's newer settings", one({}, [...BOTH, "s3:PutBucketAbac", "s3:TagResource", "s3:PauseReplication"])],
    ["S3's newer operations", one({}, [...BOTH, "s3:UpdateObjectEncryption", "s3:PutObjectAnnotation"])],
    ["one account", one({ Principal: { AWS: "arn:aws:iam::123456789012:root" } })],
    ["an account by its number", one({ Principal: { AWS: ["123456789012"] } })],
    ["everybody in a list, which is no principal of IAM's grammar", one({ Principal: ["*"] })],
    ["everybody and a service", one({ Principal: { AWS: "*", Service: "cloudfront.amazonaws.com" } })],
    ["all but some", one({ NotPrincipal: { AWS: "123456789012" }, Principal: undefined })],
    ["all actions but some", one({ NotAction: "s3:PutObject", Action: undefined })],
    ["all resources but some", one({ NotResource: `${bucketArn()}/a`, Resource: undefined })],
    ["a condition", one({ Condition: { IpAddress: { "aws:SourceIp": "10.0.0.0/8" } } })],
    [
      "a denial",
      policy(statement(BOTH, [bucketArn(), objectsArn()]), {
        ...statement("s3:GetObject", objectsArn()),
        Effect: "Deny",
      }),
    ],
    [
      "what is public, and more in another statement",
      policy(statement(BOTH, [bucketArn(), objectsArn()]), statement("s3:DeleteObject", objectsArn())),
    ],
  ])("a policy for %s", async (_, body) => {
    for (const isOn of [false, true]) {
      await branch().settings.change({ public: isOn });
      testContext().openBranches.forget();
      const refused = await failure(s3(`PUT ${BUCKET}?policy`, { body }));
      expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
      expect(refused.Message).toContain("public here includes lists and earlier versions");
      expect(await isPublic()).toBe(isOn);
    }
  });

  const grantee = (type: string, inner: string) => `<Grantee ${XSI} xsi:type="${type}">${inner}</Grantee>`;
  const grant = (who: string, permission: string) =>
    `<Grant>${who}<Permission>${permission}</Permission></Grant>`;
  test.each([
    ["public-read-write", { headers: { "x-amz-acl": "public-read-write" } }],
    ["authenticated-read", { headers: { "x-amz-acl": "authenticated-read" } }],
    ["log-delivery-write", { headers: { "x-amz-acl": "log-delivery-write" } }],
    ["a grant without the owner's", { headers: { "x-amz-grant-read": `uri="${ALL_USERS}"` } }],
    [
      "a grant to write",
      {
        headers: {
          "x-amz-grant-write": `uri="${ALL_USERS}"`,
          "x-amz-grant-full-control": `id="${OWNER_ID}"`,
        },
      },
    ],
    ["a grant by mail", { headers: { "x-amz-grant-read": 'emailAddress="a@example.com"' } }],
    ["a grant to somebody", { headers: { "x-amz-grant-read-acp": 'id="somebody"' } }],
    ["a list without the owner", { body: list(everybodysGrant) }],
    ["an empty list", { body: list() }],
    [
      "a list with somebody else",
      { body: list(ownersGrant, grant(grantee("CanonicalUser", "<ID>somebody</ID>"), "READ")) },
    ],
    [
      "a list for all who sign",
      {
        body: list(
          ownersGrant,
          grant(
            grantee("Group", "<URI>http://acs.amazonaws.com/groups/global/AuthenticatedUsers</URI>"),
            "READ",
          ),
        ),
      },
    ],
    [
      "a list that lets everybody write",
      { body: list(ownersGrant, everybodysGrant.replace("READ", "WRITE")) },
    ],
    [
      "a list by mail",
      {
        body: list(
          ownersGrant,
          grant(grantee("AmazonCustomerByEmail", "<EmailAddress>a@example.com</EmailAddress>"), "READ"),
        ),
      },
    ],
  ])("an ACL: %s", async (_, ask) => {
    const refused = await failure(s3(`PUT ${BUCKET}?acl`, ask));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain("public here includes lists and earlier versions");
    expect(await isPublic()).toBe(false);
  });
});

/** A public policy to who reads the last of two fields of a name, and less to who reads the first. */
const REPEATED = [
  PLAIN.replace('"Statement":', '"Statement":[{"Effect":"Deny","Principal":"*"}],"Statement":'),
  PLAIN.replace('"Effect":', '"Effect":"Deny","Effect":'),
  PLAIN.replace('"Principal":', '"Principal":{"AWS":"123456789012"},"Principal":'),
  PLAIN.replace('"Principal":"*"', '"Principal":{"AWS":"123456789012","AWS":"*"}'),
  PLAIN.replace(
    '"Effect":',
    '"Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}},"Condit\\u0069on" : {},"Effect":',
  ),
];

describe("what is no policy is MalformedPolicy, as on S3:", () => {
  const all = [bucketArn(), objectsArn()];
  test.each([
    ["", "the first byte must be '{'"],
    ["false", "the first byte must be '{'"],
    ["[]", "the first byte must be '{'"],
    ["{true}", "This policy contains invalid Json"],
    ['{"Statement": ', "This policy contains invalid Json"],
    ["{}", "Missing required field Statement"],
    ['{"Statement": []}', "Statement is empty"],
    ['{"Statement": [1]}', "must be an object"],
    ['{"Statement": {}, "Other": 1}', "Unknown field Other"],
    [policy({ ...statement(BOTH, all), Other: 1 }), "Unknown field Other"],
    ['{"Version": "2012-10-18", "Statement": []}', "valid version string"],
    ['{"Version": 2012, "Statement": []}', "valid version string"],
    ['{"Id": 1, "Statement": []}', "Id must be a string"],
    [policy(statement(BOTH, all, { Effect: "allow" })), "Invalid effect: allow"],
    [policy(statement(BOTH, all, { Effect: undefined })), "Missing required field Effect"],
    [policy(statement(BOTH, all, { Principal: undefined })), "Missing required field Principal"],
    [policy(statement(undefined, all)), "Missing required field Action"],
    [policy(statement(BOTH, undefined)), "Missing required field Resource"],
    [policy(statement(BOTH, all, { Sid: 1 })), "Sid must be a string"],
    [policy(statement(BOTH, all, { Condition: "x" })), "Condition must be an object"],
    [policy(statement(BOTH, all, { Principal: "" })), "Invalid principal in policy"],
    [policy(statement(BOTH, all, { Principal: [] })), "Invalid principal in policy"],
    [policy(statement(BOTH, all, { Principal: {} })), "Invalid principal in policy"],
    [policy(statement(BOTH, all, { Principal: { AWS: [] } })), "Invalid principal in policy"],
    [policy(statement(BOTH, all, { Principal: { AWS: ["*", "somebody"] } })), "Invalid principal in policy"],
    [policy(statement(BOTH, all, { Principal: { Other: "*" } })), "Invalid principal in policy"],
    [policy(statement(BOTH, all, { Principal: { CanonicalUser: "*" } })), "Invalid principal in policy"],
    [policy(statement("", all)), "Policy has invalid action"],
    [policy(statement([], all)), "Policy has invalid action"],
    [policy(statement("s3:", all)), "Policy has invalid action"],
    [policy(statement("s4:GetObject", all)), "Policy has invalid action"],
    [policy(statement("s3:Get-Object", all)), "Policy has invalid action"],
    [policy(statement("s3:GetObjec", all)), "Policy has invalid action"],
    [policy(statement("s3:????", all)), "Policy has invalid action"],
    [policy(statement("s3:*Obj??ect*", all)), "Policy has invalid action"],
    [policy(statement(BOTH, "")), "Policy has invalid resource"],
    [policy(statement(BOTH, [])), "Policy has invalid resource"],
    [policy(statement(BOTH, "*")), "Policy has invalid resource"],
    [policy(statement(BOTH, "arn:aws:iam:::x")), "Policy has invalid resource"],
    [policy(statement(BOTH, ["arn:aws:s3:::/x", ...all])), "Policy has invalid resource"],
    [policy(statement(BOTH, [bucketArn("master.other"), ...all])), "Policy has invalid resource"],
    [policy(statement(BOTH, [bucketArn("v1.master.switch"), ...all])), "Policy has invalid resource"],
    [policy(statement(BOTH, [`${bucketArn()}/`, ...all])), "Policy has invalid resource"],
    [policy(statement("s3:GetObject", bucketArn())), "Action does not apply to any resource(s) in statement"],
    [policy(statement(BOTH, objectsArn())), "Action does not apply to any resource(s) in statement"],
    [policy(statement("s3:Abort*", bucketArn())), "Action does not apply to any resource(s) in statement"],
    [
      policy(statement("s3:???BucketVersioning", objectsArn())),
      "Action does not apply to any resource(s) in statement",
    ],
    ...REPEATED.map((body): [string, string] => [body, "comes twice"]),
  ])("%s", async (body, words) => {
    const refused = await failure(s3(`PUT ${BUCKET}?policy`, { body }));
    expect(refused).toMatchObject({ status: 400, Code: "MalformedPolicy" });
    expect(refused.Message).toContain(words);
    expect(await isPublic()).toBe(false);
  });

  test("but a name may come again in another object, or as a text", async () => {
    const again = { Sid: '"Sid": {"Effect": ["Sid"' };
    const body = policy(statement("s3:GetObject", objectsArn(), again), statement(BOTH, all, again));
    expect((await good(`PUT ${BUCKET}?policy`, { body })).status).toBe(204);
  });

  test("and one of more than 20 KiB is not read", async () => {
    const body = policy(statement(BOTH, all, { Sid: "x".repeat(20 * 1024) }));
    expect(await failure(s3(`PUT ${BUCKET}?policy`, { body }))).toMatchObject({
      status: 400,
      Code: "MaxMessageLengthExceeded",
    });
  });

  test("a policy of many stars takes no longer than its length", async () => {
    const star = `s3:${"*a?".repeat(20)}`;
    const body = policy(
      statement(
        Array.from({ length: 250 }, () => star),
        all,
      ),
    );
    expect((await failure(s3(`PUT ${BUCKET}?policy`, { body }))).Code).toBe("MalformedPolicy");
  });
});

describe("an ACL that is none is refused as on S3:", () => {
  test.each([
    ["none at all", {}, "MissingSecurityHeader"],
    ["a canned one that S3 has not", { headers: { "x-amz-acl": "invalid_acl" } }, "InvalidArgument"],
    [
      "a canned one and a grant",
      { headers: { "x-amz-acl": "private", "x-amz-grant-read": 'id="x"' } },
      "InvalidRequest",
    ],
    [
      "a canned one and a list",
      { headers: { "x-amz-acl": "private" }, body: list(ownersGrant) },
      "UnexpectedContent",
    ],
    [
      "a grant and a list",
      { headers: { "x-amz-grant-read": 'id="x"' }, body: list(ownersGrant) },
      "UnexpectedContent",
    ],
    ["a grantee without a kind", { headers: { "x-amz-grant-read": "somebody" } }, "InvalidArgument"],
    ["a list without an owner", { body: list(ownersGrant).replace(owner, "") }, "MalformedACLError"],
    ["an owner without an id", { body: list(ownersGrant).replace(owner, "<Owner/>") }, "MalformedACLError"],
    [
      "another owner",
      { body: list(ownersGrant).replace(owner, "<Owner><ID>other</ID></Owner>") },
      "InvalidArgument",
    ],
    ["no list in it", { body: `<AccessControlPolicy>${owner}</AccessControlPolicy>` }, "MalformedACLError"],
    [
      "an unknown permission",
      { body: list(ownersGrant.replace("FULL_CONTROL", "OTHER")) },
      "MalformedACLError",
    ],
    ["an unknown type", { body: list(ownersGrant.replace("CanonicalUser", "Other")) }, "MalformedACLError"],
    ["no type", { body: list(ownersGrant.replace(/ xsi:type="[^"]*"/, "")) }, "MalformedACLError"],
    [
      "a grantee without a name",
      { body: list(ownersGrant.replace(/<ID>[^<]*<\/ID>/, "")) },
      "MalformedACLError",
    ],
    ["a tag of another name", { body: list("<Other/>") }, "MalformedACLError"],
    ["101 grants", { body: list(...Array.from({ length: 101 }, () => ownersGrant)) }, "MalformedACLError"],
    ["another document", { body: "<Other/>" }, "MalformedXML"],
  ])("%s", async (_, ask, code) => {
    await branch().settings.change({ public: true });
    expect(await failure(s3(`PUT ${BUCKET}?acl`, ask))).toMatchObject({ status: 400, Code: code });
    expect(await branch().settings.read()).toMatchObject({ public: true });
  });
});

describe("the switch needs `admin`", () => {
  test.each([
    [`PUT ${BUCKET}?acl`, { headers: { "x-amz-acl": "public-read" } }],
    [`PUT ${BUCKET}?policy`, { body: PLAIN }],
    [`DELETE ${BUCKET}?policy`, {}],
  ])("%s", async (line, ask) => {
    const key = scopedKey({ level: "write", repos: [REPO] });
    for (const isOn of [false, true]) {
      await branch().settings.change({ public: isOn });
      expect(await failure(s3(line, { ...ask, key }))).toMatchObject({ status: 403, Code: "AccessDenied" });
      expect(await branch().settings.read()).toMatchObject({ public: isOn });
    }
  });

  test("and nobody without a signature sees how it stands", async () => {
    await branch().settings.change({ public: true });
    testContext().openBranches.forget();
    for (const query of [
      "acl",
      "policy",
      "policyStatus",
      "tagging",
      "encryption",
      "versioning",
      "publicAccessBlock",
    ]) {
      expect(await failure(anybody(`GET ${BUCKET}?${query}`)), query).toMatchObject({
        status: 403,
        Code: "AccessDenied",
      });
    }
    expect((await failure(anybody(`GET ${BUCKET}/key?acl`))).Code).toBe("AccessDenied");
  });

  test("and a key of another repo learns nothing of it", async () => {
    const key = scopedKey({ level: "admin", repos: ["elsewhere"] });
    for (const query of ["acl", "policy", "policyStatus"]) {
      expect(await failure(s3(`GET ${BUCKET}?${query}`, { key })), query).toMatchObject({ status: 403 });
    }
  });
});

describe("the buckets of commits and tags are as public as their branch, and that of an open commit never is", () => {
  /** A tag, a commit and an open commit of the branch. */
  async function views(): Promise<{ past: readonly string[]; open: string }> {
    await branch().tags.create({ name: "v1", force: true });
    const commit = (await good(`HEAD ${BUCKET}/key`)).headers.get("x-amz-version-id") ?? "";
    const { bucket: open } = await openAgain(REPO);
    await putAll(open, { staged: "x" });
    return { past: [`/v1.master.${REPO}`, `/${commit}.master.${REPO}`], open };
  }

  test.each([
    [true, "public-read", 200],
    [false, "private", 403],
  ] as const)("as all of them show: %s, %s, %i", async (isOn, acl, status) => {
    const { past, open } = await views();
    await branch().settings.change({ public: isOn });
    testContext().openBranches.forget();
    for (const bucket of past) {
      expect(await shown(bucket)).toBe(acl);
      expect(await aclOf(`${bucket}/key?acl`)).toBe(acl);
      expect((await anybody(`GET ${bucket}/key`)).status).toBe(status);
    }
    expect(await shown(open)).toBe("private");
    expect(await aclOf(`${open}/staged?acl`)).toBe("private");
    expect((await anybody(`GET ${open}/key`)).ok).toBe(false);
  });

  test.each([
    true,
    false,
  ])("and none of them is set to anything, whether that is so (%s) or not", async (isOn) => {
    const { past, open } = await views();
    await branch().settings.change({ public: isOn });
    for (const bucket of [...past, open]) {
      const arns = [bucketArn(bucket.slice(1)), objectsArn(bucket.slice(1))];
      const asks: [string, Ask][] = [
        [`PUT ${bucket}?acl`, { headers: { "x-amz-acl": "private" } }],
        [`PUT ${bucket}?acl`, { headers: { "x-amz-acl": "public-read" } }],
        [`PUT ${bucket}?policy`, { body: policy(statement(BOTH, arns)) }],
        [`DELETE ${bucket}?policy`, {}],
      ];
      if (bucket !== open) asks.push([`PUT ${bucket}/key?acl`, { headers: { "x-amz-acl": "private" } }]);
      for (const [line, ask] of asks) {
        expect(await failure(s3(line, ask)), line).toMatchObject(
          bucket.startsWith("/v1.")
            ? { status: 405, Code: "MethodNotAllowed" }
            : { status: 400, Code: "InvalidRequest" },
        );
      }
    }
    // An object of an open commit is told to be as it is by clients that copy it.
    await good(`PUT ${open}/key?acl`, { headers: { "x-amz-acl": "private" } });
    const wider = { headers: { "x-amz-acl": "public-read" } };
    expect(await failure(s3(`PUT ${open}/key?acl`, wider))).toMatchObject({ Code: "NotImplemented" });
    expect(await branch().settings.read()).toMatchObject({ public: isOn });
  });
});

describe("an object is as public as its branch", () => {
  test("and is shown so, whichever version is asked for", async () => {
    const { "x-amz-version-id": old = "" } = Object.fromEntries((await good(`HEAD ${BUCKET}/key`)).headers);
    await putAll(BUCKET, { key: "newer" });
    for (const isOn of [true, false]) {
      await branch().settings.change({ public: isOn });
      expect(await aclOf(`${BUCKET}/key?acl`)).toBe(isOn ? "public-read" : "private");
      expect(await aclOf(`${BUCKET}/key?acl&versionId=${old}`)).toBe(isOn ? "public-read" : "private");
      const told = await good(`GET ${BUCKET}/key?acl&versionId=${old}`);
      expect(told.headers.get("x-amz-version-id")).toBe(old);
    }
    for (const method of ["GET", "PUT"]) {
      const ask = method === "PUT" ? { headers: { "x-amz-acl": "private" } } : {};
      expect((await failure(s3(`${method} ${BUCKET}/absent?acl`, ask))).Code).toBe("NoSuchKey");
    }
    await putAll(BUCKET, { key: "x" });
  });

  test("so that its ACL can be set to what it is, and to nothing else", async () => {
    const asks = {
      private: [{ headers: { "x-amz-acl": "private" } }, { body: list(ownersGrant) }],
      "public-read": [
        { headers: { "x-amz-acl": "public-read" } },
        { body: list(ownersGrant, everybodysGrant) },
      ],
    };
    for (const is of ["private", "public-read"] as const) {
      await branch().settings.change({ public: is === "public-read" });
      for (const asked of ["private", "public-read"] as const) {
        for (const ask of asks[asked]) {
          const response = await s3(`PUT ${BUCKET}/key?acl`, ask);
          expect(response.status, `${asked} of ${is}`).toBe(asked === is ? 200 : 501);
          if (asked !== is) expect((await failure(response)).Message).toContain("sluice branch public");
        }
      }
      // As for who puts an object with it: that the owner has full control is so anyway.
      const owners = { headers: { "x-amz-acl": "bucket-owner-full-control" } };
      expect((await good(`PUT ${BUCKET}/owners`, { ...owners, body: "x" })).status).toBe(200);
      expect((await good(`PUT ${BUCKET}/owners?acl`, owners)).status).toBe(200);
      const both = await failure(s3(`PUT ${BUCKET}/key?acl`, { ...owners, body: list(ownersGrant) }));
      expect(both.Code).toBe("UnexpectedContent");
      expect(await branch().settings.read()).toMatchObject({ public: is === "public-read" });
      expect(await (await good(`GET ${BUCKET}/key`)).text()).toBe("x");
    }
  });
});
