import { Fragment } from "react";
import { Link } from "wouter";
import type { Place } from "../../gateway/s3.ts";
import { branchHref, folderHref, lastName } from "./places.ts";

/** Where a page is: its repo, its branch, and the folders down to a path. */
export function Crumbs({ place, path = "" }: { readonly place: Place; readonly path?: string }) {
  const { repo, branch } = place;
  const parts = path.split("/").slice(0, -1);
  const folders = parts.map((_, index) => `${parts.slice(0, index + 1).join("/")}/`);
  return (
    <nav className="crumbs" aria-label="Where this is">
      <Link href="/repos">Repos</Link> / <Link href={`/repos/${repo}`}>{repo}</Link> /{" "}
      <Link href={branchHref(place)}>{branch}</Link>
      {folders.map((folder) => (
        <Fragment key={folder}>
          {" / "}
          <Link href={folderHref({ ...place, path: folder })}>{lastName(folder)}</Link>
        </Fragment>
      ))}
    </nav>
  );
}

const ROOMS = [
  { room: undefined, name: "Files" },
  { room: "history", name: "History" },
  { room: "diff", name: "Differences" },
  { room: "settings", name: "Settings" },
] as const;

/** The pages about one branch. */
export function BranchTabs({
  place,
  here,
}: {
  readonly place: Place;
  readonly here: (typeof ROOMS)[number]["room"];
}) {
  const { repo, branch } = place;
  return (
    <nav className="tabs" aria-label={`Pages about ${branch}.${repo}`}>
      {ROOMS.map(({ room, name }) => (
        <Link
          key={name}
          href={branchHref({ repo, branch }, room)}
          aria-current={room === here ? "page" : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
