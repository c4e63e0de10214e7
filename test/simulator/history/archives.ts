import type { ArchivedCommit, ArchivedFile, ArchivedTag } from "../../../protocol/archives.ts";
import type { AnswerOf } from "../../../worker/branch/contract/answers.ts";
import type { ExportCalls } from "../../../worker/branch/contract/archives.ts";
import { type Facts, inOrder, shownFacts } from "./facts.ts";
import { shownTree } from "./model.ts";
import type { Stage } from "./stage.ts";
import { attributesOf, isSame, type State, type Tree } from "./states.ts";

/*
 * The naive rule of archives: what is read of a branch in pages is one state of it, with all that is kept of its history, whatever
 * is done to it meanwhile; and what comes out of an archive is what is in it, all at once or not at all.
 */

/** A branch that was exported, whole. */
export interface Archive {
  /** 64 hex digits, by which an import of it goes on. */
  readonly id: string;
  readonly bucket: string;
  readonly generation: number;
  readonly branch: Extract<AnswerOf<ExportCalls["begin"]>, { ok: true }>["branch"];
  readonly commits: readonly ArchivedCommit[];
  readonly tags: readonly ArchivedTag[];
  readonly files: readonly ArchivedFile[];
  /** Between these moments, in the count of all that the history noted, the export was begun, and its tags were read. */
  readonly begun: readonly [from: number, to: number];
  readonly tagged: readonly [from: number, to: number];
  /** Until then the export had not ended: what was taken out of the branch before is not in it. */
  readonly checkedAt: number;
}

/** Somebody asked for the end of an import. */
export interface Imported {
  readonly bucket: string;
  readonly archive: Archive;
  readonly begun: number;
}

/** What an archive has at a commit. */
export function treeIn({ files }: Pick<Archive, "files">, seq: number): Pick<State, "tree" | "attributes"> {
  const there = files.filter(
    ([, born, died, , , , more]) => !more?.deletion && born <= seq && (died === null || died > seq),
  );
  return {
    tree: new Map(there.map(([path, , , digest]) => [path, digest])),
    attributes: new Map(
      there.flatMap(([path, , , , , attributes]) =>
        attributes === null ? [] : [[path, attributesOf(JSON.parse(attributes))]],
      ),
    ),
  };
}

/** Numbers and ids of commits whose trees an archive has. */
function keptIn({ commits }: Pick<Archive, "commits">): readonly ArchivedCommit[] {
  return commits.filter(([, , , , , , , , , isGone]) => isGone === 0);
}

/** What is wrong with an export: it is none of the states that the branch had when it began. */
export function exportFaults(stage: Stage, archive: Archive): string[] {
  const { bucket, begun, tagged } = archive;
  const observer = stage.facts.get(bucket);
  const faults = (observer?.between(...begun) ?? [])
    .filter(({ generation, head }) => generation === archive.generation && head === archive.branch.head)
    .map((facts) => stateFaults(stage, { archive, facts }));
  if (faults.length === 0) return [`${bucket} was exported as of ${archive.branch.head}, and never was so`];
  const moments = observer?.between(...tagged) ?? [];
  return [
    ...takenOut(stage, archive),
    ...(faults.some((all) => all.length === 0) ? [] : (faults[0] ?? [])),
    ...(moments.some((facts) => hasTags(archive, facts))
      ? []
      : [`${bucket} was exported with ${archive.tags}, and had ${moments.map(shownFacts).join(" | ")}`]),
  ].map((fault) => `${bucket}: ${fault}`);
}

/** What an archive has, though it was taken out of the branch before the export had come to its end. */
function takenOut({ redacted, erased }: Stage, archive: Archive): string[] {
  const { bucket, generation, commits, files, checkedAt } = archive;
  const isSaid = (commit: string) =>
    commits.some(
      ([, id, , , , , , text]) => id === commit && text !== null && JSON.parse(text).redacted === undefined,
    );
  const idsBySeq = new Map(commits.map(([seq, id]) => [seq, id]));
  const isThere = (path: string, version: string) =>
    files.some(
      ([other, born, , , , , more]) =>
        other === path && !more?.deletion && idsBySeq.get(more?.version ?? born) === version,
    );
  return [
    ...redacted
      .filter(
        ({ doneAt, ...one }) =>
          one.bucket === bucket && doneAt?.generation === generation && doneAt.stamp < checkedAt,
      )
      .filter(({ commit }) => isSaid(commit))
      .map(({ commit }) => `the export says of ${commit} what was taken out`),
    ...erased
      .filter(
        (one) =>
          one.bucket === bucket && one.goneFrom === generation && (one.goneAt ?? checkedAt) < checkedAt,
      )
      .filter(({ path, version, digest }) => digest !== "" && isThere(path, version))
      .map(({ path, version }) => `the export has ${path} of ${version}, which was erased`),
  ];
}

function hasTags({ tags, commits }: Archive, facts: Facts): boolean {
  const kept = new Set(commits.map(([, id]) => id));
  const there = new Map([...facts.tags].filter(([, commit]) => kept.has(commit)));
  return isSame(there, new Map(tags.map(([name, commit]) => [name, commit])));
}

function stateFaults(stage: Stage, { archive, facts }: { archive: Archive; facts: Facts }): string[] {
  const { bucket, branch } = archive;
  const observer = stage.facts.get(bucket);
  const states = (stage.observers.get(bucket)?.states ?? []).filter(
    ({ generation }) => generation === archive.generation,
  );
  const byCommit = new Map(states.map((state) => [state.commit, state]));
  const kept = keptIn(archive);
  const ids = new Set(kept.map(([, id]) => id));
  const made = states.flatMap(({ commit }) => commit ?? []);
  const lacking = made.filter((commit) => observer?.shows(facts, commit) && !ids.has(commit));
  const settled = inOrder(branch.settings);
  return [
    ...(JSON.stringify(settled) === JSON.stringify(facts.settled)
      ? []
      : [`the export says ${JSON.stringify(settled)}, and it was ${shownFacts(facts)}`]),
    ...lacking.map((commit) => `the export lacks ${commit}, which could be read`),
    ...kept.flatMap((commit) => commitFaults(stage, { archive, commit, made: byCommit.get(commit[1]) })),
  ];
}

function commitFaults(
  stage: Stage,
  { archive, commit, made }: { archive: Archive; commit: ArchivedCommit; made: State | undefined },
): string[] {
  const [seq, id, createdAt, , , , , annotation] = commit;
  const observer = stage.facts.get(archive.bucket);
  if (!made) return [`the export has ${id}, which the branch never had`];
  const faults: string[] = [];
  const { tree, attributes } = treeIn(archive, seq);
  const text = annotation === null ? null : JSON.parse(annotation);
  const message = text?.message ?? null;
  if (text?.redacted === undefined && message !== made.message)
    faults.push(`the export says '${message}' of ${id}, and it was '${made.message}'`);
  if (createdAt !== observer?.madeAt(id)) faults.push(`the export says that ${id} was made at ${createdAt}`);
  // Of what was kept no more when it began, rows may be gone.
  if (seq < archive.branch.floor && !archive.tags.some(([, tagged]) => tagged === id)) return faults;
  if (!stage.isButErased(made.tree, tree))
    faults.push(`the export has ${shownTree(tree)} at ${id}, which was ${shownTree(made.tree)}`);
  for (const path of tree.keys())
    if ((attributes.get(path) ?? "") !== (made.attributes.get(path) ?? ""))
      faults.push(
        `the export says ${attributes.get(path)} of ${path} at ${id}: ${made.attributes.get(path)}`,
      );
  return faults;
}

/** What is wrong with branches that came out of archives. */
export function importFaults({ observers, facts, imports }: Stage): string[] {
  return [...observers].flatMap(([bucket, { states }]) => {
    const came = Map.groupBy(
      states.filter(({ archive }) => archive !== undefined),
      ({ generation }) => generation,
    );
    return [...came].flatMap(([generation, all]) => {
      const [first] = all;
      const asked = imports.find(
        ({ bucket: other, archive, begun }) =>
          other === bucket && archive.id === first?.archive && begun <= (first?.since ?? 0),
      );
      if (!asked) return [`${bucket}: nobody asked for what came out of the archive ${first?.archive}`];
      const settled = facts.get(bucket)?.states.find((one) => one.generation === generation);
      return cameFaults(asked.archive, { all, settled }).map((fault) => `${bucket}: ${fault}`);
    });
  });
}

function cameFaults(
  archive: Archive,
  { all, settled }: { all: readonly State[]; settled: Facts | undefined },
): string[] {
  const wanted = inOrder({ ...archive.branch.settings, keep: null, lifecycle: null });
  const commits = all.filter(({ commit }) => commit !== null);
  const kept = keptIn(archive);
  const tags: Tree = new Map(archive.tags.map(([name, commit]) => [name, commit]));
  return [
    ...(settled && JSON.stringify(settled.settled) === JSON.stringify(wanted)
      ? []
      : [`what came out of an archive is set to ${settled && shownFacts(settled)}`]),
    ...(settled && isSame(settled.tags, tags) ? [] : [`what came out of an archive has other tags`]),
    ...(String(commits.map(({ commit }) => commit)) === String(kept.map(([, id]) => id))
      ? []
      : [`what came out of an archive has the commits ${commits.map(({ commit }) => commit)}`]),
    ...kept.flatMap(([seq, id]) => {
      const state = commits.find(({ commit }) => commit === id);
      const { tree, attributes } = treeIn(archive, seq);
      if (!state || (isSame(tree, state.tree) && isSame(attributes, state.attributes))) return [];
      return [`${id} came as ${shownTree(state.tree)}, and the archive has ${shownTree(tree)}`];
    }),
  ];
}
