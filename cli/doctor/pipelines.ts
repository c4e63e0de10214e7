import { NAME_PATTERN } from "../../protocol/names.ts";
import { Pipeline, PipelineList } from "../../protocol/pipelines.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { type Client, GatewayError } from "../gateway/client.ts";
import type { findConnection } from "../gateway/connection/connection.ts";
import { type Finding, foundAt } from "./finding.ts";

const ASKED_AT_ONCE = 8;

/** The pipelines that wait to be taken over: they are from before pipelines had owners, so no secret serves them but one that names them. */
export function pipelineFindings(...from: Parameters<typeof findConnection>): Promise<Finding[]> {
  return foundAt(from, async (client) => (await waiting(client)).map(findingOf));
}

async function waiting(client: Client): Promise<string[]> {
  const { pipelines } = await client.call(PipelineList, { method: "GET", path: "/pipelines" });
  const found: string[] = [];
  await forEachLimited(pipelines, {
    limit: ASKED_AT_ONCE,
    work: async ({ name }) => {
      // It goes into a line for a shell: nothing but a name may.
      if (NAME_PATTERN.test(name) && (await isWaiting(client, name))) found.push(name);
    },
  });
  return found.sort();
}

async function isWaiting(client: Client, name: string): Promise<boolean> {
  try {
    // Absent: this gateway has no owners, and there is nothing to be done yet.
    return (await client.call(Pipeline, { method: "GET", path: `/pipelines/${name}` })).limited === null;
  } catch (error) {
    // It was deleted meanwhile.
    if (error instanceof GatewayError && error.status === 404) return false;
    throw error;
  }
}

function findingOf(name: string): Finding {
  return {
    check: "pipeline",
    state: "warn",
    found: `${name} is from before pipelines had owners: no secret serves it but one that names it`,
    fix: `look at its spec, and take it over with a key that is not limited to repos: sluice pipeline inspect ${name} --spec | sluice pipeline update -f -`,
  };
}
