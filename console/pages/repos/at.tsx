import { type FormEvent, useId, useRef, useState } from "react";
import type { Commit, CommitDetail, CommitPage, Tag, TagPage } from "../../../protocol/commits.ts";
import type { BranchDetail } from "../../../protocol/repos.ts";
import { type Live, useLive } from "../../gateway/live.ts";
import { useOnce, useTurn } from "../../gateway/once.ts";
import type { Place, Version } from "../../gateway/s3.ts";
import { faultText, useSession } from "../../gateway/session.tsx";
import { Fault } from "../../parts/broken.tsx";
import { NameField } from "../../parts/form.tsx";
import { shortId } from "../../parts/numbers.ts";
import { JobLink } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";

/** The path of a branch in the control API. */
export function apiPath({ repo, branch }: Place): string {
  return `/repos/${encodeURIComponent(repo)}/branches/${encodeURIComponent(branch)}`;
}

/** Ids of commits are ULIDs; what is none is a tag. */
function isCommitId(at: string): boolean {
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
  const head = useLive<BranchDetail>(apiPath(place), { isAsked: at === undefined });
  const named = useOnce<CommitDetail | Tag>(
    ["at", place.repo, place.branch, at],
    (gateway, signal) =>
      gateway.call(
        `${apiPath(place)}/${isCommitId(at ?? "") ? "commits" : "tags"}/${encodeURIComponent(at ?? "")}`,
        {
          signal,
        },
      ),
    { enabled: at !== undefined },
  );
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

/** Which state is shown, in words. */
export function AtWords({
  place: { at },
  detail,
  commit,
}: { readonly place: Place } & Pick<At, "detail" | "commit">) {
  if (at === undefined) {
    return (
      <span className="quiet">newest{commit ? <span className="mono"> {shortId(commit)}</span> : ""}</span>
    );
  }
  return (
    <span className="then">
      {detail ? (
        <>
          as of <Ago at={detail.createdAt} />, commit <span className="mono">{shortId(detail.id)}</span>
        </>
      ) : (
        <>
          at <span className="mono">{isCommitId(at) ? shortId(at) : at}</span>
        </>
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
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setOpen] = useState(false);
  const title = useId();
  function open(): void {
    setOpen(true);
    dialog.current?.showModal();
  }
  function choose(at: string | undefined): void {
    dialog.current?.close();
    props.choose(at);
  }
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={open}>
        {props.label}
      </button>
      <dialog ref={dialog} className="picker" aria-labelledby={title} onClose={() => setOpen(false)}>
        <div className="title">
          <h2 id={title}>{props.label}</h2>
          <button type="button" className="plain" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
        {isOpen && <Choices {...props} choose={choose} />}
      </dialog>
    </>
  );
}

const PAGE = 50;

function Choices({ place, versions = [], headWords = "Newest", isById = false, choose }: PickerProps) {
  const session = useSession();
  const { gateway } = session;
  const { repo, branch } = place;
  const tags = useOnce<TagPage>(["tags", repo, branch], (_, signal) =>
    gateway.call(`/repos/${encodeURIComponent(repo)}/tags`, { query: { branch }, signal }),
  );
  const first = useOnce<CommitPage>(["commits", repo, branch], (_, signal) =>
    gateway.call(`${apiPath(place)}/commits`, { query: { limit: PAGE }, signal }),
  );
  const [older, setOlder] = useState<readonly CommitPage[]>([]);
  const [fault, setFault] = useState<string>();
  const [named, setNamed] = useState("");
  const pages = [...(first.data ? [first.data] : []), ...older];
  const next = pages.at(-1)?.next ?? null;
  const wrote = new Set(versions.map(({ id }) => id));
  async function more(): Promise<void> {
    try {
      const query = { limit: PAGE, after: next ?? undefined };
      const page = await gateway.call<CommitPage>(`${apiPath(place)}/commits`, { query });
      setOlder((before) => [...before, page]);
    } catch (error) {
      setFault(faultText(error, session));
    }
  }
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
          <button type="button" className="plain" onClick={() => choose(undefined)}>
            {headWords}
          </button>
        </li>
        {tags.data?.tags.map((tag) => (
          <li key={`tag ${tag.name}`}>
            <button
              type="button"
              className="plain mono"
              onClick={() => choose(isById ? tag.commit : tag.name)}
            >
              {tag.name}
            </button>
            <span className="quiet">
              tag of <span className="mono">{shortId(tag.commit)}</span>
            </span>
          </li>
        ))}
        {pages.flatMap(({ commits }) =>
          commits.map((commit) => (
            <li key={commit.id} className={wrote.has(commit.id) ? "wrote" : ""}>
              <button type="button" className="plain mono" onClick={() => choose(commit.id)}>
                {shortId(commit.id)}
              </button>
              <span>
                <Ago at={commit.createdAt} /> <CommitWords commit={commit} />
                {wrote.has(commit.id) && <b> wrote this file</b>}
              </span>
            </li>
          )),
        )}
      </ul>
      {first.data && pages.every(({ commits }) => commits.length === 0) && (
        <p className="quiet">The branch has no commit yet.</p>
      )}
      {next !== null && (
        <button type="button" onClick={() => void more()}>
          Older commits
        </button>
      )}
    </>
  );
}

/** That the message and the metadata were taken out of a commit. */
export function RedactedWords({ redacted }: { readonly redacted: NonNullable<Commit["redacted"]> }) {
  return (
    <>
      redacted <Ago at={redacted.at} /> by key <span className="mono">{redacted.by}</span>
    </>
  );
}

/** What a commit says of itself: its message, or that it was taken out, and who made it. */
export function CommitWords({
  commit: { message, redacted, key, job, imported },
}: {
  readonly commit: Pick<Commit, "message" | "redacted" | "key" | "job" | "imported">;
}) {
  return (
    <>
      {redacted ? <RedactedWords redacted={redacted} /> : message}
      {(message !== null || redacted) && (job !== null || key !== null) && " · "}
      {job !== null ? (
        <>
          by <JobLink id={job} />
        </>
      ) : (
        key !== null && `by ${key}`
      )}
      {imported && " · imported"}
    </>
  );
}
