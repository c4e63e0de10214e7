import { useSearch } from "wouter/use-browser-location";
import { bucketOf, type Place } from "../../gateway/s3.ts";
import { type CommandLine, command } from "../../parts/cli-line.tsx";

/*
 * The addresses of the pages about repos. What is named by people, a path above all, stands in the query: paths hold any
 * character, and a query alone has one way to write them.
 */

/** A branch, the commit that is looked at, and a path in it. */
export interface FileAddress extends Place {
  readonly path: string;
}

type Room = "file" | "history" | "diff" | "settings";

export function branchHref(place: Place, room?: Room): string {
  return `/repos/${place.repo}/${place.branch}${room ? `/${room}` : ""}${query({ at: place.at })}`;
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
