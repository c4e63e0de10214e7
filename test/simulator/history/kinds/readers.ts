import type { Body } from "../../../../worker/blobs/content.ts";
import { idOf } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";

/** Whoever reads a file for long says so, and has its blobs until the end. */
export const READER_KINDS = { "read on": { weight: 3, take: readOn } } satisfies Record<string, Kind>;

/** Sooner than blobs go of which somebody says that they are read; milliseconds. */
const LONGEST_MS = 60_000;

async function readOn(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const { world, blobs } = stage.simulation;
  const { files } = stage.branch(bucket);
  const path = random.pick(PATHS);
  const read = await insisted(() => files.read({ path }));
  if (!read?.ok) return;
  await contentOf(stage, { id, random, bucket }, read.digest);
  const names = blobsOf(read.body).filter((blob) => blobs.blobs.has(blob));
  const [begun, ahead] = [world.now, world.clock - world.now];
  // Whose blobs these are that are no more the branch's is known to its parents.
  const kept = await insisted(() => files.keepBlobs({ blobs: names }));
  for (const parent of kept?.parents ?? [])
    await insisted(() => stage.branch(parent).files.keepBlobs({ blobs: names }));
  // All rest, since somebody who waits alone has nobody beside him.
  if (random.chance(0.3))
    stage.quietUntil = Math.max(stage.quietUntil, world.now + random.next() * LONGEST_MS);
  await stage.quiet();
  // A clock that jumps takes a grace with it.
  if (!kept || world.now - begun > LONGEST_MS || world.clock - world.now !== ahead) return;
  for (const blob of names)
    if (!blobs.blobs.has(blob)) stage.wrong.push(`${bucket}: ${blob} went while ${id} read ${path}`);
}

/** What a content is that somebody names, which may be one of the branch as it lives alone. */
async function contentOf(stage: Stage, { id, random, bucket }: Turn, digest: string): Promise<void> {
  const text = stage.texts.get(digest);
  if (text === undefined) return;
  const liveOnly = random.chance(0.5);
  const found = await insisted(() => stage.branch(bucket).files.content({ ...idOf(text), liveOnly }));
  if (found?.ok && found.body.kind === "inline" && new TextDecoder().decode(found.body.bytes) !== text)
    stage.wrong.push(`${bucket}: ${id} was given other bytes for ${digest}`);
}

function blobsOf(body: Body): string[] {
  return body.kind === "chunks" ? body.chunks.map(({ blob }) => blob) : [];
}
