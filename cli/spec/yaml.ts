import { readYaml } from "../../protocol/spec-text.ts";
import { CliError } from "../output/failure.ts";

/** The value of a text in YAML 1.2. Throws a CliError that shows the place of its first fault. */
export function parseYaml(content: string, file: string): unknown {
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
