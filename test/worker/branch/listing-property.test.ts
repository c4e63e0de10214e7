import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { ListFiles } from "../../../worker/branch/contract/files.ts";
import { Ledger } from "../../../worker/branch/ledger/ledger.ts";
import { pageScope, readPage } from "../../../worker/branch/read/listing.ts";
import { NEAR_HEAD_CHANGES, openWalk } from "../../../worker/branch/read/walk.ts";
import { sampled } from "../../support/suite.ts";
import {
  type BranchStub,
  byBytes,
  commitFiles,
  committed,
  freshBranch,
  randomNumbers,
  shown,
} from "./support.ts";

const COMMITS = 60;
const SEGMENTS = ["a", "a-1", "a.b", "a0", "b", "foo", "foo+1", "\u{1F600}", "\uE000", "\uFFFD", "é", "z"];
const PREFIXES = ["", "a", "a/", "a-", "foo", "foo/", "foo/a", "\u{1F600}", "\uE000/", "é", "zz"];

type Tree = ReadonlyMap<string, string>;

/** The whole listing as S3 describes it, with nothing clever. */
function naive(tree: Tree, { prefix, delimiter }: { prefix: string; delimiter: "/" | undefined }): string[] {
  const entries = new Set<string>();
  for (const path of [...tree.keys()].sort(byBytes)) {
    if (!path.startsWith(prefix)) continue;
    const slash = delimiter ? path.indexOf("/", prefix.length) : -1;
    entries.add(slash < 0 ? path : `[${path.slice(0, slash + 1)}]`);
  }
  return [...entries];
}

function isFree(path: string, tree: Tree): boolean {
  const plain = path.endsWith("/") ? path.slice(0, -1) : path;
  return [...tree.keys()].every((other) => {
    const below = other.startsWith(`${plain}/`) && !path.endsWith("/");
    return !below && !path.startsWith(`${other}/`);
  });
}

/** Random commits; answers the tree at each. */
async function grow(branch: BranchStub, seed: number): Promise<Map<string, Tree>> {
  const random = randomNumbers(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const history = new Map<string, Tree>();
  let tree = new Map<string, string>();
  while (history.size < COMMITS) {
    const next = new Map(tree);
    const deletes = [...tree.keys()].filter(() => random() < 0.15);
    for (const path of deletes) next.delete(path);
    const puts: Record<string, string> = {};
    for (let n = Math.floor(random() * 6); n > 0; n--) {
      const depth = 1 + Math.floor(random() * 3);
      const segments = Array.from({ length: depth }, () => pick(SEGMENTS));
      const path = segments.join("/") + (random() < 0.15 ? "/" : "");
      if (!isFree(path, next)) continue;
      puts[path] = path.endsWith("/") ? "" : `text ${Math.floor(random() * 50)}`;
      next.set(path, puts[path]);
    }
    const commit = committed(await commitFiles(branch, { puts, deletes }));
    if (commit !== null) history.set(commit, next);
    tree = next;
  }
  return history;
}

/** All pages of a listing. */
async function allPages(list: (after: string) => Promise<{ entries: string[]; next: string | null }>) {
  const entries: string[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const page = await list(after);
    entries.push(...page.entries);
    after = page.next;
  }
  return entries;
}

for (const [seed, options] of sampled([1, 2, 3], { every: 3 }))
  describe(`random history ${seed}`, options, () => {
    test("every commit lists, page by page, what a naive tree has", async () => {
      const branch = await freshBranch();
      const history = await grow(branch, seed);
      const random = randomNumbers(seed + 1000);
      for (const [commit, tree] of history) {
        for (let round = 0; round < 3; round++) {
          const prefix = PREFIXES[Math.floor(random() * PREFIXES.length)] ?? "";
          const delimiter = random() < 0.5 ? "/" : undefined;
          const limit = 1 + Math.floor(random() * 7);
          const request: ListFiles = { prefix, limit, commit, ...(delimiter && { delimiter }) };
          const entries = await allPages(async (after) => {
            const page = await branch.files.list({ ...request, after });
            if (!page.ok) throw new Error(page.reason);
            expect(page.entries.length).toBe(page.truncated ? limit : page.entries.length);
            return { entries: page.entries.map(shown), next: page.next };
          });
          expect(entries).toEqual(naive(tree, { prefix, delimiter }));
        }
      }
    });

    test("every commit lists the same when it is far from HEAD", async () => {
      const branch = await freshBranch();
      const history = await grow(branch, seed);
      await runInDurableObject(branch, async (_, { storage }) => {
        const ledger = new Ledger(storage);
        const random = randomNumbers(seed + 2000);
        const head = ledger.exists ? ledger.generations.live()?.head : undefined;
        if (!head) throw new Error("no branch");
        const farHead = { ...head, deaths: head.deaths + NEAR_HEAD_CHANGES };
        for (const [id, tree] of history) {
          const commit = ledger.commits.byId(id);
          if (!commit) throw new Error(`no commit ${id}`);
          const prefix = PREFIXES[Math.floor(random() * PREFIXES.length)] ?? "";
          const delimiter = random() < 0.5 ? "/" : undefined;
          const entries = await allPages(async (after) => {
            const page = { prefix, delimiter, after, limit: 1 + Math.floor(random() * 7) } as const;
            const walk = openWalk(ledger.sql, {
              position: commit,
              commit,
              head: farHead,
              isNextWritten: false,
              ...pageScope(page),
            });
            const { entries, next } = readPage(walk, page);
            return { entries: entries.map(shown), next };
          });
          expect(entries).toEqual(naive(tree, { prefix, delimiter }));
        }
      });
    });

    test("the changes of the feed, applied in order, make the same trees", async () => {
      const branch = await freshBranch();
      const history = await grow(branch, seed);
      const tree = new Set<string>();
      let cursor = { generation: 0, seq: 0 };
      for (let more = true; more; ) {
        const page = await branch.feed.read({ cursor, limit: 3 });
        for (const event of page.events) {
          const changes = [...event.changes];
          for (let after = event.next; after !== null; ) {
            const { generation, seq } = event;
            const rest = await branch.feed.changes({ generation, seq, after, limit: 2 });
            changes.push(...rest.changes);
            after = rest.next;
          }
          for (const { path, now } of changes) now ? tree.add(path) : tree.delete(path);
          expect([...tree].sort(byBytes)).toEqual([...(history.get(event.id)?.keys() ?? [])].sort(byBytes));
          cursor = event;
        }
        more = page.more;
      }
    });
  });
