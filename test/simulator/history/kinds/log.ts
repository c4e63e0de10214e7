import type { CommitEntry, HistoryCalls } from "../../../../worker/branch/contract/history.ts";
import { askAside, refusedAside, type Said } from "../asides.ts";
import type { Facts, FactsObserver } from "../facts.ts";
import { byBytes } from "../pages.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import type { State } from "../states.ts";

/** The log of commits, what differs between two, and what was said of one taken out. */
export const LOG_KINDS = {
  log: { weight: 3, take: log },
  diff: { weight: 4, take: diff },
  redact: { weight: 3, take: redact },
} satisfies Record<string, Kind>;

function commitsOf(stage: Stage, bucket: string): string[] {
  return (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
}

/** Some of the commits behind one that the branch made once, or one of them. */
async function log(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const commits = commitsOf(stage, bucket);
  if (commits.length > 0 && random.chance(0.3)) return await inspect(stage, turn, random.pick(commits));
  const { history } = stage.branch(bucket);
  let after = commits.length > 0 && random.chance(0.5) ? random.pick(commits) : undefined;
  const limit = random.chance(0.5) ? 1 + random.below(3) : 1000;
  for (let n = 0; n < 3; n++) {
    const asked = after;
    const begun = stage.stamp();
    const answer = await askAside(
      stage,
      { id: `${id}.${n}`, bucket, text: `log ${id}.${n} of ${limit} after ${asked ?? "none"}` },
      {
        call: () => history.list({ limit, ...(asked !== undefined && { after: asked }) }),
        saidOf: (page) => pageSaid(stage, page, { bucket, asked, limit, begun }),
      },
    );
    if (!answer?.ok || answer.next === null) return;
    after = answer.next;
  }
}

/** A page of the log is what is kept, the newest first, below a commit. */
function pageSaid(
  stage: Stage,
  page: Awaited<ReturnType<HistoryCalls["list"]>>,
  {
    bucket,
    asked,
    limit,
    begun,
  }: { bucket: string; asked: string | undefined; limit: number; begun: number },
): Said {
  if (!page.ok && page.reason !== "no-such-version") return refusedAside(page);
  const ids = page.ok ? page.commits.map((one) => one.id) : [];
  return {
    kind: "saw",
    what: page.ok ? `log ${ids} ${page.next}` : page.reason,
    of(facts, observer) {
      if (facts.generation === null) return false;
      const below = asked === undefined ? facts.head + 1 : observer.seqIn(facts, asked);
      if (!page.ok || below === undefined) return !page.ok && below === undefined;
      const all = observer.listed(facts).filter(({ seq }) => seq < below);
      const some = all.slice(0, limit).map((one) => one.id);
      const next = all.length > limit ? some.at(-1) : null;
      const isRight = (entry: CommitEntry) =>
        isEntry(stage, { bucket, facts, observer, entry, asked: begun });
      return String(some) === String(ids) && next === page.next && page.commits.every(isRight);
    },
  };
}

async function inspect(stage: Stage, { id, bucket }: Turn, commit: string): Promise<void> {
  const begun = stage.stamp();
  await askAside(
    stage,
    { id, bucket, text: `commit ${id} ${commit}` },
    {
      call: () => stage.branch(bucket).history.commit({ commit }),
      saidOf: (answer): Said => {
        if (!answer.ok) return lacking(answer, [commit]);
        return {
          kind: "saw",
          what: `commit ${JSON.stringify(answer)}`,
          of: (facts, observer) =>
            observer.shows(facts, commit) &&
            isEntry(stage, { bucket, facts, observer, entry: answer, asked: begun }),
        };
      },
    },
  );
}

/** One of some commits can be read no more. */
function lacking(answer: { readonly reason: string }, commits: readonly string[]): Said {
  if (answer.reason !== "no-such-version") return refusedAside(answer);
  const of = (facts: Facts, observer: FactsObserver) =>
    commits.some((commit) => !observer.shows(facts, commit));
  return { kind: "saw", what: answer.reason, of };
}

/** Whether that is what a commit was when it was made, but for what was taken out since. */
function isEntry(
  stage: Stage,
  {
    bucket,
    facts,
    observer,
    entry,
    asked,
  }: { bucket: string; facts: Facts; observer: FactsObserver; entry: CommitEntry; asked: number },
): boolean {
  const { id, parent, createdAt, origin, annotation, imported, changes } = entry;
  const states = (stage.observers.get(bucket)?.states ?? []).filter(
    ({ generation }) => generation === facts.generation,
  );
  const at = states.findIndex(({ commit }) => commit === id);
  const [state, before] = [states[at], states[at - 1]];
  if (!state) return false;
  const [seq = 0] = observer.seqsOf([id]);
  const isSaid = stage.isRedacted(id, { generation: facts.generation, since: asked })
    ? annotation?.message === undefined && annotation?.redacted !== undefined
    : annotation?.message === (state.message ?? undefined) ||
      (annotation?.redacted !== undefined && stage.redacted.some(({ commit }) => commit === id));
  const [parentSeq] = parent === null ? [undefined] : observer.seqsOf([parent]);
  const isBehind =
    parentSeq === undefined ? seq === 1 || parent === null || state.isOfArchive : parentSeq === seq - 1;
  // Between two commits of which the archive has all that happened.
  const isNext =
    before !== undefined &&
    (before.commit === null ? seq === 1 : observer.seqsOf([before.commit])[0] === seq - 1);
  return (
    isSaid &&
    Boolean(isBehind) &&
    createdAt === observer.madeAt(id) &&
    origin === state.origin &&
    (imported === true) === (state.archive !== undefined) &&
    (!isNext || stage.erased.length > 0 || isCountOf(changes, { before, after: state }))
  );
}

function isCountOf(
  { written, ended }: CommitEntry["changes"],
  { before, after }: { before: State; after: State },
): boolean {
  const isStill = (path: string) => before.born.get(path) === after.born.get(path);
  const births = [...after.born.keys()].filter((path) => !isStill(path)).length;
  const deaths = [...before.born.keys()].filter((path) => !isStill(path)).length;
  return written === births && ended === deaths;
}

/** What differs between two commits that the branch made once, in pages. */
async function diff(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const commits = commitsOf(stage, bucket);
  if (commits.length === 0) return;
  // Neighbours are compared in another way than those that are apart.
  const at = random.below(commits.length);
  const near = random.chance(0.4) ? commits[at - 1] : random.pick(commits);
  const from = random.chance(0.1) ? null : (near ?? null);
  const to = commits[at] ?? "";
  const limit = random.chance(0.5) ? 1 : 1000;
  for (let n = 0, after: string | null = ""; after !== null && n < 8; n++) {
    const mark: string = after;
    const answer = await askAside(
      stage,
      { id: `${id}.${n}`, bucket, text: `diff ${id}.${n} from ${from} to ${to} after '${mark}'` },
      {
        call: () => stage.branch(bucket).history.diff({ from, to, after: mark, limit }),
        saidOf: (page): Said => {
          if (!page.ok) return lacking(page, from === null ? [to] : [from, to]);
          const listed = page.changes.map(
            ({ path, before, after: now }) => `${path} ${before?.digest ?? ""} ${now?.digest ?? ""}`,
          );
          return {
            kind: "saw",
            what: `diff ${JSON.stringify(listed)}`,
            of(facts, observer) {
              if (!observer.shows(facts, to) || (from !== null && !observer.shows(facts, from))) return false;
              const states = [from, to].map((commit) =>
                commit === null ? undefined : stage.stateOf(bucket, commit),
              );
              const isErased = (line: string) => stage.erased.some(({ path }) => line.startsWith(`${path} `));
              const isHere = (line: string) => {
                const [path = ""] = line.split(" ");
                return path > mark && (page.next === null || path <= page.next);
              };
              const wanted = differencesOf(states[0], states[1]).filter(
                (line) => isHere(line) && !isErased(line),
              );
              return String(listed.filter((line) => !isErased(line))) === String(wanted);
            },
          };
        },
      },
    );
    if (!answer?.ok) return;
    after = answer.next;
  }
}

function differencesOf(before: State | undefined, after: State | undefined): string[] {
  const paths = new Set([...(before?.tree.keys() ?? []), ...(after?.tree.keys() ?? [])]);
  return [...paths]
    .filter(
      (path) =>
        before?.tree.get(path) !== after?.tree.get(path) ||
        (before?.attributes.get(path) ?? "") !== (after?.attributes.get(path) ?? ""),
    )
    .sort(byBytes)
    .map((path) => `${path} ${before?.tree.get(path) ?? ""} ${after?.tree.get(path) ?? ""}`);
}

/** Takes out what was said of a commit, whether it can be read or not. */
async function redact(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const commits = commitsOf(stage, bucket);
  if (commits.length === 0) return;
  const commit = random.pick(commits);
  const noted = stage.redacted.push({ bucket, commit, doneAt: null }) - 1;
  const answer = await askAside(
    stage,
    { id, bucket, text: `redact ${id} ${commit}` },
    {
      call: () => stage.branch(bucket).history.redact({ commit, key: "ann" }),
      saidOf: (done): Said => {
        if (!done.ok) return lacking(done, [commit]);
        return {
          kind: "saw",
          what: `redacted ${done.change}`,
          of: (facts, observer) =>
            observer.shows(facts, commit) &&
            done.commit === commit &&
            (done.redacted !== null || stage.stateOf(bucket, commit)?.message === null),
        };
      },
    },
  );
  // Of the commit of a job nothing was said.
  if (!answer?.ok || answer.redacted === null) return;
  const generation = stage.facts.get(bucket)?.last.generation ?? null;
  stage.redacted[noted] = { bucket, commit, doneAt: { stamp: stage.stamp(), generation } };
}
