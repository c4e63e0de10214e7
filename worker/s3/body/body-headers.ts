import { S3Error } from "../answer/errors.ts";

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

/** The bytes that `Content-Length` announces, where it is sent. Throws InvalidArgument. */
export function declaredSize(headers: ReadonlyMap<string, string>): number | undefined {
  return sizeIn(headers, "content-length");
}

/** The bytes that an aws-chunked body holds without its framing. Throws MissingContentLength and InvalidArgument. */
export function decodedContentLength(headers: ReadonlyMap<string, string>): number {
  const size = sizeIn(headers, "x-amz-decoded-content-length");
  if (size !== undefined) return size;
  throw new S3Error("MissingContentLength", {
    message:
      "An aws-chunked body needs x-amz-decoded-content-length: the number of its bytes without the framing.",
  });
}

/**
 * The `Content-Encoding` of the object: as sent, but for `aws-chunked`, which belongs to the transfer. Undefined
 * where nothing is left.
 */
export function storedContentEncoding(headers: ReadonlyMap<string, string>): string | undefined {
  const text = headers.get("content-encoding");
  if (text === undefined || !/aws-chunked/i.test(text)) return text || undefined;
  const codings = text.split(",").map((coding) => coding.trim());
  const stored = codings.filter((coding) => coding !== "" && coding.toLowerCase() !== "aws-chunked");
  return stored.join(", ") || undefined;
}

function sizeIn(headers: ReadonlyMap<string, string>, name: string): number | undefined {
  const text = headers.get(name);
  if (text === undefined) return undefined;
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw new S3Error("InvalidArgument", {
    message: `${name} is '${text}': it must be a number of bytes in decimal digits.`,
  });
}
