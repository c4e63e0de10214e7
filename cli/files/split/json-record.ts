import { CliError } from "../../output/failure.ts";
import { jsonFault } from "../../spec/json-fault.ts";
import type { TextPlace } from "./text-cursor.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A text that can't be cut into JSON values, with the place at which that shows. */
export function badJson(name: string, { line, column }: TextPlace, problem: string): CliError {
  return new CliError(`${name}, line ${line}, column ${column}: ${problem}; nothing was committed`, {
    code: "BadJson",
  });
}

/** Throws if the bytes, which stand at `start` in the source `name`, are not one JSON value (RFC 8259). */
export function checkJson(bytes: Uint8Array, { name, start }: { name: string; start: TextPlace }): void {
  const text = decoded(bytes);
  if (text === undefined) throw badJson(name, start, "the value that begins here is not UTF-8");
  try {
    JSON.parse(text);
  } catch (error) {
    const fault = jsonFault(text);
    if (!fault) throw badJson(name, start, error instanceof Error ? error.message : String(error));
    const { line, column, problem } = fault;
    const isFirstLine = line === 1;
    throw badJson(
      name,
      { line: start.line + line - 1, column: isFirstLine ? start.column + column - 1 : column },
      problem,
    );
  }
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
