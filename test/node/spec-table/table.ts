/** A rule of the specification, and the test that holds it: a file under `test/`, and the test's name as it is written there. */
export type Held = readonly [rule: string, file: string, name: string];

const SPEC = "worker/api/pipelines-spec.test.ts";
const CHECK = "worker/api/pipelines-check.test.ts";
const PIPELINES = "worker/api/pipelines.test.ts";
const GLOBS = "worker/core/glob.test.ts";
const SPREAD = "worker/core/parallelism.test.ts";
const SCHEMA = "worker/core/spec-schema.test.ts";
const INPUTS = "worker/pipeline/inputs.test.ts";
const JOBS = "worker/pipeline/jobs.test.ts";
const FAILURES = "worker/pipeline/failures.test.ts";
const LIMITS = "worker/pipeline/limits.test.ts";
const E2E = "node/e2e/pipeline.test.ts";
const FROM = "worker/pipeline/from.test.ts";
const EGRESS = "node/e2e/egress.test.ts";
const STORES = "node/runner/tasks/egress-stores.test.ts";
const EGRESS_RULES = "node/runner/tasks/egress-rules.test.ts";
const LAZY = "node/runner/lazy.test.ts";
const SECRETS = "node/runner/secrets.test.ts";
const CONTAINERS = "node/e2e/containers.test.ts";
const SPLIT = "node/cli/split.test.ts";
const RUNNER = "node/runner/rules.test.ts";

/** What every field is held by, beside its own rules: its example in docs/pipeline-spec.md is submitted. */
export const EVERY_FIELD: Held = ["every field has an example that is accepted", CHECK, "%s is good"];

/** Fields of spec §2.1 to §2.5, and those that we add, by their path. */
export const FIELDS: readonly Held[] = [
  ["$schema", SCHEMA, "says of %s what the schema says, its default, and shows it"],
  ["pipeline", SPEC, "that is required is asked for"],
  ["pipeline.name", SPEC, "under a name that is taken is a conflict, tried or made"],
  ["pipeline.name", SPEC, "with the name '%s' is refused"],
  ["transform", SPEC, "that is required is asked for"],
  ["transform.image", SPEC, "of the transform that is %s is refused in words"],
  [
    "transform.image",
    CONTAINERS,
    "the command runs in its image, reads its datum, writes its output, and is heard",
  ],
  [
    "transform.cmd",
    E2E,
    "the command gets its env, its stdin lines and its directories, and an accepted exit code is a success",
  ],
  ["transform.stdin", RUNNER, "stdin is the lines with a newline after each, or nothing"],
  [
    "transform.env",
    RUNNER,
    "lets what the datum is win over the spec's variables, and those over the machine's",
  ],
  [
    "transform.secrets",
    SECRETS,
    "gives them to its commands, and keeps them off the disk and out of its log",
  ],
  [
    "transform.secrets[].name",
    SECRETS,
    "ends the job where a secret is missing, naming it and where it was looked for",
  ],
  ["transform.secrets[].mountPath", SECRETS, "each key is a file, whatever its bytes are"],
  ["transform.secrets[].mountPath", SECRETS, "a path that can't be mounted is refused, saying why"],
  [
    "transform.imagePullSecrets",
    CONTAINERS,
    "a private image is pulled with its pull secret; until then the job says why it waits",
  ],
  ["transform.acceptReturnCode", RUNNER, "0 and the accepted codes are successes, with their code"],
  ["transform.workingDir", SPEC, "of the transform that is %s is refused in words"],
  ["parallelism_spec", SPREAD, "are one on each node by default"],
  ["parallelism_spec.strategy", SPEC, "%j is refused"],
  ["parallelism_spec.strategy", SPEC, "%j ignores the number that its strategy does not name"],
  [
    "parallelism_spec.constant",
    "worker/pipeline/leases.test.ts",
    "go to exactly as many workers as the specification says",
  ],
  ["parallelism_spec.coefficient", SPREAD, "%j on %i nodes: %i"],
  ["inputs", PIPELINES, "must agree with itself and with the repos there are, all of it said at once"],
  [
    "inputs",
    "worker/pipeline/lifecycle.test.ts",
    "accepts a specification without inputs, which makes no jobs",
  ],
  ["inputs[].name", SPEC, "have names of their own, none of them 'out'"],
  [
    "inputs[].name",
    "worker/core/pipeline-rules.test.ts",
    "names an input like its repo and puts inputs in order of their names",
  ],
  ["inputs[].repo", SPEC, "is told what is wrong with its form, its rules and its surroundings at once"],
  ["inputs[].repo.name", SPEC, "whose repo is not there are told of one with a name that is near"],
  ["inputs[].repo.name", SPEC, "that lead back to the pipeline are refused with the way"],
  ["inputs[].branch", INPUTS, "comes with an input branch that is made only after the pipeline"],
  ["inputs[].glob", SPEC, "with the glob %s are told what is wrong and where"],
  ["inputs[].lazy", LAZY, "a file is a named pipe at its path, and reading it gives its content"],
  ["inputs[].lazy", LAZY, "nothing is fetched before it is opened, and what is not opened never"],
  ["inputs[].from", FROM, "is triggered by later commits alone, and holds only what they wrote"],
  ["inputs[].from.repo", SPEC, "start after a commit of their own branch, and no other"],
  ["inputs[].from.repo.name", SPEC, "start after a commit of their own branch, and no other"],
  ["inputs[].from.ID", FROM, "is refused where its branch has no such commit, and leaves nothing behind"],
  [
    "egress",
    EGRESS,
    "a job is successful once its results are in the external store, and the next one pushes what it changed",
  ],
  ["egress.URL", EGRESS_RULES, "%s names its bucket and its folder"],
  ["egress.endpoint", STORES, "puts small and empty files into a nested folder and into the root"],
  [
    "egress.secret",
    EGRESS,
    "the credentials come from the secret that the spec names; one that is not there fails the job by name",
  ],
  ["egress.secret", STORES, "takes the credentials of the environment where the egress names no secret"],
  ["outputBranch", PIPELINES, "leaves its output where that is to be kept"],
  ["outputBranch", PIPELINES, "does not take over a branch that is there"],
  ["datumTries", SPEC, "%s of %j is refused"],
  ["datumTimeout", SPEC, "%s of %j is refused"],
  ["jobTimeout", SPEC, "%s of %j is refused"],
];

/** The numbered rules, tables and sentences of spec §2 and §3, each under its section. */
export const RULES: readonly Held[] = [
  ["2.1 defaults are filled in", CHECK, "answers the specification with every default filled in"],
  ["2.1 the smallest useful spec is accepted", CHECK, "%s is good"],
  [
    "2.1 unknown fields are refused, with the nearest known one",
    SPEC,
    "that is not known, %s, is refused with the nearest one that is",
  ],
  [
    "2.2 no shell; stdin lines; env; exit codes",
    E2E,
    "the command gets its env, its stdin lines and its directories, and an accepted exit code is a success",
  ],
  ["2.2 exit code 0 is always a success", RUNNER, "0 and the accepted codes are successes, with their code"],
  [
    "2.3.1 CONSTANT is exact",
    "worker/pipeline/leases.test.ts",
    "go to exactly as many workers as the specification says",
  ],
  ["2.3.2 COEFFICIENT times nodes", SPREAD, "%j on %i nodes: %i"],
  ["2.3.2 two per node at 2.0", SPREAD, "are two on each node with a coefficient of 2"],
  ["2.3.3 one worker per node by default", SPREAD, "are one on each node by default"],
  [
    "2.4 only commits on the input's branch trigger",
    INPUTS,
    "makes one job a commit where both inputs read one branch, and runs no pair in vain",
  ],
  [
    "2.4 `from`: only later commits are processed, not that commit",
    FROM,
    "is triggered by later commits alone, and holds only what they wrote",
  ],
  [
    "2.4 `from`: of a directory, only what was written after it",
    FROM,
    "holds of a directory only what was written after it",
  ],
  [
    "2.4 lazy: nothing is downloaded until a pipe is opened",
    LAZY,
    "nothing is fetched before it is opened, and what is not opened never",
  ],
  [
    "2.4 not lazy: normal files",
    "node/runner/pfs.test.ts",
    "a file lies at its full path, as a link to the cache that can't be written",
  ],
  [
    "2.5.1 results are pushed before the job is marked successful",
    EGRESS,
    "a job is successful once its results are in the external store, and the next one pushes what it changed",
  ],
  [
    "2.5.1 a failed push is a failed job",
    EGRESS,
    "where the store refuses, the job fails with its words and keeps its output, and the next one pushes the rest",
  ],
  [
    "2.5.2 object store, cloud storage and blob storage",
    STORES,
    "puts files of one and of several parts whole",
  ],
  [
    "2.6 every match is one datum, a directory with its subtree",
    JOBS,
    "runs a directory again when something under it changes, and only then",
  ],
  ["2.6 `/` is the root", JOBS, "takes the whole repo as one datum with '/'"],
  ["2.6 the table of patterns, and the example", GLOBS, "%s matches exactly %j of a small tree"],
  [
    "2.6 patterns on any tree",
    "worker/core/glob-model.test.ts",
    "match what a naive model says, file or directory",
  ],
  ["2.7.1 several inputs", INPUTS, "makes the jobs of the specification's example"],
  [
    "2.7.2 the cross product, the first input varying fastest",
    INPUTS,
    "lets the first input by name vary fastest",
  ],
  [
    "2.7.3 no job before every input has data",
    INPUTS,
    "waits until the last empty input has data, also where data came and went",
  ],
  [
    "2.7.4 then one job a commit, over all datums",
    INPUTS,
    "makes the same jobs when bells ring twice, late and for nothing",
  ],
  ["2.7.5 the example, end to end", E2E, "gives its jobs and datum counts with $runner"],
  [
    "2.8 /pfs/<input>",
    "node/runner/pfs.test.ts",
    "a file lies at its full path, as a link to the cache that can't be written",
  ],
  [
    "2.8 /pfs/out",
    "node/runner/pfs.test.ts",
    "files come with their paths, digests and, when small, their bytes; empty directories end in a slash",
  ],
  ["2.8 data delimited by line", SPLIT, "line puts each line into a file of its own, in one commit"],
  ["2.8 data delimited by JSON", SPLIT, "json with --per-file puts so many values into each"],
  [
    "2.8 binary blobs",
    "node/clients/one-etag.test.ts",
    "100 MiB have one ETag by PUT, by parts of 5 MiB, 8 MiB and an odd size, and by copies",
  ],
  [
    "2.9 a bucket is a branch of a repo",
    "worker/s3/ops/buckets.test.ts",
    "makes the branch, which is then there and listed",
  ],
  [
    "2.9 an object is a file",
    "worker/s3/ops/list-objects.test.ts",
    "has every key in byte order, with ETag, size and time",
  ],
  [
    "2.9 directories are CommonPrefixes",
    "worker/s3/ops/list-objects.test.ts",
    "folds at the delimiter, empty directories, too",
  ],
  [
    "3 success only after egress",
    EGRESS,
    "a job is successful once its results are in the external store, and the next one pushes what it changed",
  ],
  [
    "3 success after an exit code of 0 or an accepted one",
    RUNNER,
    "0 and the accepted codes are successes, with their code",
  ],
  [
    "added: the command starts in workingDir",
    "node/runner/runner.test.ts",
    "starts a command in the folder that the spec names",
  ],
  ["added: a datum is tried datumTries times", LIMITS, "%i is how often a datum is tried before it fails"],
  [
    "added: a try that takes longer than datumTimeout ends",
    "node/runner/runner.test.ts",
    "kills a command that runs longer than it may, with all that it started, and says so",
  ],
  [
    "added: a job that takes longer than jobTimeout ends",
    LIMITS,
    "fails a job with nobody at work, takes its leases away and lets the next one try",
  ],
  ["3 any other exit code fails", RUNNER, "any other code is a failure that tells it"],
  [
    "3 a failed datum fails its job",
    FAILURES,
    "fail their job by name after three tries, and the next job repeats only them",
  ],
];
