import { open } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { paddingOf, TAR_END, tarHeader } from "../archive/tar.ts";
import { CliError } from "../output/failure.ts";

/** A file of what is to be sent. */
export interface Part {
  readonly name: string;
  readonly text: string;
}

/** Writes a new file that only its owner may read: a gzipped tar of a folder with these parts. Returns its size in bytes. */
export async function writeBundle(
  file: string,
  { folder, parts, now }: { readonly folder: string; readonly parts: readonly Part[]; readonly now: number },
): Promise<number> {
  const blocks = parts.flatMap(({ name, text }) => {
    const bytes = Buffer.from(text);
    const header = tarHeader({ name: `${folder}/${name}`, size: bytes.length }, now / 1000);
    return [header, bytes, Buffer.alloc(paddingOf(bytes.length))];
  });
  const packed = await promisify(gzip)(Buffer.concat([...blocks, TAR_END]));
  const handle = await open(file, "wx", 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new CliError(`${file} is there already: name another file with --out, or remove it`, {
      code: "FileExists",
    });
  });
  try {
    await handle.writeFile(packed);
  } finally {
    await handle.close();
  }
  return packed.length;
}
