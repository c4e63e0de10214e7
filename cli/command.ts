import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command as Commander, Option } from "commander";
import type { Client } from "./gateway/client.ts";
import { type ConnectionOptions, DEFAULT_DATA, openConnection } from "./gateway/connection/connection.ts";
import { addMeta, name, namedJob, type PageSizes, saidOf, wholeNumber } from "./options.ts";

const PACKAGE = join(import.meta.dirname, "../package.json");

/** The release that this is. */
export function ownVersion(): string {
  const { version } = JSON.parse(readFileSync(PACKAGE, "utf8")) as { version: string };
  return version;
}

/** A command, with the options that many of them share. They stand in the help in the order in which they are added. */
export class Command extends Commander {
  declare readonly commands: readonly Command[];

  override createCommand(called?: string): Command {
    return new Command(called);
  }

  /** A command of several, which have no `help` of their own. */
  group(called: string): Command {
    return this.command(called).helpCommand(false) as Command;
  }

  holds(...adds: readonly ((group: Command) => void)[]): void {
    for (const add of adds) add(this);
  }

  /** Runs the command with a client of the gateway that its options name. What is typed is parsed before. */
  clientAction(act: (client: Client, ...args: never[]) => Promise<void>): this {
    return this.action((...args) => withClient(this.opts(), (client) => act(client, ...(args as never[]))));
  }

  /** `--limit`, `--all` and `--after`. */
  pageOptions({ byDefault, most }: PageSizes, { of, place = "id" }: { of: string; place?: string }): this {
    return this.option(
      "--limit <number>",
      `at most so many, up to ${most} (default: ${byDefault} on a terminal, else all)`,
      wholeNumber({ min: 1, max: most }),
    )
      .addOption(new Option("--all", "all of them, on a terminal too").conflicts("limit"))
      .option(`--after <${place}>`, `go on after this ${of} of an earlier list`);
  }

  /** `--message` and `--meta` of the commit that the command makes: its options have them as `said`. */
  commitOptions(): this {
    const read = (): void => void this.setOptionValue("said", saidOf(this.opts()));
    return this.hook("preAction", read)
      .option("--message <text>", "say what the commit is for; kept with it, for all who may read the branch")
      .option("--meta <key=value>", "keep this with the commit as well; may be repeated", addMeta);
  }

  /** `[id]` and `--pipeline`, which both name a job: the command's options have it as `job`. */
  jobArgument(): this {
    const read = (): void => void this.setOptionValue("job", namedJob(this.args[0], this.opts()));
    return this.hook("preAction", read)
      .argument("[id]", "the job, or how its id begins")
      .option("--pipeline <name>", "the newest job of this pipeline", name);
  }

  /** `--timeout` of a command that waits for jobs. */
  timeoutOption(): this {
    return this.option(
      "--timeout <seconds>",
      "wait no longer than this (default: until it has ended)",
      wholeNumber({ min: 1, max: 7 * 24 * 3600 }),
    );
  }

  /** `--json` and what names the gateway, and examples at the end of the help. */
  clientOptions(...examples: readonly string[]): this {
    const data = new Option(
      "--data <folder>",
      `the gateway of this machine with this data folder, and its key (default: ${DEFAULT_DATA}, if no variable names another)`,
    ).conflicts(["context", "endpoint"]);
    return this.jsonOption()
      .addOption(data)
      .gatewayOptions()
      .examples(...examples);
  }

  /** `--context` and `--endpoint`. */
  gatewayOptions(): this {
    return this.addOption(
      new Option("--context <name>", "the gateway and key that 'sluice context add' keeps by this name")
        .argParser(name)
        .conflicts("endpoint"),
    ).option("--endpoint <url>", "the gateway at this address, with the key that is set or kept for it");
  }

  jsonOption(): this {
    return this.option("--json", "print JSON, also for errors");
  }

  examples(...examples: readonly string[]): this {
    const lines = examples.map((example) => `  $ ${example}`).join("\n");
    return this.addHelpText("after", `\nExamples:\n${lines}`);
  }
}

/** Runs a command with a client of the gateway that the options and the environment name. */
export async function withClient<T>(
  options: ConnectionOptions,
  act: (client: Client) => Promise<T>,
): Promise<T> {
  // Loaded only here: help and completion need no client.
  const { Client, GatewayError } = await import("./gateway/client.ts");
  const client = new Client(openConnection(options));
  try {
    return await act(client);
  } catch (error) {
    if (!(error instanceof GatewayError && error.status === 404)) throw error;
    const { explained } = await import("./gateway/ids/did-you-mean.ts");
    throw await explained(client, error);
  } finally {
    await client.close();
  }
}
