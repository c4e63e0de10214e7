import { z } from "zod";
import { KeyCreated } from "../../../protocol/keys.ts";
import { BranchDetail, FsckPiece } from "../../../protocol/repos.ts";
import { Control } from "../../support/control.ts";
import type { Door } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";
import type { Key } from "./signing.ts";

/** A gateway that stories are played at, one after the other, each in a repo of its own. */
export interface Ground {
  readonly door: Door;
  readonly s3: S3;
  readonly control: Control;
  /** A key that may read and no more. */
  readonly reader: Key;
  /** A name that no story has had. */
  readonly nextName: () => string;
}

export async function openGround(door: Door): Promise<Ground> {
  const control = new Control(door);
  const { id, secret } = await control.call("POST", "/keys", {
    body: { level: "read" },
    answers: KeyCreated,
  });
  let names = 0;
  return {
    ...{ door, control, s3: new S3(door) },
    reader: { accessKeyId: id, secretAccessKey: secret },
    nextName: () => `f${++names}`,
  };
}

/** The newest commit of a story's branch; undefined if the branch is not there. */
export async function headOf({ control }: Ground, repo: string): Promise<string | null | undefined> {
  const answer = await control.ask("GET", `/repos/${repo}/branches/master`);
  if (answer.status === 404) return undefined;
  if (answer.status !== 200)
    throw new Error(`the branch can't be inspected: ${answer.status} ${answer.text}`);
  return BranchDetail.parse(JSON.parse(answer.text)).head;
}

/** Throws if the check of a branch finds something. */
export async function mustBeSound({ control }: Ground, repo: string): Promise<void> {
  for (let after: string | null | undefined; after !== null; ) {
    const body = after === undefined ? {} : { after };
    const path = `/repos/${repo}/branches/master/fsck`;
    const piece: FsckPiece = await control.call("POST", path, { body, answers: FsckPiece });
    if (piece.faults.length > 0) throw new Error(`fsck: ${JSON.stringify(piece.faults)}`);
    after = piece.next;
  }
}

/** Throws unless the branch has these files, with these bytes, and no other. */
export async function mustHave(
  { s3 }: Ground,
  repo: string,
  files: ReadonlyMap<string, Buffer>,
): Promise<void> {
  const bucket = `master.${repo}`;
  const there = (await keysOf(s3, bucket)).filter((key) => !key.endsWith("/"));
  const expected = [...files.keys()].sort();
  if (JSON.stringify(there.sort()) !== JSON.stringify(expected)) {
    throw new Error(`the branch has ${JSON.stringify(there)}, and should have ${JSON.stringify(expected)}`);
  }
  for (const [key, bytes] of files) {
    const got = await s3.get(bucket, key);
    if (!got?.equals(bytes))
      throw new Error(`'${key}' has ${got?.length} bytes, and not the ${bytes.length} that were put`);
  }
}

/** Of names that XML can't bear, too. */
async function keysOf(s3: S3, bucket: string): Promise<string[]> {
  const answer = await s3.ask("GET", `/${bucket}?list-type=2&encoding-type=url`);
  if (answer.status !== 200) throw new Error(`the branch can't be listed: ${answer.status} ${answer.text}`);
  return [...answer.text.matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key = ""]) =>
    decodeURIComponent(key.replaceAll("+", " ")),
  );
}

/** Ends a story's branches. */
export async function leave({ control }: Ground, repo: string): Promise<void> {
  const { branches } = await control
    .call("GET", `/repos/${repo}/branches`, {
      answers: z.object({ branches: z.array(z.object({ name: z.string() })) }),
    })
    .catch(() => ({ branches: [] }));
  for (const { name } of branches) await control.ask("DELETE", `/repos/${repo}/branches/${name}`);
}
