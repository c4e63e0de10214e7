import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { text } from "node:stream/consumers";
import { CliError } from "../output/failure.ts";
import { jsonFault } from "./json-fault.ts";

const BYTE_ORDER_MARK = "\ufeff";

/** Reads a pipeline specification, a JSON object, from a file; `-` is stdin. */
export async function readSpecFile(file: string): Promise<unknown> {
  const content = await (file === "-" ? text(process.stdin) : readFile(file, "utf8"));
  return parseSpec(content.startsWith(BYTE_ORDER_MARK) ? content.slice(1) : content, file);
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
  const spec: unknown = JSON.parse(content);
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
  const yaml = [".yaml", ".yml"].includes(extname(file).toLowerCase()) || /^(---|\w+:(\s|$))/m.test(content);
  if (!yaml || content.trimStart().startsWith("{")) return "";
  return "; it looks like YAML, and a specification is JSON: yq -o json turns one into the other";
}
