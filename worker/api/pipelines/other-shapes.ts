import { Duration } from "../../../protocol/duration.ts";
import { DEFAULT_BRANCH, NAME_PATTERN, Name } from "../../../protocol/names.ts";
import { MAX_INPUTS } from "../../../protocol/spec.ts";

/**
 * Values in another shape than a specification has them, as other systems, or YAML written by hand, have them: a text in
 * place of a list of lines, the name of a repo in place of an object. What to write is told with the writer's own words in
 * it, so that it can be taken as it is. Nothing repeats the values of variables, nor the user and password of a URL.
 */

/** A text of the writer's is repeated up to so many characters, and a list up to so many entries. */
const MAX_SHOWN_CHARACTERS = 80;
const MAX_SHOWN_ENTRIES = 4;

/** What a field holds, and the specification that it stands in. */
interface Held {
  readonly held: unknown;
  readonly spec: unknown;
  readonly path: readonly PropertyKey[];
}

type Shape = (held: unknown, around: Held) => string | undefined;

/** By the path, with `[]` for every entry of a list and `{}` for every value of a record. */
const SHAPES: Readonly<Record<string, Shape>> = {
  pipeline: (held) => write(whenText(held, (name) => ({ name }))),
  "pipeline.name": (held) => write(whenText(held, asName)),

  "transform.cmd": (held) => write(whenText(held, asCommand)),
  "transform.cmd[]": asText,
  "transform.stdin": (held) => whenText(held, asLines),
  "transform.stdin[]": asText,
  "transform.env": asVariables,
  "transform.env{}": (held) => (isScalar(held) ? "write it in quotes" : undefined),
  "transform.secrets": asSecrets,
  "transform.secrets[]": (held) => write(secretOf(held)),
  "transform.imagePullSecrets": (held) => write(whenText(held, (name) => [name])),
  "transform.imagePullSecrets[]": (held) => write(textOf(fieldOf(held, "name"))),
  "transform.acceptReturnCode": (held) => write(whenNumber(held, (code) => [code])),
  "transform.acceptReturnCode[]": asNumber,

  parallelism_spec: (held) => write(workersOf(held)),
  "parallelism_spec.strategy": asStrategy,
  "parallelism_spec.constant": asNumber,
  "parallelism_spec.coefficient": asNumber,

  inputs: (held) => (Array.isArray(held) ? undefined : writeList(inputsOf(held))),
  "inputs[]": (held) => write(inputsOf(held)?.[0]),
  "inputs[].name": (held) => write(whenText(held, asName)),
  "inputs[].repo": asRepo,
  "inputs[].repo.name": (held) => whenText(held, asBucket),
  "inputs[].branch": (held) => whenText(held, asBranch),
  "inputs[].glob": asGlob,
  "inputs[].lazy": (held) => write(asBoolean(held)),
  "inputs[].from": asFrom,
  "inputs[].from.repo": (held) => write(whenText(held, (name) => ({ name }))),

  outputBranch: (held) => whenText(held, asBranch),
  egress: (held) => write(whenText(held, (text) => (isAddress(text) ? { URL: text } : undefined))),
  "egress.URL": (held) => whenText(held, asAddress),
  datumTries: asNumber,
  datumTimeout: asDuration,
  jobTimeout: asDuration,
};

/** What to write in place of a value of another shape; undefined if it means nothing that is known. */
export function otherShape(
  path: readonly PropertyKey[],
  { held, spec }: { held: unknown; spec: unknown },
): string | undefined {
  const place = path.reduce<string>((text, step, at) => {
    if (typeof step === "number") return `${text}[]`;
    if (at === 2 && text === "transform.env") return `${text}{}`;
    return text === "" ? String(step) : `${text}.${String(step)}`;
  }, "");
  return Object.hasOwn(SHAPES, place) ? SHAPES[place]?.(held, { held, spec, path }) : undefined;
}

/**
 * The inputs that a value stands for: Pachyderm's `{ "pfs": … }`, a `cross` of several, one that is not in a list, the name of
 * a repo. Undefined if it is none of these.
 */
export function inputsOf(value: unknown): object[] | undefined {
  if (typeof value === "string") return listOf(inputOf({ repo: value }));
  if (!Array.isArray(value)) {
    const { pfs, cross, repo } = fieldsOf(value);
    if (Array.isArray(cross)) return inputsOf(cross);
    return listOf(inputOf(pfs ?? (repo === undefined ? undefined : value)));
  }
  const parts = value.slice(0, MAX_INPUTS).map(inputsOf);
  const inputs = parts.flatMap((part) => part ?? []);
  return parts.length > 0 && parts.every((part) => part !== undefined) ? inputs : undefined;
}

/** The number of workers that a value stands for, as `parallelism_spec` has it; undefined if it is none. */
export function workersOf(value: unknown): object | undefined {
  const { constant, coefficient } = fieldsOf(value);
  const count = numberOf(constant ?? value);
  if (count !== undefined && count >= 1 && Number.isInteger(count))
    return { strategy: "CONSTANT", constant: count };
  const each = numberOf(coefficient ?? value);
  return each !== undefined && each > 0 ? { strategy: "COEFFICIENT", coefficient: each } : undefined;
}

/** A list in JSON, of which a long one ends in `…`. */
export function writtenList(values: readonly unknown[]): string {
  const more = values.length > MAX_SHOWN_ENTRIES ? ", …" : "";
  return `[${values.slice(0, MAX_SHOWN_ENTRIES).map(written).join(", ")}${more}]`;
}

/** The fields of an object in JSON, without its braces. */
export function writtenFields(value: object): string {
  return Object.entries(value)
    .map(([name, held]) => `"${name}": ${written(held)}`)
    .join(", ");
}

/** The lines of a text; those at its end that are empty are none. */
export function linesOf(text: string): string[] {
  return text.trimEnd().split("\n");
}

function inputOf(value: unknown): object | undefined {
  const { name, repo, branch, glob, lazy } = fieldsOf(value);
  const address = bucketOf(textOf(repo) ?? textOf(fieldOf(repo, "name")) ?? "");
  if (!address) return undefined;
  const its = textOf(branch) ?? address.branch;
  return {
    ...(textOf(name) === undefined ? {} : { name }),
    repo: { name: address.repo },
    ...(its === undefined || its === DEFAULT_BRANCH ? {} : { branch: its }),
    glob: textOf(glob) ?? "/*",
    ...(lazy === true ? { lazy } : {}),
  };
}

function asRepo(held: unknown): string | undefined {
  if (held === undefined) return `write "repo": { "name": "images" }`;
  return whenText(held, (text) => {
    const address = bucketOf(text);
    if (!address) return undefined;
    const { repo, branch } = address;
    return `write { "name": "${repo}" }${branch === undefined ? "" : `, and "branch": "${branch}" beside "repo"`}`;
  });
}

/** A repo has a name without a branch. */
function asBucket(text: string): string | undefined {
  const { repo, branch } = bucketOf(text) ?? {};
  if (repo === undefined || repo === text) return undefined;
  return `write "${repo}"${branch === undefined ? "" : `, and "branch": "${branch}" beside "repo"`}`;
}

/** A branch has a name without its repo. */
function asBranch(text: string): string | undefined {
  const branch = bucketOf(text)?.branch;
  return branch === undefined ? undefined : `write "${branch}"`;
}

/** The repo, and the branch if there is one, of `sales`, `master.sales`, `sales@master`, and each as `s3://…`. */
function bucketOf(text: string): { repo: string; branch?: string } | undefined {
  const bare = text.replace(/^s3:\/\//, "").replace(/\/$/, "");
  if (NAME_PATTERN.test(bare)) return { repo: bare };
  const [first = "", last = "", ...rest] = bare.split(/[.@]/);
  if (rest.length > 0 || !NAME_PATTERN.test(first) || !NAME_PATTERN.test(last)) return undefined;
  return bare.includes("@") ? { repo: first, branch: last } : { repo: last, branch: first };
}

function asName(text: string): string | undefined {
  const name = text
    .slice(0, MAX_SHOWN_CHARACTERS)
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
  return name !== text && Name.safeParse(name).success ? name : undefined;
}

/** In YAML a text of many lines is easily one entry of the list. */
function asLines(text: string): string {
  const lines = linesOf(text);
  const block = lines.length > 1 ? `, or in YAML put the text below an entry "- |"` : "";
  return `write ${writtenList(lines)}${block}`;
}

/** A command with what only a shell understands is given to one. */
function asCommand(text: string): string[] | undefined {
  if (text.trim() === "") return undefined;
  return /[|&;<>()$`\\"'*?[\]#~{}\n]/.test(text) ? ["sh", "-c", text.trim()] : text.trim().split(/\s+/);
}

/** Variables as a list, Kubernetes' and Compose's way. Their values are not repeated: they may be secrets. */
function asVariables(held: unknown): string | undefined {
  if (!Array.isArray(held)) return undefined;
  const names = held
    .slice(0, MAX_SHOWN_ENTRIES)
    .map((entry) => textOf(fieldOf(entry, "name")) ?? /^([^=]+)=/.exec(textOf(entry) ?? "")?.[1] ?? "");
  if (names.length === 0 || names.some((name) => !/^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(name)))
    return undefined;
  return `write { ${names.map((name) => `"${name}": "…"`).join(", ")}${held.length > names.length ? ", …" : ""} }`;
}

function asSecrets(held: unknown): string | undefined {
  if (Array.isArray(held)) return undefined;
  const secret = secretOf(held);
  return write(secret && [secret]);
}

function secretOf(held: unknown): object | undefined {
  const name = textOf(held) ?? textOf(fieldOf(held, "name"));
  if (name === undefined) return undefined;
  return { name, mountPath: textOf(fieldOf(held, "mountPath")) ?? `/secrets/${name}` };
}

function asStrategy(held: unknown, { spec }: Held): string | undefined {
  const known = whenText(held, (text) => text.toUpperCase());
  if (known === "CONSTANT" || known === "COEFFICIENT") return `write "${known}"`;
  const workers = held === undefined ? workersOf(fieldOf(spec, "parallelism_spec")) : undefined;
  return workers && `write "parallelism_spec": ${written(workers)}`;
}

/** Several patterns are one, with alternatives in braces. */
function asGlob(held: unknown): string | undefined {
  if (held === undefined)
    return `write "glob": "/*", each entry of the root, or "/", the whole repo as one datum`;
  if (!Array.isArray(held) || held.length === 0 || held.length > MAX_SHOWN_ENTRIES) return undefined;
  const globs = held.map((glob) => textOf(glob));
  if (globs.some((glob) => glob === undefined || /[{},\\()]/.test(glob))) return undefined;
  const bare = globs.map((glob) => glob?.replace(/^\//, ""));
  return write(bare.length === 1 ? `/${bare[0]}` : `/{${bare.join(",")}}`);
}

function asFrom(held: unknown, { spec, path }: Held): string | undefined {
  const inputs = fieldOf(spec, "inputs");
  const repo = Array.isArray(inputs) ? fieldOf(inputs[Number(path[1])], "repo") : undefined;
  const name = textOf(fieldOf(repo, "name")) ?? textOf(repo) ?? "images";
  return whenText(held, (id) => `write ${written({ repo: { name }, ID: id })}`);
}

function isAddress(text: string): boolean {
  return /^(s3|gs|wasbs?|as):\/\/[^/?#\s:@]+(\/[^?#\s@]*)?$/.test(text);
}

/** A user and a password, which stand before an '@', are never repeated. */
function asAddress(text: string): string | undefined {
  const [, scheme = "", rest = ""] = /^([a-z0-9]+):\/\/([^?#\s@]+)$/i.exec(text) ?? [];
  const store = /^s3[an]$/i.test(scheme) ? "s3" : /^gcs$/i.test(scheme) ? "gs" : undefined;
  if (store !== undefined) return isAddress(`${store}://${rest}`) ? write(`${store}://${rest}`) : undefined;
  if (/^https?$/i.test(scheme)) {
    const [host = "", ...folders] = rest.split("/");
    return `write "URL": ${written(`s3://${folders.filter(Boolean).join("/") || "bucket/folder"}`)}, with "endpoint": ${written(`${scheme}://${host}`)} and "secret" beside it`;
  }
  const isBare = !text.includes(":") && isAddress(`s3://${text.replace(/^\//, "")}`);
  return isBare ? write(`s3://${text.replace(/^\//, "")}`) : undefined;
}

const UNITS: readonly (readonly [names: RegExp, unit: string, times: number])[] = [
  [/^(ms|millis|milliseconds?)$/i, "ms", 1],
  [/^(|s|secs?|seconds?)$/i, "s", 1],
  [/^(m|mins?|minutes?)$/i, "m", 1],
  [/^(h|hrs?|hours?)$/i, "h", 1],
  [/^(d|days?)$/i, "h", 24],
];

/** A number alone is of seconds. */
function asDuration(held: unknown): string | undefined {
  const [, amount = "", name = ""] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(String(held)) ?? [];
  if (!isScalar(held) || amount === "") return undefined;
  if (Number(amount) === 0) return "leave it out, and it may take as long as it likes";
  const [, unit, times] = UNITS.find(([names]) => names.test(name)) ?? [];
  if (unit === undefined || times === undefined) return undefined;
  const duration = `${Number(amount) * times}${unit}`;
  return duration !== held && Duration.safeParse(duration).success ? write(duration) : undefined;
}

function asNumber(held: unknown): string | undefined {
  return typeof held === "string" ? write(numberOf(held)) : undefined;
}

function asText(held: unknown): string | undefined {
  return isScalar(held) && typeof held !== "string" ? write(String(held)) : undefined;
}

function asBoolean(held: unknown): boolean | undefined {
  if (typeof held === "string" && /^(true|yes|on)$/i.test(held)) return true;
  if (typeof held === "string" && /^(false|no|off)$/i.test(held)) return false;
  return held === 1 || held === 0 ? held === 1 : undefined;
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^\d{1,9}(\.\d{1,9})?$/.test(value) ? Number(value) : undefined;
}

function whenNumber<Meant>(held: unknown, meant: (value: number) => Meant): Meant | undefined {
  const value = numberOf(held);
  return value === undefined ? undefined : meant(value);
}

function whenText<Meant>(held: unknown, meant: (text: string) => Meant): Meant | undefined {
  return typeof held === "string" && held !== "" ? meant(held) : undefined;
}

function isScalar(value: unknown): boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function listOf<Entry>(entry: Entry | undefined): Entry[] | undefined {
  return entry === undefined ? undefined : [entry];
}

function fieldOf(value: unknown, name: string): unknown {
  return fieldsOf(value)[name];
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function write(value: unknown): string | undefined {
  return value === undefined ? undefined : `write ${written(value)}`;
}

function writeList(values: readonly unknown[] | undefined): string | undefined {
  return values === undefined ? undefined : `write ${writtenList(values)}`;
}

/** In JSON, with spaces as people write it; long texts end in `…`. */
function written(value: unknown): string {
  if (typeof value === "string" && value.length > MAX_SHOWN_CHARACTERS) {
    return JSON.stringify(`${value.slice(0, MAX_SHOWN_CHARACTERS)}…`);
  }
  if (Array.isArray(value)) return writtenList(value);
  if (typeof value === "object" && value !== null) return `{ ${writtenFields(value)} }`;
  return JSON.stringify(value);
}
