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
