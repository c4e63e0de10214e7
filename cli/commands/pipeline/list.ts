import type { Command } from "commander";
import { PipelineList } from "../../../protocol/pipelines.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printTable, showTime } from "../../output/output.ts";

/** `sluice pipeline list` */
export function addPipelineList(group: Command): void {
  const command = group
    .command("list")
    .description("Lists all pipelines.")
    .action((options: ClientOptions) =>
      withClient(options, async (client) => {
        const list = await client.call(PipelineList, { method: "GET", path: "/pipelines" });
        if (options.json) return printJson(list);
        const rows = list.pipelines.map(({ name, state, inputs, output, createdAt, description }) => [
          name,
          state,
          inputs.join(" "),
          output,
          showTime(createdAt),
          description ?? "",
        ]);
        printTable([["NAME", "STATE", "INPUTS", "OUTPUT", "CREATED", "DESCRIPTION"], ...rows]);
      }),
    );
  withClientOptions(command, "sluice pipeline list", "sluice pipeline list --json | jq '.pipelines[].name'");
}
