import { z } from "zod";
import { MAX_LIST_MAKERS, type Provenance } from "../../../protocol/commits.ts";
import { ApiError } from "../answer/errors.ts";
import { branchError } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, readQuery } from "../request/api-request.ts";
import { commitInPath } from "./log.ts";

const ProvenanceQuery = z.strictObject({
  path: z.string().min(1, { error: "must be the path of a file of the commit" }),
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(MAX_LIST_MAKERS).default(MAX_LIST_MAKERS),
});

/** `GET …/commits/{id}/provenance?path=`: the datums that made a file of the commit, and what they read. */
export async function readProvenance(asked: ApiRequest): Promise<Response> {
  const { path, after = null, limit } = readQuery(asked, ProvenanceQuery);
  const { id: commit, origin: job } = await commitInPath(asked);
  await mustHold(asked, { commit, path });
  if (job === null) return Response.json({ path, job, datums: [], next: null } satisfies Provenance);
  // A pipeline's output is in the repo of its name.
  const { repo = "", branch = "" } = asked.params;
  const page = await asked.context.pipeline(repo).provenance({ job, branch, path, after, limit });
  if (page.ok) {
    const { datums, next } = page;
    return Response.json({ path, job, datums: [...datums], next } satisfies Provenance);
  }
  throw refused(page.reason, job);
}

async function mustHold(
  asked: ApiRequest,
  { commit, path }: { commit: string; path: string },
): Promise<void> {
  const { address, branch } = branchInPath(asked);
  const read = await branch.read({ path, commit });
  if (read.ok) return;
  if (read.reason === "no-such-branch" || read.reason === "no-such-version") {
    throw branchError({ ok: false, reason: read.reason }, address);
  }
  throw new ApiError(
    "NotFound",
    `The commit '${commit}' has no file '${path}': 'sluice commit diff' shows what it changed.`,
  );
}

function refused(reason: "no-such-job" | "not-kept" | "not-yet", job: string): ApiError {
  switch (reason) {
    case "no-such-job":
      return new ApiError(
        "NotKept",
        `What made the file is kept no more: the pipeline of the job '${job}' was deleted.`,
      );
    case "not-kept":
      return new ApiError(
        "NotKept",
        `What made the file is not known: the job '${job}' is older than what the pipeline keeps of its outputs. Ask for a newer commit.`,
      );
    case "not-yet":
      return new ApiError(
        "Unavailable",
        `The end of the job '${job}' is being written down: ask again in a moment.`,
      );
  }
}
