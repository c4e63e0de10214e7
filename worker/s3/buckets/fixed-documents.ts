import { S3Error } from "../answer/errors.ts";
import { malformed, type ParsedXml, parseXml, tagsOf } from "../answer/xml.ts";
import { MAX_TAGS } from "../limits.ts";
import { notEncrypted } from "../request/encryption.ts";

/**
 * Documents that set a bucket to something it can't be set to here. Each function returns if the document asks for what is
 * so anyway. It throws MalformedXML, or another code of S3's, for what is no such document, and NotImplemented, in words, for
 * one that asks for something else. The forms are those of S3's API Reference, of the operation with that name.
 */

/** PutBucketVersioning: versions are on, and no deletion asks for a second factor. */
export function checkVersioning(text: string): void {
  const tags = only(read(text, "VersioningConfiguration"), "VersioningConfiguration", [
    "Status",
    "MfaDelete",
  ]);
  const status = oneOf(tags, "Status", ["Enabled", "Suspended"]);
  const mfa = oneOf(tags, "MfaDelete", ["Enabled", "Disabled"]);
  if (status === undefined) throw new S3Error("IllegalVersioningConfigurationException");
  if (status === "Suspended") {
    throw notImplemented(
      "Suspending versions",
      "every write is a commit. 'sluice branch keep' says how many of them stay",
    );
  }
  if (mfa === "Enabled") throw notImplemented("MfaDelete", "no deletion asks for a second factor");
}

/** PutBucketEncryption: AES256 is so where what is stored lies encrypted, which the gateway as a whole does or does not. */
export function checkEncryption(text: string, { isEncrypted }: { readonly isEncrypted: boolean }): void {
  const root = "ServerSideEncryptionConfiguration";
  const rule = onlyRule(read(text, root), root);
  const tags = only(rule, "Rule", [
    "ApplyServerSideEncryptionByDefault",
    "BucketKeyEnabled",
    "BlockedEncryptionTypes",
  ]);
  if (tags.has("BlockedEncryptionTypes")) {
    throw notImplemented(
      "BlockedEncryptionTypes",
      "keys of KMS and of customers are refused anyway, and AES256 can't be blocked",
    );
  }
  const named = tags.get("ApplyServerSideEncryptionByDefault")?.[0];
  if (named === undefined) throw malformed("a Rule needs ApplyServerSideEncryptionByDefault");
  const byDefault = only(tagsOf(named), "ApplyServerSideEncryptionByDefault", [
    "SSEAlgorithm",
    "KMSMasterKeyID",
  ]);
  const algorithm = oneOf(byDefault, "SSEAlgorithm", ["AES256", "aws:kms", "aws:kms:dsse"]);
  if (algorithm === undefined) throw malformed("ApplyServerSideEncryptionByDefault needs SSEAlgorithm");
  if (algorithm !== "AES256") throw notImplemented(`SSEAlgorithm '${algorithm}'`, "there is no KMS");
  if (byDefault.has("KMSMasterKeyID")) {
    throw new S3Error("InvalidArgument", {
      message: "A KMSMasterKeyID is not applicable if the SSEAlgorithm is AES256: leave it out.",
    });
  }
  if (isTrue(tags, "BucketKeyEnabled")) throw notImplemented("BucketKeyEnabled", "there is no KMS");
  if (!isEncrypted) throw notEncrypted("PutBucketEncryption of AES256");
}

/** PutBucketOwnershipControls: there is one owner, who has every object. */
export function checkOwnership(text: string): void {
  const rule = onlyRule(read(text, "OwnershipControls"), "OwnershipControls");
  const ownership = oneOf(only(rule, "Rule", ["ObjectOwnership"]), "ObjectOwnership", [
    "BucketOwnerEnforced",
    "BucketOwnerPreferred",
    "ObjectWriter",
  ]);
  if (ownership === undefined) throw malformed("a Rule needs ObjectOwnership");
  if (ownership !== "BucketOwnerEnforced") {
    throw notImplemented(
      `ObjectOwnership '${ownership}'`,
      "there is one owner, who has every object, and no object has an ACL of its own",
    );
  }
}

/** PutBucketRequestPayment: nobody else pays. */
export function checkRequestPayment(text: string): void {
  const root = "RequestPaymentConfiguration";
  const payer = oneOf(only(read(text, root), root, ["Payer"]), "Payer", ["BucketOwner", "Requester"]);
  if (payer === undefined) throw malformed(`${root} needs Payer`);
  if (payer === "Requester") throw notImplemented("The payer 'Requester'", "nobody pays for requests");
}

/** PutBucketNotificationConfiguration: nobody is told. */
export function checkNotification(text: string): void {
  const root = "NotificationConfiguration";
  const kinds = ["TopicConfiguration", "QueueConfiguration", "CloudFunctionConfiguration"];
  for (const name of only(read(text, root), root, [...kinds, "EventBridgeConfiguration"], "many").keys()) {
    throw notImplemented(
      `${name} of a NotificationConfiguration`,
      "a pipeline reads a branch and runs on each commit, and 'sluice commit wait' waits for one",
    );
  }
}

/** PutBucketLogging: no bucket gets a log of requests. */
export function checkLogging(text: string): void {
  const root = "BucketLoggingStatus";
  if (only(read(text, root), root, ["LoggingEnabled"]).size === 0) return;
  throw notImplemented(
    "LoggingEnabled",
    "the gateway's own log has a line for each request (SLUICE_REQUEST_LOG)",
  );
}

/** PutBucketAccelerateConfiguration: there is one way to a bucket. */
export function checkAcceleration(text: string): void {
  const root = "AccelerateConfiguration";
  const status = oneOf(only(read(text, root), root, ["Status"]), "Status", ["Enabled", "Suspended"]);
  if (status === undefined) throw malformed(`${root} needs Status`);
  if (status === "Enabled") throw notImplemented("Acceleration", "there is one way to a bucket");
}

/** PutBucketTagging: a bucket has no tags, and a document without any asks for that. */
export function checkTagging(text: string): void {
  const set = only(read(text, "Tagging"), "Tagging", ["TagSet"]).get("TagSet")?.[0];
  if (set === undefined) throw malformed("Tagging needs a TagSet");
  if (only(tagsOf(set), "TagSet", ["Tag"], "many").size === 0) return;
  throw notImplemented("PutBucketTagging", "buckets have no tags; objects do (PutObjectTagging)");
}

/** PutBucketReplication: none is so. */
export function refuseReplication(text: string): void {
  read(text, "ReplicationConfiguration");
  throw notImplemented(
    "PutBucketReplication",
    "'sluice branch create --from' makes a branch of another one, and 'sluice sync' copies to elsewhere",
  );
}

/** PutBucketWebsite: none is so. */
export function refuseWebsite(text: string): void {
  read(text, "WebsiteConfiguration");
  throw notImplemented(
    "PutBucketWebsite",
    "no path has an index or error document. 'sluice branch public' lets everybody read files by their names",
  );
}

/** PutObjectLockConfiguration: none is so. */
export function refuseObjectLock(text: string): void {
  read(text, "ObjectLockConfiguration");
  throw notImplemented(
    "PutObjectLockConfiguration",
    "objects cannot be locked. Every commit that is kept stays readable by its id, and 'sluice branch protect' leaves a branch to one writer",
  );
}

/** PutPublicAccessBlock: nothing keeps whoever has `admin` from making a branch public. */
export function checkPublicAccessBlock(text: string): void {
  const root = "PublicAccessBlockConfiguration";
  const names = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];
  const tags = only(read(text, root), root, names);
  for (const name of names) {
    if (!isTrue(tags, name)) continue;
    throw notImplemented(
      name,
      "whoever has 'admin' may make a branch public: give it to few keys; 'sluice branch inspect' says whether a branch is",
    );
  }
}

function notImplemented(what: string, because: string): S3Error {
  return new S3Error("NotImplemented", { message: `${what} is not implemented: ${because}.` });
}

type Tags = ReadonlyMap<string, readonly ParsedXml[]>;

function read(text: string, root: string): Tags {
  const parsed = parseXml(text, root, { tags: MAX_TAGS.setting });
  if (typeof parsed === "string" && parsed.trim() !== "") throw malformed(`${root} holds tags, not text`);
  return tagsOf(parsed);
}

/** The tags as they are; throws MalformedXML for one that is not known, or comes twice. */
function only(tags: Tags, of: string, known: readonly string[], times: "once" | "many" = "once"): Tags {
  for (const [name, values] of tags) {
    if (!known.includes(name)) throw malformed(`${of} holds ${known.join(", ")}, not ${name}`);
    if (times === "once" && values.length > 1) throw malformed(`${of} has one ${name} at most`);
  }
  return tags;
}

function onlyRule(tags: Tags, root: string): Tags {
  const [rule, ...others] = only(tags, root, ["Rule"], "many").get("Rule") ?? [];
  if (rule === undefined || others.length > 0) throw malformed(`${root} has one Rule`);
  return tagsOf(rule);
}

function oneOf<T extends string>(tags: Tags, name: string, values: readonly T[]): T | undefined {
  const text = textIn(tags, name);
  if (text === undefined) return undefined;
  const value = values.find((each) => each === text);
  if (value === undefined) throw malformed(`${name} is ${values.join(" or ")}, not '${text}'`);
  return value;
}

function isTrue(tags: Tags, name: string): boolean {
  const text = textIn(tags, name)?.toLowerCase();
  if (text === undefined || text === "false") return false;
  if (text === "true") return true;
  throw malformed(`${name} is true or false, not '${text}'`);
}

function textIn(tags: Tags, name: string): string | undefined {
  const value = tags.get(name)?.[0];
  if (value === undefined || typeof value === "string") return value?.trim();
  throw malformed(`${name} holds text alone`);
}
