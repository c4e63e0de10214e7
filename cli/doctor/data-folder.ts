import { mkdtemp, realpath, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { reserveOf, type Space, spaceOf } from "../../runner/limits/free-space.ts";
import { showSize } from "../output/output.ts";
import type { Finding } from "./finding.ts";

/** A folder to try things in, below the place of the runner's data. */
export interface TryingPlace {
  readonly folder: string;
  readonly finding: Finding;
  remove(): Promise<void>;
}

/** Makes a folder in the data folder, or if there is none yet, in the folder that it would be made in. */
export async function openTryingPlace(
  dataDir: string,
  { cacheBytes }: { readonly cacheBytes: number },
): Promise<TryingPlace> {
  const place = await nearest(dataDir);
  try {
    const folder = await mkdtemp(join(place, ".sluice-doctor-"));
    // Whoever makes room must know where: links on the way, as in the image, are followed.
    const followed = join(await realpath(place), relative(place, dataDir));
    const finding = spaceFinding(await spaceOf(folder), { dataDir: followed, cacheBytes });
    return { folder, finding, remove: () => rm(folder, { recursive: true, force: true }) };
  } catch (error) {
    const folder = await mkdtemp(join(tmpdir(), "sluice-doctor-"));
    const finding = notWritable(dataDir, error instanceof Error ? error.message : String(error));
    return { folder, finding, remove: () => rm(folder, { recursive: true, force: true }) };
  }
}

/** The folder, or the nearest of those that it is in that is there. */
async function nearest(folder: string): Promise<string> {
  const there = await stat(folder).then(
    () => true,
    () => false,
  );
  return there || folder === dirname(folder) ? folder : nearest(dirname(folder));
}

const CHECK = "data";

function notWritable(dataDir: string, why: string): Finding {
  const found = `${dataDir} can't be written to: ${why}`;
  return {
    check: CHECK,
    state: "fail",
    found,
    fix: "name another folder with --data, or give it to this user",
  };
}

/** What is free against what the runner keeps free in any case, and what its cache may take. */
export function spaceFinding(
  { freeBytes, totalBytes }: Space,
  { dataDir, cacheBytes }: { readonly dataDir: string; readonly cacheBytes: number },
): Finding {
  const found = `${dataDir}: ${showSize(freeBytes)} free of ${showSize(totalBytes)}`;
  const reserve = reserveOf(totalBytes);
  if (freeBytes < reserve) {
    const fix = `make room, or name another folder with --data: below ${showSize(reserve)} datums are stopped. Of a gateway on the same disk, 'sluice branch keep' and 'sluice file erase --all-versions' free what history keeps; 'sluice rm' alone frees nothing`;
    return { check: CHECK, state: "fail", found, fix };
  }
  if (freeBytes < reserve + cacheBytes) {
    const fix = `the cache may take ${showSize(cacheBytes)}: give it less with --cache-size, unless it is what fills the disk`;
    return { check: CHECK, state: "warn", found, fix };
  }
  return { check: CHECK, state: "ok", found };
}
