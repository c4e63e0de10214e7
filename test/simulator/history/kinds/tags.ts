import { askAside, type FactsChange, isSameOf, refusedAside, type Said } from "../asides.ts";
import type { Facts } from "../facts.ts";
import { shownTree } from "../model.ts";
import { ALL } from "../pages.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import { isTreeOf, treeOf } from "./keep.ts";

/** Names of commits. */
export const TAG_KINDS = {
  tag: { weight: 4, take: tag },
  untag: { weight: 3, take: untag },
  findTag: { weight: 3, take: findTag },
  listTag: { weight: 3, take: listTag },
} satisfies Record<string, Kind>;

export const NAMES = ["v1", "v2"];

/** Whether a tag alone changed, so. */
function isMoved({ before, after }: FactsChange, name: string, to: string | undefined): boolean {
  const others = ({ tags }: Facts) => JSON.stringify([...tags].filter(([other]) => other !== name).sort());
  return (
    others(before) === others(after) && after.tags.get(name) === to && isSameOf("settled", { before, after })
  );
}

/** Names what is newest, or a commit that the branch made once, which may be gone or about to go; or what another tag names. */
export async function tag(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const name = random.pick(NAMES);
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  const which = random.next();
  const named =
    which < 0.3 || commits.length === 0 ? undefined : which < 0.4 ? random.pick(NAMES) : random.pick(commits);
  const force = random.chance(0.6);
  const asWriter = random.chance(0.2) ? "ann" : undefined;
  const isMeant = (facts: Facts, commit: string | undefined) =>
    named === undefined || commit === (facts.tags.get(named) ?? named);
  await askAside(
    stage,
    {
      id,
      bucket,
      text: `tag ${id} ${name} = ${named ?? "HEAD"}${force ? ", moved" : ""}`,
      leads: ({ before, after }) =>
        isMoved({ before, after }, name, after.tags.get(name)) &&
        isMeant(before, after.tags.get(name)) &&
        (force || !before.tags.has(name)),
    },
    {
      call: () =>
        stage
          .branch(bucket)
          .tags.create({ name, force, asWriter, ...(named !== undefined && { commit: named }) }),
      saidOf: (answer) => {
        if (answer.ok) {
          const { commit, change, before: earlier } = answer;
          const what = `tagged ${commit}, ${change}`;
          const isFit = (facts: Facts) => isMeant(facts, commit);
          if (change === "none")
            return { kind: "saw", what, of: (facts) => facts.tags.get(name) === commit && isFit(facts) };
          return {
            kind: "changed",
            what,
            by: ({ before, after }) =>
              (before.tags.get(name) ?? null) === earlier &&
              isFit(before) &&
              isMoved({ before, after }, name, commit),
          };
        }
        if (answer.reason === "tag-kept") return keptSaid({ name, asWriter });
        if (answer.reason === "tag-exists") {
          const { commit } = answer;
          return {
            kind: "saw",
            what: `${answer.reason} ${commit}`,
            of: (facts) => !force && facts.tags.get(name) === commit,
          };
        }
        if (answer.reason === "no-commit")
          return {
            kind: "saw",
            what: answer.reason,
            of: ({ head, generation }) => generation !== null && head === 0,
          };
        if (answer.reason !== "no-such-version") return refusedAside(answer);
        return {
          kind: "saw",
          what: answer.reason,
          of: (facts, observer) =>
            facts.generation !== null &&
            named !== undefined &&
            !observer.shows(facts, facts.tags.get(named) ?? named),
        };
      },
    },
  );
}

/** Who does not administer the repo takes no tag away, unless the branch is protected for that key. */
function keptSaid({ name, asWriter }: { name: string; asWriter: string | undefined }): Said {
  return {
    kind: "saw",
    what: "tag-kept",
    of: ({ tags, settled: { writer } }) =>
      asWriter !== undefined &&
      tags.has(name) &&
      !(writer !== null && "key" in writer && writer.key === asWriter),
  };
}

async function untag(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const name = random.pick(NAMES);
  const asWriter = random.chance(0.2) ? "ann" : undefined;
  const by = ({ before, after }: FactsChange) =>
    before.tags.has(name) && isMoved({ before, after }, name, undefined);
  await askAside(
    stage,
    { id, bucket, text: `untag ${id} ${name}`, leads: by },
    {
      call: () => stage.branch(bucket).tags.delete({ name, asWriter }),
      saidOf: (answer) =>
        answer.ok
          ? { kind: "changed", what: "untagged", by }
          : answer.reason === "tag-kept"
            ? keptSaid({ name, asWriter })
            : answer.reason === "no-such-tag"
              ? {
                  kind: "saw",
                  what: answer.reason,
                  of: ({ generation, tags }) => generation !== null && !tags.has(name),
                }
              : refusedAside(answer),
    },
  );
}

async function findTag(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const name = random.pick(NAMES);
  await askAside(
    stage,
    { id, bucket, text: `find ${id} ${name}` },
    {
      call: () => stage.branch(bucket).tags.find({ name }),
      saidOf: (answer) => {
        if (!answer.ok && answer.reason !== "no-such-tag") return refusedAside(answer);
        const commit = answer.ok ? answer.commit : undefined;
        return {
          kind: "saw",
          what: `tag ${commit ?? "nothing"}`,
          of: ({ generation, tags }) => generation !== null && tags.get(name) === commit,
        };
      },
    },
  );
}

/** The bucket of a tag. */
async function listTag(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const name = random.pick(NAMES);
  await askAside(
    stage,
    { id, bucket, text: `list ${id} ${name}` },
    {
      call: () => stage.branch(bucket).files.list({ openCommit: name, ...ALL }),
      saidOf: (answer) => {
        // Until the rest was read, the name may be another commit's.
        if (answer.ok && answer.next !== null) return { kind: "unknown" };
        if (answer.ok) {
          const tree = treeOf(answer.entries);
          return {
            kind: "saw",
            what: `tagged ${shownTree(tree)}`,
            of: ({ tags }) => {
              const commit = tags.get(name);
              return commit !== undefined && isTreeOf(stage, { bucket, commit, tree });
            },
          };
        }
        if (answer.reason !== "no-such-open-commit" && answer.reason !== "no-such-version")
          return refusedAside(answer);
        return {
          kind: "saw",
          what: answer.reason,
          // What is looked for in a branch that is not there is not found either.
          of: ({ tags }) => !tags.has(name),
        };
      },
    },
  );
}
