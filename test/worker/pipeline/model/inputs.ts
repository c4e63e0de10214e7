import { env, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { bucketName } from "../../../../protocol/names.ts";
import type { CommitPosition, FeedEvent } from "../../../../worker/branch/contract/pipelines.ts";
import { killBranch, killed, survived } from "../kill.ts";
import { contentOf, master } from "../support.ts";
import { NaiveBranch } from "./naive-branch.ts";
import type { Tree } from "./naive-tree.ts";

/** One commit: a text writes a path, null removes it. */
export type Edit = Readonly<Record<string, string | null>>;

/** The input branches of a run: the real ones, and what the model knows of them. */
export class Inputs {
  readonly branches: ReadonlyMap<string, NaiveBranch>;

  constructor(repos: readonly string[]) {
    this.branches = new Map(repos.map((repo) => [repo, new NaiveBranch()]));
  }

  of(repo: string): NaiveBranch {
    const branch = this.branches.get(repo);
    if (!branch) throw new Error(`no repo ${repo}`);
    return branch;
  }

  async create(repo: string): Promise<void> {
    const answer = await survived(() => master(repo).lifecycle.create());
    if (!answer.ok && answer.reason !== "already-exists") throw new Error(`${repo}: ${answer.reason}`);
    this.of(repo).create();
  }

  async destroy(repo: string): Promise<void> {
    const answer = await survived(() => master(repo).lifecycle.destroy());
    if (!answer.ok && answer.reason !== "no-such-branch") throw new Error(`${repo}: ${answer.reason}`);
    await this.#recordNews(repo, { tree: new Map(), events: 1 });
  }

  /** One commit; none if the edit changes nothing. */
  async commit(repo: string, edit: Edit): Promise<void> {
    const before = this.of(repo).tree;
    const tree = edited(before, edit);
    const events = isSameTree(before, tree) ? 0 : 1;
    for (let made = 0; ; ) {
      try {
        await commitOnce(repo, edit);
        made = events;
      } catch (error) {
        if (!killed(error)) throw error;
        // A client that got no answer looks what became of it.
        made = (await this.#news(repo)).length;
      }
      if (made === events) break;
    }
    await this.#recordNews(repo, { tree, events });
  }

  async kill(repo: string): Promise<void> {
    await killBranch({ repo, branch: "master" });
  }

  /** What was not told yet is told now, without the pauses between tries. */
  async nudge(): Promise<void> {
    for (const [repo, { head }] of this.branches) {
      if (head.generation === 0) continue;
      await survived(async () =>
        runInDurableObject(stubOf(repo), (_, state) =>
          state.storage.sql.exec("UPDATE outbox SET due = 0").toArray(),
        ),
      );
      await survived(async () => runDurableObjectAlarm(stubOf(repo)));
    }
  }

  async #recordNews(repo: string, { tree, events }: { tree: Tree; events: number }): Promise<void> {
    const news = await this.#news(repo);
    if (news.length !== events) throw new Error(`${repo} has ${news.length} new events, not ${events}`);
    for (const event of news) this.of(repo).record(event, tree);
  }

  async #news(repo: string): Promise<readonly FeedEvent[]> {
    const { generation, seq }: CommitPosition = this.of(repo).head;
    return (await survived(() => master(repo).feed.read({ cursor: { generation, seq }, limit: 100 }))).events;
  }
}

function stubOf(repo: string) {
  return env.BRANCH.getByName(bucketName({ repo, branch: "master" }));
}

async function commitOnce(repo: string, edit: Edit): Promise<void> {
  const branch = master(repo);
  const opened = await branch.uploads.open({});
  if (!opened.ok) throw new Error(`${repo}: ${opened.reason}`);
  const { upload } = opened;
  const texts = Object.values(edit).filter((text) => text !== null);
  await branch.uploads.add({ upload, contents: texts.map(contentOf) });
  const operations = Object.entries(edit).map(([path, text]) => {
    if (text === null) return { delete: path };
    const { digest, size } = contentOf(text);
    return { put: path, digest, size };
  });
  const made = await branch.files.commit({ upload, operations });
  if (!made.ok) throw new Error(`${repo}: ${JSON.stringify(made)}`);
}

/** Deaths first: a path may become a directory, or a directory a file. */
function edited(tree: Tree, edit: Edit): Tree {
  const next = new Map(tree);
  for (const [path, text] of Object.entries(edit)) {
    if (text === null) next.delete(path);
    else next.set(path, text);
  }
  return next;
}

function isSameTree(a: Tree, b: Tree): boolean {
  return a.size === b.size && [...a].every(([path, text]) => b.get(path) === text);
}
