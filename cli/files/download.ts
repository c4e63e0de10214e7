import { constants, createWriteStream, rmSync, type WriteStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname, relative } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { contentName } from "../../protocol/content.ts";
import { TreeHash } from "../../runner/lib/tree-hash.ts";
import { type Address, showAddress } from "../gateway/address.ts";
import type { Client } from "../gateway/client.ts";
import { brokeOff, etagOf, getFile } from "../gateway/objects.ts";
import { CliError, EXIT, errnoOf, systemText } from "../output/failure.ts";
import { atEnd } from "../stop-requests.ts";
import { isSpecial, makeFolder, openDraft } from "./placing.ts";
import type { Progress } from "./progress.ts";

export interface Download {
  readonly from: Address;
  readonly target: string;
  /** The folder that a person named, if what is below it in `target` is the gateway's. */
  readonly top?: string;
  readonly progress: Progress;
}

/**
 * Writes a file of a branch to this machine. The bytes are written under another name first and
 * checked against their digest, so that a file at `target` is always whole. A pipe or a device is written into as it is.
 */
export async function downloadFile(
  client: Client,
  { from, target, top = dirname(target), progress }: Download,
): Promise<{ readonly size: number; readonly etag: string }> {
  const answer = await getFile(client, from);
  const hash = new TreeHash();
  const measure = new Transform({
    transform(piece: Buffer, _encoding, done) {
      hash.update(piece);
      progress.advance(piece.length);
      done(null, piece);
    },
  });
  let draft: string | undefined;
  const forget = atEnd(() => draft && rmSync(draft, { force: true }));
  try {
    await makeFolder(top, relative(top, dirname(target)));
    let sink: WriteStream;
    if (await isSpecial(target)) {
      sink = (await open(target, constants.O_WRONLY)).createWriteStream();
    } else {
      // In one step: a signal in between would leave a file that nobody removes.
      const opened = openDraft(target);
      draft = opened.path;
      sink = createWriteStream(opened.path, { fd: opened.descriptor });
    }
    await pipeline(answer.body, measure, sink);
    const content = hash.finish();
    if (contentName(content) !== etagOf(answer)) {
      throw new CliError(`${showAddress(from, from.path)} came damaged: not the bytes of its ETag`, {
        code: "Damaged",
      });
    }
    if (draft) await rename(draft, target);
    return { size: content.size, etag: contentName(content) };
  } catch (error) {
    // Nobody reads the rest, and the connection would wait for that.
    answer.body.once("error", () => undefined).destroy();
    if (draft) await rm(draft, { force: true }).catch(() => undefined);
    throw error instanceof CliError ? error : failureOf(error, { from, target });
  } finally {
    forget();
  }
}

/** The system names no file if the disk is full, or names the draft. Anything else is a fault of the connection. */
function failureOf(error: unknown, { from, target }: { from: Address; target: string }): CliError {
  const code = errnoOf(error) ?? "Failed";
  if (error instanceof Error && "syscall" in error && FILE_CALLS.has(String(error.syscall))) {
    return new CliError(`can not write ${systemText(error, target)}`, { code, exitCode: EXIT.failed });
  }
  return brokeOff(from, error, code);
}

const FILE_CALLS = new Set(["open", "write", "close", "rename", "mkdir", "fsync", "lstat", "stat"]);
