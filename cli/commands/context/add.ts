import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text as readAll } from "node:stream/consumers";
import type { Command } from "commander";
import { AccessKey } from "../../../embedded/data/keys.ts";
import { checkEndpoint } from "../../gateway/connection/connection.ts";
import { type Context, keepContext } from "../../gateway/connection/contexts.ts";
import { name as nameOf, withExamples, withJson } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine } from "../../output/output.ts";

interface Options {
  readonly endpoint?: string;
  readonly key?: string;
  readonly json?: true;
}

/** `sluice context add` */
export function addContextAdd(group: Command): void {
  const command = group
    .command("add")
    .description(
      "Keeps the address of a gateway and a key for it by a name; one of the same name is replaced. Without --key both halves of the key are SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY; with it, the secret is read from standard input. It is never an argument, which others on this machine could see. Nothing is sent to the gateway: 'sluice whoami --context <name>' tries it.",
    )
    .argument("<name>", "letters, digits, '_' and '-'", nameOf)
    .option("--endpoint <url>", "the gateway's address (default: SLUICE_ENDPOINT)")
    .option("--key <id>", "the id of the key, whose secret comes on standard input")
    .action(async (name: string, options: Options) => {
      const context = await contextOf(options);
      keepContext(name, { context, env: process.env });
      const { endpoint, accessKeyId } = context;
      if (options.json) printJson({ name, endpoint, accessKeyId });
      else
        printLine(
          `kept ${name}: ${endpoint} with the key ${accessKeyId}; 'sluice context use ${name}' puts it in use`,
        );
    });
  withExamples(
    withJson(command),
    "(. ./camera.env && sluice context add camera)",
    "sluice context add prod --endpoint https://sluice.example.org --key SLUICE0123456789ABCD < secret.txt",
  );
}

async function contextOf({ endpoint: told, key }: Options): Promise<Context> {
  const { SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID, SLUICE_SECRET_ACCESS_KEY } = process.env;
  const address = told ?? SLUICE_ENDPOINT;
  if (!address) throw new UsageError("the address is missing: give --endpoint, or set SLUICE_ENDPOINT");
  const endpoint = checkEndpoint(told === undefined ? "SLUICE_ENDPOINT" : "--endpoint", address);
  const halves =
    key === undefined
      ? { accessKeyId: SLUICE_ACCESS_KEY_ID, secretAccessKey: SLUICE_SECRET_ACCESS_KEY }
      : { accessKeyId: key, secretAccessKey: await secretFromInput() };
  const parsed = AccessKey.safeParse(halves);
  if (parsed.success) return { endpoint, ...parsed.data };
  throw new UsageError(
    key === undefined
      ? "the key is missing: set SLUICE_ACCESS_KEY_ID (3 characters at least) and SLUICE_SECRET_ACCESS_KEY (8 at least), or give --key and the secret on standard input"
      : "--key takes an id of 3 characters at least, and standard input the secret, of 8 at least",
  );
}

/** The first line of standard input. A person is asked for it, and what is typed is not shown. */
async function secretFromInput(): Promise<string> {
  const { stdin, stderr } = process;
  if (!stdin.isTTY) return (await readAll(stdin)).split(/\r?\n/, 1)[0]?.trim() ?? "";
  stderr.write("Secret: ");
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: unseen, terminal: true });
  const ended = new AbortController();
  for (const event of ["SIGINT", "close"] as const) lines.once(event, () => ended.abort());
  try {
    return (await lines.question("", { signal: ended.signal })).trim();
  } catch {
    throw new UsageError("no secret was given; nothing was kept");
  } finally {
    lines.close();
    stderr.write("\n");
  }
}
