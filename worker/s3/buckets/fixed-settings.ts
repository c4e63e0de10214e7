import { type S3Code, S3Error, s3Error } from "../answer/errors.ts";
import {
  type KnownTags,
  malformed,
  onlyTags,
  parseTags,
  parseXml,
  type Tags,
  tagsOf,
  textIn,
  type XmlTags,
  xmlAnswer,
} from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_SETTING_BYTES, MAX_TAGS } from "../limits.ts";
import { readVersion } from "../objects/get-object.ts";
import type { BucketRequest, ObjectRequest, Operation } from "../operation.ts";
import { ENCRYPTION_BY_STORE, notEncrypted } from "../request/encryption.ts";
import { versionId } from "../request/query-values.ts";

/**
 * S3's settings of a bucket that are as they are here, for every bucket. Tools read them before they do anything, and many
 * set them to what is so already. A read tells what is so, by S3's document, or by S3's code that nothing is configured. A
 * write that asks for what is so is answered as S3 does, and changes nothing; one that asks for something else is refused, in
 * words. The buckets of open commits, commits and tags are read alike, and are set to nothing.
 */
const SETTINGS_OF_BRANCH =
  "Settings are those of the whole branch: name the bucket '<branch>.<repo>'. A bucket of an open commit, a commit or a tag has none of its own.";

/** Tells what is so of every bucket. */
function shown(root: string, tagsFor: (request: BucketRequest) => XmlTags): Operation<BucketRequest> {
  return {
    permission: "list",

    async handle(request) {
      await existing(request.tree);
      return xmlAnswer(root, tagsFor(request));
    },
  };
}

/** Says by S3's code that nothing is configured. */
function absent(code: S3Code): Operation<BucketRequest> {
  return {
    permission: "list",

    async handle({ tree }) {
      await existing(tree);
      throw new S3Error(code);
    },
  };
}

/** A document that sets a bucket to something; its form is that of S3's API Reference. */
interface Setting extends KnownTags {
  readonly root: string;
  /** Throws NotImplemented, in words, for one that asks for what is not so, and S3's codes for one that lacks something. */
  readonly check: (tags: Tags, config: BucketRequest["context"]["config"]) => void;
  /** Of the good answer. Absent: 200. */
  readonly status?: number;
}

/** Takes a document that asks for what is so. */
function setAlready({ root, check, status = 200, ...known }: Setting): Operation<BucketRequest> {
  return {
    permission: "admin",
    notOnView: SETTINGS_OF_BRANCH,

    async handle(request) {
      await existing(request.tree);
      const text = await readTextBody(request, MAX_SETTING_BYTES);
      const tags = parseTags(text, root, { tags: MAX_TAGS.setting });
      check(onlyTags(tags, root, known), request.context.config);
      return new Response(null, { status });
    },
  };
}

/** Refuses whatever the document says. */
function neverSet(
  name: string,
  { root, because }: { root: string; because: string },
): Operation<BucketRequest> {
  const check = () => {
    throw notImplemented(name, because);
  };
  return setAlready({ root, known: [], other: check, check });
}

function notImplemented(what: string, because: string): S3Error {
  return s3Error.NotImplemented(`${what} is not implemented: ${because}.`);
}

/** What the one Rule of a document holds. */
function ruleIn(tags: Tags, { root, known }: { root: string; known: readonly string[] }): Tags {
  const [rule, ...others] = tags.get("Rule") ?? [];
  if (rule === undefined || others.length > 0) throw malformed(`${root} has one Rule`);
  return onlyTags(tagsOf(rule), "Rule", { known });
}

/** One of these values; undefined if there is none. */
function oneOf<T extends string>(tags: Tags, name: string, values: readonly T[]): T | undefined {
  const text = textIn(tags, name)?.trim();
  if (text === undefined) return undefined;
  const value = values.find((each) => each === text);
  if (value === undefined) throw malformed(`${name} is ${values.join(" or ")}, not '${text}'`);
  return value;
}

/** The same, of what must be there. */
function needed<T extends string>(
  tags: Tags,
  name: string,
  { of, values }: { of: string; values: readonly T[] },
): T {
  const value = oneOf(tags, name, values);
  if (value === undefined) throw malformed(`${of} needs ${name}`);
  return value;
}

function isTrue(tags: Tags, name: string): boolean {
  const text = textIn(tags, name)?.trim().toLowerCase();
  if (text === undefined || text === "false") return false;
  if (text === "true") return true;
  throw malformed(`${name} is true or false, not '${text}'`);
}

/** 204, since nothing is configured that could be taken away. */
const absentAlready: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: SETTINGS_OF_BRANCH,

  async handle({ tree }) {
    await existing(tree);
    return new Response(null, { status: 204 });
  },
};

/** The bucket's owner has every object, which is no rule that could be taken away. */
const ownershipStays: Operation<BucketRequest> = {
  ...absentAlready,

  async handle({ tree }) {
    await existing(tree);
    throw s3Error.NotImplemented(
      "DeleteBucketOwnershipControls is not implemented: the bucket's owner has every object, which can't be ended.",
    );
  },
};

/** Of a gateway of whose disk nobody says that it encrypts, no encryption is configured. */
const encryptionShown: Operation<BucketRequest> = {
  permission: "list",

  async handle({ tree, context }) {
    await existing(tree);
    if (!context.config.isEncrypted) throw s3Error.ServerSideEncryptionConfigurationNotFoundError();
    return xmlAnswer("ServerSideEncryptionConfiguration", {
      Rule: {
        ApplyServerSideEncryptionByDefault: { SSEAlgorithm: ENCRYPTION_BY_STORE },
        BucketKeyEnabled: false,
      },
    });
  },
};

const NOTIFICATIONS = ["TopicConfiguration", "QueueConfiguration", "CloudFunctionConfiguration"];
const BLOCKS = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];

export const FIXED_SETTINGS = {
  DeleteBucketEncryption: absentAlready,
  DeleteBucketOwnershipControls: ownershipStays,
  DeleteBucketReplication: absentAlready,
  DeleteBucketTagging: absentAlready,
  DeleteBucketWebsite: absentAlready,
  DeletePublicAccessBlock: absentAlready,
  GetBucketAccelerateConfiguration: shown("AccelerateConfiguration", () => ({})),
  GetBucketEncryption: encryptionShown,
  GetBucketLogging: shown("BucketLoggingStatus", () => ({})),
  GetBucketNotificationConfiguration: shown("NotificationConfiguration", () => ({})),
  GetBucketOwnershipControls: shown("OwnershipControls", () => ({
    Rule: { ObjectOwnership: "BucketOwnerEnforced" },
  })),
  GetBucketReplication: absent("ReplicationConfigurationNotFoundError"),
  GetBucketRequestPayment: shown("RequestPaymentConfiguration", () => ({ Payer: "BucketOwner" })),
  GetBucketTagging: absent("NoSuchTagSet"),
  /** On: every commit stays readable by its id. Of a view of the branch there are no versions. */
  GetBucketVersioning: shown("VersioningConfiguration", ({ address }) =>
    address.view === undefined ? { Status: "Enabled" } : {},
  ),
  GetBucketWebsite: absent("NoSuchWebsiteConfiguration"),
  GetObjectLockConfiguration: absent("ObjectLockConfigurationNotFoundError"),
  GetPublicAccessBlock: absent("NoSuchPublicAccessBlockConfiguration"),
  /** There is one way to a bucket. */
  PutBucketAccelerateConfiguration: setAlready({
    root: "AccelerateConfiguration",
    known: ["Status"],
    check(tags) {
      const values = ["Enabled", "Suspended"] as const;
      if (needed(tags, "Status", { of: "AccelerateConfiguration", values }) === "Enabled") {
        throw notImplemented("Acceleration", "there is one way to a bucket");
      }
    },
  }),
  /** AES256 is so where what is stored lies encrypted, which the gateway as a whole does or does not. */
  PutBucketEncryption: setAlready({
    root: "ServerSideEncryptionConfiguration",
    known: ["Rule"],
    many: ["Rule"],
    check(tags, { isEncrypted }) {
      const rule = ruleIn(tags, {
        root: "ServerSideEncryptionConfiguration",
        known: ["ApplyServerSideEncryptionByDefault", "BucketKeyEnabled", "BlockedEncryptionTypes"],
      });
      if (rule.has("BlockedEncryptionTypes")) {
        throw notImplemented(
          "BlockedEncryptionTypes",
          "keys of KMS and of customers are refused anyway, and AES256 can't be blocked",
        );
      }
      const named = rule.get("ApplyServerSideEncryptionByDefault")?.[0];
      if (named === undefined) throw malformed("a Rule needs ApplyServerSideEncryptionByDefault");
      const of = "ApplyServerSideEncryptionByDefault";
      const byDefault = onlyTags(tagsOf(named), of, { known: ["SSEAlgorithm", "KMSMasterKeyID"] });
      const values = ["AES256", "aws:kms", "aws:kms:dsse"] as const;
      const algorithm = needed(byDefault, "SSEAlgorithm", { of, values });
      if (algorithm !== "AES256") throw notImplemented(`SSEAlgorithm '${algorithm}'`, "there is no KMS");
      if (byDefault.has("KMSMasterKeyID")) {
        throw s3Error.InvalidArgument(
          "A KMSMasterKeyID is not applicable if the SSEAlgorithm is AES256: leave it out.",
        );
      }
      if (isTrue(rule, "BucketKeyEnabled")) throw notImplemented("BucketKeyEnabled", "there is no KMS");
      if (!isEncrypted) throw notEncrypted("PutBucketEncryption of AES256");
    },
  }),
  /** No bucket gets a log of requests. */
  PutBucketLogging: setAlready({
    root: "BucketLoggingStatus",
    known: ["LoggingEnabled"],
    check(tags) {
      if (tags.size === 0) return;
      throw notImplemented(
        "LoggingEnabled",
        "the gateway's own log has a line for each request (SLUICE_REQUEST_LOG)",
      );
    },
  }),
  /** Nobody is told. */
  PutBucketNotificationConfiguration: setAlready({
    root: "NotificationConfiguration",
    known: [...NOTIFICATIONS, "EventBridgeConfiguration"],
    many: [...NOTIFICATIONS, "EventBridgeConfiguration"],
    check(tags) {
      const [name] = tags.keys();
      if (name === undefined) return;
      throw notImplemented(
        `${name} of a NotificationConfiguration`,
        "a pipeline reads a branch and runs on each commit, and 'sluice commit wait' waits for one",
      );
    },
  }),
  /** There is one owner, who has every object. */
  PutBucketOwnershipControls: setAlready({
    root: "OwnershipControls",
    known: ["Rule"],
    many: ["Rule"],
    check(tags) {
      const rule = ruleIn(tags, { root: "OwnershipControls", known: ["ObjectOwnership"] });
      const values = ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"] as const;
      const ownership = needed(rule, "ObjectOwnership", { of: "a Rule", values });
      if (ownership === "BucketOwnerEnforced") return;
      throw notImplemented(
        `ObjectOwnership '${ownership}'`,
        "there is one owner, who has every object, and no object has an ACL of its own",
      );
    },
  }),
  PutBucketReplication: neverSet("PutBucketReplication", {
    root: "ReplicationConfiguration",
    because:
      "'sluice branch create --from' makes a branch of another one, and 'sluice sync' copies to elsewhere",
  }),
  /** Nobody else pays. */
  PutBucketRequestPayment: setAlready({
    root: "RequestPaymentConfiguration",
    known: ["Payer"],
    check(tags) {
      const values = ["BucketOwner", "Requester"] as const;
      if (needed(tags, "Payer", { of: "RequestPaymentConfiguration", values }) === "Requester") {
        throw notImplemented("The payer 'Requester'", "nobody pays for requests");
      }
    },
  }),
  /** A bucket has no tags, and a document without any asks for that. */
  PutBucketTagging: setAlready({
    root: "Tagging",
    known: ["TagSet"],
    status: 204,
    check(tags) {
      const set = tags.get("TagSet")?.[0];
      if (set === undefined) throw malformed("Tagging needs a TagSet");
      if (onlyTags(tagsOf(set), "TagSet", { known: ["Tag"], many: ["Tag"] }).size === 0) return;
      throw notImplemented("PutBucketTagging", "buckets have no tags; objects do (PutObjectTagging)");
    },
  }),
  /** Versions are on, and no deletion asks for a second factor. */
  PutBucketVersioning: setAlready({
    root: "VersioningConfiguration",
    known: ["Status", "MfaDelete"],
    check(tags) {
      const status = oneOf(tags, "Status", ["Enabled", "Suspended"]);
      const mfa = oneOf(tags, "MfaDelete", ["Enabled", "Disabled"]);
      if (status === undefined) throw s3Error.IllegalVersioningConfigurationException();
      if (status === "Suspended") {
        throw notImplemented(
          "Suspending versions",
          "every write is a commit. 'sluice branch keep' says how many of them stay",
        );
      }
      if (mfa === "Enabled") throw notImplemented("MfaDelete", "no deletion asks for a second factor");
    },
  }),
  PutBucketWebsite: neverSet("PutBucketWebsite", {
    root: "WebsiteConfiguration",
    because:
      "no path has an index or error document. 'sluice branch public' lets everybody read files by their names",
  }),
  PutObjectLockConfiguration: neverSet("PutObjectLockConfiguration", {
    root: "ObjectLockConfiguration",
    because:
      "objects cannot be locked. Every commit that is kept stays readable by its id, and 'sluice branch protect' leaves a branch to one writer",
  }),
  /** Nothing keeps whoever has `admin` from making a branch public. */
  PutPublicAccessBlock: setAlready({
    root: "PublicAccessBlockConfiguration",
    known: BLOCKS,
    check(tags) {
      const blocked = BLOCKS.find((name) => isTrue(tags, name));
      if (blocked === undefined) return;
      throw notImplemented(
        blocked,
        "whoever has 'admin' may make a branch public: give it to few keys; 'sluice branch inspect' says whether a branch is",
      );
    },
  }),
} satisfies Record<string, Operation<BucketRequest>>;

/**
 * No bucket has an object lock. Of the lock of an object S3 then says, to all who ask or want to set it, that the bucket lacks
 * it (S3 API Reference, GetObjectRetention, PutObjectLegalHold and their likes).
 */
function noLock(): S3Error {
  return s3Error.InvalidRequest(
    "Bucket is missing Object Lock Configuration: objects cannot be locked here, and every commit that is kept stays readable by its id.",
  );
}

const lockAsked: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    await readVersion(request, versionId(request.query));
    throw noLock();
  },
};

/** The document is looked at first, as on S3. */
function lockWanted(root: string, tags: readonly string[]): Operation<ObjectRequest> {
  return {
    permission: "write",
    ofWrites: true,

    async handle(request) {
      await existing(request.tree);
      versionId(request.query);
      const text = await readTextBody(request, MAX_SETTING_BYTES);
      const found = tagsOf(parseXml(text, root, { tags: MAX_TAGS.setting }));
      onlyTags(found, root, { known: tags, many: tags });
      checkValue(found.get("Status"), ["ON", "OFF"]);
      checkValue(found.get("Mode"), ["GOVERNANCE", "COMPLIANCE"]);
      throw noLock();
    },
  };
}

function checkValue(found: readonly unknown[] | undefined, values: readonly string[]): void {
  if (found === undefined) return;
  const [value, ...others] = found;
  if (others.length === 0 && values.some((each) => each === value)) return;
  throw malformed(`it holds ${values.join(" or ")}`);
}

export const OBJECT_LOCKS = {
  GetObjectLegalHold: lockAsked,
  GetObjectRetention: lockAsked,
  PutObjectLegalHold: lockWanted("LegalHold", ["Status"]),
  PutObjectRetention: lockWanted("Retention", ["Mode", "RetainUntilDate"]),
} satisfies Record<string, Operation<ObjectRequest>>;
