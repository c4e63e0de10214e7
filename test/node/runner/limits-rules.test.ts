import { mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { reserveOf, sizeText } from "../../../runner/lib/sizes.ts";
import { makeAgentGroup } from "../../../runner/limits/agent-group.ts";
import { cgroupTrees, controllersFor, oomKillsIn, settingsFor } from "../../../runner/limits/cgroups.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";

const MIB = 1024 ** 2;

describe("where control groups are", () => {
  test("each controller of version 1 has a hierarchy of its own", () => {
    const trees = cgroupTrees({
      cgroup: "4:memory:/jobs/a\n8:pids:/\n9:name=systemd:/\n0::/\n",
      mountinfo: [
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755",
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory",
        "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids",
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
      ].join("\n"),
    });
    expect(trees).toEqual([
      {
        ...{ version: 1, points: ["/sys/fs/cgroup/memory"], controllers: ["memory"] },
        own: "/sys/fs/cgroup/memory/jobs/a",
      },
      { version: 1, points: ["/sys/fs/cgroup/pids"], own: "/sys/fs/cgroup/pids", controllers: ["pids"] },
      { version: 2, points: ["/sys/fs/cgroup/unified"], own: "/sys/fs/cgroup/unified", controllers: [] },
    ]);
  });

  test("version 2 has one hierarchy, and the group of the service is below it", () => {
    const cgroup = "0::/system.slice/sluice.service\n";
    const mountinfo = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    expect(cgroupTrees({ cgroup, mountinfo })).toEqual([
      {
        ...{ version: 2, points: ["/sys/fs/cgroup"], controllers: [] },
        own: "/sys/fs/cgroup/system.slice/sluice.service",
      },
    ]);
  });

  test("a container that sees only its own part, under odd names, finds its group", () => {
    const cgroup = "3:cpu,cpuacct:/docker/abc\n2:pids:/docker/abc\n";
    const mountinfo = [
      "35 24 0:30 /docker/abc /sys/fs/cgroup/cpu\\040own ro - cgroup cgroup rw,cpu,cpuacct",
      "36 24 0:31 /docker/other /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids",
    ].join("\n");
    const trees = cgroupTrees({ cgroup, mountinfo });
    expect(trees.map(({ own }) => own)).toEqual(["/sys/fs/cgroup/cpu own"]);
  });

  test("a group outside of what is mounted is none of ours", () => {
    const mountinfo = "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    expect(cgroupTrees({ cgroup: "0::/../../other\n", mountinfo })).toEqual([]);
    expect(cgroupTrees({ cgroup: "", mountinfo })).toEqual([]);
    expect(cgroupTrees({ cgroup: "0::/\n", mountinfo: "" })).toEqual([]);
  });
});

describe("what control groups are told", () => {
  const limits = { memoryBytes: 512 * MIB, cpus: 1.5, pids: 100, outBytes: 1 };

  test("only what has a limit needs a controller", () => {
    expect(controllersFor(limits)).toEqual(["memory", "cpu", "pids"]);
    expect(controllersFor({ outBytes: 1 })).toEqual([]);
    expect(settingsFor(2, { pids: 1 })).toEqual([]);
  });

  test("limits are written to the files of each version, and swap is no way around them", () => {
    const written = (version: 1 | 2) =>
      Object.fromEntries(settingsFor(version, limits).map(({ file, value }) => [file, value]));
    expect(written(1)).toEqual({
      "memory.limit_in_bytes": "536870912",
      "memory.memsw.limit_in_bytes": "536870912",
      "cpu.cfs_period_us": "100000",
      "cpu.cfs_quota_us": "150000",
    });
    expect(written(2)).toEqual({
      "memory.max": "536870912",
      "memory.swap.max": "0",
      "cpu.max": "150000 100000",
    });
  });

  test("kills for want of memory are counted from either version's file", () => {
    expect(oomKillsIn("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")).toBe(3);
    expect(oomKillsIn("low 0\nhigh 0\nmax 12\noom 4\noom_kill 2\noom_group_kill 0\n")).toBe(2);
    expect(oomKillsIn("oom_kill_disable 0\n")).toBe(0);
  });
});

describe("the agent's group of version 2", () => {
  let own: string;
  beforeEach(async () => {
    own = await mkdtemp(join(tmpdir(), "sluice-group-"));
    const files = {
      "cgroup.type": "domain\n",
      "cgroup.subtree_control": "\n",
      "cgroup.procs": "71\n72\n0\n",
    };
    for (const [name, text] of Object.entries(files)) await writeFile(join(own, name), text);
  });
  afterEach(() => removeTree(own));

  const tree = () => ({ version: 2 as const, points: [], own, controllers: [] });
  const read = (path: string) => readFile(join(own, path), "utf8");

  test("the processes that were there make room, before its children are bounded", async () => {
    const group = await makeAgentGroup(tree(), { controllers: ["memory", "pids"], agent: "5-6-x" });
    expect(group).toBe(join(own, "sluice-5-6-x"));
    expect(await read("sluice.main/cgroup.procs")).toBe("72");
    expect(await read("cgroup.subtree_control")).toBe("+memory +pids");
    expect(await read("sluice-5-6-x/cgroup.subtree_control")).toBe("+memory +pids");
  });

  test("an agent that finds it made changes nothing more, wherever it is", async () => {
    await writeFile(join(own, "cgroup.subtree_control"), "cpu memory pids\n");
    await mkdir(join(own, "sluice.main"));
    const inner = { ...tree(), own: join(own, "sluice.main") };
    expect(await makeAgentGroup(inner, { controllers: ["memory"], agent: "5-6-x" })).toBe(
      join(own, "sluice-5-6-x"),
    );
    expect(await readdir(join(own, "sluice.main"))).toEqual([]);
  });

  test("the root of all keeps its processes", async () => {
    const root = { ...tree(), own: join(own, "root") };
    await mkdir(root.own);
    await writeFile(join(root.own, "cgroup.subtree_control"), "");
    await makeAgentGroup(root, { controllers: ["pids"], agent: "5-6-x" });
    expect((await readdir(root.own)).sort()).toEqual(["cgroup.subtree_control", "sluice-5-6-x"]);
  });
});

describe("sizes", () => {
  test("are said as people say them", () => {
    const texts = [1, 1023, 1024, 1536, 10 * 1024 ** 3, 5000, 1.5 * 1024 ** 4].map(sizeText);
    expect(texts).toEqual(["1 B", "1023 B", "1 KiB", "1.5 KiB", "10 GiB", "4.8 KiB", "1.5 TiB"]);
  });

  test("what stays free of a disk is a small part of it", () => {
    expect(reserveOf(100 * 1024 ** 3)).toBe(1024 ** 3);
    expect(reserveOf(10 * 1024 ** 3)).toBe(256 * MIB);
    expect(reserveOf(400 * MIB)).toBe(100 * MIB);
    expect(reserveOf(10 * 1024 ** 4)).toBe(4096 * MIB);
  });
});
