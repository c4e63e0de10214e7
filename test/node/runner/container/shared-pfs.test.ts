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
import { SharedPfs } from "../../../../runner/executors/container/shared-pfs.ts";
import { childPath } from "../../../../runner/pfs/raw-path.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";

describe("the folder that a worker's container has as /pfs", () => {
  let dir: string;
  let shared: SharedPfs;

  beforeEach(async () => {
    dir = await realpath(await mkdtemp(join(tmpdir(), "sluice pfs ")));
    await mkdir(join(dir, "base"));
    shared = await SharedPfs.make(join(dir, "base"));
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
    const moved = await shared.moveIn(pfs);
    expect((await readdir(shared.dir)).sort()).toEqual(["in", "out"]);
    expect(await readFile(join(shared.dir, "in/deep/file"), "utf8")).toBe("one");
    expect(await readdir(shared.out)).toEqual(["given"]);
    await moved.moveBack();
    expect(await readdir(shared.dir)).toEqual(["out"]);
    expect(await readdir(shared.out)).toEqual([]);
    expect(await readFile(join(pfs, "in/deep/file"), "utf8")).toBe("one");
    expect(await readdir(join(pfs, "out"))).toEqual(["given"]);
  });

  test("the datum's own paths hold while it stays, also for what is replaced meanwhile", async () => {
    const pfs = await datum("one");
    const moved = await shared.moveIn(pfs);
    await writeFile(join(dir, "fresh"), "fresh");
    await rename(join(dir, "fresh"), join(pfs, "in/deep/file"));
    expect(await readFile(join(shared.dir, "in/deep/file"), "utf8")).toBe("fresh");
    await writeFile(join(shared.out, "made"), "y");
    expect(await readdir(join(pfs, "out"))).toEqual(["made"]);
    await moved.moveBack();
    expect(await readFile(join(pfs, "in/deep/file"), "utf8")).toBe("fresh");
    expect((await stat(join(pfs, "out"))).isDirectory()).toBe(true);
    expect(await readFile(join(pfs, "out/made"), "utf8")).toBe("y");
  });

  test("what a container has mounted stays: the folder and out are the same for every datum", async () => {
    const inodes = async () => [(await stat(shared.dir)).ino, (await stat(shared.out)).ino];
    const before = await inodes();
    for (const name of ["one", "two"]) await (await shared.moveIn(await datum(name))).moveBack();
    expect(await inodes()).toEqual(before);
  });

  test("hands over names of any bytes, links and pipes as they are", async () => {
    const pfs = await datum("one");
    const moved = await shared.moveIn(pfs);
    const odd = Buffer.from([0x2d, 0xff, 0x0a, 0xe9]).toString("latin1");
    await (await open(childPath(shared.out, odd), constants.O_CREAT | constants.O_WRONLY)).close();
    await symlink("/etc/shadow", join(shared.out, "link"));
    await moved.moveBack();
    expect(await readdir(join(pfs, "out"), { encoding: "latin1" })).toEqual(
      expect.arrayContaining([odd, "link"]),
    );
    expect(await readdir(shared.out)).toEqual([]);
  });

  test("is open to every user again, whatever a command made of it", async () => {
    const moved = await shared.moveIn(await datum("one"));
    await chmod(shared.out, 0o500);
    await moved.moveBack();
    expect((await stat(shared.out)).mode & 0o7777).toBe(0o777);
    expect((await stat(shared.dir)).mode & 0o7777).toBe(0o755);
  });

  test("a datum that is not there can't enter, and changes nothing", async () => {
    await expect(shared.moveIn(join(dir, "nowhere"))).rejects.toThrow("ENOENT");
    expect(await readdir(shared.dir)).toEqual(["out"]);
  });
});
