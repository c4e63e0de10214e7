import { ErrorBody, type Issue } from "../../../protocol/errors.ts";
import type { Archive } from "../../support/archive-cases.ts";
import { api, type Call } from "./support.ts";

/** What became of an import: the branch is there, or the step that refused it. */
export type Outcome =
  | { readonly ok: true; readonly head: string | null }
  | {
      readonly ok: false;
      readonly status: number;
      readonly step: string;
      readonly message: string;
      readonly issues: readonly Issue[];
    };

let archives = 0;

/** Imports an archive as the CLI does, rows of `pageRows` at a time. What was refused is given up. */
export async function importArchive(
  bucket: { repo: string; branch?: string },
  { branch: head, commits, tags, files, contents }: Archive,
  { pageRows = 1000, call = {} }: { pageRows?: number; call?: Omit<Call, "body"> } = {},
): Promise<Outcome> {
  const target = `/repos/${bucket.repo}/branches/${bucket.branch ?? "master"}/imports`;
  const archive = String(++archives).padStart(64, "0");
  const post = async (step: string, path: string, body: object) => {
    const response = await api(`POST ${path}`, { ...call, body });
    if (response.ok) return { ok: true as const, body: (await response.json()) as Record<string, unknown> };
    const { error } = ErrorBody.parse(await response.json());
    const { message, issues = [] } = error;
    return { ok: false as const, status: response.status, step, message, issues };
  };
  const begun = await post("begin", target, { archive, branch: head });
  if (!begun.ok) return begun;
  const path = `${target}/${begun.body.import}`;
  const sent = async () => {
    let after: unknown = 0;
    for (const page of pagesOf(commits, pageRows)) {
      const answer = await post("commits", `${path}/commits`, { after, commits: page });
      if (!answer.ok) return answer;
      after = (answer.body.progress as { commits: number }).commits;
    }
    after = "";
    for (const page of pagesOf(tags, pageRows)) {
      const answer = await post("tags", `${path}/tags`, { after, tags: page });
      if (!answer.ok) return answer;
      after = (answer.body.progress as { tags: string }).tags;
    }
    after = { path: "", born: 0 };
    for (const page of pagesOf(files, pageRows)) {
      const answer = await post("files", `${path}/files`, { after, files: page, contents });
      if (!answer.ok) return answer;
      after = (answer.body.progress as { files: object }).files;
    }
    const counts = { commits: commits.length, tags: tags.length, files: files.length };
    return await post("finish", `${path}/finish`, { counts });
  };
  const done = await sent();
  if (done.ok) return { ok: true, head: done.body.head as string | null };
  await api(`DELETE ${path}`, call);
  return done;
}

function pagesOf<T>(items: readonly T[], size: number): T[][] {
  const pages: T[][] = [];
  for (let from = 0; from < items.length; from += size) pages.push(items.slice(from, from + size));
  return pages;
}
