import { xmlAnswer } from "../answer/xml.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { decodeToken, encodeToken } from "../request/query-values.ts";
import { entryTags, listingParameters, listPage } from "./listing.ts";

/** Version 1 of a listing. NextMarker is set without a delimiter, too; S3 leaves it out then. */
export const listObjects: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle(request) {
    const { bucket, query } = request;
    const asked = listingParameters(request);
    const marker = query.get("marker") ?? "";
    const page = await listPage(request, { ...asked, after: marker });
    const { encoding } = asked;
    return xmlAnswer("ListBucketResult", {
      Name: bucket,
      Prefix: encoding.key(asked.prefix),
      Marker: encoding.key(marker),
      NextMarker: page.next === null ? undefined : encoding.key(page.next),
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: encoding.type,
      IsTruncated: page.truncated,
      ...entryTags(page, { encoding, owner: "with-owner" }),
    });
  },
};

/** Version 2 of a listing: the one that today's clients ask for. */
export const listObjectsV2: Operation<BucketRequest> = {
  permission: "list",
  unsigned: true,

  async handle(request) {
    const { bucket, query } = request;
    const asked = listingParameters(request);
    const token = query.get("continuation-token");
    const startAfter = query.get("start-after");
    // An empty token is a first page, as on S3: clients that have none send it empty.
    const after = token ? decodeToken(token) : startAfter;
    const page = await listPage(request, { ...asked, after });
    const { encoding } = asked;
    return xmlAnswer("ListBucketResult", {
      Name: bucket,
      Prefix: encoding.key(asked.prefix),
      StartAfter: startAfter === undefined ? undefined : encoding.key(startAfter),
      ContinuationToken: token,
      NextContinuationToken: page.next === null ? undefined : encodeToken(page.next),
      KeyCount: page.entries.length,
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: encoding.type,
      IsTruncated: page.truncated,
      ...entryTags(page, {
        encoding,
        owner: query.get("fetch-owner") === "true" ? "with-owner" : "without-owner",
      }),
    });
  },
};
