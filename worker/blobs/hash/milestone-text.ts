import { z } from "zod";
import { Digest } from "../../../protocol/content.ts";
import { LEAF_BYTES, toHex } from "../../../protocol/digest.ts";
import type { CrcAlgorithm } from "../../core/checksums.ts";
import { fromHex } from "../../core/hex.ts";
import type { Milestone } from "./resumable-hasher.ts";

const MilestoneText = z.strictObject({
  /** Of what it is a milestone. */
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

/** The milestone that a text is; null where it is none, or one of something else. */
export function readMilestone(text: string, seal: string): Milestone | null {
  const read = MilestoneText.safeParse(parseJson(text));
  if (!read.success || read.data.seal !== seal) return null;
  const { done, subtrees, crc } = read.data;
  return { done, subtrees: subtrees.map(({ hash, height }) => ({ hash: fromHex(hash), height })), crc };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
