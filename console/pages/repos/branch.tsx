import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useOnce } from "../../gateway/once.ts";
import { bucketOf, type FolderPage, listFolder, type Place } from "../../gateway/s3.ts";
import { faultText, useSession } from "../../gateway/session.tsx";
import { Fault } from "../../parts/broken.tsx";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { countText } from "../../parts/numbers.ts";
import { Heard, Page } from "../../parts/page.tsx";
import { sizeText } from "../../parts/size.ts";
import { type At, AtWords, CommitPicker, CommitWords, useAt } from "./at.tsx";
import { BranchTabs, Crumbs } from "./crumbs.tsx";
import { cliAddress, fileHref, folderHref, lastName } from "./places.ts";
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
          <AtWords place={place} detail={at.detail} commit={at.commit} />
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
        This is what was there at the commit <span className="mono">{place.at}</span>
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
  const session = useSession();
  const { gateway } = session;
  const { repo, branch } = place;
  const first = useOnce<FolderPage>(
    ["folder", repo, branch, place.at, prefix],
    (_, signal) => listFolder(gateway, place, { prefix, signal }),
    { turn: at.turn, enabled: !at.branch?.forking },
  );
  // Pages behind the first are of the state that it is of.
  const [rest, setRest] = useState<{ readonly of: FolderPage; readonly pages: readonly FolderPage[] }>();
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const behind = rest && rest.of === first.data ? rest.pages : [];
  const pages = first.data ? [first.data, ...behind] : [];
  const next = pages.at(-1)?.next;
  async function more(of: FolderPage): Promise<void> {
    setBusy(true);
    setFault(undefined);
    try {
      const after = next === undefined ? {} : { after: next };
      const page = await listFolder(gateway, place, {
        prefix,
        ...after,
        signal: AbortSignal.timeout(30_000),
      });
      setRest({ of, pages: [...behind, page] });
    } catch (error) {
      setFault(faultText(error, session));
    }
    setBusy(false);
  }
  const count = pages.reduce((sum, { folders, files }) => sum + folders.length + files.length, 0);
  const canWrite = place.at === undefined && !at.branch?.forking;
  return (
    <>
      {!at.live.fault && <Fault words={first.fault?.message} />}
      {!first.data && !first.fault && !at.live.fault && <p className="quiet">Asking the gateway…</p>}
      {count > 0 && (
        <table className="listing">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col" className="size">
                Size
              </th>
            </tr>
          </thead>
          <tbody>
            {pages.flatMap(({ folders }) =>
              folders.map((folder) => (
                <tr key={folder}>
                  <td className="name">
                    <Icon kind="folder" />
                    <Link href={folderHref({ ...place, path: folder })}>{lastName(folder)}/</Link>
                  </td>
                  <td className="size quiet">folder</td>
                </tr>
              )),
            )}
            {pages.flatMap(({ files }) =>
              files.map(({ key, size }) => (
                <tr key={key}>
                  <td className="name">
                    <Icon kind="file" />
                    <Link href={fileHref({ ...place, path: key })}>{lastName(key)}</Link>
                  </td>
                  <td className="size" title={`${countText(size)} bytes`}>
                    {sizeText(size)}
                  </td>
                </tr>
              )),
            )}
          </tbody>
        </table>
      )}
      {first.data && next !== undefined && (
        <p className="actions">
          <button type="button" disabled={isBusy} onClick={() => first.data && void more(first.data)}>
            {isBusy ? "Asking the gateway…" : "More"}
          </button>
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
