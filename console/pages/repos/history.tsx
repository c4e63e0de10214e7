import { useState } from "react";
import { Link } from "wouter";
import type { ChangeSummary, Commit, CommitPage, TagPage } from "../../../protocol/commits.ts";
import type { RevertEnd } from "../../../protocol/files.ts";
import type { WhoAmI } from "../../../protocol/keys.ts";
import type { BranchDetail } from "../../../protocol/repos.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { bucketOf, type Place } from "../../gateway/s3.ts";
import { type Live, useLive, useOnce, useTurn } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Button, Fault, NameField, Plain, useAct, useSubmission } from "../../parts/form.tsx";
import { JobLink } from "../../parts/jobs.tsx";
import { Asked, Heard, Page } from "../../parts/page.tsx";
import { Ago, counted, Mono, shortId } from "../../parts/words.tsx";
import { branchHref, branchPath, commitPath, diffHref } from "../addresses.ts";
import { BranchTabs, ChangeWords, Crumbs, RedactedWords, SUMMED, useTags } from "./at.tsx";

/** The commits of a branch, newest first: when, by whom, with which message, and how much each changed. */
export function HistoryPage({ place }: { readonly place: Place }) {
  const bucket = bucketOf(place);
  const live = useLive<CommitPage>(`${branchPath(place)}/commits`, { query: { limit: SUMMED.limit } });
  const tags = useTags(place);
  return (
    <Page
      title={`History of ${bucket}`}
      cli={command`sluice commit list ${bucket}`}
      live={live}
      aside={<Heard live={live} />}
    >
      <Crumbs place={place} />
      <BranchTabs place={place} here="history" />
      <Asked live={live}>
        {(newest) => <Commits place={place} live={live} newest={newest} tags={tags} />}
      </Asked>
    </Page>
  );
}

interface CommitsProps {
  readonly place: Place;
  readonly live: Live<CommitPage>;
  readonly newest: CommitPage;
  readonly tags: Live<TagPage>;
}

function Commits({ place, live, newest, tags }: CommitsProps) {
  const [older, setOlder] = useState<CommitPage>();
  const [marked, mark] = useState<string>();
  const first = newest.commits.at(-1)?.id ?? "";
  // Ids grow. Between the newest ones and older ones that were asked for, others may have come that are not here.
  const isGap = older !== undefined && !meets(newest, older);
  const behind = older && !isGap ? older.commits.filter(({ id }) => id < first) : [];
  const commits = [...newest.commits, ...behind];
  const next = older && !isGap ? older.next : newest.next;
  const summaryOf = useSummaries(place, commits);
  const refusal = useRefusal(place);
  const { fault, run } = useAct(async (gateway) => {
    const query = { ...SUMMED, after: next ?? undefined };
    const page = await gateway.call<CommitPage>(`${branchPath(place)}/commits`, { query });
    setOlder({ commits: [...newest.commits, ...behind, ...page.commits], next: page.next });
  });
  if (commits.length === 0) {
    return (
      <p>
        The branch has no commit yet. <CliLine line={command`sluice cp cat.jpg s3://${bucketOf(place)}/`} />
      </p>
    );
  }
  const named = Map.groupBy(tags.data?.tags ?? [], ({ commit }) => commit);
  return (
    <>
      <p className="quiet">
        {marked === undefined
          ? "Mark two commits to see how they differ."
          : `Marked is ${shortId(marked)}: choose the one to compare it with.`}{" "}
        {refusal}
      </p>
      <ol className="commits">
        {commits.map((commit) => (
          <li key={commit.id} className={commit.id === marked ? "marked" : ""}>
            <CommitLine
              place={place}
              commit={commit}
              summary={summaryOf(commit)}
              canRevert={refusal === null && commit.id !== commits[0]?.id}
              names={(named.get(commit.id) ?? []).map(({ name }) => name)}
              marked={marked}
              mark={mark}
              changed={() => {
                live.reload();
                tags.reload();
              }}
            />
          </li>
        ))}
      </ol>
      <Fault words={fault} />
      <p className="actions">
        {next !== null && <Button act={run}>Older commits</Button>}
        <span className="quiet">{counted(commits.length, "commit")} shown.</span>
      </p>
    </>
  );
}

/** What commits changed: with older ones it came, of the newest it is asked when there is a new one. */
function useSummaries(place: Place, commits: readonly Commit[]): (commit: Commit) => ChangeSummary | null {
  const { data } = useOnce<CommitPage>(`${branchPath(place)}/commits`, {
    query: SUMMED,
    turn: useTurn(commits[0]?.id),
    isAsked: commits.length > 0,
  });
  const known = new Map(data?.commits.map(({ id, summary }) => [id, summary]));
  return ({ id, summary }) => known.get(id) ?? summary ?? null;
}

const WRITING: ReadonlySet<string> = new Set(["root", "admin", "write"]);

/**
 * Why the branch takes no revert from the key: a pipeline, or another key, has it for itself. Null: it takes one. Undefined: that
 * is not known yet.
 */
function useRefusal({ repo, branch }: Place): string | null | undefined {
  const { data: detail } = useOnce<BranchDetail>(branchPath({ repo, branch }));
  const { data: key } = useOnce<WhoAmI>("/whoami");
  if (!detail || !key) return undefined;
  const { pipeline, writer } = detail;
  const maker = pipeline ?? (writer && "pipeline" in writer ? writer.pipeline : null);
  if (maker !== null) return `Only jobs of the pipeline ${maker} write to it: nobody reverts it by hand.`;
  if (!WRITING.has(key.level)) return "A key that only reads reverts nothing.";
  const owner = writer && "key" in writer ? writer.key : key.id;
  return owner === key.id ? null : `Only the key ${owner} writes to it, and reverts it.`;
}

/** Whether pages have a commit in common. */
function meets(newest: CommitPage, older: CommitPage): boolean {
  const ids = new Set(older.commits.map(({ id }) => id));
  return newest.commits.some(({ id }) => ids.has(id));
}

interface CommitLineProps {
  readonly place: Place;
  readonly commit: Commit;
  readonly summary: ChangeSummary | null;
  readonly canRevert: boolean;
  /** Tags that name it. */
  readonly names: readonly string[];
  readonly marked: string | undefined;
  mark(commit: string | undefined): void;
  /** The branch, or its tags, have something new. */
  changed(): void;
}

function CommitLine({ place, commit, summary, canRevert, names, marked, mark, changed }: CommitLineProps) {
  const { id, parent, createdAt, message, key, job, meta, redacted, imported, changes } = commit;
  const at = { ...place, at: id };
  const [older, newer] = marked !== undefined && marked < id ? [marked, id] : [id, marked];
  // What a plain PUT or a job writes has no message: then this is what tells commits apart.
  const change = <ChangeWords summary={summary} changes={changes} />;
  return (
    <>
      <p className="what">
        {message === null ? change : <b>{message}</b>}{" "}
        {names.map((name) => (
          <Link key={name} className="tag" href={branchHref({ ...place, at: name })}>
            {name}
          </Link>
        ))}
      </p>
      <p className="quiet">
        <Ago at={createdAt} />
        {job !== null && (
          <>
            {" "}
            by <JobLink id={job} />
          </>
        )}
        {job === null && key !== null && <Mono before=" by key ">{key}</Mono>}
        {message !== null && <> · {change}</>}
        {Object.entries(meta).map(([name, value]) => (
          <span key={name}>
            {" "}
            · {name}: {value}
          </span>
        ))}
        {redacted && (
          <>
            {" "}
            · <RedactedWords redacted={redacted} />
          </>
        )}
        {imported && " · imported"}
      </p>
      <div className="actions">
        <Mono>{id}</Mono>
        <Link href={branchHref(at)}>Files then</Link>
        <Link href={diffHref(place, { to: id })}>
          {parent === null ? "What it added" : "What it changed"}
        </Link>
        {marked === undefined || marked === id ? (
          <Plain act={() => mark(marked === id ? undefined : id)}>{marked === id ? "Unmark" : "Mark"}</Plain>
        ) : (
          <Link href={diffHref(place, { from: older, to: newer })}>Compare with the marked one</Link>
        )}
        <Tagging place={place} commit={id} done={changed} />
        {canRevert && <Revert place={place} commit={id} done={changed} />}
      </div>
    </>
  );
}

interface OfCommit {
  readonly place: Place;
  readonly commit: string;
  done(): void;
}

/** Gives a commit a name. */
function Tagging({ place, commit, done }: OfCommit) {
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState("");
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    const path = `${branchPath(place)}/tags/${encodeURIComponent(name)}`;
    await gateway.call(path, { method: "PUT", json: { commit } });
    setOpen(false);
    setName("");
    done();
  });
  if (!isOpen) {
    return <Plain act={() => setOpen(true)}>Tag</Plain>;
  }
  return (
    <form className="line" onSubmit={submit}>
      {/* It takes the place of the button that was pressed. */}
      <NameField label="Name of the tag" value={name} set={setName} required autoFocus />
      <button type="submit" disabled={isBusy}>
        Set it
      </button>
      <Plain act={() => setOpen(false)}>Cancel</Plain>
      {fault}
    </form>
  );
}

/** Makes the branch have the files of a commit again. */
function Revert({ place, commit, done }: OfCommit) {
  const [outcome, setOutcome] = useState<string>();
  async function revert(gateway: Gateway): Promise<void> {
    const ask = (path: string) => gateway.call<RevertEnd>(path, { method: "POST" });
    let end = await ask(`${commitPath(place, commit)}/revert`);
    const { session } = end;
    while (end.state === "applying") end = await ask(`${branchPath(place)}/sessions/${session}/finish`);
    const made = end.commit;
    setOutcome(made === null ? "Nothing differs: no commit was made." : `Commit ${shortId(made)} was made.`);
  }
  return (
    <>
      <Action
        question="One new commit will have the files of this one; the history stays."
        act={revert}
        done={done}
      >
        Revert to it
      </Action>
      {outcome !== undefined && <span role="status">{outcome}</span>}
    </>
  );
}
