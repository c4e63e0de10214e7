const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** A number of bytes in the unit that fits it: `812 B`, `4.1 MiB`. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  let shown = bytes / 1024;
  let unit = 0;
  while (shown >= 1023.95 && unit < UNITS.length - 1) {
    shown /= 1024;
    unit++;
  }
  return `${shown < 10 ? shown.toFixed(1) : Math.round(shown)} ${UNITS[unit]}`;
}
