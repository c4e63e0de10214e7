import { createHash } from "node:crypto";
import type { NaiveElement } from "./naive-tree.ts";

/** What the files of a run hold. Few, so that datums die and come back. */
export const TEXTS = ["1", "2", "3", "4", "bad", "flaky", "file", "directory"] as const;

/** Whatever a datum reads, by input: what makes two datums the same work. */
export type Reading = readonly { readonly input: string; readonly element: NaiveElement }[];

/** The datum of a reading, as a text. */
export function identify(reading: Reading): string {
  return JSON.stringify(
    reading.map(({ input, element }) => [input, element.path, element.kind, element.entries]),
  );
}

/** How a run of the command goes. */
export function mood(reading: Reading): "good" | "bad" | "flaky" {
  const texts = reading.flatMap(({ element }) => element.entries.map(([, text]) => text));
  if (texts.includes("bad")) return "bad";
  return texts.includes("flaky") ? "flaky" : "good";
}

/** What a run that goes well leaves in `/pfs/out`: of nothing but the datum and the command. */
export function outputsOf(reading: Reading, cmd: string): Record<string, string> {
  const id = identify(reading);
  const digest = createHash("sha256")
    .update(new TextEncoder().encode(`${cmd} ${id}`))
    .digest("hex");
  const name = digest.slice(0, 12);
  const chance = Number.parseInt(digest.slice(-2), 16);
  return { ...ownOutputs(chance % 8, { name, text: `${cmd} ${id}` }), ...clashingOutput(reading, name) };
}

function ownOutputs(chance: number, { name, text }: { name: string; text: string }): Record<string, string> {
  const own = { [`own/${name}`]: text };
  // One of two files that others write to as well.
  const shared = `shared/${name.charCodeAt(0) % 2}`;
  switch (chance) {
    case 0:
      return {};
    case 1:
      return { [`empty/${name}/`]: "" };
    case 2:
      return { ...own, "common/": "" };
    case 3:
      return { ...own, [`deep/${name}/a/b`]: text, [`deep/${name}/empty/`]: "" };
    case 4:
      return { ...own, [shared]: "" };
    case 5:
    case 6:
      return { ...own, [shared]: `${name}\n` };
    default:
      return own;
  }
}

/** Where one datum writes a file and another one a directory of that name, their job must fail. */
function clashingOutput(reading: Reading, name: string): Record<string, string> {
  const texts = reading.flatMap(({ element }) => element.entries.map(([, text]) => text));
  if (texts.includes("file")) return { clash: name };
  return texts.includes("directory") ? { [`clash/${name}`]: name } : {};
}
