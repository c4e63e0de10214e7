import { statfs } from "node:fs/promises";

const UNITS = ["", "k", "m", "g", "t"];
const SIZE = /^([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(?:i?b)?$/i;

/** Bytes of a size as people write it, in powers of 1024: `512m`, `1.5g`, `20GiB`, `4096`. Returns undefined if it is no size, or 0. */
export function parseSize(text: string): number | undefined {
  const [, number = "", unit = ""] = SIZE.exec(text.trim()) ?? [];
  const bytes = Math.floor(Number(number) * 1024 ** UNITS.indexOf(unit.toLowerCase()));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}

const UNIT_NAMES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes for people: `10 GiB`, `1.5 MiB`. */
export function sizeText(bytes: number): string {
  const unit = UNIT_NAMES.findLastIndex((_, power) => bytes >= 1024 ** power);
  return `${Math.floor((bytes * 10) / 1024 ** Math.max(unit, 0)) / 10} ${UNIT_NAMES[Math.max(unit, 0)]}`;
}

/** A file system: its size and what of it is free to this user, in bytes. */
export interface Space {
  readonly totalBytes: number;
  readonly freeBytes: number;
}

const MIB = 1024 ** 2;

/** The reserve of a file system of this size, which is to stay free: 1 %, at least 256 MiB, at most 4 GiB, never more than a quarter. */
export function reserveOf(totalBytes: number): number {
  return Math.min(Math.max(totalBytes / 100, 256 * MIB), 4096 * MIB, totalBytes / 4);
}

/** The file system that a folder is on. */
export async function spaceOf(folder: string): Promise<Space> {
  const { blocks, bavail, bsize } = await statfs(folder);
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
}
