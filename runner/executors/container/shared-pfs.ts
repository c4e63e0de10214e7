import { readdirSync, renameSync, rmdirSync, symlinkSync, unlinkSync } from "node:fs";
import { chmod, mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { childPath } from "../../pfs/raw-path.ts";

/**
 * The folder that a worker's container has as `/pfs`, read-only but for `out`, for all its commands: what a container
 * has mounted can't be replaced, but what is in it can. Each datum's own `/pfs` is moved in while its command runs.
 *
 * Meanwhile links stand in place of the datum's folders, so that every path below them holds: lazy inputs are served by
 * such paths, and the size of `out` is watched by one. Each change is synchronous, so that nobody in this process
 * finds a path that is neither a folder nor a link.
 */
export class SharedPfs {
  readonly dir: string;
  readonly out: string;
  readonly #taken: string;

  private constructor(base: string) {
    this.dir = join(base, "pfs");
    this.out = join(this.dir, "out");
    this.#taken = join(base, "taken");
  }

  /** `base`: an empty folder for it alone. */
  static async make(base: string): Promise<SharedPfs> {
    const folder = new SharedPfs(base);
    await mkdir(folder.out, { recursive: true });
    await chmod(folder.dir, 0o755);
    await folder.#reopen();
    return folder;
  }

  /** Moves in what the datum's folder holds. */
  async moveIn(pfs: string): Promise<MovedIn> {
    const out = join(pfs, "out");
    for (const name of await readdir(out, { encoding: "latin1" })) {
      await rename(childPath(out, name), childPath(this.out, name));
    }
    const names = readdirSync(pfs).filter((name) => name !== "out");
    for (const name of names) {
      renameSync(join(pfs, name), join(this.dir, name));
      symlinkSync(join(this.dir, name), join(pfs, name));
    }
    rmdirSync(out);
    symlinkSync(this.out, out);
    return { moveBack: () => this.#moveBack(pfs, names) };
  }

  /** Moves it back, with what the command left in `out`. This folder is then empty. */
  async #moveBack(pfs: string, names: readonly string[]): Promise<void> {
    await mkdir(this.#taken);
    await chmod(this.out, 0o700);
    for (const name of await readdir(this.out, { encoding: "latin1" })) {
      await rename(childPath(this.out, name), childPath(this.#taken, name));
    }
    for (const name of names) {
      unlinkSync(join(pfs, name));
      renameSync(join(this.dir, name), join(pfs, name));
    }
    unlinkSync(join(pfs, "out"));
    renameSync(this.#taken, join(pfs, "out"));
    await this.#reopen();
  }

  /** Opens `out` to every user that a container may have, whatever the command before made of it. */
  async #reopen(): Promise<void> {
    await chmod(this.out, 0o777);
  }
}

/** A datum whose folders were moved in. */
export interface MovedIn {
  /** Nothing may write to `out` any more. Fails if something in it is not ours to move. */
  moveBack(): Promise<void>;
}
