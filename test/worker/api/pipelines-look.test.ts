import { describe, expect, test } from "vitest";
import {
  LookBudget,
  lookAfter,
  lookAtInput,
  MAX_KEPT_MATCHES,
  MAX_LOOK_CALLS,
} from "../../../worker/api/pipelines/look.ts";
import { planUpdate } from "../../../worker/api/pipelines/plan.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { ancestors, type Glob, parseGlob } from "../../../worker/core/glob.ts";
import { comparePaths } from "../../../worker/core/path-order.ts";
import type { PipelineApi, PlanCall } from "../../../worker/pipeline/contract.ts";
import { seededRandom } from "../../support/random.ts";

function globOf(text: string): Glob {
  const parsed = parseGlob(text);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.glob;
}

interface Listed {
  readonly prefix: string;
  readonly delimiter?: string;
  readonly after?: string;
  readonly limit: number;
}

/**
 * A branch of these paths that counts the calls it gets. `short`: how many entries a page has, at most. `isDead`: of paths that
 * it has no more, and at which it gives up a page.
 */
class CountedBranch {
  calls = 0;
  readonly #paths: readonly string[];
  readonly #short: () => number;
  readonly #onCall: () => void;
  readonly #isDead: (path: string) => boolean;

  constructor(
    paths: readonly string[],
    { short = (): number => 1000, onCall = () => {}, isDead = (_path: string): boolean => false } = {},
  ) {
    this.#paths = paths.toSorted(comparePaths);
    this.#short = short;
    this.#onCall = onCall;
    this.#isDead = isDead;
  }

  get api(): BranchApi {
    return {
      lifecycle: { status: () => this.#called({ ok: true, head: "head" }) },
      files: { list: (request: Listed) => this.#called({ ok: true, ...this.#page(request) }) },
      feed: {
        position: ({ commit }: { commit: string }) =>
          this.#called({ gen: 1, seq: commit === "head" ? 2 : 1 }),
        filesAt: (request: Listed) => {
          const { entries, next } = this.#page(request);
          return this.#called({ files: entries, next });
        },
      },
    } as unknown as BranchApi;
  }

  async #called<T>(answer: T): Promise<T> {
    this.calls++;
    this.#onCall();
    return answer;
  }

  #page({ prefix, delimiter, after = "", limit }: Listed): { entries: object[]; next: string | null } {
    const most = Math.min(limit, this.#short());
    const entries: object[] = [];
    let last = after;
    const start = comparePaths(after, prefix) < 0 ? this.#from(prefix) : this.#behind(after);
    for (let at = start; this.#paths[at]?.startsWith(prefix); at++) {
      const path = this.#paths[at] ?? "";
      const folded = delimiter ? path.slice(0, path.indexOf("/", prefix.length) + 1) : "";
      if (folded !== "" && folded === last) {
        at = this.#behind(folded + "\u{10ffff}".repeat(256)) - 1;
        continue;
      }
      if (this.#isDead(path)) return { entries, next: path };
      if (entries.length === most) return { entries, next: last };
      last = folded || path;
      entries.push(folded ? { kind: "prefix", path: folded } : fileEntry(path));
    }
    return { entries, next: null };
  }

  /** The index of the first path that is a text or behind it. */
  #from(text: string): number {
    const behind = this.#behind(text);
    return this.#paths[behind - 1] === text ? behind - 1 : behind;
  }

  /** The index of the first path behind a text. */
  #behind(text: string): number {
    let [low, high] = [0, this.#paths.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (comparePaths(this.#paths[middle] ?? "", text) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function fileEntry(path: string): object {
  return { kind: path.endsWith("/") ? "dir" : "file", path, digest: path, size: 1 };
}

function numbered(many: number, name: (n: number) => string): string[] {
  return Array.from({ length: many }, (_, n) => name(n));
}

/** What a glob matches of a tree, told without a look. */
function matchesIn(paths: readonly string[], glob: Glob): string[] {
  const all = paths.flatMap((path) => [...ancestors(path), path.replace(/\/$/, "")]);
  return [...new Set(all)].filter((path) => glob.matches(path)).sort(comparePaths);
}

const folder = (n: number): string => `folder-${String(n).padStart(6, "0")}`;

describe("a look at a branch", () => {
  test("counts a hundred thousand matches to the last with 200 calls, however they are laid out", async () => {
    const layouts: [string, string[]][] = [
      ["/*", numbered(100_000, (n) => `file-${n}`)],
      ["/*/*", numbered(100_000, (n) => `${folder(n % 5000)}/${n}`)],
      ["/*/*", numbered(100_000, (n) => `${folder(n)}/only`)],
      // Folders that match as a whole.
      ["/*", numbered(300_000, (n) => `${folder(n % 100_000)}/${n}`)],
    ];
    for (const [glob, paths] of layouts) {
      const branch = new CountedBranch(paths);
      const budget = new LookBudget({ inputs: [{ from: null }], now: () => 0 });
      const look = await lookAtInput(branch.api, globOf(glob), budget);
      expect(look).toMatchObject({ matches: 100_000, complete: true, hasData: true });
      expect(look.paths.length).toBe(MAX_KEPT_MATCHES);
      expect(branch.calls).toBeLessThanOrEqual(MAX_LOOK_CALLS);
    }
  });

  test("ends after 200 calls, and then says how many it has seen", async () => {
    const branch = new CountedBranch(numbered(300_000, (n) => `${folder(n % 20)}/${n}`));
    const budget = new LookBudget({ inputs: [{ from: null }], now: () => 0 });
    const look = await lookAtInput(branch.api, globOf("/*/*"), budget);
    expect(branch.calls).toBeLessThanOrEqual(MAX_LOOK_CALLS);
    expect(look.complete).toBe(false);
    expect(look.matches).toBeGreaterThan(100_000);
    expect(look.matches).toBeLessThan(300_000);
  });

  test("ends after two seconds, and then says how many it has seen", async () => {
    let now = 0;
    const onCall = () => {
      now += 500;
    };
    const branch = new CountedBranch(
      numbered(50_000, (n) => `file-${n}`),
      { onCall },
    );
    const budget = new LookBudget({ inputs: [{ from: null }], now: () => now });
    const look = await lookAtInput(branch.api, globOf("/*"), budget);
    // Its status and three pages take two seconds; its place is asked for after that.
    expect(look).toMatchObject({ matches: 3000, complete: false, hasData: true });
    expect(branch.calls).toBe(5);
  });

  test("takes no more calls if there are others in the request, and each sees something", async () => {
    const large = new CountedBranch(numbered(300_000, (n) => `file-${n}`));
    const written = new CountedBranch(numbered(300_000, (n) => `file-${n}`));
    const small = new CountedBranch(numbered(200, (n) => `${folder(n % 20)}/${n}`));
    const inputs = [{ from: null }, { from: "from" }, { from: null }];
    const budget = new LookBudget({ inputs, now: () => 0 });
    const all = globOf("/**");
    const looks = [
      await lookAtInput(large.api, all, budget),
      await lookAfter(written.api, { glob: all, from: "from" }, budget),
      await lookAtInput(small.api, all, budget),
    ];
    expect(large.calls + written.calls + small.calls).toBeLessThanOrEqual(MAX_LOOK_CALLS);
    expect(looks.map(({ complete, matches }) => [complete, matches > 0])).toEqual([
      [false, true],
      [false, true],
      [true, true],
    ]);
  });

  test("passes over folders that match as a whole, whatever is in them", async () => {
    const paths = numbered(100_000, (n) => `${folder(n % 50)}/${n}`);
    const branch = new CountedBranch(paths);
    expect(await lookAtInput(branch.api, globOf("/*"))).toMatchObject({ matches: 50, complete: true });
    expect(branch.calls).toBeLessThan(10);
    const written = new CountedBranch(paths);
    const look = await lookAfter(written.api, { glob: globOf("/*"), from: "from" });
    expect(look).toMatchObject({ matches: 50, complete: true });
    expect(written.calls).toBeLessThan(60);
  });

  test("sees what there is, each once and in order, in whatever tree and pages", async () => {
    const random = seededRandom(24);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
    const names = ["a", "a-", "a0", "b", "ä", "\u{1f600}", "\u{10ffff}"];
    const globs = ["/", "/*", "/*/*", "/**", "/a*/*", "/{a,b}*/*", "/a/**/b", "/*/{a,b}", "/a/b", "/b*/a/*"];
    for (let round = 0; round < 1500; round++) {
      const files = new Set<string>();
      for (let n = 0; n < random() * 40; n++) {
        const depth = 1 + Math.floor(random() * 4);
        files.add(numbered(depth, () => pick(names)).join("/") + pick(["", "", "", "/"]));
      }
      // A path is a file or a directory, and one that holds something has no entry of its own.
      const paths = [...files].filter((path) => {
        const below = `${path.replace(/\/$/, "")}/`;
        return ![...files].some((other) => other !== path && other.startsWith(below));
      });
      const text = pick(globs);
      const glob = globOf(text);
      const most = 1 + Math.floor(random() * 4);
      const dead = new Set(paths.filter(() => random() < 0.1));
      const branch = new CountedBranch(paths, { short: () => most, isDead: (path) => dead.has(path) });
      const living = paths.filter((path) => !dead.has(path));
      const hasData = living.some((path) => !path.endsWith("/"));
      const expected = matchesIn(living, glob).filter((path) => path !== "" || hasData);
      const told = { hasData, paths: expected, matches: expected.length, complete: true };
      const tree = `${text} of ${paths.join(" ")}`;
      const { api } = branch;
      expect(await lookAtInput(api, glob), tree).toMatchObject(told);
      expect(await lookAfter(api, { glob, from: "from" }), tree).toMatchObject(told);
    }
  });
});

describe("a plan over a look", () => {
  /** As the plan of an update that changes nothing tells it, of a pipeline that has no results. */
  async function planOf(paths: readonly string[], { runsAll = false, knowsAll = true } = {}) {
    const branch = new CountedBranch(paths);
    const input = { from: null };
    const look = await lookAtInput(branch.api, globOf("/*"));
    const total = knowsAll ? look.matches : null;
    const pipeline = {
      specification: {
        plan: async ({ ids }: PlanCall) => ({
          ...{ ok: true, changes: [], runsAll, kept: ids.map(() => false) },
          why: ids.map(() => ({ reason: "new" })),
        }),
      },
    } as unknown as PipelineApi;
    const { feed, ...others } = branch.api;
    const api = { ...others, feed: { ...feed, fingerprint: async () => ({ digest: "d", size: 1 }) } };
    const context = { branch: () => api, pipeline: () => pipeline } as unknown as Parameters<
      typeof planUpdate
    >[0];
    const spec = { pipeline: { name: "planned" } };
    return await planUpdate(context, {
      ...{ spec, reprocess: runsAll, inputs: [{ name: "i", repo: "r", branch: "b", ...input }] },
      ...{ looks: [look], total, atLeast: look.matches },
    } as unknown as Parameters<typeof planUpdate>[1]);
  }

  test("says of 5,000 datums which would run, and of more how many were seen that would", async () => {
    const files = numbered(5001, (n) => `file-${n}`);
    expect(await planOf(files.slice(1))).toMatchObject({ run: 5000, kept: 0, counted: true });
    expect(await planOf(files)).toMatchObject({ run: 5000, kept: 0, counted: false });
  });

  test("asks for the content of 500 directories at most, and says how many of those would run", async () => {
    const folders = numbered(501, (n) => `${folder(n)}/file`);
    expect(await planOf(folders.slice(1))).toMatchObject({ run: 500, counted: true });
    expect(await planOf(folders)).toMatchObject({ run: 500, counted: false });
  });

  test("of an update that runs all again says how many there are, or how many were seen", async () => {
    const files = numbered(6000, (n) => `file-${n}`);
    expect(await planOf(files, { runsAll: true })).toMatchObject({ run: 6000, kept: 0, counted: true });
    const seen = await planOf(files, { runsAll: true, knowsAll: false });
    expect(seen).toMatchObject({ run: 6000, kept: 0, counted: false, why: [{ count: null }] });
  });
});
