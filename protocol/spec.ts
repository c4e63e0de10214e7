import { z } from "zod";
import { Duration } from "./duration.ts";
import { list } from "./errors.ts";
import { Name } from "./names.ts";

/** Most inputs of a pipeline: each is a repo to look for and a factor of the cross product. */
export const MAX_INPUTS = 64;
/** Most workers that a pipeline may ask for, and most of them on each node. */
const MAX_WORKERS = 10_000;
const MAX_WORKERS_PER_NODE = 1000;
/** The id of a commit: a ULID. */
export const COMMIT_ID_PATTERN = /^[0-9A-HJKMNP-TV-Z]{26}$/;
/** The branch of a pipeline's repo that tells of its bad datums, if the specification lets jobs succeed without them. */
export const ERRORS_BRANCH = "errors";
/** Longest description of a pipeline, in characters. */
const MAX_SPEC_DESCRIPTION = 1000;
/** Most secrets of one kind that a pipeline may ask for. */
const MAX_SECRETS = 100;

/** What a process can be given: the system ends arguments and variables at a null byte. */
const ProcessText = z.string().regex(/^[^\u0000]*$/, { error: "must not hold null bytes" });

const EnvName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
  error: "must be a name that a shell can use: letters, digits and '_', no digit first",
});

/** As Kubernetes names secrets: RFC 1123, in lower case. */
const SecretName = z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, {
  error: "must be the name of a secret: lower-case letters, digits, '-' and '.', up to 253 characters",
});

/**
 * The pipeline specification (docs/contract.md). Strict: a field that is not here is refused. The gateway adds the
 * rules that need more than one field (worker/core/spec.ts) and those that need the catalogue. The descriptions go
 * into the JSON Schema, where editors show them.
 */
const SecretMount = z.strictObject({
  name: SecretName.describe("Name of the secret."),
  mountPath: ProcessText.regex(/^\/./, {
    error: "must be an absolute path: one that begins with '/'",
  }).describe(
    "Directory that shows the secret: an absolute path. Each of the secret's keys is a file in it.",
  ),
});
export type SecretMount = z.infer<typeof SecretMount>;

export const Transform = z.strictObject({
  image: z
    .string()
    .regex(/\S/, { error: "must name a container image" })
    .describe("Container image that the command runs in. The process executor, which has none, ignores it."),
  container: z
    .literal("required", {
      error: "must be 'required', or be left out: then nodes without containers run it, too",
    })
    .optional()
    .describe(
      "If it is `required`, only nodes that run commands in containers run it. Absent: every node does.",
    ),
  cmd: list(ProcessText)
    .min(1, { error: "must hold the command to run and its arguments" })
    .refine(([command]) => command !== "", { error: "must name the command to run", path: [0] })
    .describe(
      "Command and its arguments. It does not run in a shell: for `*`, `|` and `>`, make it a shell and give a script in `stdin`.",
    ),
  stdin: list(z.string())
    .optional()
    .describe("Lines for the command's standard input, each ended by a newline. Absent: it is empty."),
  env: z
    .record(EnvName, ProcessText)
    .optional()
    .describe("Environment variables of the command, name to value."),
  secrets: z
    .array(SecretMount)
    .max(MAX_SECRETS)
    .optional()
    .describe("Secrets that the command sees as read-only files, such as credentials."),
  imagePullSecrets: z
    .array(SecretName)
    .max(MAX_SECRETS)
    .optional()
    .describe(
      "Secrets with the credentials of the image's registry. The process executor, which has no images, ignores them.",
    ),
  acceptReturnCode: list(z.int().min(0).max(255))
    .optional()
    .describe("Exit codes that count as success, beside 0."),
  workingDir: ProcessText.regex(/^\//, { error: "must be an absolute path: one that begins with '/'" })
    .optional()
    .describe("Directory that the command starts in: an absolute path."),
});
export type Transform = z.infer<typeof Transform>;

const STRATEGIES =
  "must be CONSTANT, with the number in 'constant', or COEFFICIENT, with it in 'coefficient'";
const Strategy = "Chooses how the number of workers is computed.";
const Ignored = z.unknown().optional();

const ConstantWorkers = z
  .strictObject({
    strategy: z.literal("CONSTANT").describe(Strategy),
    constant: z.int().min(1).max(MAX_WORKERS).describe("How many workers there are, whatever the nodes."),
    coefficient: Ignored.describe("Ignored with this strategy."),
  })
  .transform(({ strategy, constant }) => ({ strategy, constant }));

const WorkersPerNode = z
  .strictObject({
    strategy: z.literal("COEFFICIENT").describe(Strategy),
    coefficient: z
      .number()
      .positive()
      .max(MAX_WORKERS_PER_NODE)
      .describe(
        "Workers per live node that is able to run the pipeline and is not being drained. The product is rounded down; there is always one worker at least.",
      ),
    constant: Ignored.describe("Ignored with this strategy."),
  })
  .transform(({ strategy, coefficient }) => ({ strategy, coefficient }));

/** The field that the strategy does not name is ignored, whatever it holds, and left out of what is kept. */
export const ParallelismSpec = z.discriminatedUnion("strategy", [ConstantWorkers, WorkersPerNode], {
  error: ({ code }) => (code === "invalid_union" ? STRATEGIES : undefined),
});
export type ParallelismSpec = z.infer<typeof ParallelismSpec>;

const Input = z.strictObject({
  name: Name.optional().describe(
    "Name of the input, seen at `/pfs/<name>`. Unique among the inputs; not `out`. Default: the name of the repo.",
  ),
  repo: z
    .strictObject({ name: Name.describe("Name of the repo.") })
    .describe("The repo to read. It must be there."),
  branch: Name.default("master").describe(
    "Branch of the repo: its commits trigger the pipeline. It need not be there yet.",
  ),
  glob: z
    .string()
    .min(1, { error: "must be a pattern: '/' is the whole repo as one datum, '/*' each entry of its root" })
    .describe(
      "Pattern, applied to the root of the repo. Every file or directory that it matches is one datum.",
    ),
  lazy: z
    .boolean()
    .default(false)
    .describe(
      "Show files as named pipes: nothing is fetched until the command opens one. A pipe can't be read from the middle.",
    ),
  from: z
    .strictObject({
      repo: z
        .strictObject({ name: Name.describe("The input's own repo.") })
        .describe("The repo that the commit is in."),
      ID: z
        .string()
        .regex(COMMIT_ID_PATTERN, {
          error: "must be the id of a commit, such as 'sluice commit list' shows them",
        })
        .describe("The commit's id."),
    })
    .optional()
    .describe(
      "Commit of the input's branch to start after: it, and what was written up to it, is not processed.",
    ),
});

/** The external store that a job's results are pushed to once its command has run. */
export const Egress = z.strictObject({
  URL: z
    .string()
    .regex(/^((s3|gs):\/\/[^/?#\s:@]+|(wasbs?|as):\/\/[^/?#\s:@]+(@[^/?#\s:@]+)?)(\/[^?#]*)?$/, {
      error:
        "must be <scheme>://<bucket>/<dir> with the scheme s3, gs, wasb or as; credentials come from 'secret' or the runner",
    })
    .describe("Where results are pushed to: `s3://`, `gs://` or `wasb://`, then `<bucket>/<dir>`."),
  endpoint: z
    .url({ protocol: /^https?$/, error: "must be a URL that begins with http:// or https://" })
    .optional()
    .describe(
      "Address of the store, only together with `secret`. Absent: that of the cloud that the scheme stands for.",
    ),
  secret: SecretName.optional().describe(
    "Secret with the credentials. Absent: those in the environment of the runner, for the URLs that its operator allows.",
  ),
});
export type Egress = z.infer<typeof Egress>;

/** Microsoft's hosts of storage accounts: the public cloud, its DNS zones, and the sovereign clouds. */
const AZURE_HOST =
  /^[a-z0-9-]+(\.[a-z0-9-]+)?\.blob\.(core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)|storage\.azure\.net)$/i;

/**
 * The host that an egress URL names itself, if that is not its vendor's. Only Azure's URLs name one:
 * `wasb://<container>@<host>/<dir>`, where a name without a dot is an account.
 */
export function foreignHost(url: string): string | undefined {
  const host = /^[a-z]+:\/\/[^/@]*@([^/]+)/.exec(url)?.[1];
  return host === undefined || !host.includes(".") || AZURE_HOST.test(host) ? undefined : host;
}

/** As submitted, with every default filled in that does not hang on another field. */
export const PipelineSpec = z.strictObject({
  $schema: z
    .string()
    .optional()
    .describe("The JSON Schema of this file, for editors. The gateway ignores it."),
  pipeline: z
    .strictObject({ name: Name.describe("Unique among pipelines. The output repo is named the same.") })
    .describe("What the pipeline is called."),
  description: z
    .string()
    .max(MAX_SPEC_DESCRIPTION, { error: `must be at most ${MAX_SPEC_DESCRIPTION} characters long` })
    .optional()
    .describe("What the pipeline is for, in words for people. Changing it runs nothing."),
  transform: Transform.describe("What runs for each datum."),
  parallelism_spec: ParallelismSpec.default({ strategy: "COEFFICIENT", coefficient: 1 }).describe(
    "How many workers run the datums.",
  ),
  inputs: z
    .array(Input)
    .max(MAX_INPUTS)
    .default([])
    .describe("What the pipeline reads. A job processes every combination of one datum from each input."),
  outputBranch: Name.default("master").describe(
    "Branch that the pipeline writes its commits to, in the repo that is named like the pipeline.",
  ),
  egress: Egress.optional().describe(
    "Where results are pushed to before a job is successful. Absent: they stay in the output branch alone.",
  ),
  datumTries: z
    .int()
    .min(1)
    .max(100)
    .default(3)
    .describe("How often a datum is tried before it counts as failed."),
  onDatumFailure: z
    .enum(["fail", "skip"], {
      error:
        "must be 'fail', so that a failed datum fails its job, or 'skip', so that the job succeeds without it",
    })
    .optional()
    .describe(
      "What a datum that failed after all its tries does to its job: `fail`, the default, fails it; with `skip` the job succeeds without it, and the branch `errors` tells of it.",
    ),
  datumTimeout: Duration.optional().describe(
    "How long one try of a datum may take, such as `30s` or `1h30m`. Absent: as long as it likes.",
  ),
  jobTimeout: Duration.optional().describe(
    "How long a job may take, such as `30s` or `1h30m`. Absent: as long as it likes.",
  ),
});
export type PipelineSpec = z.infer<typeof PipelineSpec>;

/** Whether jobs may succeed without their bad datums. */
export function skipsBadDatums({ onDatumFailure }: Pick<PipelineSpec, "onDatumFailure">): boolean {
  return onDatumFailure === "skip";
}

/** An input with every default resolved. */
export interface ResolvedInput {
  readonly name: string;
  readonly repo: string;
  readonly branch: string;
  readonly glob: string;
  readonly lazy: boolean;
  /** The commit that the input starts after; null: the whole branch. */
  readonly from: string | null;
}
