import { useState } from "react";
import { Link } from "wouter";
import type { TagPage } from "../../../protocol/commits.ts";
import type { BranchList, RepoUsage } from "../../../protocol/repos.ts";
import { useLive } from "../../gateway/live.ts";
import { useOnce } from "../../gateway/once.ts";
import { useSession } from "../../gateway/session.tsx";
import { Action } from "../../parts/action.tsx";
import { Fault } from "../../parts/broken.tsx";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { counted, countText, shortId } from "../../parts/numbers.ts";
import { Heard, Page } from "../../parts/page.tsx";
import { sizeText } from "../../parts/size.ts";
import { Ago } from "../../parts/time.tsx";
import { apiPath } from "./at.tsx";
import { branchHref } from "./places.ts";

/** A repo: its branches, its tags, and what they take up. */
export function RepoPage({ repo }: { readonly repo: string }) {
  const path = `/repos/${encodeURIComponent(repo)}`;
  const live = useLive<BranchList>(`${path}/branches`);
  return (
    <Page title={repo} cli={command`sluice branch list ${repo}`} live={live} aside={<Heard live={live} />}>
      <nav className="crumbs" aria-label="Where this is">
        <Link href="/repos">Repos</Link> / {repo}
      </nav>
      {!live.data && !live.fault && <p className="quiet">Asking the gateway…</p>}
      {live.data && <Branches repo={repo} list={live.data} />}
      {live.data && <Tags repo={repo} />}
      {live.data && <Usage repo={repo} />}
    </Page>
  );
}

function Branches({ repo, list: { branches } }: { readonly repo: string; readonly list: BranchList }) {
  return (
    <section aria-label="Branches">
      <h2>
        Branches <span className="count">{countText(branches.length)}</span>
      </h2>
      <table className="listing">
        <thead>
          <tr>
            <th scope="col">Branch</th>
            <th scope="col">Made</th>
            <th scope="col">What holds for it</th>
          </tr>
        </thead>
        <tbody>
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
                      written by{" "}
                      {"key" in writer ? `the key ${writer.key}` : `the pipeline ${writer.pipeline}`} alone
                    </span>
                  )}
                  <Link href={branchHref(place, "history")}>History</Link>
                  <Link href={branchHref(place, "settings")}>Settings</Link>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Tags({ repo }: { readonly repo: string }) {
  const { gateway } = useSession();
  const tags = useOnce<TagPage>(["repo tags", repo], (_, signal) =>
    gateway.call(`/repos/${encodeURIComponent(repo)}/tags`, { signal }),
  );
  const list = tags.data?.tags ?? [];
  async function remove(branch: string, name: string): Promise<void> {
    await gateway.call(`${apiPath({ repo, branch })}/tags/${encodeURIComponent(name)}`, { method: "DELETE" });
    tags.reload();
  }
  return (
    <section aria-label="Tags">
      <h2>
        Tags <span className="count">{tags.data ? countText(list.length) : ""}</span>
      </h2>
      <Fault words={tags.fault?.message} />
      {tags.data && list.length === 0 && (
        <p>
          No commit has a name. The history of a branch gives one, and so does{" "}
          <CliLine line={command`sluice tag create v1 master.${repo}`} />
        </p>
      )}
      {list.length > 0 && (
        <table className="listing">
          <thead>
            <tr>
              <th scope="col">Tag</th>
              <th scope="col">Commit</th>
              <th scope="col">Set</th>
              <th scope="col">
                <span className="hidden">Delete</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {list.map(({ name, branch, commit, createdAt }) => (
              <tr key={`${name}.${branch}`}>
                <th scope="row">
                  <Link href={branchHref({ repo, branch, at: name })}>{name}</Link>
                </th>
                <td>
                  <span className="mono">{shortId(commit)}</span> of {branch}
                </td>
                <td>
                  <Ago at={createdAt} />
                </td>
                <td>
                  <Action question="The name goes; its commit stays." act={() => remove(branch, name)}>
                    Delete
                  </Action>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {tags.data?.next && <CliLine line={command`sluice tag list ${repo}`} />}
    </section>
  );
}

/** What the branches take up. What their files have is counted only when somebody asks: that walks all of them. */
function Usage({ repo }: { readonly repo: string }) {
  const [isWhole, count] = useState(false);
  const usage = useOnce<RepoUsage>(["usage", repo, isWhole ? "whole" : "sizes"], (gateway, signal) =>
    gateway.call(`/repos/${encodeURIComponent(repo)}/usage`, {
      query: { sizes: isWhole ? undefined : true },
      signal,
    }),
  );
  const branches = usage.data?.branches ?? [];
  return (
    <section aria-label="Usage">
      <h2>Usage</h2>
      <Fault words={usage.fault?.message} />
      {branches.length > 0 && (
        <table className="listing">
          <thead>
            <tr>
              <th scope="col">Branch</th>
              <th scope="col">Database</th>
              {isWhole && (
                <>
                  <th scope="col">Files now</th>
                  <th scope="col">Only in the history</th>
                </>
              )}
            </tr>
          </thead>
          <tbody>
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
          </tbody>
        </table>
      )}
      <p className="actions">
        {!isWhole && (
          <button type="button" onClick={() => count(true)}>
            Count files and history
          </button>
        )}
        {isWhole && !usage.data && !usage.fault && <span className="quiet">Counting…</span>}
        <CliLine line={command`sluice repo usage ${repo}`} />
      </p>
    </section>
  );
}
