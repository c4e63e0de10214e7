import { S3Error } from "../answer/errors.ts";
import { OWNER, OWNER_ID } from "../answer/fields.ts";
import { parseXml, TaggedXml, type Tags, tagsOf, type XmlTags } from "../answer/xml.ts";
import { MAX_TAGS } from "../limits.ts";
import { PUBLIC_OR_NOT } from "./policy-document.ts";

/**
 * Access control lists. Two of them can be so here, S3's canned `private` and `public-read`: the owner has full control, and
 * in a public branch everybody may read (S3 User Guide, "Access control list (ACL) overview"). Each may be asked for by its
 * name, by headers that grant, or by a document, in whatever form says just that.
 */
export type Acl = "private" | "public-read";

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
export function aclTags(acl: Acl): XmlTags {
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
export function readAcl(headers: ReadonlyMap<string, string>, body: string): Acl {
  const canned = headers.get("x-amz-acl");
  const granted = grantsInHeaders(headers);
  const hasBody = body.trim() !== "";
  if (hasBody && (canned !== undefined || granted !== undefined)) throw new S3Error("UnexpectedContent");
  if (canned !== undefined) {
    if (granted === undefined) return cannedAcl(canned);
    throw new S3Error("InvalidRequest", {
      message: "Specifying both Canned ACLs and Header Grants is not allowed.",
    });
  }
  if (granted !== undefined) return aclOf(granted);
  if (hasBody) return aclOf(grantsInDocument(body));
  throw new S3Error("MissingSecurityHeader");
}

function cannedAcl(name: string): Acl {
  if (name === "private" || name === "public-read") return name;
  if (OTHER_CANNED.includes(name)) throw notHere(`The ACL '${name}'`);
  throw new S3Error("InvalidArgument", {
    message: `x-amz-acl is '${name}', which is none of S3's: here it is 'private' or 'public-read'.`,
  });
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
  throw new S3Error("InvalidArgument", {
    message: `${header} holds '${text.trim()}': a grantee is id="…", uri="…" or emailAddress="…".`,
  });
}

const ROOT = "AccessControlPolicy";

function grantsInDocument(text: string): readonly Grant[] {
  const policy = tagsOf(parseXml(text, ROOT, { tags: MAX_TAGS.setting, attributes: true }));
  only(policy, ROOT, ["Owner", "AccessControlList"]);
  const owner = textIn(tagsIn(policy, "Owner"), "ID");
  if (!owner) throw malformed("the Owner needs an ID");
  if (owner !== OWNER_ID) {
    throw new S3Error("InvalidArgument", {
      message: `The Owner's ID is '${owner}', but every bucket here belongs to '${OWNER_ID}'.`,
    });
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
  return new S3Error("MalformedACLError", {
    message: `The body is not an ${ROOT} of S3's: ${what}.`,
  });
}

function notHere(what: string): S3Error {
  return new S3Error("NotImplemented", {
    message: `${what} is not implemented. ${PUBLIC_OR_NOT} Send 'private' or 'public-read', and give access keys their scope.`,
  });
}
