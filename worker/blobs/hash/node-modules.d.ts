/** What we use of Node's modules (nodejs_compat). The types of all of Node would shadow those of the platform. */
declare module "node:crypto" {
  export interface Hash {
    update(bytes: Uint8Array): this;
    digest(): Uint8Array<ArrayBuffer>;
    digest(encoding: "hex"): string;
    /** A hash that goes on from here by itself. */
    copy(): Hash;
  }
  export function createHash(algorithm: "md5" | "sha1" | "sha256" | "sha512"): Hash;
  /** In one go: for a few KiB cheaper than a Hash object, and than `crypto.subtle` with its promise. */
  export function hash(
    algorithm: "md5" | "sha1" | "sha256",
    bytes: Uint8Array,
    encoding: "buffer",
  ): Uint8Array<ArrayBuffer>;
  export function hash(algorithm: "sha256", bytes: Uint8Array, encoding: "hex"): string;
  /** Both of one length; throws otherwise. */
  export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean;
}

declare module "node:zlib" {
  /** CRC-32 of the bytes behind those whose CRC-32 is `value`. */
  export function crc32(bytes: Uint8Array, value?: number): number;
}
