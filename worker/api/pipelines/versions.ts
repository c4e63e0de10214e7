import { z } from "zod";
import {
  MAX_LIST_VERSIONS,
  type PipelineVersion,
  type PipelineVersionPage,
  type WholePipelineVersion,
} from "../../../protocol/pipelines.ts";
import { permits } from "../../core/permissions.ts";
import type { KnownVersion } from "../../pipeline/contract.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { type ApiRequest, nameParam, readQuery } from "../request/api-request.ts";
import { noSuchPipeline, versionShownTo } from "./shown.ts";

const ListQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(MAX_LIST_VERSIONS).default(MAX_LIST_VERSIONS),
  /** The `next` of the page before. */
  after: z.coerce.number().int().min(1).optional(),
});

/** `GET /pipelines/{name}/versions`: the versions of its specification that are kept, newest first. */
export async function listPipelineVersions(asked: ApiRequest): Promise<Response> {
  const { limit, after } = readQuery(asked, ListQuery);
  const name = nameParam(asked, "pipeline");
  const before = after === undefined ? {} : { before: after };
  const page = await asked.context.pipeline(name).specification.versions({ limit, ...before });
  if (!page.ok) throw noSuchPipeline(name);
  const versions = await described(asked, page.versions);
  return Response.json({ versions, next: page.next } satisfies PipelineVersionPage);
}

/** `GET /pipelines/{name}/versions/{version}`: one version whole, by its number; `latest` is the present one. */
export async function inspectPipelineVersion(asked: ApiRequest): Promise<Response> {
  const name = nameParam(asked, "pipeline");
  const wanted = versionParam(asked);
  const found = await asked.context.pipeline(name).specification.version(wanted);
  if (!found.ok) throw refused(found.reason, { name, wanted });
  const [version] = await described(asked, [found.version]);
  if (!version) throw new Error(`version ${wanted} of ${name} got lost`);
  const shown = { ...version, pipeline: name, ...versionShownTo(asked.caller, found) };
  return Response.json(shown satisfies WholePipelineVersion);
}

const VERSION_PATTERN = /^[1-9][0-9]{0,8}$/;

function versionParam({ params: { version = "" } }: ApiRequest): number | null {
  if (version === "latest") return null;
  if (VERSION_PATTERN.test(version)) return Number(version);
  throw apiError.InvalidRequest(
    `'${version}' can't be a version of a specification: take a number from 1, or 'latest'.`,
  );
}

function refused(
  reason: "no-such-pipeline" | "no-such-version" | "not-kept",
  { name, wanted }: { name: string; wanted: number | null },
): ApiError {
  switch (reason) {
    case "no-such-pipeline":
      return noSuchPipeline(name);
    case "no-such-version":
      return apiError.NotFound(
        `The pipeline '${name}' has no version ${wanted}: 'sluice pipeline history ${name}' shows those it has.`,
      );
    case "not-kept":
      return apiError.NotKept(
        `Version ${wanted} of the pipeline '${name}' is kept no more: 'sluice pipeline history ${name}' shows those that are.`,
      );
  }
}

/**
 * With what each key is for, if the caller may list keys. Without that if the catalogue is away: everything else is known.
 */
async function described(
  { context: { catalogue }, caller }: Pick<ApiRequest, "context" | "caller">,
  versions: readonly KnownVersion[],
): Promise<PipelineVersion[]> {
  if (!permits(caller.scope, { permission: "admin", repo: null })) return [...versions];
  const ids = versions.flatMap(({ key }) => key ?? []);
  const descriptions = await catalogue.keys.descriptions(ids).catch((error: unknown) => {
    console.warn("what keys are for can't be told", error);
    return new Map<string, string>();
  });
  return versions.map((version) => {
    const keyDescription = version.key === null ? undefined : descriptions.get(version.key);
    return { ...version, ...(keyDescription !== undefined && { keyDescription }) };
  });
}
