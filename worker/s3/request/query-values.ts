import { base64url, bytesOfBase64 } from "../../keys/base64url.ts";
import { s3Error } from "../answer/errors.ts";
import { MAX_PART_NUMBER } from "../limits.ts";

/** A whole number: above `max` it counts as `max`, above `most` it is refused. `absent`: what counts if none is sent. */
export function wholeNumber(
  query: ReadonlyMap<string, string>,
  name: string,
  { min, absent, ...bound }: { min: number; absent?: number } & ({ max: number } | { most: number }),
): number {
  const text = query.get(name);
  const top = "max" in bound ? bound.max : bound.most;
  if (text === undefined) return absent ?? top;
  const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && ("max" in bound || value <= top)) return Math.min(value, top);
  throw s3Error.InvalidArgument(
    `${name} is '${text}': it must be a whole number from ${min} ${"max" in bound ? "up" : `to ${top}`}.`,
  );
}

/** Begins every token of this form. A later form can then be told from it. */
const TOKEN_FORM = "1";

/** Makes a continuation token, which is opaque to clients, of the place to go on from. */
export function encodeToken(place: string): string {
  return base64url(new TextEncoder().encode(TOKEN_FORM + place));
}

/** The place in a token. Throws InvalidArgument if we did not make it. */
export function decodeToken(token: string): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytesOfBase64(token));
    if (text.startsWith(TOKEN_FORM)) return text.slice(TOKEN_FORM.length);
  } catch {
    // Neither base64 nor UTF-8: refused below.
  }
  throw s3Error.InvalidArgument(`continuation-token is '${token}', which is none that this gateway gave.`);
}

/** No header takes anything else, and answers repeat the id in one. */
const PRINTABLE = /^[\u0021-\u007e]+$/;

/** The commit that `versionId` names; undefined without that parameter. Throws InvalidArgument if it is empty, or can be no id. */
export function versionId(query: ReadonlyMap<string, string>): string | undefined {
  const id = query.get("versionId");
  if (id === "") {
    throw s3Error.InvalidArgument(
      "versionId is empty: give the id of a commit, or leave it out for the newest.",
    );
  }
  if (id !== undefined && !PRINTABLE.test(id)) {
    throw s3Error.InvalidArgument(
      `versionId is '${id}', which is no id of a commit: an id is 26 letters and digits.`,
    );
  }
  return id;
}

/** The number of the part that a request names. Throws InvalidArgument, also if it names none. */
export function partNumberOf(query: ReadonlyMap<string, string>): number {
  const text = query.get("partNumber");
  const number = text !== undefined && /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= MAX_PART_NUMBER) return number;
  const said = text === undefined ? "partNumber is missing" : `partNumber is '${text}'`;
  throw s3Error.InvalidArgument(
    `${said}: part numbers are whole numbers from 1 to ${MAX_PART_NUMBER}, inclusive.`,
  );
}
