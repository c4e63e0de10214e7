import { S3Error } from "../answer/errors.ts";
import { malformed, onlyTags, parseXml, tagsOf } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { existing } from "../bucket-tree.ts";
import { MAX_SETTING_BYTES, MAX_TAGS } from "../limits.ts";
import { readVersion } from "../objects/select-object.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { versionId } from "../request/query-values.ts";

/**
 * No bucket has an object lock. Of the lock of an object S3 then says, to all who ask or want to set it, that the bucket lacks
 * it (S3 API Reference, GetObjectRetention, PutObjectLegalHold and their likes).
 */
function noLock(): S3Error {
  return new S3Error("InvalidRequest", {
    message:
      "Bucket is missing Object Lock Configuration: objects cannot be locked here, and every commit that is kept stays readable by its id.",
  });
}

const lockAsked: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    await readVersion(request, versionId(request.query));
    throw noLock();
  },
};

/** The document is looked at first, as on S3. */
function lockWanted(root: string, tags: readonly string[]): Operation<ObjectRequest> {
  return {
    permission: "write",
    ofWrites: true,

    async handle(request) {
      await existing(request.tree);
      versionId(request.query);
      const text = await readTextBody(request, MAX_SETTING_BYTES);
      const found = tagsOf(parseXml(text, root, { tags: MAX_TAGS.setting }));
      onlyTags(found, root, { known: tags, many: tags });
      checkValue(found.get("Status"), ["ON", "OFF"]);
      checkValue(found.get("Mode"), ["GOVERNANCE", "COMPLIANCE"]);
      throw noLock();
    },
  };
}

function checkValue(found: readonly unknown[] | undefined, values: readonly string[]): void {
  if (found === undefined) return;
  const [value, ...others] = found;
  if (others.length === 0 && values.some((each) => each === value)) return;
  throw malformed(`it holds ${values.join(" or ")}`);
}

export const OBJECT_LOCKS = {
  GetObjectLegalHold: lockAsked,
  GetObjectRetention: lockAsked,
  PutObjectLegalHold: lockWanted("LegalHold", ["Status"]),
  PutObjectRetention: lockWanted("Retention", ["Mode", "RetainUntilDate"]),
} satisfies Record<string, Operation<ObjectRequest>>;
