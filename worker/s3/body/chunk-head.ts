import { SIGNATURE } from "../auth/parse-authorization.ts";

/** The line before a chunk: `<size in hex>` or `<size in hex>;chunk-signature=<64 hex>`. */
export interface ChunkHead {
  readonly size: number;
  readonly signature: string | undefined;
}

const HEAD = /^0*([0-9a-fA-F]{1,12})[ \t]*(?:;(.*))?$/;
const SIGNATURE_NAME = "chunk-signature=";

/** Reads the line, without its end. Returns a text if something is wrong with it. */
export function parseChunkHead(line: string): ChunkHead | string {
  const parts = HEAD.exec(line);
  if (parts === null) return "a chunk does not begin with its size in hex";
  const size = Number.parseInt(parts[1] ?? "", 16);
  const extensions = parts[2]?.split(";").map((text) => text.trim()) ?? [];
  const signature = extensions.find((text) => text.startsWith(SIGNATURE_NAME))?.slice(SIGNATURE_NAME.length);
  if (signature !== undefined && !SIGNATURE.test(signature)) {
    return "a chunk-signature is not 64 lower-case hex digits";
  }
  return { size, signature };
}
