import type { z } from "zod";
import type { SaidOfCommit } from "../../../protocol/annotations.ts";
import { type BranchAddress, NAME_PATTERN } from "../../../protocol/names.ts";
import type { Caller, Context } from "../../app.ts";
import type { Annotation } from "../../branch/contract/answers.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import { permits } from "../../core/permissions.ts";
import { apiError } from "../answer/errors.ts";
import { checked } from "./issues.ts";

/** One request of the control API, on its way to its handler. */
export interface ApiRequest {
  readonly request: Request;
  /** Parameters of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly context: Context;
  readonly caller: Caller;
  /** The signed SHA-256 (hex) that the body must have; null if it is not signed. */
  readonly bodySha256: string | null;
  /** The body as JSON, read once however often it is asked for. */
  readonly json: () => Promise<unknown>;
}

export type Handler = (asked: ApiRequest) => Promise<Response>;

/** Reads the query by its schema. Refuses a parameter that is not in the schema or comes twice. */
export function readQuery<Schema extends z.ZodType>({ query }: ApiRequest, schema: Schema): z.infer<Schema> {
  const names = [...query.keys()];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw apiError.InvalidRequest(`The query parameter '${twice}' comes twice: send it once.`);
  return checked(schema, Object.fromEntries(query));
}

/** Reads the body by its schema, and checks the signed SHA-256 if there is one. */
export async function readJson<Schema extends z.ZodType>(
  asked: ApiRequest,
  schema: Schema,
): Promise<z.infer<Schema>> {
  return checked(schema, await asked.json());
}

/**
 * How long an answer may wait for something, in milliseconds: as long as wanted, but not beyond the time at which the key of
 * the request expires. The call that comes after it is then refused.
 */
export function waitMsFor({ caller }: Pick<ApiRequest, "caller">, wantedMs: number): number {
  const leftMs = (caller.expiresAt ?? Number.POSITIVE_INFINITY) - Date.now();
  return Math.max(0, Math.min(wantedMs, leftMs));
}

/** Refuses every query parameter. */
export function noQuery({ query }: ApiRequest): void {
  const [name] = query.keys();
  if (name !== undefined)
    throw apiError.InvalidRequest(`There is no query parameter '${name}' here: leave it out.`);
}

/** Whether the caller may read what a repo has. A pipeline's repo has its name. */
export function mayRead({ caller }: { readonly caller: Pick<Caller, "scope"> }, repo: string): boolean {
  return permits(caller.scope, { permission: "read", repo });
}

/** A name in the path. Throws InvalidRequest unless it follows the rule of names. */
export function nameParam({ params }: ApiRequest, param: string): string {
  const name = params[param] ?? "";
  if (NAME_PATTERN.test(name)) return name;
  throw apiError.InvalidRequest(
    `'${name}' can't be a ${param}: names start with a letter or digit and hold only letters, digits, '_' and '-', 63 characters at most.`,
  );
}

/** The branch that `{repo}` and `{branch}` of the path name. Asks it nothing yet. */
export function branchInPath(asked: ApiRequest): { address: BranchAddress; branch: BranchApi } {
  const address = { repo: nameParam(asked, "repo"), branch: nameParam(asked, "branch") };
  return { address, branch: asked.context.branch(address) };
}

/** The annotation of the commit that a request makes: the caller's key, and what the body says. */
export function annotationOf(
  { caller }: Pick<ApiRequest, "caller">,
  { message, meta }: SaidOfCommit,
): Annotation {
  const hasMeta = meta !== undefined && Object.keys(meta).length > 0;
  return { key: caller.keyId, ...(message !== undefined && { message }), ...(hasMeta && { meta }) };
}
