import { S3Error } from "../answer/errors.ts";
import { encodeUriPath } from "../request/target.ts";

/** How keys go into an answer in XML. */
export interface KeyEncoding {
  /** `EncodingType` of the answer. */
  readonly type: "url" | undefined;
  readonly key: (key: string) => string;
}

/** What `encoding-type` asks for: keys as they are, or percent-encoded. Throws InvalidArgument. */
export function keyEncoding(query: ReadonlyMap<string, string>): KeyEncoding {
  const type = query.get("encoding-type");
  if (type === undefined) return { type, key: (key) => key };
  if (type === "url") return { type, key: encodeUriPath };
  throw new S3Error("InvalidArgument", {
    message: `encoding-type is '${type}': it must be 'url', or absent.`,
  });
}
