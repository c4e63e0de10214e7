import { xmlAnswer } from "../answer/xml.ts";
import type { BucketRequest, Operation } from "../operation.ts";
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
