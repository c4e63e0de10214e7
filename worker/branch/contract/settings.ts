import type { CatalogueFault } from "../../core/catalogue-fault.ts";
import type { CorsRule } from "../../core/cors.ts";
import type { LifecycleRule } from "../../core/lifecycle-rules.ts";
import type { Done, Protected, Refused, Writer } from "./answers.ts";

/** What a branch is set to. */
export interface SettingsCalls {
  /** What the branch is set to. */
  read(): Promise<BranchSettings | Refused<"no-such-branch" | "forking">>;
  /**
   * Sets what is asked. What shuts somebody out holds from now on. What lets somebody in is known to the catalogue before
   * this returns; `catalogue-unavailable`: it will be told later, ask again. `catalogue-outdated`, `other-family`: nothing was set.
   */
  change(
    change: SettingsChange,
  ): Promise<
    | Done
    | Protected
    | Refused<"no-such-branch" | "forking" | "not-its-output" | "pipeline-output" | CatalogueFault>
  >;
}

/** What a branch is set to; its deletion ends that. */
export interface BranchSettings {
  readonly ok: true;
  readonly public: boolean;
  /** In order; null if there are none. */
  readonly cors: readonly CorsRule[] | null;
  /** Null: it is not protected. */
  readonly writer: Writer | null;
  /** Null: there are none. */
  readonly lifecycle: Lifecycle | null;
  /** Null: all of its history stays. */
  readonly keep: Keep | null;
  /** Whose time Last-Modified is; null: as each read asks. */
  readonly modified: ModifiedOf | null;
  /** While HEAD has a file, only a deletion takes it that says so (`withFiles`). */
  readonly emptyOnly: boolean;
  /** What is read of the newest state may be some seconds old, near the reader (worker/near-files.ts). */
  readonly nearReads: boolean;
}

/**
 * How much of the history stays at least: the newest commits, and those that were replaced less than so many days ago. One
 * of them at least, each at least 1; a commit stays while either says so.
 */
export interface Keep {
  readonly commits?: number;
  readonly days?: number;
}

/** Lifecycle rules, and the key that put them: what expires by them is deleted as by that key. */
export interface Lifecycle {
  readonly rules: readonly LifecycleRule[];
  readonly key?: string;
}

/**
 * What is absent stays as it is. `not-its-output`: the pipeline that alone is to write has no claim on the branch.
 * `pipeline-output`: a key is to write, or files are to expire, where a pipeline's jobs write. `protected`: files are to
 * expire, as deleted by a key that may not write.
 */
export type SettingsChange = Partial<Omit<BranchSettings, "ok">>;

/** The branch's newest commit (or the asked one), or the commit that wrote the file. */
export type ModifiedOf = "branch" | "file";
