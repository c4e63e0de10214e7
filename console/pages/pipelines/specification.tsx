import { Suspense, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Issue } from "../../../protocol/errors.ts";
import type { PipelineCheck } from "../../../protocol/pipeline-check.ts";
import type { Pipeline, WholePipelineVersion } from "../../../protocol/pipelines.ts";
import type { RepoList } from "../../../protocol/repos.ts";
import { GatewayError } from "../../../protocol/requests.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { faultText, type Session, useOnce, useSession } from "../../gateway/session.ts";
import { CliLine, type CommandLine, command } from "../../parts/cli-line.tsx";
import { Button, Check, Fault } from "../../parts/form.tsx";
import { Loading, lazyPage } from "../../parts/lazy-page.tsx";
import { Asked, Page } from "../../parts/page.tsx";
import { counted, countText, Mono } from "../../parts/words.tsx";
import { pipelinePath } from "../addresses.ts";
import type { Editing } from "./spec/editor.tsx";
import { editable, languageOf } from "./spec/language.ts";

const SpecEditor = lazyPage(() => import("./spec/editor.tsx"));

/** What a new specification begins with. */
const BLANK = `{
  "pipeline": { "name": "" },
  "transform": {
    "image": "busybox",
    "cmd": ["sh", "-c", "cp -r /pfs/in/. /pfs/out"]
  },
  "inputs": [
    { "name": "in", "repo": { "name": "" }, "glob": "/*" }
  ]
}
`;

/** Where a specification is written: that of a pipeline that is there, or of a new one. */
export default function SpecificationPage({ name }: { readonly name?: string }) {
  if (name !== undefined) return <Update name={name} />;
  return (
    <Page title="New pipeline" cli={command`sluice pipeline create -f spec.json`}>
      <Submission begin={BLANK} name={undefined} />
    </Page>
  );
}

function Update({ name }: { readonly name: string }) {
  // It is asked once: what is being written is not written over.
  const live = useOnce<WholePipelineVersion>(`${pipelinePath(name)}/versions/latest`);
  // The command prints the text that is kept, and reads a file by its ending.
  const file = fileFor(live.data?.text ?? "");
  return (
    <Page
      title={`Update ${name}`}
      cli={command`sluice pipeline inspect ${name} --spec > ${file} && sluice pipeline update -f ${file}`}
      live={live}
    >
      <Asked live={live}>
        {({ hidden, spec, text }) =>
          hidden ? (
            <p>
              This key may not read all that {name} reads, so it does not see <b>{hidden.join(", ")}</b> of
              the specification. An update without that would lose it: use a key that may read all of its
              inputs.
            </p>
          ) : (
            <Submission begin={editable(spec, text)} name={name} />
          )
        }
      </Asked>
    </Page>
  );
}

/** `name`: of the pipeline to update; undefined: one is made. */
function Submission({ begin, name }: { readonly begin: string; readonly name: string | undefined }) {
  const session = useSession();
  const [, go] = useLocation();
  const [text, setText] = useState(begin);
  const [reprocess, setReprocess] = useState(false);
  const [refusal, setRefusal] = useState<{ readonly text: string; readonly words: Refusal }>();
  const [isBusy, setBusy] = useState(false);
  const editing = useRef<Editing>(null);
  const way: Way = { isUpdate: name !== undefined, reprocess };
  // What nobody has begun to write is not wrong yet; of what is there it is told what it comes to.
  const isWritten = text !== begin;
  const isBegun = way.isUpdate || isWritten;
  const trial = useTrial(text, way, { isBegun });
  const repos = useOnce<RepoList>("/repos").data?.repos ?? NO_REPOS;
  // What the gateway refused stands until something else is written.
  const refused = refusal?.text === text ? refusal.words : undefined;
  const issues = refused?.issues ?? (isWritten && trial.step === "bad" ? trial.issues : NONE);

  async function submit(): Promise<void> {
    setBusy(true);
    try {
      const made = await submitSpec<Pipeline>(session.gateway, { text, way, dryRun: false });
      go(pipelinePath(made.name));
    } catch (error) {
      setRefusal({ text, words: refusalOf(error, session) });
      setBusy(false);
    }
  }

  return (
    <div className="submission">
      <div>
        <Suspense fallback={<Loading>Loading the editor…</Loading>}>
          <SpecEditor begin={begin} issues={issues} repos={repos} change={setText} ref={editing} />
        </Suspense>
        <p className="actions">
          <Button className="main" disabled={isBusy} act={submit}>
            {name === undefined ? "Create the pipeline" : "Update the pipeline"}
          </Button>
          {name !== undefined && (
            <Check isSet={reprocess} set={setReprocess}>
              run every datum again
            </Check>
          )}
          <Link href={name === undefined ? "/pipelines" : pipelinePath(name)}>Cancel</Link>
        </p>
        <Fault words={refused?.issues.length === 0 ? refused.message : undefined} />
      </div>
      <section aria-label="Dry run" aria-live="polite" className="trial">
        <h2>Dry run</h2>
        {issues.length > 0 && <Problems issues={issues} editing={editing} />}
        {issues.length === 0 && <Outlook trial={trial} isBegun={isBegun} isUpdate={way.isUpdate} />}
        <p>
          <CliLine line={checkLine(way, fileFor(text))} />
        </p>
      </section>
    </div>
  );
}

const NONE: readonly Issue[] = [];
const NO_REPOS: RepoList["repos"] = [];

interface OutlookProps {
  readonly trial: Trial;
  readonly isBegun: boolean;
  readonly isUpdate: boolean;
}

/** What it would come to, if nothing is wrong that has a place in the text. */
function Outlook({ trial, isBegun, isUpdate }: OutlookProps) {
  if (!isBegun) return <p className="quiet">What it would come to stands here as you write.</p>;
  if (trial.step === "refused") return <p className="bad">{trial.message}</p>;
  if (trial.step === "good") return <Checked check={trial.check} isUpdate={isUpdate} />;
  if (trial.step === "bad")
    return <p className="quiet">As it is, it would be refused now. Why stands here as you write.</p>;
  return <p className="quiet">Asking the gateway what it would come to…</p>;
}

function checkLine({ isUpdate, reprocess }: Way, file: string): CommandLine {
  if (!isUpdate) return command`sluice pipeline check -f ${file}`;
  return command`sluice pipeline update -f ${file} --plan${reprocess ? command` --reprocess` : []}`;
}

/** What a file is called that has a text. */
function fileFor(text: string): string {
  return `spec.${languageOf(text)}`;
}

interface ProblemsProps {
  readonly issues: readonly Issue[];
  readonly editing: React.RefObject<Editing | null>;
}

function Problems({ issues, editing }: ProblemsProps) {
  return (
    <>
      <p className="bad">
        <b>{counted(issues.length, "problem")}</b>
      </p>
      <ul className="problems">
        {issues.map((issue) => (
          <li key={`${issue.path} ${issue.message}`}>
            <Button className="plain mono" act={() => editing.current?.goTo(issue)}>
              {issue.path === "" ? "the whole" : issue.path}
            </Button>{" "}
            {issue.message}
          </li>
        ))}
      </ul>
    </>
  );
}

/** What a specification would come to. */
function Checked({ check, isUpdate }: { readonly check: PipelineCheck; readonly isUpdate: boolean }) {
  const { spec, workers, inputs, datums, plan } = check;
  return (
    <>
      <p className="fine">
        <b>{spec.pipeline.name} is good.</b> {isUpdate ? "Nothing was changed." : "Nothing was made."}
      </p>
      <dl>
        {plan && (
          <>
            <dt>Changes</dt>
            <dd>{plan.changes.length === 0 ? "nothing" : <Mono>{plan.changes.join(", ")}</Mono>}</dd>
            <dt>Would run</dt>
            <dd>{planText(plan)}</dd>
          </>
        )}
        <dt>Workers</dt>
        <dd>
          {countText(workers.count)},{" "}
          {workers.liveNodes === 0 ? (
            <b className="bad">but no node lives that could run it</b>
          ) : (
            `on ${counted(workers.liveNodes, "live node")}`
          )}
        </dd>
        <dt>Output</dt>
        <dd className="mono">{`s3://${spec.outputBranch}.${spec.pipeline.name}`}</dd>
        {inputs.map((input) => (
          <InputWords key={input.name} input={input} />
        ))}
        <dt>Datums</dt>
        <dd>
          {datumsText({ inputs, datums })}
          {datums.first.length > 0 && inputs.length > 0 && (
            <ul className="first">
              {datums.first.map(({ inputs: parts }) => {
                const words = parts
                  .map(({ name, path }) => (parts.length === 1 ? path : `${name}:${path}`))
                  .join(" with ");
                return (
                  <li key={words} className="mono">
                    {words}
                  </li>
                );
              })}
            </ul>
          )}
        </dd>
      </dl>
    </>
  );
}

function InputWords({ input }: { readonly input: PipelineCheck["inputs"][number] }) {
  const { name, repo, branch, glob, hasData, matches, complete } = input;
  const nothing = hasData && complete && matches === 0;
  return (
    <>
      <dt>Input {name}</dt>
      <dd>
        <Mono>{glob}</Mono> in <Mono>{`s3://${branch}.${repo}`}</Mono>:{" "}
        {hasData ? (
          <span className={nothing ? "bad" : ""}>
            {complete ? "" : "at least "}
            {nothing ? "matches nothing" : counted(matches, "match", "matches")}
          </span>
        ) : (
          "nothing there yet"
        )}
      </dd>
    </>
  );
}

function planText({ run, kept, counted: isAll, why }: NonNullable<PipelineCheck["plan"]>): string {
  if (why.some(({ count }) => count === null)) return `every datum again, at least ${countText(run)}`;
  const least = isAll ? "" : "at least ";
  return `${least}${counted(run, "datum")}, and keep the results of ${least}${countText(kept)}`;
}

function datumsText({ inputs, datums }: Pick<PipelineCheck, "inputs" | "datums">): string {
  if (inputs.length === 0) return "one, without inputs";
  const empty = inputs.filter(({ hasData }) => !hasData).map(({ name }) => name);
  if (empty.length > 0) return `none yet: the first job waits for data in ${empty.join(" and ")}`;
  if (datums.total === 0) return "none: nothing matches";
  const seen = datums.total ?? datums.atLeast;
  const total = `${datums.total === null ? "at least " : ""}${countText(seen)}`;
  if (datums.limit !== null && seen > datums.limit)
    return `${total}, more than the ${countText(datums.limit)} that a job may have: it would fail`;
  return datums.total === datums.first.length ? total : `${total}; the first ones:`;
}

interface Way {
  readonly isUpdate: boolean;
  readonly reprocess: boolean;
}

type Trial =
  | { readonly step: "waiting" }
  | { readonly step: "good"; readonly check: PipelineCheck }
  | { readonly step: "bad"; readonly issues: readonly Issue[] }
  | { readonly step: "refused"; readonly message: string };

/** Once nothing more is typed for so long, it is tried; and at most once in so long, as a page asks no more often. */
const REST_MS = 600;
const APART_MS = 2000;

/** What the gateway says to what is written, each time that the writing rests. Nothing is made. */
function useTrial(
  text: string,
  { isUpdate, reprocess }: Way,
  { isBegun }: { readonly isBegun: boolean },
): Trial {
  const session = useSession();
  const [trial, setTrial] = useState<Trial>({ step: "waiting" });
  const askedAt = useRef(0);
  useEffect(() => {
    if (!isBegun) return;
    const stopping = new AbortController();
    const { signal } = stopping;
    const wait = Math.max(REST_MS, askedAt.current + APART_MS - Date.now());
    const timer = setTimeout(() => void tryOut(), wait);
    async function tryOut(): Promise<void> {
      askedAt.current = Date.now();
      const way = { isUpdate, reprocess };
      try {
        const check = await submitSpec<PipelineCheck>(session.gateway, { text, way, dryRun: true, signal });
        if (!signal.aborted) setTrial({ step: "good", check });
      } catch (error) {
        if (signal.aborted) return;
        const { issues, message } = refusalOf(error, session);
        setTrial(issues.length > 0 ? { step: "bad", issues } : { step: "refused", message });
      }
    }
    return () => {
      clearTimeout(timer);
      stopping.abort();
    };
  }, [session, text, isUpdate, reprocess, isBegun]);
  return trial;
}

interface Submitted {
  readonly text: string;
  readonly way: Way;
  readonly dryRun: boolean;
  readonly signal?: AbortSignal;
}

/** Submits what is written, with its text. What is neither JSON nor YAML does not leave the page. */
async function submitSpec<T>(gateway: Gateway, { text, way, dryRun, signal }: Submitted): Promise<T> {
  const { bodyOf, readWritten } = await import("./spec/written.ts");
  const read = readWritten(text);
  const invalid = { status: 400, code: "InvalidSpec" };
  if (!read.ok) throw new GatewayError("This is no specification.", { ...invalid, issues: [read.issue] });
  // What is only tried out is kept nowhere.
  const body = dryRun ? { text: false, json: read.spec } : bodyOf(text, read.spec);
  const query = {
    ...(dryRun && { dryRun }),
    ...(body.text && { text: true }),
    ...(way.isUpdate && { update: true, ...(way.reprocess && { reprocess: true }) }),
  };
  return await gateway.call<T>("/pipelines", { method: "POST", query, json: body.json, signal });
}

interface Refusal {
  readonly message: string;
  readonly issues: readonly Issue[];
}

function refusalOf(error: unknown, session: Session): Refusal {
  return { message: faultText(error, session), issues: error instanceof GatewayError ? error.issues : [] };
}
