import { constants } from "node:fs";
import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Slot } from "../../../../runner/executors/container/slot.ts";
import { childPath } from "../../../../runner/pfs/raw-path.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";

describe("the folder that a worker's container has as /pfs", () => {
  let dir: string;
  let slot: Slot;

  beforeEach(async () => {
    dir = await realpath(await mkdtemp(join(tmpdir(), "sluice slot ")));
    await mkdir(join(dir, "base"));
    slot = await Slot.make(join(dir, "base"));
  });
  afterEach(() => removeTree(dir));

  async function datum(name: string): Promise<string> {
    const pfs = join(dir, name);
    await mkdir(join(pfs, "in/deep"), { recursive: true });
    await mkdir(join(pfs, "out"));
    await writeFile(join(pfs, "in/deep/file"), name);
    return pfs;
  }

  test("shows the datum's inputs and what it has in out while it stays, and nothing after", async () => {
    const pfs = await datum("one");
    await writeFile(join(pfs, "out/given"), "x");
    const stay = await slot.enter(pfs);
    expect((await readdir(slot.dir)).sort()).toEqual(["in", "out"]);
    expect(await readFile(join(slot.dir, "in/deep/file"), "utf8")).toBe("one");
    expect(await readdir(slot.out)).toEqual(["given"]);
    await stay.leave();
    expect(await readdir(slot.dir)).toEqual(["out"]);
    expect(await readdir(slot.out)).toEqual([]);
    expect(await readFile(join(pfs, "in/deep/file"), "utf8")).toBe("one");
    expect(await readdir(join(pfs, "out"))).toEqual(["given"]);
  });

  test("the datum's own paths hold while it stays, also for what is replaced meanwhile", async () => {
    const pfs = await datum("one");
    const stay = await slot.enter(pfs);
    await writeFile(join(dir, "fresh"), "fresh");
    await rename(join(dir, "fresh"), join(pfs, "in/deep/file"));
    expect(await readFile(join(slot.dir, "in/deep/file"), "utf8")).toBe("fresh");
    await writeFile(join(slot.out, "made"), "y");
    expect(await readdir(join(pfs, "out"))).toEqual(["made"]);
    await stay.leave();
    expect(await readFile(join(pfs, "in/deep/file"), "utf8")).toBe("fresh");
    expect((await stat(join(pfs, "out"))).isDirectory()).toBe(true);
    expect(await readFile(join(pfs, "out/made"), "utf8")).toBe("y");
  });

  test("what a container has mounted stays: the folder and out are the same for every datum", async () => {
    const inodes = async () => [(await stat(slot.dir)).ino, (await stat(slot.out)).ino];
    const before = await inodes();
    for (const name of ["one", "two"]) await (await slot.enter(await datum(name))).leave();
    expect(await inodes()).toEqual(before);
  });

  test("hands over names of any bytes, links and pipes as they are", async () => {
    const pfs = await datum("one");
    const stay = await slot.enter(pfs);
    const odd = Buffer.from([0x2d, 0xff, 0x0a, 0xe9]).toString("latin1");
    await (await open(childPath(slot.out, odd), constants.O_CREAT | constants.O_WRONLY)).close();
    await symlink("/etc/shadow", join(slot.out, "link"));
    await stay.leave();
    expect(await readdir(join(pfs, "out"), { encoding: "latin1" })).toEqual(
      expect.arrayContaining([odd, "link"]),
    );
    expect(await readdir(slot.out)).toEqual([]);
  });

  test("is open to every user again, whatever a command made of it", async () => {
    const stay = await slot.enter(await datum("one"));
    await chmod(slot.out, 0o500);
    await stay.leave();
    expect((await stat(slot.out)).mode & 0o7777).toBe(0o777);
    expect((await stat(slot.dir)).mode & 0o7777).toBe(0o755);
  });

  test("a datum that is not there can't enter, and changes nothing", async () => {
    await expect(slot.enter(join(dir, "nowhere"))).rejects.toThrow("ENOENT");
    expect(await readdir(slot.dir)).toEqual(["out"]);
  });
});
