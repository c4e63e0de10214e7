import type { Command } from "../../command.ts";
import { type Address, parseFileAddress } from "../../gateway/address.ts";
import { wholeId } from "../../gateway/ids/at-commit.ts";
import { headFile, printFile } from "../../gateway/objects.ts";
import type { ClientOptions } from "../../options.ts";
import { printJson } from "../../output/output.ts";

export function addCat(program: Command): void {
  program
    .command("cat")
    .summary("print a file")
    .description("Prints a file's bytes; with --json what is known about it instead.")
    .argument("<file>", "s3://<branch>.<repo>/<path>", parseFileAddress)
    .option("--commit <id>", "the file as of that commit or tag")
    .clientAction(async (client, address: Address, options: ClientOptions & { readonly commit?: string }) => {
      const commit = options.commit && (await wholeId(client, address, options.commit));
      if (options.json) {
        const info = await headFile(client, address, commit);
        printJson({ bucket: address.bucket, path: address.path, ...info });
        return;
      }
      await printFile(client, address, commit);
    })
    .clientOptions(
      "sluice cat s3://master.report/report.txt",
      "sluice cat --commit 01KAR… s3://master.report/report.txt",
      "sluice cat s3://v1.master.report/report.txt",
    );
}
