import type { Context } from "../../app.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";

/** S3's header for the encryption that the store does by itself, of requests and of answers. */
export const ENCRYPTION = "x-amz-server-side-encryption";
/** The one value that is taken: keys of a KMS or of the client's are not here. */
export const ENCRYPTION_BY_STORE = "AES256";

/**
 * A client that asks for the store's own encryption asks for what is so, or it is refused: it must not seem done. Throws
 * NotImplemented. Other values are refused before (members.ts).
 */
export function checkEncryption({
  headers,
  context,
}: {
  readonly headers: ReadonlyMap<string, string>;
  readonly context: Pick<Context, "config">;
}): void {
  if (headers.get(ENCRYPTION) === undefined || context.config.isEncrypted) return;
  throw notEncrypted(`The header ${ENCRYPTION}`);
}

/** What is refused if nothing says that what is stored lies encrypted. */
export function notEncrypted(what: string): S3Error {
  return s3Error.NotImplemented(
    `${what} is not implemented: nothing says that this gateway's disk encrypts what is on it. Leave it out, encrypt before sending, or, if the disk does, set SLUICE_DISK_ENCRYPTED=on.`,
  );
}

/** Says in the good answer of an object or a part how it lies encrypted. A 304 has no object. */
export function tellEncryption(good: Response, { config }: Pick<Context, "config">): Response {
  if (config.isEncrypted && good.ok) good.headers.set(ENCRYPTION, ENCRYPTION_BY_STORE);
  return good;
}
