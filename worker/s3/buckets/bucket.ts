import { type BranchAddress, bucketName, parseBucketName, SEPARATOR_FAULT } from "../../../protocol/names.ts";
import { type Place, placeOfRegion, regionFault } from "../../core/places.ts";
import { s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { isoDate, OWNER } from "../answer/fields.ts";
import { parseXml, tagsOf, textIn, xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing, mustTakeWrites } from "../bucket-tree.ts";
import { MAX_BUCKETS, MAX_BUCKETS_SCANNED, MAX_TAGS, MAX_XML_BYTES } from "../limits.ts";
import type { BucketRequest, Operation, ServiceRequest } from "../operation.ts";
import { decodeToken, encodeToken, wholeNumber } from "../request/query-values.ts";

/** What HeadBucket and CreateBucket say of the location, from where newer clients take it: the same of every bucket, wherever it lives. */
export const REGION_HEADER = { "x-amz-bucket-region": "us-east-1" };

/** Makes a branch, and with it its repo, set to what the gateway says of new buckets; a public one if its ACL is to be `public-read`. It never opens a commit. The location that the client names is where the branch is to live, and no bucket's answer says it. */
export const createBucket: Operation<BucketRequest> = {
  permission: "admin",

  async handle(request) {
    const place = readConfiguration(await readTextBody(request, MAX_XML_BYTES));
    if (request.address.view !== undefined) {
      await mustTakeWrites(request);
      // Some tools always make the bucket first, to be sure of it. This code lets them go on.
      throw s3Error.BucketAlreadyOwnedByYou(
        "The bucket is that of an open commit, which is open already: put files into it.",
      );
    }
    const fault = await request.context.catalogue.branches.newNameFault(request.address);
    if (fault !== undefined) {
      throw s3Error.InvalidBucketName(
        `The ${fault} '${request.address[fault]}' can't be made: its name ${SEPARATOR_FAULT}.`,
      );
    }
    const isPublic = request.headers.get("x-amz-acl") === "public-read";
    const branch = request.context.branch(request.address, place);
    const made = await branch.lifecycle.create({
      ...request.context.config.newBuckets,
      public: isPublic,
      place,
    });
    if (isPublic) request.context.openBranches.forget();
    accepted(made);
    const arn = `arn:aws:s3:::${request.bucket}`;
    const headers = { location: `/${request.bucket}`, "x-amz-bucket-arn": arn, ...REGION_HEADER };
    return new Response(null, { headers });
  },
};

/** Where the bucket is to live; null: nowhere in particular. */
function readConfiguration(text: string): Place | null {
  if (text.trim() === "") return null;
  const configuration = tagsOf(parseXml(text, "CreateBucketConfiguration", { tags: MAX_TAGS.create }));
  for (const name of configuration.keys()) {
    if (name !== "LocationConstraint") {
      throw s3Error.NotImplemented(`${name} of CreateBucketConfiguration is not implemented: leave it out.`);
    }
  }
  const region = textIn(configuration, "LocationConstraint") ?? "";
  const place = region === "" ? null : placeOfRegion(region);
  if (place !== undefined) return place;
  throw s3Error.InvalidLocationConstraint(`LocationConstraint ${regionFault(region)}.`);
}

/** Deletes a branch, empty or not, unless it is set to go only when it is empty. S3 deletes empty buckets only. */
export const deleteBucket: Operation<BucketRequest> = {
  permission: "admin",

  async handle(request) {
    const { branch, address, caller } = request;
    if (address.view !== undefined) {
      await mustTakeWrites(request);
      throw s3Error.InvalidRequest(NOT_DELETED);
    }
    accepted(await branch.lifecycle.destroy({ key: caller.keyId }));
    return new Response(null, { status: 204 });
  },
};

const NOT_DELETED =
  "The bucket of an open commit is not deleted like others: publish it with 'sluice commit finish s3://<session>.<branch>.<repo>', or forget it with 'sluice commit abort'.";

/** Whether a branch is there, and in which region clients take it to be. */
export const headBucket: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return new Response(null, { headers: REGION_HEADER });
  },
};

/**
 * The same for every bucket: an empty location is us-east-1, which every client knows, and signatures may name any region. The
 * policy of a public branch allows it to everybody.
 */
export const getBucketLocation: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle({ tree }) {
    await existing(tree);
    return xmlAnswer("LocationConstraint", "");
  },
};

/** Rows of one query to the catalogue. */
const PAGE = 1000;

/**
 * All branches of all repos that the key is for, in order of repo and branch, as many as S3 answers at once. The
 * catalogue has no index by bucket name, so that a prefix is looked for in a bounded number of rows: a page may hold
 * few buckets, or none, and still have a continuation token.
 */
export const listBuckets: Operation<ServiceRequest> = {
  permission: "list",

  async handle({ query, context, caller }) {
    const limit = wholeNumber(query, "max-buckets", { min: 1, most: MAX_BUCKETS });
    const prefix = query.get("prefix");
    const page = await findBuckets(context.catalogue.branches, {
      after: startOf(query),
      repos: caller.scope.repos ?? undefined,
      prefix: prefix ?? "",
      limit,
    });
    return xmlAnswer("ListAllMyBucketsResult", {
      Owner: OWNER,
      Buckets: {
        Bucket: page.buckets.map((row) => ({
          Name: bucketName(row),
          CreationDate: isoDate(row.createdAt),
        })),
      },
      ContinuationToken: page.next && encodeToken(bucketName(page.next)),
      Prefix: prefix,
    });
  },
};

type Branches = ServiceRequest["context"]["catalogue"]["branches"];
type Rows = Awaited<ReturnType<Branches["list"]>>;

interface Wanted {
  readonly after: BranchAddress | undefined;
  readonly repos: readonly string[] | undefined;
  readonly prefix: string;
  readonly limit: number;
}

/** `next`: the branch to go on after; undefined if there are no more. */
async function findBuckets(
  branches: Branches,
  { after, repos, prefix, limit }: Wanted,
): Promise<{ buckets: Rows; next: BranchAddress | undefined }> {
  const buckets: Rows = [];
  let last = after;
  for (let scanned = 0; scanned < MAX_BUCKETS_SCANNED; ) {
    // One more than asked for tells whether there are more.
    const size = prefix === "" ? Math.min(PAGE, limit + 1 - buckets.length) : PAGE;
    const rows = await branches.list({ ...(last && { after: last }), ...(repos && { repos }), limit: size });
    scanned += size;
    for (const row of rows) {
      const matches = bucketName(row).startsWith(prefix);
      if (matches && buckets.length === limit) return { buckets, next: buckets.at(-1) };
      if (matches) buckets.push(row);
      last = row;
    }
    if (rows.length < size) return { buckets, next: undefined };
  }
  return { buckets, next: last };
}

function startOf(query: ReadonlyMap<string, string>): BranchAddress | undefined {
  const token = query.get("continuation-token");
  if (token === undefined) return undefined;
  const start = parseBucketName(decodeToken(token));
  if (start === undefined) {
    throw s3Error.InvalidArgument("continuation-token is none that this gateway gave.");
  }
  return start;
}
