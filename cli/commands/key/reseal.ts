import type { Command } from "commander";
import { KeysResealed } from "../../../protocol/keys.ts";
import type { Client } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

/** `sluice key reseal` */
export function addKeyReseal(group: Command): void {
  const command = group
    .command("reseal")
    .description(
      "Encrypts the secrets of the access keys with the gateway's SLUICE_ENCRYPTION_KEY, after that was changed, and says whether SLUICE_ENCRYPTION_KEY_PREVIOUS is still needed. The keys work meanwhile. It may be run again at any time.",
    )
    .action((options: ClientOptions) =>
      withClient(options, async (client) => {
        const { checked, resealed, unreadable } = await resealAll(client);
        if (options.json) printJson({ checked, resealed, unreadable });
        else if (unreadable.length === 0) {
          printLine(`${count(checked, "key")} checked, ${resealed.length} encrypted anew`);
          printLine("SLUICE_ENCRYPTION_KEY_PREVIOUS is not needed any more");
        }
        if (unreadable.length === 0) return;
        throw new CliError(
          `${count(unreadable.length, "key")} of ${checked} can't be opened with any encryption key that the gateway has: set SLUICE_ENCRYPTION_KEY_PREVIOUS to the one that ${unreadable.length === 1 ? "it was" : "they were"} made with, or delete ${unreadable.length === 1 ? "it" : "them"}`,
          { code: "NotResealed", issues: unreadable.map((id) => ({ path: id, message: "can't be opened" })) },
        );
      }),
    );
  withClientOptions(command, "sluice key reseal", "sluice key reseal --json | jq .resealed");
}

async function resealAll(client: Client): Promise<Omit<KeysResealed, "next">> {
  const all = { checked: 0, resealed: [] as string[], unreadable: [] as string[] };
  let after: string | null | undefined;
  while (after !== null) {
    const page: KeysResealed = await client.call(KeysResealed, {
      ...{ method: "POST", path: "/keys/reseal", query: { after }, repeatable: true },
    });
    all.checked += page.checked;
    all.resealed.push(...page.resealed);
    all.unreadable.push(...page.unreadable);
    after = page.next;
  }
  return all;
}
