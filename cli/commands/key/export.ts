import { closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import type { Command } from "commander";
import { KeysExported, type SealedKey } from "../../../protocol/keys.ts";
import { type ArchiveKeys, archiveText, newArchiveKeys, type SealOptions } from "../../files/key-archive.ts";
import type { Client } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";
import { withSealOptions } from "./seal-options.ts";

/** `sluice key export` */
export function addKeyExport(group: Command): void {
  const command = group
    .command("export")
    .description(
      "Writes all access keys with their secrets into a file, sealed with a passphrase or a key: they are in D1 alone, and nothing else can bring them back. The gateway seals each before it answers. Keep the file and what it is sealed with apart. The root key is not among them.",
    )
    .argument("<file>", "a new file, which only you may read")
    .action((file: string, options: ClientOptions & SealOptions) =>
      withClient(options, async (client) => {
        const seal = newArchiveKeys(options);
        // First, so that a file that is there is found before a secret is opened.
        const written = openSync(file, "wx", 0o600);
        const { keys, unreadable } = await writeTo(written, file, () => exportAll(client, seal), seal);
        if (options.json) printJson({ file, exported: keys.map(({ id }) => id), unreadable });
        else printLine(`${count(keys.length, "key")} exported to ${file}`);
        if (unreadable.length === 0) return;
        throw new CliError(
          `${count(unreadable.length, "key")} can't be opened with any encryption key that the gateway has, and ${unreadable.length === 1 ? "is" : "are"} not in the file`,
          { code: "NotExported", issues: unreadable.map((id) => ({ path: id, message: "can't be opened" })) },
        );
      }),
    );
  withClientOptions(
    withSealOptions(command),
    "sluice key export keys.json --passphrase-file passphrase",
    "openssl rand -base64 32 > export.key && sluice key export keys.json --key-file export.key",
  );
}

/** What can't be written whole is not there. */
async function writeTo<T extends { keys: readonly SealedKey[] }>(
  descriptor: number,
  file: string,
  load: () => Promise<T>,
  seal: ArchiveKeys,
): Promise<T> {
  try {
    const all = await load();
    writeSync(descriptor, archiveText(all.keys, seal));
    fsyncSync(descriptor);
    return all;
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

async function exportAll(client: Client, { sealing }: ArchiveKeys): Promise<Omit<KeysExported, "next">> {
  const all = { keys: [] as SealedKey[], unreadable: [] as string[] };
  for (let after: string | null | undefined; after !== null; ) {
    const page: KeysExported = await client.call(KeysExported, {
      ...{ method: "POST", path: "/keys/export", json: { sealWith: sealing, after }, repeatable: true },
    });
    all.keys.push(...page.keys);
    all.unreadable.push(...page.unreadable);
    after = page.next;
  }
  return all;
}
