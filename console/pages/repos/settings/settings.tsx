import { useId, useState } from "react";
import { Link, useLocation } from "wouter";
import type { BranchDetail } from "../../../../protocol/repos.ts";
import type { Gateway } from "../../../gateway/gateway.ts";
import { bucketOf, type Place } from "../../../gateway/s3.ts";
import { type Live, useLive } from "../../../gateway/session.ts";
import { command } from "../../../parts/cli-line.tsx";
import { Action, Check, Deletion, Field, NameField, useSubmission } from "../../../parts/form.tsx";
import { Asked, Page, Section } from "../../../parts/page.tsx";
import { Ago, countText, Mono, shortId } from "../../../parts/words.tsx";
import { branchHref, branchPath, repoPath } from "../../addresses.ts";
import { BranchTabs, CommitPicker, Crumbs } from "../at.tsx";
import { CORS, LIFECYCLE, Rules } from "./rules.tsx";

/**
 * What a branch is set to: who reads it and writes to it, how much of its history stays, what goes by itself; a branch made
 * from it; its end.
 */
export function SettingsPage({ place }: { readonly place: Place }) {
  const bucket = bucketOf(place);
  const live = useLive<BranchDetail>(branchPath(place));
  return (
    <Page title={`Settings of ${bucket}`} cli={command`sluice branch inspect ${bucket}`} live={live}>
      <Crumbs place={place} />
      <BranchTabs place={place} here="settings" />
      <Asked live={live}>
        {(detail) => (
          <>
            <Origin detail={detail} />
            {detail.forking ? (
              <p>Its files are on their way from there. It is set to nothing before all are here.</p>
            ) : (
              <>
                <Public place={place} detail={detail} live={live} />
                <Protection key={JSON.stringify(detail.writer)} place={place} detail={detail} live={live} />
                <Keeping key={JSON.stringify(detail.keep)} place={place} detail={detail} live={live} />
                <Rules of={LIFECYCLE} place={place} changed={live.reload} />
                <Rules of={CORS} place={place} />
                <EmptyOnly place={place} detail={detail} live={live} />
                <Fork place={place} />
              </>
            )}
            <End place={place} />
          </>
        )}
      </Asked>
    </Page>
  );
}

interface OfBranch {
  readonly place: Place;
  readonly detail: BranchDetail;
  readonly live: Live<BranchDetail>;
}

/** Where it came from, if not from nothing. */
function Origin({ detail: { from, imported } }: Pick<OfBranch, "detail">) {
  return (
    <>
      {from && (
        <p>
          It was made from{" "}
          <Link href={branchHref({ ...from, at: from.commit ?? undefined })}>
            {`${from.branch}.${from.repo}`}
          </Link>
          {from.commit !== null && <Mono before=" at ">{shortId(from.commit)}</Mono>}.
        </p>
      )}
      {imported && (
        <p>
          It was imported <Ago at={imported.at} />
          {imported.by !== null && <Mono before=" by key ">{imported.by}</Mono>}. What its commits of before
          say, an archive said.
        </p>
      )}
    </>
  );
}

/** Sets something of a branch. */
function setting(place: Place, name: "public" | "writer" | "keep" | "empty-only", json: unknown) {
  return (gateway: Gateway) => gateway.call(`${branchPath(place)}/${name}`, { method: "PUT", json });
}

function Public({ place, detail: { public: isPublic = false }, live }: OfBranch) {
  const question = "Everybody who reaches the gateway reads all of it, also what it was before.";
  return (
    <Section
      className="setting"
      title="Public"
      cli={command`sluice branch public ${bucketOf(place)} ${isPublic ? "off" : "on"}`}
    >
      <p>
        {isPublic
          ? "Everybody reads its files, its commits and its tags, without a key."
          : "Only keys that may read the repo read it."}
      </p>
      <p>
        <Action
          {...(!isPublic && { question })}
          act={setting(place, "public", { public: !isPublic })}
          done={live.reload}
        >
          {isPublic ? "End that" : "Make it public"}
        </Action>
      </p>
    </Section>
  );
}

function Protection({ place, detail: { writer = null }, live }: OfBranch) {
  const [kind, setKind] = useState<"key" | "pipeline">("key");
  const [name, setName] = useState("");
  const field = useId();
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    await setting(place, "writer", { writer: { [kind]: name } })(gateway);
    live.reload();
  });
  const option = writer ? command`--off` : command`--key ID`;
  return (
    <Section
      className="setting"
      title="Protection"
      cli={command`sluice branch protect ${bucketOf(place)} ${option}`}
    >
      {writer ? (
        <>
          <p>
            Only {"key" in writer ? `the key ${writer.key}` : `the pipeline ${writer.pipeline}`} writes to it.
          </p>
          <Action
            question="Every key that may write in the repo writes to it again."
            act={setting(place, "writer", { writer: null })}
            done={live.reload}
          >
            End the protection
          </Action>
        </>
      ) : (
        <>
          <p>Every key that may write in the repo writes to it.</p>
          <form className="line" onSubmit={submit}>
            <label htmlFor={field}>Leave all writes to</label>
            <select
              id={field}
              value={kind}
              onChange={({ target }) => setKind(target.value === "pipeline" ? "pipeline" : "key")}
            >
              <option value="key">the key</option>
              <option value="pipeline">the pipeline</option>
            </select>
            <NameField
              label={kind === "key" ? "Id of the key" : "Name of the pipeline"}
              isLabelHidden
              placeholder={kind === "key" ? "its id" : "its name"}
              value={name}
              set={setName}
              required
            />
            <button type="submit" disabled={isBusy}>
              Protect it
            </button>
          </form>
          {fault}
        </>
      )}
    </Section>
  );
}

/** How much of the history stays. */
function Keeping({ place, detail: { keep }, live }: OfBranch) {
  const [commits, setCommits] = useState(String(keep?.commits ?? ""));
  const [days, setDays] = useState(String(keep?.days ?? ""));
  const [isSure, setSure] = useState(false);
  const wished =
    commits === "" && days === ""
      ? null
      : { ...(commits !== "" && { commits: Number(commits) }), ...(days !== "" && { days: Number(days) }) };
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    await setting(place, "keep", { keep: wished })(gateway);
    live.reload();
  });
  const options = [
    ...(commits === "" ? [] : [command`--commits ${commits}`]),
    ...(days === "" ? [] : [command`--days ${days}`]),
  ];
  const cli = command`sluice branch keep ${bucketOf(place)} ${wished ? options : "--all"}`;
  const counts = { type: "number", min: 1, placeholder: "all" };
  return (
    <Section className="setting" title="History that stays" cli={cli}>
      <p>{keepWords(keep ?? null)}</p>
      <form className="line" onSubmit={submit}>
        <Field label="Newest commits" value={commits} set={setCommits} {...counts} />
        <Field label="Days" value={days} set={setDays} {...counts} />
        {wished && (
          <Check isSet={isSure} set={setSure}>
            What is older goes for good
          </Check>
        )}
        <button type="submit" disabled={isBusy || (wished !== null && !isSure)}>
          Keep that
        </button>
      </form>
      {fault}
      <p className="quiet">
        A commit stays while either says so. The newest one, and what a tag, a branch or a pipeline needs,
        stays anyway.
      </p>
    </Section>
  );
}

function keepWords(keep: BranchDetail["keep"]): string {
  if (!keep) return "All of its history stays.";
  const { commits, days } = keep;
  const parts = [
    ...(commits === undefined ? [] : [`the newest ${countText(commits)} commits`]),
    ...(days === undefined ? [] : [`what was replaced less than ${countText(days)} days ago`]),
  ];
  return `What stays: ${parts.join(", and ")}.`;
}

/** When S3 tools may delete it. */
function EmptyOnly({ place, detail: { emptyOnly = false }, live }: OfBranch) {
  const question = "DeleteBucket of S3 then deletes the bucket with its files.";
  return (
    <Section
      className="setting"
      title="Deletion by S3 tools"
      cli={command`sluice branch empty-only ${bucketOf(place)} ${emptyOnly ? "off" : "on"}`}
    >
      <p>
        {emptyOnly
          ? "S3 tools delete the bucket only while it has no files."
          : "S3 tools delete the bucket with all that it has."}
      </p>
      <p>
        <Action
          {...(emptyOnly && { question })}
          act={setting(place, "empty-only", { emptyOnly: !emptyOnly })}
          done={live.reload}
        >
          {emptyOnly ? "Let them delete it with its files" : "Let them delete it only while it is empty"}
        </Action>
      </p>
    </Section>
  );
}

/** Makes a branch from a commit of this one. */
function Fork({ place }: { readonly place: Place }) {
  const [, go] = useLocation();
  const [repo, setRepo] = useState(place.repo);
  const [branch, setBranch] = useState("");
  const [commit, setCommit] = useState<string>();
  const from = { repo: place.repo, branch: place.branch };
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    const json = { name: branch, from: { ...from, ...(commit !== undefined && { commit }) } };
    await gateway.call(`${repoPath(repo)}/branches`, { method: "POST", json });
    go(branchHref({ repo, branch }));
  });
  const source = `${bucketOf(from)}${commit === undefined ? "" : `@${commit}`}`;
  return (
    <Section
      className="setting"
      title="A branch from this one"
      cli={command`sluice branch create ${branch || "experiment"}.${repo} --from ${source}`}
    >
      <p>It has the files of a commit. Bytes are shared, and neither changes the other.</p>
      <form className="line" onSubmit={submit}>
        <NameField label="Name" value={branch} set={setBranch} required />
        <NameField label="In the repo" value={repo} set={setRepo} required />
        <CommitPicker
          place={place}
          label={commit === undefined ? "From the newest commit" : `From ${shortId(commit)}`}
          choose={setCommit}
        />
        <button type="submit" disabled={isBusy}>
          Make it
        </button>
      </form>
      {fault}
    </Section>
  );
}

function End({ place }: { readonly place: Place }) {
  const [, go] = useLocation();
  const bucket = bucketOf(place);
  async function remove(gateway: Gateway): Promise<void> {
    await gateway.call(branchPath(place), { method: "DELETE" });
    go("/repos");
  }
  return (
    <Section className="setting" title="Delete the bucket" cli={command`sluice rb s3://${bucket} --force`}>
      <p>
        All of its files and its history go, and with its last branch the repo. To pipelines that read it, it
        is then empty. Nothing brings it back.
      </p>
      <Deletion name={bucket} verb="Delete it for good" act={remove}>
        <p>The bucket goes, with all that it ever had.</p>
      </Deletion>
    </Section>
  );
}
