/** How a request to the gateway is written: percent-encoded as signature version 4 has it, so that both sides sign the same. */

/** What is undefined is left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** One segment of a path, or a name or value of a query. */
function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** A path whose slashes stay. */
export function encodePath(path: string): string {
  return path.split("/").map(encodeSegment).join("/");
}

/** `?a=b`, or nothing. A space is `%20`: "+" means a space to some readers of a query and a plus to others. */
export function queryOf(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeSegment(name)}=${encodeSegment(String(value))}`],
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
