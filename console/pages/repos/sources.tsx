import { Link } from "wouter";
import type { CommitDetail, Provenance } from "../../../protocol/commits.ts";
import { GatewayError } from "../../../protocol/requests.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { Place } from "../../gateway/s3.ts";
import { useRead } from "../../gateway/session.ts";
import { Fault } from "../../parts/form.tsx";
import { JobLink } from "../../parts/jobs.tsx";
import { Asked } from "../../parts/page.tsx";
import { countText, Mono, shortId } from "../../parts/words.tsx";
import { commitPath, fileHref, folderHref } from "../addresses.ts";

/** Files and folders that are asked what made them: each is a call. */
const MOST_STEPS = 50;
/** Calls that are under way at once. */
const AT_ONCE = 5;
/** What is shown of the inputs of one of them. */
const MOST_INPUTS = 20;

/** A file, or a folder with all that is in it, as a commit has it. */
interface Version {
  readonly repo: string;
  readonly branch: string;
  /** Null: there was none, or it is kept no more. */
  readonly commit: string | null;
  readonly path: string;
  readonly kind: "file" | "dir";
}

/** What is known of where a version comes from. */
type Origin =
  | { readonly is: "put" | "gone" | "hidden" | "further" }
  | { readonly is: "made"; readonly job: string; readonly inputs: readonly Version[]; readonly left: number };

/** What was found, by the names of versions. */
type Origins = ReadonlyMap<string, Origin>;

interface SourcesProps {
  readonly place: Place;
  readonly path: string;
  /** The id of the commit that is looked at. */
  readonly commit: string;
}

/** Where a file comes from, step by step, back to what nobody computed. */
export function Sources({ place: { repo, branch }, path, commit }: SourcesProps) {
  const file: Version = { repo, branch, commit, path, kind: "file" };
  const found = useRead(["sources", nameOf(file)], (gateway, signal) => originsOf(gateway, { file, signal }));
  if (found.fault) return <Fault words={found.fault.message} />;
  if (!found.data) return <Asked live={found} />;
  return (
    <div className="lineage">
      <ul className="sources">
        <Step {...nodeOf(file, found.data, new Set())} />
      </ul>
    </div>
  );
}

/** A version in the drawing. */
interface StepNode {
  readonly version: Version;
  readonly origin: Origin;
  /** It is above, with what lies behind it. */
  readonly isAgain: boolean;
  readonly inputs: readonly StepNode[];
}

/** What is drawn of a version. `shown`: what is in the drawing already. */
function nodeOf(version: Version, origins: Origins, shown: Set<string>): StepNode {
  const name = nameOf(version);
  const origin = origins.get(name) ?? { is: "further" };
  const isAgain = shown.has(name);
  shown.add(name);
  const inputs = origin.is === "made" && !isAgain ? origin.inputs : [];
  return { version, origin, isAgain, inputs: inputs.map((input) => nodeOf(input, origins, shown)) };
}

const WORDS = {
  put: "put there by hand",
  gone: "kept no more",
  hidden: "not for this key to see",
  further: "not looked at any further",
} as const;

function Step({ version, origin, isAgain, inputs }: StepNode) {
  const { repo, branch, commit, path, kind } = version;
  const address = { repo, branch, at: commit ?? undefined, path };
  const words = `${branch}.${repo}/${path}`;
  const href = kind === "file" ? fileHref(address) : folderHref({ ...address, path: path && `${path}/` });
  return (
    <li>
      {origin.is === "gone" || origin.is === "hidden" ? (
        <Mono>{words}</Mono>
      ) : (
        <Link href={href} className="mono">
          {words}
        </Link>
      )}{" "}
      <span className="quiet">
        {commit !== null && <Mono before="at ">{shortId(commit)}</Mono>}
        {", "}
        {origin.is === "made" ? (
          <>
            made by <JobLink id={origin.job} />
            {isAgain ? ", as above" : ", from"}
          </>
        ) : (
          WORDS[origin.is]
        )}
      </span>
      {origin.is === "made" && !isAgain && (
        <ul>
          {inputs.map((input) => (
            <Step key={nameOf(input.version)} {...input} />
          ))}
          {origin.left > 0 && <li className="quiet">and {countText(origin.left)} more</li>}
        </ul>
      )}
    </li>
  );
}

function nameOf({ repo, branch, commit, path, kind }: Version): string {
  return JSON.stringify([repo, branch, commit, path, kind]);
}

/** Asks for one after the other what made it, the nearest first. */
async function originsOf(
  gateway: Gateway,
  { file, signal }: { file: Version; signal: AbortSignal },
): Promise<Origins> {
  const origins = new Map<string, Origin>();
  let due: readonly Version[] = [file];
  while (due.length > 0 && origins.size < MOST_STEPS) {
    const some = due.slice(0, Math.min(AT_ONCE, MOST_STEPS - origins.size));
    const found = await Promise.all(some.map((version) => originOf(gateway, { version, signal })));
    const next: Version[] = [];
    for (const [index, version] of some.entries()) {
      const origin = found[index] ?? { is: "further" };
      origins.set(nameOf(version), origin);
      if (origin.is === "made") next.push(...origin.inputs);
    }
    const all = new Map([...due.slice(some.length), ...next].map((version) => [nameOf(version), version]));
    due = [...all].flatMap(([name, version]) => (origins.has(name) ? [] : [version]));
  }
  return origins;
}

async function originOf(
  gateway: Gateway,
  { version, signal }: { version: Version; signal: AbortSignal },
): Promise<Origin> {
  const { commit, path, kind } = version;
  if (commit === null) return { is: "gone" };
  const at = commitPath(version, commit);
  try {
    if (kind === "dir") {
      const { job, inputs } = await gateway.call<CommitDetail>(at, { signal });
      return job === null
        ? { is: "put" }
        : madeOf(
            job,
            inputs.map((input) => ({ ...input, path: "", kind })),
          );
    }
    const { job, datums } = await gateway.call<Provenance>(`${at}/provenance`, { query: { path }, signal });
    return job === null
      ? { is: "put" }
      : madeOf(
          job,
          datums.flatMap(({ inputs }) => inputs),
        );
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (error.status === 403) return { is: "hidden" };
    if (error.status === 404) return { is: "gone" };
    throw error;
  }
}

function madeOf(job: string, inputs: readonly (Version & { readonly kept?: boolean | undefined })[]): Origin {
  const versions = inputs.map(({ repo, branch, commit, path, kind, kept }) => {
    return { repo, branch, commit: kept === false ? null : commit, path, kind };
  });
  const each = [...new Map(versions.map((version) => [nameOf(version), version])).values()];
  const left = Math.max(0, each.length - MOST_INPUTS);
  return { is: "made", job, inputs: each.slice(0, MOST_INPUTS), left };
}
