import type { Command } from "commander";
import { addTagCreate } from "./create.ts";
import { addTagDelete } from "./delete.ts";
import { addTagList } from "./list.ts";

/** `sluice tag …` */
export function addTag(program: Command): void {
  const group = program
    .command("tag")
    .summary("create, list, delete names of commits")
    .helpCommand(false)
    .description(
      "Tags: names of commits. What a commit held is read by any S3 tool in the bucket s3://<tag>.<branch>.<repo>, which is read-only.",
    );
  for (const add of [addTagCreate, addTagList, addTagDelete]) add(group);
}
