import { readContent } from "../../blobs/read/read-content.ts";
import type { ObjectRequest, Operation } from "../operation.ts";
import { selectObject } from "./select-object.ts";

/** The bytes of a file, or a range or a part of them. */
export const getObject: Operation<ObjectRequest> = {
  permission: "read",
  tellsEncryption: true,
  unsigned: true,

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

/** What GET would answer, without the bytes. */
export const headObject: Operation<ObjectRequest> = {
  permission: "read",
  tellsEncryption: true,
  unsigned: true,

  async handle(request) {
    const { status, headers, range } = await selectObject(request);
    if (status !== 304) headers["content-length"] = String(range.length);
    return new Response(null, { status, headers, encodeBody: "manual" });
  },
};
