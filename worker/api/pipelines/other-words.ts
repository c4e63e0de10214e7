import { inputsOf, linesOf, workersOf, writtenFields, writtenList } from "./other-shapes.ts";

/**
 * Fields that other systems have, or that people expect, and what to write in their place. A field that means something is
 * not to be left out: its writer would wonder later why it did nothing.
 */

const LIST_OF_INPUTS = `write "inputs": [{ "repo": { "name": "images" }, "glob": "/*" }], an entry for each input`;
const COMMAND = `write "cmd": ["python3", "/run.py"] in transform: a list, the command first`;
const WORKERS = `write "parallelism_spec": { "strategy": "CONSTANT", "constant": 4 } for so many workers, or COEFFICIENT with a "coefficient" for so many on each node`;
const LIMITS =
  "it is for the node to say: 'sluice runner' has --memory, --cpus, --pids and --disk for each worker";
const SCHEDULE = "there are no schedules: a commit to an input makes a job, so have cron make a commit";
const TIMEOUT = "write datumTimeout for one try of a datum, or jobTimeout for a whole job";
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

/** By the object that they stand in, then by their name in small letters without '_' and '-'. */
const REMEDIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "": {
    ...alike(["command", "cmd", "entrypoint", "args", "script", "run"], COMMAND),
    ...alike(
      ["image", "stdin", "env", "secrets", "workingdir", "imagepullsecrets"],
      "it belongs into transform",
    ),
    ...alike(["parallelism", "workers", "replicas", "concurrency"], WORKERS),
    ...alike(["input", "pfs", "source", "sources"], LIST_OF_INPUTS),
    cross: CROSS,
    ...alike(["join", "group"], JOIN),
    ...alike(
      [
        ...["resourcerequests", "resourcelimits", "sidecarresourcerequests", "sidecarresourcelimits"],
        ...["resources", "memory", "cpu", "cpus", "gpu", "disk"],
      ],
      LIMITS,
    ),
    ...alike(
      ["schedulingspec", "podspec", "podpatch", "tolerations", "nodeselector", "priorityclassname"],
      PLACES,
    ),
    ...alike(["service", "spout"], SERVICES),
    ...alike(["s3out", "s3"], BUCKETS),
    ...alike(["datumsetspec", "chunkspec", "cachesize", "enablestats", "maxqueuesize"], NOTHING_TO_SET),
    ...alike(
      ["metadata", "labels", "annotations"],
      "leave it out: description says what the pipeline is for",
    ),
    project: PROJECTS,
    ...alike(["cron", "schedule"], SCHEDULE),
    ...alike(["retries", "tries", "maxretries"], "write datumTries, with the first try counted"),
    ...alike(["update", "reprocess", "reprocessspec", "salt"], OF_UPDATE),
    ...alike(["autoscaling", "standby"], IDLE),
    name: `write "pipeline": { "name": "edges" }`,
    union: UNION,
    glob: "it belongs into an entry of inputs",
    output: "write outputBranch: the repo of the output is named like the pipeline",
    timeout: TIMEOUT,
  },
  transform: {
    ...alike(["command", "entrypoint", "args", "run"], COMMAND),
    ...alike(["script", "shell"], `write "cmd": ["sh"] and the lines of the script in stdin, a list`),
    ...alike(["environment", "variables"], "write env, an object of names and values"),
    ...alike(["memory", "cpu", "cpus", "resources"], LIMITS),
    ...alike(["errcmd", "errstdin", "erracceptreturncode"], BAD_DATUMS),
    ...alike(["dockerfile", "build"], "build the image first, and write its name in image"),
    user: "there is none: the command runs as the user of its image",
    datumbatching:
      "there is none: the command runs once for each datum, and a glob of directories gives it many files",
    timeout: "write datumTimeout, beside transform",
  },
  "transform.secrets[]": alike(["envvar", "key"], SECRET_VARIABLE),
  pipeline: { project: PROJECTS },
  "inputs[]": {
    pfs: `write its fields here: "repo": { "name": "images" }, "branch", "glob", "name"`,
    cross: CROSS,
    ...alike(["join", "group", "joinon", "groupby", "outerjoin"], JOIN),
    ...alike(["cron", "schedule"], SCHEDULE),
    union: UNION,
    s3: BUCKETS,
    trigger:
      "there is none: every commit on the branch makes a job, so write to another branch, and copy to this one when it is time",
    emptyfiles: `write "lazy": true: nothing is fetched before the command opens a file`,
    project: PROJECTS,
    ...alike(["pattern", "path", "files"], "write glob, a pattern of paths from the root, such as /*"),
    commit: `write "from": { "repo": { "name": "images" }, "ID": "01K…" } to start after a commit`,
    bucket: `write "repo": { "name": "images" }, and "branch" if it is not master`,
  },
  "inputs[].repo": {
    project: PROJECTS,
    branch: `write "branch" beside repo, not in it`,
    type: "leave it out: there is one kind of repo",
  },
  parallelism_spec: {
    ...alike(["workers", "replicas", "count", "number"], `write "strategy": "CONSTANT" and "constant"`),
  },
  egress: {
    ...alike(["bucket", "path", "destination", "objectstorage"], `write "URL": "s3://bucket/folder"`),
    sqldatabase: "there is none: results go to an object store as files",
  },
};

function alike(names: readonly string[], remedy: string): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, remedy]));
}

/** What is told with the writer's own values, by place and name as above; undefined: the words above are for them, too. */
const IN_THEIR_WORDS: Readonly<Record<string, (held: unknown) => string | undefined>> = {
  input: (held) => otherInput(held) ?? listed(held),
  pfs: (held) => listed({ pfs: held }),
  ...Object.fromEntries(
    ["parallelismspec", "parallelism", "workers", "replicas", "concurrency"].map((name) => [name, workers]),
  ),
  "inputs[].pfs": (held) => {
    const [input] = inputsOf({ pfs: held }) ?? [];
    return input && `write its fields here: ${writtenFields(input)}`;
  },
  "transform.script": (held) =>
    typeof held === "string" && held !== ""
      ? `write "cmd": ["sh"], and "stdin": ${writtenList(linesOf(held))}`
      : undefined,
};

function listed(held: unknown): string | undefined {
  const inputs = inputsOf(held);
  return inputs && `write "inputs": ${writtenList(inputs)}, an entry for each input`;
}

function workers(held: unknown): string | undefined {
  const spec = workersOf(held);
  return spec && `write "parallelism_spec": { ${writtenFields(spec)} }`;
}

/** An input of Pachyderm's that is none here. */
function otherInput(held: unknown): string | undefined {
  if (typeof held !== "object" || held === null) return undefined;
  const [kind] = ["union", "join", "group", "cron"].filter((name) => Object.hasOwn(held, name));
  return kind && REMEDIES["inputs[]"]?.[kind];
}

/**
 * What to write in place of a field of a specification that there is not, which holds this; undefined if it means nothing that
 * is known.
 */
export function otherWord(path: readonly PropertyKey[], held: unknown): string | undefined {
  const place = path.slice(0, -1).reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[]`;
    return text === "" ? String(step) : `${text}.${String(step)}`;
  }, "");
  const name = String(path.at(-1)).toLowerCase().replace(/[_-]/g, "");
  const known = place === "" ? name : `${place}.${name}`;
  const own = Object.hasOwn(IN_THEIR_WORDS, known) ? IN_THEIR_WORDS[known]?.(held) : undefined;
  if (own !== undefined) return own;
  const remedies = Object.hasOwn(REMEDIES, place) ? REMEDIES[place] : undefined;
  return remedies && Object.hasOwn(remedies, name) ? remedies[name] : undefined;
}
