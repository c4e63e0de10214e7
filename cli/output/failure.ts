import { CommanderError } from "commander";
import type { Issue } from "../../protocol/errors.ts";
import { visibleJson, visibleText } from "./output.ts";

/** A command that can't go on: one line for people, and with a spec one line an issue. */
export class CliError extends Error {
  override readonly name: string = "CliError";
  readonly code: string;
  readonly issues: readonly Issue[];
  /** What the program ends with. */
  readonly exitCode: number;

  constructor(
    message: string,
    {
      code = "Failed",
      issues = [],
      exitCode = exitCodeOf(code),
    }: { code?: string; issues?: readonly Issue[]; exitCode?: number } = {},
  ) {
    super(message);
    this.code = code;
    this.issues = issues;
    this.exitCode = exitCode;
  }
}

/** A signal stopped the command, which has cleaned up behind itself. */
export class InterruptedError extends CliError {
  override readonly name = "InterruptedError";
  readonly signal: NodeJS.Signals;

  constructor(message: string, signal: NodeJS.Signals) {
    super(message, { code: "Interrupted" });
    this.signal = signal;
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

function failureOf(error: unknown): CliError {
  if (error instanceof CommanderError) {
    // The help of a group that was called without a command has been printed already: commander says "(outputHelp)".
    const message = error.message === "(outputHelp)" ? "name a command, one of those above" : error.message;
    return new UsageError(oneLine(message.replace(/^error: /, "")));
  }
  if (error instanceof CliError) return error;
  // Known by their names: the modules that they are of take long to load, and most failures are none of them.
  if (isNamed(error, "HostError")) return new CliError(error.message, { code: "HostError" });
  if (isNamed(error, "ConfigError")) return new UsageError(error.message);
  if (isNamed(error, "NoExecutorError") || isNamed(error, "NoEngineError")) return noExecutor(error);
  return new CliError(oneLine(systemText(error)), { code: errnoOf(error) ?? "Failed" });
}

/** Such as "ENOENT: no such file or directory, open 'x.json'". */
const SYSTEM_MESSAGE = /^[A-Z][A-Z0-9]+: (.+?), \w+(?: '.*')?$/s;

/** What the system says of a failure, for people: first the file that it is about, then what is wrong with it. */
export function systemText(error: unknown, about?: string): string {
  if (!(error instanceof Error)) return String(error);
  const path = about ?? ("path" in error && typeof error.path === "string" ? error.path : undefined);
  const [, words] = SYSTEM_MESSAGE.exec(error.message) ?? [];
  if (words === undefined) return error.message;
  return path === undefined ? words : `${path}: ${words}`;
}

function isNamed(error: unknown, name: string): error is Error {
  return error instanceof Error && error.name === name;
}

// The message is a list of what was tried and what to install.
function noExecutor(error: Error): CliError {
  const issues = error.message.split("\n").map((line) => ({ path: "", message: line }));
  if (isNamed(error, "NoEngineError")) {
    const message = "no container engine answers here: start one, or run commands with --executor process";
    // As for a flag that is missing: it gets no better by trying again.
    return new CliError(message, { code: "NoExecutor", exitCode: EXIT.usage, issues });
  }
  return new CliError("this machine can't run the commands of pipelines", { code: "NoExecutor", issues });
}

/** The code of a fault of the system, such as ENOENT. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ").trim();
}

/** What a command ends with. docs/contract.md has the same table for people and their scripts. */
export const EXIT = {
  done: 0,
  /** Refused, or could not be done, for a reason that has no code of its own. */
  failed: 1,
  usage: 2,
  /** A job failed, or the command of a datum. */
  jobFailed: 3,
  /** A datum that was run again made something else. */
  differs: 4,
  jobStopped: 5,
  timeIsUp: 6,
  /** What was named is not there. */
  absent: 7,
  /** No gateway answers, or it can't for the moment. */
  unreachable: 8,
  /** A disk has no room: the gateway's, or that of this machine. */
  diskFull: 9,
} as const;

/** Codes of failures that mean that something is not there, whoever noticed: the gateway, this program, the file system. */
const ABSENT = /^(NoSuch\w+|NotFound|NotKept|Http404|ENOENT)$/;
/** The same for a gateway that can't be reached. What fails on the way to it says so by itself. */
const UNREACHABLE = /^(Unavailable|ServiceUnavailable|SlowDown|Http50[234])$/;

/** The same for a full disk. */
const DISK_FULL = /^(StorageFull|ENOSPC|EDQUOT)$/;

/** The exit code of a failure, by its code. `NoSuchContent`: the upload lacks bytes, which is a fault of this program. */
export function exitCodeOf(code: string): number {
  if (code === "Usage") return EXIT.usage;
  if (code === "NoSuchContent") return EXIT.failed;
  if (ABSENT.test(code)) return EXIT.absent;
  if (DISK_FULL.test(code)) return EXIT.diskFull;
  return UNREACHABLE.test(code) ? EXIT.unreachable : EXIT.failed;
}
