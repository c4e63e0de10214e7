import { readVersionHeader } from "../answer/version.ts";
import { xmlAnswer } from "../answer/xml.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { versionId } from "../request/query-values.ts";
import { readVersion } from "./select-object.ts";

/** Always an empty set: objects have no tags. aws-cli version 2 asks before it copies a large object, and gives up on a 501. */
export const getObjectTagging: Operation<ObjectRequest> = {
  permission: "read",

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    return xmlAnswer("Tagging", { TagSet: "" }, { headers: readVersionHeader(request, file) });
  },
};
