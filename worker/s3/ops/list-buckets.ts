import { type BranchAddress, bucketName, parseBucketName } from "../../../protocol/names.ts";
import { S3Error } from "../errors.ts";
import { OWNER } from "../filler.ts";
import { MAX_BUCKETS } from "../limits.ts";
import type { Operation, ServiceRequest } from "../operation.ts";
import { decodeToken, encodeToken, wholeNumber } from "../query-values.ts";
import { xmlAnswer } from "../xml.ts";

/** Rows of one query to the catalogue. */
const PAGE = 1000;

/** All branches of all repos (spec §4.1), in order of repo and branch, as many as S3 answers at once. */
export const listBuckets: Operation<ServiceRequest> = {
  permission: "list",
  query: ["max-buckets", "continuation-token"],

  async handle({ query, context }) {
    const limit = wholeNumber(query, "max-buckets", { min: 1, max: MAX_BUCKETS, absent: MAX_BUCKETS });
    const after = startOf(query);
    // One more than asked for, to see whether there is more.
    const rows = await takeRows(context.catalogue.branches, { after, limit: limit + 1 });
    const page = rows.slice(0, limit);
    const last = page.at(-1);
    return xmlAnswer("ListAllMyBucketsResult", {
      Owner: OWNER,
      Buckets: {
        Bucket: page.map((row) => ({
          Name: bucketName(row),
          CreationDate: new Date(row.createdAt).toISOString(),
        })),
      },
      ContinuationToken: last && rows.length > limit ? encodeToken(bucketName(last)) : undefined,
    });
  },
};

type Branches = ServiceRequest["context"]["catalogue"]["branches"];

async function takeRows(
  branches: Branches,
  { after, limit }: { after: BranchAddress | undefined; limit: number },
): ReturnType<Branches["list"]> {
  const rows: Awaited<ReturnType<Branches["list"]>> = [];
  while (rows.length < limit) {
    const from = rows.at(-1) ?? after;
    const wanted = Math.min(PAGE, limit - rows.length);
    const page = await branches.list({ ...(from && { after: from }), limit: wanted });
    rows.push(...page);
    if (page.length < wanted) break;
  }
  return rows;
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
