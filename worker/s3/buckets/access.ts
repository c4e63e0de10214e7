import { type S3Error, s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { OWNER, OWNER_ID, readVersionHeader } from "../answer/fields.ts";
import { parseXml, TaggedXml, type Tags, tagsOf, type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_POLICY_BYTES, MAX_SETTING_BYTES, MAX_TAGS } from "../limits.ts";
import { readVersion } from "../objects/get-object.ts";
import type { BucketRequest, ObjectRequest, Operation } from "../operation.ts";
import { bucketAt } from "../request/address.ts";
import { versionId } from "../request/query-values.ts";
import { configure } from "./kept-settings.ts";
import { checkPublicPolicy, PUBLIC_OR_NOT, publicPolicy } from "./policy-document.ts";

/*
 * A branch is public or it is not. That is one switch, whichever way it is turned: `sluice branch public`, PutBucketAcl,
 * PutBucketPolicy and DeleteBucketPolicy all turn it, and each shows what another has done.
 */

/** What is said of it on the bucket of an open commit or a commit. */
const ACCESS_OF_BRANCH =
  "A branch is public as a whole: name the bucket '<branch>.<repo>'. Its commits and tags are then public, too, and its open commits never are.";

type Asked = Pick<BucketRequest, "tree" | "branch" | "address">;

/** What everybody may do with a bucket: nobody but keys sees an open commit. Throws NoSuchBucket. */
async function aclOfBucket(asked: Asked): Promise<Acl> {
  const isOpenCommit = await isOfOpenCommit(asked);
  const settings = accepted(await asked.branch.settings.read());
  return settings.public && !isOpenCommit ? "public-read" : "private";
}

/** Whether the bucket is that of an open commit. Throws NoSuchBucket. */
async function isOfOpenCommit({ tree, address }: Pick<Asked, "tree" | "address">): Promise<boolean> {
  return address.view !== undefined && (await existing(tree)).shows === "open-commit";
}

/** Turns the switch, or leaves it as it is. */
async function turn(acl: Acl, request: BucketRequest): Promise<void> {
  await configure(request, { public: acl === "public-read" });
}

/** The canned list that is so: `public-read` of a public branch, also of its commits and tags, else `private`. */
export const getBucketAcl: Operation<BucketRequest> = {
  permission: "list",

  async handle(request) {
    return xmlAnswer("AccessControlPolicy", aclTags(await aclOfBucket(request)));
  },
};

/** Makes the branch public, or ends that, by one of two lists in whatever form. */
export const putBucketAcl: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    await existing(request.tree);
    await turn(readAcl(request.headers, await readTextBody(request, MAX_SETTING_BYTES)), request);
    return new Response(null);
  },
};

/** The one policy that there is, with the bucket as it was asked for; NoSuchBucketPolicy of what is not public. */
export const getBucketPolicy: Operation<BucketRequest> = {
  permission: "list",

  async handle(request) {
    await mustBePublic(request);
    return new Response(publicPolicy(request.bucket), { headers: { "content-type": "application/json" } });
  },
};

/** Whether the policy lets everybody in: the one that there is does. */
export const getBucketPolicyStatus: Operation<BucketRequest> = {
  permission: "list",

  async handle(request) {
    await mustBePublic(request);
    return xmlAnswer("PolicyStatus", { IsPublic: true });
  },
};

async function mustBePublic(request: BucketRequest): Promise<void> {
  if ((await aclOfBucket(request)) === "private") throw s3Error.NoSuchBucketPolicy();
}

/** Makes the branch public by a policy that says just that. */
export const putBucketPolicy: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    await existing(request.tree);
    const { address, by } = request;
    checkPublicPolicy(await readTextBody(request, MAX_POLICY_BYTES), {
      isBucket(name) {
        const named = bucketAt({ level: "bucket", by, bucket: name });
        return named?.repo === address.repo && named.branch === address.branch && named.view === undefined;
      },
    });
    await turn("public-read", request);
    return new Response(null, { status: 204 });
  },
};

/** Ends it that the branch is public, whatever made it so; 204 also if it is not. */
export const deleteBucketPolicy: Operation<BucketRequest> = {
  permission: "admin",
  notOnView: ACCESS_OF_BRANCH,

  async handle(request) {
    await turn("private", request);
    return new Response(null, { status: 204 });
  },
};

/** An object is as public as its bucket. */
export const getObjectAcl: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const tags = aclTags(await aclOfBucket(request));
    return xmlAnswer("AccessControlPolicy", tags, { headers: readVersionHeader(request, file) });
  },
};

/**
 * Taken if the object is so already: it changes nothing. Also in an open commit, since s3cmd sends it after each copy; of a
 * commit and a tag nothing is set.
 */
export const putObjectAcl: Operation<ObjectRequest> = {
  permission: "write",

  async handle(request) {
    if (request.address.view !== undefined && !(await isOfOpenCommit(request))) {
      throw s3Error.InvalidRequest(ACCESS_OF_BRANCH);
    }
    const file = await readVersion(request, versionId(request.query));
    const asked = readObjectAcl(request.headers, await readTextBody(request, MAX_SETTING_BYTES));
    const is = await aclOfBucket(request);
    if (asked !== undefined && asked !== is) {
      throw s3Error.NotImplemented(
        `The ACL '${asked}' of one object is not implemented, because an object is as public as its branch, which is '${is}': 'sluice branch public <branch>.<repo> ${asked === "private" ? "off" : "on"}' or PutBucketAcl changes that for all of it.`,
      );
    }
    return new Response(null, { headers: readVersionHeader(request, file) });
  },
};

/** Undefined for `bucket-owner-full-control`: the one owner has that of every object, public or not. */
function readObjectAcl(headers: ReadonlyMap<string, string>, body: string): Acl | undefined {
  if (headers.get("x-amz-acl") !== "bucket-owner-full-control") return readAcl(headers, body);
  // The ways to ask for it wrongly are those of any list.
  readAcl(new Map([...headers, ["x-amz-acl", "private"]]), body);
  return undefined;
}

/**
 * Access control lists. Two of them can be so here, S3's canned `private` and `public-read`: the owner has full control, and
 * in a public branch everybody may read (S3 User Guide, "Access control list (ACL) overview"). Each may be asked for by its
 * name, by headers that grant, or by a document, in whatever form says just that.
 */
type Acl = "private" | "public-read";

const ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers";
/** S3's other canned ACLs. */
const OTHER_CANNED = [
  "public-read-write",
  "authenticated-read",
  "aws-exec-read",
  "bucket-owner-read",
  "bucket-owner-full-control",
  "log-delivery-write",
];
const PERMISSION_OF_HEADER = {
  "x-amz-grant-full-control": "FULL_CONTROL",
  "x-amz-grant-read": "READ",
  "x-amz-grant-read-acp": "READ_ACP",
  "x-amz-grant-write": "WRITE",
  "x-amz-grant-write-acp": "WRITE_ACP",
} as const;
const PERMISSIONS: readonly string[] = Object.values(PERMISSION_OF_HEADER);
/** Most grants in one list (S3 User Guide, same place). */
const MAX_GRANTS = 100;
const XSI = "http://www.w3.org/2001/XMLSchema-instance";

interface Grant {
  /** As the headers name kinds. */
  readonly kind: "id" | "uri" | "emailAddress";
  readonly grantee: string;
  readonly permission: string;
}

/** The list of a bucket or an object, as S3 shows it. */
function aclTags(acl: Acl): XmlTags {
  const grantee = (type: string, content: XmlTags) =>
    new TaggedXml({ "xmlns:xsi": XSI, "xsi:type": type }, content);
  const owner = { Grantee: grantee("CanonicalUser", { ...OWNER }), Permission: "FULL_CONTROL" };
  const everybody = { Grantee: grantee("Group", { URI: ALL_USERS }), Permission: "READ" };
  return {
    Owner: OWNER,
    AccessControlList: { Grant: acl === "private" ? [owner] : [owner, everybody] },
  };
}

/**
 * The list that a request asks for. Throws S3's codes for one that asks in no way, in two ways at once or in a way that is
 * none, and NotImplemented for a list that can't be so here.
 */
function readAcl(headers: ReadonlyMap<string, string>, body: string): Acl {
  const canned = headers.get("x-amz-acl");
  const granted = grantsInHeaders(headers);
  const hasBody = body.trim() !== "";
  if (hasBody && (canned !== undefined || granted !== undefined)) throw s3Error.UnexpectedContent();
  if (canned !== undefined) {
    if (granted === undefined) return cannedAcl(canned);
    throw s3Error.InvalidRequest("Specifying both Canned ACLs and Header Grants is not allowed.");
  }
  if (granted !== undefined) return aclOf(granted);
  if (hasBody) return aclOf(grantsInDocument(body));
  throw s3Error.MissingSecurityHeader();
}

function cannedAcl(name: string): Acl {
  if (name === "private" || name === "public-read") return name;
  if (OTHER_CANNED.includes(name)) throw notHere(`The ACL '${name}'`);
  throw s3Error.InvalidArgument(
    `x-amz-acl is '${name}', which is none of S3's: here it is 'private' or 'public-read'.`,
  );
}

function aclOf(grants: readonly Grant[]): Acl {
  let [isOwners, isPublic] = [false, false];
  for (const { kind, grantee, permission } of grants) {
    if (kind === "id" && grantee === OWNER_ID && permission === "FULL_CONTROL") isOwners = true;
    else if (kind === "uri" && grantee === ALL_USERS && permission === "READ") isPublic = true;
    else throw notHere(`A grant of ${permission} to '${grantee}'`);
  }
  if (!isOwners) throw notHere(`A list without FULL_CONTROL for the owner, '${OWNER_ID}',`);
  return isPublic ? "public-read" : "private";
}

/** Undefined if no header grants anything. */
function grantsInHeaders(headers: ReadonlyMap<string, string>): readonly Grant[] | undefined {
  const grants: Grant[] = [];
  let isGranting = false;
  for (const [header, permission] of Object.entries(PERMISSION_OF_HEADER)) {
    const value = headers.get(header);
    if (value === undefined) continue;
    isGranting = true;
    for (const part of value.split(",")) grants.push({ ...granteeIn(part, header), permission });
  }
  if (grants.length > MAX_GRANTS) throw malformed(`a list has ${MAX_GRANTS} grants at most`);
  return isGranting ? grants : undefined;
}

/** Such as `uri="http://…"`, with quotes or without. */
function granteeIn(text: string, header: string): Pick<Grant, "kind" | "grantee"> {
  const [, kind, quoted, bare] =
    /^\s*(id|uri|emailAddress)\s*=\s*(?:"([^"]+)"|([^"\s]+))\s*$/.exec(text) ?? [];
  const grantee = quoted ?? bare;
  if ((kind === "id" || kind === "uri" || kind === "emailAddress") && grantee !== undefined) {
    return { kind, grantee };
  }
  throw s3Error.InvalidArgument(
    `${header} holds '${text.trim()}': a grantee is id="…", uri="…" or emailAddress="…".`,
  );
}

const ROOT = "AccessControlPolicy";

function grantsInDocument(text: string): readonly Grant[] {
  const policy = tagsOf(parseXml(text, ROOT, { tags: MAX_TAGS.setting, attributes: true }));
  only(policy, ROOT, ["Owner", "AccessControlList"]);
  const owner = textIn(tagsIn(policy, "Owner"), "ID");
  if (!owner) throw malformed("the Owner needs an ID");
  if (owner !== OWNER_ID) {
    throw s3Error.InvalidArgument(
      `The Owner's ID is '${owner}', but every bucket here belongs to '${OWNER_ID}'.`,
    );
  }
  const list = tagsIn(policy, "AccessControlList");
  only(list, "AccessControlList", ["Grant"], MAX_GRANTS);
  return (list.get("Grant") ?? []).map((grant) => parseGrant(tagsOf(grant)));
}

/** What names the grantee, by the type that S3 gives it. */
const GRANTEE_TYPES: Readonly<Record<string, { readonly kind: Grant["kind"]; readonly tag: string }>> = {
  CanonicalUser: { kind: "id", tag: "ID" },
  Group: { kind: "uri", tag: "URI" },
  AmazonCustomerByEmail: { kind: "emailAddress", tag: "EmailAddress" },
};

function parseGrant(grant: Tags): Grant {
  only(grant, "Grant", ["Grantee", "Permission"]);
  const grantee = tagsIn(grant, "Grantee");
  only(grantee, "Grantee", ["ID", "DisplayName", "URI", "EmailAddress"]);
  const type = textIn(grantee, "@type");
  const named = type === undefined ? undefined : GRANTEE_TYPES[type];
  if (named === undefined) {
    throw malformed(`a Grantee's xsi:type is ${Object.keys(GRANTEE_TYPES).join(", ")}, not '${type ?? ""}'`);
  }
  const name = textIn(grantee, named.tag);
  if (!name) throw malformed(`a Grantee of the type ${type} needs ${named.tag}`);
  const permission = textIn(grant, "Permission") ?? "";
  if (!PERMISSIONS.includes(permission)) {
    throw malformed(`a Permission is ${PERMISSIONS.join(", ")}, not '${permission}'`);
  }
  return { kind: named.kind, grantee: name, permission };
}

function only(tags: Tags, of: string, known: readonly string[], most = 1): void {
  for (const [name, values] of tags) {
    // An attribute, such as a namespace.
    if (name.startsWith("@")) continue;
    if (!known.includes(name)) throw malformed(`${of} holds ${known.join(", ")}, not ${name}`);
    if (values.length > most) throw malformed(`${of} has ${most} ${name} at most`);
  }
}

function tagsIn(tags: Tags, name: string): Tags {
  const [value] = tags.get(name) ?? [];
  if (value === undefined) throw malformed(`${name} is missing`);
  return tagsOf(value);
}

function textIn(tags: Tags, name: string): string | undefined {
  const [value] = tags.get(name) ?? [];
  if (value === undefined || typeof value === "string") return value?.trim();
  throw malformed(`${name} holds text alone`);
}

function malformed(what: string): S3Error {
  return s3Error.MalformedACLError(`The body is not an ${ROOT} of S3's: ${what}.`);
}

function notHere(what: string): S3Error {
  return s3Error.NotImplemented(
    `${what} is not implemented. ${PUBLIC_OR_NOT} Send 'private' or 'public-read', and give access keys their scope.`,
  );
}
