import { useState } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import type { TagPage } from "../../../protocol/commits.ts";
import type { BranchList, RepoList, RepoUsage } from "../../../protocol/repos.ts";
import { Bucket } from "../../gateway/s3.ts";
import { useLive, useOnce } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Button, Fault, NameField, SearchField, useSubmission } from "../../parts/form.tsx";
import { Asked, Heard, Page, Section, Table } from "../../parts/page.tsx";
import { Ago, counted, countText, Mono, shortId, sizeText } from "../../parts/words.tsx";
import { branchHref, branchPath, repoPath, useAddressQuery } from "../addresses.ts";
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

/** Every repo that the key is for. */
function Repos() {
  const live = useLive<RepoList>("/repos");
  const [sought, seek] = useState("");
  const repos = live.data?.repos ?? [];
  const shown = repos.filter((repo) => repo.name.toLowerCase().includes(sought.trim().toLowerCase()));
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
      {repos.length > 12 && (
        <p className="search">
          <SearchField label="Find by name" value={sought} set={seek} />
        </p>
      )}
      {shown.length > 0 && (
        <Table className="listing" head={["Repo", "Branches"]}>
          {shown.slice(0, MOST_SHOWN).map((repo) => (
            <tr key={repo.name}>
              <th scope="row">
                <Link href={`/repos/${repo.name}`}>{repo.name}</Link>
              </th>
              <td className="links">
                {repo.branches.slice(0, MOST_BRANCHES).map((branch) => (
                  <Link key={branch} href={branchHref({ repo: repo.name, branch })}>
                    {branch}
                  </Link>
                ))}
                {repo.branches.length > MOST_BRANCHES && (
                  <Link href={`/repos/${repo.name}`}>
                    and {countText(repo.branches.length - MOST_BRANCHES)} more
                  </Link>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {shown.length > MOST_SHOWN && (
        <p className="quiet">{countText(shown.length - MOST_SHOWN)} more: search by name to find them.</p>
      )}
      {repos.length > 0 && shown.length === 0 && <p>No repo has “{sought}” in its name.</p>}
      <NewBucket />
    </Page>
  );
}

const MOST_SHOWN = 500;
const MOST_BRANCHES = 12;

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
      <Table className="listing" head={["Branch", "Made", "What holds for it"]}>
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
