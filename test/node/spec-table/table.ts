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
const BAD_DATUMS = "worker/pipeline/bad-datums.test.ts";
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

/** Every field of a specification, by its path. */
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
  ["transform.stdin", RUNNER, "its stdin is the lines with a newline after each, or nothing"],
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
  [
    "transform.container",
    SPREAD,
    "of a pipeline that demands a container go to the nodes that have them, and count those alone",
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
  ["parallelism_spec.coefficient", SPREAD, "of %j on %i nodes are %i"],
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
  [
    "description",
    "worker/pipeline/update.test.ts",
    "of the description alone is a version that makes no job and runs nothing, also once a commit comes",
  ],
  ["datumTries", SPEC, "%s of %j is refused"],
  ["onDatumFailure", SPEC, "onDatumFailure of %j is refused"],
  ["onDatumFailure", BAD_DATUMS, "succeeds without them, and a file of the errors branch tells of each"],
  ["datumTimeout", SPEC, "%s of %j is refused"],
  ["jobTimeout", SPEC, "%s of %j is refused"],
];

/** What docs/contract.md says of pipelines and buckets, each rule behind its heading there. */
export const RULES: readonly Held[] = [
  [
    "Pipeline specification: defaults are filled in",
    CHECK,
    "answers the specification with every default filled in",
  ],
  ["Pipeline specification: the smallest useful spec is accepted", CHECK, "%s is good"],
  [
    "Pipeline specification: unknown fields are refused, with the nearest known one",
    SPEC,
    "that is not known, %s, is refused with the nearest one that is",
  ],
  [
    "Pipeline specification, transform: no shell; stdin lines; env; exit codes",
    E2E,
    "the command gets its env, its stdin lines and its directories, and an accepted exit code is a success",
  ],
  [
    "Pipeline specification, transform: exit code 0 is always a success",
    RUNNER,
    "0 and the accepted codes are successes, with their code",
  ],
  [
    "Pipeline specification, parallelism_spec: CONSTANT is exact",
    "worker/pipeline/leases.test.ts",
    "go to exactly as many workers as the specification says",
  ],
  ["Pipeline specification, parallelism_spec: COEFFICIENT times nodes", SPREAD, "of %j on %i nodes are %i"],
  [
    "Pipeline specification, parallelism_spec: two per node at 2.0",
    SPREAD,
    "are two on each node with a coefficient of 2",
  ],
  [
    "Pipeline specification, parallelism_spec: one worker per node by default",
    SPREAD,
    "are one on each node by default",
  ],
  [
    "Pipeline specification, inputs: only commits on the input's branch trigger",
    INPUTS,
    "makes one job a commit where both inputs read one branch, and runs no pair in vain",
  ],
  [
    "Pipeline specification, inputs: `from`: only later commits are processed, not that commit",
    FROM,
    "is triggered by later commits alone, and holds only what they wrote",
  ],
  [
    "Pipeline specification, inputs: `from`: of a directory, only what was written after it",
    FROM,
    "holds of a directory only what was written after it",
  ],
  [
    "Pipeline specification, inputs: lazy: nothing is downloaded until a pipe is opened",
    LAZY,
    "nothing is fetched before it is opened, and what is not opened never",
  ],
  [
    "Pipeline specification, inputs: not lazy: normal files",
    "node/runner/pfs.test.ts",
    "a file lies at its full path, as a link to the cache that can't be written",
  ],
  [
    "Egress: results are pushed before the job is marked successful",
    EGRESS,
    "a job is successful once its results are in the external store, and the next one pushes what it changed",
  ],
  [
    "Egress: a failed push is a failed job",
    EGRESS,
    "where the store refuses, the job fails with its code and keeps its output, and the next one pushes the rest",
  ],
  [
    "Egress: object store, cloud storage and blob storage",
    STORES,
    "puts files of one and of several parts whole",
  ],
  [
    "Datums and globs: every match is one datum, a directory with its subtree",
    JOBS,
    "runs a directory again when something under it changes, and only then",
  ],
  ["Datums and globs: `/` is the root", JOBS, "takes the whole repo as one datum with '/'"],
  [
    "Datums and globs: the table of patterns, and the example",
    GLOBS,
    "%s matches exactly %j of a small tree",
  ],
  [
    "Datums and globs: patterns on any tree",
    "worker/core/glob-model.test.ts",
    "match what a naive model says, file or directory",
  ],
  ["Several inputs: several inputs", INPUTS, "makes the jobs of the specification's example"],
  [
    "Several inputs: the cross product, the first input varying fastest",
    INPUTS,
    "lets the first input by name vary fastest",
  ],
  [
    "Several inputs: no job before every input has data",
    INPUTS,
    "waits until the last empty input has data, also where data came and went",
  ],
  [
    "Several inputs: then one job a commit, over all datums",
    INPUTS,
    "makes the same jobs when bells ring twice, late and for nothing",
  ],
  ["Several inputs: the example, end to end", E2E, "gives its jobs and datum counts with $runner"],
  [
    "/pfs: /pfs/<input>",
    "node/runner/pfs.test.ts",
    "a file lies at its full path, as a link to the cache that can't be written",
  ],
  [
    "/pfs: /pfs/out",
    "node/runner/pfs.test.ts",
    "files come with their paths, digests and, when small, their bytes; empty directories end in a slash",
  ],
  ["/pfs: data delimited by line", SPLIT, "line puts each line into a file of its own, in one commit"],
  ["/pfs: data delimited by JSON", SPLIT, "json with --per-file puts so many values into each"],
  [
    "/pfs: binary blobs",
    "node/clients/one-etag.test.ts",
    "100 MiB have one ETag by PUT, by parts of 5 MiB, 8 MiB and an odd size, and by copies",
  ],
  [
    "Buckets and objects: a bucket is a branch of a repo",
    "worker/s3/ops/buckets.test.ts",
    "makes the branch, which is then there and listed",
  ],
  [
    "Buckets and objects: an object is a file",
    "worker/s3/ops/list-objects.test.ts",
    "has every key in byte order, with ETag, size and time",
  ],
  [
    "Buckets and objects: directories are CommonPrefixes",
    "worker/s3/ops/list-objects.test.ts",
    "folds at the delimiter, empty directories, too",
  ],
  [
    "Jobs: success only after egress",
    EGRESS,
    "a job is successful once its results are in the external store, and the next one pushes what it changed",
  ],
  [
    "Jobs: success after an exit code of 0 or an accepted one",
    RUNNER,
    "0 and the accepted codes are successes, with their code",
  ],
  [
    "Pipeline specification: the command starts in workingDir",
    "node/runner/runner.test.ts",
    "starts a command in the folder that the spec names",
  ],
  [
    "Pipeline specification: a datum is tried datumTries times",
    LIMITS,
    "%i is how often a datum is tried before it fails",
  ],
  [
    "Jobs: with onDatumFailure skip, one that tried datums and failed all of them fails",
    BAD_DATUMS,
    "fails if every datum that ran failed, and changes no branch",
  ],
  [
    "Jobs: a retry makes one job that tries what failed",
    "worker/pipeline/retry.test.ts",
    "makes one new job that runs what failed, and nothing else",
  ],
  [
    "Pipeline specification: a try that takes longer than datumTimeout ends",
    "node/runner/runner.test.ts",
    "kills a command that runs longer than it may, with all that it started, and says so",
  ],
  [
    "Pipeline specification: a job that takes longer than jobTimeout ends",
    LIMITS,
    "fails a job with nobody at work, takes its leases away and lets the next one try",
  ],
  ["Jobs: any other exit code fails", RUNNER, "any other code is a failure that tells it"],
  [
    "Jobs: a failed datum fails its job",
    FAILURES,
    "fail their job by name after three tries, and the next job repeats only them",
  ],
];
