import type { Help } from "commander";
import { Command, ownVersion } from "./command.ts";

/** Prints help: to `out` if a user asked for it, to `err` if a group was called without a command. */
export interface HelpOutput {
  out(text: string): void;
  err(text: string): void;
}

/** Every command, by its name, in the order of the help. Each is loaded when it is needed: loading all takes longer than most take to run. */
const COMMANDS: Readonly<Record<string, () => Promise<(program: Command) => void>>> = {
  dev: async () => (await import("./commands/service/machine.ts")).addDev,
  runner: async () => (await import("./commands/service/machine.ts")).addRunner,
  env: async () => (await import("./commands/service/whoami.ts")).addEnv,
  whoami: async () => (await import("./commands/service/whoami.ts")).addWhoAmI,
  doctor: async () => (await import("./commands/service/machine.ts")).addDoctor,
  status: async () => (await import("./commands/service/status.ts")).addStatus,
  support: async () => (await import("./commands/service/machine.ts")).addSupport,
  fsck: async () => (await import("./commands/service/fsck.ts")).addFsck,
  completion: async () => (await import("./commands/service/completion.ts")).addCompletion,
  pipeline: async () => (await import("./commands/pipeline/pipeline.ts")).addPipeline,
  job: async () => (await import("./commands/job/job.ts")).addJob,
  datum: async () => (await import("./commands/datum.ts")).addDatum,
  commit: async () => (await import("./commands/commit/commit.ts")).addCommit,
  tag: async () => (await import("./commands/tag.ts")).addTag,
  repo: async () => (await import("./commands/repo/repo.ts")).addRepo,
  branch: async () => (await import("./commands/branch.ts")).addBranch,
  node: async () => (await import("./commands/node.ts")).addNode,
  key: async () => (await import("./commands/key.ts")).addKey,
  context: async () => (await import("./commands/context.ts")).addContext,
  admin: async () => (await import("./commands/admin.ts")).addAdmin,
  mb: async () => (await import("./commands/objects/buckets.ts")).addMb,
  rb: async () => (await import("./commands/objects/buckets.ts")).addRb,
  ls: async () => (await import("./commands/objects/ls.ts")).addLs,
  cp: async () => (await import("./commands/objects/cp.ts")).addCp,
  sync: async () => (await import("./commands/objects/sync.ts")).addSync,
  mv: async () => (await import("./commands/objects/cp.ts")).addMv,
  cat: async () => (await import("./commands/objects/cat.ts")).addCat,
  rm: async () => (await import("./commands/objects/rm.ts")).addRm,
  file: async () => (await import("./commands/file/erase.ts")).addFile,
};

/**
 * Runs one command line (without `node` and the script). Throws failures, and prints none of them. If the first word is
 * no command, all are loaded, so that help lists them and a misspelled one is answered with the nearest.
 */
export async function runProgram(given: readonly string[], { out, err }: HelpOutput): Promise<void> {
  const version = ownVersion();
  const program = new Command("sluice")
    .description("Versioned object storage that speaks S3, and pipelines that run when data lands.")
    .version(version)
    .exitOverride()
    // Behind a command, --version is an option of that.
    .enablePositionalOptions()
    .configureOutput({ writeOut: out, writeErr: err, outputError: () => {} })
    // What groups are made with as well: their lists are short, and the rest stands in the help of each command.
    .configureHelp({
      subcommandTerm: termOf,
      subcommandDescription: (command) => command.summary() || gistOf(command),
    })
    .helpCommand(false)
    .examples(
      "sluice dev",
      "sluice mb s3://master.images",
      "sluice cp -r photos s3://master.images/",
      "sluice pipeline create -f edges.json",
      "sluice job list --pipeline edges",
    )
    .addHelpText(
      "after",
      "\nThe gateway and the key come from one place, the first that is there: --data or --context; the variables\nSLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY; the folder .sluice of a gateway on this\nmachine; the context in use ('sluice context'); the AWS_ variables, if AWS_ENDPOINT_URL is set.\n\nExit codes: 0 done, 1 refused or failed, 2 something was typed wrong, 3 a job failed, 4 a datum that\nwas run again made something else, 5 a job was stopped, 6 time is up, 7 what was named is not there,\n8 no gateway answers, 9 a disk is full.",
    );
  // `sluice help job wait` is `sluice job wait --help`.
  const args = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  const [named = ""] = args;
  // What a shell completes is all of them.
  const isOne = Object.hasOwn(COMMANDS, named) && named !== "completion";
  const wanted = isOne ? [COMMANDS[named]] : Object.values(COMMANDS);
  // The version is no command's.
  if (named === "--version" || named === "-V") wanted.length = 0;
  for (const add of await Promise.all(wanted.map((load) => load?.()))) add?.(program);
  for (const group of program.commands) addAliases(group);
  for (const group of [program, ...program.commands]) sayMore(group);
  await program.parseAsync(args, { from: "user" });
}

/** How a command stands in a list of them: its name and its shorter one. */
function termOf(command: Parameters<Help["subcommandTerm"]>[0]): string {
  return [command.name(), ...command.aliases()].join(", ");
}

/** What a command does, in the first words of its description. */
function gistOf(command: Parameters<Help["subcommandDescription"]>[0]): string {
  return command.description().replace(/[.:;]\s.*|[.]$/s, "");
}

/** Says where the options and examples of the commands of a group are. */
function sayMore(group: Command): void {
  if (group.commands.length === 0) return;
  const words = [group.parent?.name() ?? "", group.name()].join(" ").trim();
  group.addHelpText("after", `\n'${words} <command> --help' has the options of a command, and examples.`);
}

/** Shorter words, for those who are used to them. */
const ALIASES: Readonly<Record<string, string>> = { list: "ls", inspect: "get", delete: "rm" };

function addAliases(group: Command): void {
  for (const command of group.commands) {
    const alias = ALIASES[command.name()];
    if (alias !== undefined) command.alias(alias);
  }
}
