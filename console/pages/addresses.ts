import { useSearch } from "wouter/use-browser-location";
import { bucketOf, type Place } from "../gateway/s3.ts";
import { type CommandLine, command } from "../parts/cli-line.tsx";

/*
 * The addresses of pages, and of what they are about in the control API. What is named by people, a path above all, stands
 * in the query of a page: paths hold any character, and a query alone has one way to write them.
 */

/** A pipeline, in the console as in the control API. */
export function pipelinePath(name: string): string {
  return `/pipelines/${encodeURIComponent(name)}`;
}

/** A repo in the control API. */
export function repoPath(repo: string): string {
  return `/repos/${encodeURIComponent(repo)}`;
}

/** A branch in the control API. */
export function branchPath({ repo, branch }: Place): string {
  return `${repoPath(repo)}/branches/${encodeURIComponent(branch)}`;
}

/** A commit in the control API. */
export function commitPath(place: Place, commit: string): string {
  return `${branchPath(place)}/commits/${encodeURIComponent(commit)}`;
}

/** A branch, the commit that is looked at, and a path in it. */
export interface FileAddress extends Place {
  readonly path: string;
}

/** `tab`: which of its pages. */
export function branchHref(place: Place, tab?: "history" | "diff" | "settings"): string {
  return `/repos/${place.repo}/${place.branch}${tab ? `/${tab}` : ""}${query({ at: place.at })}`;
}

/** The page of the branch that a bucket such as `master.photos` is. */
export function bucketHref(bucket: string): string {
  const [branch = "", repo = ""] = bucket.split(".");
  return branchHref({ repo, branch });
}

/** `path`: "" or with `/` at its end. */
export function folderHref({ path, ...place }: FileAddress): string {
  return `/repos/${place.repo}/${place.branch}${query({ at: place.at, in: path })}`;
}

export function fileHref({ path, ...place }: FileAddress): string {
  return `/repos/${place.repo}/${place.branch}/file${query({ at: place.at, path })}`;
}

export function diffHref(
  { repo, branch }: Place,
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
): string {
  return `/repos/${repo}/${branch}/diff${query({ from, to })}`;
}

function query(values: Readonly<Record<string, string | undefined>>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) => (value ? [[name, value]] : []));
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
}

/** The query of the address, as it is: the router's first way decodes it once more, which a `%` in a path does not survive. */
export function useAddressQuery(): URLSearchParams {
  return new URLSearchParams(useSearch());
}

/** The name of a file or a folder without the folders that it is in. */
export function lastName(path: string): string {
  return path.replace(/\/$/, "").split("/").pop() ?? "";
}

/** How the command line names it. */
export function cliAddress(place: Place, path = ""): CommandLine {
  return command`${`s3://${bucketOf(place)}/${path}`}`;
}
