import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { KeysImported, MAX_MOVED_KEYS } from "../../../protocol/keys.ts";
import { openArchive, type SealOptions } from "../../files/key-archive.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote } from "../../output/output.ts";
import { withSealOptions } from "./seal-options.ts";

/** `sluice key import` */
export function addKeyImport(group: Command): void {
  const command = group
    .command("import")
    .description(
      "Makes the access keys again that 'sluice key export' wrote, with the same ids and secrets, at the same gateway or at another one. Keys that are there stay as they are. Keys that have expired are not made, and are named. Keys that were deleted after the export work again: delete them anew.",
    )
    .argument("<file>", "what 'sluice key export' wrote")
    .action((file: string, options: ClientOptions & SealOptions) =>
      withClient(options, async (client) => {
        const { keys, openWith } = openArchive(readFileSync(file, "utf8"), { ...options, file });
        const all: KeysImported = { added: [], there: [], taken: [], refused: [], expired: [] };
        for (let from = 0; from < keys.length; from += MAX_MOVED_KEYS) {
          const json = { openWith, keys: keys.slice(from, from + MAX_MOVED_KEYS) };
          const page = await client.call(KeysImported, {
            ...{ method: "POST", path: "/keys/import", json, repeatable: true },
          });
          for (const what of ["added", "there", "taken", "refused", "expired"] as const)
            all[what].push(...page[what]);
        }
        if (options.json) printJson(all);
        else printLine(`${count(all.added.length, "key")} made, ${all.there.length} there already`);
        if (all.expired.length > 0) {
          const are = all.expired.length === 1 ? "has expired and was" : "have expired and were";
          printNote(`${count(all.expired.length, "key")} ${are} not made: ${all.expired.join(", ")}`);
        }
        const issues = [
          ...all.taken.map((path) => ({
            path,
            message: "there is another key of this id, which stays as it is",
          })),
          ...all.refused.map((path) => ({
            path,
            message: "says what this gateway does not know: update the gateway",
          })),
        ];
        if (issues.length === 0) return;
        throw new CliError(`${count(issues.length, "key")} could not be imported`, {
          code: "NotImported",
          issues,
        });
      }),
    );
  withClientOptions(
    withSealOptions(command),
    "sluice key import keys.json --passphrase-file passphrase",
    "sluice key import keys.json --key-file export.key",
  );
}
