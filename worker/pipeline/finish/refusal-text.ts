import { PATH_FAULT_TEXT } from "../../../protocol/paths.ts";
import type { CommitRefused } from "../../branch/contract.ts";
import type { Definition } from "../definition.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { NotDone } from "./claimed-output.ts";
import { datumText } from "./failure-text.ts";

/** Why the output branch refused the commit of the front, in words. */
export function refusalText(
  ledger: Ledger,
  { definition, refused }: { definition: Definition; refused: NotDone },
): string {
  if (refused.reason === "path-conflict") return conflictText(ledger, { definition, refused });
  if (refused.reason === "bad-path")
    return `the output path '${refused.path}' can't be stored: ${PATH_FAULT_TEXT[refused.fault]}`;
  return `the output branch refused the commit: ${refused.reason}`;
}

type Conflict = Extract<CommitRefused, { reason: "path-conflict" }>;

function conflictText(
  { changed }: Ledger,
  { definition, refused }: { definition: Definition; refused: Conflict },
): string {
  const writers = [refused.path, refused.other].map((path) => `'${path}' by ${writerText(path)}`);
  return `a path can't be a file and a directory at once: ${writers.join(", ")}`;

  function writerText(path: string): string {
    const plain = path.endsWith("/") ? path.slice(0, -1) : path;
    const key = changed.firstPart(path)?.key ?? changed.firstPart(plain)?.key ?? changed.firstBelow(plain);
    return key === undefined ? "an unknown datum" : `datum ${datumText(definition, key)}`;
  }
}
