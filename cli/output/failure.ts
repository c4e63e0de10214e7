import { CommanderError } from "commander";
import { HostError } from "../../embedded/host-error.ts";
import type { Issue } from "../../protocol/errors.ts";
import { ConfigError } from "../../runner/agent/config.ts";
import { NoEngineError, NoExecutorError } from "../../runner/executors/executor.ts";
import { visibleJson, visibleText } from "./visible.ts";

/** A command that can't go on: one line for people, and with a spec one line an issue. The program ends with 1. */
export class CliError extends Error {
  override readonly name: string = "CliError";
  readonly code: string;
  readonly issues: readonly Issue[];

  constructor(
    message: string,
    { code = "Failed", issues = [] }: { code?: string; issues?: readonly Issue[] } = {},
  ) {
    super(message);
    this.code = code;
    this.issues = issues;
  }
}

/** Something typed wrong: an argument, a flag, a variable. The program ends with 2. */
export class UsageError extends CliError {
  override readonly name = "UsageError";

  constructor(message: string) {
    super(message, { code: "Usage" });
  }
}

/** What a failure means for the program that is about to end. */
export interface Report {
  readonly exitCode: number;
  /** For stderr; empty if everything has been said. */
  readonly text: string;
}

/** What to print for a failure, in words or as JSON, and the exit code. */
export function reportFailure(error: unknown, { json }: { json: boolean }): Report {
  if (error instanceof CommanderError && error.exitCode === 0) return { exitCode: 0, text: "" };
  const { exitCode, code, message, issues } = failureOf(error);
  if (json) return { exitCode, text: `${visibleJson({ error: { code, message, issues } })}\n` };
  const lines = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
  const list = lines.map((line) => `  ${line}\n`).join("");
  return { exitCode, text: visibleText(`error: ${withoutTail(message, lines.join("; "))}\n${list}`) };
}

// The gateway's message may end in the issues, which come below line by line.
function withoutTail(message: string, tail: string): string {
  return tail !== "" && message.endsWith(`: ${tail}`) ? message.slice(0, -tail.length - 2) : message;
}

interface Failure {
  readonly exitCode: number;
  readonly code: string;
  readonly message: string;
  readonly issues: readonly Issue[];
}

function failureOf(error: unknown): Failure {
  if (error instanceof CommanderError) {
    // The help of a group that was called without a command has been printed already: commander says "(outputHelp)".
    const message = error.message === "(outputHelp)" ? "name a command, one of those above" : error.message;
    return { exitCode: 2, code: "Usage", message: oneLine(message.replace(/^error: /, "")), issues: [] };
  }
  if (error instanceof CliError) {
    const { message, code, issues } = error;
    return { exitCode: error instanceof UsageError ? 2 : 1, code, message, issues };
  }
  if (error instanceof HostError) {
    return { exitCode: 1, code: "HostError", message: error.message, issues: [] };
  }
  if (error instanceof ConfigError) return { exitCode: 2, code: "Usage", message: error.message, issues: [] };
  if (error instanceof NoExecutorError) return noExecutor(error);
  // A fault of the file system names its file in its message already.
  const message = error instanceof Error ? error.message : String(error);
  return { exitCode: 1, code: errnoOf(error) ?? "Failed", message: oneLine(message), issues: [] };
}

// The message is a list of what was tried and what to install.
function noExecutor(error: NoExecutorError): Failure {
  const issues = error.message.split("\n").map((line) => ({ path: "", message: line }));
  if (error instanceof NoEngineError) {
    const message = "no container engine answers here: start one, or run commands with --executor process";
    // As for a flag that is missing: it gets no better by trying again.
    return { exitCode: 2, code: "NoExecutor", message, issues };
  }
  return {
    exitCode: 1,
    code: "NoExecutor",
    message: "this machine can't run the commands of pipelines",
    issues,
  };
}

function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ").trim();
}
