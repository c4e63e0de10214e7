/** What the headers of a part of a form say of it. */
export interface PartHead {
  readonly name: string;
  /** As the sender wrote it; undefined if it is not sent. */
  readonly filename: string | undefined;
}

/** One parameter of a header: a name, then a token or a quoted string (RFC 9110 §5.6.6). */
const PARAMETER =
  /;[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"\s]*))[ \t]*/gy;

/** Reads the headers of a part, without the empty line behind them. Returns a text if something is wrong with them. */
export function parsePartHead(text: string): PartHead | string {
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) return "a header of a part is not '<name>: <value>'";
    if (line.slice(0, colon).trim().toLowerCase() !== "content-disposition") continue;
    return parseDisposition(line.slice(colon + 1).trim());
  }
  return "a part has no Content-Disposition";
}

function parseDisposition(value: string): PartHead | string {
  const kind = /^form-data[ \t]*/i.exec(value)?.[0];
  if (kind === undefined) return "the Content-Disposition of a part is not form-data";
  const parameters = new Map<string, string>();
  PARAMETER.lastIndex = kind.length;
  for (let end = kind.length; end < value.length; end = PARAMETER.lastIndex) {
    const [, name, quoted, token] = PARAMETER.exec(value) ?? [];
    if (name === undefined) return "the Content-Disposition of a part is malformed";
    // Browsers escape a quote as %22. A backslash stands for itself, as in the paths of Windows, but before a quote.
    parameters.set(name.toLowerCase(), quoted?.replace(/\\(["\\])/g, "$1") ?? token ?? "");
  }
  const name = parameters.get("name");
  if (!name) return "a part has no name";
  return { name, filename: extended(parameters.get("filename*")) ?? parameters.get("filename") };
}

/** The text of `filename*` (RFC 8187), which some send for a name that is not ASCII; undefined if it is none. */
function extended(value: string | undefined): string | undefined {
  const encoded = /^utf-8'[^']*'(.*)$/i.exec(value ?? "")?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
