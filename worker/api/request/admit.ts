import { hasLevel, type Permission, permits, refusalText } from "../../core/permissions.ts";
import { ApiError } from "../answer/errors.ts";
import { type ApiRequest, type Handler, nameParam } from "./api-request.ts";

/** What a key must be allowed to use a route. */
interface RouteNeed {
  readonly permission: Permission;
  readonly of: ReposOf;
}

/**
 * The repos that a request is about; null stands for what belongs to no repo. It is asked only if the key is limited to
 * some repos. If the request is wrong, it may throw what the handler would.
 */
export type ReposOf = (asked: ApiRequest) => readonly (string | null)[] | Promise<readonly (string | null)[]>;

/** A method of a path: what it needs, all of it, and what it does. */
export interface Route {
  readonly needs: readonly [RouteNeed, ...RouteNeed[]];
  readonly handle: Handler;
}

/** What belongs to no repo. */
export const noRepo: ReposOf = () => [null];
/** `{repo}` of the path. */
export const repoInPath: ReposOf = (asked) => [nameParam(asked, "repo")];
/** `{pipeline}` of the path: the repo of a pipeline has its name. */
export const pipelineInPath: ReposOf = (asked) => [nameParam(asked, "pipeline")];

/** Throws AccessDenied unless the caller's key allows all that the route needs: no request leaves its key's scope. */
export async function admit(asked: ApiRequest, { needs }: Route): Promise<void> {
  const { scope } = asked.caller;
  for (const { permission } of needs) {
    if (!hasLevel(scope, permission)) throw denied(refusalText(scope, { permission }));
  }
  if (scope.repos === null) return;
  for (const { permission, of } of needs) {
    for (const repo of await of(asked)) {
      if (!permits(scope, { permission, repo })) throw denied(refusalText(scope, { permission, repo }));
    }
  }
}

function denied(message: string): ApiError {
  return new ApiError("AccessDenied", message);
}
