import { entryTags, keyEncoder, LISTING_QUERY, listingParameters, listPage } from "../listing.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { xmlAnswer } from "../xml.ts";

/** Version 1 of a listing. NextMarker is set without a delimiter, too, where S3 leaves it out. */
export const listObjects: Operation<BucketRequest> = {
  permission: "list",
  query: [...LISTING_QUERY, "marker"],

  async handle({ branch, bucket, query }) {
    const asked = listingParameters(query);
    const marker = query.get("marker") ?? "";
    const page = await listPage(branch, { ...asked, after: marker });
    const encode = keyEncoder(asked);
    return xmlAnswer("ListBucketResult", {
      Name: bucket,
      Prefix: encode(asked.prefix),
      Marker: encode(marker),
      NextMarker: page.next === null ? undefined : encode(page.next),
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: asked.encodingType,
      IsTruncated: page.truncated,
      ...entryTags(page, { encode, owner: "with-owner" }),
    });
  },
};
