import { useState } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import type { RepoList } from "../../../protocol/repos.ts";
import { Bucket } from "../../gateway/s3.ts";
import { useLive } from "../../gateway/session.ts";
import { command } from "../../parts/cli-line.tsx";
import { NameField, SearchField, useSubmission } from "../../parts/form.tsx";
import { Asked, Heard, Page, Section, Table } from "../../parts/page.tsx";
import { counted, countText } from "../../parts/words.tsx";
import { branchHref, useAddressQuery } from "../addresses.ts";
import { BranchPage } from "./branch.tsx";
import { DiffPage } from "./diff.tsx";
import { FilePage } from "./file.tsx";
import { HistoryPage } from "./history.tsx";
import { RepoPage } from "./repo.tsx";
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
