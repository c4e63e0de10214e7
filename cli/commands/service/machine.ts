import { Option } from "commander";
import type { Command } from "../../command.ts";
import type { DoctorOptions } from "../../doctor/run-doctor.ts";
import { DEFAULT_DATA } from "../../gateway/connection/connection.ts";
import type { DevOptions } from "../../local/run-dev.ts";
import type { RunnerOptions } from "../../local/run-runner.ts";
import { withRunnerTerms } from "../../local/runner-config.ts";
import { wholeNumber } from "../../options.ts";
import type { SupportOptions } from "../../support/run-support.ts";

/* Commands about this machine. What each does is loaded when it runs: it is heavy, and the other commands should start at once. */

const MAX_RUNNERS = 64;

export function addDev(program: Command): void {
  const command = program
    .command("dev")
    .summary("run a gateway and runners on this machine")
    .description(
      "Runs the whole service in the foreground: the gateway, its data in a folder, and runners for pipelines. If no container engine answers here, commands run as processes with your rights, unless --wait-for-engine says to wait for one; the greeting says which it is. The first Ctrl-C lets the runners finish the datums at work and stops, the second stops those too.\n\nThe root key is SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY; if they are not set, one is made at the first start and kept in the data folder.\n\nMore variables: SLUICE_DOMAIN (buckets are also reached as <bucket>.<domain>), SLUICE_UPLOAD_DAYS (days after which an abandoned multipart upload goes; 7), SLUICE_KEEP_JOBS (how many of the newest jobs of each pipeline are listed; 10000), SLUICE_SESSION_TTL (the time after which an open commit goes to which nothing is added; 24h) and SLUICE_SESSION_MAX_TTL (the longest that may be asked for; 168h), SLUICE_KEEP (how much of their history new buckets keep: commits:<n>, days:<n>, both with a comma between, or all, the default), SLUICE_DELETE (empty-only: S3 tools delete new buckets only while they are empty; any), SLUICE_READ_MEMORY (off: each GET and HEAD asks its branch, also if nothing changed since it was read before; on), SLUICE_LAST_MODIFIED (whose time Last-Modified is: branch, the default, or object), SLUICE_BRANCH_BYTES (what the rows of one branch may take up; 10000000000 bytes), SLUICE_DISK_ENCRYPTED (on: the disk encrypts with AES-256 what is on it), SLUICE_REQUEST_LOG (on: each request is a line in the log; off), SLUICE_LOG (the least that is logged: debug, info, warn or error; info), SLUICE_ENCRYPTION_KEY (the base64 of 32 bytes, which encrypts the secrets of access keys; else one is made and kept in the data folder). SLUICE_ACCESS_KEY_ID_PREVIOUS, SLUICE_SECRET_ACCESS_KEY_PREVIOUS and SLUICE_ENCRYPTION_KEY_PREVIOUS hold the keys from before while they are being changed.\n\nIts runners have a key of their own, which is made anew at each start and allows what runners do.",
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--port <number>",
      "port to listen on; 0 takes a free one",
      wholeNumber({ min: 0, max: 65535 }),
      8787,
    )
    .option("--data <folder>", "everything that lasts is in this folder", DEFAULT_DATA)
    .option(
      "--runners <number>",
      `how many runners, up to ${MAX_RUNNERS}; 0 is the gateway alone`,
      wholeNumber({ min: 0, max: MAX_RUNNERS }),
      1,
    )
    .option(
      "--body-limit <bytes>",
      "refuse larger bodies in front of the gateway, as Cloudflare does (100 MB on most plans); to try clients",
      wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    )
    .addOption(
      new Option(
        "--sync <when>",
        "whether files are on the disk before they are acknowledged; with off, a power cut may lose those of the last seconds that are over 4 KiB (default: on, env: SLUICE_SYNC)",
      ).choices(["on", "off"]),
    )
    .action(async (options: DevOptions) => (await import("../../local/run-dev.ts")).runDev(options));
  withRunnerTerms(command)
    .jsonOption()
    .examples("sluice dev", "sluice dev --port 9000 --data /srv/sluice", "sluice dev --runners 0");
}

export function addRunner(program: Command): void {
  const command = program
    .command("runner")
    .summary("run the datums of pipelines on this machine, as one node of a gateway")
    .description(
      "Runs the datums of pipelines in the foreground, as one node of a gateway. Commands run in containers: if no container engine answers at the start, it ends with 2, unless --executor process says that commands may be processes with the rights of this user, or --wait-for-engine to wait for one. An engine that goes away later is waited for. The first Ctrl-C lets it finish the datums at work, the second stops them.\n\nSLUICE_ENDPOINT says where the gateway is. SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY hold a key of level runner, as 'sluice key create --level runner' makes it.\n\nA secret says which pipelines it serves, in the file <name>.pipelines beside its folder or in the annotation sluice/pipelines. SLUICE_KEY_SECRET names the secret that the runner's own key comes from, if it comes from one: no pipeline gets that.",
    )
    .option(
      "--node <name>",
      "this node's name, unique among the nodes of the gateway (default: SLUICE_NODE, else the host's name)",
    )
    .option("--data <folder>", "folder for the cache and the datums at work", `${DEFAULT_DATA}/runner`)
    .action(async (options: RunnerOptions) => (await import("../../local/run-runner.ts")).runRunner(options));
  withRunnerTerms(command)
    .gatewayOptions()
    .jsonOption()
    .examples(
      "sluice runner --executor docker",
      "SLUICE_ENDPOINT=https://sluice.example.org sluice runner --executor process --node edge-7",
      "sluice runner --executor process --secrets kubernetes:production --hide /srv/ledger",
      "sluice runner --executor docker --network none --memory 4g --cpus 2 --cache-size 100g",
    );
}

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .summary("tell what this machine lacks to run datums")
    .description(
      "Tells what a runner that is started here with the same options and environment would have: the ways to run commands, each really tried, room for its data, and the gateway with its key. Also names background jobs of the gateway that fail, and databases of it that are almost full. Ends with 1 if something is missing that it can't do without.",
    )
    .option("--data <folder>", "the runner's data folder", `${DEFAULT_DATA}/runner`)
    .action(async (options: DoctorOptions) =>
      (await import("../../doctor/run-doctor.ts")).runDoctor(options),
    );
  withRunnerTerms(command)
    .gatewayOptions()
    .jsonOption()
    .examples(
      "sluice doctor",
      "sluice doctor --executor docker --data /var/lib/sluice --cache-size 100g",
      "sluice doctor --json | jq '.findings[] | select(.state != \"ok\")'",
    );
}

export function addSupport(program: Command): void {
  program
    .command("support")
    .summary("write all that helps to find out what is wrong into one file")
    .description(
      "Writes one file for whoever is to find out what is wrong: what 'sluice doctor' finds, versions, settings, what is under way and what it waits for, pipelines, jobs and nodes in short, and the newest lines of the gateway's log. Secrets are taken out; names of repos, files and nodes stay. README.txt in it says what it has. Also works if no gateway answers: then it has what this machine tells, and the log of the data folder that --data names.",
    )
    .option(
      "--out <file>",
      "the file to write; it must not be there yet (default: sluice-support-<time>.tar.gz)",
    )
    .action(async (options: SupportOptions) =>
      (await import("../../support/run-support.ts")).runSupport(options),
    )
    .clientOptions("sluice support", "sluice support --data /srv/sluice --out /tmp/tonight.tar.gz");
}
