import type { ObjectRequest, Operation } from "../../operation.ts";
import { setTags } from "./put-object-tagging.ts";

/** Takes all tags of an object away: a write like that of others, and no deletion. */
export const deleteObjectTagging: Operation<ObjectRequest> = {
  permission: "write",

  async handle(request) {
    return new Response(null, { status: 204, headers: await setTags(request, []) });
  },
};
