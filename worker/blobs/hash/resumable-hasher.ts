import { createHash, type Hash } from "node:crypto";
import { z } from "zod";
import { Digest } from "../../../protocol/content.ts";
import { LEAF_BYTES, toHex } from "../../../protocol/digest.ts";
import { jsonOf } from "../../../protocol/json.ts";
import { encodeBase64 } from "../../core/base64.ts";
import {
  type ChecksumAlgorithm,
  type CrcAlgorithm,
  combineChecksums,
  isCrc,
  type SummedPart,
} from "../../core/checksums.ts";
import { fromHex } from "../../core/hex.ts";
import { type ChecksumHasher, createChecksum } from "./checksum-hasher.ts";
import { type Subtree, TreeStack } from "./tree-stack.ts";

/** How far a hasher came: whole leaves, and the subtrees over them. */
export interface Milestone {
  /** Bytes. */
  readonly done: number;
  readonly subtrees: readonly Subtree[];
  /** The CRC of those bytes, base64; null if none is wanted. */
  readonly crc: { readonly algorithm: CrcAlgorithm; readonly value: string } | null;
}

/**
 * Hashes a content whose leaf hashes are known in part. At the end of any leaf it can be saved as a milestone, from which
 * another hasher goes on. If a checksum other than a CRC is wanted over the whole, it cannot: its state is not kept.
 */
export class ResumableHasher {
  readonly #tree: TreeStack;
  readonly #algorithm: ChecksumAlgorithm | undefined;
  readonly #checksum: ChecksumHasher | undefined;
  /** What came before the bytes that `#checksum` has seen. */
  readonly #before: SummedPart | null;
  #leaf: Hash | undefined;
  #leafBytes = 0;
  #done: number;

  constructor({ checksum, from }: { checksum: ChecksumAlgorithm | undefined; from: Milestone | null }) {
    this.#tree = new TreeStack(from?.subtrees);
    this.#algorithm = checksum;
    this.#checksum = checksum && createChecksum(checksum);
    this.#done = from?.done ?? 0;
    this.#before = from?.crc ? { value: from.crc.value, size: from.done } : null;
  }

  /** Bytes so far. */
  get done(): number {
    return this.#done;
  }

  /** Bytes that the present leaf still takes; LEAF_BYTES if one has just ended. */
  get leafRest(): number {
    return LEAF_BYTES - this.#leafBytes;
  }

  /** Takes a known leaf, whose bytes are not needed. */
  addLeaf(leaf: Uint8Array, length: number): void {
    this.#tree.push(leaf);
    this.#done += length;
  }

  /** Takes the next bytes, no more than the present leaf takes. `leaf` is their hash, if they are a leaf whose hash is known. */
  addBytes(bytes: Uint8Array, leaf?: Uint8Array): void {
    this.#checksum?.update(bytes);
    if (leaf) {
      this.addLeaf(leaf, bytes.length);
      return;
    }
    this.#leaf ??= createHash("sha256");
    this.#leaf.update(bytes);
    this.#leafBytes += bytes.length;
    this.#done += bytes.length;
    if (this.#leafBytes === LEAF_BYTES) this.#closeLeaf();
  }

  /** Call it when a leaf has ended. */
  milestone(): Milestone {
    const algorithm = this.#algorithm;
    const crc = algorithm && isCrc(algorithm) ? { algorithm, value: this.#sum(algorithm) } : null;
    return { done: this.#done, subtrees: this.#tree.subtrees, crc };
  }

  /** Call it once, at the end. */
  finish(): { readonly digest: string; readonly checksum: string | null } {
    this.#closeLeaf();
    const checksum = this.#algorithm === undefined ? null : this.#sum(this.#algorithm);
    return { digest: toHex(this.#tree.root()), checksum };
  }

  #sum(algorithm: ChecksumAlgorithm): string {
    const value = encodeBase64(this.#checksum?.digest() ?? new Uint8Array(0));
    if (this.#before === null || !isCrc(algorithm)) return value;
    const rest = { value, size: this.#done - this.#before.size };
    return combineChecksums({ algorithm, parts: [this.#before, rest] });
  }

  #closeLeaf(): void {
    if (!this.#leaf) return;
    this.#tree.push(this.#leaf.digest());
    this.#leaf = undefined;
    this.#leafBytes = 0;
  }
}

const MilestoneText = z.strictObject({
  /** Names what was being hashed. */
  seal: z.string(),
  done: z.int().nonnegative().multipleOf(LEAF_BYTES),
  subtrees: z.array(z.strictObject({ hash: Digest, height: z.int().nonnegative() })),
  crc: z
    .strictObject({
      algorithm: z.enum(["CRC32", "CRC32C", "CRC64NVME"] satisfies CrcAlgorithm[]),
      value: z.base64(),
    })
    .nullable(),
});

/** A milestone as text; `seal` names what was being hashed. */
export function writeMilestone({ done, subtrees, crc }: Milestone, seal: string): string {
  const text: z.infer<typeof MilestoneText> = {
    seal,
    done,
    subtrees: subtrees.map(({ hash, height }) => ({ hash: toHex(hash), height })),
    crc,
  };
  return JSON.stringify(text);
}

/** Reads a milestone. Returns null if the text is not one, or is one of something else. */
export function readMilestone(text: string, seal: string): Milestone | null {
  const read = MilestoneText.safeParse(jsonOf(text));
  if (!read.success || read.data.seal !== seal) return null;
  const { done, subtrees, crc } = read.data;
  return { done, subtrees: subtrees.map(({ hash, height }) => ({ hash: fromHex(hash), height })), crc };
}
