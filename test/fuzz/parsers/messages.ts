import fc from "fast-check";
import { stringify } from "yaml";
import type { z } from "zod";
import { SoundCommits, SoundFiles, SoundHead, SoundTags } from "../../../protocol/archives.ts";
import {
  Assignment,
  FinishRequest,
  Heartbeat,
  Lease,
  LeaseRequest,
  LogsRequest,
  RenewRequest,
} from "../../../protocol/runner.ts";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { readSpecText, specTextFault } from "../../../protocol/spec-text.ts";
import { issuesOf } from "../../../worker/api/request/issues.ts";
import { checkSpec, resolveSpec } from "../../../worker/core/spec.ts";
import { soundArchive } from "../../support/archive-cases.ts";
import { spoiledValue, valueFor } from "../schema-values.ts";
import type { Tally } from "../tally.ts";
import { spoiled } from "../text.ts";

const WHOLE_SPEC = {
  pipeline: { name: "one" },
  description: "of two inputs",
  transform: {
    image: "busybox",
    cmd: ["sh"],
    stdin: ["true"],
    env: { A: "1" },
    secrets: [{ name: "db", mountPath: "/db" }],
  },
  inputs: [
    { repo: { name: "a" }, glob: "/*" },
    { repo: { name: "b" }, name: "c", glob: "/**/x.{a,b}", branch: "dev", lazy: true },
  ],
  parallelism_spec: { strategy: "CONSTANT", constant: 2 },
  egress: { URL: "s3://bucket/dir" },
  datumTimeout: "30s",
  onDatumFailure: "skip",
};

/** What goes over the wire of runners, and pages of archives; readers pass over fields of those that they do not know. */
const MESSAGES: Readonly<
  Record<string, { readonly schema: z.ZodType; readonly isOpen: boolean; readonly whole?: unknown }>
> = {
  Heartbeat: { schema: Heartbeat, isOpen: true },
  Assignment: { schema: Assignment, isOpen: true },
  LeaseRequest: { schema: LeaseRequest, isOpen: true },
  Lease: { schema: Lease, isOpen: true },
  RenewRequest: { schema: RenewRequest, isOpen: true },
  FinishRequest: { schema: FinishRequest, isOpen: true },
  LogsRequest: { schema: LogsRequest, isOpen: true },
  SoundHead: { schema: SoundHead, isOpen: true, whole: { name: "master", ...soundArchive().branch } },
  SoundCommits: { schema: SoundCommits, isOpen: true, whole: { commits: soundArchive().commits } },
  SoundTags: { schema: SoundTags, isOpen: true, whole: { tags: soundArchive().tags } },
  SoundFiles: {
    schema: SoundFiles,
    isOpen: true,
    whole: { files: soundArchive().files, contents: soundArchive().contents },
  },
  PipelineSpec: { schema: PipelineSpec, isOpen: false, whole: WHOLE_SPEC },
};

const WORDS = {
  name: ["one", "two"],
  glob: ["/*", "/", "/**/x.{a,b}"],
  datumTimeout: ["30s"],
  jobTimeout: ["1h30m"],
  image: ["busybox"],
  cmd: [["sh", "-c", "true"]],
  URL: ["s3://bucket/dir", "wasb://c@account/dir"],
  endpoint: ["http://localhost:1"],
  secret: ["db"],
  mountPath: ["/secret"],
};

/** A message of a kind, as its schema has it or spoiled. */
export const message = fc.oneof(
  ...Object.entries(MESSAGES).map(([kind, { schema, whole }]) => {
    const made = valueFor(schema, WORDS);
    const value = whole === undefined ? made : fc.oneof(made, fc.constant(whole));
    return fc.record({ kind: fc.constant(kind), value: fc.oneof(value, spoiledValue(value)) });
  }),
);

/** What is taken is the same when it is read again; what is refused is refused at its place. */
export function holdsMessage({ kind, value }: { kind: string; value: unknown }, tally: Tally): void {
  const { schema, isOpen } = MESSAGES[kind] as (typeof MESSAGES)[string];
  const sent: unknown = JSON.parse(JSON.stringify(value) ?? "null");
  const read = schema.safeParse(sent);
  tally.add(`message, ${kind}`, read.success ? "good" : "refused");
  if (!read.success) {
    mustNameFields(read.error, schema, sent);
    return;
  }
  mustBeSame(schema.parse(JSON.parse(JSON.stringify(read.data))), read.data);
  if (isOpen) mustBeSame(schema.parse({ ...Object(sent), ofALaterVersion: 1 }), read.data);
  if (kind === "PipelineSpec") holdsSpec(PipelineSpec.parse(sent));
}

/** A specification with its rules, and as a text. */
function holdsSpec(spec: PipelineSpec): void {
  const checked = checkSpec(spec);
  if (checked.ok) mustBeSame(resolveSpec(resolveSpec(spec)), resolveSpec(spec));
  else if (checked.issues.some(({ path, message: words }) => path === "" || words === ""))
    throw new Error(`a rule without a field: ${JSON.stringify(checked.issues)}`);
  for (const text of [JSON.stringify(spec), stringify(spec)]) {
    const read = readSpecText(text);
    if (!read.ok) throw new Error(`the text is not read: ${JSON.stringify(read)}`);
    mustBeSame(PipelineSpec.parse(read.value), spec);
  }
}

/** The text of a specification, spoiled. */
export const specText = fc
  .tuple(valueFor(PipelineSpec, WORDS), fc.boolean())
  .chain(([spec, isYaml]) => spoiled(fc.constant(isYaml ? stringify(spec) : JSON.stringify(spec))));

/** It is read, or it is said what is wrong with it. */
export function holdsSpecText(text: string, tally: Tally): void {
  specTextFault(text);
  const read = readSpecText(text);
  tally.add("text of a specification", read.ok ? "good" : "refused");
  if (!read.ok) {
    if (read.fault === "not-yaml" && read.why === "") throw new Error("a refusal without words");
    return;
  }
  const spec = PipelineSpec.safeParse(read.value);
  if (!spec.success) mustNameFields(spec.error, PipelineSpec, read.value);
}

function mustNameFields(error: z.ZodError, schema: z.ZodType, value: unknown): void {
  const issues = issuesOf(error, schema);
  if (issues.length === 0) throw new Error("a refusal without a problem");
  const hasFields = typeof value === "object" && value !== null && !Array.isArray(value);
  for (const { path, message: words } of issues) {
    if (!/\w/.test(words) || (hasFields && path === "" && !words.startsWith("there may be more")))
      throw new Error(`a problem that names no field: ${JSON.stringify(issues)}`);
  }
}

function mustBeSame(read: unknown, before: unknown): void {
  const [one, other] = [JSON.stringify(read), JSON.stringify(before)];
  if (one !== other) throw new Error(`read again it is ${one}, and was ${other}`);
}
