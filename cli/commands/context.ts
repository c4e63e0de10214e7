import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text as readAll } from "node:stream/consumers";
import { AccessKey } from "../../embedded/data/keys.ts";
import type { Command } from "../command.ts";
import { checkEndpoint } from "../gateway/connection/connection.ts";
import {
  type Context,
  contextInUse,
  contextNames,
  keepContext,
  readContext,
  removeContext,
  useContext,
} from "../gateway/connection/contexts.ts";
import { name as nameOf } from "../options.ts";
import { CliError, UsageError } from "../output/failure.ts";
import { printJson, printLine, printNote, printTable } from "../output/output.ts";

export function addContext(program: Command): void {
  program
    .group("context")
    .summary("keep the addresses and keys of several gateways by name")
    .description(
      "Gateways by name, each with its key, in your configuration folder (~/.config/sluice). The one in use serves where no option, no SLUICE_ variable and no folder .sluice names a gateway.",
    )
    .holds(addContextAdd, addContextUse, addContextList, addContextRemove);
}

interface Options {
  readonly endpoint?: string;
  readonly key?: string;
  readonly json?: true;
}

function addContextAdd(group: Command): void {
  group
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
    })
    .jsonOption()
    .examples(
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

function addContextUse(group: Command): void {
  group
    .command("use")
    .description("Puts a context in use, in place of the one that was.")
    .argument("<name>", "as 'sluice context list' shows it", nameOf)
    .action((name: string, { json }: { json?: true }) => {
      useContext(name, process.env);
      if (json) printJson({ name });
      else printLine(`${name} is in use`);
    })
    .jsonOption()
    .examples("sluice context use prod");
}

function addContextList(group: Command): void {
  group
    .command("list")
    .description("Lists the contexts, with '*' at the one in use. No secret is shown.")
    .action(({ json }: { json?: true }) => {
      const inUse = contextInUse(process.env);
      const contexts = contextNames(process.env).flatMap((name) => listed(name, inUse));
      if (json) return printJson({ contexts });
      if (contexts.length === 0) return printNote("no contexts: 'sluice context add' keeps one");
      printTable([
        ["", "NAME", "ENDPOINT", "KEY"],
        ...contexts.map(({ name, endpoint, accessKeyId, inUse }) => [
          inUse ? "*" : "",
          name,
          endpoint,
          accessKeyId,
        ]),
      ]);
    })
    .jsonOption()
    .examples("sluice context list");
}

interface Listed {
  readonly name: string;
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly inUse: boolean;
}

/** One that can't be used does not keep the others from being listed. */
function listed(name: string, inUse: string | undefined): Listed[] {
  try {
    const { endpoint, accessKeyId } = readContext(name, process.env);
    return [{ name, endpoint, accessKeyId, inUse: name === inUse }];
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    printNote(error.message);
    return [];
  }
}

function addContextRemove(group: Command): void {
  group
    .command("remove")
    .description("Removes a context. The key stays good: 'sluice key delete' ends it.")
    .argument("<name>", "as 'sluice context list' shows it", nameOf)
    .action((name: string, { json }: { json?: true }) => {
      if (!removeContext(name, process.env)) {
        throw new CliError(`there is no context ${name}: 'sluice context list' shows those there are`, {
          code: "NoSuchContext",
        });
      }
      if (json) printJson({ name });
      else printLine(`removed ${name}`);
    })
    .jsonOption()
    .examples("sluice context remove prod");
}
