import { AwsV4Signer } from "aws4fetch";
import type { Door } from "../../test/support/keys.ts";

/** A request with its signature. It is good for 15 minutes. */
export interface SignedRequest {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | null;
}

export interface ToSign {
  readonly method: SignedRequest["method"];
  readonly path: string;
  /** The SHA-256 of the body in hex, or UNSIGNED-PAYLOAD, which is the default. */
  readonly payload?: string;
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Signing keys of the day. */
const keys = new Map<string, ArrayBuffer>();

/** Signs beforehand, so that no measurement holds the cost of our own signing. */
export async function signed(
  { endpoint, accessKeyId, secretAccessKey }: Door,
  { method, path, payload = "UNSIGNED-PAYLOAD", body, headers: more }: ToSign,
): Promise<SignedRequest> {
  const signer = new AwsV4Signer({
    method,
    url: `${endpoint}${path}`,
    headers: { ...more, "x-amz-content-sha256": payload },
    accessKeyId,
    secretAccessKey,
    service: "s3",
    region: "us-east-1",
    cache: keys,
  });
  const { headers } = await signer.sign();
  return { method, path, headers: Object.fromEntries(headers), body: body ?? null };
}
