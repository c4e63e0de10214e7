import { lazy, Suspense, useState } from "react";
import { Link, useLocation } from "wouter";
import type { CommitPage, DiffPage as Differences, PathChange, Tag } from "../../../protocol/commits.ts";
import { bucketOf, type Place } from "../../gateway/s3.ts";
import { type Live, useOnce } from "../../gateway/session.ts";
import { command } from "../../parts/cli-line.tsx";
import { Fault, Plain, usePages } from "../../parts/form.tsx";
import { Asked, Page, Table } from "../../parts/page.tsx";
import { counted, Mono, shortId } from "../../parts/words.tsx";
import { branchPath, commitPath, diffHref, fileHref } from "../addresses.ts";
import { BranchTabs, CommitPicker, CommitWords, Crumbs, isCommitId, SizeCell } from "./at.tsx";

interface DiffProps {
  readonly place: Place;
  /** The commit that is compared with; absent: the one before. */
  readonly from: string | undefined;
  /** Absent: the newest commit. */
  readonly to: string | undefined;
}

const PAGE = 500;

/** What a commit changed, or how any two commits differ, path by path. */
export function DiffPage({ place, from, to }: DiffProps) {
  const [, go] = useLocation();
  // Without a name, the newest is meant: which one that is must be asked first.
  const head = useOnce<CommitPage>(`${branchPath(place)}/commits`, {
    query: { limit: 1 },
    isAsked: to === undefined,
  });
  const [older, newer] = [useNamed(place, from), useNamed(place, to)];
  const at = to === undefined ? head.data?.commits[0]?.id : newer.id;
  const path = `${commitPath(place, at ?? "")}/diff`;
  const query = { from: older.id, limit: PAGE };
  const isKnown = at !== undefined && (from === undefined || older.id !== undefined);
  const first = useOnce<Differences>(path, { query, isAsked: isKnown });
  const missing = [head, older.live, newer.live].find(({ fault }) => fault);
  const { pages, hasMore, fault, more } = usePages(first.data, (gateway, after) =>
    gateway.call<Differences>(path, { query: { ...query, after } }),
  );
  const changes = pages.flatMap((page) => page.changes);
  const bucket = bucketOf(place);
  const between = first.data?.from ? command` ${first.data.from} ${first.data.to}` : [];
  const isEmpty = head.data?.commits.length === 0;
  return (
    <Page
      title={`Differences in ${bucket}`}
      cli={command`sluice commit diff ${bucket}${between}`}
      live={missing ?? first}
      aside={
        <>
          <CommitPicker
            place={place}
            label={`From ${from === undefined ? "the commit before" : nameText(from)}`}
            choose={(chosen) => go(diffHref(place, { from: chosen, to: at }))}
            headWords="The commit before"
            isById
          />
          <CommitPicker
            place={place}
            label={`To ${to === undefined ? "the newest" : nameText(to)}`}
            isById
            choose={(chosen) => go(diffHref(place, { from, to: chosen }))}
          />
        </>
      }
    >
      <Crumbs place={place} />
      <BranchTabs place={place} here="diff" />
      {isEmpty && <p>The branch has no commit yet.</p>}
      {!isEmpty && !missing && (
        <Asked live={first}>
          {(differences) => (
            <>
              <p>
                {differences.from === null ? "Nothing was before" : <Mono>{differences.from}</Mono>} →{" "}
                <Mono>{differences.to}</Mono>
                {from === undefined && (
                  <span className="quiet">
                    {" "}
                    <CommitWords commit={differences} />
                  </span>
                )}
              </p>
              {changes.length === 0 && !hasMore && <p>Nothing differs.</p>}
              {changes.length > 0 && (
                <Table
                  className="listing changes"
                  head={["Path", "Change", "Before", "After"]}
                  sizes={["Before", "After"]}
                >
                  {changes.map((change) => (
                    <ChangeLine
                      key={change.path}
                      place={place}
                      change={change}
                      of={differences}
                      isFew={changes.length <= FEW && !hasMore}
                    />
                  ))}
                </Table>
              )}
              <Fault words={fault} />
              <p className="actions">
                {more()}
                {changes.length > 0 && (
                  <span className="quiet">{counted(changes.length, "path")} shown.</span>
                )}
              </p>
            </>
          )}
        </Asked>
      )}
    </Page>
  );
}

/** The id of a commit that an address names by its id or by a tag. Undefined: it names none, or it is not known yet. */
function useNamed(place: Place, name: string | undefined): { id: string | undefined; live: Live<Tag> } {
  const isTag = name !== undefined && !isCommitId(name);
  const live = useOnce<Tag>(`${branchPath(place)}/tags/${encodeURIComponent(name ?? "")}`, {
    isAsked: isTag,
  });
  return { id: isTag ? live.data?.commit : name, live };
}

function nameText(name: string): string {
  return isCommitId(name) ? shortId(name) : name;
}

const MARKS = { added: "+", changed: "~", deleted: "−" } as const;

interface ChangeProps {
  readonly place: Place;
  readonly change: PathChange;
  readonly of: Differences;
  /** Whether so little differs that how is shown at once. */
  readonly isFew: boolean;
}

function ChangeLine({
  place,
  change: { path, change, before, after },
  of: { from, to },
  isFew,
}: ChangeProps) {
  const size = Math.max(before?.size ?? 0, after?.size ?? 0);
  const canCompare = from !== null && before !== null && after !== null && before.digest !== after.digest;
  const [isOpen, setOpen] = useState(isFew && size <= SHOWN_AT_ONCE);
  // What is deleted is looked at where it was.
  const at = change === "deleted" ? (from ?? undefined) : to;
  const isFolder = path.endsWith("/");
  const words =
    change === "changed" && before?.digest === after?.digest ? "changed: attributes alone" : change;
  return (
    <>
      <tr className={change}>
        <td className="name mono">
          <span className="sign" aria-hidden="true">
            {MARKS[change]}
          </span>
          {isFolder ? path : <Link href={fileHref({ ...place, at, path })}>{path}</Link>}
        </td>
        <td>
          {words}{" "}
          {canCompare && (
            <Plain
              aria-expanded={isOpen}
              aria-label={`${isOpen ? "Hide" : "Compare"} ${path}`}
              act={() => setOpen(!isOpen)}
            >
              {isOpen ? "Hide" : "Compare"}
            </Plain>
          )}
        </td>
        <SizeCell size={before?.size} />
        <SizeCell size={after?.size} />
      </tr>
      {canCompare && isOpen && (
        <tr className="compared">
          <td colSpan={4}>
            <Suspense fallback={<p className="quiet">Loading what compares…</p>}>
              <Compare place={place} path={path} from={from} to={to} size={size} />
            </Suspense>
          </td>
        </tr>
      )}
    </>
  );
}

/** What compares files is loaded when the first one is looked at. */
const Compare = lazy(() => import("./compare/compare.tsx"));
/** So few paths, and so small ones, are compared without being asked. */
const FEW = 3;
const SHOWN_AT_ONCE = 256 * 1024;
