import { readVersionHeader } from "../../answer/version.ts";
import { xmlAnswer } from "../../answer/xml.ts";
import type { ObjectRequest, Operation } from "../../operation.ts";
import { versionId } from "../../request/query-values.ts";
import { readVersion } from "../select-object.ts";
import { taggingTags } from "../tag-set.ts";

/** The tags of an object, as they are or as a commit has them. */
export const getObjectTagging: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const headers = readVersionHeader(request, file);
    return xmlAnswer("Tagging", taggingTags(file.attributes.tags ?? []), { headers });
  },
};
