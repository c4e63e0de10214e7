import { createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { contentName } from "../../protocol/content.ts";
import { TreeHash } from "../../runner/lib/tree-hash.ts";
import type { Address } from "../gateway/address.ts";
import { showAddress } from "../gateway/address.ts";
import type { Client } from "../gateway/client.ts";
import { etagOf, getFile } from "../gateway/objects.ts";
import { CliError } from "../output/failure.ts";
import type { Progress } from "./progress.ts";

/**
 * Writes a file of a branch to this machine and returns its size. The bytes are written under another name first and
 * checked against their digest, so that a file at `target` is always whole.
 */
export async function downloadFile(
  client: Client,
  { from, target, progress }: { from: Address; target: string; progress: Progress },
): Promise<number> {
  const answer = await getFile(client, from);
  const hash = new TreeHash();
  const measure = new Transform({
    transform(piece: Buffer, _encoding, done) {
      hash.update(piece);
      progress.advance(piece.length);
      done(null, piece);
    },
  });
  const draft = `${target}.sluice-${process.pid}`;
  await mkdir(dirname(target), { recursive: true });
  try {
    await pipeline(answer.body, measure, createWriteStream(draft));
    const content = hash.finish();
    if (contentName(content) !== etagOf(answer)) {
      throw new CliError(`${showAddress(from, from.path)} came damaged: not the bytes of its ETag`, {
        code: "Damaged",
      });
    }
    await rename(draft, target);
    return content.size;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
