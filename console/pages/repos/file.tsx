import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { Bucket, type FileStart, type Place, type Version, type Versions } from "../../gateway/s3.ts";
import { useRead } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Button, Fault, useAct } from "../../parts/form.tsx";
import { Asked, Page, Section, Table } from "../../parts/page.tsx";
import { save } from "../../parts/save.ts";
import { Ago, countText, Mono, shortId, sizeText } from "../../parts/words.tsx";
import { branchHref, cliAddress, fileHref, folderHref, lastName } from "../addresses.ts";
import { AtWords, CommitPicker, CommitWords, Crumbs, useAt } from "./at.tsx";
import { Derived, Makers } from "./lineage.tsx";
import { Preview } from "./preview/preview.tsx";
import { Sources } from "./sources.tsx";

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
  const start = useRead<FileStart>(
    ["file", repo, branch, place.at, path],
    (gateway, signal) => new Bucket(gateway, place).start(path, { most: FIRST_BYTES, signal }),
    { turn },
  );
  const versions = useRead<Versions>(
    ["versions", repo, branch, path],
    (gateway, signal) => new Bucket(gateway, { repo, branch }).versions(path, signal),
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
          <AtWords place={place} at={at} />
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
      {!start.data && <Asked live={start} />}
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
          written <Ago at={version.at} /> by commit <Mono>{shortId(version.id)}</Mono>
        </span>
      )}
      <span className="quiet" title={etag.replaceAll('"', "")}>
        <Mono before="ETag ">{`${etag.replaceAll('"', "").slice(0, 12)}…`}</Mono>
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

/** The path names no file here; what it was is in the history, if it ever was one. */
function Gone({ place, path, versions }: FileProps & { readonly versions: Versions | undefined }) {
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

const QUESTIONS = [
  { name: "makers", words: "What made this" },
  { name: "sources", words: "Back to its sources" },
  { name: "derived", words: "What was made from this" },
] as const;

/** Three questions, one click each. */
function Lineage({ place, path, commit, version }: LineageProps) {
  const [asked, ask] = useState<(typeof QUESTIONS)[number]["name"]>();
  if (commit === undefined) return null;
  const of = { place, path, commit };
  return (
    <section aria-label="Lineage">
      <p className="actions">
        {QUESTIONS.map(({ name, words }) => (
          <Button
            key={name}
            aria-expanded={asked === name}
            act={() => ask(asked === name ? undefined : name)}
          >
            {words}
          </Button>
        ))}
      </p>
      {asked === "makers" && <Makers {...of} writer={version?.id} />}
      {asked === "sources" && <Sources {...of} />}
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
    <Section title="Versions">
      <Table className="listing" head={["Commit", "When", "Size"]} sizes={["Size"]}>
        {versions.map(({ id, isDeletion, at, size }) => (
          <tr key={id} aria-current={id === shown?.id ? "true" : undefined}>
            <td className="mono">
              {isDeletion ? id : <Link href={fileHref({ repo, branch, at: id, path })}>{id}</Link>}
              {id === shown?.id && <b> shown</b>}
            </td>
            <td>
              <Ago at={at} />
            </td>
            <td className="size">{isDeletion ? "deleted" : sizeText(size)}</td>
          </tr>
        ))}
      </Table>
      {more && (
        <p className="quiet">
          Older versions are in the <Link href={branchHref({ repo, branch }, "history")}>history</Link> of the
          branch.
        </p>
      )}
    </Section>
  );
}

/*
 * A download is signed in a header, like all else: a link to the file itself would have a signature in its address, which
 * histories and proxies keep. So the bytes come through this page. Up to a bound they become a blob, of a type that no
 * browser shows as a page; larger files are written to the disk as they come, if the browser can do that; else the command
 * line fetches them.
 */

/** Most that is held for a download. */
const MOST_HELD = 256 * 1024 * 1024;

type SavePicker = (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;

/** Asks where to save a file; not every browser has it. */
function savePicker(): SavePicker | undefined {
  const { showSaveFilePicker } = globalThis as { showSaveFilePicker?: SavePicker };
  return showSaveFilePicker?.bind(globalThis);
}

interface DownloadProps {
  readonly place: Place;
  readonly path: string;
  readonly size: number;
}

/** A button that saves a file. */
function Download({ place, path, size }: DownloadProps) {
  const [got, setGot] = useState<number>();
  const stopping = useRef<AbortController>(undefined);
  useEffect(() => () => stopping.current?.abort(), []);
  const picker = savePicker();
  const name = lastName(path);
  const { fault, run } = useAct(async (gateway) => {
    const controller = new AbortController();
    stopping.current = controller;
    const { signal } = controller;
    try {
      const target = size > MOST_HELD ? await picker?.({ suggestedName: name }) : undefined;
      setGot(0);
      const bytes = await new Bucket(gateway, place).read(path, signal);
      const counted = bytes.pipeThrough(counter((count) => setGot((before = 0) => before + count)));
      if (target) await counted.pipeTo(await target.createWritable(), { signal });
      else save(await new Response(counted).blob(), name);
    } catch (error) {
      // Somebody cancelled it, here or in the browser's own dialog.
      if (error instanceof DOMException && error.name === "AbortError") return;
      if (!(error instanceof TypeError)) throw error;
      const line = `'sluice cp ${cliAddress(place, path).text} .'`;
      throw new Error(`The connection broke off. ${line} tries again by itself.`);
    } finally {
      setGot(undefined);
    }
  });
  if (size > MOST_HELD && !picker) {
    return (
      <span>
        {sizeText(size)} are more than this browser can save from a page: the line beside this does it.
      </span>
    );
  }
  return (
    <span className="action">
      {got === undefined ? (
        <Button act={run}>Download</Button>
      ) : (
        <>
          <progress value={got} max={size} aria-label="What has come" />
          <span>
            {sizeText(got)} of {sizeText(size)}
          </span>
          <Button act={() => stopping.current?.abort()}>Cancel</Button>
        </>
      )}
      <Fault words={fault} as="span" />
    </span>
  );
}

type Bytes = Uint8Array<ArrayBuffer>;

/** Tells of bytes that pass, some times a second. */
function counter(tell: (count: number) => void): TransformStream<Bytes, Bytes> {
  let untold = 0;
  let toldAt = 0;
  return new TransformStream({
    transform(chunk, out) {
      untold += chunk.length;
      if (Date.now() - toldAt > 100) {
        tell(untold);
        untold = 0;
        toldAt = Date.now();
      }
      out.enqueue(chunk);
    },
  });
}
