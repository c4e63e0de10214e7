import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findDevices } from "../../../runner/executors/process/machine.ts";
import { scratchFolder } from "../../support/scratch.ts";

test.skipIf(process.getuid?.() !== 0)(
  "root: GPUs and what is asked for are found, and no block device, whatever its name",
  async () => {
    const folder = scratchFolder();
    const at = (name: string) => join(folder, name);
    const node = (name: string, kind: "b" | "c") =>
      execFileSync("mknod", [at(name), kind, ...(kind === "c" ? ["1", "3"] : ["7", "0"])]);
    for (const name of ["nvidia0", "nvidiactl", "nvidia-uvm", "kfd", "mem", "kvm", "fuse", "nvme0"])
      node(name, "c");
    for (const name of ["nvidia-disk", "sda", "fuse2"]) node(name, "b");
    for (const name of ["dri", "nvidia-caps", "mapper", "disk"]) mkdirSync(at(name));
    symlinkSync("sda", at("nvidia-link"));
    writeFileSync(at("nvidia-file"), "");
    const gpus = ["kfd", "nvidia-uvm", "nvidia0", "nvidiactl"];
    const folders = ["dri", "nvidia-caps"];
    const find = (wanted: string[], hidden: string[] = []) => findDevices({ wanted, hidden, folder });
    expect(await find([])).toEqual({ folders, files: gpus });
    expect(await find(["kvm", "sda", "none"])).toEqual({ folders, files: ["kfd", "kvm", ...gpus.slice(1)] });
    expect(await find(["fuse"], [at("dri"), at("kfd")])).toEqual({
      folders: ["nvidia-caps"],
      files: ["fuse", ...gpus.slice(1)],
    });
  },
);
