import { beforeAll, describe, expect, test } from "vitest";
import type { Config } from "../../../../worker/env.ts";
import { openAgain } from "../open-commits/support.ts";
import { publicBranch } from "../public/support.ts";
import { answer, failure, good, s3, signed, testContext, xml } from "../support.ts";

const BUCKET = "/master.fixed";
const PUBLIC = "/master.fixed-public";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
  await good(`PUT ${BUCKET}/key`, { body: "x" });
  await publicBranch(PUBLIC, { key: "x" });
});

/** The settings that a bucket of S3 has, and here every bucket has alike: the document of each, or the code for none. */
const SHOWN: readonly (readonly [query: string, root: string, content: object])[] = [
  ["accelerate", "AccelerateConfiguration", {}],
  [
    "encryption",
    "ServerSideEncryptionConfiguration",
    {
      Rule: {
        ApplyServerSideEncryptionByDefault: { SSEAlgorithm: "AES256" },
        BucketKeyEnabled: "false",
      },
    },
  ],
  ["logging", "BucketLoggingStatus", {}],
  ["notification", "NotificationConfiguration", {}],
  ["ownershipControls", "OwnershipControls", { Rule: { ObjectOwnership: "BucketOwnerEnforced" } }],
  ["requestPayment", "RequestPaymentConfiguration", { Payer: "BucketOwner" }],
];
const ABSENT: readonly (readonly [query: string, code: string])[] = [
  ["object-lock", "ObjectLockConfigurationNotFoundError"],
  ["publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"],
  ["replication", "ReplicationConfigurationNotFoundError"],
  ["tagging", "NoSuchTagSet"],
  ["website", "NoSuchWebsiteConfiguration"],
];

async function viewsOf(repo: string): Promise<readonly string[]> {
  const branch = testContext().branch({ repo, branch: "master" });
  await branch.tags.create({ name: "v1", force: true });
  const commit = (await good(`HEAD /master.${repo}/key`)).headers.get("x-amz-version-id") ?? "";
  const { bucket } = await openAgain(repo);
  return [`/v1.master.${repo}`, `/${commit}.master.${repo}`, bucket];
}

describe("a setting that is as it is", () => {
  test.each(SHOWN)("is shown as S3 shows it: ?%s", async (query, root, content) => {
    for (const bucket of [BUCKET, PUBLIC, "/fixed", ...(await viewsOf("fixed"))]) {
      const document = await xml(good(`GET ${bucket}?${query}`));
      expect(document[root], bucket).toEqual(Object.keys(content).length === 0 ? "" : content);
    }
  });

  test.each(ABSENT)("is said not to be configured: ?%s is 404 %s", async (query, code) => {
    for (const bucket of [BUCKET, PUBLIC, "/fixed", ...(await viewsOf("fixed"))]) {
      const said = await failure(s3(`GET ${bucket}?${query}`));
      expect(said, bucket).toMatchObject({ status: 404, Code: code });
    }
  });

  test.each([
    ...SHOWN.map(([query]) => query),
    ...ABSENT.map(([query]) => query),
    "versioning",
  ])("of a bucket that is not there is NoSuchBucket, whatever is asked: ?%s", async (query) => {
    for (const method of ["GET", "PUT", "DELETE"]) {
      const said = await failure(
        s3(`${method} /master.nowhere?${query}`, method === "PUT" ? { body: "" } : {}),
      );
      // Some are neither set nor removed at all.
      if (said.status === 501) continue;
      expect(said, method).toMatchObject({ status: 404, Code: "NoSuchBucket" });
    }
  });
});

const byDefault = (algorithm: string, more = "") =>
  `<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>${algorithm}</SSEAlgorithm>${more}</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>`;
const owned = (ownership: string) =>
  `<OwnershipControls xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><ObjectOwnership>${ownership}</ObjectOwnership></Rule></OwnershipControls>`;
const versions = (inner: string) => `<VersioningConfiguration>${inner}</VersioningConfiguration>`;
const block = (inner: string) => `<PublicAccessBlockConfiguration>${inner}</PublicAccessBlockConfiguration>`;

describe("a document that asks for what is so is taken, and changes nothing", () => {
  test.each([
    ["versioning", versions("<Status>Enabled</Status>")],
    ["versioning", versions("<MfaDelete>Disabled</MfaDelete><Status>Enabled</Status>")],
    ["encryption", byDefault("AES256")],
    [
      "encryption",
      byDefault("AES256").replace("</Rule>", "<BucketKeyEnabled>false</BucketKeyEnabled></Rule>"),
    ],
    ["ownershipControls", owned("BucketOwnerEnforced")],
    [
      "requestPayment",
      "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>",
    ],
    ["notification", "<NotificationConfiguration/>"],
    ["logging", "<BucketLoggingStatus xmlns='http://doc.s3.amazonaws.com/2006-03-01' />"],
    ["accelerate", "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>"],
    ["publicAccessBlock", block("<BlockPublicAcls>false</BlockPublicAcls>")],
    [
      "publicAccessBlock",
      block(
        "<BlockPublicAcls>false</BlockPublicAcls><IgnorePublicAcls>false</IgnorePublicAcls><BlockPublicPolicy>false</BlockPublicPolicy><RestrictPublicBuckets>false</RestrictPublicBuckets>",
      ),
    ],
  ])("?%s: %s", async (query, body) => {
    const settings = () => testContext().branch({ repo: "fixed", branch: "master" }).settings.read();
    const [before, shown] = [await settings(), await (await s3(`GET ${BUCKET}?${query}`)).text()];
    const taken = await good(`PUT ${BUCKET}?${query}`, { body });
    expect([taken.status, await taken.text()]).toEqual([200, ""]);
    expect(await settings()).toEqual(before);
    const again = await (await s3(`GET ${BUCKET}?${query}`)).text();
    expect(again.replace(/<RequestId>.*?</, "")).toBe(shown.replace(/<RequestId>.*?</, ""));
  });

  test.each([
    "encryption",
    "publicAccessBlock",
    "replication",
    "tagging",
    "website",
  ])("to take away what is not configured is 204: ?%s", async (query) => {
    expect((await good(`DELETE ${BUCKET}?${query}`)).status).toBe(204);
  });

  test("and to set no tags is 204, as S3 answers to tags", async () => {
    const set = await good(`PUT ${BUCKET}?tagging`, { body: "<Tagging><TagSet/></Tagging>" });
    expect(set.status).toBe(204);
  });
});

describe("a document that asks for something else is refused with a reason", () => {
  test.each([
    ["versioning", versions("<Status>Suspended</Status>"), "sluice branch keep"],
    ["versioning", versions("<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>"), "MfaDelete"],
    ["encryption", byDefault("aws:kms"), "aws:kms"],
    ["encryption", byDefault("aws:kms:dsse"), "aws:kms:dsse"],
    [
      "encryption",
      byDefault("AES256").replace("</Rule>", "<BucketKeyEnabled>true</BucketKeyEnabled></Rule>"),
      "BucketKeyEnabled",
    ],
    [
      "encryption",
      "<ServerSideEncryptionConfiguration><Rule><BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes></Rule></ServerSideEncryptionConfiguration>",
      "BlockedEncryptionTypes",
    ],
    ["ownershipControls", owned("BucketOwnerPreferred"), "one owner"],
    ["ownershipControls", owned("ObjectWriter"), "one owner"],
    [
      "requestPayment",
      "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>",
      "Requester",
    ],
    [
      "notification",
      "<NotificationConfiguration><QueueConfiguration><Event>s3:ObjectCreated:*</Event></QueueConfiguration><QueueConfiguration/></NotificationConfiguration>",
      "pipeline",
    ],
    [
      "notification",
      "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>",
      "pipeline",
    ],
    ["logging", "<BucketLoggingStatus><LoggingEnabled/></BucketLoggingStatus>", "SLUICE_REQUEST_LOG"],
    ["accelerate", "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>", "one way"],
    ["replication", "<ReplicationConfiguration><Rule/></ReplicationConfiguration>", "sluice sync"],
    [
      "tagging",
      "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag><Tag/></TagSet></Tagging>",
      "PutObjectTagging",
    ],
    ["website", "<WebsiteConfiguration/>", "sluice branch public"],
    ["object-lock", "<ObjectLockConfiguration/>", "sluice branch protect"],
    ["publicAccessBlock", block("<BlockPublicPolicy>true</BlockPublicPolicy>"), "BlockPublicPolicy"],
    ["publicAccessBlock", block("<IgnorePublicAcls>TRUE</IgnorePublicAcls>"), "IgnorePublicAcls"],
  ])("?%s: %s", async (query, body, word) => {
    const refused = await failure(s3(`PUT ${BUCKET}?${query}`, { body }));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain(word);
  });

  test("and the owner of every object can't be taken away", async () => {
    const refused = await failure(s3(`DELETE ${BUCKET}?ownershipControls`));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
  });
});

describe("what is no such document is refused as S3 does", () => {
  test.each([
    ["versioning", "", "MalformedXML"],
    ["versioning", "<Versioning/>", "MalformedXML"],
    ["versioning", versions("<Status>invalid</Status>"), "MalformedXML"],
    ["versioning", versions("<Status>Enabled</Status><Status>Enabled</Status>"), "MalformedXML"],
    ["versioning", versions("<Status><Enabled/></Status>"), "MalformedXML"],
    ["versioning", versions("<Other/>"), "MalformedXML"],
    ["versioning", versions("text"), "MalformedXML"],
    ["versioning", versions(""), "IllegalVersioningConfigurationException"],
    ["versioning", versions("<MfaDelete>Disabled</MfaDelete>"), "IllegalVersioningConfigurationException"],
    ["encryption", "<ServerSideEncryptionConfiguration/>", "MalformedXML"],
    ["encryption", byDefault("AES128"), "MalformedXML"],
    ["encryption", byDefault("AES256", "<KMSMasterKeyID>x</KMSMasterKeyID>"), "InvalidArgument"],
    [
      "encryption",
      "<ServerSideEncryptionConfiguration><Rule/></ServerSideEncryptionConfiguration>",
      "MalformedXML",
    ],
    ["ownershipControls", "<OwnershipControls></OwnershipControls>", "MalformedXML"],
    ["ownershipControls", owned("invalid"), "MalformedXML"],
    ["ownershipControls", owned("ObjectWriter").replace("</Rule>", "</Rule><Rule/>"), "MalformedXML"],
    ["requestPayment", "<RequestPaymentConfiguration/>", "MalformedXML"],
    ["notification", "<NotificationConfiguration><Other/></NotificationConfiguration>", "MalformedXML"],
    ["logging", "<BucketLoggingStatus><Other/></BucketLoggingStatus>", "MalformedXML"],
    ["accelerate", "<AccelerateConfiguration/>", "MalformedXML"],
    ["publicAccessBlock", block("<BlockPublicAcls>maybe</BlockPublicAcls>"), "MalformedXML"],
    ["publicAccessBlock", block("<Other>true</Other>"), "MalformedXML"],
    ["tagging", "<Tagging/>", "MalformedXML"],
    ["tagging", "<Tagging><TagSet><Other/></TagSet></Tagging>", "MalformedXML"],
    ["website", "<Other/>", "MalformedXML"],
    ["replication", "", "MalformedXML"],
    ["object-lock", "<ObjectLock", "MalformedXML"],
    [
      "notification",
      `<NotificationConfiguration>${"<a/>".repeat(16_384)}</NotificationConfiguration>`,
      "MaxMessageLengthExceeded",
    ],
  ])("?%s: %s", async (query, body, code) => {
    expect(await failure(s3(`PUT ${BUCKET}?${query}`, { body }))).toMatchObject({ status: 400, Code: code });
  });
});

describe("the bucket of an open commit, a commit or a tag", () => {
  test("has no versions, and no setting of its own to change", async () => {
    for (const view of await viewsOf("fixed")) {
      expect((await xml(good(`GET ${view}?versioning`))).VersioningConfiguration, view).toBe("");
      const lines: [string, string?][] = [
        [`PUT ${view}?versioning`, versions("<Status>Enabled</Status>")],
        [`PUT ${view}?encryption`, byDefault("AES256")],
        [`DELETE ${view}?tagging`],
      ];
      for (const [line, body] of lines) {
        const refused = await failure(s3(line, body === undefined ? {} : { body }));
        expect(refused, line).toMatchObject(
          view.startsWith("/v1.")
            ? { status: 405, Code: "MethodNotAllowed" }
            : { status: 400, Code: "InvalidRequest" },
        );
      }
    }
  });
});

describe("a gateway of whose disk nobody says that it encrypts", () => {
  const plain: Partial<Config> = { isEncrypted: false };
  const ask = async (line: string, body?: string) =>
    answer(await signed(line, body === undefined ? {} : { body }), { config: plain });

  test("says that no encryption is configured, and can't be asked for it", async () => {
    expect(await failure(ask(`GET ${BUCKET}?encryption`))).toMatchObject({
      status: 404,
      Code: "ServerSideEncryptionConfigurationNotFoundError",
    });
    const refused = await failure(ask(`PUT ${BUCKET}?encryption`, byDefault("AES256")));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain("SLUICE_DISK_ENCRYPTED=on");
    expect((await ask(`DELETE ${BUCKET}?encryption`)).status).toBe(204);
  });
});
