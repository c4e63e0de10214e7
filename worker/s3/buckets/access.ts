import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { readVersionHeader } from "../answer/version.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_POLICY_BYTES, MAX_SETTING_BYTES } from "../limits.ts";
import { readVersion } from "../objects/select-object.ts";
import type { BucketRequest, ObjectRequest, Operation } from "../operation.ts";
import { bucketAt } from "../request/address.ts";
import { versionId } from "../request/query-values.ts";
import { type Acl, aclTags, readAcl } from "./acl-document.ts";
import { configure } from "./kept-settings.ts";
import { checkPublicPolicy, publicPolicy } from "./policy-document.ts";

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
  if ((await aclOfBucket(request)) === "private") throw new S3Error("NoSuchBucketPolicy");
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
      throw new S3Error("InvalidRequest", { message: ACCESS_OF_BRANCH });
    }
    const file = await readVersion(request, versionId(request.query));
    const asked = readObjectAcl(request.headers, await readTextBody(request, MAX_SETTING_BYTES));
    const is = await aclOfBucket(request);
    if (asked !== undefined && asked !== is) {
      throw new S3Error("NotImplemented", {
        message: `The ACL '${asked}' of one object is not implemented, because an object is as public as its branch, which is '${is}': 'sluice branch public <branch>.<repo> ${asked === "private" ? "off" : "on"}' or PutBucketAcl changes that for all of it.`,
      });
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
