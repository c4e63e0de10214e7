import type { Command } from "commander";
import { PASSPHRASE_VARIABLE } from "../../files/key-archive.ts";

/** Adds the ways to say what an export of keys is sealed with. */
export function withSealOptions(command: Command): Command {
  return command
    .option(
      "--passphrase-file <file>",
      `file with the passphrase; without it and --key-file, ${PASSPHRASE_VARIABLE} is read`,
    )
    .option("--key-file <file>", "file with the base64 of 32 random bytes, instead of a passphrase");
}
