import { type FormEvent, Fragment, useState } from "react";
import { Link } from "wouter";
import type {
  ChangeSummary,
  Commit,
  CommitDetail,
  CommitPage,
  Tag,
  TagPage,
} from "../../../protocol/commits.ts";
import type { BranchDetail } from "../../../protocol/repos.ts";
import type { Place, Version } from "../../gateway/s3.ts";
import { type Live, useLive, useOnce, useTurn } from "../../gateway/session.ts";
import { Button, Dialog, Fault, NameField, Plain, usePages } from "../../parts/form.tsx";
import { JobLink } from "../../parts/jobs.tsx";
import { Ago, counted, countText, Mono, shortId, signedSizeText, sizeText } from "../../parts/words.tsx";
import { branchHref, branchPath, folderHref, lastName, repoPath } from "../addresses.ts";

/** Ids of commits are ULIDs; what is none is a tag. */
export function isCommitId(at: string): boolean {
  return /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i.test(at);
}

/** What is looked at: the branch as it is, or one of its commits. */
export interface At {
  /** Of what is looked at. Null: the branch has no commit. Undefined: not known yet. */
  readonly commit: string | null | undefined;
  /** Counts up when the newest commit becomes another one. */
  readonly turn: number;
  /** At HEAD alone. */
  readonly branch: BranchDetail | undefined;
  /** Of a commit that is named by its id. */
  readonly detail: CommitDetail | undefined;
  /** The answer that says it. */
  readonly live: Live<unknown>;
}

/** Asks in one call what is looked at; at HEAD again and again, since that alone moves. */
export function useAt(place: Place): At {
  const { at } = place;
  const head = useLive<BranchDetail>(branchPath(place), { isAsked: at === undefined });
  const kind = isCommitId(at ?? "") ? "commits" : "tags";
  const named = useOnce<CommitDetail | Tag>(`${branchPath(place)}/${kind}/${encodeURIComponent(at ?? "")}`, {
    isAsked: at !== undefined,
  });
  const turn = useTurn(at === undefined ? head.data?.head : undefined);
  if (at === undefined) {
    const { data: branch } = head;
    return { commit: branch?.head, turn, branch, detail: undefined, live: head };
  }
  const { data } = named;
  const detail = data && "parent" in data ? data : undefined;
  const commit = detail ? detail.id : data && "commit" in data ? data.commit : undefined;
  return { commit, turn, branch: undefined, detail, live: named };
}

interface AtProps {
  readonly place: Place;
  readonly at: At;
}

/** Which state is shown, in words. */
export function AtWords({ place: { at }, at: { detail, commit } }: AtProps) {
  if (at === undefined) {
    return <span className="quiet">newest{commit ? <Mono> {shortId(commit)}</Mono> : ""}</span>;
  }
  return (
    <span className="then">
      {detail ? (
        <>
          as of <Ago at={detail.createdAt} />, commit <Mono>{shortId(detail.id)}</Mono>
        </>
      ) : (
        <Mono before="at ">{isCommitId(at) ? shortId(at) : at}</Mono>
      )}
    </span>
  );
}

interface PickerProps {
  readonly place: Place;
  /** What the button says. */
  readonly label: string;
  /** Commits that wrote the file that is looked at. */
  readonly versions?: readonly Version[];
  /** What it is called to choose none of the list. */
  readonly headWords?: string;
  /** Whether a tag is told as the commit that it names. */
  readonly isById?: boolean;
  /** An id or a tag; undefined: HEAD. */
  choose(at: string | undefined): void;
}

/** A button that opens a list of the commits and tags of a branch. */
export function CommitPicker(props: PickerProps) {
  return (
    <Dialog words={props.label} title={props.label} className="picker">
      {(close) => (
        <Choices
          {...props}
          choose={(at) => {
            close();
            props.choose(at);
          }}
        />
      )}
    </Dialog>
  );
}

/** A page of commits, each with what it changed: what adding that up costs is not asked for by a poll. */
export const SUMMED = { limit: 50, summary: true };

/** The tags of a branch. */
export function useTags({ repo, branch }: Place): Live<TagPage> {
  return useOnce<TagPage>(`${repoPath(repo)}/tags`, { query: { branch } });
}

function Choices({ place, versions = [], headWords = "Newest", isById = false, choose }: PickerProps) {
  const path = `${branchPath(place)}/commits`;
  const tags = useTags(place);
  const first = useOnce<CommitPage>(path, { query: SUMMED });
  const { pages, fault, more } = usePages(first.data, (gateway, after) =>
    gateway.call<CommitPage>(path, { query: { ...SUMMED, after } }),
  );
  const [named, setNamed] = useState("");
  const wrote = new Set(versions.map(({ id }) => id));
  function submit(event: FormEvent): void {
    event.preventDefault();
    const tag = isById ? tags.data?.tags.find(({ name }) => name === named) : undefined;
    if (named !== "") choose(tag?.commit ?? named);
  }
  const shown = fault ?? first.fault?.message ?? tags.fault?.message;
  return (
    <>
      <form className="line" onSubmit={submit}>
        <NameField label="Id or tag" value={named} set={setNamed} />
        <button type="submit">Go there</button>
      </form>
      <Fault words={shown} />
      <ul className="choices">
        <li>
          <Plain act={() => choose(undefined)}>{headWords}</Plain>
        </li>
        {tags.data?.tags.map((tag) => (
          <li key={`tag ${tag.name}`}>
            <Button className="plain mono" act={() => choose(isById ? tag.commit : tag.name)}>
              {tag.name}
            </Button>
            <span className="quiet">
              tag of <Mono>{shortId(tag.commit)}</Mono>
            </span>
          </li>
        ))}
        {pages.flatMap(({ commits }) =>
          commits.map((commit) => (
            <li key={commit.id} className={wrote.has(commit.id) ? "wrote" : ""}>
              <Button className="plain mono" act={() => choose(commit.id)}>
                {shortId(commit.id)}
              </Button>
              <span>
                <Ago at={commit.createdAt} /> <CommitWords commit={commit} />
                <span className="quiet">
                  {" "}
                  · <ChangeWords summary={commit.summary ?? null} changes={commit.changes} />
                </span>
                {wrote.has(commit.id) && <b> wrote this file</b>}
              </span>
            </li>
          )),
        )}
      </ul>
      {first.data && pages.every(({ commits }) => commits.length === 0) && (
        <p className="quiet">The branch has no commit yet.</p>
      )}
      {more("Older commits")}
    </>
  );
}

/** That the message and the metadata were taken out of a commit. */
export function RedactedWords({ redacted }: { readonly redacted: NonNullable<Commit["redacted"]> }) {
  return (
    <>
      redacted <Ago at={redacted.at} /> by key <Mono>{redacted.by}</Mono>
    </>
  );
}

interface CommitWordsProps {
  readonly commit: Pick<Commit, "message" | "redacted" | "key" | "job" | "imported">;
}

/** What a commit says of itself: its message, or that it was taken out, and who made it. */
export function CommitWords({ commit: { message, redacted, key, job, imported } }: CommitWordsProps) {
  return (
    <>
      {redacted ? <RedactedWords redacted={redacted} /> : message}
      {(message !== null || redacted) && (job !== null || key !== null) && " · "}
      {job === null ? (
        key !== null && `by ${key}`
      ) : (
        <>
          by <JobLink id={job} />
        </>
      )}
      {imported && " · imported"}
    </>
  );
}

interface ChangeWordsProps extends Pick<Commit, "changes"> {
  readonly summary: ChangeSummary | null;
}

/** What a commit changed: the file, or the first of them, and how many bytes it came to. */
export function ChangeWords({ summary, changes: { written, ended } }: ChangeWordsProps) {
  if (!summary) {
    const parts = [
      ...(written > 0 ? [`${countText(written)} written`] : []),
      ...(ended > 0 ? [`${countText(ended)} replaced or deleted`] : []),
    ];
    return parts.join(", ") || "nothing changed";
  }
  const { path, added, changed, deleted, bytes } = summary;
  if (path === null) return "nothing changed";
  const files = added + changed + deleted;
  const kinds = Object.entries({ added, changed, deleted }).filter(([, count]) => count > 0);
  const [[only = ""] = []] = kinds;
  const words =
    kinds.length === 1
      ? `${files === 1 ? "" : `${counted(files, "file")} `}${only}`
      : `${counted(files, "file")}: ${kinds.map(([kind, count]) => `${countText(count)} ${kind}`).join(", ")}`;
  return (
    <>
      <Mono>{path}</Mono>
      {files > 1 && ` and ${countText(files - 1)} more`} · {words}, {signedSizeText(bytes)}
    </>
  );
}

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
