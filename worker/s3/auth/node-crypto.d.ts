/**
 * More of Node's crypto, for signatures (worker/blobs/hash/node-crypto.d.ts says why these types are our own).
 */
declare module "node:crypto" {
  export interface Hmac {
    update(text: string, encoding: "utf8"): this;
    digest(): Uint8Array<ArrayBuffer>;
  }
  /** In one go: half the cost of a Hash object for a short text. */
  export function hash(algorithm: "sha256", text: string, encoding: "hex"): string;
  export function createHmac(algorithm: "sha256", key: string | Uint8Array): Hmac;
  /** Both of one length; throws otherwise. */
  export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean;
}
