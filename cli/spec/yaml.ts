import { LineCounter, parseDocument } from "yaml";
import { CliError } from "../output/failure.ts";

/** Aliases that one text may follow: a few lines of them could stand for more than any memory holds. */
const MAX_ALIASES = 100;

/** The value of a text in YAML 1.2. Throws a CliError that shows the place of its first fault. */
export function parseYaml(content: string, file: string): unknown {
  const lineCounter = new LineCounter();
  const document = parseDocument(content, { lineCounter, prettyErrors: false });
  const [fault] = document.errors;
  if (fault) {
    const { line, col } = lineCounter.linePos(fault.pos[0]);
    if (fault.code === "MULTIPLE_DOCS") throw severalSpecs(file, line);
    throw notYaml(file, `line ${line}, column ${col}: ${fault.message}`);
  }
  if (document.contents === null) throw notYaml(file, "it is empty");
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    throw notYaml(file, error instanceof Error ? error.message : String(error));
  }
  if (!isJson(value)) throw notYaml(file, "an alias (*) stands inside of what it names");
  return value;
}

/** A value that holds itself is no JSON. */
function isJson(value: unknown): boolean {
  try {
    JSON.stringify(value);
    return true;
  } catch {
    return false;
  }
}

/** As pachctl and kubectl take several in one file. */
function severalSpecs(file: string, line: number): CliError {
  const message = `${file} holds another document from line ${line} on: a specification is one object, so give each pipeline a file of its own`;
  return new CliError(message, { code: "BadSpec" });
}

function notYaml(file: string, why: string): CliError {
  return new CliError(`${file} is not YAML: ${why}`, { code: "BadYaml" });
}
