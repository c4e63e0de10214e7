/** What we use of Node's zlib, which workerd has (nodejs_compat) (node-crypto.d.ts says why these types are our own). */
declare module "node:zlib" {
  /** CRC-32 of the bytes behind those whose CRC-32 is `value`. */
  export function crc32(bytes: Uint8Array, value?: number): number;
}
