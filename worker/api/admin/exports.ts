import { z } from "zod";
import {
  ExportBegun,
  type ExportedCommits,
  type ExportedFiles,
  type ExportedTags,
} from "../../../protocol/archives.ts";
import type { Refused } from "../../branch/contract/answers.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, readQuery } from "../request/api-request.ts";

/**
 * Exports of a branch: it is read with its history, page by page, as it was when the export began. The bytes of contents
 * that do not come in pages are read by GET …/contents.
 */

/** `POST /repos/{repo}/branches/{branch}/exports` */
export async function beginExport(asked: ApiRequest): Promise<Response> {
  const { address, branch: asking } = branchInPath(asked);
  const begun = accepted(await asking.exports.begin(), address);
  const { export: id, rows } = begun;
  const branch = { name: address.branch, ...begun.branch };
  // What the branch keeps is JSON already.
  const answer = ExportBegun.parse({ export: id, branch, rows });
  return Response.json(answer, { status: 201 });
}

const CommitsQuery = z.strictObject({ after: z.coerce.number().int().nonnegative().default(0) });
const TagsQuery = z.strictObject({ after: z.string().max(128).default("") });
const FilesQuery = z.strictObject({
  after: z.string().max(1024).default(""),
  born: z.coerce.number().int().nonnegative().default(0),
});

/** `GET …/exports/{export}/commits` */
export async function exportCommits(asked: ApiRequest): Promise<Response> {
  const { after } = readQuery(asked, CommitsQuery);
  const page = await branchInPath(asked).branch.exports.commits({ export: exportIn(asked), after });
  if (!page.ok) throw exportError(page);
  return Response.json({ commits: page.commits, next: page.next } satisfies ExportedCommits);
}

/** `GET …/exports/{export}/tags` */
export async function exportTags(asked: ApiRequest): Promise<Response> {
  const { after } = readQuery(asked, TagsQuery);
  const page = await branchInPath(asked).branch.exports.tags({ export: exportIn(asked), after });
  if (!page.ok) throw exportError(page);
  return Response.json({ tags: page.tags, next: page.next } satisfies ExportedTags);
}

/** `GET …/exports/{export}/files` */
export async function exportFiles(asked: ApiRequest): Promise<Response> {
  const { after: path, born } = readQuery(asked, FilesQuery);
  const page = await branchInPath(asked).branch.exports.files({
    export: exportIn(asked),
    after: { path, born },
  });
  if (!page.ok) throw exportError(page);
  const contents = page.contents.map(({ digest, size, bytes }) => ({
    digest,
    size,
    bytes: btoa(String.fromCharCode(...bytes)),
  }));
  return Response.json({ files: page.files, contents, next: page.next } satisfies ExportedFiles);
}

/** `DELETE …/exports/{export}`: it is over, or was given up. */
export async function endExport(asked: ApiRequest): Promise<Response> {
  await branchInPath(asked).branch.exports.end({ export: exportIn(asked) });
  return new Response(null, { status: 204 });
}

function exportIn({ params }: ApiRequest): string {
  return params.export ?? "";
}

function exportError(_: Refused<"no-such-export">): ApiError {
  return apiError.NotFound(
    "There is no such export any more: something of the branch was erased, nothing was read for ten minutes, it was ended, or the branch was deleted. Begin anew.",
  );
}
