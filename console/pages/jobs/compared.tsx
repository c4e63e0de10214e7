import { useState } from "react";
import { Link } from "wouter";
import type {
  Job,
  JobSummary,
  PipelineVersionPage,
  WholePipelineVersion,
} from "../../../protocol/pipelines.ts";
import type { ERRORS_BRANCH as ErrorsBranch } from "../../../protocol/spec.ts";
import { useOnce } from "../../gateway/session.ts";
import { Fault } from "../../parts/form.tsx";
import { JobLink } from "../../parts/jobs.tsx";
import { Asked, Scrolled, Section, Table } from "../../parts/page.tsx";
import { At, Mono } from "../../parts/words.tsx";
import { branchHref, diffHref, pipelinePath } from "../addresses.ts";

/** What is other than at the last job before it that succeeded: what it reads, and the specification. */
export function Compared({ summary: { job, lastGood } }: { readonly summary: JobSummary }) {
  const isOtherCode = lastGood !== null && lastGood.version !== job.version;
  const versions = useOnce<PipelineVersionPage>(`${pipelinePath(job.pipeline)}/versions`, {
    query: { after: job.version + 1, limit: Math.min(100, job.version - (lastGood?.version ?? 0)) },
    isAsked: isOtherCode,
  });
  if (lastGood === null) return null;
  const changed = versions.data?.versions.flatMap(({ changes }) => changes ?? []) ?? [];
  const others = job.inputs.flatMap((input) => {
    const before = lastGood.inputs.find(({ name }) => name === input.name);
    return before?.commit === input.commit ? [] : [{ ...input, before: before?.commit ?? null }];
  });
  return (
    <Section title="Since the last good job" className="compared">
      <p>
        The last job before it that succeeded is <JobLink id={lastGood.id} />
        {lastGood.finishedAt !== null && (
          <>
            , at <At at={lastGood.finishedAt} />
          </>
        )}
        .
        {others.length === 0 &&
          !isOtherCode &&
          " It read the same and had the same specification: what is other lies elsewhere, such as in its nodes."}
      </p>
      <ul>
        {others.map(({ name, repo, branch, commit, before }) => (
          <li key={name}>
            <Mono before="input ">{name}</Mono>:{" "}
            {commit !== null && before !== null ? (
              <Link href={diffHref({ repo, branch }, { from: before, to: commit })}>
                what changed in {`${branch}.${repo}`}
              </Link>
            ) : (
              <span>{before === null ? "it had no commit then" : "it has no commit now"}</span>
            )}
          </li>
        ))}
        {isOtherCode && (
          <li>
            specification: version {lastGood.version} then, {job.version} now
            {changed.length > 0 && (
              <>
                , which differ in <Mono>{[...new Set(changed)].join(", ")}</Mono>
              </>
            )}
          </li>
        )}
      </ul>
    </Section>
  );
}

/** As the protocol has it, whose module would bring a whole library into the page. */
const ERRORS_BRANCH: typeof ErrorsBranch = "errors";

const CODE_ID = "specification";

/** Opens what the job was made for, and goes there. */
export function showCode(): void {
  const code = document.getElementById(CODE_ID);
  if (!(code instanceof HTMLDetailsElement)) return;
  code.open = true;
  code.scrollIntoView({ block: "start" });
}

/** The version of the specification that the job was made for, folded: it is asked for when it is opened. */
export function Code({ job: { pipeline, version } }: { readonly job: Job }) {
  const [isOpen, setOpen] = useState(false);
  const live = useOnce<WholePipelineVersion>(`${pipelinePath(pipeline)}/versions/${version}`, {
    isAsked: isOpen,
  });
  return (
    <Section title="Specification">
      <details id={CODE_ID} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Version {version}, which it was made for</summary>
        <Fault words={live.fault?.message} />
        {isOpen && (
          <Asked live={live}>
            {({ text, spec, hidden }) => (
              <>
                {hidden && (
                  <p className="quiet">
                    Without {hidden.join(", ")}: this key may not read all that the pipeline reads.
                  </p>
                )}
                <Scrolled
                  className="tail spec"
                  label={`Version ${version} of the specification`}
                  text={text ?? JSON.stringify(spec, null, 2)}
                />
              </>
            )}
          </Asked>
        )}
      </details>
    </Section>
  );
}

/** The commits that a job read and made. */
export function Commits({ job }: { readonly job: Job }) {
  const { inputs, output, outputCommit, errorsCommit, pipeline, finishedAt } = job;
  return (
    <Section title="Read and made" label="Commits">
      <Table head={["What", "Where", "Commit"]}>
        {inputs.map(({ name, ...read }) => (
          <CommitRow key={name} what={`read as ${name}`} {...read} />
        ))}
        {output ? (
          <CommitRow
            what="made"
            {...output}
            commit={outputCommit}
            noCommit={finishedAt === null ? "no commit yet" : "no commit"}
          />
        ) : (
          <tr>
            <td>made</td>
            <td className="where mono">{pipeline}</td>
            <td className="mono">{outputCommit ?? "no commit"}</td>
          </tr>
        )}
        {errorsCommit !== undefined && (
          <CommitRow what="told of bad datums" repo={pipeline} branch={ERRORS_BRANCH} commit={errorsCommit} />
        )}
      </Table>
    </Section>
  );
}

interface CommitRowProps {
  readonly what: string;
  readonly repo: string;
  readonly branch: string;
  readonly commit: string | null;
  readonly kept?: false | undefined;
  /** What it says if there is none. */
  readonly noCommit?: string;
}

/** A commit that a job read or made: a link to its files, if they are kept. */
function CommitRow({ what, repo, branch, commit, kept, noCommit = "nothing yet" }: CommitRowProps) {
  return (
    <tr>
      <td>{what}</td>
      <td className="where">
        <Link className="mono" href={branchHref({ repo, branch })}>{`${branch}.${repo}`}</Link>
      </td>
      <td>
        {commit === null ? (
          <span className="quiet">{noCommit}</span>
        ) : kept === false ? (
          <>
            <Mono>{commit}</Mono> <span className="quiet">kept no more</span>
          </>
        ) : (
          <Link className="mono" href={branchHref({ repo, branch, at: commit })}>
            {commit}
          </Link>
        )}
      </td>
    </tr>
  );
}
