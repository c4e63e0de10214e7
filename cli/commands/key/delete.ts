import type { Command } from "commander";
import type { Issue } from "../../../protocol/errors.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { type Client, GatewayError } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

/** `sluice key delete` */
export function addKeyDelete(group: Command): void {
  const command = group
    .command("delete")
    .description(
      "Deletes access keys: what is signed with them is refused a few seconds later at the latest.",
    )
    .argument("<id...>", "ids of keys, as 'sluice key list' shows them")
    .action((ids: readonly string[], options: ClientOptions) =>
      withClient(options, async (client) => {
        const { deleted, failures } = await deleteKeys(client, [...new Set(ids)]);
        if (options.json) printJson({ deleted });
        else for (const id of deleted) printLine(`deleted ${id}`);
        if (failures.length === 0) return;
        throw new CliError(`${count(failures.length, "key")} could not be deleted`, {
          code: "NotDeleted",
          issues: failures,
        });
      }),
    );
  withClientOptions(
    command,
    "sluice key delete SLUICE0123456789ABCD",
    "sluice key delete --json SLUICE0123456789ABCD SLUICEFEDCBA98765432",
  );
}

interface Deletions {
  readonly deleted: readonly string[];
  readonly failures: readonly Issue[];
}

/** One that can't be deleted must not keep the others alive; what is wrong with all of them ends it. */
async function deleteKeys(client: Client, ids: readonly string[]): Promise<Deletions> {
  const deleted: string[] = [];
  const failures: Issue[] = [];
  for (const id of ids) {
    try {
      const answer = await client.send({ method: "DELETE", path: `/api/v1/keys/${encodePath(id)}` });
      await answer.body.dump();
      deleted.push(id);
    } catch (error) {
      if (!(error instanceof GatewayError) || ![400, 404].includes(error.status)) throw error;
      failures.push({ path: id, message: error.message });
    }
  }
  return { deleted, failures };
}
