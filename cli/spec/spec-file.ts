import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { text } from "node:stream/consumers";
import { CliError, errnoOf, systemText } from "../output/failure.ts";
import { jsonFault } from "./json-fault.ts";

const BYTE_ORDER_MARK = "\ufeff";

/** Reads a pipeline specification, an object in JSON or, by the ending of its file, in YAML; `-` is stdin, which is JSON. */
export async function readSpecFile(file: string): Promise<unknown> {
  const content = await (file === "-" ? text(process.stdin) : readSpec(file));
  const bare = content.startsWith(BYTE_ORDER_MARK) ? content.slice(1) : content;
  if (!isYamlName(file)) return parseSpec(bare, file);
  return oneObject((await import("./yaml.ts")).parseYaml(bare, file), file);
}

function isYamlName(file: string): boolean {
  return [".yaml", ".yml"].includes(extname(file).toLowerCase());
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
export function parseSpec(content: string, file: string): unknown {
  const source = file === "-" ? "stdin" : file;
  const fault = jsonFault(content);
  if (fault) {
    throw new CliError(`${source} is not JSON: ${problemOf(content, fault)}${hintFor(content, file)}`, {
      code: "BadJson",
    });
  }
  return oneObject(JSON.parse(content), source);
}

function oneObject(spec: unknown, source: string): unknown {
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

function hintFor(content: string, file: string): string {
  if (!/^(---|\w+:(\s|$))/m.test(content) || content.trimStart().startsWith("{")) return "";
  const how =
    file === "-" ? "in a file whose name ends in .yaml, it is read" : "name it .yaml, and it is read";
  return `; it looks like YAML: ${how}`;
}
