import { Fragment } from "react";
import { Link } from "wouter";
import type { Place } from "../../gateway/s3.ts";
import { countText, sizeText } from "../../parts/words.tsx";
import { branchHref, folderHref, lastName } from "../addresses.ts";

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

const TABS = [
  { tab: undefined, name: "Files" },
  { tab: "history", name: "History" },
  { tab: "diff", name: "Differences" },
  { tab: "settings", name: "Settings" },
] as const;

interface BranchTabsProps {
  readonly place: Place;
  readonly here: (typeof TABS)[number]["tab"];
}

/** The pages about one branch. */
export function BranchTabs({ place, here }: BranchTabsProps) {
  const { repo, branch } = place;
  return (
    <nav className="tabs" aria-label={`Pages about ${branch}.${repo}`}>
      {TABS.map(({ tab, name }) => (
        <Link
          key={name}
          href={branchHref({ repo, branch }, tab)}
          aria-current={tab === here ? "page" : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}

/** The cell of a table that has the size of a file; undefined: there is none. */
export function SizeCell({ size }: { readonly size: number | undefined }) {
  if (size === undefined) return <td className="size">–</td>;
  return (
    <td className="size" title={`${countText(size)} bytes`}>
      {sizeText(size)}
    </td>
  );
}
