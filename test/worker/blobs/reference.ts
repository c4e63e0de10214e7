import { seededRandom } from "../../support/random.ts";

/** 1 MiB: the leaves of the tree digest, and most sizes in these tests are about it. */
export const MIB = 1024 * 1024;

/** Bytes that look random, the same for the same seed. */
export function randomBytes(size: number, seed: number): Uint8Array<ArrayBuffer> {
  const random = seededRandom(seed);
  const words = Uint32Array.from({ length: Math.ceil(size / 4) }, () => random() * 2 ** 32);
  return new Uint8Array(words.buffer, 0, size);
}

/**
 * The tree digest, top down where the product goes bottom up: the left half of n leaves is the largest power of
 * two below n.
 */
export async function referenceDigest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return hex(await treeHash(bytes));
}

async function treeHash(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  if (bytes.length <= MIB) return await hash("SHA-256", bytes);
  let left = MIB;
  while (left * 2 < bytes.length) left *= 2;
  const halves = [await treeHash(bytes.subarray(0, left)), await treeHash(bytes.subarray(left))];
  return await hash("SHA-256", new Uint8Array(halves.flatMap((half) => [...half])));
}

export async function hash(
  algorithm: "SHA-256" | "MD5",
  bytes: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest(algorithm, bytes));
}

export function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether two byte strings are the same; quicker for megabytes than a deep comparison, and silent about them. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && crypto.subtle.timingSafeEqual(a, b);
}
