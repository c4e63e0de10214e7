import { useEffect, useState } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import type { TagPage } from "../../../protocol/commits.ts";
import type { BranchList, BranchSum, BranchSums, RepoList, RepoUsage } from "../../../protocol/repos.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { Bucket } from "../../gateway/s3.ts";
import { useLive, useOnce, useSession } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Button, Fault, NameField, SearchField, useSubmission } from "../../parts/form.tsx";
import { Asked, Heard, Page, Section, Table } from "../../parts/page.tsx";
import { Ago, counted, countText, Mono, shortId, sizeText } from "../../parts/words.tsx";
import { branchHref, branchPath, pipelinePath, repoPath, useAddressQuery } from "../addresses.ts";
import { BranchPage } from "./branch.tsx";
import { DiffPage } from "./diff.tsx";
import { FilePage } from "./file.tsx";
import { HistoryPage } from "./history.tsx";
import { SettingsPage } from "./settings/settings.tsx";

/** Repos, their branches, and what is in them, now and at any commit. */
export default function ReposPages() {
  const query = useAddressQuery();
  const at = query.get("at") ?? undefined;
  const path = query.get("path") ?? "";
  return (
    <Switch>
      <Route path="/repos">
        <Repos />
      </Route>
      <Route path="/repos/:repo">{({ repo }) => <RepoPage key={repo} repo={repo} />}</Route>
      <Route path="/repos/:repo/:branch">
        {({ repo, branch }) => <BranchPage place={{ repo, branch, at }} prefix={query.get("in") ?? ""} />}
      </Route>
      <Route path="/repos/:repo/:branch/file">
        {({ repo, branch }) => (
          <FilePage key={JSON.stringify([repo, branch, at, path])} place={{ repo, branch, at }} path={path} />
        )}
      </Route>
      <Route path="/repos/:repo/:branch/history">
        {({ repo, branch }) => <HistoryPage key={`${branch}.${repo}`} place={{ repo, branch }} />}
      </Route>
      <Route path="/repos/:repo/:branch/diff">
        {({ repo, branch }) => (
          <DiffPage
            place={{ repo, branch }}
            from={query.get("from") ?? undefined}
            to={query.get("to") ?? undefined}
          />
        )}
      </Route>
      <Route path="/repos/:repo/:branch/settings">
        {({ repo, branch }) => <SettingsPage key={`${branch}.${repo}`} place={{ repo, branch }} />}
      </Route>
      <Route>
        <Page title="There is no such page">
          <p>
            <Link href="/repos">Repos</Link> shows what there is.
          </p>
        </Page>
      </Route>
    </Switch>
  );
}

/** Every repo that the key is for, with what is in the first of its branches. */
function Repos() {
  const live = useLive<RepoList>("/repos");
  const [sought, seek] = useState("");
  const [most, showMost] = useState(ROWS);
  const repos = live.data?.repos ?? [];
  const wanted = sought.trim().toLowerCase();
  const found = repos.filter(({ name, branches }) =>
    [name, ...branches].some((text) => text.toLowerCase().includes(wanted)),
  );
  const shown = found.slice(0, most).map((repo) => ({ ...repo, branches: masterFirst(repo.branches) }));
  const sums = useSums(shown.flatMap(({ name, branches: [branch] }) => (branch ? `${branch}.${name}` : [])));
  return (
    <Page
      title="Repos"
      cli={command`sluice repo list`}
      live={live}
      aside={
        <>
          {repos.length > 0 && <span className="quiet">{counted(repos.length, "repo")}</span>}
          <Heard live={live} />
        </>
      }
    >
      {!live.data && <Asked live={live} />}
      {live.data && repos.length === 0 && (
        <p>
          No repo is here yet. A repo has branches, each of which is a bucket: the first one makes it, here or
          on the command line.
        </p>
      )}
      {repos.length > 1 && (
        <p className="search">
          <SearchField label="Find by name" value={sought} set={seek} />
        </p>
      )}
      {shown.length > 0 && (
        <Table
          className="listing repo-list"
          head={["Repo", "Files", "Size", "Last commit"]}
          sizes={["Files", "Size"]}
        >
          {shown.map(({ name, branches }) => (
            <RepoRow key={name} repo={name} branches={branches} sum={sums.get(`${branches[0]}.${name}`)} />
          ))}
        </Table>
      )}
      {shown.length > 0 && (
        <p className="quiet">Files, size and the last commit are those of the branch that is named first.</p>
      )}
      {found.length > most && (
        <p className="actions">
          <Button act={() => showMost(most + ROWS)}>More</Button>
          <span className="quiet">{countText(found.length - most)} are not shown.</span>
        </p>
      )}
      {repos.length > 0 && found.length === 0 && <p>No repo or branch has “{sought}” in its name.</p>}
      <NewBucket />
    </Page>
  );
}

/** Rows that are shown at first, and how many more then: as many as one call sums up. */
const ROWS = 50;
const MOST_BRANCHES = 12;

function masterFirst(branches: readonly string[]): readonly string[] {
  return branches.includes("master") ? ["master", ...branches.filter((one) => one !== "master")] : branches;
}

interface RepoRowProps {
  readonly repo: string;
  readonly branches: readonly string[];
  /** Of the first branch. Undefined: it is not known. */
  readonly sum: BranchSum | undefined;
}

function RepoRow({ repo, branches, sum }: RepoRowProps) {
  return (
    <tr>
      <th scope="row">
        <Link href={`/repos/${repo}`}>{repo}</Link>
        {sum?.public && <span className="badge">public</span>}
        {sum?.writer && <span className="badge">protected</span>}
        <span className="links">
          {branches.slice(0, MOST_BRANCHES).map((branch) => (
            <Link key={branch} href={branchHref({ repo, branch })}>
              {branch}
            </Link>
          ))}
          {branches.length > MOST_BRANCHES && (
            <Link href={`/repos/${repo}`}>and {countText(branches.length - MOST_BRANCHES)} more</Link>
          )}
          {sum && sum.pipeline !== null && (
            <span className="quiet">
              made by <Link href={pipelinePath(sum.pipeline)}>{sum.pipeline}</Link>
            </span>
          )}
        </span>
      </th>
      <td className="size">{sum && countText(sum.files)}</td>
      <td className="size" title={sum?.bytes === null ? "So many files are not added up here" : undefined}>
        {sum && (sum.bytes === null ? "–" : sizeText(sum.bytes))}
      </td>
      <td className="when">{sum && (sum.changedAt === null ? "none yet" : <Ago at={sum.changedAt} />)}</td>
    </tr>
  );
}

/** How long sums are good for, and how often that is looked at. */
const SUMS_MS = 60_000;
const LOOK_MS = 10_000;
/** How long the rows must stay as they are before sums are asked. */
const SETTLED_MS = 150;

interface KnownSum {
  readonly at: number;
  readonly sum: BranchSum | undefined;
}

/** What is known of buckets, by the session that asked: whoever comes back to the page within the minute asks nothing. */
const KNOWN = new WeakMap<Gateway, Map<string, KnownSum>>();

function knownTo(gateway: Gateway): Map<string, KnownSum> {
  const known = KNOWN.get(gateway) ?? new Map<string, KnownSum>();
  KNOWN.set(gateway, known);
  return known;
}

/** The sums of some buckets, each asked once a minute at most, and only while somebody looks. */
function useSums(buckets: readonly string[]): ReadonlyMap<string, BranchSum | undefined> {
  const { gateway } = useSession();
  const [, setHeard] = useState(0);
  const shown = buckets.join(",");
  const known = knownTo(gateway);
  useEffect(() => {
    const known = knownTo(gateway);
    const leaving = new AbortController();
    const { signal } = leaving;
    const ask = async (): Promise<void> => {
      const isDue = (bucket: string) => (known.get(bucket)?.at ?? 0) <= Date.now() - SUMS_MS;
      const due = shown === "" || document.hidden ? [] : shown.split(",").filter(isDue).slice(0, ROWS);
      if (due.length === 0) return;
      const query = { buckets: due.join(",") };
      // What is wrong with the gateway or the key, the poll of the list says; in a minute it is tried again.
      const answer = await gateway.call<BranchSums>("/repos/sums", { query, signal }).catch(() => undefined);
      if (signal.aborted) return;
      const found = new Map(answer?.branches.map((sum) => [`${sum.branch}.${sum.repo}`, sum]));
      const at = Date.now();
      for (const bucket of due)
        known.set(bucket, { at, sum: answer ? found.get(bucket) : known.get(bucket)?.sum });
      setHeard((times) => times + 1);
      await ask();
    };
    const soon = setTimeout(() => void ask(), SETTLED_MS);
    const again = setInterval(() => void ask(), LOOK_MS);
    return () => {
      clearTimeout(soon);
      clearInterval(again);
      leaving.abort();
    };
  }, [gateway, shown]);
  return new Map(buckets.map((bucket) => [bucket, known.get(bucket)?.sum]));
}

/** Makes a bucket: a branch, and its repo if that is not there. */
function NewBucket() {
  const [, go] = useLocation();
  const [repo, setRepo] = useState("");
  const [branch, setBranch] = useState("master");
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    await new Bucket(gateway, { repo, branch }).create();
    go(branchHref({ repo, branch }));
  });
  return (
    <Section title="New bucket" cli={command`sluice mb s3://${branch || "master"}.${repo || "photos"}`}>
      <form className="line" onSubmit={submit}>
        <NameField label="Repo" value={repo} set={setRepo} required />
        <NameField label="Branch" value={branch} set={setBranch} required />
        <button type="submit" disabled={isBusy}>
          Make it
        </button>
      </form>
      {fault}
    </Section>
  );
}

/** A repo: its branches, its tags, and what they take up. */
function RepoPage({ repo }: { readonly repo: string }) {
  const live = useLive<BranchList>(`${repoPath(repo)}/branches`);
  return (
    <Page title={repo} cli={command`sluice branch list ${repo}`} live={live} aside={<Heard live={live} />}>
      <nav className="crumbs" aria-label="Where this is">
        <Link href="/repos">Repos</Link> / {repo}
      </nav>
      <Asked live={live}>
        {(list) => (
          <>
            <Branches repo={repo} list={list} />
            <Tags repo={repo} />
            <Usage repo={repo} />
          </>
        )}
      </Asked>
    </Page>
  );
}

function Branches({ repo, list: { branches } }: { readonly repo: string; readonly list: BranchList }) {
  return (
    <Section title="Branches" count={branches.length}>
      <Table className="listing" head={["Branch", "Made", "Access and settings"]}>
        {branches.map(({ name, createdAt, public: isPublic, writer, forking }) => {
          const place = { repo, branch: name };
          return (
            <tr key={name}>
              <th scope="row">
                <Link href={branchHref(place)}>{name}</Link>
              </th>
              <td>
                <Ago at={createdAt} />
              </td>
              <td className="links">
                {forking && (
                  <span>
                    its files are on their way: {countText(forking.copied)} of {countText(forking.total)}
                  </span>
                )}
                {isPublic && <b>public</b>}
                {writer && (
                  <span>
                    written by {"key" in writer ? `the key ${writer.key}` : `the pipeline ${writer.pipeline}`}{" "}
                    alone
                  </span>
                )}
                <Link href={branchHref(place, "history")}>History</Link>
                <Link href={branchHref(place, "settings")}>Settings</Link>
              </td>
            </tr>
          );
        })}
      </Table>
    </Section>
  );
}

function Tags({ repo }: { readonly repo: string }) {
  const tags = useOnce<TagPage>(`${repoPath(repo)}/tags`);
  const list = tags.data?.tags ?? [];
  return (
    <Section title="Tags" count={tags.data && list.length}>
      <Fault words={tags.fault?.message} />
      {tags.data && list.length === 0 && (
        <p>
          No commit has a name. The history of a branch gives one, and so does{" "}
          <CliLine line={command`sluice tag create v1 master.${repo}`} />
        </p>
      )}
      {list.length > 0 && (
        <Table className="listing" head={["Tag", "Commit", "Set", "Delete"]}>
          {list.map(({ name, branch, commit, createdAt }) => (
            <tr key={`${name}.${branch}`}>
              <th scope="row">
                <Link href={branchHref({ repo, branch, at: name })}>{name}</Link>
              </th>
              <td>
                <Mono>{shortId(commit)}</Mono> of {branch}
              </td>
              <td>
                <Ago at={createdAt} />
              </td>
              <td>
                <Action
                  question="The name goes; its commit stays."
                  act={(gateway) =>
                    gateway.call(`${branchPath({ repo, branch })}/tags/${encodeURIComponent(name)}`, {
                      method: "DELETE",
                    })
                  }
                  done={tags.reload}
                >
                  Delete
                </Action>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {tags.data?.next && <CliLine line={command`sluice tag list ${repo}`} />}
    </Section>
  );
}

/** What the branches take up. What their files have is counted only when somebody asks: that walks all of them. */
function Usage({ repo }: { readonly repo: string }) {
  const [isWhole, count] = useState(false);
  const usage = useOnce<RepoUsage>(`${repoPath(repo)}/usage`, {
    query: { sizes: isWhole ? undefined : true },
  });
  const branches = usage.data?.branches ?? [];
  return (
    <Section title="Usage">
      <Fault words={usage.fault?.message} />
      {branches.length > 0 && (
        <Table
          className="listing"
          head={["Branch", "Database", ...(isWhole ? ["Files now", "Only in the history"] : [])]}
        >
          {branches.map(({ name, deleted, database: { usedBytes, limitBytes }, contents }) => (
            <tr key={name}>
              <th scope="row">
                {name}
                {deleted && <span className="quiet"> (deleted)</span>}
              </th>
              <td>
                <progress
                  value={usedBytes}
                  max={limitBytes}
                  aria-label={`How full the database of ${name} is`}
                />{" "}
                <span className="whole">
                  {sizeText(usedBytes)} of {sizeText(limitBytes)}
                </span>
              </td>
              {isWhole && (
                <>
                  <td>
                    {contents &&
                      `${sizeText(contents.live.bytes)} in ${counted(contents.live.count, "file")}`}
                  </td>
                  <td>
                    {contents && (
                      <>
                        {sizeText(contents.history.bytes)}
                        {contents.holder && <span className="quiet">, held by {contents.holder.what}</span>}
                      </>
                    )}
                  </td>
                </>
              )}
            </tr>
          ))}
        </Table>
      )}
      <p className="actions">
        {!isWhole && <Button act={() => count(true)}>Count files and history</Button>}
        {isWhole && !usage.data && !usage.fault && <span className="quiet">Counting…</span>}
        <CliLine line={command`sluice repo usage ${repo}`} />
      </p>
    </Section>
  );
}
