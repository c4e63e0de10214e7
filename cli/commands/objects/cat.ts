import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { parseFileAddress } from "../../gateway/address.ts";
import { withClient } from "../../gateway/client.ts";
import { getFile, headFile } from "../../gateway/objects.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson } from "../../output/output.ts";

/** `sluice cat` */
export function addCat(program: Command): void {
  const command = program
    .command("cat")
    .summary("print a file")
    .description("Prints a file's bytes; with --json what is known about it instead.")
    .argument("<file>", "s3://<branch>.<repo>/<path>")
    .option("--commit <id>", "the file as of that commit")
    .action((text: string, options: ClientOptions & { readonly commit?: string }) => {
      const address = parseFileAddress(text);
      return withClient(options, async (client) => {
        if (options.json) {
          const info = await headFile(client, address, options.commit);
          printJson({ bucket: address.bucket, path: address.path, ...info });
          return;
        }
        const answer = await getFile(client, address, options.commit);
        await pipeline(answer.body, process.stdout, { end: false });
      });
    });
  withClientOptions(
    command,
    "sluice cat s3://master.report/report.txt",
    "sluice cat --commit 01KAR… s3://master.report/report.txt",
    "sluice cat s3://v1.master.report/report.txt",
  );
}
