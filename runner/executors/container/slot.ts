import { readdirSync, renameSync, rmdirSync, symlinkSync, unlinkSync } from "node:fs";
import { chmod, mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { childPath } from "../../pfs/raw-path.ts";

/**
 * The folder that a worker's container sees as `/pfs`, read-only but for `out`, and into which each datum's own is
 * moved while its command runs: what a container has mounted can't be replaced, what is in it can.
 *
 * Meanwhile links stand where the datum's folders were, so that every path below them holds: those by which lazy
 * inputs are served, and `out`, whose size is watched. Each change is made without giving way to anybody else in
 * this process, so that nobody finds a path that is neither.
 */
export class Slot {
  readonly dir: string;
  readonly out: string;
  readonly #taken: string;

  private constructor(base: string) {
    this.dir = join(base, "pfs");
    this.out = join(this.dir, "out");
    this.#taken = join(base, "taken");
  }

  /** `base` is a folder of its own, that is there and empty. */
  static async make(base: string): Promise<Slot> {
    const slot = new Slot(base);
    await mkdir(slot.out, { recursive: true });
    await chmod(slot.dir, 0o755);
    await slot.#reopen();
    return slot;
  }

  /** Moves what is in the datum's folder in. */
  async enter(pfs: string): Promise<Stay> {
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
    return { leave: () => this.#leave(pfs, names) };
  }

  /** Moves it back, with what the command left in `out`. From then on the slot is empty. */
  async #leave(pfs: string, names: readonly string[]): Promise<void> {
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

  /** For every user that a container may have, whatever the command before made of it. */
  async #reopen(): Promise<void> {
    await chmod(this.out, 0o777);
  }
}

/** A datum's stay in a slot. */
export interface Stay {
  /** Fails where something in `out` is not ours to move. Nothing may write to it any more. */
  leave(): Promise<void>;
}
