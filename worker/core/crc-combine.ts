/** A cyclic redundancy check of 32 or 64 bits, reflected, that starts from all ones and ends by inverting them. */
export interface Crc {
  /** Hex, 8 or 16 digits, the highest power left out, the lowest bit first ("reflected"). */
  readonly polynomial: string;
}

/** A run of bytes: its check and its size. */
export interface CheckedRun {
  /** 4 or 8 bytes, big-endian. */
  readonly crc: Uint8Array;
  /** Bytes. */
  readonly size: number;
}

/**
 * A polynomial over GF(2) of degree below 64: the bits of two words, the constant term in the top bit of the first.
 * One of 32 bits stands in the second word, which is it times x^32; reduced by its modulus times x^32, it behaves
 * just like those of 64.
 */
type Polynomial = readonly [high: number, low: number];

const ONE: Polynomial = [0x8000_0000, 0];
/** Eight bits further: x^8. */
const ONE_BYTE: Polynomial = [0x0080_0000, 0];

/**
 * The check of runs of bytes laid end to end, from the checks of each: what stands before n more bytes is multiplied
 * by x^8n modulo the polynomial. The inversions at start and end cancel out.
 */
export function combineCrcs({ polynomial }: Crc, runs: readonly CheckedRun[]): Uint8Array<ArrayBuffer> {
  const modulus = words(polynomial);
  const shifts = new Map<number, Polynomial>();
  let whole: Polynomial = [0, 0];
  for (const { crc, size } of runs) {
    const shift = shifts.get(size) ?? power(ONE_BYTE, { exponent: size, modulus });
    shifts.set(size, shift);
    const [high, low] = multiply(whole, { by: shift, modulus });
    const [runHigh, runLow] = fromBytes(crc);
    whole = [high ^ runHigh, low ^ runLow];
  }
  return toBytes(whole, polynomial.length / 2);
}

function power(
  base: Polynomial,
  { exponent, modulus }: { exponent: number; modulus: Polynomial },
): Polynomial {
  let result = ONE;
  let square = base;
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = multiply(result, { by: square, modulus });
    square = multiply(square, { by: square, modulus });
  }
  return result;
}

function multiply(
  [high, low]: Polynomial,
  { by, modulus }: { by: Polynomial; modulus: Polynomial },
): Polynomial {
  let [shiftedHigh, shiftedLow] = by;
  let productHigh = 0;
  let productLow = 0;
  for (let degree = 0; degree < 64; degree++) {
    const term = degree < 32 ? high >>> (31 - degree) : low >>> (63 - degree);
    if (term & 1) {
      productHigh ^= shiftedHigh;
      productLow ^= shiftedLow;
    }
    const overflow = shiftedLow & 1;
    shiftedLow = (shiftedLow >>> 1) | (shiftedHigh << 31);
    shiftedHigh >>>= 1;
    if (overflow) {
      shiftedHigh ^= modulus[0];
      shiftedLow ^= modulus[1];
    }
  }
  return [productHigh, productLow];
}

function words(hex: string): Polynomial {
  const digits = hex.padStart(16, "0");
  return [Number.parseInt(digits.slice(0, 8), 16), Number.parseInt(digits.slice(8), 16)];
}

function fromBytes(bytes: Uint8Array): Polynomial {
  const view = new DataView(new ArrayBuffer(8));
  for (const [index, byte] of bytes.entries()) view.setUint8(8 - bytes.length + index, byte);
  return [view.getUint32(0), view.getUint32(4)];
}

function toBytes([high, low]: Polynomial, length: number): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, high);
  view.setUint32(4, low);
  return new Uint8Array(view.buffer.slice(8 - length));
}
