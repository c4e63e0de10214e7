import type { ObjectTag } from "../../../protocol/object-tags.ts";
import { accepted } from "../answer/failures.ts";
import { readVersionHeader } from "../answer/fields.ts";
import { xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import { MAX_TAGGING_BYTES } from "../limits.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { readAnnotation } from "../request/annotation.ts";
import { versionId } from "../request/query-values.ts";
import { readVersion } from "./get-object.ts";
import { parseTagging } from "./tag-set.ts";

/** The tags of an object, as they are or as a commit has them. */
export const getObjectTagging: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const headers = readVersionHeader(request, file);
    const tags = (file.attributes.tags ?? []).map(([Key, Value]) => ({ Key, Value }));
    return xmlAnswer("Tagging", { TagSet: { Tag: tags } }, { headers });
  },
};

/** Replaces the tags of an object: one commit with the same bytes, or none if it has them. Tags of the past never change. */
export const putObjectTagging: Operation<ObjectRequest> = {
  permission: "write",

  async handle(request) {
    const tags = parseTagging(await readTextBody(request, MAX_TAGGING_BYTES));
    return new Response(null, { headers: await setTags(request, tags) });
  },
};

/** Gives the object at the request's key these tags. Returns the headers of the answer. */
async function setTags(request: ObjectRequest, tags: readonly ObjectTag[]): Promise<Record<string, string>> {
  const { tree, key, query, context } = request;
  const version = versionId(query);
  const annotation = readAnnotation(request);
  await context.blobs.admit?.();
  const done = accepted(
    await tree.setTags({ path: key, tags, annotation, ...(version !== undefined && { version }) }),
  );
  return done.version === null ? {} : { "x-amz-version-id": done.version };
}

/** Takes all tags of an object away: a write like that of others, and no deletion. */
export const deleteObjectTagging: Operation<ObjectRequest> = {
  permission: "write",

  async handle(request) {
    return new Response(null, { status: 204, headers: await setTags(request, []) });
  },
};
