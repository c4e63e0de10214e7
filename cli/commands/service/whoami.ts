import { WhoAmI } from "../../../protocol/keys.ts";
import type { Command } from "../../command.ts";
import { clientVariables, exportLines, openConnection } from "../../gateway/connection/connection.ts";
import type { ClientOptions } from "../../options.ts";
import { printJson, printLine, showRepos, showTime } from "../../output/output.ts";

export function addWhoAmI(program: Command): void {
  program
    .command("whoami")
    .summary("show which key commands use here, what it may do, and where it comes from")
    .description(
      "Shows the key that commands sign with, what it may do, and the gateway that they ask; of both, where they were read from: a variable, or the data folder of a gateway on this machine.",
    )
    .clientAction(async (client, options: ClientOptions) => {
      const { endpoint, endpointSource, keySource } = client.connection;
      const key = await client.get(WhoAmI, "/whoami");
      if (options.json) return printJson({ ...key, keySource, endpoint, endpointSource });
      printLine(`key        ${key.id} (from ${keySource})`);
      printLine(`level      ${key.level}`);
      printLine(`repos      ${key.level === "runner" ? "those of its leases" : showRepos(key.repos)}`);
      printLine(`pipelines  ${key.pipelines ? "creates, updates and starts them" : "no"}`);
      if (key.expiresAt !== undefined) printLine(`expires    ${showTime(key.expiresAt)}`);
      printLine(`gateway    ${endpoint} (from ${endpointSource})`);
    })
    .clientOptions("sluice whoami", "sluice whoami --json | jq -r .level");
}

export function addEnv(program: Command): void {
  program
    .command("env")
    .summary("print the variables that aws, boto3, rclone and sluice need")
    .description(
      "Prints exports of the endpoint and the key for sluice itself, for the AWS tools and SDKs, and for rclone (remote 'sluice:'). Tools older than AWS_ENDPOINT_URL (awscli 2.13, boto3 1.28) also need --endpoint-url \"$SLUICE_ENDPOINT\".",
    )
    .action((options: ClientOptions) => {
      const variables = clientVariables(openConnection(options));
      if (options.json) printJson(variables);
      else for (const line of exportLines(variables)) printLine(line);
    })
    .clientOptions('eval "$(sluice env)"', "sluice env --data /srv/sluice");
}
