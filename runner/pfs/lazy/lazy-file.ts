import { opendir } from "node:fs/promises";
import { join } from "node:path";
import type { ContentSource } from "../../cache/cache.ts";

/** A file of a lazy input: a named pipe that its content goes through when somebody opens it. */
export interface LazyFile {
  /** The path of the pipe on this machine. */
  readonly pipe: string;
  /** The path of the file in its repo. */
  readonly path: string;
  readonly source: ContentSource;
}

/** The lazy files of a datum. */
export interface LazyFiles {
  readonly files: readonly LazyFile[];
  /** Orders in which a command is likely to open them, as indexes: those of the paths, and of the folders' listings. */
  readonly orders: readonly (readonly number[])[];
}

/** The lazy files below the folder that becomes `/pfs`, which are laid out. */
export async function lazyFiles(pfs: string, files: readonly LazyFile[]): Promise<LazyFiles> {
  const inPathOrder = files.map((_, index) => index);
  if (files.length < 2) return { files, orders: [inPathOrder] };
  const indexes = new Map(files.map(({ pipe }, index) => [pipe, index]));
  const listed: number[] = [];
  for await (const path of walk(pfs)) {
    const index = indexes.get(path);
    if (index !== undefined) listed.push(index);
  }
  return { files, orders: [inPathOrder, listed] };
}

/** Everything but folders, in the order in which a program sees it that lists as it goes. */
async function* walk(folder: string): AsyncGenerator<string> {
  for await (const entry of await opendir(folder, { bufferSize: 256 })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else yield path;
  }
}
