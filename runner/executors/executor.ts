import { constants } from "node:os";
import type { LogStream } from "../../protocol/runner.ts";
import type { SecretMount } from "../../protocol/spec.ts";
import type { Limits } from "../limits/limits.ts";
import type { Secret } from "../secrets/source.ts";

/** Values of `--executor`; "auto" is the first container engine that answers here. */
export const EXECUTORS = ["auto", "process", "docker", "podman"] as const;
export type ExecutorChoice = (typeof EXECUTORS)[number];

/** What of a runner's settings is about how commands are run on its machine. */
export interface ExecutorSettings {
  /** Unique in the cluster: two agents of one name count as one node. */
  readonly node: string;
  readonly executor: ExecutorChoice;
  /**
   * What becomes of a runner if no engine answers at the start. `wait`: it starts and goes on looking, and its jobs say so.
   * `process`: "auto" takes processes; they have far more of the machine than containers, so somebody must have said that they
   * will do. Absent: it does not start.
   */
  readonly withoutEngine?: "process" | "wait" | undefined;
  /** The network that containers are given, as the engine names it, such as `none`. Absent: the engine's default. */
  readonly network?: string | undefined;
  /** Absolute path of the folder for the cache and the datums at work. Agents may share it. */
  readonly dataDir: string;
  /** Folders and files of this machine that commands which run as processes do not see, besides what no command sees. Absolute paths. */
  readonly hidden?: readonly string[] | undefined;
  /** Devices of this machine that commands which run as processes see, besides those that every command sees. */
  readonly devices?: readonly string[] | undefined;
  /** For each worker. */
  readonly limits: Limits;
}

/** The name of an executor that has no engine yet, as lists of nodes show it. */
export const NO_ENGINE = "none";

/** Nothing on this machine can run commands; the message says what to install. */
export class NoExecutorError extends Error {
  override readonly name: string = "NoExecutorError";
}

/** "auto" found no container engine, and was not told that it may take processes; the message says what was tried. */
export class NoEngineError extends NoExecutorError {
  override readonly name = "NoEngineError";
}

/**
 * A condition of this node because of which commands can't be run just now, through no fault of theirs: the image can't be
 * pulled, the engine is away. The message is its reason for people, in the words of the registry or engine. The worker
 * gives its datums back, reports the condition, and tries again.
 */
export class NodeCondition extends Error {
  override readonly name = "NodeCondition";
}

/** A way to run the commands of datums, each with its own `/pfs`. One conformance suite tests them all. */
export interface Executor {
  /** What the node's list shows. */
  readonly name: string;
  /** Makes ready what the datums of one worker share. Throws NodeCondition, and what `signal` is aborted with. */
  prepare(request: PrepareRequest): Promise<Sandbox>;
  /** Lets go of what its sandboxes shared. Close them before. */
  close(): Promise<void>;
}

export interface PrepareRequest {
  /** A folder of the worker's own, that is there and empty. */
  readonly dir: string;
  /** The image that commands run in, if the executor has images. */
  readonly image: string;
  /** The pipeline that it is for, for people who look at what the engine runs. */
  readonly pipeline: string;
  /** Secrets (`.dockerconfigjson`) whose keys may be used to pull the image, in this order. */
  readonly pullSecrets: readonly NamedSecret[];
  readonly signal: AbortSignal;
}

/** A secret under its name. */
export interface NamedSecret {
  readonly name: string;
  readonly secret: Secret;
}

/** Runs one worker's commands, one at a time. */
export interface Sandbox {
  /**
   * Runs a command to its end. When this returns, none of its processes is left, not in the background either. An abort
   * kills them all. Throws NodeCondition if the engine is away; other errors only if the executor itself is broken.
   */
  run(command: Command): Promise<Run>;
  close(): Promise<void>;
}

/** Takes what came on a stream. Must not throw, and not wait. The bytes are only good during the call: their memory is used again. */
export type TakeOutput = (bytes: Buffer, stream: LogStream) => void;

export interface Command {
  /** The folder that is `/pfs`: read-only but for `out` in it. */
  readonly pfs: string;
  /** Executed as it is, without a shell. */
  readonly cmd: readonly string[];
  /** The folder in which it starts: an absolute path, as the command sees it. Absent: that of the image, else `/`. */
  readonly workingDir?: string;
  /** What the command reads; null is nothing. */
  readonly stdin: string | null;
  /** All of its environment; if the executor has images, over that of the image. */
  readonly env: Readonly<Record<string, string>>;
  /** Names of `env` whose values are this machine's and mean nothing in an image: PATH, HOME. */
  readonly machineEnv?: readonly string[];
  /** Shown to the command read-only, and kept in memory alone. */
  readonly secrets?: readonly MountedSecret[];
  /** Given what the command writes on stdout and stderr as it comes, in the order of each of them. */
  readonly onOutput?: TakeOutput;
  /** Its stderr is its stdout: all that it writes comes in order, as stdout. Without a shell in its image the order is the engine's. */
  readonly joined?: boolean | undefined;
  /** Told in which image it runs, if the executor has images: by the digest in its registry, or by its id. */
  readonly onImage?: (image: string) => void;
  /** It runs on the terminal of this process, for a person: `stdin` and `onOutput` are not used, and the run has no log. */
  readonly terminal?: boolean;
  readonly signal: AbortSignal;
}

/** A secret and the folder that shows it, each key as a file. */
export interface MountedSecret extends Readonly<SecretMount> {
  readonly secret: Secret;
}

export type Run =
  /** `code` is 128 + n if signal n killed the command, as shells and container engines have it. */
  | {
      readonly kind: "exited";
      readonly code: number;
      readonly log: string;
      /** What made it end so, if more is known than the code tells: it ran out of memory. Does not matter if the code counts as a success. */
      readonly cause?: string;
      /** Why the datum has failed, whatever the code: it wrote more than it may. */
      readonly fault?: string;
      /** Whose the fault or the cause is. Absent: the command's. */
      readonly failureClass?: "node";
    }
  | {
      readonly kind: "not-started";
      readonly reason: string;
      readonly log: string;
      /** Every datum of the job would fail the same way. */
      readonly hopeless?: true;
    };

/** The code of a command that was killed. */
export const KILLED = 128 + constants.signals.SIGKILL;

/** Why a command could not be started. */
export function noFolder(workingDir: string): string {
  return `the working directory "${workingDir}" is not there or can't be entered`;
}

export function noCommand(name: string): string {
  return `the command "${name}" was not found or can't be executed`;
}

/** Why processes can't be given a network. */
export function noNetwork(network: string): string {
  return `--network is "${network}", but commands that run as processes have this machine's network: take --executor docker or podman, or leave it out`;
}

/** Why containers can't be given devices. */
export function noDevices(devices: readonly string[]): string {
  return `--device is "${devices.join('", "')}", but containers get no devices of this machine: take --executor process, or leave it out`;
}
