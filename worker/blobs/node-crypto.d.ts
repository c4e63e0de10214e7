/**
 * What we use of Node's crypto, which workerd has (nodejs_compat). The types of all of Node would shadow those of
 * the Workers platform.
 */
declare module "node:crypto" {
  export interface Hash {
    update(bytes: Uint8Array): this;
    digest(): Uint8Array<ArrayBuffer>;
    digest(encoding: "hex"): string;
    /** A hash that goes on from here by itself. */
    copy(): Hash;
  }
  export function createHash(algorithm: "md5" | "sha256"): Hash;
}
