import { useState } from "react";
import { Link } from "wouter";
import type { TagPage } from "../../../protocol/commits.ts";
import type { BranchList, RepoUsage } from "../../../protocol/repos.ts";
import { useLive, useOnce } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Button, Fault } from "../../parts/form.tsx";
import { Asked, Heard, Page, Section, Table } from "../../parts/page.tsx";
import { Ago, counted, countText, Mono, shortId, sizeText } from "../../parts/words.tsx";
import { branchHref, branchPath, repoPath } from "../addresses.ts";

/** A repo: its branches, its tags, and what they take up. */
export function RepoPage({ repo }: { readonly repo: string }) {
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
