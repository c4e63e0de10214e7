import type { ContentId } from "../../../../protocol/content.ts";
import type { LeasedDatum, Outcome, Output, Task } from "../../../../protocol/runner.ts";
import { survived } from "../kill.ts";
import { branchOf, contentOf } from "../support.ts";
import { identify, mood, outputsOf, type Reading, TEXTS } from "./command.ts";
import type { Outside } from "./outside.ts";

/** Something that a worker was leased to do. */
export type Work =
  | { readonly kind: "datum"; readonly reading: Reading; readonly cmd: string }
  | Pick<Extract<Task, { kind: "merge" }>, "kind" | "parts">
  | Pick<Extract<Task, { kind: "egress" }>, "kind" | "egress" | "entries">;

/** An outcome, and the texts that it names. */
export interface Done {
  readonly outcome: Outcome;
  readonly texts: readonly string[];
}

const TEXT_OF = new Map<string, string>(TEXTS.map((text) => [contentOf(text).digest, text]));

/** What makes a piece of work the same when it is leased again. */
export function nameOf(work: Work): string {
  if (work.kind === "datum") return identify(work.reading);
  return JSON.stringify(work.kind === "merge" ? work.parts : work.entries.map(({ path }) => path));
}

/** Does what a lease says. `lost`: what is done too late is wrong too, so that it would be seen. */
export function done(
  work: Work,
  { lease, lost, random, outside }: { lease: string; lost: boolean; random: () => number; outside: Outside },
): Done {
  const fails = isFailing(work, random);
  if (fails) {
    return {
      outcome: { lease, state: "failed", blame: "datum", exitCode: 3, reason: "no", log: "no\n", millis: 1 },
      texts: [],
    };
  }
  switch (work.kind) {
    case "datum": {
      const files = lost ? { "too-late": lease } : outputsOf(work.reading, work.cmd);
      const outputs = Object.entries(files).map(([path, text]): Output => ({ path, ...idOf(text) }));
      return {
        outcome: {
          lease,
          state: "success",
          exitCode: 0,
          outputs,
          millis: 1,
          ran: { executor: "process", image: null },
        },
        texts: Object.values(files),
      };
    }
    case "merge": {
      const text = work.parts.map(({ digest }) => textOf(digest)).join("");
      return { outcome: { lease, state: "merged", content: idOf(text), millis: 1 }, texts: [text] };
    }
    case "egress":
      if (!lost) push(work, outside);
      return { outcome: { lease, state: "pushed", millis: 1 }, texts: [] };
  }
}

/** Reads what a lease names, as a runner does. */
export async function readingOf({ inputs }: LeasedDatum): Promise<Reading> {
  return await Promise.all(
    inputs.map(async ({ name, repo, branch, commit, path, kind, content }) => {
      if (kind === "file") {
        return { input: name, element: { path, kind, entries: [[path, textOf(content?.digest)] as const] } };
      }
      const prefix = path === "" ? "" : `${path}/`;
      const listed = await survived(async () =>
        branchOf({ repo, branch }).files.list({ prefix, limit: 1000, commit, anyGeneration: true }),
      );
      if (!listed.ok) throw new Error(`${repo} at ${commit}: ${listed.reason}`);
      const entries = listed.entries.map(
        (entry) => [entry.path, entry.kind === "file" ? textOf(entry.digest) : ""] as const,
      );
      return { input: name, element: { path, kind, entries } };
    }),
  );
}

function isFailing(work: Work, random: () => number): boolean {
  if (work.kind !== "datum") return random() < 0.1;
  const how = mood(work.reading);
  return how === "bad" || (how === "flaky" && random() < 0.5);
}

function push({ egress, entries }: Extract<Work, { kind: "egress" }>, outside: Outside): void {
  for (const { path, content } of entries) {
    if (content) outside.put(egress.URL, { path, text: textOf(content.digest) });
    else outside.remove(egress.URL, path);
  }
}

/** What a text is called, and from now on found by. */
export function idOf(text: string): ContentId {
  const { digest, size } = contentOf(text);
  TEXT_OF.set(digest, text);
  return { digest, size };
}

function textOf(digest: string | undefined): string {
  return TEXT_OF.get(digest ?? "") ?? `a strange content ${digest}`;
}
