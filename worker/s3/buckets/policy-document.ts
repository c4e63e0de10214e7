import { type S3Error, s3Error } from "../answer/errors.ts";

/**
 * Policies of a bucket. There is one thing that a policy can do here: make the branch public, or leave it so. So of the
 * language of policies one meaning is taken, in each of its forms: anybody may do s3:GetObject on all objects and
 * s3:ListBucket on the bucket, and beside it s3:GetBucketLocation, which is what a public branch answers without a signature.
 * What is no policy is refused as S3 refuses it; what means something else is refused in words, whether it asks for less or
 * for more (S3 User Guide, "Policies and permissions in Amazon S3"; IAM User Guide, "Grammar of the IAM JSON policy language").
 */

/** The action of each grant of a public branch, and what it is for. */
const PUBLIC_ACTIONS = [
  { action: "s3:GetObject", on: "objects" },
  { action: "s3:ListBucket", on: "bucket" },
  { action: "s3:GetBucketLocation", on: "bucket" },
] as const;
const NEEDED = ["s3:GetObject", "s3:ListBucket"];

const VERSIONS = ["2008-10-17", "2012-10-17"];
const FIELDS = ["Version", "Id", "Statement"];
const STATEMENT_FIELDS = [
  "Sid",
  "Effect",
  "Principal",
  "NotPrincipal",
  "Action",
  "NotAction",
  "Resource",
  "NotResource",
  "Condition",
];
const ARN = "arn:aws:s3:::";

/** The policy of a public branch whose bucket is named so: what `mc anonymous set download` puts, which `mc` reads again. */
export function publicPolicy(bucket: string): string {
  const allow = (action: readonly string[], resource: string) => ({
    Effect: "Allow",
    Principal: { AWS: ["*"] },
    Action: action,
    Resource: [resource],
  });
  return JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      allow(["s3:GetBucketLocation", "s3:ListBucket"], ARN + bucket),
      allow(["s3:GetObject"], `${ARN}${bucket}/*`),
    ],
  });
}

/**
 * Returns if the policy means just that, of the bucket that `isBucket` knows by its name. Throws MalformedPolicy for what is
 * no policy of this bucket, and NotImplemented for one that means something else.
 */
export function checkPublicPolicy(
  text: string,
  { isBucket }: { readonly isBucket: (name: string) => boolean },
): void {
  const statements = statementsOf(text).map((statement) => parseStatement(statement, isBucket));
  const granted = new Set(statements.flatMap(grantsOf));
  const lacks = NEEDED.filter((action) => !granted.has(action));
  if (lacks.length > 0) throw notJustPublic(`the policy does not allow ${lacks.join(" and ")} to everybody`);
}

/** A statement whose parts are well formed. */
interface Statement {
  readonly effect: string;
  readonly isForEverybody: boolean;
  readonly actions: readonly string[];
  readonly resources: readonly Resource[];
  /** The first of its fields that is not taken. */
  readonly beyond: string | undefined;
}

/** `part`: some of the objects, or more than one bucket. */
type Resource = "bucket" | "objects" | "part";

type Fields = Readonly<Record<string, unknown>>;

function statementsOf(text: string): readonly Fields[] {
  if (!text.trimStart().startsWith("{")) {
    throw malformed("Policies must be valid JSON and the first byte must be '{'");
  }
  const document = parseJson(text);
  refuseRepeated(text);
  const policy = isFields(document) ? document : {};
  refuseUnknown(policy, FIELDS);
  const { Version: version, Id: id, Statement: statement } = policy;
  if (version !== undefined && !VERSIONS.some((each) => each === version)) {
    throw malformed("The policy must contain a valid version string");
  }
  if (id !== undefined && typeof id !== "string") throw malformed("Id must be a string");
  if (statement === undefined) throw malformed("Missing required field Statement");
  const statements: readonly unknown[] = Array.isArray(statement) ? statement : [statement];
  if (statements.length === 0) throw malformed("Could not parse the policy: Statement is empty!");
  return statements.map((each) => {
    if (isFields(each)) return each;
    throw malformed("Each Statement must be an object");
  });
}

function parseStatement(fields: Fields, isBucket: (name: string) => boolean): Statement {
  refuseUnknown(fields, STATEMENT_FIELDS);
  const { Sid: sid, Effect: effect, Principal: principal, Condition: condition } = fields;
  if (sid !== undefined && typeof sid !== "string") throw malformed("Sid must be a string");
  if (effect === undefined) throw malformed("Missing required field Effect");
  if (effect !== "Allow" && effect !== "Deny") throw malformed(`Invalid effect: ${nameOf(effect)}`);
  if (condition !== undefined && !isFields(condition)) throw malformed("Condition must be an object");
  const negated = ["NotPrincipal", "NotAction", "NotResource"].find((name) => name in fields);
  const hasCondition = condition !== undefined && Object.keys(condition).length > 0;
  // By IAM's grammar a principal is `*` or a map, whose values alone may be lists.
  const hasList = Array.isArray(principal);
  const statement = {
    effect,
    isForEverybody: "NotPrincipal" in fields ? false : isEverybody(required(fields, "Principal")),
    actions: "NotAction" in fields ? [] : actionsOf(required(fields, "Action")),
    resources: "NotResource" in fields ? [] : resourcesOf(required(fields, "Resource"), isBucket),
    beyond: negated ?? (hasCondition ? "Condition" : hasList ? "a list as its Principal" : undefined),
  };
  const { actions, resources } = statement;
  if (negated === undefined && actions.some((action) => !appliesTo(action, resources))) {
    throw malformed("Action does not apply to any resource(s) in statement");
  }
  return statement;
}

function required(fields: Fields, name: string): unknown {
  if (fields[name] === undefined) throw malformed(`Missing required field ${name}`);
  return fields[name];
}

/** What a statement lets everybody do. Throws NotImplemented if it means anything else. */
function grantsOf({ effect, isForEverybody, actions, resources, beyond }: Statement): readonly string[] {
  if (effect === "Deny") throw notJustPublic("a statement denies something");
  if (beyond !== undefined) throw notJustPublic(`a statement has ${beyond}`);
  if (!isForEverybody) throw notJustPublic("a statement is for some, and not for everybody ('*')");
  if (resources.includes("part")) {
    throw notJustPublic("a Resource is some of the objects, or more than this bucket");
  }
  return actions.map((action) => {
    const known = PUBLIC_ACTIONS.find((each) => each.action.toLowerCase() === action.toLowerCase());
    if (known === undefined) throw notJustPublic(`a statement allows '${action}'`);
    return known.action;
  });
}

/** Throws MalformedPolicy for what can name nobody. */
function isEverybody(principal: unknown): boolean {
  const named: Fields = isFields(principal) ? principal : { AWS: principal };
  const kinds = Object.entries(named);
  if (kinds.length === 0) throw malformed(NO_PRINCIPAL);
  const everybody = kinds.map(([kind, value]) => {
    const names = textsOf(value, NO_PRINCIPAL);
    const isAll = kind === "AWS" && names.every((name) => name === "*");
    if (!isAll && !names.every((name) => isPrincipal(kind, name))) throw malformed(NO_PRINCIPAL);
    return isAll;
  });
  return everybody.every((isAll) => isAll);
}

const NO_PRINCIPAL = "Invalid principal in policy";

/** Whether a name has the form of one that AWS knows: who has it is not asked, since nobody is named here. */
function isPrincipal(kind: string, name: string): boolean {
  switch (kind) {
    case "AWS":
      return /^([0-9]{12}|arn:aws[a-z-]*:(iam|sts)::[0-9]{12}:.+|[A-Z0-9]{16,128})$/.test(name);
    case "CanonicalUser":
      return /^[0-9a-f]{32,64}$/.test(name);
    case "Service":
    case "Federated":
      return name !== "" && name !== "*";
    default:
      return false;
  }
}

/** Longest action that can be one: the longest that S3 has is shorter, also with wildcards. */
const MAX_ACTION_CHARACTERS = 64;

function actionsOf(value: unknown): readonly string[] {
  const actions = textsOf(value, NO_ACTION);
  for (const action of actions) {
    const isForm = action === "*" || /^s3:[A-Za-z*?]+$/i.test(action);
    const isKnown =
      isForm && action.length <= MAX_ACTION_CHARACTERS && appliesTo(action, ["bucket", "objects"]);
    if (!isKnown) throw malformed(NO_ACTION);
  }
  return actions;
}

const NO_ACTION = "Policy has invalid action";

function resourcesOf(value: unknown, isBucket: (name: string) => boolean): readonly Resource[] {
  return textsOf(value, NO_RESOURCE).map((resource) => {
    if (!resource.startsWith(ARN)) throw malformed(NO_RESOURCE);
    const [, name = "", key] = /^([^/]*)(?:\/(.*))?$/s.exec(resource.slice(ARN.length)) ?? [];
    const isOther = !/[*?]/.test(name) && !isBucket(name);
    if (name === "" || key === "" || isOther) throw malformed(NO_RESOURCE);
    if (/[*?]/.test(name)) return "part";
    if (key === undefined) return "bucket";
    return key === "*" ? "objects" : "part";
  });
}

const NO_RESOURCE = "Policy has invalid resource";

/** Whether an action, which may have wildcards, is one of S3's for some of these. A part may be of either kind. */
function appliesTo(action: string, resources: readonly Resource[]): boolean {
  const pattern = action.replace(/^s3:/i, "").toLowerCase();
  const isOf = (names: readonly string[]) => names.some((name) => isMatch(pattern, name.toLowerCase()));
  return (
    (resources.some((resource) => resource !== "objects") && isOf(BUCKET_ACTIONS)) ||
    (resources.some((resource) => resource !== "bucket") && isOf(OBJECT_ACTIONS))
  );
}

/** Whether a name is what a pattern says, in which `*` is any text and `?` any character. Takes no longer than their product. */
function isMatch(pattern: string, name: string): boolean {
  let [at, star, from] = [0, -1, 0];
  for (let seen = 0; seen < name.length; ) {
    const expected = pattern[at];
    if (expected === "*") [star, from, at] = [at, seen, at + 1];
    else if (expected === "?" || expected === name[seen]) [at, seen] = [at + 1, seen + 1];
    else if (star === -1) return false;
    else {
      // What the last star stands for grows by one.
      from += 1;
      [at, seen] = [star + 1, from];
    }
  }
  return /^\**$/.test(pattern.slice(at));
}

function textsOf(value: unknown, fault: string): readonly string[] {
  const texts: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (texts.length === 0) throw malformed(fault);
  return texts.map((text) => {
    if (typeof text === "string" && text !== "") return text;
    throw malformed(fault);
  });
}

function refuseUnknown(fields: Fields, known: readonly string[]): void {
  const unknown = Object.keys(fields).find((name) => !known.includes(name));
  if (unknown !== undefined) throw malformed(`Unknown field ${unknown}`);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function nameOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed("This policy contains invalid Json");
  }
}

/**
 * Throws MalformedPolicy for two fields of one name in one object. JSON.parse takes the last one, and who wrote the first one
 * may have meant that. The text is valid JSON, so that what is in quotes before a colon is a name.
 */
function refuseRepeated(text: string): void {
  const objects: Set<string>[] = [];
  for (const [token, name] of text.matchAll(
    /("[^"\\]*(?:\\.[^"\\]*)*")\s*:|"[^"\\]*(?:\\.[^"\\]*)*"|[{}]/g,
  )) {
    if (token === "{") objects.push(new Set());
    else if (token === "}") objects.pop();
    else if (name !== undefined) {
      const names = objects.at(-1);
      // A name may be written in several ways: `\u0053id` is Sid.
      const read = String(JSON.parse(name));
      if (names?.has(read)) throw malformed(`The field ${read} comes twice in one object`);
      names?.add(read);
    }
  }
}

function malformed(message: string): S3Error {
  return s3Error.MalformedPolicy(message);
}

function notJustPublic(what: string): S3Error {
  return s3Error.NotImplemented(
    `This policy is not implemented: ${what}. ${PUBLIC_OR_NOT} A policy that allows '*' just s3:GetObject on '${ARN}<bucket>/*' and s3:ListBucket on '${ARN}<bucket>', with s3:GetBucketLocation beside it if wanted, makes it public; access keys have their scope for all else.`,
  );
}

/** What there is to be said to who asks for less or more. */
export const PUBLIC_OR_NOT =
  "A branch is public as a whole or not at all, and public here includes lists and earlier versions.";

/**
 * S3's actions on a bucket and on objects (Service Authorization Reference, "Actions, resources, and condition keys for Amazon
 * S3"): a policy with another one is none.
 */
const BUCKET_ACTIONS = [
  "CreateBucket",
  "CreateBucketMetadataTableConfiguration",
  "DeleteBucket",
  "DeleteBucketMetadataTableConfiguration",
  "DeleteBucketPolicy",
  "DeleteBucketWebsite",
  "GetAccelerateConfiguration",
  "GetAnalyticsConfiguration",
  "GetBucketAbac",
  "GetBucketAcl",
  "GetBucketCORS",
  "GetBucketLocation",
  "GetBucketLogging",
  "GetBucketMetadataTableConfiguration",
  "GetBucketNotification",
  "GetBucketObjectLockConfiguration",
  "GetBucketOwnershipControls",
  "GetBucketPolicy",
  "GetBucketPolicyStatus",
  "GetBucketPublicAccessBlock",
  "GetBucketRequestPayment",
  "GetBucketTagging",
  "GetBucketVersioning",
  "GetBucketWebsite",
  "GetEncryptionConfiguration",
  "GetIntelligentTieringConfiguration",
  "GetInventoryConfiguration",
  "GetLifecycleConfiguration",
  "GetMetricsConfiguration",
  "GetReplicationConfiguration",
  "ListBucket",
  "ListBucketMultipartUploads",
  "ListBucketVersions",
  "ListTagsForResource",
  "PauseReplication",
  "PutAccelerateConfiguration",
  "PutAnalyticsConfiguration",
  "PutBucketAbac",
  "PutBucketAcl",
  "PutBucketCORS",
  "PutBucketLogging",
  "PutBucketNotification",
  "PutBucketObjectLockConfiguration",
  "PutBucketOwnershipControls",
  "PutBucketPolicy",
  "PutBucketPublicAccessBlock",
  "PutBucketRequestPayment",
  "PutBucketTagging",
  "PutBucketVersioning",
  "PutBucketWebsite",
  "PutEncryptionConfiguration",
  "PutIntelligentTieringConfiguration",
  "PutInventoryConfiguration",
  "PutLifecycleConfiguration",
  "PutMetricsConfiguration",
  "PutReplicationConfiguration",
  "TagResource",
  "UntagResource",
  "UpdateBucketMetadataAnnotationTableConfiguration",
  "UpdateBucketMetadataInventoryTableConfiguration",
  "UpdateBucketMetadataJournalTableConfiguration",
];
const OBJECT_ACTIONS = [
  "AbortMultipartUpload",
  "BypassGovernanceRetention",
  "DeleteObject",
  "DeleteObjectAnnotation",
  "DeleteObjectTagging",
  "DeleteObjectVersion",
  "DeleteObjectVersionAnnotation",
  "DeleteObjectVersionTagging",
  "GetObject",
  "GetObjectAcl",
  "GetObjectAnnotation",
  "GetObjectAttributes",
  "GetObjectLegalHold",
  "GetObjectRetention",
  "GetObjectTagging",
  "GetObjectTorrent",
  "GetObjectVersion",
  "GetObjectVersionAcl",
  "GetObjectVersionAnnotation",
  "GetObjectVersionAnnotationForReplication",
  "GetObjectVersionAttributes",
  "GetObjectVersionForReplication",
  "GetObjectVersionTagging",
  "GetObjectVersionTorrent",
  "InitiateReplication",
  "ListMultipartUploadParts",
  "ListObjectAnnotations",
  "ListObjectVersionAnnotations",
  "ObjectOwnerOverrideToBucketOwner",
  "PutObject",
  "PutObjectAcl",
  "PutObjectAnnotation",
  "PutObjectLegalHold",
  "PutObjectRetention",
  "PutObjectTagging",
  "PutObjectVersionAcl",
  "PutObjectVersionAnnotation",
  "PutObjectVersionTagging",
  "ReplicateDelete",
  "ReplicateObject",
  "ReplicateObjectAnnotation",
  "ReplicateTags",
  "RestoreObject",
  "UpdateObjectEncryption",
];
