import { type BranchAddress, bucketName, parseBucketName } from "../../../protocol/names.ts";
import { S3Error } from "../answer/errors.ts";
import { isoDate, OWNER } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { MAX_BUCKETS, MAX_BUCKETS_SCANNED } from "../limits.ts";
import type { Operation, ServiceRequest } from "../operation.ts";
import { decodeToken, encodeToken, wholeNumber } from "../request/query-values.ts";

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
    throw new S3Error("InvalidArgument", { message: "continuation-token is none that this gateway gave." });
  }
  return start;
}
