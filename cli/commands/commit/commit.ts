import { InvalidArgumentError } from "commander";
import { CommitRedacted } from "../../../protocol/commits.ts";
import { Duration } from "../../../protocol/duration.ts";
import { RevertEnd } from "../../../protocol/files.ts";
import { bucketName, type ViewAddress, viewBucket } from "../../../protocol/names.ts";
import type { Command } from "../../command.ts";
import { type Address, parseBucketAddress, parseOpenCommit, viewText } from "../../gateway/address.ts";
import { type CommitAddress, commitsPath, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { abortOpenCommit, finishOpenCommit, startOpenCommit } from "../../gateway/open-commits.ts";
import { type AnnotationOptions, type ClientOptions, says } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine, printNote, showTime } from "../../output/output.ts";
import { addCommitDiff } from "./diff.ts";
import { addCommitInspect } from "./inspect.ts";
import { addCommitList } from "./list.ts";
import { addCommitWait } from "./wait.ts";

export function addCommit(program: Command): void {
  program
    .group("commit")
    .summary(
      "list, inspect, compare, revert, redact commits; open, finish, abort those of many files; wait for their jobs",
    )
    .description("Commits: each is one change of a branch, seen whole or not at all.")
    .holds(
      addCommitList,
      addCommitInspect,
      addCommitDiff,
      addCommitStart,
      addCommitFinish,
      addCommitAbort,
      addCommitRevert,
      addCommitRedact,
      addCommitWait,
    );
}

interface StartOptions extends ClientOptions, AnnotationOptions {
  readonly ttl?: string;
}

function addCommitStart(group: Command): void {
  group
    .command("start")
    .description(
      "Opens a commit and prints its bucket. Any S3 tool, and sluice cp and rm, may fill it with any number of puts and deletes; nothing of it is seen in the branch until it is finished.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://", branchToOpen)
    .option(
      "--ttl <time>",
      "forget it when nothing is added for so long, such as 30m or 24h (default: what the gateway is set to)",
      duration,
    )
    .clientAction(async (client, address: Address, options: StartOptions) => {
      const { ttl, said } = options;
      const opened = await startOpenCommit(client, { ...address, ttl, said });
      if (options.json) return printJson(opened);
      const bucket = `s3://${opened.bucket}`;
      printLine(bucket);
      printNote(
        `fill it, e.g. with 'aws s3 sync <folder> ${bucket}' or 'sluice cp -r <folder> ${bucket}', then run 'sluice commit finish ${bucket}'`,
      );
    })
    .commitOptions()
    .clientOptions(
      "sluice commit start s3://master.images",
      "open=$(sluice commit start s3://master.images) && aws s3 sync photos $open && sluice commit finish $open",
    );
}

function branchToOpen(text: string): Address {
  const address = parseBucketAddress(text);
  if (address.view === undefined) return address;
  throw new UsageError(
    `'${text}' is the bucket of ${viewText(address.view)} already: name the branch, s3://${bucketName(address)}`,
  );
}

function duration(value: string): string {
  const parsed = Duration.safeParse(value);
  if (parsed.success) return value;
  throw new InvalidArgumentError(`It ${parsed.error.issues[0]?.message}.`);
}

function addCommitFinish(group: Command): void {
  group
    .command("finish")
    .description(
      "Makes one commit of an open commit, however large it is, and prints the commit's id. Done again, it prints the same. If a write into it had a condition (If-Match, If-None-Match) and the branch has changed there since, nothing is committed, the paths are printed and the open commit stays open.",
    )
    .argument(
      "<open commit>",
      "its bucket, as 'sluice commit start' printed it; with or without s3://",
      parseOpenCommit,
    )
    .clientAction(async (client, open: ViewAddress, options: ClientOptions & AnnotationOptions) => {
      const { said } = options;
      const commit = await finishOpenCommit(client, { ...open, ...(says(said) && { said }) });
      if (options.json) printJson({ commit });
      else printLine(commit ?? "nothing changed: no commit was made");
    })
    .commitOptions()
    .clientOptions(
      "sluice commit finish s3://01kar….master.images",
      "sluice commit finish s3://01kar….master.images --message 'spring survey' --meta camera=k7",
      "sluice commit finish s3://01kar….master.images --json",
    );
}

function addCommitAbort(group: Command): void {
  group
    .command("abort")
    .description("Forgets an open commit and all that was put into it. Does nothing if it is gone already.")
    .argument(
      "<open commit>",
      "its bucket, as 'sluice commit start' printed it; with or without s3://",
      parseOpenCommit,
    )
    .clientAction(async (client, open: ViewAddress, options: ClientOptions) => {
      await abortOpenCommit(client, open);
      if (options.json) printJson({ aborted: open.view });
      else printLine(`aborted s3://${viewBucket(open)}`);
    })
    .clientOptions("sluice commit abort s3://01kar….master.images");
}

function addCommitRevert(group: Command): void {
  group
    .command("revert")
    .description(
      "Makes one commit with the files of an earlier one, and prints its id: what was written since is gone from the newest state and stays in the history. Other writes wait until it is made: each is reverted or comes after it. If nothing differs, no commit is made.",
    )
    .argument(
      "<bucket@commit>",
      "<branch>.<repo>@<commit or tag>, with or without s3://",
      namedCommit("the commit to go back to"),
    )
    .clientAction(async (client, address: NamedCommit, options: ClientOptions & AnnotationOptions) => {
      const { said } = options;
      const { repo, branch, bucket, commit: named } = address;
      const target = await commitId(client, address, named);
      const begun = await client.post(RevertEnd, `${commitsPath(address)}/${target}/revert`, {
        ...(says(said) && { json: said }),
      });
      const commit =
        begun.state === "finished"
          ? begun.commit
          : await finishOpenCommit(client, { repo, branch, view: begun.session });
      if (options.json) printJson({ commit });
      else printLine(commit ?? `s3://${bucket} has the files of ${named} already: no commit was made`);
    })
    .commitOptions()
    .clientOptions(
      "sluice commit revert master.images@01KAR…",
      "sluice commit revert master.images@01KAR… --message 'the labels were wrong'",
      "sluice commit revert master.images@01KAR… --json | jq -r .commit",
    );
}

function addCommitRedact(group: Command): void {
  group
    .command("redact")
    .description(
      "Takes the message and the metadata out of a commit for good, such as a name or a password in them. Its id, its time, its key and its files stay, and it shows who redacted it and when. Needs admin; of a protected branch, its writer. On one machine the file of the branch has the message until the gateway starts again, or until 'sluice admin scrub'.\n\nExports that are under way end. Archives that were made before still have the message, and so has whoever has read it.",
    )
    .argument(
      "<bucket@commit>",
      "<branch>.<repo>@<commit or tag>, with or without s3://",
      namedCommit("the commit"),
    )
    .clientAction(async (client, address: NamedCommit, options: ClientOptions) => {
      const target = await commitId(client, address, address.commit);
      const path = `${commitsPath(address)}/${target}/redact`;
      const done = await client.post(CommitRedacted, path, { repeatable: true });
      if (options.json) printJson(done);
      else printLine(redactedText(done));
    })
    .clientOptions(
      "sluice commit redact master.people@01KAR…",
      "sluice commit redact master.people@v1 --json",
    );
}

type NamedCommit = Required<Pick<CommitAddress, "repo" | "branch" | "bucket" | "commit">>;

/** A parser of a commit that must be named. `which`: what it is for. */
function namedCommit(which: string): (text: string) => NamedCommit {
  return (text) => {
    const { commit, ...address } = parseCommitAddress(text);
    if (commit !== undefined) return { ...address, commit };
    throw new UsageError(
      `'${text}' must name ${which}: <branch>.<repo>@<commit or tag>; 'sluice commit list ${address.bucket}' shows those there are`,
    );
  };
}

function redactedText({ commit, redacted, change }: CommitRedacted): string {
  if (redacted === null) return `${commit} has no message and no metadata: nothing was redacted`;
  if (change === "redacted") return `redacted ${commit}`;
  return `${commit} was redacted before: ${showTime(redacted.at)} by ${redacted.by}`;
}
