import { type Command, InvalidArgumentError } from "commander";
import { NAME_PATTERN } from "../protocol/names.ts";
import { DEFAULT_DATA } from "./gateway/connection.ts";

/** What every command that talks to a gateway takes. */
export interface ClientOptions {
  readonly data: string;
  readonly json?: true;
}

/** Those of a command that shows one page of a list. */
export interface PageOptions extends ClientOptions {
  readonly limit: number;
  readonly after?: string;
}

/** Adds `--json` and `--data`, and examples at the end of the help. */
export function withClientOptions(command: Command, ...examples: readonly string[]): Command {
  const text = "data folder of a local gateway, for its key and endpoint";
  return withExamples(withJson(command).option("--data <folder>", text, DEFAULT_DATA), ...examples);
}

export function withJson(command: Command): Command {
  return command.option("--json", "print JSON, also for errors");
}

/** Examples at the end of a command's help. */
export function withExamples(command: Command, ...examples: readonly string[]): Command {
  const lines = examples.map((example) => `  $ ${example}`).join("\n");
  return command.addHelpText("after", `\nExamples:\n${lines}`);
}

/** A parser of whole numbers in a range, for commander. */
export function wholeNumber({ min, max }: { min: number; max: number }): (value: string) => number {
  return (value) => {
    const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

/** A parser of names of repos, branches, pipelines and nodes. */
export function name(value: string): string {
  if (NAME_PATTERN.test(value)) return value;
  throw new InvalidArgumentError(
    "It must start with a letter or digit and hold only letters, digits, '_' and '-'.",
  );
}
