import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { text } from "node:stream/consumers";
import { CliError, errnoOf, systemText } from "../output/failure.ts";
import { jsonFault } from "./json-fault.ts";

const BYTE_ORDER_MARK = "\ufeff";

/** What a name that ends so holds, whatever is in it. */
const LANGUAGES: Readonly<Record<string, "json" | "yaml">> = {
  ".json": "json",
  ".yaml": "yaml",
  ".yml": "yaml",
};

/** A specification, not checked yet, and the text that it was read from. */
export interface SpecFile {
  readonly spec: unknown;
  readonly text: string;
}

/**
 * Reads a pipeline specification, an object in JSON or YAML; `-` is stdin. The ending of the name says which of the two it is.
 * Stdin has none, nor has what a shell makes of `<(…)`: there it is how the text begins.
 */
export async function readSpecFile(file: string): Promise<SpecFile> {
  const content = await (file === "-" ? text(process.stdin) : readSpec(file));
  const bare = content.startsWith(BYTE_ORDER_MARK) ? content.slice(1) : content;
  const language = LANGUAGES[extname(file).toLowerCase()] ?? languageOf(bare);
  const source = file === "-" ? "stdin" : file;
  if (language === "json") return { spec: parseSpec(bare, source), text: bare };
  return { spec: oneObject(await parseYaml(bare, source), source), text: bare };
}

/** The value of a text in YAML 1.2. Throws a CliError that shows the place of its first fault. */
async function parseYaml(content: string, file: string): Promise<unknown> {
  // It takes long to load.
  const { readYaml } = await import("../../protocol/spec-text.ts");
  const read = readYaml(content);
  if (read.ok) return read.value;
  if (read.fault === "several-documents") throw severalSpecs(file, read.line);
  throw new CliError(`${file} is not YAML: ${read.why}`, { code: "BadYaml" });
}

/** As pachctl and kubectl take several in one file. */
function severalSpecs(file: string, line: number): CliError {
  const message = `${file} holds another document from line ${line} on: a specification is one object, so give each pipeline a file of its own`;
  return new CliError(message, { code: "BadSpec" });
}

/** An object or a list in JSON begins with its bracket. An empty text is told as JSON, too. */
function languageOf(content: string): "json" | "yaml" {
  return /^\s*([{[]|$)/.test(content) ? "json" : "yaml";
}

async function readSpec(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const code = errnoOf(error) ?? "Failed";
    const why = code === "ENOENT" ? "there is no such file" : systemText(error, "");
    throw new CliError(`the specification ${file} can not be read: ${why.replace(/^: /, "")}`, { code });
  }
}

/** Throws a CliError that shows the place of the fault and, if the text is something else than JSON, says what to do. */
export function parseSpec(content: string, source: string): unknown {
  const fault = jsonFault(content);
  if (fault) {
    throw new CliError(`${source} is not JSON: ${problemOf(content, fault)}${hintFor(content)}`, {
      code: "BadJson",
    });
  }
  return oneObject(JSON.parse(content), source);
}

function oneObject(spec: unknown, source: string): unknown {
  if (typeof spec === "string") {
    const message = `${source} holds text and no fields, from line 1 on: a specification begins with {, or in YAML with a field such as pipeline:`;
    throw new CliError(message, { code: "BadSpec" });
  }
  if (!Array.isArray(spec)) return spec;
  throw new CliError(
    `${source} holds a list of ${spec.length}: a specification is one object, so give each pipeline a file of its own`,
    { code: "BadSpec" },
  );
}

function problemOf(
  content: string,
  { line, column, problem }: NonNullable<ReturnType<typeof jsonFault>>,
): string {
  return content.trim() === "" ? "it is empty" : `line ${line}, column ${column}: ${problem}`;
}

function hintFor(content: string): string {
  if (!/^(---|\w+:(\s|$))/m.test(content) || content.trimStart().startsWith("{")) return "";
  return "; it looks like YAML: name it .yaml, and it is read";
}
