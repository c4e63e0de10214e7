import { Link } from "wouter";
import type { CommitDetail, Maker, Provenance } from "../../../protocol/commits.ts";
import type { Derived as DerivedPage } from "../../../protocol/files.ts";
import type { Place } from "../../gateway/s3.ts";
import { useOnce } from "../../gateway/session.ts";
import { Fault, usePages } from "../../parts/form.tsx";
import { JobLink } from "../../parts/jobs.tsx";
import { Asked } from "../../parts/page.tsx";
import { Ago, countText, Mono, shortId } from "../../parts/words.tsx";
import { branchHref, commitPath, diffHref, fileHref, folderHref } from "../addresses.ts";

interface LineageProps {
  readonly place: Place;
  readonly path: string;
  /** The id of the commit that is looked at. */
  readonly commit: string;
}

/** What made a file: the datums of the job, with what they read; or who put it there. */
export function Makers({
  place,
  path,
  commit,
  writer,
}: LineageProps & { readonly writer: string | undefined }) {
  const { repo } = place;
  const made = useOnce<Provenance>(`${commitPath(place, commit)}/provenance`, { query: { path } });
  if (made.fault) return <Fault words={made.fault.message} />;
  if (!made.data) return <Asked live={made} />;
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
            , image <Mono>{code.image}</Mono>
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
                  <Mono>{words}</Mono> <span className="quiet">kept no more</span>
                </>
              ) : (
                <Link href={href} className="mono">
                  {words}
                </Link>
              )}{" "}
              <span className="quiet">
                {commit !== null && <Mono before="at ">{shortId(commit)}</Mono>}, as input {name}
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
  const { data } = useOnce<CommitDetail>(commitPath(place, commit));
  return (
    <div className="lineage">
      <p>
        No job made it: it was put there
        {data && data.key !== null && <Mono before=" with the key ">{data.key}</Mono>}
        {data && (
          <>
            {" "}
            <Ago at={data.createdAt} />
            {data.message !== null && `: “${data.message}”`}
          </>
        )}
        . <Link href={diffHref(place, { to: commit })}>What that commit changed</Link>
      </p>
    </div>
  );
}

/** What pipelines computed from a file. */
export function Derived({ place, path, commit }: LineageProps) {
  const { repo, branch } = place;
  const at = `${commitPath(place, commit)}/derived`;
  const first = useOnce<DerivedPage>(at, { query: { path } });
  const { pages, hasMore, fault, more } = usePages(first.data, (gateway, after) =>
    gateway.call<DerivedPage>(at, { query: { path, after } }),
  );
  const files = pages.flatMap((page) => page.files);
  const wrong = fault ?? first.fault?.message;
  // Several jobs may have computed the same file: the newest one is what it leads to.
  const newest = new Map(files.map((file) => [`${file.bucket}/${file.path}`, file]));
  return (
    <div className="lineage">
      <Fault words={wrong} />
      {!first.data && <Asked live={first} />}
      {first.data && files.length === 0 && !hasMore && (
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
      {hasMore && (
        <p className="actions">
          {more("Look further")}
          <span className="quiet">Not all outputs were looked at yet.</span>
        </p>
      )}
    </div>
  );
}
