/** One query parameter, decoded. */
export type QueryPair = readonly [name: string, value: string];

/** What a request line asks for, percent-encoding undone. */
export interface Target {
  /** As the client sent it. */
  readonly rawPath: string;
  readonly rawQuery: string;
  readonly path: string;
  /** In the order sent; a name may come twice. */
  readonly query: readonly QueryPair[];
}

/**
 * Reads the target from `request.url`. The platform leaves it raw, except that it resolves `.` and `..` segments and
 * percent-encodes a few characters. `URL` would cost more and lose the difference between `+` and `%20`. Returns
 * undefined if the percent-encoding is broken or is not UTF-8.
 */
export function parseTarget(url: string): Target | undefined {
  const raw = url.slice(authorityEnd(url)) || "/";
  const mark = raw.indexOf("?");
  const rawPath = mark === -1 ? raw : raw.slice(0, mark);
  const rawQuery = mark === -1 ? "" : raw.slice(mark + 1);
  const path = decodeUri(rawPath);
  const query = parseQuery(rawQuery);
  return path === undefined || query === undefined ? undefined : { rawPath, rawQuery, path, query };
}

/** The path of a URL, as sent. */
export function rawPathOf(url: string): string {
  return (url.slice(authorityEnd(url)) || "/").replace(/\?.*/s, "");
}

/** `host[:port]` of a URL. */
export function authorityOf(url: string): string {
  return url.slice(url.indexOf("://") + 3, authorityEnd(url));
}

function authorityEnd(url: string): number {
  const slash = url.indexOf("/", url.indexOf("://") + 3);
  return slash === -1 ? url.length : slash;
}

/** A `+` in a query is a space, as AWS reads it and as forms write it; a plus comes as %2B. */
function parseQuery(raw: string): QueryPair[] | undefined {
  const pairs: QueryPair[] = [];
  if (raw === "") return pairs;
  for (const part of raw.split("&")) {
    if (part === "") continue;
    const equals = part.indexOf("=");
    const name = decodeUri((equals === -1 ? part : part.slice(0, equals)).replaceAll("+", " "));
    const value = decodeUri((equals === -1 ? "" : part.slice(equals + 1)).replaceAll("+", " "));
    if (name === undefined || value === undefined) return undefined;
    pairs.push([name, value]);
  }
  return pairs;
}

/** The characters that AWS leaves as they are in a URI (SigV4, "UriEncode"), with the slash. */
const PLAIN = /^[A-Za-z0-9\-._~/]*$/;
const LEFT_BY_PLATFORM = /[!'()*]/g;

/** AWS's UriEncode: everything but `A-Z a-z 0-9 - . _ ~` becomes %XX of its UTF-8. */
export function encodeUri(text: string): string {
  if (PLAIN.test(text)) return text.replaceAll("/", "%2F");
  return encodeURIComponent(text).replace(
    LEFT_BY_PLATFORM,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** UriEncode of a path: its slashes stay. */
export function encodeUriPath(path: string): string {
  return PLAIN.test(path) ? path : encodeUri(path).replaceAll("%2F", "/");
}

/** Undoes percent-encoding. Returns undefined if it is broken or is not UTF-8. */
export function decodeUri(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
