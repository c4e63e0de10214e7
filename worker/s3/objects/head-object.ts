import type { ObjectRequest, Operation } from "../operation.ts";
import { selectObject } from "./select-object.ts";

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
