import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { CommitPage, DiffPage as Differences, PathChange } from "../../../protocol/commits.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import { useOnce } from "../../gateway/once.ts";
import { bucketOf, type Place } from "../../gateway/s3.ts";
import { faultText, useSession } from "../../gateway/session.tsx";
import { Fault } from "../../parts/broken.tsx";
import { command } from "../../parts/cli-line.tsx";
import { counted, countText, shortId } from "../../parts/numbers.ts";
import { Page } from "../../parts/page.tsx";
import { sizeText } from "../../parts/size.ts";
import { apiPath, CommitPicker, CommitWords } from "./at.tsx";
import { BranchTabs, Crumbs } from "./crumbs.tsx";
import { diffHref, fileHref } from "./places.ts";

interface DiffProps {
  readonly place: Place;
  /** The commit that is compared with; absent: the one before. */
  readonly from: string | undefined;
  /** Absent: the newest commit. */
  readonly to: string | undefined;
}

const PAGE = 500;

/** What a commit changed, or how any two commits differ, path by path. */
export function DiffPage({ place, from, to }: DiffProps) {
  const { repo, branch } = place;
  const [, go] = useLocation();
  // Without a name, the newest is meant: which one that is must be asked first.
  const head = useOnce<CommitPage>(
    ["head", repo, branch],
    (gateway, signal) => gateway.call(`${apiPath(place)}/commits`, { query: { limit: 1 }, signal }),
    { enabled: to === undefined },
  );
  const at = to ?? head.data?.commits[0]?.id;
  const first = useOnce<Differences>(
    ["diff", repo, branch, at, from],
    (gateway, signal) => ask(gateway, { place, at: at ?? "", from, signal }),
    { enabled: at !== undefined },
  );
  const bucket = bucketOf(place);
  const between = first.data?.from ? command` ${first.data.from} ${first.data.to}` : [];
  const isEmpty = head.data?.commits.length === 0;
  return (
    <Page
      title={`Differences in ${bucket}`}
      cli={command`sluice commit diff ${bucket}${between}`}
      live={head.fault ? head : first}
      aside={
        <>
          <CommitPicker
            place={place}
            label={`From ${from === undefined ? "the commit before" : shortId(from)}`}
            choose={(chosen) => go(diffHref(place, { from: chosen, to: at }))}
            headWords="The commit before"
            isById
          />
          <CommitPicker
            place={place}
            label={`To ${to === undefined ? "the newest" : shortId(to)}`}
            isById
            choose={(chosen) => go(diffHref(place, { from, to: chosen }))}
          />
        </>
      }
    >
      <Crumbs place={place} />
      <BranchTabs place={place} here="diff" />
      {isEmpty && <p>The branch has no commit yet.</p>}
      {!isEmpty && !first.data && !first.fault && !head.fault && <p className="quiet">Asking the gateway…</p>}
      {first.data && (
        <Changes key={`${first.data.from} ${first.data.to}`} place={place} first={first.data} asked={from} />
      )}
    </Page>
  );
}

interface Asked {
  readonly place: Place;
  readonly at: string;
  readonly from: string | undefined;
  readonly after?: string;
  readonly signal?: AbortSignal;
}

function ask(gateway: Gateway, { place, at, from, after, signal }: Asked): Promise<Differences> {
  return gateway.call(`${apiPath(place)}/commits/${encodeURIComponent(at)}/diff`, {
    query: { from, after, limit: PAGE },
    ...(signal && { signal }),
  });
}

interface ChangesProps {
  readonly place: Place;
  readonly first: Differences;
  /** What `from` was asked for. */
  readonly asked: string | undefined;
}

function Changes({ place, first, asked }: ChangesProps) {
  const session = useSession();
  const [rest, setRest] = useState<readonly Differences[]>([]);
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const pages = [first, ...rest];
  const changes = pages.flatMap((page) => page.changes);
  const next = pages.at(-1)?.next ?? null;
  async function more(): Promise<void> {
    setBusy(true);
    setFault(undefined);
    try {
      const page = await ask(session.gateway, { place, at: first.to, from: asked, after: next ?? "" });
      setRest((before) => [...before, page]);
    } catch (error) {
      setFault(faultText(error, session));
    }
    setBusy(false);
  }
  const { from, to } = first;
  return (
    <>
      <p>
        {from === null ? "Nothing was before" : <span className="mono">{from}</span>} →{" "}
        <span className="mono">{to}</span>
        {asked === undefined && (
          <span className="quiet">
            {" "}
            <CommitWords commit={first} />
          </span>
        )}
      </p>
      {changes.length === 0 && next === null && <p>Nothing differs.</p>}
      {changes.length > 0 && (
        <table className="listing changes">
          <thead>
            <tr>
              <th scope="col">Path</th>
              <th scope="col">Change</th>
              <th scope="col" className="size">
                Before
              </th>
              <th scope="col" className="size">
                After
              </th>
            </tr>
          </thead>
          <tbody>
            {changes.map((change) => (
              <ChangeLine key={change.path} place={place} change={change} from={from} to={to} />
            ))}
          </tbody>
        </table>
      )}
      <Fault words={fault} />
      <p className="actions">
        {next !== null && (
          <button type="button" disabled={isBusy} onClick={() => void more()}>
            {isBusy ? "Asking the gateway…" : "More"}
          </button>
        )}
        {changes.length > 0 && <span className="quiet">{counted(changes.length, "path")} shown.</span>}
      </p>
    </>
  );
}

const MARKS = { added: "+", changed: "~", deleted: "−" } as const;

interface ChangeProps {
  readonly place: Place;
  readonly change: PathChange;
  readonly from: string | null;
  readonly to: string;
}

function ChangeLine({ place, change: { path, change, before, after }, from, to }: ChangeProps) {
  // What is deleted is looked at where it was.
  const at = change === "deleted" ? (from ?? undefined) : to;
  const isFolder = path.endsWith("/");
  const words =
    change === "changed" && before?.digest === after?.digest ? "changed: attributes alone" : change;
  return (
    <tr className={change}>
      <td className="name mono">
        <span className="sign" aria-hidden="true">
          {MARKS[change]}
        </span>
        {isFolder ? path : <Link href={fileHref({ ...place, at, path })}>{path}</Link>}
      </td>
      <td>{words}</td>
      <Size state={before} />
      <Size state={after} />
    </tr>
  );
}

function Size({ state }: { readonly state: PathChange["before"] }) {
  return (
    <td className="size" title={state ? `${countText(state.size)} bytes` : ""}>
      {state ? sizeText(state.size) : "–"}
    </td>
  );
}
