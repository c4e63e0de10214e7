import { readContent } from "../../blobs/read/read-content.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { SELECT_HEADERS, SELECT_QUERY, SELECT_UNSIGNED, selectObject } from "./select-object.ts";

/** The bytes of a file, or a range or a part of them. */
export const getObject: Operation<ObjectRequest> = {
  permission: "read",
  query: SELECT_QUERY,
  unsigned: SELECT_UNSIGNED,
  takes: SELECT_HEADERS,

  async handle(request) {
    const { status, headers, file, range } = await selectObject(request);
    if (status === 304) return new Response(null, { status, headers });
    const { blobs, hold, event } = request.context;
    event.bytesOut = range.length;
    const { body: kept, size } = file;
    const body = await readContent(blobs, { body: kept, size, range, hold: hold(request.address) });
    // The platform would compress bytes that a Content-Encoding says are compressed already.
    return new Response(body, { status, headers, encodeBody: "manual" });
  },
};
