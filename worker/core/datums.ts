/** A datum's part in one input: a file, or a directory with everything under it. */
export interface DatumPart {
  /** The input's name. */
  readonly input: string;
  readonly path: string;
  readonly digest: string;
  readonly size: number;
}

/** Sorts before everything that a path may hold: paths have no control characters (protocol/paths.ts). */
const SEPARATOR = "\u0001";

/**
 * Names a datum among those of one job: the paths of its inputs, the last input first. In byte order of the keys the
 * first input then varies fastest. `paths` are in order of the inputs' names.
 */
export function datumKey(paths: readonly string[]): string {
  return paths.toReversed().join(SEPARATOR);
}

/** The paths of a datum, in order of the inputs' names. */
export function datumPaths(key: string): string[] {
  return key.split(SEPARATOR).reverse();
}

/** Two datums of the same id are the same work: hex SHA-256 over input names, paths, digests and sizes. */
export function datumId(parts: readonly DatumPart[], sha256Hex: (text: string) => string): string {
  return sha256Hex(JSON.stringify(parts.map(({ input, path, digest, size }) => [input, path, digest, size])));
}

/** A datum for people: `/a.csv`, or `A:/a.csv with B:/b.csv` if there are several inputs. */
export function describeDatum(key: string, inputNames: readonly string[]): string {
  const paths = datumPaths(key);
  if (paths.length === 1) return `/${paths[0]}`;
  return paths.map((path, index) => `${inputNames[index]}:/${path}`).join(" with ");
}
