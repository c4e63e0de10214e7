import { z } from "zod";
import {
  BeginImport,
  FinishImport,
  type ImportBegun,
  ImportCommits,
  type ImportedPage,
  ImportFiles,
  type ImportFinished,
  ImportTags,
} from "../../../protocol/archives.ts";
import { Attributes, PART_BYTES } from "../../../protocol/files.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { AnswerOf, StoredAttributes } from "../../branch/contract.ts";
import { CHECKSUM_ALGORITHMS } from "../../core/checksums.ts";
import { permits } from "../../core/permissions.ts";
import { ApiError } from "../answer/errors.ts";
import { branchError } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, noQuery } from "../request/api-request.ts";
import { invalidField } from "../request/issues.ts";
import { readJson } from "../request/read-json.ts";
import { inlineContent } from "../uploads.ts";

/**
 * Imports of a branch: it is made of the pages of an archive, with the same commits, times, tags and bytes. Nobody sees it
 * before its end. Contents that do not come in pages are brought by the import's upload, as for any commit.
 */

/** `POST /repos/{repo}/branches/{branch}/imports` */
export async function beginImport(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { branch } = branchInPath(asked);
  const wish = await readJson(asked, BeginImport);
  const begun = await branch.beginImport({ ...wish, branch: { ...wish.branch, settings: settingsOf(wish) } });
  if (!begun.ok) throw importError(begun, asked);
  const { ok: _, ...answer } = begun;
  return Response.json({ ...answer, partBytes: PART_BYTES } satisfies ImportBegun, { status: 201 });
}

/** zod's optional fields may be there and undefined; the branch's are not. */
function settingsOf({ branch: { settings } }: BeginImport) {
  const { public: isPublic, writer, modified } = settings;
  const cors = settings.cors?.map(({ id, maxAgeSeconds, ...rule }) => ({
    ...rule,
    ...(id !== undefined && { id }),
    ...(maxAgeSeconds !== undefined && { maxAgeSeconds }),
  }));
  return { public: isPublic, writer, modified, cors: cors ?? null };
}

/** `POST …/imports/{import}/commits` */
export async function importCommits(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { branch } = branchInPath(asked);
  const { after, commits } = await readJson(asked, ImportCommits);
  return progressOf(await branch.importCommits({ import: importIn(asked), after, commits }), asked);
}

/** `POST …/imports/{import}/tags` */
export async function importTags(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { branch } = branchInPath(asked);
  const { after, tags } = await readJson(asked, ImportTags);
  return progressOf(await branch.importTags({ import: importIn(asked), after, tags }), asked);
}

/** `POST …/imports/{import}/files` */
export async function importFiles(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { branch } = branchInPath(asked);
  const { after, files, contents } = await readJson(asked, ImportFiles);
  const imported = await branch.importFiles({
    import: importIn(asked),
    after,
    files: files.map(([path, born, died, digest, size, attributes, more], index) => ({
      ...{ path, born, died, digest, size, more },
      attributes: attributesOf(attributes, `files[${index}]`),
    })),
    contents: contents.map((content, index) => {
      const { digest, size, body } = inlineContent(content, `contents[${index}]`);
      return { digest, size, bytes: body.kind === "inline" ? body.bytes : new Uint8Array(0) };
    }),
  });
  return progressOf(imported, asked);
}

/** `POST …/imports/{import}/finish` */
export async function finishImport(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  const { address, branch } = branchInPath(asked);
  const { counts } = await readJson(asked, FinishImport);
  const finished = await branch.finishImport({ import: importIn(asked), counts });
  asked.context.openBranches.forget();
  if (!finished.ok) throw importError(finished, asked);
  return Response.json({ branch: address.branch, head: finished.head } satisfies ImportFinished);
}

/** `DELETE …/imports/{import}`: it is given up. */
export async function abortImport(asked: ApiRequest): Promise<Response> {
  noQuery(asked);
  await branchInPath(asked).branch.abortImport({ import: importIn(asked) });
  return new Response(null, { status: 204 });
}

function importIn({ params }: ApiRequest): string {
  return params.import ?? "";
}

type Imported = AnswerOf<"importCommits"> | AnswerOf<"importFiles">;
type Refusal = Exclude<Imported | AnswerOf<"beginImport"> | AnswerOf<"finishImport">, { ok: true }>;

function progressOf(imported: Imported, asked: ApiRequest): Response {
  if (!imported.ok) throw importError(imported, asked);
  return Response.json({ progress: imported.progress } satisfies ImportedPage);
}

function importError(refusal: Refusal, asked: ApiRequest): ApiError {
  const bucket = bucketName(branchInPath(asked).address);
  switch (refusal.reason) {
    case "already-exists":
      return new ApiError(
        "AlreadyExists",
        `There is a branch '${bucket}' already: import under another name, or delete it first.`,
      );
    case "followed":
      return new ApiError(
        "InUse",
        `Pipelines read the branch '${bucket}', and would make a job of each commit of its history: stop them (sluice pipeline stop), import, and start them again: ${followers(refusal.pipelines, asked)}.`,
      );
    case "bad-archive": {
      const { path, message } = refusal;
      const issues = [{ path, message }];
      return new ApiError("InvalidRequest", `The archive does not fit together: ${path} ${message}`, {
        issues,
      });
    }
    case "no-such-import":
      return new ApiError(
        "NotFound",
        "There is no such import: it was finished, was given up, or nothing came for a day. Begin anew.",
      );
    case "no-such-content":
      return branchError(refusal);
    case "branch-full":
    case "catalogue-unavailable":
    case "catalogue-outdated":
      return branchError({ ok: false, reason: refusal.reason });
  }
}

/** A pipeline's repo has its name. Those of repos that the caller may not read are only counted. */
function followers(pipelines: readonly string[], { caller }: Pick<ApiRequest, "caller">): string {
  const known = pipelines.filter((repo) => permits(caller.scope, { permission: "read", repo }));
  const left = pipelines.length - known.length;
  return [...known.map((name) => `'${name}'`), ...(left > 0 ? [`${left} in other repos`] : [])].join(", ");
}

const RUNS = z.array(z.tuple([z.int().nonnegative(), z.int().min(1)])).max(10_000);
/** In base64, behind which a checksum of parts says how many there are: it goes into a header of answers. */
const ChecksumValue = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9+/]+=*(-[0-9]+)?$/);
/** What a row of files keeps beside its content. */
const ArchivedAttributes = Attributes.extend({
  checksum: z
    .strictObject({
      algorithm: z.enum(CHECKSUM_ALGORITHMS),
      type: z.enum(["FULL_OBJECT", "COMPOSITE"]),
      value: ChecksumValue,
    })
    .optional(),
  parts: z.strictObject({ sizes: RUNS, checksums: z.array(ChecksumValue).max(10_000).optional() }).optional(),
});

function attributesOf(text: string | null, path: string): StoredAttributes {
  if (text === null) return {};
  try {
    // Optional fields of zod may be there and undefined: what was JSON has none of those.
    return ArchivedAttributes.parse(JSON.parse(text)) as StoredAttributes;
  } catch {
    throw invalidField(`${path}[5]`, "has attributes that can't be read");
  }
}
