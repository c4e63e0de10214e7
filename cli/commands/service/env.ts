import type { Command } from "commander";
import { clientVariables, exportLines } from "../../gateway/connection/client-variables.ts";
import { openConnection } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice env` */
export function addEnv(program: Command): void {
  const command = program
    .command("env")
    .summary("print the variables that aws, boto3, rclone and sluice need")
    .description(
      "Prints exports of the endpoint and the key for sluice itself, for the AWS tools and SDKs, and for rclone (remote 'sluice:'). Tools older than AWS_ENDPOINT_URL (awscli 2.13, boto3 1.28) also need --endpoint-url \"$SLUICE_ENDPOINT\".",
    )
    .action((options: ClientOptions) => {
      const variables = clientVariables(openConnection(options));
      if (options.json) printJson(variables);
      else for (const line of exportLines(variables)) printLine(line);
    });
  withClientOptions(command, 'eval "$(sluice env)"', "sluice env --data /srv/sluice");
}
