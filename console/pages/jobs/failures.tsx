import type { JobSummary } from "../../../protocol/pipelines.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Plain } from "../../parts/form.tsx";
import { inputsText } from "../../parts/jobs.tsx";
import type { LogsProps } from "../../parts/logs.tsx";
import { Scrolled, Section } from "../../parts/page.tsx";
import { StateMark } from "../../parts/state.tsx";
import { counted, countText, Mono } from "../../parts/words.tsx";

interface FailuresProps {
  readonly summary: JobSummary;
  /** Shows what a datum printed. */
  readonly choose: LogsProps["choose"];
}

/** What failed: datums that failed in the same way are one entry, their files folded. */
export function Failures({ summary: { job, failures }, choose }: FailuresProps) {
  if (failures.length === 0) return null;
  const more = job.datums.failed - failures.reduce((sum, { count }) => sum + count, 0);
  return (
    <Section title="Failed" label="Failed datums" count={job.datums.failed}>
      <ul className="failures">
        {failures.map((group) => (
          <Group
            key={`${group.exitCode} ${group.reason} ${group.line}`}
            job={job.id}
            group={group}
            choose={choose}
          />
        ))}
      </ul>
      {more > 0 && (
        <p>
          {countText(more)} more failed:{" "}
          <CliLine line={command`sluice job datums ${job.id} --state failed`} />
        </p>
      )}
    </Section>
  );
}

interface GroupProps extends Pick<FailuresProps, "choose"> {
  readonly job: string;
  readonly group: JobSummary["failures"][number];
}

function Group({ job, group: { reason, line, count, datums, log }, choose }: GroupProps) {
  const [first] = datums;
  if (!first) return null;
  const name = inputsText(first.inputs);
  return (
    <li>
      <p>
        <StateMark mark="failure" />{" "}
        <b className={count === 1 ? "mono" : undefined}>{count === 1 ? name : counted(count, "datum")}</b>:{" "}
        {reason}
        {line !== null && <b>: {line}</b>}
        {count === 1 && first.node !== null && <span className="quiet"> on {first.node}</span>}
      </p>
      {count > 1 && (
        <details>
          <summary>
            {name} and {counted(count - 1, "other")}
          </summary>
          <ul className="names">
            {datums.map(({ id, inputs, node }) => (
              <li key={id}>
                <Plain act={() => choose(id)} title="All that it printed">
                  <Mono>{inputsText(inputs)}</Mono>
                </Plain>
                {node !== null && <span className="quiet"> on {node}</span>}
              </li>
            ))}
          </ul>
          {count > datums.length && <p className="quiet">and {countText(count - datums.length)} more</p>}
        </details>
      )}
      {log.length > 1 && (
        <details>
          <summary>Last lines of {name}</summary>
          <Scrolled className="tail" label={`Last lines of ${name}`} text={log.join("\n")} />
        </details>
      )}
      <p className="actions">
        <Plain act={() => choose(first.id)}>
          All that {count === 1 ? "it" : "the first of them"} printed
        </Plain>
        <CliLine line={command`sluice datum run ${job} ${first.id.slice(0, 12)}`} />
      </p>
    </li>
  );
}
