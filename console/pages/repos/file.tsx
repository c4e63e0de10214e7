import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useOnce } from "../../gateway/once.ts";
import {
  type FileStart,
  listVersions,
  type Place,
  readStart,
  type Version,
  type Versions,
} from "../../gateway/s3.ts";
import { Fault } from "../../parts/broken.tsx";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { countText, shortId } from "../../parts/numbers.ts";
import { Page } from "../../parts/page.tsx";
import { sizeText } from "../../parts/size.ts";
import { Ago } from "../../parts/time.tsx";
import { AtWords, CommitPicker, CommitWords, useAt } from "./at.tsx";
import { Crumbs } from "./crumbs.tsx";
import { Download } from "./download.tsx";
import { Derived, Makers } from "./lineage.tsx";
import { cliAddress, fileHref, folderHref, lastName } from "./places.ts";
import { Preview } from "./preview/preview.tsx";

/** What is fetched of a file before anybody asks for more. */
const FIRST_BYTES = 256 * 1024;

interface FileProps {
  readonly place: Place;
  readonly path: string;
}

/** A file, now or at a commit: what is in it, its versions, what made it, and what was made from it. */
export function FilePage({ place, path }: FileProps) {
  const { repo, branch } = place;
  const [, go] = useLocation();
  const at = useAt(place);
  const { turn } = at;
  const start = useOnce<FileStart>(
    ["file", repo, branch, place.at, path],
    (gateway, signal) => readStart(gateway, place, { key: path, most: FIRST_BYTES, signal }),
    { turn },
  );
  const versions = useOnce<Versions>(
    ["versions", repo, branch, path],
    (gateway, signal) => listVersions(gateway, place, { key: path, signal }),
    { turn },
  );
  const shown = versions.data && shownVersion(versions.data, at.commit);
  const name = lastName(path);
  const isGone = start.fault?.status === 404;
  return (
    <Page
      title={name}
      cli={command`sluice cat ${cliAddress(place, path)}`}
      live={at.live}
      aside={
        <>
          <AtWords place={place} detail={at.detail} commit={at.commit} />
          <CommitPicker
            place={place}
            label="Look at another commit"
            versions={versions.data?.versions ?? []}
            choose={(chosen) => go(fileHref({ ...place, at: chosen, path }))}
          />
        </>
      }
    >
      <Crumbs place={place} path={path} />
      {place.at !== undefined && (
        <p className="notice past">
          <span>
            This is the file as the commit {place.at} has it.{" "}
            {at.detail && <CommitWords commit={at.detail} />}
          </span>
          <Link href={fileHref({ repo, branch, path })}>To the newest</Link>
        </p>
      )}
      {!start.data && !start.fault && <p className="quiet">Asking the gateway…</p>}
      {isGone && <Gone place={place} path={path} versions={versions.data} />}
      {!isGone && <Fault words={start.fault?.message} />}
      {start.data && !isGone && (
        <>
          <Facts start={start.data} version={shown} />
          <div className="actions">
            <Download place={place} path={path} size={start.data.size} />
            <CliLine line={command`sluice cp ${cliAddress(place, path)} .`} />
          </div>
          <Lineage place={place} path={path} commit={at.commit ?? undefined} version={shown} />
          <Preview key={start.data.etag} place={place} path={path} start={start.data} />
        </>
      )}
      {versions.data && versions.data.versions.length > 0 && (
        <VersionList place={place} path={path} versions={versions.data} shown={shown} />
      )}
      <Fault words={versions.fault?.message} />
    </Page>
  );
}

/** The version that a commit has: the newest that it or a commit before it wrote. Ids of commits grow. */
function shownVersion({ versions }: Versions, commit: string | null | undefined): Version | undefined {
  return commit ? versions.find(({ id }) => id <= commit) : undefined;
}

function Facts({ start, version }: { readonly start: FileStart; readonly version: Version | undefined }) {
  const { size, type, etag, metadata, tags } = start;
  return (
    <p className="facts">
      <b title={`${countText(size)} bytes`}>{sizeText(size)}</b>
      {type !== "" && <span>{type}</span>}
      {version && (
        <span>
          written <Ago at={version.at} /> by commit <span className="mono">{shortId(version.id)}</span>
        </span>
      )}
      <span className="mono quiet" title={etag.replaceAll('"', "")}>
        {etag.replaceAll('"', "").slice(0, 12)}…
      </span>
      {metadata.map(([name, value]) => (
        <span key={name} className="quiet">
          {name}: {value}
        </span>
      ))}
      {tags.map(([key, value]) => (
        <span key={key} className="quiet" title="a tag">
          {key}={value}
        </span>
      ))}
    </p>
  );
}

interface GoneProps extends FileProps {
  readonly versions: Versions | undefined;
}

/** The path names no file here; what it was is in the history, if it ever was one. */
function Gone({ place, path, versions }: GoneProps) {
  const { repo, branch, at } = place;
  const last = versions?.versions.find(({ isDeletion }) => !isDeletion);
  return (
    <div role="alert">
      <p className="reason">
        {at === undefined ? "There is no such file now." : "The commit has no such file, or is kept no more."}
      </p>
      <p>
        {last ? (
          <>
            It was last written by the commit{" "}
            <Link href={fileHref({ repo, branch, at: last.id, path })}>{shortId(last.id)}</Link>,{" "}
            <Ago at={last.at} />.
          </>
        ) : (
          "No commit that is kept wrote it."
        )}{" "}
        <Link href={folderHref({ ...place, path: path.slice(0, path.lastIndexOf("/") + 1) })}>
          What is in its folder
        </Link>
      </p>
    </div>
  );
}

interface LineageProps extends FileProps {
  /** The one that is looked at. */
  readonly commit: string | undefined;
  readonly version: Version | undefined;
}

/** Two questions, one click each. */
function Lineage({ place, path, commit, version }: LineageProps) {
  const [asked, ask] = useState<"makers" | "derived">();
  if (commit === undefined) return null;
  const of = { place, path, commit };
  return (
    <section aria-label="Lineage">
      <p className="actions">
        <button
          type="button"
          aria-expanded={asked === "makers"}
          onClick={() => ask(asked === "makers" ? undefined : "makers")}
        >
          What made this
        </button>
        <button
          type="button"
          aria-expanded={asked === "derived"}
          onClick={() => ask(asked === "derived" ? undefined : "derived")}
        >
          What was made from this
        </button>
      </p>
      {asked === "makers" && <Makers {...of} writer={version?.id} />}
      {asked === "derived" && <Derived {...of} />}
    </section>
  );
}

interface VersionsProps extends FileProps {
  readonly versions: Versions;
  /** The one that is looked at. */
  readonly shown: Version | undefined;
}

function VersionList({ place, path, versions: { versions, more }, shown }: VersionsProps) {
  const { repo, branch } = place;
  return (
    <section aria-label="Versions">
      <h2>Versions</h2>
      <table className="listing">
        <thead>
          <tr>
            <th scope="col">Commit</th>
            <th scope="col">When</th>
            <th scope="col" className="size">
              Size
            </th>
          </tr>
        </thead>
        <tbody>
          {versions.map((version) => (
            <tr key={version.id} aria-current={version.id === shown?.id ? "true" : undefined}>
              <td className="mono">
                {version.isDeletion ? (
                  version.id
                ) : (
                  <Link href={fileHref({ repo, branch, at: version.id, path })}>{version.id}</Link>
                )}
                {version.id === shown?.id && <b> shown</b>}
              </td>
              <td>
                <Ago at={version.at} />
              </td>
              <td className="size">{version.isDeletion ? "deleted" : sizeText(version.size)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more && (
        <p className="quiet">
          Older versions are in the <Link href={`/repos/${repo}/${branch}/history`}>history</Link> of the
          branch.
        </p>
      )}
    </section>
  );
}
