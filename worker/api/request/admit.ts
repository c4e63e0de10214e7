import { GRANT_HEADER } from "../../../protocol/runner.ts";
import { hasLevel, type Permission, permits, refusalText } from "../../core/permissions.ts";
import type { Grant, GrantFault } from "../../keys/grants.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { type ApiRequest, type Handler, nameParam } from "./api-request.ts";
import type { BodyLimits } from "./body-scan.ts";

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
  readonly needs: readonly [RouteNeed, ...RouteNeed[]] | typeof ANY_KEY;
  /**
   * Whether a grant lets a runner's key do it, which has none of the permissions. Absent: no grant does. If the request is
   * wrong, it may throw what the handler would.
   */
  readonly granted?: (grant: Grant, asked: ApiRequest) => boolean | Promise<boolean>;
  /** Whether it takes parameters of a query, which its handler reads. Absent: it takes none. */
  readonly query?: true;
  /** What its JSON body may hold; absent: as little as SMALL_BODY. */
  readonly body?: BodyLimits;
  readonly handle: Handler;
}

/** A route that tells a key of itself alone: whatever it may do, it may ask that. */
export const ANY_KEY = "any-key";

/** What belongs to no repo. */
export const noRepo: ReposOf = () => [null];
/** `{repo}` of the path. */
export const repoInPath: ReposOf = (asked) => [nameParam(asked, "repo")];
/** `{pipeline}` of the path: the repo of a pipeline has its name. */
export const pipelineInPath: ReposOf = (asked) => [nameParam(asked, "pipeline")];

/** Throws AccessDenied unless the caller's key allows all that the route needs: no request leaves its key's scope. */
export async function admit(asked: ApiRequest, { needs, granted }: Route): Promise<void> {
  const { scope } = asked.caller;
  if (granted && scope.level === "runner") {
    if (await granted(grantOf(asked), asked)) return;
    throw denied(
      `The grant is for the inputs and the output of other leases: present the one that came with the lease in ${GRANT_HEADER}.`,
    );
  }
  if (needs === ANY_KEY) {
    if (scope.level === "public") throw denied("This needs a signed request.");
    return;
  }
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

/** The grant that a request of a runner's key presents. Throws AccessDenied or InvalidGrant. No call is made for it. */
function grantOf({ request, caller, context }: ApiRequest): Grant {
  const text = request.headers.get(GRANT_HEADER);
  if (text === null) {
    throw denied(
      `A runner's key reads and uploads only with the grant of a lease: present it in ${GRANT_HEADER}.`,
    );
  }
  const opened = context.grants.open(text, { keyId: caller.keyId, now: Date.now() });
  if (opened.ok) return opened.grant;
  throw apiError.InvalidGrant(`The grant in ${GRANT_HEADER} ${FAULT_TEXT[opened.fault]}.`);
}

const FAULT_TEXT: Record<GrantFault, string> = {
  malformed: "is not as the gateway writes them: send it as it came with the lease",
  forged: "was not made here, or was altered: renew the lease to have another",
  "of-another-key": "was made for another access key: renew the lease to have one for this key",
  expired: "has expired: renew the lease to have another",
};

function denied(message: string): ApiError {
  return apiError.AccessDenied(message);
}
