import type { ReactNode } from "react";
import {
  Bucket,
  bucketOf,
  type CorsRule,
  type LifecycleRule,
  type Place,
  type RuleKind,
} from "../../../gateway/s3.ts";
import { useRead } from "../../../gateway/session.ts";
import { command } from "../../../parts/cli-line.tsx";
import { Action, Fault } from "../../../parts/form.tsx";
import { Asked, Section } from "../../../parts/page.tsx";
import { counted, countText, Mono, spanText } from "../../../parts/words.tsx";

/** Beyond these a list is no help. */
const MOST_SHOWN = 50;

/** What deletes files, uploads and commits with time. */
export const LIFECYCLE: Kind<"lifecycle"> = {
  kind: "lifecycle",
  title: "Lifecycle rules",
  none: "No rules: nothing is deleted automatically.",
  remove: "Nothing is deleted automatically any more, and commits are kept as they were before the rules.",
  operation: "bucket-lifecycle-configuration",
  option: "lifecycle-configuration",
  example:
    '{"Rules":[{"ID":"scratch","Status":"Enabled","Filter":{"Prefix":"scratch/"},"Expiration":{"Days":7}}]}',
  show: (rule) => (
    <>
      <b className="mono">{rule.id}</b>
      {!rule.isEnabled && <span className="quiet"> switched off</span>} {lifecycleWords(rule)}
    </>
  ),
};

/** Which pages of other origins may read the branch and write to it. */
export const CORS: Kind<"cors"> = {
  kind: "cors",
  title: "Pages from elsewhere (CORS)",
  none: "Browsers let no page from elsewhere read its files.",
  remove: "Within 5 seconds no page from elsewhere reads it or writes to it.",
  operation: "bucket-cors",
  option: "cors-configuration",
  example: '{"CORSRules":[{"AllowedOrigins":["https://example.com"],"AllowedMethods":["GET"]}]}',
  show: corsWords,
};

interface Kind<K extends keyof RuleKind> {
  readonly kind: K;
  readonly title: string;
  /** What holds without a rule. */
  readonly none: string;
  /** What it comes to if all are removed. */
  readonly remove: string;
  /** Behind `put-` and `get-` of `aws s3api`, and the option of the former. */
  readonly operation: string;
  readonly option: string;
  readonly example: string;
  show(rule: RuleKind[K]): ReactNode;
}

interface RulesProps<K extends keyof RuleKind> {
  readonly of: Kind<K>;
  readonly place: Place;
  /** After they were removed. */
  changed?(): void;
}

/** The rules of a kind that a branch has. */
export function Rules<K extends keyof RuleKind>({ of, place, changed }: RulesProps<K>) {
  const { kind, title, none, remove, operation, option, example, show } = of;
  const { repo, branch } = place;
  const rules = useRead<readonly RuleKind[K][]>([kind, repo, branch], (gateway, signal) =>
    new Bucket(gateway, place).rules(kind, signal),
  );
  // They are shown to keys alone that may set them.
  if (rules.fault?.status === 403) return null;
  const { data } = rules;
  const aws = command`aws --endpoint-url "$SLUICE_ENDPOINT" s3api`;
  const put = command`put-${operation} --bucket ${bucketOf(place)} --${option}`;
  const isSet = data !== undefined && data.length > 0;
  const cli = isSet
    ? command`${aws} get-${operation} --bucket ${bucketOf(place)} > ${kind}.json && ${aws} ${put} file://${kind}.json`
    : command`${aws} ${put} ${example}`;
  return (
    <Section className="setting" title={title} cli={cli}>
      <Fault words={rules.fault?.message} />
      {!data && <Asked live={rules} />}
      {data?.length === 0 && <p>{none}</p>}
      {isSet && (
        <>
          <ul className="rules">
            {data.slice(0, MOST_SHOWN).map((rule, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rules of CORS need no id, and none of a list moves.
              <li key={index}>{show(rule)}</li>
            ))}
          </ul>
          {data.length > MOST_SHOWN && (
            <p className="quiet">{countText(data.length - MOST_SHOWN)} more, which the line below gets.</p>
          )}
          <Action
            question={remove}
            act={(gateway) => new Bucket(gateway, place).deleteRules(kind)}
            done={() => {
              rules.reload();
              changed?.();
            }}
          >
            {data.length === 1 ? "Remove the rule" : "Remove the rules"}
          </Action>
        </>
      )}
    </Section>
  );
}

function lifecycleWords({ prefix, tags, days, date, abortDays, noncurrentDays }: LifecycleRule): ReactNode {
  const tagged =
    tags.length === 0 ? undefined : (
      <>
        {" "}
        that have the {tags.length === 1 ? "tag" : "tags"}{" "}
        <b className="mono">{tags.map(([key, value]) => `${key}=${value}`).join(", ")}</b>
      </>
    );
  const below =
    prefix === "" ? undefined : (
      <>
        {" "}
        whose path begins with <b className="mono">{prefix}</b>
      </>
    );
  return (
    <>
      {(days !== undefined || date !== undefined) && (
        <span>
          {below || tagged ? "Files" : "All files"}
          {below}
          {below && tagged && " and"}
          {tagged} go{" "}
          {days === undefined
            ? `from ${date?.slice(0, 10)} on`
            : `${counted(days, "day")} after they were written`}
          .{" "}
        </span>
      )}
      {abortDays !== undefined && (
        <span>
          Uploads in parts{below} are given up {counted(abortDays, "day")} after they began.{" "}
        </span>
      )}
      {noncurrentDays !== undefined && (
        <span>What was replaced stays in the history for {counted(noncurrentDays, "day")}.</span>
      )}
    </>
  );
}

function corsWords({ origins, methods, headers, exposed, maxAgeSeconds }: CorsRule): ReactNode {
  return (
    <>
      <span>
        Pages of <b className="mono">{origins.join(", ")}</b> may send {methods.join(", ")}
      </span>
      {headers.length > 0 && (
        <span>
          {" "}
          with the headers <Mono>{headers.join(", ")}</Mono>
        </span>
      )}
      {exposed.length > 0 && (
        <span>
          , and read the headers <Mono>{exposed.join(", ")}</Mono> of answers
        </span>
      )}
      <span>
        .{maxAgeSeconds !== undefined && ` Browsers remember that for ${spanText(maxAgeSeconds * 1000)}.`}
      </span>
    </>
  );
}
