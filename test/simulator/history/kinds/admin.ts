import type { AdminCalls, NamedRow } from "../../../../worker/branch/contract/admin.ts";
import type { AnswerOf } from "../../../../worker/branch/contract/answers.ts";
import type { ByteHolder, ErasureCalls } from "../../../../worker/branch/contract/erasures.ts";
import { askAside, refusedAside, type Said } from "../asides.ts";
import { digestOf, idOf } from "../bytes.ts";
import { textOfBody } from "../end.ts";
import type { Facts, FactsObserver } from "../facts.ts";
import { isMishap } from "../mishaps.ts";
import type { Kind, Stage, Turn } from "../stage.ts";
import type { State } from "../states.ts";
import { viewRefused } from "./pages.ts";

/** What people ask of a branch who look after it: what it is, what it takes up, and whether all is there. */
export const ADMIN_KINDS = {
  status: { weight: 3, take: status },
  usage: { weight: 3, take: usage },
  check: { weight: 3, take: check },
  "scan for orphans": { weight: 3, take: scan },
} satisfies Record<string, Kind>;

/** What a branch is, for people and for those who have no key. */
async function status(stage: Stage, turn: Turn): Promise<void> {
  await turn.random.pick([inspect, statusOf, view, loops, announce])(stage, turn);
}

async function statusOf(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const publicOnly = random.chance(0.4);
  await askAside(
    stage,
    { id, bucket, text: `status ${id}${publicOnly ? " for everybody" : ""}` },
    {
      call: () => stage.branch(bucket).lifecycle.status({ publicOnly }),
      saidOf: (answer): Said => {
        if (!answer.ok) return viewRefused(answer.reason, { commit: undefined, publicOnly });
        return {
          kind: "saw",
          what: `status ${JSON.stringify(answer)}`,
          of: (facts, observer) =>
            isHead(facts, observer, answer.head) &&
            answer.claimedBy === facts.holder &&
            (!publicOnly || facts.settled.public),
        };
      },
    },
  );
}

function isHead(facts: Facts, observer: FactsObserver, head: string | null): boolean {
  if (facts.generation === null) return false;
  return head === null ? facts.head === 0 : observer.seqIn(facts, head) === facts.head;
}

async function inspect(stage: Stage, { id, bucket }: Turn): Promise<void> {
  await askAside(
    stage,
    { id, bucket, text: `inspect ${id}` },
    {
      call: () => stage.branch(bucket).lifecycle.inspect(),
      saidOf: (answer): Said => {
        if (!answer.ok) return refusedAside(answer);
        // One that is being forked is shown, and is seen by nobody else.
        const isComing = answer.fork !== null && !answer.fork.ready;
        return {
          kind: "saw",
          what: `inspected ${JSON.stringify(answer)}`,
          of: (facts, observer, state) =>
            isComing
              ? answer.head === null
              : isHead(facts, observer, answer.head) &&
                JSON.stringify(answer.keep) === JSON.stringify(facts.settled.keep) &&
                (answer.imported !== null) === (state.isOfArchive === true),
        };
      },
    },
  );
}

/** What a name shows: an open commit, a commit, a tag. */
async function view(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const state = stage.observers.get(bucket)?.last;
  const commits = (stage.observers.get(bucket)?.states ?? []).flatMap(({ commit }) => commit ?? []);
  const open = [...(state?.beside.keys() ?? [])].filter((name) => !name.includes("."));
  const tags = [...(stage.facts.get(bucket)?.last.tags.keys() ?? [])];
  const name = random.pick([...commits.slice(-3), ...open, ...tags, "v1"]);
  const publicOnly = random.chance(0.3);
  await askAside(
    stage,
    { id, bucket, text: `view ${id} ${name}${publicOnly ? " for everybody" : ""}` },
    {
      call: () => stage.branch(bucket).files.view({ view: name, publicOnly }),
      saidOf: (answer): Said => {
        const commitOf = (facts: Facts) => facts.tags.get(name) ?? name;
        if (answer.ok)
          return {
            kind: "saw",
            what: `shows ${answer.shows}`,
            of: (facts, observer, { beside }) =>
              (!publicOnly || facts.settled.public) &&
              (answer.shows === "open-commit"
                ? beside.has(name) && !publicOnly
                : observer.shows(facts, commitOf(facts))),
          };
        if (answer.reason !== "no-such-open-commit" && answer.reason !== "no-such-version")
          return viewRefused(answer.reason, { commit: undefined, publicOnly });
        return {
          kind: "saw",
          what: answer.reason,
          of: (facts, observer, { beside }) =>
            !observer.shows(facts, commitOf(facts)) && (publicOnly || beside.get(name)?.isApplying !== false),
        };
      },
    },
  );
}

/** What its loops wait for: nothing is long overdue. */
async function loops(stage: Stage, { bucket }: Turn): Promise<void> {
  await told(() => stage.branch(bucket).admin.loops());
}

/** The catalogue is told anew of the branch, its settings and its tags. In the end it knows all that there is. */
async function announce(stage: Stage, { id, bucket }: Turn): Promise<void> {
  await askAside(
    stage,
    { id, bucket, text: `announce ${id}` },
    {
      call: () => stage.branch(bucket).admin.announce(),
      saidOf: (answer): Said => {
        if (!answer.ok) return answer.reason === "no-such-branch" ? NEVER_THERE : refusedAside(answer);
        return {
          kind: "saw",
          what: answer.deleted ? "announced as deleted" : "announced",
          // A fork on its way is there to the catalogue.
          of: ({ generation }) => !answer.deleted || generation === null,
        };
      },
    },
  );
}

const NEVER_THERE: Said = {
  kind: "saw",
  what: "no-such-branch",
  of: ({ generation }) => generation === null,
};

async function told<T>(call: () => Promise<T>): Promise<T | undefined> {
  return await call().catch((error) => {
    if (!isMishap(error)) throw error;
    return undefined;
  });
}

/** What is live is what HEAD has; what is kept is at least what other commits have that can be read. */
async function usage(stage: Stage, { id, random, bucket }: Turn): Promise<void> {
  const sizes = random.chance(0.2);
  const begun = stage.stamp();
  await askAside(
    stage,
    { id, bucket, text: `usage ${id}` },
    {
      call: () => stage.branch(bucket).admin.usage({ sizes }),
      saidOf: (answer): Said => {
        if (!answer.ok) return usageRefused(answer);
        const { contents, deleted = false, database } = answer;
        if (stage.isSmall && !stage.isUnmoved(bucket, begun)) return { kind: "unknown" };
        return {
          kind: "saw",
          what: `usage ${JSON.stringify(contents)}`,
          of(facts, observer, state) {
            if (database.usedBytes <= 0 || database.usedBytes > database.limitBytes) return false;
            if (contents === null) return sizes && facts.generation !== null;
            if (sizes || deleted !== (facts.generation === null)) return false;
            const { live, history, reclaimable, holder } = contents;
            const isLive =
              live.count === state.tree.size && live.bytes === bytesOf(stage, [...state.tree.values()]);
            const past = pastOf(stage, { bucket, facts, observer, state });
            const isAll = history.count >= past.length && history.bytes >= bytesOf(stage, past);
            const isHeld = holder === null || holder.count <= history.count + reclaimable.count;
            // Large amounts are read in several turns of the object.
            return (isLive || deleted) && isAll && isHeld;
          },
        };
      },
    },
  );
}

/** There is none, or nothing of it is left. */
function usageRefused(answer: { readonly reason: string }): Said {
  return refusedAside(answer);
}

function bytesOf(stage: Stage, digests: readonly string[]): number {
  return digests.reduce((sum, digest) => sum + idOf(stage.texts.get(digest) ?? "").size, 0);
}

/** Digests of rows that only commits have that came before HEAD, and can be read; without what may be erased. */
function pastOf(
  stage: Stage,
  { bucket, facts, observer, state }: { bucket: string; facts: Facts; observer: FactsObserver; state: State },
): string[] {
  const rows = new Map<string, string>();
  for (const one of stage.observers.get(bucket)?.states ?? []) {
    const { commit, generation, tree, born, since } = one;
    if (
      commit === null ||
      generation !== facts.generation ||
      since > state.since ||
      !observer.shows(facts, commit)
    )
      continue;
    for (const [path, digest] of tree) {
      const isErased = stage.erased.some((erased) => erased.path === path && erased.digest === digest);
      if (!isErased && born.get(path) !== state.born.get(path)) rows.set(`${path} ${born.get(path)}`, digest);
    }
  }
  return [...rows.values()];
}

/** As fsck does: each name has its content, and each content its bytes. */
async function check(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const { admin } = stage.branch(bucket);
  for (let from: NamedRow | null = null, n = 0; n === 0 || from !== null; n++) {
    const after: NamedRow | null = from;
    const names: AnswerOf<AdminCalls["checkNames"]> | undefined = await askAside(
      stage,
      { id: `${id}.${n}`, bucket, text: `check ${id}.${n} names` },
      {
        call: () => admin.checkNames({ after }),
        saidOf: (answer): Said => {
          if (!answer.ok) return NEVER_THERE;
          return {
            kind: "saw",
            what: `checked names, of which lack ${JSON.stringify(answer.lacking)}`,
            of: () => answer.lacking.length === 0,
          };
        },
      },
    );
    if (!names?.ok) return;
    from = names.next;
  }
  for (let after = 0, more = true; more; ) {
    const page = await told(() => admin.checkContents({ after }));
    if (!page?.ok) return;
    for (const { row, gen, digest, size, body } of page.contents) {
      after = row;
      const isRight = digestOf(textOfBody(stage, body)) === digest;
      // A content that goes meanwhile is not there when it is looked at again.
      if (!isRight && (await isStillThere(stage, { bucket, row })))
        stage.wrong.push(`${bucket}: check ${id} found other bytes for ${digest} of ${size}`);
      if (random.chance(0.2)) await namesOf(stage, turn, { digest, size, gen });
    }
    more = page.more;
    if (page.contents.length === 0) return;
  }
}

async function isStillThere(
  stage: Stage,
  { bucket, row }: { bucket: string; row: number },
): Promise<boolean> {
  const { storage } = stage.simulation.branches.object(bucket);
  return storage.read("SELECT 1 FROM contents WHERE rowid = ?", row).length > 0;
}

interface Named {
  readonly digest: string;
  readonly size: number;
  readonly gen: number;
}

/** Who has some bytes: each version that says so has them, and none that can be read is lacking. */
async function namesOf(
  stage: Stage,
  { id, random, bucket }: Turn,
  { digest, size, gen }: Named,
): Promise<void> {
  const { admin, erasures } = stage.branch(bucket);
  await told(() => admin.forksHolding({ digest, size }));
  const isByName = random.chance(0.5);
  const begun = stage.stamp();
  const request = { digest, size, gen, limit: 100 };
  await askAside(
    stage,
    { id: `${id}.names`, bucket, text: `names ${id} of ${digest.slice(0, 6)}` },
    {
      async call() {
        if (isByName) {
          const names = await admin.namesOf(request);
          return names.map(({ path, commit }) => ({ path, version: commit }));
        }
        // In order: versions, then what is filled beside them.
        const holders: ByteHolder[] = [];
        for (let after: string | null | undefined; after !== null; ) {
          const asked = { contents: [{ digest, size }], ...(after !== undefined && { after }) };
          const page: AnswerOf<ErasureCalls["holders"]> = await erasures.holders(asked);
          if (!page.ok && after === undefined) return null;
          if (!page.ok) break;
          holders.push(...page.holders);
          after = page.next;
        }
        return holders.flatMap((one) =>
          one.kind === "version" ? [{ path: one.path, version: one.version }] : [],
        );
      },
      saidOf: (names): Said => {
        if (names === null) return NEVER_THERE;
        if (stage.isSmall && !stage.isUnmoved(bucket, begun)) return { kind: "unknown" };
        const told = names.map(({ path, version }) => `${path} ${version}`);
        return {
          kind: "saw",
          what: `named ${told}`,
          of(facts, observer) {
            const isHere = facts.generation === gen;
            if (!isByName && !isHere) return true;
            const states = stage.observers.get(bucket)?.states ?? [];
            const mine = states.filter((one) => one.generation === gen && one.commit !== null);
            // An import on its way, whose rows are there and which nobody sees yet.
            if (mine.length === 0) return true;
            const isTrue = names.every(
              ({ path, version }) =>
                version === null ||
                // An import that brought a commit back has left its row in an earlier generation under such an id.
                (!isHere && version.startsWith("~")) ||
                mine.some(
                  (one) =>
                    one.isOfArchive === true || (one.commit === version && one.tree.get(path) === digest),
                ) ||
                stage.erased.some((one) => one.path === path),
            );
            const shown = mine.filter(
              ({ commit }) => isHere && commit !== null && observer.shows(facts, commit),
            );
            const paths = new Set(names.map(({ path }) => path));
            const lacks = shown.some(({ tree }) =>
              [...tree].some(
                ([path, other]) =>
                  other === digest &&
                  !paths.has(path) &&
                  !stage.erased.some((one) => one.path === path && one.digest === digest),
              ),
            );
            return isTrue && !lacks;
          },
        };
      },
    },
  );
}

/** A look for blobs that nothing names. What is named is found by none; this is told by the end of the history. */
async function scan(stage: Stage, { random, bucket }: Turn): Promise<void> {
  const { admin } = stage.branch(bucket);
  const begun = await told(() => admin.sweep({ remove: random.chance(0.5) }));
  if (!begun?.ok) return;
  for (let n = 0; n < 4; n++) {
    const answer = await told(() => admin.sweepStatus({ since: begun.since }));
    if (answer?.ok && answer.found > answer.seen)
      stage.wrong.push(`${bucket}: a scan found ${answer.found} orphans among ${answer.seen} blobs`);
    if (!answer?.ok || answer.done) return;
    await scheduler.wait(random.next() * 200);
  }
}
