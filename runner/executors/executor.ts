import type { SecretMount } from "../../protocol/spec.ts";
import type { Secret } from "../secrets/source.ts";

/** A way to run the commands of datums, each with its own `/pfs`. What one does, a conformance suite holds all to. */
export interface Executor {
  /** What the node's list shows. */
  readonly name: string;
  /** Makes ready what the datums of one worker share. */
  prepare(request: PrepareRequest): Promise<Sandbox>;
  /** Lets go of what its sandboxes shared. They are closed before. */
  close(): Promise<void>;
}

export interface PrepareRequest {
  /** A folder of the worker's own, that is there and empty. */
  readonly dir: string;
  /** The image that commands run in, where the executor has images. */
  readonly image: string;
}

/** Where one worker's commands run, one at a time. */
export interface Sandbox {
  /**
   * Runs a command to its end. When this answers, none of its processes is left, not in the background either.
   * An abort kills them all. Throws only where the executor itself is broken.
   */
  run(command: Command): Promise<Run>;
  close(): Promise<void>;
}

export interface Command {
  /** The folder that is `/pfs`: read-only but for `out` in it. */
  readonly pfs: string;
  /** Executed as it is, without a shell. */
  readonly cmd: readonly string[];
  /** Where it starts: an absolute path, as the command sees it; `/` where absent. */
  readonly workingDir?: string;
  /** What the command reads; null is nothing. */
  readonly stdin: string | null;
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Shown to the command read-only, and kept in memory alone. */
  readonly secrets?: readonly MountedSecret[];
  readonly signal: AbortSignal;
}

/** A secret and the folder that shows it, each key as a file. */
export interface MountedSecret extends Readonly<SecretMount> {
  readonly secret: Secret;
}

export type Run =
  /** `code` is 128 + n where signal n killed the command: shells and container engines say it so too. */
  | { readonly kind: "exited"; readonly code: number; readonly log: string }
  | {
      readonly kind: "not-started";
      readonly reason: string;
      readonly log: string;
      /** It would be the same for every datum of the job. */
      readonly hopeless?: true;
    };
