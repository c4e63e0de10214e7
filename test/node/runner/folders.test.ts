import { chmod, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { closeAgentFolders, openAgentFolders } from "../../../runner/pfs/folders.ts";
import { scratchFolder } from "../../support/scratch.ts";

test("a node keeps its folders to its owner, also in a folder that others may look into", async () => {
  const dataDir = scratchFolder();
  await mkdir(join(dataDir, "cache"));
  for (const folder of [dataDir, join(dataDir, "cache")]) await chmod(folder, 0o755);
  const folders = await openAgentFolders(dataDir);
  for (const folder of [folders.cache, join(folders.agent, "..")])
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect((await stat(dataDir)).mode & 0o777).toBe(0o755);
  await closeAgentFolders(folders);
});
