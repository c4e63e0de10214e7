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

/** Undoes percent-encoding; undefined where it is broken or is not UTF-8. */
export function decodeUri(text: string): string | undefined {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
