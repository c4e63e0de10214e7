import { DEFAULT_BRANCH, NAME_PATTERN } from "../../../protocol/names.ts";
import { MAX_INPUTS } from "../../../protocol/spec.ts";

/** A text of the writer's is repeated up to so many characters, and a list up to so many entries. */
const MAX_SHOWN_CHARACTERS = 80;
const MAX_SHOWN_ENTRIES = 4;

const LIST_OF_INPUTS = `write "inputs": [{ "repo": { "name": "images" }, "glob": "/*" }], an entry for each input`;
const NAMED_REPO = `write "repo": { "name": "images" }`;
const WORKERS = `write "parallelism_spec": { "strategy": "CONSTANT", "constant": 4 } for so many workers, or COEFFICIENT with a "coefficient" for so many on each node`;
const LIMITS =
  "it is for the node to say: 'sluice runner' has --memory, --cpus, --pids and --disk for each worker";
const SCHEDULE = "there are no schedules: a commit to an input makes a job, so have cron make a commit";
const CROSS = "list each input by itself: a job processes every combination of one datum from each";
const JOIN =
  "there is none: a pipeline before this one lays out what belongs together in one directory, which the glob /* makes a datum";
const UNION =
  "there is none: put what is to be one input into one repo, or make a pipeline of each that writes its part";
const OF_UPDATE = "it belongs to the command: 'sluice pipeline update --reprocess'";
const IDLE = "leave it out: workers that have nothing to do are taken back by themselves";
const PROJECTS = "leave it out: there are no projects, and a key may be limited to repos instead";
const PLACES =
  "leave it out: every runner takes the work of every pipeline, so start runners on the nodes that are to do it";
const SERVICES =
  "there is none: a pipeline runs its command to the end, once for each datum. What serves or listens runs beside Sluice and reads buckets by S3";
const BUCKETS = "there is none: a command reads its datum in /pfs/<input> and writes to /pfs/out, as files";
const NOTHING_TO_SET = "leave it out: there is nothing to set";
const BAD_DATUMS = `write "onDatumFailure": "skip" beside transform: the job succeeds without the datum, and the branch 'errors' tells of it`;
const SECRET_VARIABLE = "there is none: write mountPath, and read the file <mountPath>/<key> in the command";

/** What to write: always the same, or in the words of what stands there. Undefined: it does not know better. */
type Advice = string | ((held: unknown, spec: unknown) => string | undefined);

/**
 * What a specification of Pachyderm's has otherwise, by its path, with `[]` for every entry of a list, and what to write. A
 * field that is not here is in small letters without '_', since Pachyderm takes both `parallelismSpec` and
 * `parallelism_spec`. It is not just to be left out: its writer would wonder later why it did nothing. A field that is here,
 * and held something else there, has a '=' behind its name.
 */
const ADVICE: Readonly<Record<string, Advice>> = {
  metadata: "leave it out: description says what the pipeline is for",
  "pipeline.project": PROJECTS,

  ...alike("transform.", ["errcmd", "errstdin", "erracceptreturncode"], BAD_DATUMS),
  "transform.dockerfile": "build the image first, and write its name in image",
  "transform.user": "there is none: the command runs as the user of its image",
  "transform.datumbatching":
    "there is none: the command runs once for each datum, and a glob of directories gives it many files",
  "transform.acceptReturnCode[]=": unquoted,
  ...alike("transform.secrets[].", ["envvar", "key"], SECRET_VARIABLE),

  input: (held) => ofOtherKind(held) ?? listed(held) ?? LIST_OF_INPUTS,
  "inputs[].pfs": (held) => {
    const [input] = inputsOf({ pfs: held }) ?? [];
    return `write its fields here: ${input ? writtenFields(input) : `"repo": { "name": "images" }, "branch", "glob", "name"`}`;
  },
  "inputs[].cross": CROSS,
  ...alike("inputs[].", ["join", "group", "joinon", "groupby", "outerjoin"], JOIN),
  "inputs[].cron": SCHEDULE,
  "inputs[].union": UNION,
  "inputs[].s3": BUCKETS,
  "inputs[].trigger":
    "there is none: every commit on the branch makes a job, so write to another branch, and copy to this one when it is time",
  "inputs[].emptyfiles": `write "lazy": true: nothing is fetched before the command opens a file`,
  "inputs[].commit": `write "from": { "repo": { "name": "images" }, "ID": "01K…" } to start after a commit`,
  "inputs[].project": PROJECTS,
  "inputs[].repo=": (held) => (held === undefined ? NAMED_REPO : named(held)),
  "inputs[].repo.project": PROJECTS,
  "inputs[].repo.type": "leave it out: there is one kind of repo",

  parallelismspec: (held) => counted(held) ?? WORKERS,
  // There was one in early versions.
  "parallelism_spec.strategy=": (held, spec) =>
    held === undefined ? counted(fieldsOf(spec).parallelism_spec) : undefined,
  "parallelism_spec.constant=": unquoted,
  "parallelism_spec.coefficient=": unquoted,
  "datumTries=": unquoted,
  ...alike("", ["update", "reprocess", "reprocessspec", "salt"], OF_UPDATE),
  ...alike("", ["autoscaling", "standby"], IDLE),
  ...alike(
    "",
    ["resourcerequests", "resourcelimits", "sidecarresourcerequests", "sidecarresourcelimits"],
    LIMITS,
  ),
  ...alike("", ["schedulingspec", "podspec", "podpatch", "tolerations"], PLACES),
  ...alike("", ["datumsetspec", "chunkspec", "cachesize", "enablestats", "maxqueuesize"], NOTHING_TO_SET),

  ...alike("", ["service", "spout"], SERVICES),
  s3out: BUCKETS,
  "egress.objectstorage": `write "URL": "s3://bucket/folder"`,
  "egress.sqldatabase": "there is none: results go to an object store as files",
};

function alike(place: string, names: readonly string[], advice: Advice): Record<string, Advice> {
  return Object.fromEntries(names.map((name) => [place + name, advice]));
}

/** What to write in place of a field that there is not; undefined if Pachyderm has no such field either. */
export function otherField(path: readonly PropertyKey[], held: unknown): string | undefined {
  const name = String(path.at(-1)).toLowerCase().replace(/[_-]/g, "");
  return adviceAt([...path.slice(0, -1), name], held);
}

/** What to write in place of a value that a field can't hold; undefined if it could not in Pachyderm either. */
export function otherValue(
  path: readonly PropertyKey[],
  { held, spec }: { held: unknown; spec: unknown },
): string | undefined {
  return adviceAt([...path, "="], held, spec);
}

function adviceAt(path: readonly PropertyKey[], held: unknown, spec?: unknown): string | undefined {
  const steps = path.map((step) => (typeof step === "number" ? "[]" : `.${String(step)}`));
  const place = steps.join("").replace(/^\./, "").replace(/\.=$/, "=");
  const advice = Object.hasOwn(ADVICE, place) ? ADVICE[place] : undefined;
  return typeof advice === "function" ? advice(held, spec) : advice;
}

/** An input of a kind that is none here. */
function ofOtherKind(held: unknown): string | undefined {
  const kind = ["union", "join", "group", "cron"].find((name) => Object.hasOwn(fieldsOf(held), name));
  return kind && adviceAt(["inputs", 0, kind], held);
}

function listed(held: unknown): string | undefined {
  const inputs = inputsOf(held);
  return inputs && `write "inputs": ${written(inputs)}, an entry for each input`;
}

/** The inputs that `{ "pfs": … }` or a `cross` of several stands for; undefined if it is none of these. */
function inputsOf(value: unknown): object[] | undefined {
  const { pfs, cross } = fieldsOf(value);
  if (!Array.isArray(cross)) {
    const { name, repo, branch, glob, lazy } = fieldsOf(pfs);
    if (typeof repo !== "string" || !NAME_PATTERN.test(repo)) return undefined;
    return [
      {
        ...(typeof name === "string" && { name }),
        repo: { name: repo },
        ...(typeof branch === "string" && branch !== DEFAULT_BRANCH && { branch }),
        glob: typeof glob === "string" ? glob : "/*",
        ...(lazy === true && { lazy }),
      },
    ];
  }
  const parts = cross.slice(0, MAX_INPUTS).map(inputsOf);
  return parts.length > 0 && parts.every((part) => part !== undefined) ? parts.flat() : undefined;
}

function named(held: unknown): string | undefined {
  return typeof held === "string" && NAME_PATTERN.test(held) ? `write ${written({ name: held })}` : undefined;
}

/** The number of workers. */
function counted(held: unknown): string | undefined {
  const { constant, coefficient } = fieldsOf(held);
  const [count, each] = [numberOf(constant), numberOf(coefficient)];
  const workers =
    count !== undefined && count >= 1 && Number.isInteger(count)
      ? { strategy: "CONSTANT", constant: count }
      : each !== undefined && each > 0 && { strategy: "COEFFICIENT", coefficient: each };
  return workers ? `write "parallelism_spec": ${written(workers)}` : undefined;
}

/** A number in quotes, as JSON made of Protocol Buffers may have it. */
function unquoted(held: unknown): string | undefined {
  const value = typeof held === "string" ? numberOf(held) : undefined;
  return value === undefined ? undefined : `write ${value}`;
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^\d{1,9}(\.\d{1,9})?$/.test(value) ? Number(value) : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** In JSON, with spaces as people write it; long texts and lists end in `…`. */
function written(value: unknown): string {
  if (typeof value === "string" && value.length > MAX_SHOWN_CHARACTERS) {
    return JSON.stringify(`${value.slice(0, MAX_SHOWN_CHARACTERS)}…`);
  }
  if (Array.isArray(value)) {
    const more = value.length > MAX_SHOWN_ENTRIES ? ", …" : "";
    return `[${value.slice(0, MAX_SHOWN_ENTRIES).map(written).join(", ")}${more}]`;
  }
  return typeof value === "object" && value !== null ? `{ ${writtenFields(value)} }` : JSON.stringify(value);
}

/** The fields of an object in JSON, without its braces. */
function writtenFields(value: object): string {
  return Object.entries(value)
    .map(([name, held]) => `"${name}": ${written(held)}`)
    .join(", ");
}
