import { S3Error } from "./errors.ts";

const MD5_BASE64 = /^[A-Za-z0-9+/]{22}==$/;

/** The 16 bytes of `Content-MD5`, where it is sent. Throws InvalidDigest. */
export function contentMd5(headers: ReadonlyMap<string, string>): Uint8Array | undefined {
  const text = headers.get("content-md5");
  if (text === undefined) return undefined;
  if (!MD5_BASE64.test(text)) {
    throw new S3Error("InvalidDigest", {
      message: `Content-MD5 is '${text}': it must be the base64 of the 16 bytes of the body's MD5.`,
    });
  }
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** The bytes that `Content-Length` announces, where it is sent. */
export function declaredSize(headers: ReadonlyMap<string, string>): number | undefined {
  const text = headers.get("content-length");
  return text === undefined ? undefined : Number(text);
}
