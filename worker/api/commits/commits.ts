import { z } from "zod";
import { CommitId } from "../../../protocol/commits.ts";
import {
  type CommitCreated,
  CreateCommit,
  type FilePage,
  MAX_LIST_ENTRIES,
} from "../../../protocol/files.ts";
import type { Operation } from "../../branch/contract/files.ts";
import { hasLevel } from "../../core/permissions.ts";
import { accepted, branchError } from "../answer/failures.ts";
import { type ApiRequest, annotationOf, branchInPath, readJson, readQuery } from "../request/api-request.ts";

/** `POST /repos/{repo}/branches/{branch}/commits`: many puts and deletes as one commit, or into the open one that is named. */
export async function createCommit(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const { upload, session, operations, ...said } = await readJson(asked, CreateCommit);
  const committed = accepted(
    await branch.files.commit({
      upload,
      operations: operations.map(operationOf),
      annotation: annotationOf(asked, said),
      ...(session !== undefined && { openCommit: session }),
    }),
    address,
  );
  return Response.json({ commit: committed.commit } satisfies z.infer<typeof CommitCreated>, { status: 201 });
}

function operationOf(operation: CreateCommit["operations"][number]): Operation {
  if ("delete" in operation) return operation;
  const { attributes, ...put } = operation;
  return attributes === undefined ? put : { ...put, attributes };
}

const FilesQuery = z
  .strictObject({
    prefix: z.string().default(""),
    /** Only files that were written after this commit. */
    since: CommitId.optional(),
    after: z.string().optional(),
    limit: z.coerce.number().int().min(1).max(MAX_LIST_ENTRIES).default(MAX_LIST_ENTRIES),
    /** What is deeper is told as folders. */
    delimiter: z.literal("/", { error: "must be '/'" }).optional(),
    /** Files have the times of their own last changes. */
    times: z.enum(["true", "false"], { error: "must be true or false" }).optional(),
  })
  .refine(({ since, delimiter, times }) => since === undefined || (delimiter ?? times) === undefined, {
    path: ["since"],
    error: "can't be asked for together with delimiter or times",
  });

/** `GET /repos/{repo}/branches/{branch}/commits/{id}/files`: the files of a commit; to runners, even if the branch was deleted since. */
export async function listFiles(asked: ApiRequest): Promise<Response> {
  const { since, ...page } = readQuery(asked, FilesQuery);
  if (since !== undefined) return Response.json(await filesSince(asked, { ...page, since }));
  const { prefix, after, limit, delimiter, times } = page;
  const { address, branch } = branchInPath(asked);
  const commit = asked.params.commit ?? "";
  const anyGeneration = hasLevel(asked.caller.scope, "work");
  const more = {
    anyGeneration,
    ...(after !== undefined && { after }),
    ...(delimiter && { delimiter }),
    ...(times === "true" && { ownTimes: true }),
  };
  const list = accepted(await branch.files.list({ prefix, limit, commit, ...more }), address);
  const files = list.entries.filter((entry) => entry.kind !== "prefix");
  const folders = list.entries.flatMap(({ kind, path }) => (kind === "prefix" ? [path] : []));
  return Response.json({ files, ...(delimiter && { folders }), next: list.next } satisfies FilePage);
}

/** The files of a commit that an input holds if it starts after another commit. Pages may be short. */
async function filesSince(
  asked: ApiRequest,
  { prefix, after = "", limit, since }: z.infer<typeof FilesQuery> & { readonly since: string },
): Promise<FilePage> {
  const { address, branch } = branchInPath(asked);
  const { commit = "" } = asked.params;
  const anyGeneration = hasLevel(asked.caller.scope, "work");
  const [at, start, live] = await Promise.all([
    branch.feed.position({ commit }),
    branch.feed.position({ commit: since }),
    anyGeneration || branch.history.commit({ commit }),
  ]);
  if (live !== true && !live.ok) throw branchError(live, address);
  if (!at || !start) throw branchError({ ok: false, reason: "no-such-version" });
  const position = { generation: at.generation, seq: at.seq };
  try {
    return await branch.feed.filesAt({ ...position, prefix, after, limit, since: start });
  } catch (error) {
    // The commit may have been given back since the branch was asked where it stands.
    if (await branch.feed.compare({ from: position, to: position, paths: [] })) throw error;
    throw branchError({ ok: false, reason: "no-such-version" });
  }
}
