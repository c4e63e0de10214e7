import { mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PathChange } from "../../protocol/commits.ts";
import { contentName } from "../../protocol/content.ts";
import { type Address, showAddress } from "../gateway/address.ts";
import { type Client, GatewayError } from "../gateway/client.ts";
import { brokeOff, objectPath } from "../gateway/objects.ts";
import { CliError } from "../output/failure.ts";

/** What is compared: two views of a branch. `before`: null if the branch had nothing. */
export interface Sides {
  readonly before: Address | null;
  readonly after: Address;
}

/** One side of a file that differs. */
export interface FileSide {
  readonly size: number;
  /** The bytes, which are the ones that the difference is about. Throws a CliError if they are there no more or break off. */
  read(): AsyncGenerator<Buffer>;
}

/** A file whose bytes differ between two commits. */
export interface ChangedFile {
  readonly path: string;
  /** Null: it was added. */
  readonly before: FileSide | null;
  /** Null: it was deleted. */
  readonly after: FileSide | null;
}

/** The file of a change, or undefined if its bytes are the same or it is an empty directory. */
export function changedFile(client: Client, sides: Sides, change: PathChange): ChangedFile | undefined {
  const { path } = change;
  if (path.endsWith("/") || isSame(change)) return undefined;
  const side = (address: Address | null, state: PathChange["before"]): FileSide | null =>
    address && state && { size: state.size, read: () => bytesOf(client, { ...address, path }, state) };
  return { path, before: side(sides.before, change.before), after: side(sides.after, change.after) };
}

/** Whether what is kept beside the bytes has changed alone. */
function isSame({ before, after }: PathChange): boolean {
  return before !== null && after !== null && before.digest === after.digest && before.size === after.size;
}

async function* bytesOf(
  client: Client,
  address: Address,
  state: NonNullable<PathChange["before"]>,
): AsyncGenerator<Buffer> {
  // What an open commit is compared with may go on meanwhile.
  const headers = { "if-match": `"${contentName(state)}"` };
  const asked = client.send({ method: "GET", path: objectPath(address), headers });
  const answer = await asked.catch((error: unknown) => {
    if (!(error instanceof GatewayError && error.status === 412)) throw error;
    const where = showAddress(address, address.path);
    throw new CliError(`${where} was written meanwhile: compare again`, { code: "Changed" });
  });
  try {
    for await (const piece of answer.body) yield piece as Buffer;
  } catch (error) {
    throw brokeOff(address, error);
  } finally {
    // Nobody may have read the rest, and the connection would wait for that.
    answer.body.once("error", () => undefined).destroy();
  }
}

/**
 * Opens a file for this process alone among the temporary files (`TMPDIR`), to write and to read. It has no name from the start, so that
 * nothing is left of it however the program ends. Its room is free when the descriptor is closed.
 */
export function openUnnamed(): number {
  // In one step: a signal in between would leave a folder that nobody removes. Its mode is 0700.
  const folder = mkdtempSync(join(tmpdir(), "sluice-diff-"));
  try {
    return openSync(join(folder, "bytes"), "wx+", 0o600);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
