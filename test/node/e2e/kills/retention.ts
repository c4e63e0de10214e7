import { CommitPage } from "../../../../protocol/commits.ts";
import { unexpected } from "./client.ts";
import type { Life } from "./life.ts";
import { KEPT, type Load, REPO } from "./load.ts";

/** Commits that stay between two rounds: more than may come late of what the gateway goes on with by itself. */
const LEFT = 5;
/** Those that clients name afterwards. */
const NAMED = 2;

/** All but the newest commits of each branch go while something else is done, so that the collector has work beside the next round. */
export async function shortenHistories(load: Load, meanwhile: () => Promise<void>): Promise<void> {
  const lives = branchesOf(load);
  await Promise.all(lives.map((life) => keep(load, life, LEFT)));
  await meanwhile();
  await Promise.all(lives.map((life) => keep(load, life, KEPT)));
  for (const life of lives) life.forgetAllBut(NAMED);
}

/** How many commits the branches have given up. */
export async function givenUp(load: Load): Promise<number> {
  const counts = branchesOf(load).map(async (life) => life.log.size - (await commitsOf(load, life)));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

function branchesOf({ history }: Load): Life[] {
  return [...history.lives.values()].filter(({ repo }) => repo === REPO);
}

async function commitsOf({ client }: Load, { path }: Life): Promise<number> {
  const answer = await client.until(() => client.control("GET", `${path}/commits?limit=1000`));
  if (answer.status !== 200) throw unexpected(answer);
  return CommitPage.parse(JSON.parse(answer.text)).commits.length;
}

async function keep({ client }: Load, { path }: Life, commits: number): Promise<void> {
  const answer = await client.until(() => client.control("PUT", `${path}/keep`, { keep: { commits } }));
  if (answer.status !== 200) throw unexpected(answer);
}
