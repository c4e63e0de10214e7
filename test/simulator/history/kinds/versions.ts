import type { VersionMark } from "../../../../worker/branch/contract/files.ts";
import { askAside, refusedAside, type Said } from "../asides.ts";
import { type Kind, PATHS, type Stage, type Turn } from "../stage.ts";
import { isPageOfVersions } from "../versions.ts";
import { PAGES, somePage } from "./pages.ts";

/** Listings of all versions, in pages. */
export const VERSION_KINDS = { versions: { weight: 3, take: versions } } satisfies Record<string, Kind>;

async function versions(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const { after: mark, ...others } = somePage(random);
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  const some = { path: random.pick(PATHS), version: random.pick([...commits, "no version"]) };
  let after: VersionMark | undefined = random.chance(0.3)
    ? some
    : mark === undefined
      ? undefined
      : { path: mark };
  for (let n = 0; n < PAGES; n++) {
    const request = { ...others, ...(after && { after }) };
    const answer = await askAside(
      stage,
      { id: `${id}.${n}`, bucket, text: `versions ${id}.${n} ${JSON.stringify(request)}` },
      {
        call: () => stage.branch(bucket).files.versions(request),
        saidOf: (page): Said => {
          if (!page.ok) return refusedAside(page);
          const { entries, next } = page;
          const shown = entries.map((entry) =>
            entry.kind === "prefix"
              ? entry.path
              : `${entry.path} ${entry.version} ${entry.kind} ${entry.latest}`,
          );
          return {
            kind: "saw",
            what: `versions ${JSON.stringify(shown)} ${JSON.stringify(next)}`,
            of: (facts, observer, state) =>
              isPageOfVersions(stage, { bucket, facts, observer, state, request, entries, next }),
          };
        },
      },
    );
    if (!answer?.ok || answer.next === null) return;
    after = answer.next;
  }
}
