const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Map([...ALPHABET].map((character, value) => [character, value]));

/** Base64 (RFC 4648 §4), with padding. */
export function encodeBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [a = 0, b = 0, c = 0] = bytes.subarray(at, at + 3);
    const group = (a << 16) | (b << 8) | c;
    for (let shift = 18; shift >= 0; shift -= 6) text += ALPHABET.charAt((group >> shift) & 63);
  }
  const missing = (3 - (bytes.length % 3)) % 3;
  return missing === 0 ? text : text.slice(0, -missing) + "=".repeat(missing);
}

/** The bytes of a base64 text; null unless it is exactly what `encodeBase64` gives for them. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> | null {
  const digits = text.replace(/={1,2}$/, "");
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4));
  let bits = 0;
  for (let at = 0; at < digits.length; at++) {
    const value = VALUES.get(digits.charAt(at));
    if (value === undefined) return null;
    bits = ((bits << 6) | value) & 0xffff;
    const end = Math.floor(((at + 1) * 6) / 8);
    if (end > Math.floor((at * 6) / 8)) bytes[end - 1] = bits >> (((at + 1) * 6) % 8);
  }
  return encodeBase64(bytes) === text ? bytes : null;
}
