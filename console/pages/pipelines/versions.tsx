import { structuredPatch } from "diff";
import { useState } from "react";
import type {
  PipelineVersion,
  PipelineVersionPage,
  WholePipelineVersion,
} from "../../../protocol/pipelines.ts";
import { useOnce, useTurn } from "../../gateway/session.ts";
import { command } from "../../parts/cli-line.tsx";
import { Fault, Plain, usePages } from "../../parts/form.tsx";
import { Asked, Section } from "../../parts/page.tsx";
import { Ago, Mono } from "../../parts/words.tsx";
import { pipelinePath } from "../addresses.ts";

/** Versions in a page. */
const SHOWN = 20;

interface VersionsProps {
  readonly name: string;
  /** The present one. */
  readonly version: number;
}

/** The versions of a pipeline's specification, folded: they are asked for when they are opened. */
export function Versions({ name, version }: VersionsProps) {
  const [isOpen, setOpen] = useState(false);
  const path = `${pipelinePath(name)}/versions`;
  const live = useOnce<PipelineVersionPage>(path, {
    ...{ query: { limit: SHOWN }, isAsked: isOpen },
    turn: useTurn(String(version)),
  });
  const { pages, fault, more } = usePages(live.data, (gateway, after) =>
    gateway.call<PipelineVersionPage>(path, { query: { limit: SHOWN, after } }),
  );
  const versions = pages.flatMap((page) => page.versions);
  return (
    <Section title="Versions" cli={command`sluice pipeline history ${name}`}>
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Version {version} and those before it</summary>
        <Fault words={live.fault?.message ?? fault} />
        {isOpen && <Asked live={live} />}
        <ol className="versions">
          {versions.map((each, index) => (
            <Line key={each.version} name={name} version={each} before={versions[index + 1]?.version} />
          ))}
        </ol>
        {more("Older ones")}
      </details>
    </Section>
  );
}

interface LineProps {
  readonly name: string;
  readonly version: PipelineVersion;
  /** The one before it, if it is kept and known by now. */
  readonly before: number | undefined;
}

function Line({ name, version: one, before }: LineProps) {
  const { version, createdAt, key, keyDescription, changes, runsAll } = one;
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <p>
        <b>version {version}</b>{" "}
        <span className="quiet">
          <Ago at={createdAt} />
          {key !== null && <> by {keyDescription ? `“${keyDescription}”` : <Mono>{key}</Mono>}</>}
          {runsAll && ", which ran every datum again"}
        </span>
      </p>
      <p>
        {changes === null && (
          <span className="quiet">{version === 1 ? "the first one" : "the first that is kept"}</span>
        )}
        {changes?.length === 0 && <span className="quiet">the same specification again</span>}
        {changes && changes.length > 0 && (
          <>
            changed <Mono>{changes.join(", ")}</Mono>
          </>
        )}{" "}
        {before !== undefined && (
          <Plain aria-expanded={isOpen} act={() => setOpen(!isOpen)}>
            {isOpen ? "Hide the difference" : "Show the difference"}
          </Plain>
        )}
      </p>
      {isOpen && before !== undefined && <Difference name={name} from={before} to={version} />}
    </li>
  );
}

interface DifferenceProps {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** What differs between two versions, line by line, as they were written if both are kept so. */
function Difference({ name, from, to }: DifferenceProps) {
  const before = useOnce<WholePipelineVersion>(`${pipelinePath(name)}/versions/${from}`);
  const after = useOnce<WholePipelineVersion>(`${pipelinePath(name)}/versions/${to}`);
  const fault = before.fault ?? after.fault;
  if (fault) return <Fault words={fault.message} />;
  if (!before.data || !after.data) return <p className="quiet">Asking the gateway…</p>;
  const hidden = new Set([...(before.data.hidden ?? []), ...(after.data.hidden ?? [])]);
  const lines = linesOf(before.data, after.data);
  return (
    <>
      {hidden.size > 0 && (
        <p className="quiet">
          Without {[...hidden].join(", ")}: this key may not read all that the pipeline reads.
        </p>
      )}
      {lines === undefined && <p className="quiet">They differ in too much to be compared by line.</p>}
      {lines?.length === 0 && <p className="quiet">No line differs.</p>}
      {lines && lines.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys.
        <section className="tail spec lines-differ" aria-label={`Version ${to} beside ${from}`} tabIndex={0}>
          <pre>
            {lines.map(({ id, text }) => (
              <span key={id} className={SIGNS[text.slice(0, 1)]}>
                {text}
                {"\n"}
              </span>
            ))}
          </pre>
        </section>
      )}
    </>
  );
}

const SIGNS: Readonly<Record<string, string>> = { "+": "added", "-": "deleted", "@": "where" };
/** Lines around a difference that are shown, and so many that may differ: the search takes time with their square. */
const CONTEXT = 3;
const MAX_EDITS = 2000;

/** As `diff -u` has them. Undefined: they differ in too much. */
function linesOf(before: WholePipelineVersion, after: WholePipelineVersion) {
  const asWritten = before.text !== undefined && after.text !== undefined;
  const textOf = ({ text = "", spec }: WholePipelineVersion): string =>
    asWritten ? text : `${JSON.stringify(spec, null, 2)}\n`;
  const patch = structuredPatch("", "", textOf(before), textOf(after), undefined, undefined, {
    context: CONTEXT,
    maxEditLength: MAX_EDITS,
  });
  return patch?.hunks.flatMap(({ oldStart, newStart, lines }) => [
    { id: `@${oldStart}`, text: `@@ line ${newStart} @@` },
    ...lines.map((text, index) => ({ id: `${oldStart} ${index}`, text })),
  ]);
}
