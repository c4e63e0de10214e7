import { bucketName } from "../../protocol/names.ts";
import { RepoList, RepoUsage, type Space } from "../../protocol/repos.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { type Client, GatewayError } from "../gateway/client.ts";
import type { findConnection } from "../gateway/connection/connection.ts";
import { catalogueSpace, isAlmostFull } from "../gateway/usage.ts";
import { type Finding, foundAt } from "./finding.ts";

const ASKED_AT_ONCE = 8;
const KEEP = "keep less of its history: sluice branch keep";

/**
 * The databases that are almost full: of branches, of pipelines, of the catalogue.
 */
export function spaceFindings(...from: Parameters<typeof findConnection>): Promise<Finding[]> {
  return foundAt(from, almostFull);
}

/** How full the database of something is, in words. */
export function fullWords(of: string, { usedBytes, limitBytes }: Space): string {
  return `the database of ${of} is ${Math.round((usedBytes / limitBytes) * 100)} % full`;
}

async function almostFull(client: Client): Promise<Finding[]> {
  const findings: Finding[] = [];
  const look = (of: string, { space, fix }: { space: Space | null; fix: string }): void => {
    if (!space || !isAlmostFull(space)) return;
    findings.push({ check: "space", state: "warn", found: fullWords(of, space), fix });
  };
  const { repos } = await client.call(RepoList, { method: "GET", path: "/repos" });
  await forEachLimited(repos, {
    limit: ASKED_AT_ONCE,
    work: async ({ name: repo }) => {
      const usage = await sizesOf(client, repo);
      for (const { name: branch, database } of usage?.branches ?? []) {
        const bucket = bucketName({ repo, branch });
        look(`the branch ${bucket}`, { space: database, fix: `${KEEP} ${bucket} --commits N` });
      }
      const fix = `look at what it keeps: sluice repo usage ${repo}`;
      look(`the pipeline ${repo}`, { space: usage?.pipeline ?? null, fix });
    },
  });
  const catalogue = (await catalogueSpace(client)) ?? null;
  look("the catalogue", { space: catalogue, fix: "delete pipelines and branches that nobody needs" });
  return findings.sort((one, other) => (one.found < other.found ? -1 : 1));
}

async function sizesOf(client: Client, repo: string): Promise<RepoUsage | undefined> {
  try {
    const path = `/repos/${encodeURIComponent(repo)}/usage`;
    return await client.call(RepoUsage, { method: "GET", path, query: { sizes: "true" } });
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return undefined;
    throw error;
  }
}
