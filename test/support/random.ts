/** A new seed, printed; the environment variable SLUICE_TEST_SEED gives an old one again. */
export function testSeed(): number {
  const seed = Number(process.env.SLUICE_TEST_SEED ?? Date.now() % 1_000_000);
  console.log(`SLUICE_TEST_SEED=${seed} gives the same moments again`);
  return seed;
}

/** Repeatable random numbers in [0, 1) from a seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `size` bytes that look random and are the same for the same seed. */
export function seededBytes(size: number, seed: number): Buffer {
  const random = seededRandom(seed);
  const bytes = Buffer.allocUnsafe(size + 4);
  for (let at = 0; at < size; at += 4) bytes.writeUInt32LE(Math.floor(random() * 2 ** 32), at);
  return bytes.subarray(0, size);
}
