import type { ObjectRequest, Operation } from "../operation.ts";
import { readVersion, versionId } from "../select-object.ts";
import { xmlAnswer } from "../xml.ts";

/** Always none: objects have no tags. aws-cli version 2 asks before it copies a large object, and gives up on a 501. */
export const getObjectTagging: Operation<ObjectRequest> = {
  permission: "read",
  query: ["tagging", "versionId"],

  async handle(request) {
    const file = await readVersion(request, versionId(request.query));
    const answer = xmlAnswer("Tagging", { TagSet: "" });
    answer.headers.set("x-amz-version-id", file.commit);
    return answer;
  },
};
