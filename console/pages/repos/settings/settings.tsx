import { useId, useState } from "react";
import { Link, useLocation } from "wouter";
import type { BranchDetail, BranchWriter } from "../../../../protocol/repos.ts";
import { type Live, useLive } from "../../../gateway/live.ts";
import { bucketOf, type Place } from "../../../gateway/s3.ts";
import { useSession } from "../../../gateway/session.tsx";
import { Action, Deletion } from "../../../parts/action.tsx";
import { command } from "../../../parts/cli-line.tsx";
import { NameField, useSubmission } from "../../../parts/form.tsx";
import { countText, shortId } from "../../../parts/numbers.ts";
import { Page } from "../../../parts/page.tsx";
import { Ago } from "../../../parts/time.tsx";
import { apiPath, CommitPicker } from "../at.tsx";
import { BranchTabs, Crumbs } from "../crumbs.tsx";
import { branchHref } from "../places.ts";
import { CorsRules, LifecycleRules } from "./rules.tsx";
import { Setting } from "./setting.tsx";

/**
 * What a branch is set to: who reads it and writes to it, how much of its history stays, what goes by itself; a branch made
 * from it; its end.
 */
export function SettingsPage({ place }: { readonly place: Place }) {
  const bucket = bucketOf(place);
  const live = useLive<BranchDetail>(apiPath(place));
  const { data: detail } = live;
  return (
    <Page title={`Settings of ${bucket}`} cli={command`sluice branch inspect ${bucket}`} live={live}>
      <Crumbs place={place} />
      <BranchTabs place={place} here="settings" />
      {!detail && !live.fault && <p className="quiet">Asking the gateway…</p>}
      {detail && (
        <>
          <Origin detail={detail} />
          <Import detail={detail} />
          {detail.forking ? (
            <p>Its files are on their way from there. It is set to nothing before all are here.</p>
          ) : (
            <>
              <Public place={place} detail={detail} live={live} />
              <Protection key={JSON.stringify(detail.writer)} place={place} detail={detail} live={live} />
              <Keeping key={JSON.stringify(detail.keep)} place={place} detail={detail} live={live} />
              <LifecycleRules place={place} changed={live.reload} />
              <CorsRules place={place} />
              <EmptyOnly place={place} detail={detail} live={live} />
              <Fork place={place} />
            </>
          )}
          <End place={place} />
        </>
      )}
    </Page>
  );
}

interface OfBranch {
  readonly place: Place;
  readonly detail: BranchDetail;
  readonly live: Live<BranchDetail>;
}

function Origin({ detail: { from } }: { readonly detail: BranchDetail }) {
  if (!from) return null;
  return (
    <p>
      It was made from{" "}
      <Link href={branchHref({ ...from, at: from.commit ?? undefined })}>
        {`${from.branch}.${from.repo}`}
      </Link>
      {from.commit !== null && (
        <>
          {" "}
          at <span className="mono">{shortId(from.commit)}</span>
        </>
      )}
      .
    </p>
  );
}

function Import({ detail: { imported } }: { readonly detail: BranchDetail }) {
  if (!imported) return null;
  return (
    <p>
      It was imported <Ago at={imported.at} />
      {imported.by !== null && (
        <>
          {" "}
          by key <span className="mono">{imported.by}</span>
        </>
      )}
      . What its commits of before say, an archive said.
    </p>
  );
}

function Public({ place, detail, live }: OfBranch) {
  const { gateway } = useSession();
  const isPublic = detail.public ?? false;
  async function set(to: boolean): Promise<void> {
    await gateway.call(`${apiPath(place)}/public`, { method: "PUT", json: { public: to } });
    live.reload();
  }
  return (
    <Setting title="Public" cli={command`sluice branch public ${bucketOf(place)} ${isPublic ? "off" : "on"}`}>
      <p>
        {isPublic
          ? "Everybody reads its files, its commits and its tags, without a key."
          : "Only keys that may read the repo read it."}
      </p>
      <p>
        {isPublic ? (
          <Action act={() => set(false)}>End that</Action>
        ) : (
          <Action
            question="Everybody who reaches the gateway reads all of it, also what it was before."
            act={() => set(true)}
          >
            Make it public
          </Action>
        )}
      </p>
    </Setting>
  );
}

function Protection({ place, detail: { writer = null }, live }: OfBranch) {
  const { gateway } = useSession();
  const [kind, setKind] = useState<"key" | "pipeline">(writer && "pipeline" in writer ? "pipeline" : "key");
  const [name, setName] = useState("");
  const field = useId();
  async function set(to: BranchWriter | null): Promise<void> {
    await gateway.call(`${apiPath(place)}/writer`, { method: "PUT", json: { writer: to } });
    live.reload();
  }
  const submission = useSubmission(() => set(kind === "key" ? { key: name } : { pipeline: name }));
  const bucket = bucketOf(place);
  return (
    <Setting
      title="Protection"
      cli={
        writer
          ? command`sluice branch protect ${bucket} --off`
          : command`sluice branch protect ${bucket} --key ID`
      }
    >
      {writer ? (
        <>
          <p>
            Only {"key" in writer ? `the key ${writer.key}` : `the pipeline ${writer.pipeline}`} writes to it.
          </p>
          <Action question="Every key that may write in the repo writes to it again." act={() => set(null)}>
            End the protection
          </Action>
        </>
      ) : (
        <>
          <p>Every key that may write in the repo writes to it.</p>
          <form className="line" onSubmit={submission.submit}>
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
            <button type="submit" disabled={submission.isBusy}>
              Protect it
            </button>
          </form>
          {submission.fault}
        </>
      )}
    </Setting>
  );
}

/** How much of the history stays. */
function Keeping({ place, detail: { keep }, live }: OfBranch) {
  const { gateway } = useSession();
  const [commits, setCommits] = useState(String(keep?.commits ?? ""));
  const [days, setDays] = useState(String(keep?.days ?? ""));
  const [isSure, setSure] = useState(false);
  const field = useId();
  const wished =
    commits === "" && days === ""
      ? null
      : { ...(commits !== "" && { commits: Number(commits) }), ...(days !== "" && { days: Number(days) }) };
  const submission = useSubmission(async () => {
    await gateway.call(`${apiPath(place)}/keep`, { method: "PUT", json: { keep: wished } });
    live.reload();
  });
  const options = [
    ...(commits === "" ? [] : [command`--commits ${commits}`]),
    ...(days === "" ? [] : [command`--days ${days}`]),
  ];
  const cli = command`sluice branch keep ${bucketOf(place)} ${wished ? options : "--all"}`;
  return (
    <Setting title="History that stays" cli={cli}>
      <p>{keepWords(keep ?? null)}</p>
      <form className="line" onSubmit={submission.submit}>
        <CountField label="Newest commits" value={commits} set={setCommits} />
        <CountField label="Days" value={days} set={setDays} />
        {wished && (
          <label htmlFor={field} className="check">
            <input
              id={field}
              type="checkbox"
              checked={isSure}
              onChange={({ target }) => setSure(target.checked)}
            />
            What is older goes for good
          </label>
        )}
        <button type="submit" disabled={submission.isBusy || (wished !== null && !isSure)}>
          Keep that
        </button>
      </form>
      {submission.fault}
      <p className="quiet">
        A commit stays while either says so. The newest one, and what a tag, a branch or a pipeline needs,
        stays anyway.
      </p>
    </Setting>
  );
}

interface CountFieldProps {
  readonly label: string;
  /** Empty: all of them. */
  readonly value: string;
  set(value: string): void;
}

function CountField({ label, value, set }: CountFieldProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="number"
        min={1}
        value={value}
        placeholder="all"
        onChange={({ target }) => set(target.value)}
      />
    </>
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
  const { gateway } = useSession();
  async function set(to: boolean): Promise<void> {
    await gateway.call(`${apiPath(place)}/empty-only`, { method: "PUT", json: { emptyOnly: to } });
    live.reload();
  }
  return (
    <Setting
      title="Deletion by S3 tools"
      cli={command`sluice branch empty-only ${bucketOf(place)} ${emptyOnly ? "off" : "on"}`}
    >
      <p>
        {emptyOnly
          ? "S3 tools delete the bucket only while it has no files."
          : "S3 tools delete the bucket with all that it has."}
      </p>
      <p>
        {emptyOnly ? (
          <Action
            question="DeleteBucket of S3 then deletes the bucket with its files."
            act={() => set(false)}
          >
            Let them delete it with its files
          </Action>
        ) : (
          <Action act={() => set(true)}>Let them delete it only while it is empty</Action>
        )}
      </p>
    </Setting>
  );
}

/** Makes a branch from a commit of this one. */
function Fork({ place }: { readonly place: Place }) {
  const { gateway } = useSession();
  const [, go] = useLocation();
  const [repo, setRepo] = useState(place.repo);
  const [branch, setBranch] = useState("");
  const [commit, setCommit] = useState<string>();
  const from = { repo: place.repo, branch: place.branch };
  const submission = useSubmission(async () => {
    await gateway.call(`/repos/${encodeURIComponent(repo)}/branches`, {
      method: "POST",
      json: { name: branch, from: { ...from, ...(commit !== undefined && { commit }) } },
    });
    go(branchHref({ repo, branch }));
  });
  const source = `${bucketOf(from)}${commit === undefined ? "" : `@${commit}`}`;
  return (
    <Setting
      title="A branch from this one"
      cli={command`sluice branch create ${branch || "experiment"}.${repo} --from ${source}`}
    >
      <p>It has the files of a commit. Bytes are shared, and neither changes the other.</p>
      <form className="line" onSubmit={submission.submit}>
        <NameField label="Name" value={branch} set={setBranch} required />
        <NameField label="In the repo" value={repo} set={setRepo} required />
        <CommitPicker
          place={place}
          label={commit === undefined ? "From the newest commit" : `From ${shortId(commit)}`}
          choose={setCommit}
        />
        <button type="submit" disabled={submission.isBusy}>
          Make it
        </button>
      </form>
      {submission.fault}
    </Setting>
  );
}

function End({ place }: { readonly place: Place }) {
  const { gateway } = useSession();
  const [, go] = useLocation();
  const bucket = bucketOf(place);
  async function remove(): Promise<void> {
    await gateway.call<undefined>(apiPath(place), { method: "DELETE" });
    go("/repos");
  }
  return (
    <Setting title="Delete the bucket" cli={command`sluice rb s3://${bucket} --force`}>
      <p>
        All of its files and its history go, and with its last branch the repo. To pipelines that read it, it
        is then empty. Nothing brings it back.
      </p>
      <Deletion name={bucket} verb="Delete it for good" act={remove}>
        <p>The bucket goes, with all that it ever had.</p>
      </Deletion>
    </Setting>
  );
}
