import type { ObjectRequest, Operation } from "../operation.ts";
import { SELECT_HEADERS, SELECT_QUERY, SELECT_UNSIGNED, selectObject } from "./select-object.ts";

/** What GET would answer, without the bytes. */
export const headObject: Operation<ObjectRequest> = {
  permission: "read",
  query: SELECT_QUERY,
  unsigned: SELECT_UNSIGNED,
  takes: SELECT_HEADERS,

  async handle(request) {
    const { status, headers, range } = await selectObject(request);
    if (status !== 304) headers["content-length"] = String(range.length);
    return new Response(null, { status, headers, encodeBody: "manual" });
  },
};
