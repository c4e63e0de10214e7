import type { Command } from "commander";
import { type Connection, findConnection } from "../../gateway/connection.ts";
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
      const variables = clientVariables(findConnection({ dataDir: options.data, env: process.env }));
      if (options.json) printJson(variables);
      else
        for (const [name, value] of Object.entries(variables)) printLine(`export ${name}=${quoted(value)}`);
    });
  withClientOptions(command, 'eval "$(sluice env)"', "sluice env --data /srv/sluice");
}

function clientVariables({ endpoint, accessKeyId, secretAccessKey }: Connection): Record<string, string> {
  return {
    SLUICE_ENDPOINT: endpoint,
    SLUICE_ACCESS_KEY_ID: accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_ENDPOINT_URL: endpoint,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    // Any region will do, but the tools want one.
    AWS_DEFAULT_REGION: "us-east-1",
    AWS_REGION: "us-east-1",
    RCLONE_CONFIG_SLUICE_TYPE: "s3",
    RCLONE_CONFIG_SLUICE_PROVIDER: "Other",
    RCLONE_CONFIG_SLUICE_ENDPOINT: endpoint,
    RCLONE_CONFIG_SLUICE_ACCESS_KEY_ID: accessKeyId,
    RCLONE_CONFIG_SLUICE_SECRET_ACCESS_KEY: secretAccessKey,
  };
}

/** For a POSIX shell. */
function quoted(value: string): string {
  return /^[A-Za-z0-9_./:@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
