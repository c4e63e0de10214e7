import { useState } from "react";
import { Link } from "wouter";
import type { CommitDetail, Maker, Provenance } from "../../../protocol/commits.ts";
import type { Derived as DerivedPage } from "../../../protocol/files.ts";
import { useOnce } from "../../gateway/once.ts";
import type { Place } from "../../gateway/s3.ts";
import { faultText, useSession } from "../../gateway/session.tsx";
import { Fault } from "../../parts/broken.tsx";
import { countText, shortId } from "../../parts/numbers.ts";
import { JobLink } from "../../parts/state.tsx";
import { Ago } from "../../parts/time.tsx";
import { apiPath } from "./at.tsx";
import { branchHref, diffHref, fileHref, folderHref } from "./places.ts";

interface LineageProps {
  readonly place: Place;
  readonly path: string;
  /** The id of the commit that is looked at. */
  readonly commit: string;
}

function commitPath(place: Place, commit: string): string {
  return `${apiPath(place)}/commits/${encodeURIComponent(commit)}`;
}

/** What made a file: the datums of the job, with what they read; or who put it there. */
export function Makers({
  place,
  path,
  commit,
  writer,
}: LineageProps & { readonly writer: string | undefined }) {
  const { repo, branch } = place;
  const made = useOnce<Provenance>(["makers", repo, branch, commit, path], (gateway, signal) =>
    gateway.call(`${commitPath(place, commit)}/provenance`, { query: { path }, signal }),
  );
  if (made.fault) {
    return <Fault words={made.fault.message} />;
  }
  if (!made.data) return <p className="quiet">Asking the gateway…</p>;
  const { job, datums, next } = made.data;
  if (job === null) return <Writer place={place} commit={writer ?? commit} />;
  return (
    <div className="lineage">
      <p>
        The <JobLink id={job} /> of the pipeline <b>{repo}</b> committed it.
        {datums.length > 1 &&
          ` ${countText(datums.length)}${next === null ? "" : "+"} datums wrote to it, in this order:`}
      </p>
      <ol>
        {datums.map((maker) => (
          <li key={maker.id}>
            <MakerLine maker={maker} job={job} />
          </li>
        ))}
      </ol>
      {next !== null && <p className="quiet">More datums wrote to it than are shown.</p>}
    </div>
  );
}

function MakerLine({ maker, job: committer }: { readonly maker: Maker; readonly job: string }) {
  const { id, job, node, code, inputs } = maker;
  const ran = job ?? committer;
  return (
    <>
      <p>
        Datum{" "}
        <Link href={`/jobs/${ran}?datum=${id}`} className="mono">
          {id.slice(0, 12)}
        </Link>{" "}
        {job === null ? (
          "ran in a job that is kept no more"
        ) : (
          <>
            ran in <JobLink id={job} />
          </>
        )}
        {node !== null && ` on ${node}`}
        {code && ` by version ${code.version} of the specification`}
        {code?.image && (
          <>
            , image <span className="mono">{code.image}</span>
          </>
        )}
        , from
      </p>
      <ul>
        {inputs.map((input) => {
          const { name, repo, branch, commit, path, kind, kept } = input;
          const place = { repo, branch, at: commit ?? undefined };
          const href =
            kind === "file"
              ? fileHref({ ...place, path })
              : folderHref({ ...place, path: path === "" ? "" : `${path}/` });
          const words = `${branch}.${repo}/${path}`;
          return (
            <li key={name}>
              {commit === null || kept === false ? (
                <>
                  <span className="mono">{words}</span> <span className="quiet">kept no more</span>
                </>
              ) : (
                <Link href={href} className="mono">
                  {words}
                </Link>
              )}{" "}
              <span className="quiet">
                {commit !== null && (
                  <>
                    at <span className="mono">{shortId(commit)}</span>
                  </>
                )}
                , as input {name}
              </span>
            </li>
          );
        })}
      </ul>
    </>
  );
}

/** A commit that no job made: who made it and what they said. */
function Writer({ place, commit }: { readonly place: Place; readonly commit: string }) {
  const { repo, branch } = place;
  const detail = useOnce<CommitDetail>(["commit", repo, branch, commit], (gateway, signal) =>
    gateway.call(commitPath(place, commit), { signal }),
  );
  return (
    <div className="lineage">
      <p>
        No job made it: it was put there
        {detail.data ? (
          <>
            {detail.data.key !== null && (
              <>
                {" "}
                with the key <span className="mono">{detail.data.key}</span>
              </>
            )}{" "}
            <Ago at={detail.data.createdAt} />
            {detail.data.message !== null && `: “${detail.data.message}”`}
          </>
        ) : (
          ""
        )}
        . <Link href={diffHref(place, { to: commit })}>What that commit changed</Link>
      </p>
    </div>
  );
}

/** What pipelines computed from a file. */
export function Derived({ place, path, commit }: LineageProps) {
  const session = useSession();
  const { gateway } = session;
  const { repo, branch } = place;
  const first = useOnce<DerivedPage>(["derived", repo, branch, commit, path], (_, signal) =>
    gateway.call(`${commitPath(place, commit)}/derived`, { query: { path }, signal }),
  );
  const [rest, setRest] = useState<readonly DerivedPage[]>([]);
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const pages = [...(first.data ? [first.data] : []), ...rest];
  const next = pages.at(-1)?.next ?? null;
  const files = pages.flatMap((page) => page.files);
  async function more(): Promise<void> {
    setBusy(true);
    setFault(undefined);
    try {
      const query = { path, after: next ?? undefined };
      const page = await gateway.call<DerivedPage>(`${commitPath(place, commit)}/derived`, { query });
      setRest((before) => [...before, page]);
    } catch (error) {
      setFault(faultText(error, session));
    }
    setBusy(false);
  }
  const wrong = fault ?? first.fault?.message;
  // Several jobs may have computed the same file: the newest one is what it leads to.
  const newest = new Map(files.map((file) => [`${file.bucket}/${file.path}`, file]));
  return (
    <div className="lineage">
      <Fault words={wrong} />
      {!first.data && wrong === undefined && <p className="quiet">Asking the gateway…</p>}
      {first.data && files.length === 0 && next === null && (
        <p>
          No pipeline computed anything from it that is kept. Pipelines that read{" "}
          <Link href={branchHref({ repo, branch })}>{`${branch}.${repo}`}</Link> take it up when its commit
          makes a job.
        </p>
      )}
      <ul>
        {[...newest].map(([name, file]) => {
          const [made = "", of = ""] = file.bucket.split(".");
          const output = { repo: of, branch: made, at: file.commit ?? undefined, path: file.path };
          return (
            <li key={name}>
              <Link className="mono" href={fileHref(output)}>
                {name}
              </Link>{" "}
              <span className="quiet">
                by <JobLink id={file.job} />
              </span>
            </li>
          );
        })}
      </ul>
      {next !== null && (
        <p className="actions">
          <button type="button" disabled={isBusy} onClick={() => void more()}>
            {isBusy ? "Asking the gateway…" : "Look further"}
          </button>
          <span className="quiet">Not all outputs were looked at yet.</span>
        </p>
      )}
    </div>
  );
}
