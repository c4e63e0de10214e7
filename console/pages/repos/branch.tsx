import { Link, useLocation } from "wouter";
import { Bucket, bucketOf, type FolderPage, type Place } from "../../gateway/s3.ts";
import { useRead } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Fault, usePages } from "../../parts/form.tsx";
import { Asked, Heard, Page, Table } from "../../parts/page.tsx";
import { countText, Mono } from "../../parts/words.tsx";
import { cliAddress, fileHref, folderHref, lastName } from "../addresses.ts";
import { type At, AtWords, BranchTabs, CommitPicker, CommitWords, Crumbs, SizeCell, useAt } from "./at.tsx";
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

function Folder({ place, prefix, at }: BranchProps & { readonly at: At }) {
  const { repo, branch } = place;
  const first = useRead<FolderPage>(
    ["folder", repo, branch, place.at, prefix],
    (gateway, signal) => new Bucket(gateway, place).folder(prefix, { signal }),
    { turn: at.turn, isAsked: !at.branch?.forking },
  );
  const { pages, hasMore, fault, more } = usePages(first.data, (gateway, after) =>
    new Bucket(gateway, place).folder(prefix, { after }),
  );
  const folders = pages.flatMap((page) => page.folders);
  const files = pages.flatMap((page) => page.files);
  const count = folders.length + files.length;
  const canWrite = place.at === undefined && !at.branch?.forking;
  return (
    <>
      {!at.live.fault && <Fault words={first.fault?.message} />}
      {!first.data && !at.live.fault && <Asked live={first} />}
      {count > 0 && (
        <Table className="listing" head={["Name", "Size"]} sizes={["Size"]}>
          {folders.map((folder) => (
            <tr key={folder}>
              <td className="name">
                <Icon kind="folder" />
                <Link href={folderHref({ ...place, path: folder })}>{lastName(folder)}/</Link>
              </td>
              <td className="size quiet">folder</td>
            </tr>
          ))}
          {files.map(({ key, size }) => (
            <tr key={key}>
              <td className="name">
                <Icon kind="file" />
                <Link href={fileHref({ ...place, path: key })}>{lastName(key)}</Link>
              </td>
              <SizeCell size={size} />
            </tr>
          ))}
        </Table>
      )}
      {hasMore && (
        <p className="actions">
          {more()}
          <span className="quiet">{countText(count)} are shown.</span>
        </p>
      )}
      <Fault words={fault} />
      {first.data && count === 0 && <Nothing place={place} prefix={prefix} />}
      {canWrite && <UploadPlace place={place} prefix={prefix} />}
    </>
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
