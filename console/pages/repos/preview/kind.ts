/*
 * What a file is to a preview. A picture or a sound is one by its first bytes, not by what its name or its Content-Type say:
 * its blob gets a type from the list below, so that the browser never shows somebody's bytes as a page.
 */

export type Kind =
  | { readonly is: "image" | "audio" | "video"; readonly type: string }
  | {
      readonly is:
        | "svg"
        | "pdf"
        | "gzip"
        | "parquet"
        | "table"
        | "json"
        | "json-lines"
        | "markdown"
        | "text"
        | "binary";
    };

/** How kinds of media begin: bytes by their offset. */
const MEDIA: readonly (readonly [is: "image" | "audio" | "video", type: string, ...marks: Mark[]])[] = [
  ["image", "image/png", [0, "\x89PNG\r\n\x1a\n"]],
  ["image", "image/jpeg", [0, "\xff\xd8\xff"]],
  ["image", "image/gif", [0, "GIF8"]],
  ["image", "image/webp", [0, "RIFF"], [8, "WEBP"]],
  ["image", "image/avif", [4, "ftypavif"]],
  ["image", "image/bmp", [0, "BM"], [6, "\0\0\0\0"]],
  ["image", "image/x-icon", [0, "\0\0\x01\0"]],
  ["audio", "audio/wav", [0, "RIFF"], [8, "WAVE"]],
  ["audio", "audio/mpeg", [0, "ID3"]],
  ["audio", "audio/mpeg", [0, "\xff\xfb"]],
  ["audio", "audio/mpeg", [0, "\xff\xf3"]],
  ["audio", "audio/flac", [0, "fLaC"]],
  ["audio", "audio/mp4", [4, "ftypM4A"]],
  ["audio", "audio/ogg", [0, "OggS"], [28, "\x01vorbis"]],
  ["audio", "audio/ogg", [0, "OggS"], [28, "OpusHead"]],
  ["video", "video/ogg", [0, "OggS"]],
  ["video", "video/webm", [0, "\x1aE\xdf\xa3"]],
  ["video", "video/mp4", [4, "ftyp"]],
];

type Mark = readonly [offset: number, bytes: string];

/** What a file is, by how it begins, then by its name and its type. */
export function kindOf(
  bytes: Uint8Array,
  { path, type }: { readonly path: string; readonly type: string },
): Kind {
  const media = MEDIA.find(([, , ...marks]) => marks.every((mark) => has(bytes, mark)));
  if (media) return { is: media[0], type: media[1] };
  if (has(bytes, [0, "%PDF-"])) return { is: "pdf" };
  if (has(bytes, [0, "\x1f\x8b"])) return { is: "gzip" };
  if (has(bytes, [0, "PAR1"])) return { is: "parquet" };
  if (!isText(bytes)) return { is: "binary" };
  const ending = /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";
  const said = type.split(";")[0]?.trim().toLowerCase() ?? "";
  if (ending === "svg" || said === "image/svg+xml") return { is: "svg" };
  if (TABLES.has(ending) || said === "text/csv" || said === "text/tab-separated-values")
    return { is: "table" };
  if (JSON_LINES.has(ending) || said === "application/x-ndjson") return { is: "json-lines" };
  if (ending === "json" || ending === "geojson" || said === "application/json") return { is: "json" };
  if (MARKDOWN.has(ending) || said === "text/markdown") return { is: "markdown" };
  return { is: "text" };
}

const TABLES: ReadonlySet<string> = new Set(["csv", "tsv", "tab"]);
const MARKDOWN: ReadonlySet<string> = new Set(["md", "markdown"]);
const JSON_LINES: ReadonlySet<string> = new Set(["jsonl", "ndjson"]);

function has(bytes: Uint8Array, [offset, text]: Mark): boolean {
  return [...text].every((character, index) => bytes[offset + index] === character.charCodeAt(0));
}

/** Whether bytes are UTF-8 without the control characters that no text has; the last one may be cut. */
function isText(bytes: Uint8Array): boolean {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
    return !/[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text);
  } catch {
    return false;
  }
}

/** Some text of bytes; what of the last character is there does not count. */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes, { stream: true });
}
