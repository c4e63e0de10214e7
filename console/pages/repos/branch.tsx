import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import type { FilePage } from "../../../protocol/files.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { bucketOf, type Place } from "../../gateway/s3.ts";
import { type Live, useRead } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Button, Fault, Plain, usePages } from "../../parts/form.tsx";
import { Asked, Heard, Page } from "../../parts/page.tsx";
import { Ago, countText, Mono } from "../../parts/words.tsx";
import { cliAddress, commitPath, fileHref, folderHref, lastName } from "../addresses.ts";
import {
  type At,
  AtWords,
  BranchTabs,
  CommitPicker,
  CommitWords,
  Crumbs,
  isCommitId,
  SizeCell,
  useAt,
} from "./at.tsx";
import { UploadPlace } from "./upload/upload.tsx";

interface BranchProps {
  readonly place: Place;
  /** The folder that is shown: "" or with `/` at its end. */
  readonly prefix: string;
}

/** What is in a branch, folder by folder, now or at a commit; and where files are dropped to put them into it. */
export function BranchPage({ place, prefix }: BranchProps) {
  const [, go] = useLocation();
  const at = useAt(place);
  const title = prefix === "" ? bucketOf({ ...place, at: undefined }) : lastName(prefix);
  return (
    <Page
      title={title}
      cli={command`sluice ls ${cliAddress(place, prefix)}`}
      live={at.live}
      aside={
        <>
          <AtWords place={place} at={at} />
          {place.at === undefined && <Heard live={at.live} />}
          <CommitPicker
            place={place}
            label="Look at another commit"
            choose={(chosen) => go(folderHref({ ...place, at: chosen, path: prefix }))}
          />
        </>
      }
    >
      <Crumbs place={place} path={prefix} />
      <BranchTabs place={place} here={undefined} />
      <AtNote place={place} at={at} prefix={prefix} />
      <Folder key={JSON.stringify([place, prefix])} place={place} prefix={prefix} at={at} />
    </Page>
  );
}

/** What is to be known of a state that is not simply the newest. */
function AtNote({ place, at: { branch, detail }, prefix }: BranchProps & { readonly at: At }) {
  if (branch?.forking) {
    const { copied, total } = branch.forking;
    return (
      <p className="notice">
        <span>
          Its files are on their way from the branch that it is made from: {countText(copied)} of{" "}
          {countText(total)} are here. It can be read once all are.
        </span>
      </p>
    );
  }
  if (place.at === undefined) return null;
  const { repo, branch: name } = place;
  return (
    <p className="notice past">
      <span>
        This is what was there at the commit <Mono>{place.at}</Mono>
        {detail && (
          <>
            {" "}
            <CommitWords commit={detail} />
          </>
        )}
        . It is read-only.
      </span>
      <Link href={folderHref({ repo, branch: name, path: prefix })}>To the newest</Link>
    </p>
  );
}

/** Entries of a page of a folder, and of one of those that are asked to sort it. */
const PAGE = 500;
const SORTED_PAGE = 1000;
/** A folder of more is shown by name alone. */
const MOST_SORTED = 10_000;

function Folder({ place, prefix, at }: BranchProps & { readonly at: At }) {
  const [order, setOrder] = useState<Order>(BY_NAME);
  const [most, showMost] = useState(PAGE);
  const { first, folders, files, isSorted, isTooLong, faults, more } = useFolder({
    place,
    prefix,
    at,
    order,
  });
  // A browser takes seconds to lay out ten thousand rows.
  const shown = isSorted ? files.slice(0, Math.max(0, most - folders.length)) : files;
  const count = folders.length + shown.length;
  const further = isSorted
    ? shown.length < files.length && <Button act={() => showMost(most + PAGE)}>More</Button>
    : more;
  const canWrite = place.at === undefined && !at.branch?.forking;
  return (
    <>
      {!at.live.fault && <Fault words={first.fault?.message} />}
      {!first.data && !at.live.fault && <Asked live={first} />}
      {count > 0 && (
        <FolderTable place={place} folders={folders} files={shown} order={order} setOrder={setOrder} />
      )}
      {isTooLong && (
        <p className="quiet">
          More than {countText(MOST_SORTED)} entries are in it: they are shown by name alone.
        </p>
      )}
      {further && (
        <p className="actions">
          {further}
          <span className="quiet">{countText(count)} are shown.</span>
        </p>
      )}
      <Fault words={faults} />
      {first.data && count === 0 && <Nothing place={place} prefix={prefix} />}
      {canWrite && <UploadPlace place={place} prefix={prefix} />}
    </>
  );
}

interface FolderView {
  readonly first: Live<FilePage>;
  readonly folders: readonly string[];
  readonly files: readonly Listed[];
  /** Whether all of it is here, in the order that is wanted; else the pages that were asked for, by name. */
  readonly isSorted: boolean;
  readonly isTooLong: boolean;
  readonly faults: string | undefined;
  /** A button that gets the next page. */
  readonly more: ReactNode;
}

/** What is in a folder: page by page, or as a whole if it is to be in another order than by name. */
function useFolder({
  place,
  prefix,
  at,
  order,
}: BranchProps & { readonly at: At; readonly order: Order }): FolderView {
  const { repo, branch } = place;
  // An id says which commit it is before anything is asked.
  const commit = isCommitId(place.at ?? "") ? place.at : at.commit;
  const ask = (gateway: Gateway, { after, limit, signal }: FolderAsk) => {
    const query = { prefix, delimiter: "/", times: true, limit, after };
    return gateway.call<FilePage>(`${commitPath(place, commit ?? "")}/files`, { query, signal });
  };
  const first = useRead<FilePage>(
    ["folder", repo, branch, place.at, prefix],
    async (gateway, signal) => (commit === null ? EMPTY : await ask(gateway, { limit: PAGE, signal })),
    { turn: at.turn, isAsked: commit !== undefined && !at.branch?.forking },
  );
  const { pages, hasMore, fault, more } = usePages(first.data, (gateway, after) =>
    ask(gateway, { after, limit: PAGE }),
  );
  const isByName = order.by === "name" && !order.isDown;
  const whole = useRead<FilePage>(
    ["whole folder", repo, branch, place.at, prefix],
    (gateway, signal) => wholeFolder((after) => ask(gateway, { after, limit: SORTED_PAGE, signal })),
    { turn: at.turn, isAsked: !isByName && first.data !== undefined && first.data.next !== null },
  );
  const all = hasMore ? whole.data : { files: pages.flatMap((page) => page.files), next: null };
  const isSorted = !isByName && all?.next === null;
  const known = isSorted && hasMore && whole.data ? [whole.data] : pages;
  const files = known.flatMap((page) => page.files).filter(({ path }) => path !== prefix);
  return {
    first,
    folders: known.flatMap((page) => page.folders ?? []),
    files: isSorted ? files.toSorted(comparison(order)) : files,
    isSorted,
    isTooLong: !isByName && hasMore && typeof whole.data?.next === "string",
    faults: fault ?? whole.fault?.message,
    more: more(),
  };
}

const EMPTY: FilePage = { files: [], next: null };

interface FolderTableProps extends Pick<FolderView, "folders" | "files"> {
  readonly place: Place;
  readonly order: Order;
  setOrder(order: Order): void;
}

function FolderTable({ place, folders, files, order, setOrder }: FolderTableProps) {
  return (
    <table className="listing folder">
      <thead>
        <tr>
          {COLUMNS.map((column) => (
            <SortHead key={column.by} column={column} order={order} set={setOrder} />
          ))}
        </tr>
      </thead>
      <tbody>
        {folders.map((folder) => (
          <tr key={folder}>
            <td className="name">
              <Icon kind="folder" />
              <Link href={folderHref({ ...place, path: folder })}>{lastName(folder)}/</Link>
            </td>
            <td className="size quiet">folder</td>
            <td />
          </tr>
        ))}
        {files.map(({ path, size, modifiedAt }) => (
          <tr key={path}>
            <td className="name">
              <Icon kind="file" />
              <Link href={fileHref({ ...place, path })}>{lastName(path)}</Link>
            </td>
            <SizeCell size={size} />
            <td className="when">{modifiedAt !== undefined && <Ago at={modifiedAt} />}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface FolderAsk {
  readonly after?: string | undefined;
  readonly limit: number;
  readonly signal?: AbortSignal;
}

/** All of a folder as one page; if it is too long to be sorted, its beginning, with `next`. */
async function wholeFolder(ask: (after: string | undefined) => Promise<FilePage>): Promise<FilePage> {
  const files: FilePage["files"] = [];
  const folders: string[] = [];
  let next: string | null = null;
  do {
    const page: FilePage = await ask(next ?? undefined);
    files.push(...page.files);
    folders.push(...(page.folders ?? []));
    next = page.next;
  } while (next !== null && files.length + folders.length < MOST_SORTED);
  return { files, folders, next };
}

/** By what the files of a folder are sorted; its folders come first, by name. */
interface Order {
  readonly by: "name" | "size" | "changed";
  readonly isDown: boolean;
}

const BY_NAME: Order = { by: "name", isDown: false };

const COLUMNS = [
  { by: "name", words: "Name" },
  { by: "size", words: "Size" },
  { by: "changed", words: "Changed" },
] as const;

type Listed = FilePage["files"][number];

function comparison({ by, isDown }: Order): (one: Listed, other: Listed) => number {
  const sign = isDown ? -1 : 1;
  if (by === "name") return (one, other) => sign * (one.path < other.path ? -1 : 1);
  const of = ({ size, modifiedAt = 0 }: Listed) => (by === "size" ? size : modifiedAt);
  return (one, other) => sign * (of(one) - of(other));
}

interface SortHeadProps {
  readonly column: (typeof COLUMNS)[number];
  readonly order: Order;
  set(order: Order): void;
}

/** The head of a column, which sorts by it: the largest and the newest first. Pressed again, the other way round. */
function SortHead({ column: { by, words }, order, set }: SortHeadProps) {
  const isHere = order.by === by;
  return (
    <th
      scope="col"
      className={by === "size" ? "size" : undefined}
      aria-sort={isHere ? (order.isDown ? "descending" : "ascending") : undefined}
    >
      <Plain act={() => set({ by, isDown: isHere ? !order.isDown : by !== "name" })}>
        {words}
        <span aria-hidden="true">{isHere ? (order.isDown ? " ↓" : " ↑") : ""}</span>
      </Plain>
    </th>
  );
}

function Nothing({ place, prefix }: BranchProps) {
  if (prefix !== "") return <p>Nothing is in this folder.</p>;
  if (place.at !== undefined) return <p>Nothing was in the branch then.</p>;
  return (
    <p>
      The branch is empty. Drop files below, or put one into it:{" "}
      <CliLine line={command`sluice cp cat.jpg ${cliAddress(place)}`} />
    </p>
  );
}

function Icon({ kind }: { readonly kind: "folder" | "file" }) {
  return (
    <svg className={`icon ${kind}`} viewBox="0 0 16 16" aria-hidden="true">
      {kind === "folder" ? (
        <path d="M1.5 3.5h4.2l1.5 1.8h7.3v8h-13Z" />
      ) : (
        <path d="M3.5 1.5h6l3 3v10h-9Zm6 0v3h3" />
      )}
    </svg>
  );
}
