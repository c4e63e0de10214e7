import type { z } from "zod";
import {
  type ArchivedAttributes,
  BeginImport,
  FinishImport,
  type ImportBegun,
  ImportCommits,
  type ImportedPage,
  ImportFiles,
  type ImportFinished,
  ImportTags,
} from "../../../protocol/archives.ts";
import type { Issue } from "../../../protocol/errors.ts";
import { PART_BYTES } from "../../../protocol/files.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { AnswerOf } from "../../branch/contract/answers.ts";
import type { ImportCalls } from "../../branch/contract/archives.ts";
import type { StoredAttributes } from "../../branch/contract/files.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { branchError } from "../answer/failures.ts";
import { type ApiRequest, branchInPath, mayRead, readJson } from "../request/api-request.ts";
import { issuesOf } from "../request/issues.ts";
import { inlineContent } from "../uploads.ts";

/**
 * Imports of a branch: it is made of the pages of an archive, with the same commits, times, tags and bytes. Nobody sees it
 * before its end. Contents that do not come in pages are brought by the import's upload, as for any commit.
 */

/** `POST /repos/{repo}/branches/{branch}/imports` */
export async function beginImport(asked: ApiRequest): Promise<Response> {
  const { branch } = branchInPath(asked);
  const wish = await readPage(asked, BeginImport);
  await asked.context.blobs.admit?.();
  const begun = await branch.imports.begin({
    ...wish,
    branch: { ...wish.branch, settings: settingsOf(wish) },
  });
  if (!begun.ok) throw importError(begun, asked);
  const { ok: _, ...answer } = begun;
  return Response.json({ ...answer, partBytes: PART_BYTES } satisfies ImportBegun, { status: 201 });
}

/** zod's optional fields may be there and undefined; the branch's are not. */
function settingsOf({ branch: { settings } }: BeginImport) {
  const { public: isPublic, writer, modified, emptyOnly, nearReads } = settings;
  const cors = settings.cors?.map(({ id, maxAgeSeconds, ...rule }) => ({
    ...rule,
    ...(id !== undefined && { id }),
    ...(maxAgeSeconds !== undefined && { maxAgeSeconds }),
  }));
  return { public: isPublic, writer, modified, emptyOnly, nearReads, cors: cors ?? null };
}

/** `POST …/imports/{import}/commits` */
export async function importCommits(asked: ApiRequest): Promise<Response> {
  const { branch } = branchInPath(asked);
  const { after, commits } = await readPage(asked, ImportCommits);
  await asked.context.blobs.admit?.();
  return progressOf(await branch.imports.commits({ import: importIn(asked), after, commits }), asked);
}

/** `POST …/imports/{import}/tags` */
export async function importTags(asked: ApiRequest): Promise<Response> {
  const { branch } = branchInPath(asked);
  const { after, tags } = await readPage(asked, ImportTags);
  await asked.context.blobs.admit?.();
  return progressOf(await branch.imports.tags({ import: importIn(asked), after, tags }), asked);
}

/** `POST …/imports/{import}/files` */
export async function importFiles(asked: ApiRequest): Promise<Response> {
  const { branch } = branchInPath(asked);
  const { after, files, contents } = await readPage(asked, ImportFiles);
  await asked.context.blobs.admit?.(contents.reduce((sum, { size }) => sum + size, 0));
  const imported = await branch.imports.files({
    import: importIn(asked),
    after,
    files: files.map(([path, born, died, digest, size, attributes, more]) => ({
      ...{ path, born, died, digest, size, more },
      attributes: attributesOf(attributes),
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
  const { address, branch } = branchInPath(asked);
  const { counts } = await readJson(asked, FinishImport);
  const { keyId: key } = asked.caller;
  const finished = await branch.imports.finish({ import: importIn(asked), counts, key });
  asked.context.openBranches.forget();
  if (!finished.ok) throw importError(finished, asked);
  return Response.json({ branch: address.branch, head: finished.head } satisfies ImportFinished);
}

/** `DELETE …/imports/{import}`: it is given up. */
export async function abortImport(asked: ApiRequest): Promise<Response> {
  await branchInPath(asked).branch.imports.abort({ import: importIn(asked) });
  return new Response(null, { status: 204 });
}

function importIn({ params }: ApiRequest): string {
  return params.import ?? "";
}

type Imported = AnswerOf<ImportCalls["commits"]> | AnswerOf<ImportCalls["files"]>;
type Refusal = Exclude<
  Imported | AnswerOf<ImportCalls["begin"]> | AnswerOf<ImportCalls["finish"]>,
  { ok: true }
>;

function progressOf(imported: Imported, asked: ApiRequest): Response {
  if (!imported.ok) throw importError(imported, asked);
  return Response.json({ progress: imported.progress } satisfies ImportedPage);
}

function importError(refusal: Refusal, asked: ApiRequest): ApiError {
  const bucket = bucketName(branchInPath(asked).address);
  switch (refusal.reason) {
    case "already-exists":
      return apiError.AlreadyExists(
        `There is a branch '${bucket}' already: import under another name, or delete it first.`,
      );
    case "followed":
      return apiError.InUse(
        `Pipelines read the branch '${bucket}', and would make a job of each commit of its history: stop them (sluice pipeline stop), import, and start them again: ${followers(refusal.pipelines, asked)}.`,
      );
    case "bad-archive": {
      const { path, message } = refusal;
      return badArchive([{ path, message }]);
    }
    case "no-such-import":
      return apiError.NotFound(
        "There is no such import: it was finished, was given up, or nothing came for a day. Begin anew.",
      );
    case "no-such-content":
      return branchError(refusal);
    case "branch-full":
    case "catalogue-unavailable":
    case "catalogue-outdated":
    case "other-family":
      return branchError({ ok: false, reason: refusal.reason });
  }
}

/** A pipeline's repo has its name. Those of repos that the caller may not read are only counted. */
function followers(pipelines: readonly string[], { caller }: Pick<ApiRequest, "caller">): string {
  const known = pipelines.filter((repo) => mayRead({ caller }, repo));
  const left = pipelines.length - known.length;
  return [...known.map((name) => `'${name}'`), ...(left > 0 ? [`${left} in other repos`] : [])].join(", ");
}

/** A page as a gateway could have written it. Each refusal names the field, what stands there, and what to do. */
async function readPage<Schema extends z.ZodType>(
  asked: ApiRequest,
  schema: Schema,
): Promise<z.infer<Schema>> {
  const submitted = await asked.json();
  const parsed = schema.safeParse(submitted);
  if (parsed.success) return parsed.data;
  const advice = { submitted, field: () => undefined, value: (_: unknown, held: unknown) => itIs(held) };
  throw badArchive(issuesOf(parsed.error, schema, advice));
}

/** A value is repeated in a refusal up to so many characters. */
const MAX_SHOWN_CHARACTERS = 100;

function itIs(held: unknown): string | undefined {
  if (held === undefined) return undefined;
  const text = JSON.stringify(held);
  return `it is ${text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)}…` : text}`;
}

function badArchive(issues: readonly Issue[]): ApiError {
  const [{ path, message } = { path: "", message: "" }] = issues;
  return apiError.InvalidRequest(
    `No gateway wrote the archive so: ${path} ${message}. It was altered or is damaged: export the repo again, or import an archive that is as it was written.`,
    { issues },
  );
}

function attributesOf(text: string | null): StoredAttributes {
  // Optional fields of zod may be there and undefined: what was JSON has none of those.
  return text === null ? {} : (JSON.parse(text) as z.infer<typeof ArchivedAttributes> as StoredAttributes);
}
