import { Loops } from "../../protocol/admin.ts";
import { bucketName } from "../../protocol/names.ts";
import { PipelineList } from "../../protocol/pipelines.ts";
import { RepoList, RepoUsage, type Space } from "../../protocol/repos.ts";
import { encodePath } from "../../protocol/requests.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { branchPath } from "../gateway/address.ts";
import { catalogueSpace, isAlmostFull } from "../gateway/branches.ts";
import { Client, unlessRefused } from "../gateway/client.ts";
import { findConnection } from "../gateway/connection/connection.ts";
import { CliError } from "../output/failure.ts";
import type { Finding } from "./machine.ts";

const ASKED_AT_ONCE = 8;

/** The background jobs of branches and pipelines that fail, each with its last error. */
export function loopFindings(...from: Parameters<typeof findConnection>): Promise<Finding[]> {
  return foundAt(from, failing);
}

async function failing(client: Client): Promise<Finding[]> {
  const objects: { readonly name: string; readonly path: string }[] = [];
  const { pipelines } = await client.get(PipelineList, "/pipelines");
  for (const { name } of pipelines)
    objects.push({ name: `pipeline ${name}`, path: `/pipelines/${encodePath(name)}` });
  const { repos } = await client.get(RepoList, "/repos");
  for (const { name: repo, branches } of repos) {
    for (const branch of branches) {
      const path = branchPath({ repo, branch });
      objects.push({ name: `branch ${bucketName({ repo, branch })}`, path });
    }
  }
  const findings: Finding[] = [];
  await forEachLimited(objects, {
    limit: ASKED_AT_ONCE,
    work: async ({ name, path }) => {
      // It may be gone meanwhile, or the key may not look.
      const told = await unlessRefused(client.get(Loops, `${path}/loops`), 404, 403);
      for (const loop of told?.loops ?? []) {
        if (loop.state === "failing" || loop.tries > 0) findings.push(findingOf(name, loop));
      }
    },
  });
  return findings.sort((one, other) => (one.found < other.found ? -1 : 1));
}

function findingOf(object: string, { name, tries, due, error }: Loops["loops"][number]): Finding {
  const when = due === null ? "" : `, and is tried again at ${new Date(due).toISOString()}`;
  return {
    check: "loops",
    state: "warn",
    found: `${name} of ${object} failed ${tries === 1 ? "once" : `${tries} times in a row`}${when}: ${error}`,
    fix: "mend what the error names: it goes on by itself. The gateway's log has each try",
  };
}

const KEEP = "keep less of its history: sluice branch keep";

/** The databases that are almost full: of branches, of pipelines, of the catalogue. */
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
  const { repos } = await client.get(RepoList, "/repos");
  await forEachLimited(repos, {
    limit: ASKED_AT_ONCE,
    work: async ({ name: repo }) => {
      const sizes = client.get(RepoUsage, `/repos/${encodePath(repo)}/usage`, { sizes: "true" });
      const usage = await unlessRefused(sizes, 404);
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

/** What a look at the gateway finds. Nothing, if there is none or its key may not look: other findings say that. */
async function foundAt(
  from: Parameters<typeof findConnection>,
  look: (client: Client) => Promise<Finding[]>,
): Promise<Finding[]> {
  let client: Client | undefined;
  try {
    client = new Client(findConnection(...from));
    return await look(client);
  } catch (error) {
    if (error instanceof CliError) return [];
    throw error;
  } finally {
    await client?.close();
  }
}
