import { readFileSync } from "node:fs";

/** What pyarrow wrote: its make.py says what is in each. */
const FIXTURES = new URL("../fixtures/parquet/", import.meta.url);

export function parquetFile(name: string): Buffer {
  return readFileSync(new URL(name, FIXTURES));
}

/** Bytes with others at a place. */
function patched(bytes: Buffer, at: number, ...others: readonly number[]): Buffer {
  const copy = Buffer.from(bytes);
  copy.set(others, at);
  return copy;
}

/** A file with one page out of which 80 MB come, and the same one if it says of that page that 600 bytes do: it has ten million values. */
export function parquetBombs(): (readonly [says: string, bytes: Buffer])[] {
  const bomb = parquetFile("bomb.parquet");
  return [
    ["says so", bomb],
    ["says that few bytes do", patched(bomb, 7, 0xb0, 0x89, 0x80, 0x00)],
  ];
}

/** Files that say of their lengths what is not so, each by what it lies of. */
export function lyingParquetFiles(): (readonly [of: string, bytes: Buffer])[] {
  const sound = parquetFile("none.parquet");
  /** How its first column says for all of its values that they are there: 300 times the level 1. */
  const levels = sound.indexOf(Buffer.from([3, 0, 0, 0, 0xd8, 4, 1]));
  return [
    ["of its footer", patched(sound, sound.length - 8, 0xff, 0xff, 0xff, 0x7f)],
    [
      "that it begins and ends so",
      Buffer.concat([Buffer.from("PAR1"), Buffer.alloc(40), Buffer.from("PAR1")]),
    ],
    ["that it is whole", Buffer.concat([sound.subarray(0, 9000), sound.subarray(-4)])],
    ["of how often a value repeats", patched(sound, levels + 4, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1)],
  ];
}
