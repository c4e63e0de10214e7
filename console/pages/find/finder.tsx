import {
  type FormEvent,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { Link, useLocation } from "wouter";
import type { Commit } from "../../../protocol/commits.ts";
import type { Job, Overview, PipelineList } from "../../../protocol/pipelines.ts";
import type { RepoList } from "../../../protocol/repos.ts";
import type { NodeList } from "../../../protocol/runner.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { bucketOf, type Place } from "../../gateway/s3.ts";
import { useOnce, useRead } from "../../gateway/session.ts";
import { Plain, SearchField } from "../../parts/form.tsx";
import { counted, shortId } from "../../parts/words.tsx";
import { branchHref, commitPath, pipelinePath } from "../addresses.ts";

/** What is over the page. */
export type Shown = "search" | "keys";

interface FinderProps {
  readonly shown: Shown;
  show(shown: Shown): void;
  close(): void;
}

/** What `/` and `?` open over the page. */
export default function Finder({ shown, show, close }: FinderProps) {
  return shown === "search" ? (
    <Over title="Search" close={close}>
      <Search close={close} />
      <p className="quiet">
        <Plain act={() => show("keys")}>Keys of the keyboard</Plain>
      </p>
    </Over>
  ) : (
    <Over title="Keys of the keyboard" close={close}>
      <dl className="keyboard">
        {KEYS.map(([keys, does]) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Over>
  );
}

const KEYS: readonly (readonly [keys: readonly string[], does: string])[] = [
  [["/"], "search for a repo, branch, pipeline, job, node or commit"],
  [["?"], "this list"],
  [["Esc"], "close what lies over the page"],
  [["←", "→", "Home", "End"], "from one bar of jobs to another"],
  [["↑", "↓"], "from one result of a search, or one line of a log, to another"],
  [["↑", "↓", "←", "→"], "in the graph: from one pipeline to those beside it"],
  [["Enter", "Space"], "in the graph: open a pipeline, or show all that belongs to it"],
  [["+", "-", "0"], "in the graph: nearer, further away, all of it"],
  [["Shift + ←"], "in the graph: move it, with any arrow"],
];

interface OverProps {
  readonly title: string;
  close(): void;
  readonly children: ReactNode;
}

/** A dialog that is open as long as it is there. */
function Over({ title, close, children }: OverProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const { current } = dialog;
    current?.showModal();
    // The browser begins with what is first: the button that closes it.
    current?.querySelector("input")?.focus();
    // While it is still there, the browser gives the focus back to where it was. A page that comes takes it after that.
    return () => current?.close();
  }, []);
  return (
    <dialog ref={dialog} className="finder" aria-labelledby={id} onClose={close}>
      <div className="title">
        <h2 id={id}>{title}</h2>
        <Plain act={close}>Close</Plain>
      </div>
      {children}
    </dialog>
  );
}

interface Found {
  readonly kind: "page" | "repo" | "branch" | "pipeline" | "node" | "job" | "jobs" | "commit";
  readonly name: string;
  readonly href: string;
}

/** Of each kind. */
const MOST_SHOWN = 6;
/** So long after the last letter it is asked for. */
const TYPED_MS = 200;

function Search({ close }: Pick<FinderProps, "close">) {
  const [, go] = useLocation();
  const [typed, setTyped] = useState("");
  const found = useFound(useSettled(typed.trim()));
  function submit(event: FormEvent): void {
    event.preventDefault();
    const [first] = found;
    if (!first) return;
    close();
    go(first.href);
  }
  return (
    <form onSubmit={submit} onKeyDown={moveThrough}>
      <SearchField
        // In a field of the type search, Escape takes the text away and leaves the dialog open.
        type="text"
        label="Name or id"
        value={typed}
        set={setTyped}
        placeholder="such as photos, or 01J…, or master.photos@01J…"
      />
      <p className="quiet" role="status">
        {typed.trim() === ""
          ? "Repos, branches, pipelines, jobs, nodes and commits."
          : counted(found.length, "result")}
      </p>
      <ul aria-label="Results">
        {found.map(({ kind, name, href }) => (
          <li key={`${kind} ${href}`}>
            <Link href={href} onClick={close}>
              <span className="quiet">{kind}</span> <b>{name}</b>
            </Link>
          </li>
        ))}
      </ul>
    </form>
  );
}

/** The field and the links below it are a column for the arrows. */
function moveThrough(event: KeyboardEvent<HTMLElement>): void {
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (way === undefined) return;
  const column = [...event.currentTarget.querySelectorAll<HTMLElement>("input, a")];
  const { activeElement } = document;
  const here = activeElement instanceof HTMLElement ? column.indexOf(activeElement) : -1;
  event.preventDefault();
  column[here + way]?.focus();
}

/** A text once nothing was typed for a moment. */
function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

const PAGES: readonly Found[] = ["Now", "Jobs", "Repos", "Pipelines", "Graph", "Nodes", "Keys"].map(
  (name) => ({
    ...{ kind: "page", name },
    href: name === "Now" ? "/" : `/${name.toLowerCase()}`,
  }),
);

/**
 * What has a text in its name, or is named by it. Names are asked for once, but those of pipelines, which may be many; what a
 * key may not see is not there.
 */
function useFound(text: string): readonly Found[] {
  const isAsked = text !== "";
  const repos = useOnce<RepoList>("/repos", { isAsked }).data?.repos ?? [];
  const nodes = useOnce<NodeList>("/nodes", { isAsked }).data?.nodes ?? [];
  const overview = useOnce<Overview>("/now", { isAsked }).data;
  const pipelines = useOnce<PipelineList>("/pipelines", {
    query: { search: text, limit: MOST_SHOWN },
    isAsked,
  }).data;
  const jobs = useNamed(text, { overview });
  const commits = useCommits(text, repos);
  if (!isAsked) return [];
  const branches = repos.flatMap(({ name, branches }) => branches.map((branch) => ({ repo: name, branch })));
  const kinds: readonly (readonly Found[])[] = [
    jobs.map(({ id, pipeline }) => ({
      ...{ kind: "job", name: `${pipeline} ${shortId(id)}`, href: `/jobs/${id}` },
    })),
    commits.map((place) => ({
      ...{
        kind: "commit",
        name: `${bucketOf({ ...place, at: undefined })}@${place.at}`,
        href: branchHref(place),
      },
    })),
    (pipelines?.pipelines ?? []).map(({ name }) => ({ kind: "pipeline", name, href: pipelinePath(name) })),
    repos.map(({ name }) => ({ kind: "repo", name, href: `/repos/${name}` })),
    branches.map((place) => ({ kind: "branch", name: bucketOf(place), href: branchHref(place) })),
    nodes.map(({ name }) => ({ kind: "node", name, href: "/nodes" })),
    PAGES,
  ];
  const named = new Set<Found["kind"]>(["job", "commit"]);
  return [
    ...kinds.flatMap((kind) =>
      kind
        .filter((each) => named.has(each.kind) || has(each, text))
        .sort((one, other) => Number(begins(other, text)) - Number(begins(one, text)))
        .slice(0, MOST_SHOWN),
    ),
    {
      ...{ kind: "jobs", name: `with “${text}” in the pipeline's name or the reason` },
      href: `/jobs?${new URLSearchParams({ search: text })}`,
    },
  ];
}

function has({ name }: Found, text: string): boolean {
  return name.toLowerCase().includes(text.toLowerCase());
}

/** What begins so is what was meant, more often than what only has it. */
function begins({ name }: Found, text: string): boolean {
  return name.toLowerCase().startsWith(text.toLowerCase());
}

/** Ids are ULIDs; people see the end of one. */
const WHOLE_ID = /^[0-9A-Z]{26}$/;
const END_OF_ID = /^[0-9A-Z]{4,26}$/;

/** The job of a whole id, or those of the last ones whose ids end so. */
function useNamed(text: string, { overview }: { readonly overview: Overview | undefined }) {
  const id = text.replace(/^…/, "").toUpperCase();
  const whole = useOnce<Job>(`/jobs/${id}`, { isAsked: WHOLE_ID.test(id) }).data;
  if (whole) return [whole];
  if (!overview || !END_OF_ID.test(id)) return [];
  const { underWay, failed, ended } = overview;
  const last = new Map([...ended, ...failed, ...underWay].map((job) => [job.id, job]));
  return [...last.values()].filter((job) => job.id.endsWith(id));
}

/** Branches that are asked for a commit whose branch nobody named. */
const MOST_ASKED = 50;

interface CommitPlace extends Place {
  readonly at: string;
}

/** The commit of an id such as `01J…`, or of `master.photos@01J…`. */
function useCommits(text: string, repos: RepoList["repos"]): readonly CommitPlace[] {
  const [id = "", bucket] = text.split("@").reverse();
  const places = repos
    .flatMap(({ name, branches }) => branches.map((branch) => ({ repo: name, branch, at: id.toUpperCase() })))
    .filter(
      (place) =>
        bucket === undefined || bucketOf({ ...place, at: undefined }) === bucket.replace(/^s3:\/\//, ""),
    )
    .slice(0, MOST_ASKED);
  const asked = async (gateway: Gateway, signal: AbortSignal) => {
    const found = await Promise.all(places.map((place) => hasCommit(gateway, place, signal)));
    return places.filter((_, index) => found[index]);
  };
  const isAsked = WHOLE_ID.test(id.toUpperCase()) && places.length > 0;
  return useRead(["commit", text], asked, { isAsked }).data ?? [];
}

async function hasCommit(gateway: Gateway, place: CommitPlace, signal: AbortSignal): Promise<boolean> {
  const asked = gateway.call<Commit>(commitPath(place, place.at), { signal });
  return await asked.then(
    () => true,
    () => false,
  );
}
