import type { ReactNode } from "react";
import { useOnce } from "../../../gateway/once.ts";
import {
  bucketOf,
  type CorsRule,
  deleteRules,
  type LifecycleRule,
  type Place,
  type RuleKind,
  readRules,
} from "../../../gateway/s3.ts";
import { useSession } from "../../../gateway/session.tsx";
import { Action } from "../../../parts/action.tsx";
import { Fault } from "../../../parts/broken.tsx";
import { command } from "../../../parts/cli-line.tsx";
import { counted, countText } from "../../../parts/numbers.ts";
import { spanText } from "../../../parts/time.tsx";
import { Setting } from "./setting.tsx";

/** Beyond these a list is no help. */
const MOST_SHOWN = 50;

const LIFECYCLE: Kind<"lifecycle"> = {
  kind: "lifecycle",
  title: "Lifecycle rules",
  none: "Nothing of it goes by itself.",
  remove: "Nothing goes by itself any more, and commits are kept as they were before the rules.",
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

const CORS: Kind<"cors"> = {
  kind: "cors",
  title: "Pages from elsewhere (CORS)",
  none: "Browsers let no page from elsewhere read its files.",
  remove: "Within 5 seconds no page from elsewhere reads it or writes to it.",
  operation: "bucket-cors",
  option: "cors-configuration",
  example: '{"CORSRules":[{"AllowedOrigins":["https://example.com"],"AllowedMethods":["GET"]}]}',
  show: corsWords,
};

/** What deletes files, uploads and commits with time. `changed`: rules also say how many days of commits are kept. */
export function LifecycleRules({ place, changed }: { readonly place: Place; changed(): void }) {
  return <Rules of={LIFECYCLE} place={place} changed={changed} />;
}

/** Which pages of other origins may read the branch and write to it. */
export function CorsRules({ place }: { readonly place: Place }) {
  return <Rules of={CORS} place={place} />;
}

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
  changed?(): void;
}

function Rules<K extends keyof RuleKind>({ of, place, changed }: RulesProps<K>) {
  const { gateway } = useSession();
  const { kind, title, none, remove, operation, option, example, show } = of;
  const { repo, branch } = place;
  const rules = useOnce<readonly RuleKind[K][]>([kind, repo, branch], (asked, signal) =>
    readRules(asked, place, { kind, signal }),
  );
  // They are shown to keys alone that may set them.
  if (rules.fault?.status === 403) return null;
  async function removeAll(): Promise<void> {
    await deleteRules(gateway, place, kind);
    rules.reload();
    changed?.();
  }
  const { data } = rules;
  const aws = command`aws --endpoint-url "$SLUICE_ENDPOINT" s3api`;
  const put = command`put-${operation} --bucket ${bucketOf(place)} --${option}`;
  const isSet = data !== undefined && data.length > 0;
  const cli = isSet
    ? command`${aws} get-${operation} --bucket ${bucketOf(place)} > ${kind}.json && ${aws} ${put} file://${kind}.json`
    : command`${aws} ${put} ${example}`;
  return (
    <Setting title={title} cli={cli}>
      <Fault words={rules.fault?.message} />
      {!data && !rules.fault && <p className="quiet">Asking the gateway…</p>}
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
          <Action question={remove} act={removeAll}>
            {data.length === 1 ? "Remove the rule" : "Remove the rules"}
          </Action>
        </>
      )}
    </Setting>
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
          with the headers <span className="mono">{headers.join(", ")}</span>
        </span>
      )}
      {exposed.length > 0 && (
        <span>
          , and read the headers <span className="mono">{exposed.join(", ")}</span> of answers
        </span>
      )}
      <span>
        .{maxAgeSeconds !== undefined && ` Browsers remember that for ${spanText(maxAgeSeconds * 1000)}.`}
      </span>
    </>
  );
}
