import { createHash, type Hash } from "node:crypto";
import { EMPTY_DIGEST } from "../../../protocol/content.ts";
import type { ChunkSigning } from "../../app.ts";
import { signatureIs } from "../auth/signature.ts";

/**
 * Checks the signatures of an aws-chunked body, each of which covers the one before it and so the order of the
 * chunks ("Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks"). Holds one
 * hash state, whatever a chunk's size.
 */
export class ChunkSignatures {
  readonly #signing: ChunkSigning;
  #previous: string;
  #hash: Hash | undefined;

  constructor(signing: ChunkSigning) {
    this.#signing = signing;
    this.#previous = signing.seed;
  }

  /** The next bytes of the present chunk. */
  update(bytes: Uint8Array): void {
    this.#hash ??= createHash("sha256");
    this.#hash.update(bytes);
  }

  /** Ends the chunk: whether `signature`, 64 hex digits, is its own. */
  endChunk(signature: string): boolean {
    const digest = this.#hash?.digest("hex") ?? EMPTY_DIGEST;
    this.#hash = undefined;
    return this.#isNext(signature, {
      name: "AWS4-HMAC-SHA256-PAYLOAD",
      hashes: `${EMPTY_DIGEST}\n${digest}`,
    });
  }

  /** Whether `signature` is that of the trailer, given as `name:value\n` for each of its headers. */
  endTrailer(signature: string, trailer: string): boolean {
    const digest = createHash("sha256").update(new TextEncoder().encode(trailer)).digest("hex");
    return this.#isNext(signature, { name: "AWS4-HMAC-SHA256-TRAILER", hashes: digest });
  }

  #isNext(signature: string, { name, hashes }: { name: string; hashes: string }): boolean {
    const { key, time, scope } = this.#signing;
    const text = `${name}\n${time}\n${scope}\n${this.#previous}\n${hashes}`;
    this.#previous = signature;
    return signatureIs(key.sign(text), signature);
  }
}
