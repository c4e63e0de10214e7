import type { ChunkSigning, Payload } from "../../app.ts";
import type { AuthFailure } from "./parse-authorization.ts";

export const UNSIGNED = "UNSIGNED-PAYLOAD";
const SHA256_HEX = /^[0-9a-f]{64}$/;

interface Streaming {
  readonly chunks: "signed" | "unsigned";
  readonly trailer: "none" | "expected";
}

/** The values of x-amz-content-sha256 for a body in aws-chunked framing. */
const STREAMING: ReadonlyMap<string, Streaming> = new Map([
  ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", { chunks: "signed", trailer: "none" }],
  ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", { chunks: "signed", trailer: "expected" }],
  ["STREAMING-UNSIGNED-PAYLOAD-TRAILER", { chunks: "unsigned", trailer: "expected" }],
]);

/** What is wrong with a value of x-amz-content-sha256. */
export function payloadFault(hash: string): AuthFailure | undefined {
  if (SHA256_HEX.test(hash) || hash === UNSIGNED || STREAMING.has(hash)) return undefined;
  if (hash.startsWith("STREAMING-")) {
    return {
      code: "NotImplemented",
      message: `x-amz-content-sha256 is '${hash}': of the forms in chunks, ${[...STREAMING.keys()].join(", ")} are implemented.`,
    };
  }
  return {
    code: "InvalidArgument",
    more: { ArgumentName: "x-amz-content-sha256", ArgumentValue: hash },
    message: `x-amz-content-sha256 is '${hash}': it must be the body's SHA-256 in lower-case hex, ${UNSIGNED}, or one of ${[...STREAMING.keys()].join(", ")}.`,
  };
}

/** What a value of x-amz-content-sha256 without fault says of the body. */
export function payloadOf(hash: string, signing: () => ChunkSigning): Payload {
  const streaming = STREAMING.get(hash);
  if (streaming === undefined) return { form: "plain", sha256: hash === UNSIGNED ? null : hash };
  const { chunks, trailer } = streaming;
  return { form: "aws-chunked", signing: chunks === "signed" ? signing() : null, trailer };
}
