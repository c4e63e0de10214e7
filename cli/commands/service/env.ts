import type { Command } from "commander";
import { clientVariables, exportLines } from "../../gateway/connection/client-variables.ts";
import type { Connection } from "../../gateway/connection/connection.ts";
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
      const variables = clientVariables(connectionFor(options));
      if (options.json) printJson(variables);
      else for (const line of exportLines(variables)) printLine(line);
    });
  withClientOptions(command, 'eval "$(sluice env)"', "sluice env --data /srv/sluice");
}

/**
 * To evaluate nothing is a success in a shell: what follows `eval "$(sluice env)" &&` would go to the gateway that was named
 * before. So a failure has a line, too, which fails.
 */
function connectionFor(options: ClientOptions): Connection {
  try {
    return openConnection(options);
  } catch (error) {
    if (!options.json && !process.stdout.isTTY) printLine("false");
    throw error;
  }
}
