/**
 * SHA-256 and HMAC of texts of a few hundred bytes (FIPS 180-4, RFC 2104), of which each signature takes one of each. For
 * them the objects of the platform's hashes and of @noble/hashes cost more than the hashing. So all texts are hashed in the
 * same buffers, which nobody else has meanwhile, since nothing here waits.
 */

/** The state after the bytes of whole blocks: eight words. */
type State = Int32Array<ArrayBuffer>;

const BLOCK_BYTES = 64;
/** What ends a text: a bit, and its length in 8 bytes. */
const END_BYTES = 9;

const START: State = Int32Array.of(
  ...[0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19],
);
const ROUNDS = Int32Array.of(
  ...[0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5],
  ...[0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174],
  ...[0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da],
  ...[0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967],
  ...[0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85],
  ...[0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070],
  ...[0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3],
  ...[0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2],
);

const encoder = new TextEncoder();
const shared = new Uint8Array(8192);
const words = new Int32Array(64);
const state: State = new Int32Array(8);

/** The SHA-256 of a text in UTF-8, in lower-case hex. */
export function sha256Hex(text: string): string {
  hashText(text, { from: START, before: 0 });
  let hex = "";
  for (const word of state) hex += (word >>> 0).toString(16).padStart(8, "0");
  return hex;
}

/** HMAC-SHA-256 with a key of at most 64 bytes, of many texts in UTF-8. The answer has 32 bytes. */
export function hmacSha256(key: Uint8Array): (text: string) => Uint8Array<ArrayBuffer> {
  const [inner, outer] = [0x36, 0x5c].map((pad) => {
    for (let at = 0; at < BLOCK_BYTES; at++) shared[at] = (key[at] ?? 0) ^ pad;
    state.set(START);
    addBlock(shared, 0);
    return state.slice();
  }) as [State, State];
  return (text) => {
    hashText(text, { from: inner, before: BLOCK_BYTES });
    writeState(shared);
    hashBytes(shared, { length: 32, from: outer, before: BLOCK_BYTES });
    const mac = new Uint8Array(32);
    writeState(mac);
    return mac;
  };
}

/** What goes before the bytes: the state after it, and how many bytes it has. */
interface Before {
  readonly from: State;
  readonly before: number;
}

function hashText(text: string, options: Before): void {
  const most = text.length * 3 + BLOCK_BYTES + END_BYTES;
  const bytes = most <= shared.length ? shared : new Uint8Array(most);
  hashBytes(bytes, { ...options, length: encoder.encodeInto(text, bytes).written });
}

/** Leaves the hash in `state`. Behind the `length` bytes there is room for the end, which is written there. */
function hashBytes(bytes: Uint8Array, { from, before, length }: Before & { length: number }): void {
  const end = Math.ceil((length + END_BYTES) / BLOCK_BYTES) * BLOCK_BYTES;
  bytes.fill(0, length, end);
  bytes[length] = 0x80;
  const bits = (before + length) * 8;
  // A text has less than 2^32 bits.
  for (let at = 1; at <= 4; at++) bytes[end - at] = bits >>> (8 * (at - 1));
  state.set(from);
  for (let at = 0; at < end; at += BLOCK_BYTES) addBlock(bytes, at);
}

function writeState(bytes: Uint8Array): void {
  for (let at = 0; at < 32; at++) bytes[at] = word(state, at >> 2) >>> (24 - 8 * (at & 3));
}

function addBlock(bytes: Uint8Array, start: number): void {
  for (let i = 0, at = start; i < 16; i++, at += 4) {
    words[i] =
      (byte(bytes, at) << 24) |
      (byte(bytes, at + 1) << 16) |
      (byte(bytes, at + 2) << 8) |
      byte(bytes, at + 3);
  }
  for (let i = 16; i < 64; i++) {
    const x = word(words, i - 15);
    const y = word(words, i - 2);
    const sigma0 = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
    const sigma1 = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
    words[i] = word(words, i - 16) + sigma0 + word(words, i - 7) + sigma1;
  }
  // By iterating, to read and add eight words would take as long as the rounds.
  let a = word(state, 0);
  let b = word(state, 1);
  let c = word(state, 2);
  let d = word(state, 3);
  let e = word(state, 4);
  let f = word(state, 5);
  let g = word(state, 6);
  let h = word(state, 7);
  for (let i = 0; i < 64; i++) {
    const sum1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + sum1 + (g ^ (e & (f ^ g))) + word(ROUNDS, i) + word(words, i)) | 0;
    const sum0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const second = (sum0 + ((a & b) | (c & (a | b)))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  state[0] = word(state, 0) + a;
  state[1] = word(state, 1) + b;
  state[2] = word(state, 2) + c;
  state[3] = word(state, 3) + d;
  state[4] = word(state, 4) + e;
  state[5] = word(state, 5) + f;
  state[6] = word(state, 6) + g;
  state[7] = word(state, 7) + h;
}

function turned(value: number, bits: number): number {
  return (value >>> bits) | (value << (32 - bits));
}

function word(of: Int32Array, at: number): number {
  return of[at] as number;
}

function byte(of: Uint8Array, at: number): number {
  return of[at] as number;
}
